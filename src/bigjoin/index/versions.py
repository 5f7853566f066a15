"""The versions of an index that an epoch is about: what plans read as old, new and delta, while it is neither committed nor lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bigjoin.errors import IndexFormatError
from bigjoin.index.changing import ChangingTrie, State
from bigjoin.index.dictionary import Dictionary, RowNumbers
from bigjoin.index.directory import Index
from bigjoin.index.trie import Codes, Trie
from bigjoin.query.plan import Version
from bigjoin.query.statistics import RelationStatistics, Statistics

Reading: TypeAlias = tuple[str, int]
"""A relation, and how many columns are read of it: its pairs, or its rows, which have an id more."""


@dataclass(frozen=True)
class Delta:
    """How a relation differs from what it was: tuples, column by column, that it has lost and that it has gained."""

    deleted: Sequence[Codes]
    inserted: Sequence[Codes]

    def __len__(self) -> int:
        return len(self.deleted[0]) + len(self.inserted[0])


class Versions:
    """The relations of an index that change, each in all its column orders, before and after an epoch."""

    def __init__(self, index: Index) -> None:
        self.orders: dict[Reading, dict[tuple[int, ...], ChangingTrie]] = {}
        self.readings = dict(_readings(index.statistics))
        for (name, width), reading in self.readings.items():
            tries: dict[Any, ChangingTrie] = {}
            self.orders[name, width] = {}
            for columns, lists in reading.lists.items():
                files = index.files_of(name, columns)
                if files not in tries:
                    base = index.extensions(name, columns)
                    tries[files] = ChangingTrie(base, index.statistics.domains[reading.domains[columns[0]]], lists.longest)
                self.orders[name, width][columns] = tries[files]

    def begin(self, deltas: Mapping[Reading, Delta], statistics: Statistics) -> None:
        """Begin an epoch; domains may have grown."""
        for read, orders in self.orders.items():
            reading, delta, seen = self.readings[read], deltas.get(read), set[int]()
            for columns, trie in orders.items():
                if id(trie) in seen:
                    continue
                seen.add(id(trie))
                trie.grow(statistics.domains[reading.domains[columns[0]]])
                for insert in (False, True):
                    tuples = () if delta is None else delta.inserted if insert else delta.deleted
                    trie.change(_sorted(tuples, columns, reading), insert=insert)

    def commit(self) -> None:
        """Make the new version the old one."""
        for trie in self._tries():
            trie.settle()

    def undo(self) -> None:
        """Forget the epoch that has begun."""
        for trie in self._tries():
            trie.undo()

    def holds(self, read: Reading, tuples: Sequence[Codes]) -> NDArray[np.bool_]:
        """Tell for each tuple whether the relation has it before the epoch."""
        columns, trie = next(iter(self.orders[read].items()))
        return trie.trie(State.BEFORE).contains([tuples[c] for c in columns])

    def trie(self, read: Reading, columns: tuple[int, ...], state: State) -> Trie:
        """Return a relation in a column order and a state."""
        return self._order(read, columns).trie(state)

    def delta(self, read: Reading, columns: tuple[int, ...], *, insert: bool) -> Trie:
        """Return what an epoch inserts into a relation, or deletes from it."""
        return self._order(read, columns).deltas[insert]

    def _order(self, read: Reading, columns: tuple[int, ...]) -> ChangingTrie:
        fits = (order for order in sorted(self.orders[read]) if order[: len(columns)] == columns)
        order = next(fits, None)
        if order is None:
            raise IndexFormatError(f"the index does not hold {read[0]!r} in column order {columns}")
        return self.orders[read][order]

    def _tries(self) -> Iterable[ChangingTrie]:
        return {id(trie): trie for orders in self.orders.values() for trie in orders.values()}.values()


@dataclass(frozen=True)
class Phase:
    """Half of an epoch, as plans read it: the deletions, or the insertions that follow them."""

    versions: Versions
    index: Index
    """The index with the epoch in it, which says how large domains are."""
    insert: bool
    _known: dict[tuple[str, tuple[int, ...], Version], Trie] = field(default_factory=dict, compare=False, repr=False)

    @property
    def statistics(self) -> Statistics:
        return self.index.statistics

    @property
    def dictionaries(self) -> Mapping[str, Dictionary | RowNumbers]:
        return self.index.dictionaries

    def properties(self, domain: str) -> Mapping[str, pa.ChunkedArray]:
        """Return the columns that a domain's values have beside their ids."""
        return self.index.properties(domain)

    def extensions(self, relation: str, columns: tuple[int, ...], version: Version = Version.NEW) -> Trie:
        """Return the lists of a relation at a version."""
        relations = self.statistics.relations
        if relation not in relations or (relation, relations[relation].arity) not in self.versions.orders:
            return self.index.extensions(relation, columns)
        if version is Version.LATER:
            version = Version.DELTA
        asked = (relation, columns, version)
        if asked not in self._known:
            self._known[asked] = self._read(relation, columns, version)
        return self._known[asked]

    def _read(self, relation: str, columns: tuple[int, ...], version: Version) -> Trie:
        arity = self.statistics.relations[relation].arity
        read = (relation, max(arity, len(columns)))
        if version is Version.DELTA:
            trie = self.versions.delta(read, columns, insert=self.insert)
        else:
            trie = self.versions.trie(read, columns, self._state(version))
        if len(columns) == len(self.versions.readings[read].domains):
            return trie
        return trie.roots() if len(columns) == 1 else trie.upper_levels(len(columns))

    def _state(self, version: Version) -> State:
        if version is Version.EITHER:
            return State.AFTER if self.insert else State.BEFORE
        return State.BETWEEN if (version is Version.NEW) != self.insert else State.AFTER if self.insert else State.BEFORE


def _readings(statistics: Statistics) -> Iterable[tuple[Reading, RelationStatistics]]:
    """Give what can be read of relations that updates may change: all but labels and stored results."""
    for name, relation in statistics.relations.items():
        if relation.arity > 1 and not relation.materialized:
            yield (name, relation.arity), relation
            if relation.rows is not None:
                yield (name, relation.arity + 1), relation.rows


def _sorted(tuples: Sequence[Codes], columns: tuple[int, ...], reading: RelationStatistics) -> list[Codes]:
    """Return tuples sorted in a column order; of a symmetric relation, in both directions."""
    given = list(tuples) or [np.empty(0, np.uint32) for _ in columns]
    if reading.symmetric:
        given = [
            np.concatenate([given[0], given[1]]),
            np.concatenate([given[1], given[0]]),
            *(np.tile(c, 2) for c in given[2:]),
        ]
    ordered = [given[c] for c in columns]
    if len(ordered) == 2 and ordered[0].dtype == np.uint32:
        packed = ordered[0].astype(np.uint64) << np.uint64(32) | ordered[1]
        packed.sort()
        return [(packed >> np.uint64(32)).astype(np.uint32), packed.astype(np.uint32)]
    order = np.lexsort(ordered[::-1])
    return [column[order] for column in ordered]
