"""The versions of an index that an epoch is about: what plans read as old, new and delta while it is not committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bigjoin.errors import IndexFormatError
from bigjoin.index.changing import ChangingTrie, State, UntrueDeltaError
from bigjoin.index.dictionary import Dictionary, RowNumbers
from bigjoin.index.directory import Index
from bigjoin.index.entries import RunEntry
from bigjoin.index.runs import Delta, Reading, read_deltas
from bigjoin.index.trie import Codes, Trie, single_list
from bigjoin.query.plan import Extender
from bigjoin.query.read import Read, Version, View
from bigjoin.query.statistics import RelationStatistics, Statistics


class Versions:
    """The relations of an index that change, each in all its column orders, before and after an epoch."""

    def __init__(self, index: Index) -> None:
        self.damaged = index.damaged
        self.orders: dict[Reading, dict[tuple[int, ...], ChangingTrie]] = {}
        self.readings = dict(_readings(index.statistics))
        self.lost: dict[Reading, int] = {}
        for (name, width), reading in self.readings.items():
            tries: dict[Any, ChangingTrie] = {}
            self.orders[name, width] = {}
            for columns, lists in reading.lists.items():
                files = index.files_of(name, columns)
                if files not in tries:
                    base = index.trie(name, columns)
                    tries[files] = ChangingTrie(base, index.statistics.domains[reading.domains[columns[0]]], lists.longest)
                self.orders[name, width][columns] = tries[files]

    def begin(self, deltas: Mapping[Reading, Delta], statistics: Statistics) -> None:
        """Begin an epoch; domains may have grown."""
        self.lost = {read: len(delta.deleted[0]) for read, delta in deltas.items()}
        self.grow(statistics)
        for read, orders in self.orders.items():
            reading, delta, seen = self.readings[read], deltas.get(read), set[int]()
            for columns, trie in orders.items():
                if id(trie) in seen:
                    continue
                seen.add(id(trie))
                for insert in (False, True):
                    tuples = () if delta is None else delta.inserted if insert else delta.deleted
                    try:
                        trie.change(_sorted(tuples, columns, reading), insert=insert)
                    except UntrueDeltaError:
                        raise self.damaged(f"updates of {read[0]!r} make no sense in column order {columns}") from None

    def grow(self, statistics: Statistics) -> None:
        """Have a place for every code that there is."""
        for read, orders in self.orders.items():
            for columns, trie in orders.items():
                trie.grow(statistics.domains[self.readings[read].domains[columns[0]]])

    def commit(self) -> None:
        """Make the new version the old one."""
        for trie in self._tries():
            trie.settle()

    def holds(self, read: Reading, tuples: Sequence[Codes]) -> NDArray[np.bool_]:
        """Tell for each tuple whether the relation has it before the epoch."""
        columns, trie = next(iter(self.orders[read].items()))
        return trie.trie(State.BEFORE).contains([tuples[c] for c in columns])

    def reach_of_delta(self, relation: str) -> int:
        """Return how long the lists of the delta's pairs are together, of each pair the shorter: about what joining costs."""
        total = 0
        orders = {columns[0]: trie for columns, trie in self.orders[relation, 2].items()}
        for insert in (False, True):
            delta = orders[0].deltas[insert]
            shortest = np.full(len(delta), np.iinfo(np.int64).max)
            for column, codes in enumerate(delta.tuples(np.arange(len(delta)))):
                lists = orders[column].trie(State.AFTER if insert else State.BEFORE)
                nodes = lists.nodes([codes], len(codes)).astype(np.int64)
                shortest = np.minimum(shortest, lists.offsets[nodes + 1] - lists.offsets[nodes])
            total += int(shortest.sum())
        return total

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
    _known: dict[tuple[Read, tuple[int, ...]], Trie] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def statistics(self) -> Statistics:
        """Those of the index; a relation has as many tuples as there are in either version."""
        known = self.index.statistics
        found = {}
        for name, relation in known.relations.items():
            lost = self.versions.lost.get((name, relation.arity), 0) * (2 if relation.symmetric else 1)
            found[name] = replace(relation, tuples=relation.tuples + lost)
        return replace(known, relations=found)

    @property
    def dictionaries(self) -> Mapping[str, Dictionary | RowNumbers]:
        return self.index.dictionaries

    def __reduce__(self) -> tuple[Any, ...]:
        return _phase, (self.index, self.insert)

    @property
    def path(self) -> Path:
        return self.index.path

    def properties(self, domain: str) -> Mapping[str, pa.ChunkedArray]:
        """Return the columns that a domain's values have beside their ids."""
        return self.index.properties(domain)

    def extensions(self, read: Read, columns: tuple[int, ...]) -> Trie:
        """Return the lists of what an extender reads.

        Some columns of a delta of rows are not the delta of pairs: a pair may have had a row before.
        """
        arity = self.statistics.relations[read.relation].arity
        if (read.relation, arity) not in self.versions.orders:
            return self.index.extensions(read, columns)
        version = Version.DELTA if read.version is Version.LATER else read.version
        read = replace(read, version=version, width=max(arity, len(columns), read.width))
        if (read, columns) not in self._known:
            self._known[read, columns] = self._trie(read, columns) if read.view is None else self._view(read, read.view)
        return self._known[read, columns]

    def seeds(self, extender: Extender) -> Trie:
        """Return the tuples that a plan is seeded with."""
        return self.extensions(extender.atom.read, extender.columns)

    def _trie(self, read: Read, columns: tuple[int, ...]) -> Trie:
        reading = (read.relation, read.width)
        if read.version is Version.DELTA:
            trie = self.versions.delta(reading, columns, insert=self.insert)
        else:
            trie = self.versions.trie(reading, columns, self._state(read.version))
        return trie.first_columns(len(columns))

    def _view(self, read: Read, view: View) -> Trie:
        """Return the one column of a view of pairs: the values that have some pair, or one with a constant."""
        (kept,) = view.kept
        other, arity = 1 - kept, self.statistics.relations[read.relation].arity
        assert arity == 2, "views of pairs"
        constants = dict(view.constants)
        code = self.index.code(read.relation, other, constants[other]) if other in constants else None
        pairs = replace(read, view=None, width=arity)
        if read.version is not Version.DELTA:
            lists = self.extensions(pairs, (other, kept) if constants else (kept, other))
            if not constants:
                return lists.roots()
            return single_list(lists.list_of([code]) if code is not None else lists.values[:0])
        columns = self.extensions(pairs, (kept, other))
        values, others = columns.tuples(np.arange(len(columns)))
        if constants:
            return single_list(np.unique(values[others == code]) if code is not None else values[:0])
        values = np.unique(values)
        old, new = (self.extensions(replace(pairs, version=v), (kept, other)) for v in (Version.OLD, Version.NEW))
        nodes = [lists.nodes([values], len(values)).astype(np.int64) for lists in (old, new)]
        there = [lists.offsets[n + 1] > lists.offsets[n] for lists, n in zip((old, new), nodes, strict=True)]
        return single_list(values[there[0] != there[1]])

    def _state(self, version: Version) -> State:
        if version is Version.EITHER:
            return State.AFTER if self.insert else State.BEFORE
        return State.BETWEEN if (version is Version.NEW) != self.insert else State.AFTER if self.insert else State.BEFORE


