"""Count: how many extensions a list offers each prefix, and whether it is the shortest so far."""

from __future__ import annotations

from bigjoin.kernels.jit import kernel
from bigjoin.kernels.lists import extension_list


@kernel
def count_extensions(offsets, values, nodes, lower, upper, extender, counts, proposers):
    """Lower counts[i] to the length of prefix i's list where that is shorter, and note `extender` in proposers[i]."""
    for i in range(len(nodes)):
        if counts[i] > 0:
            start, stop = extension_list(offsets, values, nodes, lower, upper, i)
            if stop - start < counts[i]:
                counts[i] = stop - start
                proposers[i] = extender
