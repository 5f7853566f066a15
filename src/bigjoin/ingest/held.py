"""Edges of a graph that fits into memory: threads sort and number them, and no file lies between the scan and the tries.

The stages are those of `numbering.py` and `tries.py`, and so are the files that come of them. Edges are sorted twice: by the
ranks of their ends, where equal edges meet, and by the codes. The reverse order then costs no more than a sort by destination,
as edges with the same destination have their sources in order already.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.shards import Shards
from bigjoin.index.stage_runner import in_threads
from bigjoin.ingest.radix import BLOCK_KEYS, MIN_KEYS_BY_DIGIT, Keys, blocks_of, sorted_keys
from bigjoin.kernels.edges import count_ends, drop_repeated, renumber, swap_halves
from bigjoin.memory import machine_memory
from bigjoin.quota import quota
from bigjoin.storage.arrays import map_array

MIN_ROWS_HELD = MIN_KEYS_BY_DIGIT
"""Fewer rows are built in files, by NumPy."""
MAX_ROWS_HELD = 1 << 26
"""More rows are built in files, whatever the memory: by Spark's tasks, of which there may be many."""
BYTES_PER_HELD_ROW = 96
"""Memory for a row: four copies of its key, both copies of an undirected edge, and what is counted for two vertices."""
SHARE_OF_MEMORY = 1 / 2
"""Of the memory that the machine has left, what a build may take."""


def can_hold(rows: int) -> bool:
    """Tell whether so many rows are worth holding, and may be held in memory at once."""
    machine, size = machine_memory(), rows * BYTES_PER_HELD_ROW
    fits = machine is None or size <= machine.left * SHARE_OF_MEMORY
    return MIN_ROWS_HELD <= rows <= MAX_ROWS_HELD and fits and quota().fits(size)


@dataclass(frozen=True)
class HeldKeys:
    """The edges of a chunk as keys, in any order. If their halves are places, `ranking` is the file with the rank of each."""

    keys: Keys
    ranking: str | None = None


@dataclass(frozen=True)
class HeldEdges:
    """The edges of a relation, each once: blocks of sorted keys, whose halves are ranks, and the edges at each rank."""

    blocks: Sequence[Keys]
    counts: NDArray[np.int64]
    loops: int

    @property
    def degrees(self) -> tuple[slice, NDArray[np.int64]]:
        """All ranks, and how many edges are at each."""
        return slice(None), self.counts

    def orders(self, codes: NDArray[Any], shards: Shards, *, directed: bool) -> Iterable[Keys]:
        """Give the edges as keys of (node, code), sorted: by source, and if they have a direction by destination too."""
        coded = [self._coded(codes, shards, swapped=False), *([] if directed else [self._coded(codes, shards, swapped=True)])]
        forward = sorted_keys([block for keys in coded for block in blocks_of(keys)], in_threads)
        del coded
        yield forward
        if directed:
            yield _transposed(forward, shards)

    def _coded(self, codes: NDArray[Any], shards: Shards, *, swapped: bool) -> Keys:
        """Return the edges as keys of (node, code), in the order of the ranks."""
        ends = np.cumsum([len(block) for block in self.blocks])
        keys = np.empty(int(ends[-1]) if len(ends) else 0, np.uint64)
        nodes = shards.nodes(codes)

        def write(item: tuple[Keys, int]) -> None:
            block, end = item
            mine = keys[end - len(block) : end]
            if swapped:
                swap_halves(block, mine)
            renumber(mine if swapped else block, nodes, codes, mine)

        in_threads(write, list(zip(self.blocks, ends.tolist(), strict=True)))
        return keys


def hold_edges(chunks: Sequence[HeldKeys], size: int) -> HeldEdges:
    """Return the distinct edges of chunks, whose ends are below `size`."""
    keys = sorted_keys(in_threads(_ranked, chunks), in_threads)
    # A block begins with the first of equal keys, so that no key is in two of them.
    starts = np.searchsorted(keys, keys[BLOCK_KEYS::BLOCK_KEYS]).tolist()
    blocks = [keys[first:last] for first, last in pairwise(sorted({0, *starts, len(keys)}))]
    distinct = [block[:kept] for block, kept in zip(blocks, in_threads(drop_repeated, blocks), strict=True)]
    # Each thread counts for itself, unless its counts would take more memory than the edges.
    threads = max(1, min(os.cpu_count() or 1, len(keys) // max(1, size)))
    counts = [np.zeros(size, np.uint32) for _ in range(threads)]

    def count(thread: int) -> int:
        return sum(int(count_ends(block, counts[thread])) for block in distinct[thread::threads])

    loops = sum(in_threads(count, range(threads)))
    return HeldEdges(distinct, np.sum(counts, axis=0, dtype=np.int64), loops)


def _ranked(chunk: HeldKeys) -> Keys:
    """Return the keys of a chunk with ranks as halves."""
    if chunk.ranking is not None:
        ranks = np.array(map_array(chunk.ranking), np.uint32)
        renumber(chunk.keys, ranks, ranks, chunk.keys)
    return chunk.keys


def _transposed(forward: Keys, shards: Shards) -> Keys:
    """Return sorted keys of (node, code), sorted by the other end."""
    keys = np.empty_like(forward)
    in_threads(lambda item: swap_halves(*item), list(zip(blocks_of(forward), blocks_of(keys), strict=True)))
    if shards.count > 1:  # what was sorted by nodes has to be sorted by codes
        all_codes = np.arange(shards.size, dtype=np.uint32)
        nodes, codes = shards.nodes(all_codes), shards.codes(all_codes).astype(np.uint32)
        in_threads(lambda block: renumber(block, nodes, codes, block), blocks_of(keys))
    return sorted_keys(blocks_of(keys), in_threads, first_bit=32 if shards.count == 1 else 0)
