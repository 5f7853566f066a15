"""What updates come to: the pairs and the rows of each relation that go, and those that come."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bigjoin.errors import SourceError, did_you_mean
from bigjoin.index.changing import State
from bigjoin.index.directory import EDGE, Index
from bigjoin.index.lookup import NO_CODE
from bigjoin.index.trie import Trie
from bigjoin.index.values import take
from bigjoin.index.versions import Versions
from bigjoin.ingest.columns import cast
from bigjoin.streaming.updates import RELATION, Fate, Updates, normalise_pairs
from bigjoin.streaming.window import Window

NEW = 1 << 31
"""Codes from here on are those of ids that are new, until it is known which of them stay."""

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Coded:
    """Updates of one relation, and the codes of their ends."""

    updates: Updates
    src: Numbers
    dst: Numbers

    def __len__(self) -> int:
        return len(self.src)

    @property
    def insert(self) -> NDArray[np.bool_]:
        return self.updates.insert

    @property
    def keys(self) -> NDArray[np.uint64]:
        """One number for each pair."""
        return keys_of(self.src, self.dst)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Whether both ends are in the graph already."""
        return (self.src < NEW) & (self.dst < NEW)

    def where(self, kept: NDArray[np.bool_]) -> Coded:
        """Return the updates that are kept."""
        return self if kept.all() else Coded(self.updates.take(kept), self.src[kept], self.dst[kept])


@dataclass
class Changes:
    """How one relation changes: pairs (src, dst), and rows (src, dst, number) if it has any."""

    fate: Fate
    deleted: Sequence[Numbers]
    inserted: Sequence[Numbers]
    deleted_rows: Sequence[Numbers] = ()
    inserted_rows: Sequence[Numbers] = ()
    properties: pa.Table | None = field(default=None, repr=False)
    """Of the rows that come."""


def by_relation(updates: Updates, relations: Sequence[str], source: str, kept: Collection[str] = ()) -> dict[str, Numbers]:
    """Return the numbers of each relation's updates: by a column that names it, if that is no property of edges."""
    if RELATION not in updates.properties.column_names or (len(relations) == 1 and RELATION in kept):
        if EDGE not in relations and len(relations) > 1:
            raise SourceError(f"{source} has no column {RELATION!r}, and the graph has several: {', '.join(relations)}")
        return {EDGE if EDGE in relations else relations[0]: np.arange(len(updates))}
    names = updates.properties[RELATION].combine_chunks().dictionary_encode()
    if names.indices.null_count:
        raise SourceError(f"column {RELATION!r} of {source} is NULL in some rows")
    found = {}
    for number, name in enumerate(names.dictionary.to_pylist()):
        if name not in relations:
            hint = did_you_mean(str(name), relations) or f"the graph has {', '.join(relations)}"
            raise SourceError(f"{source} names the relation {name!r}, which there is not: {hint}")
        found[name] = np.flatnonzero(names.indices.to_numpy(zero_copy_only=False) == number)
    return found


def changes(index: Index, versions: Versions, relation: str, coded: Coded, source: str, window: Window | None) -> Changes:
    """Return what updates come to for a relation; `window` is that of its rows, if it has one."""
    statistics, fate = index.statistics.relations[relation], Fate()
    if statistics.symmetric:
        loops = (coded.src == coded.dst) & (coded.src != NO_CODE)
        fate.loops, fate.absent = int((loops & coded.insert).sum()), int((loops & ~coded.insert).sum())
        fate.updates = int(loops.sum())
        coded = coded.where(~loops)
        coded = Coded(coded.updates, np.minimum(coded.src, coded.dst), np.maximum(coded.src, coded.dst))
    unknown = (coded.src == NO_CODE) | (coded.dst == NO_CODE)  # deletions of ids that nobody knows
    fate.absent += int(unknown.sum())
    fate.updates += int(unknown.sum())
    coded = coded.where(~unknown)
    if statistics.rows is not None:
        return _Rows(index, versions, relation, fate, window).changes(coded, source)
    present = np.zeros(len(coded), np.bool_)
    present[coded.known] = versions.holds((relation, 2), [coded.src[coded.known], coded.dst[coded.known]])
    pairs = normalise_pairs(coded.keys, coded.insert, present)
    fate.add(pairs.fate)
    deleted, inserted = ([ends[at] for ends in (coded.src, coded.dst)] for at in (pairs.deleted, pairs.inserted))
    return Changes(fate, deleted, inserted)


