"""Runs: neighbouring prefixes that agree on everything a step reads. They have the same extensions, which are found once."""

from __future__ import annotations

from bigjoin.kernels.jit import kernel


@kernel
def first_of_runs(prefixes, rows, firsts):
    """Set firsts[i] to whether prefix i differs from the one before it in one of the rows."""
    for i in range(len(firsts)):
        differs = i == 0
        for row in rows:
            differs = differs or prefixes[row, i] != prefixes[row, i - 1]
        firsts[i] = differs
