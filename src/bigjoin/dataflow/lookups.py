"""Lookups in indices that no skew can unbalance (section 3.4 of the paper): the requests, who answers them, and the answers.

There is a lookup for each verb of an extender, and a hash of everything that a request names decides which worker answers it:

- count: where the part of a key's list within bounds begins and ends; dealt by (key, bounds).
- propose: the k-th extension of a key (the paper's extension-resolve index); dealt by (key, k).
- intersect: whether a key has an extension; dealt by (key, value).

A hub's list is therefore dealt out to all workers. In an exchange a worker sends equal requests only once, however many of its
prefixes need the answer. So no request reaches a worker more often than there are workers, and no worker gets much more than
its share (theorem 3.4).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bigjoin.dataflow.packing import Arrays
from bigjoin.index.trie import Codes, Trie
from bigjoin.joins.bounds_and_filters import Bounds
from bigjoin.joins.extender import BoundExtender
from bigjoin.kernels.lookups import (
    aggregate,
    gather_resolved,
    hash_columns,
    hash_owners,
    list_ranges,
    resolve,
    resolve_owners,
    resolve_tasks,
)
from bigjoin.kernels.route import group

Answers = dict[int, dict[int, Arrays]]
"""Answers, by the number of the index in an exchange and by task, in order."""

Selection = NDArray[np.int64] | slice
"""Some of a worker's candidates, or all of them."""

CHUNK_TUPLES = 1 << 20
"""Tuples of a trie that are read at once."""


@dataclass(frozen=True, slots=True)
class Dealing:
    """How lookups are dealt: a salted hash decides which worker answers, and task worker % tasks hosts that worker."""

    workers: int
    tasks: int
    salt: int

    def of(self, index: int) -> Dealing:
        """Return the dealing of one index. Each has its own salt, so that keys hot in two of them go to two workers."""
        return Dealing(self.workers, self.tasks, (self.salt + index) % (1 << 62))


@dataclass(frozen=True, slots=True)
class CountLookup:
    """Where the extensions of a prefix begin and end in the list of its key, within the bounds of a step."""

    verb: ClassVar[str] = "count"
    extender: BoundExtender
    bounds: Bounds
    number: int
    """The number of the extender in its step."""
    proposer: None = None
    """All prefixes ask."""

    def columns(self, prefixes: Codes, rows: Selection = slice(None)) -> Codes:
        """Return what requests name: the key, and the bounds if there are any."""
        prefixes = prefixes[:, rows]
        code_bounds = [codes for codes in self.bounds.bounds_of(prefixes) if len(codes)]
        return _stacked([*(prefixes[k] for k in self.extender.key), *code_bounds], prefixes)

    def answer(self, asked: Arrays) -> Arrays:
        """Return where the part of each key's list within the bounds begins and ends."""
        trie, width, count = self.extender.trie, len(self.extender.key), len(asked[0])
        code_bounds = iter(asked[width:])
        lower, upper = (next(code_bounds) if bounded else asked[0][:0] for bounded in self.bounds.bounded)
        starts, ends = np.empty(count, np.int64), np.empty(count, np.int64)
        list_ranges(trie.offsets, trie.values, trie.nodes(asked[:width], count), lower, upper, starts, ends)
        return starts, ends


