"""Intersect: keep the candidates of each prefix that its list holds, or (for a negated atom) does not hold.

Candidates and list are both sorted. While their lengths are within GALLOP of each other they are merged; where the list is
longer, each candidate gallops through it. So a prefix costs its candidates times a logarithm, however long the list is, which
is what worst-case optimality needs on hubs.
"""

from __future__ import annotations

from bigjoin.kernels.jit import helper, kernel
from bigjoin.kernels.lists import extension_list, gallop

GALLOP = 16


@kernel
def intersect_extensions(offsets, values, nodes, lower, upper, extender, proposers, candidates, begins, lengths):
    """Shorten each segment to the candidates in the list of its prefix; the proposer's own segments stay as they are."""
    for i in range(len(nodes)):
        if proposers[i] != extender and lengths[i] > 0:
            start, stop = extension_list(offsets, values, nodes, lower, upper, i)
            if stop - start > GALLOP * lengths[i]:
                lengths[i] = _gallop(values, start, stop, candidates, begins[i], lengths[i], True)
            else:
                lengths[i] = _merge(values, start, stop, candidates, begins[i], lengths[i])


@kernel
def exclude_extensions(offsets, values, nodes, lower, upper, candidates, begins, lengths):
    """Shorten each segment to the candidates that are not in the list of its prefix."""
    for i in range(len(nodes)):
        if lengths[i] > 0:
            start, stop = extension_list(offsets, values, nodes, lower, upper, i)
            lengths[i] = _gallop(values, start, stop, candidates, begins[i], lengths[i], False)


@helper
def _merge(values, start, stop, candidates, begin, length):
    kept = begin
    k = begin
    end = begin + length
    while k < end and start < stop:
        candidate = candidates[k]
        value = values[start]
        candidates[kept] = candidate
        kept += candidate == value
        k += candidate <= value
        start += value <= candidate
    return kept - begin


@helper
def _gallop(values, start, stop, candidates, begin, length, wanted):
    kept = begin
    for k in range(begin, begin + length):
        candidate = candidates[k]
        start = gallop(values, start, stop, candidate)
        if (start < stop and values[start] == candidate) == wanted:
            candidates[kept] = candidate
            kept += 1
    return kept - begin
