"""A trie that changes: the lists that updates touch are written anew elsewhere, and their codes are pointed at the copies.

A list therefore remains one sorted stretch of one array, whatever happened to it, and a version of the relation is only an
array with the place of each code's list. The versions before an epoch, between its deletions and its insertions, and after it
share all lists that they have in common, and kernels read them like a relation that never changes.

The lists of a binary relation are written to slots with some room (`kernels/slots.py`), and a slot is free again as soon as the
epoch that supersedes its list is committed: what is written next is in the cache still. Tuples of more columns are written
behind all others. Either way, what is superseded is swept out once it is most of what there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import IntEnum
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.trie import Codes, Level, Trie, levels_of
from bigjoin.kernels.patch import copy_lists, patch_lists
from bigjoin.kernels.slots import CLASSES, free_slots, new_slots, take_slots
from bigjoin.storage.arena import Growing

NODE_TYPE = np.uint32

MAX_WRITTEN_RATIO = 2
"""Superseded lists are swept out once more tuples are written than this many times those of the relation ..."""
MIN_SWEPT_TUPLES = 1 << 20
"""... plus this many."""


class Moment(IntEnum):
    """The moments of an epoch at which a relation can be read: before it, between deletions and insertions, and after it."""

    BEFORE = 0
    BETWEEN = 1
    AFTER = 2
    UNITED = 3
    """Between the phases as negated atoms read it, with all that is deleted and inserted: made for those who ask."""


class UntrueDeltaError(Exception):
    """A delta deletes a tuple that is not there, inserts one that is, or names one twice."""


class ChangingTrie:
    """The tuples of a relation in one column order, at all three moments of an epoch."""

    def __init__(self, base: Trie, size: int, longest: int) -> None:
        self._set_levels(base.levels)
        self.longest = longest
        self.stored = len(base)
        stored = base.shards.nodes(np.arange(base.nodes_stored)).astype(NODE_TYPE)
        self.places = {moment: Growing(stored) for moment in (Moment.BEFORE, Moment.BETWEEN, Moment.AFTER)}
        self.in_delta = {insert: Growing(np.zeros(0, NODE_TYPE)) for insert in (False, True)}
        self.deltas: dict[bool, Trie] = {}
        self.touched: list[NDArray[np.int64]] = []
        self._inserted: tuple[NDArray[np.int64], NDArray[np.int64], Sequence[Codes]] | None = None
        """What the epoch inserts, until it is united with the old version: keys, where the tuples of each begin, and these."""
        self._uniting = Lock()
        self._no_delta: Trie | None = None
        """A delta without tuples, once there was one."""
        self._tries: dict[Moment, Trie] = {}
        """The relation at moments, until it changes."""
        self.grow(size)

    def _set_levels(self, levels: Sequence[Level]) -> None:
        self.levels = [(Growing(level.offsets), Growing(level.values)) for level in levels]
        offsets, values = self.levels[0]
        offsets.extend(1)[0] = values.used
        self.empty = offsets.used - 2
        """The node of the empty list."""
        self.first_slot = offsets.used
        self.free = np.zeros(CLASSES, NODE_TYPE)
        """A free slot of each class, which leads to the next; 0 if there is none."""

    def grow(self, size: int) -> None:
        """Make room for every code of the first column's domain."""
        self._tries = {}
        for places in self.places.values():
            places.fill(size, self.empty)
        for places in self.in_delta.values():
            places.fill(size, 0)

    def trie(self, moment: Moment) -> Trie:
        """Return the relation at a moment."""
        if moment is Moment.UNITED:
            self._unite()
        if moment not in self._tries:
            levels = tuple(Level(offsets.filled, values.filled) for offsets, values in self.levels)
            self._tries[moment] = Trie(levels, places=self.places[moment].filled, most=self.longest)
        return self._tries[moment]

    def change(self, columns: Sequence[Codes], *, insert: bool) -> None:
        """Insert tuples that are not there, or delete tuples that are; they are sorted, in the trie's column order.

        Raise UntrueDeltaError otherwise; then this is of no use any more.
        """
        if not len(columns[0]):
            self._keep_no_delta(insert=insert)
            return
        moments = (Moment.AFTER,) if insert else (Moment.BETWEEN, Moment.AFTER)
        firsts = np.flatnonzero(np.append(True, columns[0][1:] != columns[0][:-1])[: len(columns[0])])
        keys, starts = columns[0][firsts].astype(np.int64), np.append(firsts, len(columns[0]))
        self._keep_delta(keys, starts, columns, insert=insert)
        self._write(keys, starts, columns, moments, insert=insert)
        self.touched.append(keys)
        if insert:
            self._inserted = keys, starts, columns

    def _write(
        self,
        keys: NDArray[np.int64],
        starts: NDArray[np.int64],
        columns: Sequence[Codes],
        moments: Sequence[Moment],
        *,
        insert: bool,
    ) -> None:
        """Write the lists of keys anew, as they are at the first of some moments and changed, for all of these moments."""
        self._tries = {}
        rewrite = self._patch if len(self.levels) == 1 else self._rewrite
        nodes = rewrite(self.places[moments[0]].filled[keys], starts, columns[1:], insert=insert)
        for moment in moments:
            self.places[moment].filled[keys] = nodes

    def _unite(self) -> None:
        """Have the old version together with what the epoch inserts; from then on, its places follow every epoch."""
        with self._uniting:
            if Moment.UNITED not in self.places:
                self.places[Moment.UNITED] = Growing(self.places[Moment.BEFORE].filled)
            if self._inserted is not None:
                keys, starts, columns = self._inserted
                self._write(keys, starts, columns, (Moment.UNITED,), insert=True)
                self._inserted = None

    def commit(self) -> None:
        """Make the version after an epoch the one before the next, and drop the delta."""
        self._tries = {}
        offsets, values = self.levels[0]
        first_slot = self.first_slot if len(self.levels) == 1 else np.iinfo(NODE_TYPE).max
        others = tuple(places.filled for moment, places in self.places.items() if moment is not Moment.AFTER)
        for keys in self.touched:
            free_slots(offsets.filled, values.filled, keys, self.places[Moment.AFTER].filled, others, self.free, first_slot)
        self._inserted = None
        for insert, delta in self.deltas.items():
            assert delta.keys is not None
            self.in_delta[insert].filled[delta.keys[1:].astype(np.int64)] = 0
        self.touched, self.deltas = [], {}
        if self._is_mostly_superseded():  # by the number of tuples at the last count, since counting takes a while
            self.stored = self.live()
            if self._is_mostly_superseded():
                self._sweep()

    def _is_mostly_superseded(self) -> bool:
        return self.levels[-1][1].used > MAX_WRITTEN_RATIO * self.stored + MIN_SWEPT_TUPLES

    def live(self) -> int:
        """Return how many tuples the relation has."""
        nodes = self.places[Moment.BEFORE].filled.astype(np.int64)
        bounds = self.levels[0][0].filled
        for offsets, _ in self.levels[1:]:
            bounds = offsets.filled[bounds]
        return int((bounds[nodes + 1] - bounds[nodes]).sum())

    def _keep_delta(
        self, keys: NDArray[np.int64], starts: NDArray[np.int64], columns: Sequence[Codes], *, insert: bool
    ) -> None:
        """Keep the delta as a trie of its own, whose node 0 is the empty list of all codes that are not in it."""
        nodes = np.arange(1, len(keys) + 1)
        places = self.in_delta[insert].filled
        places[keys] = nodes
        levels = levels_of(np.repeat(nodes, np.diff(starts)), columns[1:], len(keys) + 1)
        self.deltas[insert] = Trie(levels, places=places, keys=np.append(0, keys).astype(columns[0].dtype))

    def _keep_no_delta(self, *, insert: bool) -> None:
        """Keep a delta without tuples."""
        if self._no_delta is None:
            depth, codes = len(self.levels), self.levels[0][1].array.dtype
            empty = [np.empty(0, codes)] * depth
            self._no_delta = Trie(levels_of(np.empty(0, np.int64), empty, 1), keys=np.zeros(1, codes))
        self.deltas[insert] = replace(self._no_delta, places=self.in_delta[insert].filled)

    def _patch(self, nodes: NDArray[Any], starts: NDArray[np.int64], columns: Sequence[Codes], *, insert: bool) -> NDArray[Any]:
        """Write the changed lists of a binary relation to slots, and return these."""
        offsets, values = self.levels[0]
        slots, lengths = np.empty(len(nodes), NODE_TYPE), np.empty(len(nodes), np.int64)
        needed = take_slots(offsets.filled, values.filled, nodes, starts, insert, self.free, slots, lengths)
        if needed < 0:
            raise UntrueDeltaError
        if needed:
            first, begin = offsets.used, values.used
            offsets.extend(2 * int(np.count_nonzero(slots == 0)))
            values.extend(needed)
            new_slots(offsets.filled, first, begin, slots, lengths)
        self.longest = max(self.longest, int(lengths.max()))
        if not patch_lists(offsets.filled, values.filled, nodes, starts, columns[0], insert, slots):
            raise UntrueDeltaError
        return slots

    def _rewrite(
        self, nodes: NDArray[Any], starts: NDArray[np.int64], columns: Sequence[Codes], *, insert: bool
    ) -> NDArray[Any]:
        """Do the same for wider tuples: gather all below the changed nodes, and write their levels behind the others."""
        changed = np.repeat(np.arange(len(nodes)), np.diff(starts))
        every = [np.concatenate(pair) for pair in zip(self.tuples_below(nodes), (changed, *columns), strict=True)]
        order = np.lexsort(every[::-1])
        every = [column[order] for column in every]
        same = _equal_to_next(every)
        if _equal_to_next([changed, *columns]).any() or np.count_nonzero(same) != (0 if insert else len(changed)):
            raise UntrueDeltaError
        if not insert:  # a deleted tuple is there twice: as a known one, and in the delta
            gone = np.append(same, False) | np.append(False, same)
            every = [column[~gone] for column in every]
        first = self.levels[0][0].used - 1
        for (offsets, values), level in zip(self.levels, levels_of(every[0], every[1:], len(nodes)), strict=True):
            offsets.extend(len(level.offsets) - 1)[:] = level.offsets[1:] + values.used
            values.extend(len(level.values))[:] = level.values
        self.longest = max(self.longest, int(np.diff(level.offsets).max(initial=0)))
        return first + np.arange(len(nodes), dtype=NODE_TYPE)

    def tuples_below(self, nodes: NDArray[Any]) -> list[Codes]:
        """Return all tuples below some nodes, column by column, each after the number of its node."""
        below = Trie(self.compact(nodes))
        return below.tuples(np.arange(len(below)))

    def _sweep(self) -> None:
        """Drop superseded lists; those of a binary relation move to slots."""
        live = self.places[Moment.BEFORE].filled
        if len(self.levels) == 1:
            nodes = self._sweep_to_slots(live)
        else:
            self._set_levels(self.compact(live))
            nodes = np.arange(len(live), dtype=NODE_TYPE)
        for places in self.places.values():
            places.filled[:] = nodes

    def _sweep_to_slots(self, live: NDArray[Any]) -> NDArray[Any]:
        """Copy the lists of some nodes to slots of a new array, and return these; node 0 is the empty list."""
        ((offsets, values),) = self.levels
        keys = np.flatnonzero(offsets.filled[live.astype(np.int64) + 1] > offsets.filled[live])
        nodes, free = live[keys], np.zeros(CLASSES, NODE_TYPE)
        slots, lengths = np.empty(len(keys), NODE_TYPE), np.empty(len(keys), np.int64)
        needed = take_slots(offsets.filled, values.filled, nodes, np.zeros(len(keys) + 1, np.int64), True, free, slots, lengths)
        swept, copied = np.zeros(2 + 2 * len(keys), np.int64), np.empty(needed, values.array.dtype)
        new_slots(swept, 2, 0, slots, lengths)
        copy_lists(offsets.filled, values.filled, nodes, swept[2::2], copied)
        self.levels = [(Growing(swept), Growing(copied))]
        self.empty, self.first_slot, self.free = 0, 2, free
        moved = np.zeros(len(live), NODE_TYPE)
        moved[keys] = slots
        return moved

    def compact(self, nodes: NDArray[Any]) -> tuple[Level, ...]:
        """Return levels that hold only the lists of some nodes, in their order."""
        levels, nodes = [], nodes.astype(np.int64)
        for offsets, values in self.levels:
            lengths = offsets.filled[nodes + 1] - offsets.filled[nodes]
            ends = np.append(0, np.cumsum(lengths))
            copied = np.empty(int(ends[-1]), values.array.dtype)
            copy_lists(offsets.filled, values.filled, nodes, ends[:-1], copied)
            levels.append(Level(ends, copied))
            if len(levels) < len(self.levels):
                starts = offsets.filled[nodes]
                nodes = np.repeat(starts - ends[:-1], lengths) + np.arange(int(ends[-1]))
        return tuple(levels)


def _equal_to_next(columns: Sequence[Codes]) -> NDArray[np.bool_]:
    """Tell for each of some sorted tuples but the last whether the next one is the same."""
    same = np.ones(max(0, len(columns[0]) - 1), np.bool_)
    for column in columns:
        same &= column[1:] == column[:-1]
    return same
