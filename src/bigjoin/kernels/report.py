"""Report: of the forms that symmetries give a match, write the one that satisfies all restrictions."""

from __future__ import annotations

from bigjoin.kernels.jit import kernel


@kernel
def report_forms(found, sources, smaller, larger, reported):
    """Write each column of `found` so renamed that reported[smaller[r]] < reported[larger[r]] for every r.

    Row s of `sources` says which row of `found` each row of a renaming comes from; exactly one renaming fits.
    """
    for i in range(found.shape[1]):
        for s in range(len(sources)):
            fits = True
            for r in range(len(smaller)):
                if found[sources[s, smaller[r]], i] >= found[sources[s, larger[r]], i]:
                    fits = False
                    break
            if fits:
                for k in range(len(found)):
                    reported[k, i] = found[sources[s, k], i]
                break
