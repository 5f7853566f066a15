"""Count: how many extensions a list has for each prefix, and whether it is the shortest list so far."""

from __future__ import annotations

from bigjoin.kernels.jit import kernel
from bigjoin.kernels.lists import extension_list


@kernel
def count_extensions(offsets, values, nodes, lower, upper, extender, counts, proposers):
    """Where the list of prefix i is shorter than counts[i], set counts[i] to its length and proposers[i] to `extender`."""
    for i in range(len(nodes)):
        if counts[i] > 0:
            start, stop = extension_list(offsets, values, nodes, lower, upper, i)
            if stop - start < counts[i]:
                counts[i] = stop - start
                proposers[i] = extender
