"""A trie that changes: the lists that updates touch are rewritten behind the others, and their codes are pointed at the copies.

A list therefore remains one sorted stretch of one array, whatever happened to it, and a version of the relation is only an
array with the place of each code's list. The versions before an epoch, between its deletions and its insertions, and after it
share all lists that they have in common, and kernels read them like a relation that never changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.trie import Codes, Level, Trie, levels_of
from bigjoin.kernels.patch import copy_lists, patch_lists
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


class UntrueDeltaError(Exception):
    """A delta deletes a tuple that is not there, inserts one that is, or names one twice."""


class ChangingTrie:
    """The tuples of a relation in one column order, at all three moments of an epoch."""

    def __init__(self, base: Trie, size: int, longest: int) -> None:
        self._set_levels(base.levels)
        self.longest = longest
        self.stored = len(base)
        self.places = [Growing(base.shards.nodes(np.arange(base.nodes_stored)).astype(NODE_TYPE)) for _ in Moment]
        self.in_delta = {insert: Growing(np.zeros(0, NODE_TYPE)) for insert in (False, True)}
        self.deltas: dict[bool, Trie] = {}
        self.touched: list[NDArray[np.int64]] = []
        self.grow(size)

    def _set_levels(self, levels: Sequence[Level]) -> None:
        self.levels = [(Growing(level.offsets), Growing(level.values)) for level in levels]
        offsets, values = self.levels[0]
        offsets.extend(1)[0] = values.used
        self.empty = offsets.used - 2
        """The node of the empty list."""

    def grow(self, size: int) -> None:
        """Make room for every code of the first column's domain."""
        for places in self.places:
            places.fill(size, self.empty)
        for places in self.in_delta.values():
            places.fill(size, 0)

    def trie(self, moment: Moment) -> Trie:
        """Return the relation at a moment."""
        levels = tuple(Level(offsets.filled, values.filled) for offsets, values in self.levels)
        return Trie(levels, places=self.places[moment].filled, most=self.longest)

    def change(self, columns: Sequence[Codes], *, insert: bool) -> None:
        """Insert tuples that are not there, or delete tuples that are; they are sorted, in the trie's column order.

        Raise UntrueDeltaError otherwise: the rewritten lists have no room for anything else.
        """
        moments = (Moment.AFTER,) if insert else (Moment.BETWEEN, Moment.AFTER)
        if len(columns[0]) and (_equal_to_next(columns).any() or (self.trie(moments[0]).contains(columns) == insert).any()):
            raise UntrueDeltaError
        firsts = np.flatnonzero(np.append(True, columns[0][1:] != columns[0][:-1])[: len(columns[0])])
        keys, starts = columns[0][firsts].astype(np.int64), np.append(firsts, len(columns[0]))
        self._keep_delta(keys, starts, columns, insert=insert)
        if not len(keys):
            return
        nodes = self.places[moments[0]].filled[keys]
        rewrite = self._patch if len(self.levels) == 1 else self._rewrite
        first = rewrite(nodes, starts, columns[1:], insert=insert)
        for moment in moments:
            self.places[moment].filled[keys] = first + np.arange(len(keys), dtype=NODE_TYPE)
        self.touched.append(keys)

    def commit(self) -> None:
        """Make the version after an epoch the one before the next, and drop the delta."""
        for keys in self.touched:
            for moment in (Moment.BEFORE, Moment.BETWEEN):
                self.places[moment].filled[keys] = self.places[Moment.AFTER].filled[keys]
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

    def _patch(self, nodes: NDArray[Any], starts: NDArray[np.int64], columns: Sequence[Codes], *, insert: bool) -> int:
        """Write the changed lists of a binary relation behind the others, and return the node of the first."""
        offsets, values = self.levels[0]
        now = offsets.filled[nodes.astype(np.int64) + 1] - offsets.filled[nodes]
        lengths = now + np.diff(starts) if insert else now - np.diff(starts)
        self.longest = max(self.longest, int(lengths.max()))
        ends = values.used + np.cumsum(lengths)
        first, known = offsets.used - 1, (offsets.filled, values.filled)
        patched = values.extend(int(lengths.sum()))
        patch_lists(*known, nodes, starts, columns[0], insert, np.cumsum(lengths) - lengths, patched)
        offsets.extend(len(ends))[:] = ends
        return first

    def _rewrite(self, nodes: NDArray[Any], starts: NDArray[np.int64], columns: Sequence[Codes], *, insert: bool) -> int:
        """Do the same for wider tuples: gather all below the changed nodes, and write their levels."""
        changed = np.repeat(np.arange(len(nodes)), np.diff(starts))
        every = [np.concatenate(pair) for pair in zip(self.tuples_below(nodes), (changed, *columns), strict=True)]
        order = np.lexsort(every[::-1])
        every = [column[order] for column in every]
        if not insert:  # a deleted tuple is there twice: as a known one, and in the delta
            same = _equal_to_next(every)
            gone = np.append(same, False) | np.append(False, same)
            every = [column[~gone] for column in every]
        first = self.levels[0][0].used - 1
        for (offsets, values), level in zip(self.levels, levels_of(every[0], every[1:], len(nodes)), strict=True):
            offsets.extend(len(level.offsets) - 1)[:] = level.offsets[1:] + values.used
            values.extend(len(level.values))[:] = level.values
        self.longest = max(self.longest, int(np.diff(level.offsets).max(initial=0)))
        return first

    def tuples_below(self, nodes: NDArray[Any]) -> list[Codes]:
        """Return all tuples below some nodes, column by column, each after the number of its node."""
        below = Trie(self.compact(nodes))
        return below.tuples(np.arange(len(below)))

    def _sweep(self) -> None:
        """Drop superseded lists."""
        live = self.places[Moment.BEFORE].filled
        self._set_levels(self.compact(live))
        for places in self.places:
            places.filled[:] = np.arange(len(live), dtype=NODE_TYPE)

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
