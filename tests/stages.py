"""Stages of rows without Spark: groups, orders and computed columns in Python, as `bigjoin.grouped` has them made by Spark."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, isnan

import pyarrow as pa

from bigjoin.joins.evaluate import Evaluation
from bigjoin.planner.type_expressions import kind_of, typed
from bigjoin.query.grouping import Aggregate, Grouping
from bigjoin.query.statement import RowStage, SortKey


def staged(rows: list[dict], stage: RowStage, dialect: str) -> list[dict]:
    """What a stage makes of rows."""
    if stage.columns:
        rows = computed(rows, stage.columns, None, dialect)
    if stage.grouping is not None:
        rows = grouped(rows, stage.grouping, dialect)
    if stage.deduplicate:
        rows = once(rows)
    rows = in_order(rows, stage.order)[stage.skip :][: stage.limit]
    if stage.where is None or not rows:
        return rows
    return computed(rows, [(name, name) for name in rows[0]], stage.where, dialect)


def computed(rows: list[dict], columns, where, dialect: str) -> list[dict]:
    """Columns that are computed from others, of the rows for which a condition is true."""
    names = dict.fromkeys(name for row in rows for name in row)
    arrays = {name: pa.array([row.get(name) for row in rows]) for name in names}

    def ready(term):
        return typed(term, lambda part: kind_of(str(arrays[str(part)].type)), dialect)[0]

    if not rows:
        return []
    evaluation = Evaluation(lambda term: arrays[str(term)], len(rows), dialect)
    found = {name: evaluation.of(ready(term)).to_pylist() for name, term in columns}
    made = [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]
    holds = [True] * len(rows) if where is None else evaluation.where(ready(where))
    return [row for row, is_kept in zip(made, holds, strict=True) if is_kept]


def grouped(rows: list[dict], grouping: Grouping, dialect: str) -> list[dict]:
    """A row for each group; without keys, all rows are one group."""
    keys = [name for name, _ in grouping.keys]
    groups: dict[tuple, list[dict]] = {} if keys else {(): []}
    for row in rows:
        groups.setdefault(tuple(_same(row.get(key)) for key in keys), []).append(row)
    found = [
        {key: members[0].get(key) for key in keys}
        | {name: _aggregated([row.get(name) for row in members], one, dialect) for name, one in grouping.aggregates}
        for members in groups.values()
    ]
    return computed(found, grouping.columns, grouping.having, dialect)


def _same(value):
    """A value that equals another where groups are the same: NaN is one value, and true is not 1."""
    if isinstance(value, list):
        return tuple(map(_same, value))
    return "NaN" if isinstance(value, float) and isnan(value) else (type(value) is bool, value)


def _aggregated(values: list, aggregate: Aggregate, dialect: str):
    if aggregate.argument is None:
        return len(values)
    there = [value for value in values if value is not None]
    function, _, is_distinct = aggregate.function.partition(" ")
    there = list({_same(value): value for value in there}.values()) if is_distinct else there
    match function:
        case "count":
            return len(there)
        case "collect":
            return there
        case "sum" if not there:
            return 0 if dialect == "cypher" else None
    if not there:
        return None
    is_float = any(isinstance(value, float) for value in there)
    added = fsum(there) if is_float and not any(map(isnan, there)) else sum(there) if function in ("sum", "avg") else None
    rank = [(isinstance(value, float) and isnan(value), value) for value in there]
    return {
        "sum": lambda: added,
        "avg": lambda: added / len(there),
        "min": lambda: min(rank)[1],
        "max": lambda: max(rank)[1],
    }[function]()


def once(rows: list[dict]) -> list[dict]:
    """Rows without those that are there already."""
    return list({tuple((name, _same(value)) for name, value in row.items()): row for row in rows}.values())


def in_order(rows: list[dict], keys: Sequence[SortKey]) -> list[dict]:
    """Rows in an order; NaN is larger than any number, and NULL than anything, unless it is said where NULLs are."""
    for key in reversed(keys):
        first = key.descending if key.nulls_first is None else key.nulls_first

        def rank(row, key=key, first=first):
            value = row[key.column]
            is_nan = isinstance(value, float) and isnan(value)
            place = (value is None) == (first == key.descending)  # NULL is larger than anything, or smaller
            return place, is_nan, 0 if value is None or is_nan else value

        rows = sorted(rows, key=rank, reverse=key.descending)
    return rows
