"""A relation sorted by one column order, as a trie: the paper's extension index (section 2.2) for every prefix of that order.

Level 0 is addressed by the node of the first column's code, each further level by the position of a value in the level above.
So the size of an extension set is one subtraction, its contents are a slice, and membership is a binary search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.ordered_tuples import ordered_tuples
from bigjoin.index.shards import ONE_SHARD, Shards
from bigjoin.kernels.sound import measured_lists
from bigjoin.kernels.walk import ascend, contains_tuples, descend
from bigjoin.query.statistics import ListStatistics

Codes: TypeAlias = NDArray[Any]
"""An array of codes: uint32 while they fit, uint64 beyond."""


@dataclass(frozen=True, slots=True)
class Level:
    """Lists, one for each node: values[offsets[node] : offsets[node + 1]], each sorted and free of duplicates."""

    offsets: NDArray[np.int64]
    values: Codes


@dataclass(frozen=True, slots=True)
class Trie:
    """The levels below a root. The lists of the last level are the extensions of a key."""

    levels: tuple[Level, ...]
    keyed: bool = True
    """Whether the first column addresses level 0; a projection to one column is a single list, without a key."""
    shards: Shards = ONE_SHARD
    """How the lists of level 0 are dealt out; with one shard, the node of a code is the code."""
    places: NDArray[Any] | None = None
    """The node of each code, if the shards do not say: lists that updates have changed lie elsewhere."""
    keys: NDArray[Any] | None = None
    """The code of each node, if the shards do not say and all tuples are read."""
    most: int | None = None
    """An upper bound of the lengths of lists, if it would take long to compute their maximum."""

    @property
    def offsets(self) -> NDArray[np.int64]:
        return self.levels[-1].offsets

    @property
    def values(self) -> Codes:
        return self.levels[-1].values

    def __len__(self) -> int:
        return len(self.values)

    @property
    def nodes_stored(self) -> int:
        """How many lists level 0 has."""
        return len(self.levels[0].offsets) - 1

    def has_same_lists(self, other: Trie) -> bool:
        """Tell whether this is another trie, or has the very arrays of another trie."""
        if self is other:
            return True
        rest = (other.keyed, other.shards, id(other.places), id(other.keys))
        return (self.keyed, self.shards, id(self.places), id(self.keys)) == rest and self._memory == other._memory

    @property
    def _memory(self) -> list[tuple[int, int]]:
        arrays = (array for level in self.levels for array in (level.offsets, level.values))
        return [(array.__array_interface__["data"][0], len(array)) for array in arrays]

    def nodes(self, key: Sequence[Codes], count: int) -> NDArray[Any]:
        """Return the node of each of `count` keys, given column by column; -1 where a key is not in the relation."""
        if not key:
            return np.zeros(count, np.uint32)
        nodes = self.shards.nodes(key[0]) if self.places is None else self.places[key[0]]
        for level, codes in zip(self.levels, key[1:], strict=False):
            below = np.empty(count, np.int64)
            descend(level.offsets, level.values, nodes, codes, below)
            nodes = below
        return nodes

    def contains(self, columns: Sequence[Codes]) -> NDArray[np.bool_]:
        """Tell for each tuple, given column by column in the trie's order, whether the relation holds it."""
        *key, codes = columns
        found = np.empty(len(codes), np.bool_)
        contains_tuples(self.offsets, self.values, self.nodes(key, len(codes)), codes, found)
        return found

    def tuples(self, positions: NDArray[np.int64]) -> list[Codes]:
        """Return the tuples at some positions, which are sorted, as columns in the trie's order."""
        columns: list[Codes] = [self.values[positions]]
        for depth in range(len(self.levels) - 1, -1, -1):
            nodes = np.empty(len(positions), np.int64)
            ascend(self.levels[depth].offsets, positions, nodes)
            if depth:
                columns.append(self.levels[depth - 1].values[nodes])
            elif self.keyed:
                codes = self.shards.codes(nodes) if self.keys is None else self.keys[nodes]
                columns.append(codes.astype(self.values.dtype))
            positions = nodes
        return columns[::-1]

    def roots(self) -> Trie:
        """Return the projection to the first column: a single list of the values that occur there."""
        offsets = self.levels[0].offsets
        if self.keys is not None:
            codes = self.keys[np.diff(offsets) > 0]
        elif self.places is not None:
            codes = np.flatnonzero(offsets[self.places.astype(np.int64) + 1] > offsets[self.places])
        else:
            codes = self.shards.codes(np.flatnonzero(np.diff(offsets)))
        return single_list(np.sort(codes).astype(self.values.dtype))

    def first_columns(self, count: int) -> Trie:
        """Return the projection to the first `count` columns."""
        if count == len(self.levels) + self.keyed:
            return self
        return self.roots() if count == 1 else replace(self, levels=self.levels[: count - 1], most=None)

    def list_of(self, key: Sequence[int]) -> Codes:
        """Return the extensions of one key; none if the relation does not have it."""
        node = int(self.nodes([np.array([code]) for code in key], 1)[0])
        return self.values[self.offsets[node] : self.offsets[node + 1]] if node >= 0 else self.values[:0]

    def listed(self) -> Codes:
        """Return the values of all lists of a trie with one level; where lists change, there is room between them."""
        if self.places is None or self.keys is not None:
            return self.values
        starts, ends = self.offsets[self.places], self.offsets[self.places.astype(np.int64) + 1]
        lengths = ends - starts
        return self.values[np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(int(lengths.sum()))]

    @property
    def longest(self) -> int:
        """The length of the longest list of the last level, or an upper bound of it."""
        return int(np.diff(self.offsets).max(initial=0)) if self.most is None else self.most


