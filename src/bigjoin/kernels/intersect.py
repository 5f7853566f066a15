"""Intersect: keep the candidates of each prefix that its list holds, or (for a negated atom) does not hold.

Neighbouring prefixes often share a list. Where their candidates together are about as many as the list is long, the list is
marked once and every candidate is looked up; the marks cost no more than the candidates. Otherwise candidates and list, both
sorted, are merged while their lengths are within GALLOP of each other, and beyond that each candidate gallops through the list.
So a prefix costs its candidates times a logarithm however long the list is, which is what worst-case optimality needs on hubs.
"""

from __future__ import annotations

from bigjoin.kernels.jit import helper, kernel
from bigjoin.kernels.lists import extension_list, gallop

GALLOP = 16


@kernel
def intersect_extensions(offsets, values, nodes, lower, upper, extender, proposers, marks, candidates, begins, lengths):
    """Shorten each segment to the candidates in the list of its prefix; the proposer's own segments stay as they are.

    `marks` is a zero for every code, and is left so. All lists of a step have the same window, which the candidates already
    lie in, so a marked list need not be cut to it.
    """
    i = 0
    while i < len(nodes):
        node = nodes[i]
        end = i
        total = 0
        while end < len(nodes) and nodes[end] == node:
            if proposers[end] != extender:
                total += lengths[end]
            end += 1
        if total > 0 and node >= 0 and 2 * total >= offsets[node + 1] - offsets[node]:
            for position in range(offsets[node], offsets[node + 1]):
                marks[values[position]] = 1
            for k in range(i, end):
                if proposers[k] != extender:
                    lengths[k] = _keep_marked(marks, candidates, begins[k], lengths[k])
            for position in range(offsets[node], offsets[node + 1]):
                marks[values[position]] = 0
        elif total > 0:
            for k in range(i, end):
                if proposers[k] != extender and lengths[k] > 0:
                    start, stop = extension_list(offsets, values, nodes, lower, upper, k)
                    if stop - start > GALLOP * lengths[k]:
                        lengths[k] = _gallop(values, start, stop, candidates, begins[k], lengths[k], True)
                    else:
                        lengths[k] = _merge(values, start, stop, candidates, begins[k], lengths[k])
        i = end


@kernel
def exclude_extensions(offsets, values, nodes, lower, upper, candidates, begins, lengths):
    """Shorten each segment to the candidates that are not in the list of its prefix."""
    for i in range(len(nodes)):
        if lengths[i] > 0:
            start, stop = extension_list(offsets, values, nodes, lower, upper, i)
            lengths[i] = _gallop(values, start, stop, candidates, begins[i], lengths[i], False)


@helper
def _keep_marked(marks, candidates, begin, length):
    kept = begin
    for k in range(begin, begin + length):
        candidate = candidates[k]
        candidates[kept] = candidate
        kept += marks[candidate]
    return kept - begin


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
