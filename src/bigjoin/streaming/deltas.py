"""What updates do to a relation: the pairs and the rows that it loses and gains."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bigjoin.errors import BigjoinError, SourceError, did_you_mean
from bigjoin.index.changing import Moment
from bigjoin.index.dictionary import NO_CODE
from bigjoin.index.directory import EDGE, Index
from bigjoin.index.runs import Delta
from bigjoin.index.trie import Trie
from bigjoin.index.values import take
from bigjoin.index.versions import Versions
from bigjoin.ingest.columns import cast
from bigjoin.streaming.row_changes import RowChanges, UpdatesOfTypes, is_same
from bigjoin.streaming.updates import DELETE, INSERT, RELATION_COLUMN, REPLACE, DoubtfulRowsError, Fate, normalise_pairs
from bigjoin.streaming.window import Window

FIRST_NEW_CODE = 1 << 31
"""Ids that are not in the graph get temporary codes from here on, until it is known which of them stay."""

Integers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class CodedUpdates:
    """Updates of one relation, with the codes of their sources and targets as the two rows of an array."""

    ends: Integers
    ops: NDArray[np.int8]
    properties: pa.Table
    ordered: bool
    rows: Integers
    """Which rows of their table they are."""
    of_types: UpdatesOfTypes | None = None
    """Those that name the relation of a type of edges, if any do."""

    def __len__(self) -> int:
        return len(self.ops)

    @property
    def insert(self) -> NDArray[np.bool_]:
        return np.asarray(self.ops == INSERT)

    @property
    def keys(self) -> NDArray[np.uint64]:
        return keys_of(self.ends)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Whether both ends are in the graph already."""
        return np.asarray((self.ends < FIRST_NEW_CODE).all(axis=0))

    @property
    def named(self) -> set[str]:
        """The columns that their table has."""
        added = {self.of_types.column} if self.of_types is not None and not self.of_types.is_given else set()
        return {*self.properties.column_names} - added

    def where(self, kept: NDArray[np.bool_]) -> CodedUpdates:
        """Return the updates that a mask keeps."""
        if kept.all():
            return self
        return replace(
            self,
            ends=np.compress(kept, self.ends, axis=1),
            ops=self.ops[kept],
            properties=self.properties.take(pa.array(np.flatnonzero(kept))),
            rows=self.rows[kept],
            of_types=None if self.of_types is None else self.of_types.where(kept),
        )


@dataclass
class RelationDelta:
    """How one relation changes: its pairs (src, dst), and its rows (src, dst, number) if it has any."""

    fate: Fate
    pairs: Delta
    rows: Delta | None = None
    properties: pa.Table | None = field(default=None, repr=False)
    """Of the rows that are inserted."""


def by_relation(
    coded: CodedUpdates, relations: Sequence[str], source: str, kept: Collection[str] = ()
) -> dict[str, CodedUpdates]:
    """Return the updates of each relation, by the column that names it unless that is a property of edges."""
    if RELATION_COLUMN not in coded.properties.column_names or (len(relations) == 1 and RELATION_COLUMN in kept):
        if EDGE not in relations and len(relations) > 1:
            known = ", ".join(relations)
            raise SourceError(f"{source} has no column {RELATION_COLUMN!r}, and the graph has several: {known}")
        return {EDGE if EDGE in relations else relations[0]: coded}
    names = coded.properties[RELATION_COLUMN].combine_chunks().dictionary_encode()
    if names.indices.null_count:
        raise SourceError(f"column {RELATION_COLUMN!r} of {source} is NULL in some rows")
    found = {}
    for number, name in enumerate(names.dictionary.to_pylist()):
        if name not in relations:
            hint = did_you_mean(str(name), relations) or f"the graph has {', '.join(relations)}"
            raise SourceError(f"{source} names the relation {name!r}, which does not exist: {hint}")
        found[name] = coded.where(names.indices.to_numpy(zero_copy_only=False) == number)
    return found


def relation_delta(
    index: Index,
    versions: Versions,
    relation: str,
    coded: CodedUpdates,
    *,
    source: str,
    window: Window | None,
    key: str | None = None,
) -> RelationDelta:
    """Return what updates do to a relation; `window` is that of its rows, if it has one.

    `key` is the column that tells the rows of a pair apart.
    """
    statistics, fate = index.statistics.relations[relation], Fate()
    if statistics.symmetric:
        loops = (coded.ends[0] == coded.ends[1]) & (coded.ends[0] != NO_CODE)
        deletes = coded.ops == DELETE
        fate.loops, fate.absent = int((loops & ~deletes).sum()), int((loops & deletes).sum())
        fate.updates = int(loops.sum())
        coded = coded.where(~loops)
        coded = replace(coded, ends=np.stack([coded.ends.min(axis=0), coded.ends.max(axis=0)]))
    unknown = (coded.ends == NO_CODE).any(axis=0)  # deletions of ids that the graph does not have
    fate.absent += int(unknown.sum())
    fate.updates += int(unknown.sum())
    coded = coded.where(~unknown)
    if statistics.rows is not None:
        return _RowUpdates(index, versions, relation, fate, window, key).delta(coded, source)
    present = np.zeros(len(coded), np.bool_)
    present[coded.known] = versions.holds((relation, 2), [*np.compress(coded.known, coded.ends, axis=1)])
    replaces = coded.ops == REPLACE  # there is nothing to replace
    if replaces.any():
        fate.add(Fate(updates=int(replaces.sum()), present=int((replaces & present).sum())))
        fate.absent += int((replaces & ~present).sum())
        coded, present = coded.where(~replaces), present[~replaces]
    deleted, inserted, of_pairs = normalise_pairs(coded.keys, coded.insert, present)
    fate.add(of_pairs)
    return RelationDelta(fate, Delta(np.take(coded.ends, deleted, axis=1), np.take(coded.ends, inserted, axis=1)))


