"""The seeds of each worker: the tuples of a plan's first atom whose first attribute it owns, numbered and read lazily."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.trie import Codes, Trie
from bigjoin.joins.bind import BoundSeed
from bigjoin.joins.seeds import prefixes_of


@dataclass
class WorkerSeeds:
    """The seeds of the workers that a task hosts: worker code % workers owns a code, and task worker % tasks hosts a worker."""

    seed: BoundSeed
    workers: int
    tasks: int
    task: int
    dealt: NDArray[np.bool_] | None = None
    """Marks of the first codes whose seeds are dealt out: each task has a part of each of their lists."""

    def __len__(self) -> int:
        return int(self._stretches[1][-1])

    def read(self, first: int, last: int, size: int) -> Iterator[tuple[int, Codes]]:
        """Give the prefixes of seeds first..last - 1, at most `size` at a time, with the number of tuples read."""
        for start in range(first, last, size):
            positions = self._positions(start, min(start + size, last))
            yield len(positions), prefixes_of(self.seed, positions)

    @cached_property
    def _stretches(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where each stretch of tuples begins, in ascending order, and how many seeds come before each."""
        trie, (low, high) = self.seed.extender.trie, self.seed.positions
        if trie.keyed:
            bounds, (whole, parted) = tuple_bounds(trie), self._lists(trie)
            begins, ends = np.maximum(bounds[whole], low), np.minimum(bounds[whole + 1], high)
            if len(parted):
                parts = self._part(np.maximum(bounds[parted], low), np.minimum(bounds[parted + 1], high))
                begins, ends = np.append(begins, parts[0]), np.append(ends, parts[1])
                order = np.argsort(begins, kind="stable")
                begins, ends = begins[order], ends[order]
        else:
            begins, ends = self._part(np.array([low]), np.array([high]))
        some = ends > begins
        return begins[some], np.concatenate([[0], np.cumsum(ends[some] - begins[some])])

    def _lists(self, trie: Trie) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the nodes, in ascending order, of the lists that this task has, and of those that it has a part of."""
        if trie.keys is not None:
            mine = np.flatnonzero(trie.keys % self.workers % self.tasks == self.task)
        else:
            size = trie.shards.size or trie.nodes_stored
            owned = [np.arange(worker, size, self.workers) for worker in range(self.task, self.workers, self.tasks)]
            mine = np.sort(trie.shards.nodes(np.concatenate(owned)))
        if self.dealt is None or not self.dealt.any():
            return mine, mine[:0]
        dealt = np.flatnonzero(self.dealt)
        parted = np.flatnonzero(np.isin(trie.keys, dealt)) if trie.keys is not None else trie.shards.nodes(dealt[dealt < size])
        return np.setdiff1d(mine, parted), np.sort(parted)

    def _part(self, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return this task's part of each stretch."""
        lengths = np.maximum(ends - begins, 0)
        return begins + self.task * lengths // self.tasks, begins + (self.task + 1) * lengths // self.tasks

    def _positions(self, first: int, last: int) -> NDArray[np.int64]:
        begins, numbers = self._stretches
        low, high = np.searchsorted(numbers, [first, last - 1], side="right") - 1  # the stretches of the first and the last
        cuts = np.clip(numbers[low : high + 2], first, last)
        return np.repeat(begins[low : high + 1] - numbers[low : high + 1], cuts[1:] - cuts[:-1]) + np.arange(first, last)


def seeds_of_tasks(seed: BoundSeed, workers: int, tasks: int, dealt: NDArray[np.bool_] | None = None) -> list[int]:
    """Return how many seeds the workers of each task have."""
    trie = seed.extender.trie
    if dealt is None and trie.keyed and seed.positions == (0, len(trie)):
        owned = tuples_of_workers(trie, workers)
        return [int(owned[task::tasks].sum()) for task in range(tasks)]
    return [len(WorkerSeeds(seed, workers, tasks, task, dealt)) for task in range(tasks)]


def tuple_bounds(trie: Trie, level: int = 0) -> NDArray[np.int64]:
    """Return for each node of a level where its tuples begin among all tuples."""
    bounds: NDArray[Any] = trie.levels[level].offsets
    for below in trie.levels[level + 1 :]:
        bounds = below.offsets[bounds]
    return bounds


def tuples_of_codes(trie: Trie) -> NDArray[np.int64]:
    """Return how many tuples of a trie have each code in the first column, which has to be a key."""
    bounds = tuple_bounds(trie)
    if trie.keys is not None:
        return np.bincount(trie.keys, np.diff(bounds)).astype(np.int64)
    if trie.places is not None:
        nodes = trie.places.astype(np.int64)
        return np.asarray(bounds[nodes + 1] - bounds[nodes])
    lengths = np.diff(bounds)
    return lengths[trie.shards.nodes(np.arange(len(lengths)))] if trie.shards.count > 1 else lengths


def tuples_of_workers(trie: Trie, workers: int) -> NDArray[np.int64]:
    """Return how many tuples of a trie each worker owns; every worker has a list without a key."""
    if not trie.keyed:
        return np.full(workers, len(trie))
    if trie.shards.count == workers and trie.keys is None and trie.places is None:
        return np.diff(tuple_bounds(trie)[[trie.shards.first(worker) for worker in range(workers + 1)]])
    if trie.keys is not None:
        return np.bincount(trie.keys % workers, np.diff(tuple_bounds(trie)), workers).astype(np.int64)
    return share_out(tuples_of_codes(trie), workers)


def share_out(lengths: NDArray[np.int64], workers: int) -> NDArray[np.int64]:
    """Return how many tuples each worker owns, given how many each code has."""
    rounds = np.zeros(-(-len(lengths) // workers) * workers, np.int64)
    rounds[: len(lengths)] = lengths
    return np.asarray(rounds.reshape(-1, workers).sum(axis=0))
