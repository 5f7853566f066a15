"""Updates that look for one of several rows of a pair, applied one after another: those with a key, and replacements."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bigjoin.index.values import Column, take
from bigjoin.streaming.updates import DELETE, INSERT, Fate


@dataclass(slots=True)
class PairRow:
    """A row of a pair, as it is after some updates."""

    values: dict[str, object]
    number: int | None = None
    """Its number, if it was there before the epoch."""
    update: int | None = None
    """The update that it comes from, if it was not."""
    replaces: int | None = None
    """The number of the row that it stands for, if an update replaced one."""


@dataclass(frozen=True)
class UpdatesOfTypes:
    """Updates that name the relation of a type of edges: deletions and replacements are about edges of that type alone."""

    column: str
    """The one that says the type of an edge."""
    is_given: bool
    """Whether the table of updates has that column: otherwise it says nothing about other updates."""
    are_mine: NDArray[np.bool_]

    def where(self, kept: NDArray[np.bool_]) -> UpdatesOfTypes:
        """Return those of the updates that a mask keeps."""
        return replace(self, are_mine=self.are_mine[kept])


@dataclass
class RowChanges:
    """What the updates of an epoch do to rows."""

    properties: Mapping[str, Column]
    given: pa.Table
    """The properties that updates give, NULL where they give none."""
    named: Collection[str]
    """The columns that updates have."""
    key: str | None
    of_types: UpdatesOfTypes | None = None
    doubtful: dict[int, str] = field(default_factory=dict)
    """Replacements that could mean several edges, with the reason: they change nothing."""
    fate: Fate = field(default_factory=Fate)
    pending: list[int] = field(default_factory=list)
    """The updates whose rows are inserted."""
    _rows: list[PairRow] = field(default_factory=list)

    def apply(
        self,
        keys: NDArray[np.uint64],
        ops: NDArray[np.int8],
        keys_of_rows: NDArray[np.uint64],
        rows: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Apply updates of pairs, given by key, to the rows that these pairs have; return the numbers of rows that go."""
        known = {name: take(column, rows).to_pylist() for name, column in self.properties.items()}
        pairs: dict[int, list[PairRow]] = {}
        for at, (pair, number) in enumerate(zip(keys_of_rows.tolist(), rows.tolist(), strict=True)):
            values = {name: column[at] for name, column in known.items()}
            pairs.setdefault(pair, []).append(PairRow(values, number=number))
        given = {name: self.given[name].to_pylist() for name in self.properties}
        gone: list[int] = []
        for update, (pair, op) in enumerate(zip(keys.tolist(), ops.tolist(), strict=True)):
            values = {name: column[update] for name, column in given.items()}
            mine = pairs.setdefault(pair, [])
            found = self._found(mine, values, update, op)
            if op == INSERT:
                self._insert(mine, found, values, update)
            elif not found:
                self.fate.absent += 1
            elif op == DELETE:
                gone += self._delete(mine, found)
            elif len(found) > 1:
                hint = (
                    "name the column that tells them apart (key=, --key)" if self.key is None else f"{self.key!r} is not unique"
                )
                self.doubtful[update] = f"replaces the properties of one of {len(found)} parallel edges: {hint}"
            else:
                gone += self._replace(mine, found[0], values, update)
        self._rows = sorted((row for mine in pairs.values() for row in mine if row.update is not None), key=_update)
        self.pending = [_update(row) for row in self._rows]
        return np.array(sorted(gone), np.int64)

    def new_rows(self) -> pa.Table:
        """Return the properties of the rows that are inserted."""
        columns = {
            name: pa.array([row.values[name] for row in self._rows], column.type) for name, column in self.properties.items()
        }
        return pa.table(columns or {"": pa.nulls(len(self._rows))})

    def _found(self, mine: list[PairRow], values: Mapping[str, object], update: int, op: int) -> list[PairRow]:
        """Return the rows of a pair that an update is about."""
        key = None if self.key is None else values[self.key]
        wanted: dict[str, object] = {}
        if self.key is not None and key is not None:
            wanted = {self.key: key}
        elif op == INSERT:
            return []
        elif op == DELETE:
            wanted = {name: value for name, value in values.items() if value is not None}
        if self.of_types is not None and self.of_types.are_mine[update] and op != INSERT:
            wanted[self.of_types.column] = values[self.of_types.column]
        return [row for row in mine if all(is_same(row.values[name], value) for name, value in wanted.items())]

    def _insert(self, mine: list[PairRow], found: list[PairRow], values: dict[str, object], update: int) -> None:
        if found:
            self.fate.present += 1
        else:
            mine.append(PairRow(values, update=update))

    def _delete(self, mine: list[PairRow], found: list[PairRow]) -> list[int]:
        """Remove rows, and return the numbers of those that were there before the epoch."""
        mine[:] = [row for row in mine if all(row is not other for other in found)]
        pending = [row for row in found if row.update is not None]
        self.fate.cancelled += len(pending)
        self.fate.replaced -= sum(row.replaces is not None for row in pending)
        gone = [row.number for row in found if row.number is not None]
        if not gone and all(row.replaces is None for row in pending):
            self.fate.cancelled += 1
        return gone

    def _replace(self, mine: list[PairRow], row: PairRow, values: Mapping[str, object], update: int) -> list[int]:
        """Replace the properties of a row, and return its number if it was there before the epoch."""
        after = {name: values[name] if name in self.named else value for name, value in row.values.items()}
        if all(is_same(after[name], value) for name, value in row.values.items()):
            self.fate.present += 1
            return []
        number = row.number if row.number is not None else row.replaces
        at = next(place for place, other in enumerate(mine) if other is row)
        mine[at] = PairRow(after, update=update, replaces=number)
        if row.number is None:
            self.fate.cancelled += 1
            return []
        self.fate.replaced += 1
        return [row.number]


def is_same(one: object, other: object) -> bool:
    """Tell whether two values are the same: NaN is a value like any other."""
    return one == other or (one != one and other != other)


def _update(row: PairRow) -> int:
    assert row.update is not None
    return row.update
