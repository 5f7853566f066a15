"""Sizes of intersections of lists, for samples of keys: what the catalogue of an index is made from."""

from __future__ import annotations

import numpy as np

from bigjoin.kernels.jit import kernel
from bigjoin.kernels.sets import common, position_of


@kernel
def common_sizes(first_offsets, first_values, first_nodes, offsets, values, nodes, buffer, draws, sizes, drawn):
    """Set sizes[i] to how many codes two lists share, and drawn[i] to one of them (number draws[i] of a thousand), or -1."""
    nothing = np.zeros(1, np.uint8)
    for i in range(len(nodes)):
        a, b = first_nodes[i], nodes[i]
        drawn[i] = -1
        sizes[i] = 0
        if a >= 0 and b >= 0:
            n = common(
                first_values,
                first_offsets[a],
                first_offsets[a + 1],
                nothing,
                False,
                values,
                offsets[b],
                offsets[b + 1],
                buffer,
            )
            sizes[i] = n
            if n > 0:
                drawn[i] = buffer[n * draws[i] // 1000]


@kernel
def continued_sizes(
    first_offsets, first_values, first_nodes, offsets, values, nodes, third_offsets, third_values, third_nodes, buffer, sizes
):
    """Set sizes[i] to how many codes three lists share."""
    nothing = np.zeros(1, np.uint8)
    for i in range(len(nodes)):
        a, b, c = first_nodes[i], nodes[i], third_nodes[i]
        sizes[i] = 0
        if a >= 0 and b >= 0 and c >= 0:
            n = common(
                first_values,
                first_offsets[a],
                first_offsets[a + 1],
                nothing,
                False,
                values,
                offsets[b],
                offsets[b + 1],
                buffer,
            )
            for k in range(n):
                code = buffer[k]
                if position_of(third_values, third_offsets[c], third_offsets[c + 1], code) >= 0:
                    sizes[i] += 1
