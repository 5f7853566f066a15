"""Walk a trie: down from a key to its node, and up from a position to the node that owns it."""

from __future__ import annotations

from bigjoin.kernels.jit import kernel
from bigjoin.kernels.lists import gallop, lower_bound, position_of


@kernel
def contains_tuples(offsets, values, nodes, codes, found):
    """Set found[i] to whether the list of nodes[i] holds codes[i]."""
    for i in range(len(nodes)):
        node = nodes[i]
        found[i] = node >= 0 and position_of(values, offsets[node], offsets[node + 1], codes[i]) >= 0


@kernel
def descend(offsets, values, nodes, codes, below):
    """Set below[i] to the position of codes[i] in the list of nodes[i], or -1: the node of the next level of a trie."""
    for i in range(len(nodes)):
        node = nodes[i]
        below[i] = position_of(values, offsets[node], offsets[node + 1], codes[i]) if node >= 0 else -1


@kernel
def ascend(offsets, positions, nodes):
    """Set nodes[i] to the node whose list holds positions[i]. The positions are sorted, so each is near the one before it."""
    node = 0
    for i in range(len(positions)):
        node = gallop(offsets, node, len(offsets), positions[i] + 1) - 1
        nodes[i] = node


@kernel
def own_positions(offsets, values, nodes, positions):
    """Set positions[code] to where the code stands, or would stand, in its own list, that of nodes[code]."""
    for code in range(len(nodes)):
        node = nodes[code]
        positions[code] = lower_bound(values, offsets[node], offsets[node + 1], code)
