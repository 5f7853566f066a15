"""Lookups in indices that no skew can make lopsided (section 3.4 of the paper): who answers, what is asked, what is said.

There are three kinds, and each index is dealt out by a hash of all that a lookup names:

- Count: where the list of a key begins and ends, cut to a window; by (key, window).
- Resolve: the extension at a position of a list, which stands for the paper's (key, k); by position.
- Hold: whether a key has an extension; by (key, value).

So a hub's list lies with all workers. A worker asks the same only once, however many of its prefixes wish to know; all workers
together then ask the same at most once each, and no worker is asked much more than its share (theorem 3.4).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.trie import Codes, Trie
from bigjoin.joins.bind import BoundExtender
from bigjoin.joins.constraints import Window
from bigjoin.kernels.lookups import aggregate, gather_resolved, hash_owners, list_ranges, resolve, resolve_owners
from bigjoin.kernels.route import group

Arrays = tuple[NDArray[Any], ...]
"""What is asked or said: arrays of one length."""

Rows = NDArray[np.int64] | slice
"""Some of a worker's candidates, or all of them."""

Answers = dict[int, list[Arrays]]
"""What was said, by number of the lookup in an exchange, task by task."""

_ALIGNED = 8

CHUNK = 1 << 20
"""Tuples of an index that are looked at together."""


@dataclass(frozen=True, slots=True)
class Dealing:
    """How lookups are dealt: a hash decides which of the workers answers, and worker % tasks which task hosts it."""

    workers: int
    tasks: int
    salt: int

    def of(self, index: int) -> Dealing:
        """Return the dealing of one of several indices: what is hot in two of them lies with two workers."""
        return Dealing(self.workers, self.tasks, (self.salt + index) % (1 << 62))


@dataclass(frozen=True, slots=True)
class Count:
    """How many extensions a prefix has: the list of its key, cut to the window of a step."""

    extender: BoundExtender
    window: Window

    def ask(self, prefixes: Codes, dealing: Dealing, load: NDArray[np.int64]) -> Asked:
        """Ask by the key, and by the bounds if there are any."""
        key = [prefixes[k] for k in self.extender.key]
        bounds = [bound for bound in self.window.bounds(prefixes) if len(bound)]
        nothing = np.zeros((1, prefixes.shape[1]), prefixes.dtype)
        return ask(np.stack([*key, *bounds]) if key or bounds else nothing, dealing, load)

    def answer(self, asked: Arrays) -> Arrays:
        """Say where lists begin and end."""
        trie, width, count = self.extender.trie, len(self.extender.key), len(asked[0])
        bounds = iter(asked[width:])
        lower, upper = (next(bounds) if bounded else asked[0][:0] for bounded in self.window.bounded)
        starts, ends = np.empty(count, np.int64), np.empty(count, np.int64)
        list_ranges(trie.offsets, trie.values, trie.nodes(asked[:width], count), lower, upper, starts, ends)
        return starts, ends


@dataclass(frozen=True, slots=True)
class Hold:
    """Whether a relation holds what a candidate makes of an atom: it must, or (excluded) must not."""

    extender: BoundExtender
    wanted: bool = True
    proposer: int | None = None
    """The extender whose candidates ask; None if all do."""

    def ask(self, prefixes: Codes, rows: Rows, dealing: Dealing, load: NDArray[np.int64]) -> Asked:
        """Ask by the key and the value of some candidates."""
        return ask(np.stack([prefixes[k][rows] for k in (*self.extender.key, self.extender.value)]), dealing, load)

    def answer(self, asked: Arrays) -> Arrays:
        """Say which are held, a bit each."""
        return (np.packbits(self.extender.trie.contains(asked)),)

    def keeps(self, prefixes: Codes, rows: Rows, asked: Asked, bits: list[NDArray[np.uint8]]) -> NDArray[np.bool_]:
        """Tell which candidates stay, of those that have asked, given what is held."""
        told = [np.unpackbits(some, count=size) for some, size in zip(bits, asked.sizes, strict=True)]
        held = np.concatenate(told).view(np.bool_).take(asked.slots)
        after = self.extender.after
        if after is not None:
            held = held & (prefixes[self.extender.value, rows] >= after.lower(prefixes[:, rows]))
        return held if self.wanted else ~held