@dataclass(frozen=True, slots=True)
class IntersectLookup:
    """Whether a relation holds the tuple that a candidate makes of an atom: it has to, or (if not `wanted`) must not."""

    verb: ClassVar[str] = "intersect"
    extender: BoundExtender
    wanted: bool = True
    proposer: int | None = None
    """The extender whose candidates ask; None if all do."""

    def columns(self, prefixes: Codes, rows: Selection) -> Codes:
        """Return what requests name: the key and the value."""
        return np.stack([prefixes[k][rows] for k in (*self.extender.key, self.extender.value)])

    def answer(self, asked: Arrays) -> Arrays:
        """Return which tuples are held, one bit each."""
        return (np.packbits(self.extender.trie.contains(asked)),)

    def number_kept(self, asked: Arrays) -> int:
        """Return how many candidates are kept; the last column of requests says how many candidates made each."""
        *columns, times = asked
        return int(times[self.extender.trie.contains(columns) == self.wanted].sum())

    def keeps(self, prefixes: Codes, rows: Selection, held: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Tell which of some candidates are kept, given which are held."""
        after = self.extender.after
        if after is not None:
            held = held & (prefixes[self.extender.value, rows] >= after.lower(prefixes[:, rows]))
        return held if self.wanted else ~held


@dataclass(frozen=True, slots=True)
class ProposeLookup:
    """Which extensions are at given places of an extender's lists."""

    verb: ClassVar[str] = "propose"
    extender: BoundExtender
    proposer: int
    """The number of the extender in its step: only prefixes that it proposes for ask."""

    def columns(self, prefixes: Codes, rows: Selection) -> Codes:
        """Return what requests name in addition to places: the key."""
        return _stacked([prefixes[k][rows] for k in self.extender.key], prefixes[:, rows])

    def answer(self, asked: Arrays, dealing: Dealing, task: int, code_type: Any) -> Arrays:
        """Return the extensions at those places of the ranges that are dealt to the workers of a task."""
        *key, firsts, lasts = asked
        trie, count = self.extender.trie, len(firsts)
        hashes, codes = hashes_of(np.stack(key), dealing.salt), np.empty(int((lasts - firsts).sum()), code_type)
        nodes = trie.nodes(key[: len(self.extender.key)], count)
        dealt = dealing.workers, dealing.tasks, task
        found = resolve(trie.offsets, trie.values, nodes, hashes, firsts, lasts, *dealt, codes)
        return (codes[:found],)


Lookup = CountLookup | IntersectLookup | ProposeLookup


@dataclass(frozen=True, slots=True)
class Asked:
    """The requests of a worker to one index, by task, and which answer belongs to which of its prefixes."""

    requests: list[Arrays]
    """One entry per task: columns of codes and, for ranges, their first and last places."""
    slots: NDArray[Any]
    """The number of each prefix's answer among all answers, task after task; for ranges, where its codes begin."""
    sizes: tuple[int, ...] = ()
    """How many requests each task gets, without tasks that get none."""
    ranges: Arrays = ()
    """If ranges were asked for: the hashes of their keys, and their first and last places."""


def ask(columns: Codes, dealing: Dealing, load: NDArray[np.int64], *, times: bool = False) -> Asked:
    """Aggregate equal requests, and deal them to tasks; add the requests that each worker will get to `load`.

    With `times`, a last column says how many prefixes made each request.
    """
    firsts, slots, destinations, starts = _aggregated(columns, dealing, load)
    order, bounds = np.empty(len(firsts), np.int32), starts.copy()
    group(destinations, starts, order)
    place = np.empty(len(firsts), np.int32)
    place[order] = np.arange(len(firsts), dtype=np.int32)
    asked = columns.take(firsts.take(order), axis=1)
    sent = [*asked, np.bincount(slots, minlength=len(firsts))[order].astype(np.int32)] if times else list(asked)
    requests = [tuple(column[a:b] for column in sent) for a, b in pairwise(bounds)]
    return Asked(requests, place.take(slots), tuple(int(b - a) for a, b in pairwise(bounds) if b > a))


def ask_ranges(
    columns: Codes, starts: NDArray[np.int64], ends: NDArray[np.int64], dealing: Dealing, load: NDArray[np.int64]
) -> Asked:
    """Request the extensions of keys from starts to ends. Ranges that overlap are merged, so each extension is asked for once.

    A range goes to every task that some of its extensions are dealt to. Add the extensions that each worker will be asked for
    to `load`.
    """
    keys, numbers, _, _ = _aggregated(columns, dealing, np.zeros(dealing.workers, np.int64))
    shift = np.int64(int(ends.max()).bit_length())
    low, high = (numbers.astype(np.int64) << shift) + starts, (numbers.astype(np.int64) << shift) + ends
    order = np.argsort(low, kind="stable")
    low, reach = low[order], np.maximum.accumulate(high[order])
    fresh = np.append(True, low[1:] > reach[:-1])  # begins a range: of another key, or beyond all ranges before it
    at = np.flatnonzero(fresh)
    owners = numbers[order[at]]
    base = owners.astype(np.int64) << shift
    firsts, lasts = low[at] - base, reach[np.append(at[1:], len(low)) - 1] - base
    key = columns.take(keys.take(owners), axis=1)
    hashes = hashes_of(key, dealing.salt)
    resolve_owners(hashes, firsts, lasts, dealing.workers, load)
    lengths = lasts - firsts
    slots = np.empty(len(low), np.int64)
    slots[order] = low + (np.cumsum(lengths) - lengths - firsts - base)[np.cumsum(fresh) - 1]
    return Asked(_range_requests(key, hashes, firsts, lasts, dealing), slots, ranges=(hashes, firsts, lasts))


def gathered(asked: Asked, answers: dict[int, NDArray[Any]], dealing: Dealing) -> Codes:
    """Return the extensions in all requested ranges, one range after another, from the answers of each task."""
    hashes, firsts, lasts = asked.ranges
    sizes = [len(answers.get(task, ())) for task in range(dealing.tasks)]
    cursors = np.cumsum([0, *sizes[:-1]])
    codes = np.empty(int((lasts - firsts).sum()), next(iter(answers.values())).dtype)
    gather_resolved(
        hashes, firsts, lasts, dealing.workers, dealing.tasks, np.concatenate(list(answers.values())), cursors, codes
    )
    return codes


def held(asked: Asked, answers: list[NDArray[np.uint8]]) -> NDArray[np.bool_]:
    """Return for each prefix whether its tuple is held."""
    bits = [np.unpackbits(some, count=size) for some, size in zip(answers, asked.sizes, strict=True)]
    return np.concatenate(bits).view(np.bool_).take(asked.slots)


def tuples_answered(answer: NDArray[Any]) -> int:
    """Return how many tuples an answer counts as: one for each code or range, or for each tuple that is held."""
    return int(np.bitwise_count(answer).sum()) if answer.dtype == np.uint8 else len(answer)


def entries_of_workers(trie: Trie, dealing: Dealing) -> NDArray[np.int64]:
    """Return how many entries of the three indices over a trie's lists each worker has, for counts without bounds."""
    load = np.zeros(dealing.workers, np.int64)
    before: Codes | None = None
    for columns in _tuples(trie):
        keys = columns[:-1] if len(columns) > 1 else np.zeros_like(columns)
        first = np.flatnonzero(np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0)))
        lengths = np.diff(np.append(first, columns.shape[1]))
        resolve_owners(hashes_of(keys[:, first], dealing.salt), np.zeros_like(lengths), lengths, dealing.workers, load)
        hash_owners(columns, dealing.salt, dealing.workers, load)
        again = before is not None and bool((keys[:, 0] == before).all())
        hash_owners(keys[:, first[again:]], dealing.salt, dealing.workers, load)
        before = keys[:, -1]
    return load