class _RowUpdates:
    """Updates of a relation with numbered rows: an insertion adds a row, a deletion removes all rows of its pair that match.

    A replacement is a deletion and an insertion, so that a row with other properties is another row.
    """

    def __init__(
        self, index: Index, versions: Versions, relation: str, fate: Fate, window: Window | None, key: str | None
    ) -> None:
        rows = index.statistics.relations[relation].rows
        assert rows is not None
        self.fate, self.window = fate, window
        self.properties = index.properties(rows.domains[2])
        self.next_row = index.statistics.domains[rows.domains[2]]
        self.trie = versions.order((relation, 3), (0, 1, 2)).trie(Moment.BEFORE)
        self.key = key
        if key is not None and key not in self.properties:
            known = f"it has {', '.join(self.properties)}" if self.properties else "it has none"
            raise BigjoinError(f"{relation!r} has no column {key!r} to tell parallel edges apart: {known}")

    def delta(self, coded: CodedUpdates, source: str) -> RelationDelta:
        """Return what updates do to pairs and rows."""
        self.fate.updates += len(coded)
        given = _given_properties(coded, {n: c.type for n, c in self.properties.items()}, source)
        if self.window is not None:
            comes = coded.ops != DELETE
            late = comes & self.window.note(given, comes)
            self.fate.late += int(late.sum())
            coded, given = coded.where(~late), given.filter(pa.array(~late))
        if self.key is None and not (coded.ops == REPLACE).any():
            deleted, pending = self._deleted(coded, given)
            new = given.take(pa.array(pending))
            replaced = 0
        else:
            changes = RowChanges(self.properties, given, coded.named, self.key, coded.of_types)
            pairs = _distinct(coded)
            which, rows = rows_of(self.trie, pairs)
            if self.window is not None:  # what expires is gone before anything looks for it
                stays = ~np.isin(rows, self.window.expiring)
                which, rows = which[stays], rows[stays]
            taken = changes.apply(coded.keys, coded.ops, keys_of(pairs)[which], rows)
            if changes.doubtful:
                raise DoubtfulRowsError(source, {int(coded.rows[at]): why for at, why in changes.doubtful.items()})
            at = np.searchsorted(rows, taken, sorter=(by_row := np.argsort(rows, kind="stable")))
            deleted = np.concatenate([np.take(pairs, which[by_row[at]], axis=1), [taken]])
            pending, new, replaced = np.array(changes.pending, np.int64), changes.new_rows(), changes.fate.replaced
            self.fate.add(changes.fate)
        numbers = np.arange(self.next_row, self.next_row + len(pending))
        inserted = np.concatenate([np.take(coded.ends, pending, axis=1), [numbers]])
        if self.window is not None:
            expired = self.window.slide(deleted[2], new, inserted)
            self.fate.expired += expired.shape[1]
            deleted = np.concatenate([deleted, expired], axis=1)
        self.fate.inserted += len(pending) - replaced
        self.fate.deleted += deleted.shape[1] - replaced
        return RelationDelta(self.fate, changed_pairs(self.trie, deleted, inserted), Delta(deleted, inserted), new)

    def _deleted(self, coded: CodedUpdates, given: pa.Table) -> tuple[Integers, Integers]:
        """Return the rows that are deleted, and the numbers of the insertions that no later deletion undoes."""
        deleting, pending = np.flatnonzero(~coded.insert), np.flatnonzero(coded.insert)
        asked = deleting[coded.known[deleting]]
        which, rows = rows_of(self.trie, np.take(coded.ends, asked, axis=1))
        fits = _fits(given.take(pa.array(asked[which])), self.properties, rows)
        which, rows = asked[which[fits]], rows[fits]
        useful = set(which.tolist())
        if coded.ordered and len(deleting):
            cancelled, by = _cancelled(coded.keys, coded.insert, given)
            self.fate.cancelled += len(cancelled) + len(by - useful)
            useful |= by
            pending = np.setdiff1d(pending, cancelled)
        self.fate.absent += len(deleting) - len(useful)
        rows, firsts = np.unique(rows, return_index=True)
        return np.concatenate([np.take(coded.ends, which[firsts], axis=1), [rows]]), pending


