"""A trie that changes: the lists that updates touch are written anew behind the others, and codes are led to them.

So a list stays one sorted stretch of one array, whatever happened to it, and a version is nothing but an array that says where
the list of each code lies: the old version, the new one, and the one between (after deletions, before insertions) share every
list that they have in common. Kernels read all of them as they read a relation that never changes.
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

NODES = np.uint32

SWEEP = 2
"""Times the tuples there are that may have been written before those that are gone are swept out."""
ROOM = 1 << 20
"""Tuples that may lie about in any case."""


class State(IntEnum):
    """The relation before an epoch, after its deletions, and after its insertions."""

    BEFORE = 0
    BETWEEN = 1
    AFTER = 2


class UntrueDeltaError(Exception):
    """A delta that deletes what is not there, inserts what is, or does so twice."""


class ChangingTrie:
    """The tuples of a relation in one column order, in three states at once."""

    def __init__(self, base: Trie, size: int, longest: int) -> None:
        self._lay(base.levels)
        self.longest = longest
        self.stored = len(base)
        self.empty = self._empty_node()
        self.places = [Growing(base.shards.nodes(np.arange(base.nodes_stored)).astype(NODES)) for _ in State]
        self.in_delta = {False: Growing(np.zeros(0, NODES)), True: Growing(np.zeros(0, NODES))}
        self.deltas: dict[bool, Trie] = {}
        self.touched: list[NDArray[np.int64]] = []
        self.grow(size)

    def _lay(self, levels: Sequence[Level]) -> None:
        self.levels = [(Growing(level.offsets), Growing(level.values)) for level in levels]

    def _empty_node(self) -> int:
        offsets, values = self.levels[0]
        offsets.extend(1)[0] = values.used
        return offsets.used - 2

    def grow(self, size: int) -> None:
        """Have a place for every code of the first column's domain."""
        for places in self.places:
            places.fill(size, self.empty)
        for places in self.in_delta.values():
            places.fill(size, 0)

    def trie(self, state: State) -> Trie:
        """Return the relation in a state."""
        levels = tuple(Level(offsets.filled, values.filled) for offsets, values in self.levels)
        return Trie(levels, places=self.places[state].filled, most=self.longest)

    def change(self, columns: Sequence[Codes], *, insert: bool) -> None:
        """Insert tuples that are not there, or delete some that are; they are sorted, column by column in the trie's order.

        Raise UntrueDeltaError if they are not: lists have no room for that.
        """
        state = State.AFTER if insert else State.BETWEEN
        if len(columns[0]) and not (_are_distinct(columns) and (self.trie(state).contains(columns) != insert).all()):
            raise UntrueDeltaError
        self._note(columns, insert=insert)
        if not len(columns[0]):
            return
        firsts = np.flatnonzero(np.append(True, columns[0][1:] != columns[0][:-1]))
        keys, starts = columns[0][firsts].astype(np.int64), np.append(firsts, len(columns[0]))
        states = (State.AFTER,) if insert else (State.BETWEEN, State.AFTER)
        nodes = self.places[states[0]].filled[keys]
        new = self._patch if len(self.levels) == 1 else self._rewrite
        first = new(nodes, starts, columns[1:], insert=insert)
        for state in states:
            self.places[state].filled[keys] = first + np.arange(len(keys), dtype=NODES)
        self.touched.append(keys)

    def settle(self) -> None:
        """Make the state after an epoch the one before the next, and forget the delta."""
        for keys in self.touched:
            for state in (State.BEFORE, State.BETWEEN):
                self.places[state].filled[keys] = self.places[State.AFTER].filled[keys]
        for insert, delta in self.deltas.items():
            assert delta.keys is not None
            self.in_delta[insert].filled[delta.keys[1:].astype(np.int64)] = 0
        self.touched, self.deltas = [], {}
        written = self.levels[-1][1].used
        if written > SWEEP * self.stored + ROOM:  # as it was when somebody last looked
            self.stored = self.live()
            if written > SWEEP * self.stored + ROOM:
                self._sweep()

    def live(self) -> int:
        """Return how many tuples there are."""
        nodes = self.places[State.BEFORE].filled.astype(np.int64)
        bounds = self.levels[0][0].filled
        for offsets, _ in self.levels[1:]:
            bounds = offsets.filled[bounds]
        return int((bounds[nodes + 1] - bounds[nodes]).sum())

    def _note(self, columns: Sequence[Codes], *, insert: bool) -> None:
        """Keep the tuples of a delta as a trie of their own; its first node is the empty list of all other codes."""
        fresh = np.append(True, columns[0][1:] != columns[0][:-1])[: len(columns[0])]
        keys = columns[0][fresh]
        levels = levels_of(np.cumsum(fresh), columns[1:], len(keys) + 1)
        places = self.in_delta[insert].filled
        places[keys.astype(np.int64)] = np.arange(1, len(keys) + 1, dtype=NODES)
        self.deltas[insert] = Trie(levels, places=places, keys=np.append(np.zeros(1, keys.dtype), keys))

    def _patch(self, nodes: NDArray[Any], starts: NDArray[np.int64], columns: Sequence[Codes], *, insert: bool) -> int:
        """Write the changed lists of a binary relation behind the others, and return the first of their nodes."""
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
        """Do the same where tuples are wider: gather all that hang on the changed nodes, and write their levels."""
        owner, known = self.tuples_below(nodes.astype(np.int64))
        changed = np.repeat(np.arange(len(nodes)), np.diff(starts))
        every = [np.concatenate(pair) for pair in zip((owner, *known), (changed, *columns), strict=True)]
        order = np.lexsort(every[::-1])
        every = [column[order] for column in every]
        if not insert:  # a tuple that is there twice is known, and deleted
            same = np.ones(len(order) - 1, np.bool_)
            for column in every:
                same &= column[1:] == column[:-1]
            gone = np.append(same, False) | np.append(False, same)
            every = [column[~gone] for column in every]
        first = self.levels[0][0].used - 1
        for (offsets, values), level in zip(self.levels, levels_of(every[0], every[1:], len(nodes)), strict=True):
            offsets.extend(len(level.offsets) - 1)[:] = level.offsets[1:] + values.used
            values.extend(len(level.values))[:] = level.values
        self.longest = max(self.longest, int(np.diff(level.offsets).max(initial=0)))
        return first

    def tuples_below(self, nodes: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[Codes]]:
        """Return all tuples below some nodes, column by column, and for each which of the nodes it is below."""
        owner = np.arange(len(nodes))
        found: list[Codes] = []
        for offsets, values in self.levels:
            starts = offsets.filled[nodes]
            lengths = offsets.filled[nodes + 1] - starts
            nodes = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(int(lengths.sum()))
            owner = np.repeat(owner, lengths)
            found = [*(np.repeat(column, lengths) for column in found), values.filled[nodes]]
        return owner, found

    def _sweep(self) -> None:
        """Drop the lists that no code leads to any more."""
        live = self.places[State.BEFORE].filled
        self._lay(self.compact(live))
        self.empty = self._empty_node()
        for places in self.places:
            places.filled[:] = np.arange(len(live), dtype=NODES)

    def compact(self, nodes: NDArray[Any]) -> tuple[Level, ...]:
        """Return levels that hold the lists of some nodes alone, in their order."""
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


def _are_distinct(columns: Sequence[Codes]) -> bool:
    """Tell whether no tuple comes twice; they are sorted."""
    same = np.ones(max(0, len(columns[0]) - 1), np.bool_)
    for column in columns:
        same &= column[1:] == column[:-1]
    return not same.any()
