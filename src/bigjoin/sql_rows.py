"""Rows of a table as SQL reads them: numbered, with columns that are computed, and only those that satisfy a condition."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bigjoin.errors import QueryError
from bigjoin.index.stage_runner import StageRunner, in_threads
from bigjoin.ingest.columns import cast, common_type, joined_type
from bigjoin.ingest.table import ArrowFile, InMemory, Split, Table, is_here
from bigjoin.joins.evaluate import Evaluation
from bigjoin.languages.sql_tables import TableKey, column_key
from bigjoin.languages.sql_tree import UNQUALIFIED
from bigjoin.planner.type_expressions import kind_of, typed
from bigjoin.query.expressions import Call, Expression, mapped, terms_of
from bigjoin.query.terms import Constant, Property
from bigjoin.storage.arrays import map_table, new_file, write_table

ROW_NUMBER = "row number"
"""The column with the number of the row, which no table can have: names of columns are as SQL writes them."""
MAX_ROWS_COMPARED = 20_000_000
"""Rows of a table in which equal ones are looked for; a larger one is taken to have some."""


@dataclass(frozen=True)
class SelectedRows:
    """A piece of a table with its rows numbered, columns that are computed of its own, and only some of the rows."""

    split: Split
    source: str
    first: int
    given: pa.Schema
    """The columns that are read, with the types that they become."""
    columns: tuple[tuple[str, Expression], ...]
    where: Expression | None = None
    numbered: bool = False

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read the rows."""
        first = self.first
        for batch in self.split.read():
            rows = batch.num_rows
            arrays = {
                name: cast(batch.column(name), kind, column=name, source=self.source)
                if not pa.types.is_null(batch.schema.field(name).type)
                else batch.column(name).cast(kind)
                for name, kind in zip(self.given.names, self.given.types, strict=True)
            }
            found = Evaluation(lambda term, arrays=arrays: arrays[_column(term)], rows)  # type: ignore[misc]
            columns = {name: found.of(expression) for name, expression in self.columns}
            if self.numbered:
                columns[ROW_NUMBER] = pa.array(np.arange(first, first + rows))
            made = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
            yield made if self.where is None else made.filter(pa.array(found.where(self.where)))
            first += rows


@dataclass(frozen=True)
class WriteProperties:
    """Stage: write columns of a piece of a table as an Arrow file, a row for each of its rows."""

    folder: str
    schema: pa.Schema

    def __call__(self, split: Split) -> str:
        file = new_file(self.folder, "properties", ".arrow")
        rows = pa.Table.from_batches([batch.select(self.schema.names).cast(self.schema) for batch in split.read()], self.schema)
        write_table(rows.combine_chunks(), file)
        return file


@dataclass(frozen=True)
class SqlTable:
    """A table of a source as far as a statement reads it."""

    name: str
    table: Table
    zone: Callable[[], str] = lambda: "UTC"
    """The time zone in which texts name times, and in which days and hours begin."""
    known: dict[object, object] = field(default_factory=dict, compare=False)
    """What has been found out about its rows."""

    @cached_property
    def given(self) -> pa.Schema:
        """The columns, with the types that they become."""
        return pa.schema([(field.name, self._type(field)) for field in self.table.schema])

    def _type(self, field: pa.Field) -> pa.DataType:
        if pa.types.is_null(field.type):
            return pa.string()
        if (kind := joined_type(field.type)) is None:
            raise QueryError(
                f"column {field.name!r} of {self.name!r} is {field.type}, which is not read", hint="cast it, or leave it out"
            )
        return kind

    @cached_property
    def pieces(self) -> list[tuple[Split, int]]:
        """The pieces, and the number of the first row of each."""
        found, first = [], 0
        for split in self.table.splits:
            found.append((split, first))
            first += _rows_of(split)
        return found

    @cached_property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(_rows_of(split) for split in self.table.splits)

    def typed(self, expression: Expression) -> Expression:
        """Return an expression of columns, ready to be evaluated."""
        found = typed(expression, lambda term: kind_of(str(self.given.field(_column(term)).type)), "sql")[0]
        zoned = [term for term in terms_of(found) if getattr(self.given.field(_column(term)).type, "tz", None) is not None]
        if isinstance(found, Property) or not zoned or (zone := self.zone()) == "UTC":
            return found
        return mapped(found, lambda part: Call("in zone", (part, Constant(zone))) if part in zoned else part)

    def type_of(self, expression: Expression) -> pa.DataType:
        """Return the type of an expression's values."""
        empty = self.given.empty_table()
        kind = Evaluation(lambda term: empty[_column(term)].combine_chunks(), 0).of(self.typed(expression)).type
        return pa.string() if pa.types.is_null(kind) else kind

    def selected(
        self, columns: Sequence[tuple[str, Expression]], where: Expression | None = None, *, numbered: bool = False
    ) -> Table:
        """Return some rows with columns that are computed."""
        ready = tuple((name, self.typed(expression)) for name, expression in columns)
        condition = None if where is None else self.typed(where)
        splits = [
            SelectedRows(split, f"{self.name!r}", first, self.given, ready, condition, numbered) for split, first in self.pieces
        ]
        kinds = [(name, self.type_of(expression)) for name, expression in columns]
        schema = pa.schema([*kinds, *([(ROW_NUMBER, pa.int64())] if numbered else [])])
        return Table(self.name, tuple(schema.names), schema, splits, self.table.rows)

    # What is known about the rows

    def may_be_null(self, key: TableKey) -> bool:
        """Tell whether an expression is NULL in some row."""
        if ("null", key) not in self.known:
            batches = (batch for split in self.selected([("key", key)]).splits for batch in split.read())
            self.known["null", key] = any(batch.column(0).null_count for batch in batches)
        return bool(self.known["null", key])

    def is_distinct(self, keys: Collection[TableKey]) -> bool:
        """Tell whether no two rows agree in some expressions, rows in which one is NULL aside; False if it is not known."""
        name = ("distinct", frozenset(keys))
        if name not in self.known:
            self.known[name] = bool(keys) and self.rows <= MAX_ROWS_COMPARED and self._compared(keys)
        return bool(self.known[name]) or (not keys and self.rows <= 1)

    def _compared(self, keys: Collection[TableKey]) -> bool:
        names = [f"k{number}" for number in range(len(keys))]
        selected = self.selected(list(zip(names, keys, strict=True)))
        batches = [batch for split in selected.splits for batch in split.read()]
        rows = pa.Table.from_batches(batches, selected.schema).drop_null()
        return is_set(rows.columns)


