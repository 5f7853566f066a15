"""Patch: write lists anew, with what was inserted into them, or without what was deleted."""

from __future__ import annotations

from bigjoin.kernels.jit import kernel


@kernel
def insert_into_lists(offsets, values, nodes, starts, added, begins, patched):
    """Write the list of nodes[i] and added[starts[i]:starts[i + 1]], as one from patched[begins[i]] on."""
    for i in range(len(nodes)):
        at = offsets[nodes[i]]
        stop = offsets[nodes[i] + 1]
        out = begins[i]
        for k in range(starts[i], starts[i + 1]):
            value = added[k]
            while at < stop and values[at] < value:
                patched[out] = values[at]
                out += 1
                at += 1
            patched[out] = value
            out += 1
        while at < stop:
            patched[out] = values[at]
            out += 1
            at += 1


@kernel
def delete_from_lists(offsets, values, nodes, starts, removed, begins, patched):
    """Write the list of nodes[i] without removed[starts[i]:starts[i + 1]], from patched[begins[i]] on."""
    for i in range(len(nodes)):
        k = starts[i]
        out = begins[i]
        for at in range(offsets[nodes[i]], offsets[nodes[i] + 1]):
            value = values[at]
            if k < starts[i + 1] and removed[k] == value:
                k += 1
            else:
                patched[out] = value
                out += 1


@kernel
def copy_lists(offsets, values, nodes, begins, copied):
    """Write the list of nodes[i] from copied[begins[i]] on."""
    for i in range(len(nodes)):
        out = begins[i]
        for at in range(offsets[nodes[i]], offsets[nodes[i] + 1]):
            copied[out] = values[at]
            out += 1
