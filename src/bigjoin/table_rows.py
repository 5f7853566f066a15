"""Stages of rows in this process: Arrow groups, sorts and cuts tables, as Spark does with frames (`grouped.py`).

What comes of it is what Spark SQL says: NaN equals itself and is larger than any number, zeros are equal whatever their sign, a
sum of integers has 64 bits or is an error, and a sum of decimals has ten digits more. What Arrow would answer otherwise, or not
at all, is refused (`NeedsSparkError`), and left to Spark where the strategy may be chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bigjoin.computed_columns import Computation
from bigjoin.errors import NeedsSparkError, QueryError
from bigjoin.query.expressions import Expression
from bigjoin.query.grouping import Aggregate, Grouping
from bigjoin.query.query import Dialect
from bigjoin.query.statement import RowStage, SortKey

MAX_SPARK_DIGITS = 38
"""The digits that a decimal can have."""

DIGITS_OF_SUM = 10
"""How many digits more than the decimals that it adds up a sum has."""

SAFE_SUM = float(1 << 62)
"""Sums below this, found with floating numbers, are sums of integers that fit into 64 bits."""


def staged(table: pa.Table, stage: RowStage, dialect: Dialect, zone: str) -> pa.Table:
    """Return what a stage makes of rows."""
    if stage.columns:
        table = computed(table, stage.columns, None, dialect, zone)
    if stage.grouping is not None:
        table = grouped(table, stage.grouping, dialect, zone)
    if stage.deduplicate:
        table = distinct(table)
    table = in_order(table, stage.order)
    table = table.slice(stage.skip, stage.limit)
    if stage.where is None:
        return table
    return computed(table, [(name, name) for name in table.column_names], stage.where, dialect, zone)


def computed(
    table: pa.Table, columns: Sequence[tuple[str, Expression]], where: Expression | None, dialect: Dialect, zone: str
) -> pa.Table:
    """Return columns that are computed from those of a table, by their names, of the rows for which a condition is true."""
    if where is None and all(isinstance(term, str) for _, term in columns):
        return pa.table([table[str(term)] for _, term in columns], [name for name, _ in columns])
    made = Computation.of(table.schema, columns, where, dialect, zone)
    return pa.Table.from_batches(map(made.batch, table.combine_chunks().to_batches()), made.schema)


def together(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of several tables, NULL where one has no such column."""
    try:
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowTypeError:
        raise NeedsSparkError("a column that has several types") from None


def distinct(table: pa.Table) -> pa.Table:
    """Return each row once."""
    names = table.column_names
    return _with_places(table).group_by(_places(names), use_threads=False).aggregate([]).rename_columns(names)


def in_order(table: pa.Table, keys: Sequence[SortKey]) -> pa.Table:
    """Return rows in an order; unless it is said where NULLs are, they are larger than anything, as in openCypher."""
    if not keys or not len(table):
        return table
    columns: list[pa.ChunkedArray] = []
    orders: list[tuple[str, str]] = []

    def then(column: pa.ChunkedArray, *, descending: bool) -> None:
        orders.append((f"k{len(columns)}", "descending" if descending else "ascending"))
        columns.append(column)

    for key in keys:
        column = table[key.column]
        if pa.types.is_nested(column.type):
            raise NeedsSparkError(f"an order by {key.column!r}, which has parts,")
        first = key.descending if key.nulls_first is None else key.nulls_first
        then(pc.is_null(column), descending=first)
        if pa.types.is_floating(column.type):
            then(pc.is_nan(column).fill_null(False), descending=key.descending)
            column = pc.if_else(pc.is_nan(column), pa.scalar(0, column.type), column)
        then(column, descending=key.descending)
    return table.take(pc.sort_indices(pa.table(columns, [name for name, _ in orders]), sort_keys=orders))


def grouped(table: pa.Table, grouping: Grouping, dialect: Dialect, zone: str) -> pa.Table:
    """Return a row for each group of rows, with the columns of the grouping; without keys, all rows are one group."""
    keys = [name for name, _ in grouping.keys]
    if not grouping.aggregates:
        return computed(distinct(table.select(keys)), grouping.columns, grouping.having, dialect, zone)
    names = [name for name, _ in grouping.aggregates]
    parts = [_Aggregated.of(name, one, table, dialect) for name, one in grouping.aggregates]
    rows = _with_places(table.select(keys)) if keys else pa.table({})
    inputs = [(f"a{i}.{j}", column) for i, part in enumerate(parts) for j, (column, _) in enumerate(part.inputs)]
    asked: list[tuple[Any, str]] = [(name, of) for (name, _), of in zip(inputs, _functions(parts), strict=True)]
    whole = pa.table([*rows.columns, *(column for _, column in inputs)], [*rows.column_names, *(name for name, _ in inputs)])
    if not whole.num_columns:  # only rows are counted
        whole = pa.table({"row": pa.nulls(len(table))})
    found = whole.group_by(rows.column_names, use_threads=False).aggregate([*asked, ([], "count_all")])
    columns = [found[place] for place in rows.column_names]
    for i, part in enumerate(parts):
        columns.append(part.result([found[f"a{i}.{j}_{of}"] for j, (_, of) in enumerate(part.inputs)], found["count_all"]))
    return computed(pa.table(columns, [*keys, *names]), grouping.columns, grouping.having, dialect, zone)


