"""Patch: write lists again, with codes inserted or deleted."""

from __future__ import annotations

from bigjoin.kernels.jit import helper, kernel
from bigjoin.kernels.lists import gallop


@kernel
def patch_lists(offsets, values, nodes, starts, changed, insert, slots):
    """Write the list of nodes[i] to that of slots[i], with changed[starts[i]:starts[i + 1]] inserted, or else deleted.

    The lists of slots are as long as the changed lists have to be. Return whether the delta is a true one: what is inserted is
    not there, what is deleted is, and nothing is named twice. Writing ends where it is not.

    What stays between two changes is copied as it is: few codes change in a long list.
    """
    for i in range(len(nodes)):
        at = offsets[nodes[i]]
        stop = offsets[nodes[i] + 1]
        out = offsets[slots[i]]
        for k in range(starts[i], starts[i + 1]):
            code = changed[k]
            place = gallop(values, at, stop, code)
            is_there = place < stop and values[place] == code
            is_named_twice = k > starts[i] and changed[k - 1] == code
            if is_there == insert or is_named_twice or out + place - at > offsets[slots[i] + 1]:
                return False
            out = _copy(values, at, place, values, out)
            if insert:
                values[out] = code
                out += 1
                at = place
            else:
                at = place + 1
        _copy(values, at, stop, values, out)
    return True


@kernel
def copy_lists(offsets, values, nodes, begins, copied):
    """Write the list of nodes[i] to copied[begins[i]:]."""
    for i in range(len(nodes)):
        _copy(values, offsets[nodes[i]], offsets[nodes[i] + 1], copied, begins[i])


@helper
def _copy(values, start, stop, copied, out):
    """Write values[start:stop] to copied[out:], and return where they end."""
    source, target = values[start:stop], copied[out : out + stop - start]
    for at in range(len(source)):  # a loop over whole arrays, which the compiler turns into one over vectors
        target[at] = source[at]
    return out + stop - start
