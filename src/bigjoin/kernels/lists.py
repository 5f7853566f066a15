"""Sorted lists: find a position in one, and cut one to its bounds."""

from __future__ import annotations

from bigjoin.kernels.jit import helper, kernel


@helper
def lower_bound(values, start, stop, code):
    """Return the first position in values[start:stop] whose code is not below `code`, in O(log(stop - start))."""
    while start < stop:
        middle = (start + stop) >> 1
        if values[middle] < code:
            start = middle + 1
        else:
            stop = middle
    return start


@helper
def gallop(values, start, stop, code):
    """Return what lower_bound returns, in O(log d) where d is the distance from `start`."""
    step = 1
    reach = start
    while reach < stop and values[reach] < code:
        start = reach + 1
        reach += step
        step <<= 1
    return lower_bound(values, start, min(reach, stop), code)


@helper
def position_of(values, start, stop, code):
    """Return the position of a code in values[start:stop], or -1."""
    p = lower_bound(values, start, stop, code)
    return p if p < stop and values[p] == code else -1


@helper
def extension_list(offsets, values, nodes, lower, upper, i):
    """Return (start, stop) of the list of prefix i, cut to its bounds."""
    node = nodes[i]
    if node < 0:
        return 0, 0
    start = offsets[node]
    stop = offsets[node + 1]
    if len(upper) > 0:
        stop = lower_bound(values, start, stop, upper[i])
    if len(lower) > 0:
        start = lower_bound(values, start, stop, lower[i])
    return start, stop


@kernel
def list_starts(offsets, values, nodes, lower, starts):
    """Set starts[i] to where the list of prefix i begins, cut to its lower bound. Every key must have a list."""
    for i in range(len(nodes)):
        starts[i] = offsets[nodes[i]]
        if len(lower) > 0:
            starts[i] = lower_bound(values, starts[i], offsets[nodes[i] + 1], lower[i])


@kernel
def add_shorter_lists(keys, offsets, values, places, sizes, other_places, other_sizes):
    """Return the length of the shorter list of each pair, added up: that of its key, or that of its value.

    The pairs of keys[i] are values[offsets[i]:offsets[i + 1]]; `sizes` are the offsets of lists, and `places` their nodes.
    """
    total = 0
    for i in range(len(keys)):
        node = places[keys[i]]
        mine = sizes[node + 1] - sizes[node]
        for at in range(offsets[i], offsets[i + 1]):
            other = other_places[values[at]]
            total += min(mine, other_sizes[other + 1] - other_sizes[other])
    return total


@kernel
def _nothing():
    return 0


def warm_up() -> None:
    """Have numba look through its tables of functions, as it does before it loads the first kernel."""
    _nothing()