def _phase(index: Index, insert: bool) -> Phase:
    """Return a phase that has travelled to a task."""
    return Phase(begun(index), index, insert)


_open: dict[Path, tuple[str, Versions]] = {}
"""The versions that this process has in memory: by the path of the index, with the identity of what they were last read for."""

_opening = Lock()


def versions_of(index: Index, runs: Sequence[RunEntry]) -> Versions:
    """Return the versions of an index with some of its runs in them, from its files."""
    versions = Versions(index.base)
    for run in runs:
        versions.begin(read_deltas(index, run), index.statistics)
        versions.commit()
    if len(runs) == len(index.runs):
        _check_tuples(index, versions)
    return versions


def _check_tuples(index: Index, versions: Versions) -> None:
    for read, reading in _readings(index.statistics):
        found = next(iter(versions.orders[read].values())).live()
        if found != reading.tuples:
            raise index.damaged(f"the relation {read[0]!r} has {found} tuples, and {reading.tuples} by the manifest")


def opened(index: Index) -> Versions:
    """Return the versions of an index, from this process's memory if they are those, else from its files."""
    with _opening:
        known = _open.get(index.path.absolute())
        if known is None or known[0] != index.manifest.identity:
            _open[index.path.absolute()] = (index.manifest.identity, versions_of(index, index.runs))
        return _open[index.path.absolute()][1]


def begun(index: Index) -> Versions:
    """Return the versions of an index whose last run is the epoch that is being worked on, with that epoch begun."""
    with _opening:
        path, identity = index.path.absolute(), index.manifest.identity
        known = _open.get(path)
        if known is not None and known[0] == f"{identity} begun":
            return known[1]
        *runs, last = index.runs
        _open.pop(path, None)
        if known is not None and known[0] == f"{index.manifest.previous} begun":
            versions = known[1]
            versions.commit()
        else:
            versions = versions_of(index, runs)
        versions.begin(read_deltas(index, last), index.statistics)
        _open[path] = (f"{identity} begun", versions)
        return versions


def register(index: Index, versions: Versions, *, is_begun: bool = False) -> None:
    """Say that versions in this process's memory are those of an index, perhaps with its last run begun."""
    with _opening:
        identity = index.manifest.identity
        _open[index.path.absolute()] = (f"{identity} begun" if is_begun else identity, versions)


def forget(path: Path) -> None:
    """Drop the versions of an index from this process's memory."""
    with _opening:
        _open.pop(path.absolute(), None)


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