def list_statistics(offsets: NDArray[np.int64], length: int | None = None) -> ListStatistics:
    """Return the distribution of the lengths of lists.

    Raise ValueError unless the offsets never fall, begin with 0 and end with `length`, the number of values, if it is given.
    """
    total = int(offsets[-1]) if length is None else length
    keys, squares, longest = measured_lists(offsets, total)
    if longest < 0:
        raise ValueError("these are not the offsets of lists")
    return ListStatistics(int(keys), total / max(1, int(keys)), squares / max(1, total), int(longest))


def single_list(values: Codes) -> Trie:
    """Return the trie of a relation with one column: a list without a key, sorted and free of duplicates."""
    return Trie((Level(np.array([0, len(values)], np.int64), values),), keyed=False)


def build_trie(columns: Sequence[Codes], domain: int) -> Trie:
    """Return the trie of tuples, in any order and with duplicates, given column by column; the first has `domain` codes."""
    if len(columns) == 1:
        return single_list(np.unique(columns[0]))
    order = np.lexsort(columns[::-1])
    ordered = [np.asarray(column)[order] for column in columns]
    return Trie(levels_of(ordered[0].astype(np.int64), ordered[1:], domain))


def sparse_trie(columns: Sequence[Codes], domain: int) -> Trie:
    """Do the same as `build_trie` for few tuples of a large domain, in time and memory that follow the tuples.

    Node 0 is the empty list of all codes that no tuple begins with, as in the trie of a delta. Zeroed memory is only taken
    from the system where it is touched.
    """
    ordered = ordered_tuples(columns)
    if len(columns) == 1:
        return single_list(ordered[0])
    fresh = np.append(True, ordered[0][1:] != ordered[0][:-1])[: len(ordered[0])]
    keys = ordered[0][fresh]
    places = np.zeros(domain, np.uint32)
    places[keys.astype(np.int64)] = np.arange(1, len(keys) + 1)
    levels = levels_of(np.cumsum(fresh), ordered[1:], len(keys) + 1)
    return Trie(levels, places=places, keys=np.append(0, keys).astype(keys.dtype))


def levels_of(nodes: NDArray[np.int64], columns: Sequence[Codes], count: int) -> tuple[Level, ...]:
    """Return the levels of sorted tuples, given as the node of each, out of `count` nodes, and their further columns."""
    levels = []
    fresh = np.zeros(len(nodes), np.bool_)
    previous: NDArray[Any] = nodes
    for column in columns:
        fresh[:1] = True
        fresh[1:] |= (previous[1:] != previous[:-1]) | (column[1:] != column[:-1])
        first = np.flatnonzero(fresh)
        offsets = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(nodes[first], minlength=count), out=offsets[1:])
        levels.append(Level(offsets, column[first]))
        nodes, count, previous = np.cumsum(fresh) - 1, len(first), column
    return tuple(levels)
