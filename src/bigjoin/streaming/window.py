"""A sliding window over events: which rows of a relation have become too old, by one of their columns."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bigjoin.errors import BigjoinError
from bigjoin.index.changing import Moment
from bigjoin.index.directory import EDGE, Index
from bigjoin.index.values import NUMBER, TIME, kind, take, unit
from bigjoin.index.versions import Versions

_UNIT_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}

Times: TypeAlias = NDArray[Any]
"""Integers or floats, in the unit of the column."""

EventRows: TypeAlias = NDArray[np.int64]
"""Rows of a relation, as an array of three rows: sources, targets, and numbers."""


class Window:
    """The rows of a relation sorted by time, and how far behind the latest time they may lie."""

    def __init__(self, column: str, length: str | float, relation: str = EDGE) -> None:
        self.column, self.asked, self.relation = column, length, relation
        self.length: float = 0
        self.clock: float | None = None
        """The latest time seen in a committed epoch, in the unit of the column."""
        self.times: Times = np.empty(0)
        self.rows: EventRows = np.empty((3, 0), np.int64)
        self.undo()

    def __reduce__(self) -> tuple[type[Window], tuple[str, str | float, str]]:
        """Leave the rows behind when the window travels: the other process loads them."""
        return Window, (self.column, self.asked, self.relation)

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
        trie = versions.order((self.relation, 3), (0, 1, 2))
        rows = np.stack(trie.tuples_below(trie.places[Moment.BEFORE].filled)).astype(np.int64)
        if relation.symmetric:
            rows = np.compress(rows[0] < rows[1], rows, axis=1)
        times, clock = _times(take(columns[self.column], rows[2])), index.manifest.clock
        is_mine = clock is not None and (clock.relation, clock.column) == (self.relation, self.column)
        self.clock = _latest(clock.at if clock is not None and is_mine else None, times)
        self._set_rows(times, rows)

    def _set_rows(self, times: Times, rows: EventRows) -> None:
        if (times[1:] < times[:-1]).any():
            order = np.argsort(times, kind="stable")
            times, rows = times[order], np.take(rows, order, axis=1)
        self.times, self.rows = times, rows
        self.undo()

    def note(self, given: pa.Table, insert: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Advance the clock to the latest insertion of an epoch, and tell which of its updates are too old."""
        times = _times(given[self.column])
        self.next_clock = _latest(self.clock, times[insert])
        return self._is_old(times)

    def _is_old(self, times: Times) -> NDArray[np.bool_]:
        if self.next_clock is None:
            return np.zeros(len(times), np.bool_)
        return np.asarray(times <= self.next_clock - self.length)

    @property
    def expiring(self) -> NDArray[np.int64]:
        """The numbers of the rows that leave the window in the epoch whose latest insertion was noted."""
        return np.asarray(self.rows[2, : int(self._is_old(self.times).sum())])

    def slide(self, deleted: NDArray[np.int64], given: pa.Table, inserted: EventRows) -> EventRows:
        """Take the rows that an epoch inserts, and return those that expire, except for the deleted ones (by number)."""
        old = int(self._is_old(self.times).sum())  # they are sorted
        expired = np.compress(~np.isin(self.rows[2, :old], deleted), self.rows[:, :old], axis=1)
        times = np.concatenate([self.times[old:], _times(given[self.column])])
        rows = np.concatenate([self.rows[:, old:], inserted], axis=1)
        if len(deleted):
            kept = ~np.isin(rows[2], deleted)
            times, rows = times[kept], np.compress(kept, rows, axis=1)
        self.next_times, self.next_rows = times, rows
        return expired

    def advance(self, final_codes: Callable[[EventRows], EventRows]) -> None:
        """Go on from a committed epoch, in which new ids have got their final codes."""
        self.clock = self.next_clock
        self._set_rows(self.next_times, final_codes(self.next_rows))

    def undo(self) -> None:
        """Forget what an epoch that is not committed would have changed."""
        self.next_clock, self.next_times, self.next_rows = self.clock, self.times, self.rows


def _only_relation(index: Index, column: str) -> str:
    """Return the only relation whose rows have a column, where none has the usual name."""
    relations = index.statistics.relations
    found = [n for n, r in relations.items() if r.rows is not None and column in index.properties(r.rows.domains[2])]
    if len(found) != 1:
        known = f"{', '.join(found)} have" if found else "no relation has"
        raise BigjoinError(f"edges expire by a column of one relation, and of {index.path} {known} {column!r}")
    return found[0]


def _length(asked: str | float, arrow: pa.DataType) -> float:
    """Return the length of a window in the unit of its column."""
    match = re.fullmatch(r"\s*([\d.]+)\s*(?:([a-z]+?)s?)?\s*", str(asked).lower())
    named = None if match is None else match[2]
    is_number = kind(arrow) == NUMBER
    if match is not None and named is None and is_number:
        return int(match[1]) if match[1].isdigit() else float(match[1])
    if match is None or named not in _UNIT_SECONDS or not (is_number or kind(arrow) == TIME):
        raise BigjoinError(
            f"{asked!r} is not a length for a window over {arrow}: give a number of its unit, or like '7 days' for times"
        )
    seconds = Fraction(match[1]) * _UNIT_SECONDS[named]
    if not is_number:
        return int(seconds * 10**6 / unit(arrow))
    return int(seconds) if seconds == int(seconds) else float(seconds)


def _latest(known: float | None, times: Times) -> float | None:
    """Return the latest of some times and one that is known already; missing times do not count."""
    valid = times[times != (np.inf if times.dtype == np.float64 else np.iinfo(np.int64).max)]
    found = [] if known is None else [known]
    return max([*found, *([valid.max().item()] if len(valid) else [])], default=None)


def _times(column: pa.ChunkedArray | pa.Array) -> Times:
    """Return a column as integers or floats; a missing time is the largest of all, so that it never becomes old."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    if kind(column.type) == TIME or pa.types.is_integer(column.type):
        whole = column.cast(pa.int64())
        return np.asarray(whole.fill_null(np.iinfo(np.int64).max).to_numpy(zero_copy_only=False))
    found = np.asarray(column.cast(pa.float64()).fill_null(np.inf).to_numpy(zero_copy_only=False))
    return np.where(np.isnan(found), np.inf, found)