def counted(table: pa.Table, name: str) -> pa.Table:
    """Return each row once, with a further column that says how often it is there."""
    names = table.column_names
    found = _with_places(table).group_by(_places(names), use_threads=False).aggregate([([], "count_all")])
    return found.select([*_places(names), "count_all"]).rename_columns([*names, name])


def summed(table: pa.Table) -> pa.Table:
    """Return each combination of values once, with the sum of the last column, which is a count."""
    *names, count = table.column_names
    rows = _with_places(table.select(names)).append_column(count, table[count])
    found = rows.group_by(_places(names), use_threads=False).aggregate([(count, "sum")])
    return found.select([*_places(names), f"{count}_sum"]).rename_columns(table.column_names).cast(table.schema)


class _Aggregated:
    """An aggregate of a column: what Arrow aggregates for it, and what is made of that."""

    def __init__(self, aggregate: Aggregate, column: pa.ChunkedArray | None, dialect: Dialect) -> None:
        self.aggregate, self.dialect = aggregate, dialect
        self.column: Any = column
        self.inputs: list[tuple[pa.ChunkedArray, str]] = []

    @classmethod
    def of(cls, name: str, aggregate: Aggregate, table: pa.Table, dialect: Dialect) -> _Aggregated:
        """Return what aggregates the column that has the name of an aggregate."""
        if aggregate.argument is None:
            return cls(aggregate, None, dialect)
        found, kind = cls(aggregate, table[name], dialect), table[name].type
        numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        if aggregate.function in ("sum", "avg") and not numbers and not pa.types.is_duration(kind):
            hint = "count it, or take its min or max"
            raise QueryError(f"'{aggregate}' has no meaning: the values are of type {kind}", None, hint)
        match aggregate.function:
            case "count":
                found.inputs = [(found.column, "count")]
            case "count distinct" if not pa.types.is_nested(kind):
                found.inputs = [(_plain(found.column), "count_distinct")]
            case "sum" if pa.types.is_integer(kind):
                found.inputs = [(found.column, "sum"), (found.column.cast(pa.float64(), safe=False), "sum")]
            case "sum" if pa.types.is_decimal(kind) and kind.precision + DIGITS_OF_SUM > MAX_SPARK_DIGITS:
                raise NeedsSparkError(f"'{aggregate}' of {kind} values, which Arrow would not check for overflow,")
            case "sum" if numbers:
                found.inputs = [(found.column, "sum")]
            case "avg" if pa.types.is_integer(kind) or pa.types.is_floating(kind):
                found.inputs = [(found.column.cast(pa.float64(), safe=False), "mean")]
            case "min" | "max" if pa.types.is_floating(kind):
                found.inputs = [(_plain(found.column), aggregate.function), (pc.is_nan(found.column), "max")]
            case "min" | "max" if not (pa.types.is_nested(kind) or pa.types.is_duration(kind) or pa.types.is_null(kind)):
                found.inputs = [(found.column, aggregate.function)]
            case _:
                raise NeedsSparkError(f"'{aggregate}' of {kind} values")
        return found

    def result(self, found: Sequence[pa.ChunkedArray], rows: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return the column of groups, given what Arrow has aggregated, and how many rows the groups have."""
        if self.column is None:
            return rows
        first, kind = found[0], self.column.type
        if self.aggregate.function == "max" and pa.types.is_floating(kind):
            return pc.if_else(found[1].fill_null(False), pa.scalar(float("nan"), kind), first)
        if self.aggregate.function != "sum":
            return first
        if pa.types.is_integer(kind):
            if (largest := pc.max(pc.abs(found[1])).as_py()) is not None and largest >= SAFE_SUM:
                raise NeedsSparkError(f"'{self.aggregate}' of about {largest:.1e}, which may not fit into 64 bits,")
            first = first.cast(pa.int64())
        elif pa.types.is_decimal(kind):
            first = first.cast(pa.decimal128(min(MAX_SPARK_DIGITS, kind.precision + DIGITS_OF_SUM), kind.scale))
        return first.fill_null(pa.scalar(0, first.type)) if self.dialect == "cypher" else first


def _functions(parts: Sequence[_Aggregated]) -> list[str]:
    return [of for part in parts for _, of in part.inputs]


def _places(names: Sequence[str]) -> list[str]:
    return [f"c{place}" for place in range(len(names))]


def _with_places(table: pa.Table) -> pa.Table:
    """Return a table whose columns can be grouped by, under names that say their places."""
    if nested := next((field.name for field in table.schema if pa.types.is_nested(field.type)), None):
        raise NeedsSparkError(f"telling rows apart by {nested!r}, which has parts,")
    return pa.table([_plain(column) for column in table.columns], _places(table.column_names))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column in which equal numbers have equal bits: there is one zero, and one NaN."""
    if not pa.types.is_floating(column.type):
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), column.type), pc.add(column, pa.scalar(0, column.type)))
