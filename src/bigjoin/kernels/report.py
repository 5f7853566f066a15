"""Report: of all the forms that symmetries give to a match, write the one that satisfies the restrictions."""

from __future__ import annotations

from bigjoin.kernels.jit import kernel


@kernel
def report_forms(found, sources, smaller, larger, reported):
    """Permute each column of `found` such that reported[smaller[r]] < reported[larger[r]] for every r.

    sources[s, k] is the row of `found` that permutation s moves to row k. Exactly one permutation fits.
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
