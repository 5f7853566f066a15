"""The catalogue of a relation: how many extensions a few small patterns have on average, from a sample of its tuples.

Multiplying the average lengths of single lists ignores that real graphs are clustered, and that hubs are connected with hubs.
So when an index is built, some tuples (x, y) are drawn and the lists of both ends are measured: how long they are, what it
costs to scan one for the values of the other, how many values they share (triangles), how many of these a third list holds
(4-cliques), and how many values the two ends of a wedge share (4-cycles).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.stage_runner import in_threads
from bigjoin.index.trie import Trie
from bigjoin.kernels.sample import common_sizes, continued_sizes
from bigjoin.kernels.sets import SCAN_RATIO

CATALOGUE_TUPLES = 1024
CATALOGUE_SEED = 1

_Lists = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
"""Offsets, values, and the nodes of some lists."""


def sample(tries: Sequence[Trie]) -> dict[str, float]:
    """Return the averages for a binary relation, given its tries by the column that is the key; one, if it is symmetric.

    Names spell out key columns: `length.0.1` is the length of the list by key column 1 of the value in column 0, and
    `scan.0.0.1` the cost of a scan of the list by key column 0 of the value in column 0 for the values of the other's list by
    key column 1.
    """
    trie = tries[0]
    if not len(trie):
        return {}
    draw = np.random.default_rng(CATALOGUE_SEED)
    positions = np.sort(draw.integers(0, len(trie), CATALOGUE_TUPLES))
    ends = [end.astype(np.int64) for end in trie.tuples(positions)]
    draws = draw.integers(0, 1000, CATALOGUE_TUPLES)
    longest = max(t.longest for t in tries)
    orders = range(len(tries))

    def lists(order: int, codes: NDArray[Any]) -> _Lists:
        t = tries[order]
        nodes = t.shards.nodes(np.maximum(codes, 0)).astype(np.int64)
        return t.offsets, t.values, np.where(codes >= 0, nodes, -1)

    def buffer() -> NDArray[Any]:
        return np.empty(longest, trie.values.dtype)

    def shared(a: _Lists, b: _Lists) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        sizes, drawn = np.empty(CATALOGUE_TUPLES, np.int64), np.empty(CATALOGUE_TUPLES, np.int64)
        common_sizes(*a, *b, buffer(), draws, sizes, drawn)
        return sizes, drawn

    lengths = {}
    for end, order in product((0, 1), orders):
        offsets, _, nodes = lists(order, ends[end])
        lengths[end, order] = offsets[nodes + 1] - offsets[nodes]

    def of_pairs(item: tuple[int, int]) -> dict[str, float]:
        first, second = item
        a, b = lists(first, ends[0]), lists(second, ends[1])
        sizes, third = shared(a, b)
        found = {
            f"shared.{first}.{second}": float(sizes.mean()),
            f"scan.0.{first}.{second}": _scanned(lengths[1, second], lengths[0, first]),
            f"scan.1.{first}.{second}": _scanned(lengths[0, first], lengths[1, second]),
        }
        for order in orders:
            deeper = np.empty(CATALOGUE_TUPLES, np.int64)
            continued_sizes(*a, *b, *lists(order, third), buffer(), deeper)
            # An average over triangles, not over tuples: a tuple with many triangles counts for all of them.
            found[f"continued.{first}.{second}.{order}"] = float((deeper * sizes).sum() / max(1, sizes.sum()))
        return found

    def of_wedges(item: tuple[int, int, int, int]) -> dict[str, float]:
        centre, middle, near, far = item
        offsets, values, nodes = lists(middle, ends[centre])
        length = offsets[nodes + 1] - offsets[nodes]
        at = np.minimum(offsets[nodes] + length * draws // 1000, len(values) - 1)
        third = np.where(length > 0, values[at].astype(np.int64), -1)
        sizes, _ = shared(lists(near, ends[1 - centre]), lists(far, third))
        return {f"wedge.{centre}.{middle}.{near}.{far}": float((sizes * length).sum() / max(1, length.sum()))}

    found = {f"length.{end}.{order}": float(each.mean()) for (end, order), each in lengths.items()}
    for more in in_threads(of_pairs, list(product(orders, orders))):
        found |= more
    for more in in_threads(of_wedges, list(product((0, 1), orders, orders, orders))):
        found |= more
    return {name: round(value, 4) for name, value in found.items()}


def _scanned(marked: NDArray[Any], scanned: NDArray[Any]) -> float:
    """Return the average cost of intersecting lists: a scan of the second, or searches in it if the first is much shorter."""
    steps = np.log2(2 + scanned / np.maximum(marked, 1))
    return float(np.where(scanned <= SCAN_RATIO * marked, scanned, 2 * marked * steps).mean())
