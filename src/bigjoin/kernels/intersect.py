"""Intersect: keep the candidates of each prefix that its list holds, or (for a negated atom) does not hold.

Neighbouring prefixes often share a list. If their candidates together are about as many as the list is long, the list is marked
once and every candidate looks up its mark: marking then costs no more than the candidates. Otherwise each prefix intersects
its own candidates with the list, as `sets.common` does. So a prefix costs at most its candidates times a logarithm, however
long the list is, which is what worst-case optimality requires of hubs.
"""

from __future__ import annotations

from bigjoin.kernels.jit import helper, kernel
from bigjoin.kernels.lists import extension_list, lower_bound
from bigjoin.kernels.sets import common, common_with_marks, mark, without


@kernel
def intersect_extensions(offsets, values, nodes, lower, upper, marks, candidates, begins, lengths):
    """Shorten each segment to the candidates in the list of its prefix.

    `marks` holds a zero for every code, and does so again afterwards.
    """
    where = begins, lengths
    _intersect(offsets, values, nodes, lower, upper, marks, candidates, where, candidates, lengths)


@kernel
def count_intersections(offsets, values, nodes, lower, upper, marks, candidates, begins, lengths, counts):
    """Set counts[i] to how many candidates of a segment are in the list of its prefix; segments stay as they are."""
    where = begins, lengths
    _intersect(offsets, values, nodes, lower, upper, marks, candidates, where, None, counts)


@kernel
def exclude_extensions(offsets, values, nodes, lower, upper, candidates, begins, lengths):
    """Shorten each segment to the candidates that are not in the list of its prefix."""
    for i in range(len(nodes)):
        if lengths[i] > 0:
            start, stop = extension_list(offsets, values, nodes, lower, upper, i)
            begin = begins[i]
            lengths[i] = without(candidates, begin, begin + lengths[i], values, start, stop, candidates, begin) - begin


@helper
def _intersect(offsets, values, nodes, lower, upper, marks, candidates, segments, out, kept):
    """Intersect the segments (begins, lengths) of prefixes; `out` is as in `sets`."""
    begins, lengths = segments
    i = 0
    while i < len(nodes):
        node = nodes[i]
        end = i
        total = 0
        while end < len(nodes) and nodes[end] == node:
            total += lengths[end]
            end += 1
        first = last = 0
        if total > 0 and node >= 0:
            first, last = _reach(offsets, values, node, candidates, begins, lengths, i, end)
        marked = total > 0 and node >= 0 and 2 * total >= last - first
        if marked:
            mark(marks, values, first, last, 1)
        for k in range(i, end):
            begin = begins[k]
            beyond = begin + lengths[k]
            if marked:
                kept[k] = common_with_marks(marks, candidates, begin, beyond, out, begin) - begin
            else:
                start, stop = extension_list(offsets, values, nodes, lower, upper, k)
                kept[k] = common(candidates, begin, beyond, marks, False, values, start, stop, out, begin) - begin
        if marked:
            mark(marks, values, first, last, 0)
        i = end


@helper
def _reach(offsets, values, node, candidates, begins, lengths, i, end):
    """Return the part (first, last) of a list that lies between the smallest and the largest candidate of prefixes [i, end).

    Candidates lie within the bounds of the step already, so nothing else of the list needs a mark.
    """
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
