"""Split a block by destination: each prefix or candidate goes to the task that hosts its owner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigjoin.joins.blocks import Block, Proposals, Spread, Travelling
from bigjoin.kernels.route import group, owners
from bigjoin.kernels.spread import copy_dealt, deal_candidates


def route(block: Travelling, at: int, *, workers: int, tasks: int, load: NDArray[np.int64]) -> Iterator[tuple[int, Block]]:
    """Give the part of a block for each task, which hosts the owners of the attribute at a position, or as the block spreads.

    Add the tuples that each worker receives to `load`.
    """
    if not isinstance(block, Spread):
        yield from _routed(block, block.prefixes[at], workers, tasks, load)
    elif isinstance(block.block, Proposals):
        yield from _dealt(block.block, block, workers, tasks, load)
    else:
        yield from _routed(block.block, block.numbers % np.uint64(workers), workers, tasks, load)


def _routed(block: Block, keys: NDArray[Any], workers: int, tasks: int, load: NDArray[np.int64]) -> Iterator[tuple[int, Block]]:
    """Give the part of a block for each task that hosts owners of its keys."""
    destinations = np.empty(len(block), np.int32)
    starts = np.zeros(tasks + 1, np.int64)
    weights = block.lengths if isinstance(block, Proposals) else np.empty(0, np.int64)
    owners(keys, weights, workers, tasks, destinations, load, starts)
    order = np.empty(len(block), np.int64)
    bounds = starts.copy()
    group(destinations, starts, order)
    for task in range(tasks):
        if bounds[task + 1] > bounds[task]:
            yield task, block.part(order[bounds[task] : bounds[task + 1]])


def _dealt(block: Proposals, spread: Spread, workers: int, tasks: int, load: NDArray[np.int64]) -> Iterator[tuple[int, Block]]:
    """Give for each task the prefixes with the candidates whose owners it hosts."""
    firsts = (spread.numbers % np.uint64(workers)).astype(np.int64)
    tasks_of = np.empty(block.tuples, np.int32)
    sizes = np.zeros((tasks, len(block)), np.int64)
    deal_candidates(*block.segments, firsts, spread.marks, workers, tasks, tasks_of, load, sizes)
    places = np.cumsum(sizes).reshape(sizes.shape) - sizes
    codes = np.empty(int(sizes.sum()), block.codes.dtype)
    copy_dealt(*block.segments, tasks_of, places.copy(), codes)
    for task in range(tasks):
        some = np.flatnonzero(sizes[task])
        if len(some):
            begins, lengths = places[task, some], sizes[task, some]
            mine = codes[begins[0] : begins[-1] + lengths[-1]]
            yield task, Proposals(block.prefixes.take(some, axis=1), begins - begins[0], lengths, mine)


def pieces(block: Block, size: int) -> Iterator[Block]:
    """Give a block in pieces of at most `size` tuples; a prefix with more candidates is a piece of its own."""
    if block.tuples <= size:
        yield block
        return
    tuples = np.cumsum(block.lengths) if isinstance(block, Proposals) else np.arange(1, len(block) + 1)
    first, done = 0, 0
    while first < len(block):
        last = max(first + 1, int(np.searchsorted(tuples, done + size, side="right")))
        yield block.part(np.arange(first, last))
        first, done = last, int(tuples[last - 1])
