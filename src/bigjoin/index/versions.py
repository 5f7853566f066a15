"""The relations of an index that updates can change, in memory: before an epoch, between its phases, and after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigjoin.errors import IndexFormatError
from bigjoin.index.changing import ChangingTrie, Moment, UntrueDeltaError
from bigjoin.index.changing_list import ChangingList
from bigjoin.index.directory import Index
from bigjoin.index.manifest_entries import RunEntry
from bigjoin.index.runs import Delta, Reading, read_combined
from bigjoin.index.trie import Codes
from bigjoin.kernels.lists import add_shorter_lists
from bigjoin.query.statistics import RelationStatistics, Statistics


class Versions:
    """Every relation that updates can change, in all its column orders, with the delta of the epoch that has begun."""

    def __init__(self, index: Index) -> None:
        self.damaged = index.damaged
        self.orders: dict[Reading, dict[tuple[int, ...], ChangingTrie]] = {}
        self.lists: dict[str, ChangingList] = {}
        """Relations with one column."""
        self.readings = dict(_readings(index.statistics))
        self.deleted_tuples: dict[Reading, int] = {}
        for (name, width), reading in self.readings.items():
            if width == 1:
                self.lists[name] = ChangingList(index.trie(name, (0,)).values)
                continue
            tries: dict[Any, ChangingTrie] = {}
            self.orders[name, width] = {}
            for columns, lists in reading.lists.items():
                files = index.files_of(name, columns)
                if files not in tries:
                    base = index.trie(name, columns)
                    tries[files] = ChangingTrie(base, index.statistics.domains[reading.domains[columns[0]]], lists.longest)
                self.orders[name, width][columns] = tries[files]

    def begin(self, deltas: Mapping[Reading, Delta], statistics: Statistics, *, stored: bool | None = None) -> None:
        """Begin an epoch, whose statistics may have larger domains.

        `stored` begins it for stored results alone, or for all other relations: what changes these decides what changes those.
        """
        if not stored:
            self.deleted_tuples = {}
        self.deleted_tuples |= {read: delta.deleted.shape[1] for read, delta in deltas.items()}
        for read, columns, trie in self._distinct_tries():
            if stored is not None and stored != self.readings[read].materialized:
                continue
            reading, delta = self.readings[read], deltas.get(read)
            trie.grow(statistics.domains[reading.domains[columns[0]]])
            for insert in (False, True):
                tuples = np.empty((len(columns), 0), np.uint32)
                if delta is not None:
                    tuples = delta.inserted if insert else delta.deleted
                try:
                    trie.change(_sorted(tuples, columns, symmetric=reading.symmetric), insert=insert)
                except UntrueDeltaError:
                    raise self.damaged(f"updates of {read[0]!r} make no sense in column order {columns}") from None

    def commit(self) -> None:
        """Make the new version the old one."""
        for _, _, trie in self._distinct_tries():
            trie.commit()

    def holds(self, read: Reading, tuples: Sequence[Codes]) -> NDArray[np.bool_]:
        """Tell for each tuple whether the relation has it before the epoch."""
        if read[1] == 1:
            return self.lists[read[0]].trie(Moment.BEFORE).contains(tuples)
        columns, changing = next(iter(self.orders[read].items()))
        trie, found = changing.trie(Moment.BEFORE), np.zeros(len(tuples[0]), np.bool_)
        assert trie.places is not None
        known = tuples[columns[0]] < len(trie.places)  # others have come since
        found[known] = trie.contains([tuples[c][known] for c in columns])
        return found

    def reach_of_delta(self, relation: str) -> int:
        """Return the length of the shorter list of each of the delta's pairs, added up: about the cost of joining them."""
        total = 0
        orders = {columns[0]: trie for columns, trie in self.orders[relation, 2].items()}
        for insert in (False, True):
            delta = orders[0].deltas[insert]
            if len(delta):
                moment = Moment.AFTER if insert else Moment.BEFORE
                known = [orders[column].trie(moment) for column in (0, 1)]
                lists = [array for trie in known for array in (trie.places, trie.offsets)]
                total += int(add_shorter_lists(delta.keys, delta.offsets, delta.values, *lists))
        return total

    @property
    def longest(self) -> int:
        """The length of the longest list, or an upper bound of it."""
        return max((trie.longest for _, _, trie in self._distinct_tries()), default=0)

    def order(self, read: Reading, columns: tuple[int, ...]) -> ChangingTrie:
        """Return a relation in a column order that begins with some columns."""
        orders = self.orders[read]
        if columns in orders:
            return orders[columns]
        order = next((order for order in sorted(orders) if order[: len(columns)] == columns), None)
        if order is None:
            raise IndexFormatError(f"the index does not hold {read[0]!r} in column order {columns}")
        return orders[order]

    def _distinct_tries(self) -> Iterator[tuple[Reading, tuple[int, ...], ChangingTrie | ChangingList]]:
        """Give each list and each trie once, with the first column order that it serves: symmetric orders share a trie."""
        for name, changing in self.lists.items():
            yield (name, 1), (0,), changing
        for read, orders in self.orders.items():
            distinct = {id(trie): (columns, trie) for columns, trie in reversed(orders.items())}
            yield from ((read, columns, trie) for columns, trie in distinct.values())


def versions_of(index: Index, runs: Sequence[RunEntry]) -> Versions:
    """Return the versions of an index after some of its runs, from its files."""
    versions = Versions(index.base)
    if runs:
        versions.begin(read_combined(index, runs), index.statistics)
        versions.commit()
    for read, reading in _readings(index.statistics) if len(runs) == len(index.runs) else ():
        changing = versions.lists[read[0]] if read[1] == 1 else next(iter(versions.orders[read].values()))
        found = changing.live()
        if found != reading.tuples:
            raise index.damaged(f"the relation {read[0]!r} has {found} tuples, and {reading.tuples} by the manifest")
    return versions


def _readings(statistics: Statistics) -> Iterator[tuple[Reading, RelationStatistics]]:
    """Give what can be read of the relations that updates can change."""
    for name, relation in statistics.relations.items():
        yield (name, relation.arity), relation
        if relation.rows is not None:
            yield (name, relation.arity + 1), relation.rows


def _sorted(tuples: Codes, columns: tuple[int, ...], *, symmetric: bool) -> Sequence[Codes]:
    """Return tuples sorted in a column order; those of a symmetric relation in both directions."""
    if symmetric:
        tuples = np.concatenate([tuples, tuples[[1, 0, *range(2, len(tuples))]]], axis=1)
    ordered = [tuples[c] for c in columns]
    if len(ordered) == 2 and tuples.dtype == np.uint32:
        packed = ordered[0].astype(np.uint64) << np.uint64(32) | ordered[1]
        packed.sort()
        return [(packed >> np.uint64(32)).astype(np.uint32), packed.astype(np.uint32)]
    order = np.lexsort(ordered[::-1])
    return [column[order] for column in ordered]
