"""A sliding window over events: which rows have become too old, by a column of theirs."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bigjoin.errors import BigjoinError
from bigjoin.index.changing import State
from bigjoin.index.directory import EDGE, Index
from bigjoin.index.values import NUMBER, TIME, kind, take, unit
from bigjoin.index.versions import Versions

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}

Times = NDArray[Any]
"""Integers or floats."""

Rows = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""Source, target and number of rows."""


class Window:
    """The rows of a relation by the value of a column, and how far they may lie behind the latest one that was seen."""

    def __init__(self, column: str, length: str | float, relation: str = EDGE) -> None:
        self.column, self.asked, self.relation = column, length, relation
        self.length: float = 0
        self.clock: Any = None
        """The latest time that was seen, in the unit of the column; None before there is one."""
        self.next_clock: Any = None
        self.times: Times = np.empty(0)
        self.rows: Rows = _none()
        self.added: list[tuple[Times, Rows]] = []
        self.gone = 0
        self.deleted: NDArray[np.int64] = np.empty(0, np.int64)

    def load(self, index: Index, versions: Versions) -> None:
        """Begin with the rows of an index."""
        if self.relation not in index.statistics.relations:
            self.relation = _only_relation(index, self.column)
        relation = index.statistics.relations[self.relation]
        columns = index.properties(relation.rows.domains[2]) if relation.rows is not None else {}
        if self.column not in columns:
            known = f"its columns are {', '.join(columns)}" if columns else "edges have no columns"
            raise BigjoinError(f"the edges of {index.path} have no column {self.column!r} to expire by: {known}")
        self.length = _length(self.asked, columns[self.column].type)
        if self.length <= 0:
            raise BigjoinError(f"a window of {self.asked!r} holds nothing: its length must be above zero")
        trie = versions.orders[self.relation, 3][0, 1, 2]
        src, (dst, eid) = trie.tuples_below(trie.places[State.BEFORE].filled.astype(np.int64))
        dst, eid = dst.astype(np.int64), eid.astype(np.int64)
        if relation.symmetric:
            once = src < dst
            src, dst, eid = src[once], dst[once], eid[once]
        times = _numbers(take(columns[self.column], eid))
        order = np.argsort(times, kind="stable")
        self.times, self.rows = times[order], (src[order], dst[order], eid[order])
        clock = index.manifest.clock
        same = clock is not None and (clock.relation, clock.column) == (self.relation, self.column)
        self.clock = _latest(clock.at if clock is not None and same else None, self.times)
        self.undo()

    def note(self, given: pa.Table, insert: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Move on to the latest time that updates have, and tell which of them are too old by then."""
        times = _numbers(given[self.column])
        self.next_clock = _latest(self.clock, times[insert])
        return self._is_old(times)

    def _is_old(self, times: Times) -> NDArray[np.bool_]:
        if self.next_clock is None:
            return np.zeros(len(times), np.bool_)
        return np.asarray(times <= self.next_clock - self.length)

    def expire(self, deleted: NDArray[np.int64]) -> Rows:
        """Return the rows that leave the window, but for those that are deleted anyway."""
        self.deleted = deleted
        self.gone = int(self._is_old(self.times).sum())  # they are sorted
        old = tuple(column[: self.gone] for column in self.rows)
        kept = ~np.isin(old[2], deleted)
        return old[0][kept], old[1][kept], old[2][kept]

    def add(self, given: pa.Table, rows: Rows) -> None:
        """Take in new rows, when the epoch is committed."""
        self.added.append((_numbers(given[self.column]), rows))

    def advance(self, coded: Any = None) -> None:
        """Go on from an epoch that is committed; its new ids have their codes by now."""
        self.clock = self.next_clock
        times = [self.times[self.gone :], *(times for times, _ in self.added)]
        columns = zip(*(rows for _, rows in self.added), strict=True) if self.added else ((), (), ())
        rows = [np.concatenate([mine[self.gone :], *more]) for mine, more in zip(self.rows, columns, strict=True)]
        joined = np.concatenate(times)
        if len(self.deleted):
            kept = ~np.isin(rows[2], self.deleted)
            joined, rows = joined[kept], [column[kept] for column in rows]
        if coded is not None:
            rows[:2] = coded(rows[0]), coded(rows[1])
        if (joined[1:] < joined[:-1]).any():
            order = np.argsort(joined, kind="stable")
            joined, rows = joined[order], [column[order] for column in rows]
        self.times, self.rows = joined, (rows[0], rows[1], rows[2])
        self.undo()

    def undo(self) -> None:
        """Forget what an epoch would have changed."""
        self.next_clock, self.added, self.gone, self.deleted = self.clock, [], 0, np.empty(0, np.int64)


def _only_relation(index: Index, column: str) -> str:
    """Return the relation whose rows have a column, where none has the usual name."""
    relations = index.statistics.relations
    found = [n for n, r in relations.items() if r.rows is not None and column in index.properties(r.rows.domains[2])]
    if len(found) != 1:
        known = f"{', '.join(found)} have" if found else "no relation has"
        raise BigjoinError(f"edges expire by a column of one relation, and of {index.path} {known} {column!r}")
    return found[0]


def _none() -> Rows:
    return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)


def _length(asked: str | float, arrow: pa.DataType) -> float:
    """Return the length of a window in the unit of its column."""
    number = re.fullmatch(r"\s*([\d.]+)\s*", str(asked))
    if kind(arrow) == NUMBER and number is not None:
        return int(number[1]) if number[1].isdigit() else float(number[1])
    match = re.fullmatch(r"\s*([\d.]+)\s*([a-z]+?)s?\s*", str(asked).lower())
    if match is None or match[2] not in _SECONDS or kind(arrow) not in (NUMBER, TIME):
        raise BigjoinError(
            f"{asked!r} is no length of a window over {arrow}: give a number of its unit, or like '7 days' for times"
        )
    seconds = Fraction(match[1]) * _SECONDS[match[2]]
    return (
        int(seconds * 10**6 / unit(arrow))
        if kind(arrow) == TIME
        else int(seconds)
        if seconds == int(seconds)
        else float(seconds)
    )


def _latest(known: Any, times: Times) -> Any:
    """Return the latest of times and one that is known already; those that are missing do not count."""
    there = times[times != _missing(times)]
    found = [known] if known is not None else []
    return max([*found, *([there.max().item()] if len(there) else [])], default=None)


def _numbers(column: pa.ChunkedArray | pa.Array) -> Times:
    """Return times as integers, and numbers as what they are; one that is missing is larger than any, and never old."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    if kind(column.type) == TIME or pa.types.is_integer(column.type):
        whole = column.cast(pa.int64())
        return np.asarray(whole.fill_null(np.iinfo(np.int64).max).to_numpy(zero_copy_only=False))
    found = np.asarray(column.cast(pa.float64()).fill_null(np.inf).to_numpy(zero_copy_only=False))
    return np.where(np.isnan(found), np.inf, found)


def _missing(times: Times) -> Any:
    return np.inf if times.dtype == np.float64 else np.iinfo(np.int64).max
