"""The seeds of each worker: the tuples of a plan's first atom whose first attribute it owns, numbered, and read lazily."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.trie import Codes, Trie
from bigjoin.joins.bind import BoundSeed
from bigjoin.joins.seeds import decide


@dataclass
class WorkerSeeds:
    """The seeds of the workers that a task hosts: worker code % workers owns a code, and task worker % tasks hosts it."""

    seed: BoundSeed
    workers: int
    tasks: int
    task: int

    def __len__(self) -> int:
        return int(self._stretches[1][-1])

    def read(self, first: int, last: int, size: int) -> Iterator[tuple[int, Codes]]:
        """Give the prefixes of seeds number first..last - 1, at most `size` at a time, with the number of tuples read."""
        for start in range(first, last, size):
            positions = self._positions(start, min(start + size, last))
            prefixes, kept = decide(self.seed, positions)
            yield len(positions), prefixes if kept.all() else np.compress(kept, prefixes, axis=1)

    @cached_property
    def _stretches(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where each stretch of tuples begins, in ascending order, and how many seeds there are up to each."""
        trie, (low, high) = self.seed.extender.trie, self.seed.positions
        if trie.keys is not None:
            bounds = tuple_bounds(trie)
            begins, ends = np.maximum(bounds[:-1], low), np.minimum(bounds[1:], high)
            mine = trie.keys % self.workers % self.tasks == self.task
            begins, ends = begins[mine], ends[mine]
        elif trie.keyed:
            codes = hosted(trie.shards.size or len(trie.levels[0].offsets) - 1, self.workers, self.tasks, self.task)
            nodes = np.sort(trie.shards.nodes(codes))
            bounds = tuple_bounds(trie)
            begins, ends = np.maximum(bounds[nodes], low), np.minimum(bounds[nodes + 1], high)
        else:
            share = np.array([self.task, self.task + 1]) * (high - low) // self.tasks + low
            begins, ends = share[:1], share[1:]
        some = ends > begins
        return begins[some], np.concatenate([[0], np.cumsum(ends[some] - begins[some])])

    def _positions(self, first: int, last: int) -> NDArray[np.int64]:
        begins, numbers = self._stretches
        low, high = np.searchsorted(numbers, [first, last - 1], side="right") - 1  # the stretches of the first and the last
        cuts = np.clip(numbers[low : high + 2], first, last)
        return np.repeat(begins[low : high + 1] - numbers[low : high + 1], cuts[1:] - cuts[:-1]) + np.arange(first, last)


def seeds_of_tasks(seed: BoundSeed, workers: int, tasks: int) -> list[int]:
    """Return how many seeds the workers of each task have."""
    trie = seed.extender.trie
    if trie.keyed and seed.positions == (0, len(trie)):
        owned = tuples_of_workers(trie, workers)
        return [int(owned[task::tasks].sum()) for task in range(tasks)]
    return [len(WorkerSeeds(seed, workers, tasks, task)) for task in range(tasks)]


def hosted(size: int, workers: int, tasks: int, task: int) -> NDArray[np.int64]:
    """Return the codes below `size` that the workers of a task own."""
    return np.concatenate([np.arange(worker, size, workers) for worker in range(task, workers, tasks)])


def tuple_bounds(trie: Trie) -> NDArray[np.int64]:
    """Return, for each node of the first level, where its tuples begin among all of them."""
    bounds: NDArray[Any] = trie.levels[0].offsets
    for level in trie.levels[1:]:
        bounds = level.offsets[bounds]
    return bounds


def tuples_of_workers(trie: Trie, workers: int) -> NDArray[np.int64]:
    """Return how many tuples of a trie each worker owns; lists without a key are with every worker."""
    if not trie.keyed:
        return np.full(workers, len(trie))
    shards, bounds = trie.shards, tuple_bounds(trie)
    if trie.keys is not None:
        return np.bincount(trie.keys % workers, np.diff(bounds), workers).astype(np.int64)
    if trie.places is not None:
        nodes = trie.places.astype(np.int64)
        return np.bincount(np.arange(len(nodes)) % workers, bounds[nodes + 1] - bounds[nodes], workers).astype(np.int64)
    if shards.count == workers:
        return np.diff(bounds[[shards.first(worker) for worker in range(workers + 1)]])
    lengths = np.diff(bounds)
    if shards.count > 1:
        lengths = lengths[shards.nodes(np.arange(len(lengths)))]
    rounds = np.zeros(-(-len(lengths) // workers) * workers, np.int64)
    rounds[: len(lengths)] = lengths
    return np.asarray(rounds.reshape(-1, workers).sum(axis=0))