def is_set(columns: Sequence[pa.ChunkedArray]) -> bool:
    """Tell whether no two rows are the same, given columns without NULLs: each row becomes one number, and these are sorted."""
    rows, size = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        numbers, values = _numbered(column)
        if size * values >= 2**63:
            rows = np.unique(rows, return_inverse=True)[1]
            size = len(rows) + 1
        if size * values >= 2**63:
            numbers = np.unique(numbers, return_inverse=True)[1]
            values = len(rows) + 1
        rows, size = rows * values + numbers, size * values
    rows.sort()
    return not (rows[1:] == rows[:-1]).any()


def _numbered(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], int]:
    """Return numbers that are equal where values are, and a bound on them; 0.0 is -0.0."""
    if pa.types.is_integer(column.type) and len(column):
        values = column.to_numpy().astype(np.int64)
        low, high = int(values.min()), int(values.max())
        if high - low < 2**62:
            return values - low, high - low + 1
    if pa.types.is_floating(column.type):
        column = pc.add(column, pa.scalar(0.0, column.type))
    encoded = column.combine_chunks().dictionary_encode()
    encoded = encoded.chunk(0) if isinstance(encoded, pa.ChunkedArray) and encoded.num_chunks else encoded
    if isinstance(encoded, pa.ChunkedArray):
        return np.empty(0, np.int64), 1
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary) + 1


def properties_of(
    table: SqlTable, columns: Collection[str], folder: Path, run: StageRunner
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Write columns of a table as properties of its rows; return their types, and the files."""
    wanted = [name for name in table.given.names if name in columns]
    schema = pa.schema([table.given.field(name) for name in wanted])
    selected = table.selected([(name, column_key(name)) for name in wanted])
    write = WriteProperties(str(folder), schema)
    here = all(map(is_here, selected.splits))
    files = tuple((in_threads if here else run)(write, list(selected.splits)))
    if not files:
        empty = new_file(str(folder), "properties", ".arrow")
        write_table(schema.empty_table(), empty)
        files = (empty,)
    return {field.name: str(field.type) for field in schema}, files


def common_keys(one: SqlTable, key: TableKey, other: SqlTable, other_key: TableKey) -> tuple[TableKey, TableKey] | None:
    """Return keys of two tables in forms whose values have one type: numbers of different types are cast."""
    kinds = one.type_of(key), other.type_of(other_key)
    if common_type(*kinds) is not None:
        return key, other_key
    sorts = [kind_of(str(kind)) for kind in kinds]
    if set(sorts) <= {"integer", "decimal", "double"} and "double" in sorts:
        return _as(key, "double"), _as(other_key, "double")
    if set(sorts) == {"integer", "decimal"}:
        scale = next(kind.scale for kind, sort in zip(kinds, sorts, strict=True) if sort == "decimal")
        wide = f"decimal({min(38, 19 + scale)}, {scale})"
        return _as(key, wide, sorts[0] == "integer"), _as(other_key, wide, sorts[1] == "integer")
    if set(sorts) == {"date", "time"} and all(getattr(kind, "tz", None) is None for kind in kinds):
        return _as(key, "timestamp", sorts[0] == "date"), _as(other_key, "timestamp", sorts[1] == "date")
    return None


def _as(key: TableKey, kind: str, needed: bool = True) -> TableKey:
    return Call("cast", (key, Constant(kind))) if needed else key


def truth(condition: Expression) -> bool | None:
    """Tell whether a condition without columns holds, for sure; None if it has some."""
    if terms_of(condition):
        return None
    ready, kind = typed(condition, _no_column, "sql")
    if kind not in ("boolean", "null"):
        raise QueryError(f"'{condition}' is no condition", getattr(condition, "span", None), "compare it with something")
    return bool(Evaluation(_no_column, 1).where(ready)[0])


def _no_column(term: str | Property) -> Any:
    raise AssertionError(term)


def _column(term: str | Property) -> str:
    assert isinstance(term, Property)
    assert term.attribute == UNQUALIFIED
    return term.name


def _rows_of(split: Split) -> int:
    """Return how many rows a piece has."""
    if isinstance(split, InMemory | ArrowFile):
        return len(split.table if isinstance(split, InMemory) else map_table(split.path))
    return sum(batch.num_rows for batch in split.read())
