"""Patch: write lists again, with codes inserted or deleted."""

from __future__ import annotations

from bigjoin.kernels.jit import kernel


@kernel
def patch_lists(offsets, values, nodes, starts, changed, insert, begins, patched):
    """Write the list of nodes[i] to patched[begins[i]:], with changed[starts[i]:starts[i + 1]] inserted, or else deleted.

    What changes is sorted too. What is inserted must not be in the list, and what is deleted must be.
    """
    for i in range(len(nodes)):
        k = starts[i]
        out = begins[i]
        for at in range(offsets[nodes[i]], offsets[nodes[i] + 1]):
            value = values[at]
            while k < starts[i + 1] and changed[k] < value:
                patched[out] = changed[k]
                out += 1
                k += 1
            if not insert and k < starts[i + 1] and changed[k] == value:
                k += 1
            else:
                patched[out] = value
                out += 1
        for at in range(k, starts[i + 1]):
            patched[out] = changed[at]
            out += 1


@kernel
def copy_lists(offsets, values, nodes, begins, copied):
    """Write the list of nodes[i] to copied[begins[i]:]."""
    for i in range(len(nodes)):
        out = begins[i]
        for at in range(offsets[nodes[i]], offsets[nodes[i] + 1]):
            copied[out] = values[at]
            out += 1