class _Rows:
    """A relation whose rows have numbers: an insertion is a row, and a deletion takes all rows of its pair that fit."""

    def __init__(self, index: Index, versions: Versions, relation: str, fate: Fate, window: Window | None) -> None:
        rows = index.statistics.relations[relation].rows
        assert rows is not None
        self.fate, self.window = fate, window
        self.properties = index.properties(rows.domains[2])
        self.first = index.statistics.domains[rows.domains[2]]
        """The code of the next row."""
        self.trie = versions.trie((relation, 3), (0, 1, 2), State.BEFORE)

    def changes(self, coded: Coded, source: str) -> Changes:
        """Return what updates come to."""
        self.fate.updates += len(coded)
        given = _given(coded.updates, {n: c.type for n, c in self.properties.items()}, source)
        if self.window is not None:
            late = coded.insert & self.window.note(given, coded.insert)
            self.fate.late += int(late.sum())
            coded, given = coded.where(~late), given.filter(pa.array(~late))
        deleted, pending = self._deleted(coded, given)
        if self.window is not None:
            expired = self.window.expire(deleted[2])
            self.fate.expired += len(expired[2])
            deleted = [np.concatenate(both) for both in zip(deleted, expired, strict=True)]
        new = given.take(pa.array(pending))
        rows = [coded.src[pending], coded.dst[pending], np.arange(self.first, self.first + len(pending))]
        if self.window is not None:
            self.window.add(new, (rows[0], rows[1], rows[2]))
        self.fate.inserted += len(pending)
        self.fate.deleted += len(deleted[2])
        gone, came = self._pairs(deleted, rows)
        return Changes(self.fate, gone, came, deleted, rows, new)

    def _deleted(self, coded: Coded, given: pa.Table) -> tuple[list[Numbers], Numbers]:
        """Return the rows that are deleted, and the numbers of the insertions that no later deletion takes back."""
        deleting, pending = np.flatnonzero(~coded.insert), np.flatnonzero(coded.insert)
        asked = deleting[coded.known[deleting]]
        which, rows = _rows_of(self.trie, coded.src[asked], coded.dst[asked])
        fits = _fits(given.take(pa.array(asked[which])), self.properties, rows)
        which, rows = asked[which[fits]], rows[fits]
        useful = set(which.tolist())
        if coded.updates.ordered and len(deleting):
            cancelled, by = _cancelled(coded.keys, coded.insert, given)
            self.fate.cancelled += len(cancelled) + len(by - useful)
            useful |= by
            pending = np.setdiff1d(pending, cancelled)
        self.fate.absent += len(deleting) - len(useful)
        rows, firsts = np.unique(rows, return_index=True)
        return [coded.src[which[firsts]], coded.dst[which[firsts]], rows], pending

    def _pairs(self, deleted: Sequence[Numbers], inserted: Sequence[Numbers]) -> tuple[list[Numbers], list[Numbers]]:
        """Return the pairs that lose their last row, and those that get their first."""
        src, dst = (np.concatenate(both) for both in zip(deleted[:2], inserted[:2], strict=True))
        keys, firsts = np.unique(keys_of(src, dst), return_index=True)
        src, dst = src[firsts], dst[firsts]
        before, known = np.zeros(len(keys), np.int64), (src < NEW) & (dst < NEW)
        before[known] = _lists(self.trie, src[known], dst[known])[1]
        lost, won = (
            np.bincount(np.searchsorted(keys, keys_of(rows[0], rows[1])), minlength=len(keys)) for rows in (deleted, inserted)
        )
        after = before - lost + won
        gone, came = (before > 0) & (after == 0), (before == 0) & (after > 0)
        return [src[gone], dst[gone]], [src[came], dst[came]]


def keys_of(src: Numbers, dst: Numbers) -> NDArray[np.uint64]:
    """Return one number for each pair."""
    return src.astype(np.uint64) << np.uint64(32) | dst.astype(np.uint64)


def _given(updates: Updates, types: Mapping[str, pa.DataType], source: str) -> pa.Table:
    """Return the columns that the graph's rows have, a row for each update, NULL where it does not say."""
    given = updates.properties
    left_out = [n for n in given.column_names if n not in types and n != RELATION]
    if left_out:
        warnings.warn(f"{source}: {', '.join(left_out)}: the edges of the graph have no such column; left out", stacklevel=2)
    columns = {}
    for name, kind in types.items():
        if name in given.column_names:
            chunks = [cast(chunk, kind, column=name, source=source) for chunk in given[name].chunks]
            columns[name] = pa.chunked_array(chunks, kind)
        else:
            columns[name] = pa.nulls(len(updates), kind)
    return pa.table(columns or {"": pa.nulls(len(updates))})


def _lists(trie: Trie, src: Numbers, dst: Numbers) -> tuple[Numbers, Numbers]:
    """Return where the rows of pairs begin, and how many there are."""
    nodes = trie.nodes([src, dst], len(src)).astype(np.int64)
    starts = np.where(nodes >= 0, trie.offsets[nodes], 0)
    return starts, np.where(nodes >= 0, trie.offsets[nodes + 1] - starts, 0)


def _rows_of(trie: Trie, src: Numbers, dst: Numbers) -> tuple[Numbers, Numbers]:
    """Return the rows of pairs, and before them, for each, the number of its pair."""
    starts, lengths = _lists(trie, src, dst)
    at = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(int(lengths.sum()))
    return np.repeat(np.arange(len(src)), lengths), trie.values[at].astype(np.int64)


def _fits(given: pa.Table, properties: Mapping[str, pa.ChunkedArray], rows: Numbers) -> NDArray[np.bool_]:
    """Tell for each row whether it has the values that its deletion gives; what is NULL there may be anything."""
    fits = np.ones(len(rows), np.bool_)
    for name, column in properties.items():
        if given[name].null_count < len(given):
            same = pc.equal(given[name].combine_chunks(), take(column, rows)).fill_null(False)
            fits &= same.to_numpy(zero_copy_only=False) | given[name].is_null().to_numpy(zero_copy_only=False)
    return fits


def _cancelled(keys: NDArray[Any], insert: NDArray[np.bool_], given: pa.Table) -> tuple[list[int], set[int]]:
    """Return the insertions that later deletions of the same epoch take back, and these deletions."""
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
        taken = [k for k in mine if all(given[name][k].as_py() == value for name, value in wanted.items())]
        if taken:
            by.add(i)
            cancelled += taken
            waiting[keys[i]] = [k for k in mine if k not in taken]
    return cancelled, by
