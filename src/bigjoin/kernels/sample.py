"""Sample: the sizes of intersections of lists for sampled keys, which the catalogue of an index is made from."""

from __future__ import annotations

from bigjoin.kernels.jit import helper, kernel
from bigjoin.kernels.lists import position_of
from bigjoin.kernels.sets import common


@helper
def list_common(first_offsets, first_values, a, offsets, values, b, buffer):
    """Write what the lists of two nodes share, and return how many codes that is."""
    if a < 0 or b < 0:
        return 0
    first, last = first_offsets[a], first_offsets[a + 1]
    return common(first_values, first, last, buffer, False, values, offsets[b], offsets[b + 1], buffer, 0)


@kernel
def common_sizes(first_offsets, first_values, first_nodes, offsets, values, nodes, buffer, draws, sizes, drawn):
    """Set sizes[i] to how many codes two lists share, and drawn[i] to the one at draws[i] thousandths of them, or -1."""
    for i in range(len(nodes)):
        n = list_common(first_offsets, first_values, first_nodes[i], offsets, values, nodes[i], buffer)
        sizes[i] = n
        drawn[i] = buffer[n * draws[i] // 1000] if n > 0 else -1


@kernel
def continued_sizes(
    first_offsets, first_values, first_nodes, offsets, values, nodes, third_offsets, third_values, third_nodes, buffer, sizes
):
    """Set sizes[i] to how many codes three lists share."""
    for i in range(len(nodes)):
        c = third_nodes[i]
        n = list_common(first_offsets, first_values, first_nodes[i], offsets, values, nodes[i], buffer) if c >= 0 else 0
        sizes[i] = 0
        for k in range(n):
            sizes[i] += position_of(third_values, third_offsets[c], third_offsets[c + 1], buffer[k]) >= 0