@dataclass(frozen=True, slots=True)
class Resolve:
    """Which extensions stand at positions of an extender's lists."""

    extender: BoundExtender

    def ask(self, starts: NDArray[np.int64], ends: NDArray[np.int64], dealing: Dealing, load: NDArray[np.int64]) -> Asked:
        """Ask for each position once. A range is sent to all tasks: they know what is theirs of it."""
        order = np.argsort(starts, kind="stable")
        first, reach = starts[order], np.maximum.accumulate(ends[order])
        fresh = np.append(True, first[1:] > reach[:-1])
        at = np.flatnonzero(fresh)
        ranges = first[at], reach[np.append(at[1:], len(starts)) - 1]
        resolve_owners(*ranges, dealing.salt, dealing.workers, load)
        lengths = ranges[1] - ranges[0]
        shift = np.cumsum(lengths) - lengths - ranges[0]
        slots = np.empty(len(starts), np.int64)
        slots[order] = first + shift[np.cumsum(fresh) - 1]
        return Asked([ranges] * dealing.tasks, slots, ranges=ranges)

    def answer(self, asked: Arrays, dealing: Dealing, task: int, code_type: Any) -> Arrays:
        """Say what stands at those positions that the workers of a task know."""
        firsts, lasts = asked
        codes = np.empty(int((lasts - firsts).sum()), code_type)
        values = self.extender.trie.values
        found = resolve(values, firsts, lasts, dealing.salt, dealing.workers, dealing.tasks, task, codes)
        return (codes[:found],)

    def gathered(self, asked: Asked, answers: list[NDArray[Any]], dealing: Dealing) -> Codes:
        """Return the extensions at all positions asked for, given the answers of each task."""
        firsts, lasts = asked.ranges
        cursors = np.cumsum([0, *map(len, answers[:-1])])
        codes = np.empty(int((lasts - firsts).sum()), answers[0].dtype)
        gather_resolved(firsts, lasts, dealing.salt, dealing.workers, dealing.tasks, np.concatenate(answers), cursors, codes)
        return codes


Lookup = Count | Hold | Resolve


@dataclass(frozen=True, slots=True)
class Asked:
    """Requests of a worker to one index, those for each task, and which answer is meant for which of its prefixes."""

    requests: list[Arrays]
    """One entry a task; columns of codes, or ranges of positions."""
    slots: NDArray[Any]
    """The number of each prefix's answer, where all answers stand task after task; for ranges, where its codes begin."""
    sizes: tuple[int, ...] = ()
    """How much each task is asked, of those that are asked anything."""
    ranges: Arrays = ()
    """The ranges of positions that were asked for."""


def ask(columns: Codes, dealing: Dealing, load: NDArray[np.int64]) -> Asked:
    """Aggregate lookups that are equal, and deal them to tasks; `load` grows by the requests that each worker will get."""
    count, tasks = columns.shape[1], dealing.tasks
    table = np.full(1 << (count + count // 2).bit_length(), -1, np.int64)
    slots, firsts, destinations = (np.empty(count, np.int32) for _ in range(3))
    starts = np.zeros(tasks + 1, np.int64)
    found = aggregate(columns, dealing.salt, dealing.workers, tasks, table, slots, firsts, destinations, load, starts)
    order, bounds = np.empty(found, np.int32), starts.copy()
    group(destinations[:found], starts, order)
    place = np.empty(found, np.int32)
    place[order] = np.arange(found, dtype=np.int32)
    asked = columns.take(firsts.take(order), axis=1)
    requests = [tuple(asked[:, a:b]) for a, b in pairwise(bounds)]
    return Asked(requests, place.take(slots), tuple(int(b - a) for a, b in pairwise(bounds) if b > a))


def told(said: NDArray[Any]) -> int:
    """Return how many tuples an answer is: a code, a range, or a one among bits (what is not held need not be said)."""
    return int(np.bitwise_count(said).sum()) if said.dtype == np.uint8 else len(said)


def packed(arrays: Arrays) -> Iterator[Any]:
    """Give the parts of arrays as bytes, one after the other."""
    header = json.dumps([(array.dtype.str, len(array)) for array in arrays]).encode()
    header += b" " * (-len(header) % _ALIGNED)
    yield len(header).to_bytes(_ALIGNED, "little") + header
    for array in arrays:
        yield np.ascontiguousarray(array).view(np.uint8).data
        yield bytes(-array.nbytes % _ALIGNED)


def pack_arrays(arrays: Arrays) -> bytes:
    """Return arrays as bytes."""
    return b"".join(packed(arrays))


def unpack_arrays(data: Any) -> Arrays:
    """Return copies of the arrays that bytes hold."""
    view = memoryview(data)
    at = _ALIGNED + int.from_bytes(view[:_ALIGNED], "little")
    arrays = []
    for kind, length in json.loads(bytes(view[_ALIGNED:at])):
        array = np.frombuffer(view, kind, length, at)
        at += array.nbytes + -array.nbytes % _ALIGNED
        arrays.append(array.copy())  # kernels are compiled once more for arrays that cannot be written to
    return tuple(arrays)


def entries_of_workers(trie: Trie, dealing: Dealing) -> NDArray[np.int64]:
    """Return how many entries of the three indices over a trie's lists each worker has."""
    load = np.zeros(dealing.workers, np.int64)
    resolve_owners(np.array([0]), np.array([len(trie)]), dealing.salt, dealing.workers, load)
    for first in range(0, len(trie), CHUNK):
        columns = np.stack(trie.tuples(np.arange(first, min(first + CHUNK, len(trie)))))
        hash_owners(columns, dealing.salt, dealing.workers, load)
        if len(columns) > 1:  # the count of a key, where its first extension is
            keys = columns[:-1]
            fresh = np.append(first == 0, (keys[:, 1:] != keys[:, :-1]).any(axis=0))
            hash_owners(keys[:, fresh], dealing.salt, dealing.workers, load)
    return load
