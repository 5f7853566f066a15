"""Intersect: keep the candidates of each prefix that its list holds, or (for a negated atom) does not hold.

Neighbouring prefixes often share a list. Where their candidates together are about as many as the list is long, the list is
marked once and every candidate is looked up; the marks cost no more than the candidates. Otherwise candidates and list, both
sorted, are merged while their lengths are within GALLOP of each other, and beyond that each candidate gallops through the list.
So a prefix costs its candidates times a logarithm however long the list is, which is what worst-case optimality needs on hubs.
"""

from __future__ import annotations

from bigjoin.kernels.jit import helper, kernel
from bigjoin.kernels.lists import extension_list, gallop, lower_bound
from bigjoin.kernels.sets import count_common

GALLOP = 16


@kernel
def intersect_extensions(offsets, values, nodes, lower, upper, extender, proposers, marks, candidates, begins, lengths):
    """Shorten each segment to the candidates in the list of its prefix; the proposer's own segments stay as they are.

    `marks` is a zero for every code, and is left so. Only that part of a list is marked which candidates can be in: all lists
    of a step have the same window, which the candidates already lie in.
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
        first = last = 0
        if total > 0 and node >= 0:
            first, last = _reach(offsets, values, node, candidates, begins, lengths, i, end)
        if total > 0 and node >= 0 and 2 * total >= last - first:
            for position in range(first, last):
                marks[values[position]] = 1
            for k in range(i, end):
                if proposers[k] != extender:
                    lengths[k] = _keep_marked(marks, candidates, begins[k], lengths[k])
            for position in range(first, last):
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
def count_intersections(offsets, values, nodes, lower, upper, marks, candidates, begins, lengths, counts):
    """Set counts[i] to how many candidates of a segment are in the list of its prefix; segments stay as they are.

    Otherwise like `intersect_extensions`, for a last list whose candidates nobody has to know.
    """
    i = 0
    while i < len(nodes):
        node = nodes[i]
        end = i
        total = 0
        while end < len(nodes) and nodes[end] == node:
            total += lengths[end]
            counts[end] = 0
            end += 1
        first = last = 0
        if total > 0 and node >= 0:
            first, last = _reach(offsets, values, node, candidates, begins, lengths, i, end)
        if total > 0 and node >= 0 and 2 * total >= last - first:
            for position in range(first, last):
                marks[values[position]] = 1
            for k in range(i, end):
                kept = 0
                for p in range(begins[k], begins[k] + lengths[k]):
                    kept += marks[candidates[p]]
                counts[k] = kept
            for position in range(first, last):
                marks[values[position]] = 0
        elif total > 0:
            for k in range(i, end):
                start, stop = extension_list(offsets, values, nodes, lower, upper, k)
                beyond = begins[k] + lengths[k]
                counts[k] = count_common(candidates, begins[k], beyond, marks, False, values, start, stop)
        i = end


@kernel
def exclude_extensions(offsets, values, nodes, lower, upper, candidates, begins, lengths):
    """Shorten each segment to the candidates that are not in the list of its prefix."""
    for i in range(len(nodes)):
        if lengths[i] > 0:
            start, stop = extension_list(offsets, values, nodes, lower, upper, i)
            lengths[i] = _gallop(values, start, stop, candidates, begins[i], lengths[i], False)


@helper
def _reach(offsets, values, node, candidates, begins, lengths, i, end):
    """Return the part (first, last) of a list that the candidates of some prefixes can be in: each has its own sorted."""
    empty = True
    low = high = candidates[0]
    for k in range(i, end):
        if lengths[k] > 0:
            smallest, largest = candidates[begins[k]], candidates[begins[k] + lengths[k] - 1]
            low = smallest if empty or smallest < low else low
            high = largest if empty or largest > high else high
            empty = False
    first = lower_bound(values, offsets[node], offsets[node + 1], low)
    return first, lower_bound(values, first, offsets[node + 1], high + 1)


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
