"""Compare: keep the candidates of each prefix that a filter allows."""

from __future__ import annotations

from bigjoin.kernels.jit import kernel

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
            if operator == 0:
                keep = rank < other
            elif operator == 1:
                keep = rank <= other
            elif operator == 2:
                keep = rank > other
            elif operator == 3:
                keep = rank >= other
            else:
                keep = rank != other
            if keep:
                candidates[kept] = candidate
                kept += 1
        lengths[i] = kept - begin
