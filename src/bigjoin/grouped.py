"""Stages of rows: Spark groups, sorts and cuts them, and what is computed from columns, keys and aggregates follows.

Expressions over groups are evaluated as everywhere else (`joins/evaluate.py`), so that they mean the same before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DayTimeIntervalType, NullType, NumericType

from bigjoin.computed_columns import Computation
from bigjoin.errors import QueryError
from bigjoin.query.expressions import Expression
from bigjoin.query.grouping import Aggregate, Grouping
from bigjoin.query.query import Dialect
from bigjoin.query.statement import RowStage, SortKey
from bigjoin.spark.frames import arrow_schema
from bigjoin.spark.read import quoted
from bigjoin.spark.session import time_zone


def staged(frame: DataFrame, stage: RowStage, dialect: Dialect) -> DataFrame:
    """Return what a stage makes of rows."""
    if stage.columns:
        frame = computed(frame, stage.columns, None, dialect)
    if stage.grouping is not None:
        frame = grouped(frame, stage.grouping, dialect)
    if stage.deduplicate:
        frame = frame.distinct()
    frame = in_order(frame, stage.order)
    frame = frame.offset(stage.skip) if stage.skip else frame
    frame = frame if stage.limit is None else frame.limit(stage.limit)
    if stage.where is None:
        return frame
    return computed(frame, [(name, name) for name in frame.columns], stage.where, dialect)


def in_order(frame: DataFrame, keys: Sequence[SortKey]) -> DataFrame:
    """Return rows in an order; unless it is said where NULLs are, they are larger than anything, as in openCypher."""
    return frame.orderBy(*map(_sorted, keys)) if keys else frame


def _sorted(key: SortKey) -> SparkColumn:
    column = F.col(quoted(key.column))
    first = key.descending if key.nulls_first is None else key.nulls_first
    if key.descending:
        return column.desc_nulls_first() if first else column.desc_nulls_last()
    return column.asc_nulls_first() if first else column.asc_nulls_last()


def grouped(frame: DataFrame, grouping: Grouping, dialect: Dialect) -> DataFrame:
    """Return a row for each group of rows, with the columns of the grouping; without keys, all rows are one group."""
    aggregates = [_aggregate(name, one, frame, dialect).alias(name) for name, one in grouping.aggregates]
    keys = [name for name, _ in grouping.keys]
    found = frame.groupBy(*keys).agg(*aggregates) if aggregates else frame.select(*keys).distinct()
    return computed(found, grouping.columns, grouping.having, dialect)


def computed(
    frame: DataFrame, columns: Sequence[tuple[str, Expression]], where: Expression | None, dialect: Dialect
) -> DataFrame:
    """Return columns that are computed from those of a frame, by their names, of the rows for which a condition is true."""
    if where is None and all(isinstance(term, str) for _, term in columns):
        return frame.select(*(F.col(str(term)).alias(name) for name, term in columns))
    made = Computation.of(arrow_schema(frame.schema), columns, where, dialect, time_zone(frame.sparkSession))

    def compute(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from map(made.batch, batches)

    return frame.mapInArrow(compute, from_arrow_schema(made.schema))


def _aggregate(name: str, aggregate: Aggregate, frame: DataFrame, dialect: Dialect) -> SparkColumn:
    """Return an aggregate of the column that has its name."""
    if aggregate.argument is None:
        return F.count(F.lit(1))
    column, of = F.col(name), frame.schema[name].dataType
    if aggregate.function.split()[0] in ("sum", "avg") and not isinstance(of, NumericType | DayTimeIntervalType | NullType):
        hint = "count it, or take its min or max"
        raise QueryError(f"'{aggregate}' has no meaning: the values are of type {of.simpleString()}", None, hint)
    found = _AGGREGATES[aggregate.function](column)
    is_sum = aggregate.function in ("sum", "sum distinct")
    return F.coalesce(found, F.lit(0)) if is_sum and dialect == "cypher" and isinstance(of, NumericType) else found


_AGGREGATES: Mapping[str, Callable[[SparkColumn], SparkColumn]] = {
    "count": F.count,
    "count distinct": F.count_distinct,
    "sum": F.sum,
    "sum distinct": F.sum_distinct,
    "min": F.min,
    "max": F.max,
    "avg": F.avg,
    "avg distinct": lambda column: F.sum_distinct(column) / F.count_distinct(column),
    "collect": F.collect_list,
    "collect distinct": F.collect_set,
}
