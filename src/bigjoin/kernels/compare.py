"""Compare: keep or count the candidates of each prefix that filters allow."""

from __future__ import annotations

from bigjoin.kernels.jit import kernel
from bigjoin.kernels.lists import lower_bound

LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, NOT_EQUAL = range(5)


@kernel
def compare_extensions(ranks, operator, others, candidates, begins, lengths):
    """Shorten each segment to the candidates c for which `rank(c) operator others[i]`; empty `ranks` compares codes."""
    for i in range(len(begins)):
        begin = begins[i]
        kept = begin
        other = others[i]
        for k in range(begin, begin + lengths[i]):
            candidate = candidates[k]
            rank = ranks[candidate] if len(ranks) > 0 else candidate
            if operator == LESS:
                keep = rank < other
            elif operator == LESS_EQUAL:
                keep = rank <= other
            elif operator == GREATER:
                keep = rank > other
            elif operator == GREATER_EQUAL:
                keep = rank >= other
            else:
                keep = rank != other
            if keep:
                candidates[kept] = candidate
                kept += 1
        lengths[i] = kept - begin


@kernel
def count_differing(prefixes, rows, candidates, begins, lengths):
    """Return how many candidates differ from the codes of their prefix in some rows, by looking those codes up."""
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
                position = lower_bound(candidates, begin, end, code)
                if position < end and candidates[position] == code:
                    total -= 1
    return total