def _tuples(trie: Trie) -> Iterator[Codes]:
    """Give the tuples of a trie in order, in chunks with a row for each column; all at once if lists are not in order."""
    if trie.places is None:
        for first in range(0, len(trie), CHUNK_TUPLES):
            yield np.stack(trie.tuples(np.arange(first, min(first + CHUNK_TUPLES, len(trie)))))
        return
    columns, nodes = [np.arange(len(trie.places))], trie.places.astype(np.int64)
    for level in trie.levels:
        starts, lengths = level.offsets[nodes], level.offsets[nodes + 1] - level.offsets[nodes]
        nodes = np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(int(lengths.sum()))
        columns = [*(np.repeat(column, lengths) for column in columns), level.values[nodes]]
    if len(nodes):
        yield np.stack(columns).astype(trie.values.dtype)


def _aggregated(
    columns: Codes, dealing: Dealing, load: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Return the first of each set of equal requests, the set of each request, the task of each set, and where tasks start."""
    count, tasks = columns.shape[1], dealing.tasks
    table = np.full(1 << (count + count // 2).bit_length(), -1, np.int64)
    slots, firsts, destinations = (np.empty(count, np.int32) for _ in range(3))
    starts = np.zeros(tasks + 1, np.int64)
    found = aggregate(columns, dealing.salt, dealing.workers, tasks, table, slots, firsts, destinations, load, starts)
    return firsts[:found], slots, destinations[:found], starts


def _range_requests(
    key: Codes, hashes: NDArray[np.uint64], firsts: NDArray[np.int64], lasts: NDArray[np.int64], dealing: Dealing
) -> list[Arrays]:
    """Return the ranges for each task: those with extensions that are dealt to it."""
    seen, starts = np.empty(dealing.tasks, np.int64), np.zeros(dealing.tasks + 1, np.int64)
    dealt = hashes, firsts, lasts, dealing.workers, dealing.tasks, seen
    resolve_tasks(*dealt, starts, np.empty(0, np.int32))
    bounds, order = starts.copy(), np.empty(int(starts[-1]), np.int32)
    resolve_tasks(*dealt, starts, order)
    chosen = [order[a:b] for a, b in pairwise(bounds)]
    return [(*key.take(some, axis=1), firsts[some], lasts[some]) for some in chosen]


def hashes_of(columns: Codes, salt: int = 0) -> NDArray[np.uint64]:
    """Return a hash of each column of codes."""
    hashes = np.empty(columns.shape[1], np.uint64)
    hash_columns(columns, salt, hashes)
    return hashes


def _stacked(columns: list[Codes], prefixes: Codes) -> Codes:
    """Return columns as one array; zeros if there are none, for extenders without a key."""
    return np.stack(columns) if columns else np.zeros((1, prefixes.shape[1]), prefixes.dtype)
