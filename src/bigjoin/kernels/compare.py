"""Compare: keep or count the candidates of each prefix that satisfy comparisons."""

from __future__ import annotations

from bigjoin.kernels.jit import helper, kernel
from bigjoin.kernels.lists import position_of

LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, NOT_EQUAL, EQUAL = range(6)


@kernel
def compare_extensions(ranks, operator, others, candidates, begins, lengths):
    """Shorten each segment to the candidates c for which `rank(c) operator others[i]`; empty `ranks` compares codes."""
    for i in range(len(begins)):
        begin = begins[i]
        kept = begin
        other = others[i]
        for k in range(begin, begin + lengths[i]):
            candidate = candidates[k]
            if _holds(operator, ranks[candidate] if len(ranks) > 0 else candidate, other):
                candidates[kept] = candidate
                kept += 1
        lengths[i] = kept - begin


@kernel
def count_differing(prefixes, rows, candidates, begins, lengths):
    """Return how many candidates differ from the codes that their prefix has in some rows; those codes are searched for."""
    total = 0
    for i in range(len(begins)):
        begin = begins[i]
        end = begin + lengths[i]
        total += lengths[i]
        for r in range(len(rows)):
            code = prefixes[rows[r], i]
            fresh = True
            for s in range(r):
                fresh = fresh and prefixes[rows[s], i] != code
            if fresh:
                total -= position_of(candidates, begin, end, code) >= 0
    return total


@helper
def _holds(operator, left, right):
    if operator == LESS:
        return left < right
    if operator == LESS_EQUAL:
        return left <= right
    if operator == GREATER:
        return left > right
    if operator == GREATER_EQUAL:
        return left >= right
    if operator == EQUAL:
        return left == right
    return left != right
