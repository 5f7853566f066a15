"""Sound: tell whether arrays from a file can be trusted. Kernels read without looking at bounds, so these look for all others.

Offsets never fall and end where the values do; lists rise strictly and stay below the size of their domain; ranks are a
permutation.
"""

from __future__ import annotations

from bigjoin.kernels.jit import kernel
from bigjoin.kernels.lists import position_of


@kernel
def measured_lists(offsets, length):
    """Return how many lists are not empty, their squared lengths added up, and the longest length.

    It is -1 if offsets fall, or do not lead from 0 to `length`.
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
    """Return how many nodes of [first, last) have their own code in their list: `code` for the first, then in steps."""
    loops = 0
    for node in range(first, last):
        loops += position_of(values, offsets[node], offsets[node + 1], code) >= 0
        code += step
    return loops


@kernel
def falls_at_starts(offsets, values, first, last, domain):
    """Return how often a list in nodes [first, last) begins with no more than the value before it; -1 if a value is too large.

    Only the last value of each list is looked at, which is the largest if the list rises.
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
    """Tell whether values are 0, 1, 2, ... in some order; `seen` has a zero for each."""
    for value in values:
        if value >= len(seen) or seen[value]:
            return False
        seen[value] = 1
    return len(values) == len(seen)
