"""Soundness: tell whether arrays from a file can be trusted, since all other kernels read them without checking bounds.

Offsets never decrease and end where the values do; lists increase strictly and stay below the size of their domain; ranks are
a permutation.
"""

from __future__ import annotations

from bigjoin.kernels.jit import kernel
from bigjoin.kernels.lists import position_of


@kernel
def measured_lists(offsets, length):
    """Return how many lists are not empty, the sum of their squared lengths, and the length of the longest.

    The last is -1 if the offsets decrease anywhere, or do not lead from 0 to `length`.
    """
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != length:
        return 0, 0.0, -1
    keys = longest = least = 0
    squares = 0.0
    for i in range(len(offsets) - 1):
        size = offsets[i + 1] - offsets[i]
        keys += size > 0
        squares += float(size) * float(size)
        longest = max(longest, size)
        least = min(least, size)
    return keys, squares, longest if least >= 0 and longest <= length else -1


@kernel
def count_loops(offsets, values, first, last, code, step):
    """Return how many lists of nodes [first, last) hold the code of their node, which is `code`, `code + step`, and so on."""
    loops = 0
    for node in range(first, last):
        loops += position_of(values, offsets[node], offsets[node + 1], code) >= 0
        code += step
    return loops


@kernel
def falls_at_starts(offsets, values, first, last, domain):
    """Return how many lists of nodes [first, last) begin with a value that is not above the value before it.

    Return -1 if a list ends with a value outside the domain; that is its largest value if the list increases.
    """
    start = offsets[first]
    falls = 0
    for node in range(first, last):
        begin, end = offsets[node], offsets[node + 1]
        if end > begin:
            if values[end - 1] >= domain:
                return -1
            if begin > start:
                falls += values[begin - 1] >= values[begin]
    return falls


@kernel
def is_permutation(values, seen):
    """Tell whether values are 0, 1, 2, ... in some order; `seen` holds a zero for each."""
    for value in values:
        if value >= len(seen) or seen[value]:
            return False
        seen[value] = 1
    return len(values) == len(seen)