def changed_pairs(trie: Trie, deleted: Integers, inserted: Integers) -> Delta:
    """Return the pairs that lose their last row, and those that gain their first."""
    pairs = np.concatenate([deleted[:2], inserted[:2]], axis=1)
    keys, firsts = np.unique(keys_of(pairs), return_index=True)
    pairs = np.take(pairs, firsts, axis=1)
    before, known = np.zeros(len(keys), np.int64), (pairs < FIRST_NEW_CODE).all(axis=0)
    before[known] = _lists(trie, np.compress(known, pairs, axis=1))[1]
    lost, gained = (np.bincount(np.searchsorted(keys, keys_of(rows)), minlength=len(keys)) for rows in (deleted, inserted))
    after = before - lost + gained
    gone, came = (before > 0) & (after == 0), (before == 0) & (after > 0)
    return Delta(np.compress(gone, pairs, axis=1), np.compress(came, pairs, axis=1))


def _distinct(coded: CodedUpdates) -> Integers:
    """Return the pairs that updates are about, and that both ends of are in the graph already, each once."""
    known = np.compress(coded.known, coded.ends, axis=1)
    return np.take(known, np.unique(keys_of(known), return_index=True)[1], axis=1)


def keys_of(tuples: Integers) -> NDArray[np.uint64]:
    """Return one number for the pair that each tuple begins with."""
    return np.asarray(tuples[0].astype(np.uint64) << np.uint64(32) | tuples[1].astype(np.uint64))


def _given_properties(coded: CodedUpdates, types: Mapping[str, pa.DataType], source: str) -> pa.Table:
    """Return the columns that the graph's rows have, with a row for each update and NULL where it gives no value."""
    given = coded.properties
    ignored = [n for n in given.column_names if n not in types and n != RELATION_COLUMN]
    if ignored:
        warnings.warn(f"{source}: {', '.join(ignored)}: the edges of the graph have no such column; left out", stacklevel=2)
    columns = {}
    for name, kind in types.items():
        if name in given.column_names:
            chunks = [cast(chunk, kind, column=name, source=source) for chunk in given[name].chunks]
            columns[name] = pa.chunked_array(chunks, kind)
        else:
            columns[name] = pa.nulls(len(coded), kind)
    return pa.table(columns or {"": pa.nulls(len(coded))})


def _lists(trie: Trie, pairs: Integers) -> tuple[Integers, Integers]:
    """Return where the rows of each pair begin, and how many there are."""
    nodes = trie.nodes([*pairs], pairs.shape[1]).astype(np.int64)
    starts = np.where(nodes >= 0, trie.offsets[nodes], 0)
    return starts, np.where(nodes >= 0, trie.offsets[nodes + 1] - starts, 0)


def rows_of(trie: Trie, pairs: Integers) -> tuple[Integers, Integers]:
    """Return the rows of pairs, and before them the number of each row's pair."""
    starts, lengths = _lists(trie, pairs)
    at = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(int(lengths.sum()))
    return np.repeat(np.arange(len(lengths)), lengths), trie.values[at].astype(np.int64)


def _fits(given: pa.Table, properties: Mapping[str, pa.ChunkedArray], rows: Integers) -> NDArray[np.bool_]:
    """Tell for each row whether it has the values that its deletion gives; NULL there stands for any value."""
    fits = np.ones(len(rows), np.bool_)
    for name, column in properties.items():
        if given[name].null_count < len(given):
            wanted, found = given[name].combine_chunks(), take(column, rows)
            same = pc.equal(wanted, found)
            if pa.types.is_floating(wanted.type):  # NaN is a value like any other
                same = pc.or_(same, pc.and_(pc.is_nan(wanted), pc.is_nan(found)))
            fits &= same.fill_null(False).to_numpy(zero_copy_only=False) | wanted.is_null().to_numpy(zero_copy_only=False)
    return fits


def _cancelled(keys: NDArray[Any], insert: NDArray[np.bool_], given: pa.Table) -> tuple[list[int], set[int]]:
    """Return the insertions that later deletions of the same epoch undo, and these deletions."""
    mixed = np.intersect1d(keys[insert], keys[~insert])
    cancelled: list[int] = []
    by: set[int] = set()
    waiting: dict[Any, list[int]] = {}
    for i in np.flatnonzero(np.isin(keys, mixed)).tolist():
        mine = waiting.setdefault(keys[i], [])
        if insert[i]:
            mine.append(i)
            continue
        wanted = {name: value for name, value in given.slice(i, 1).to_pylist()[0].items() if value is not None}
        taken = [k for k in mine if all(is_same(given[name][k].as_py(), value) for name, value in wanted.items())]
        if taken:
            by.add(i)
            cancelled += taken
            waiting[keys[i]] = [k for k in mine if k not in taken]
    return cancelled, by
