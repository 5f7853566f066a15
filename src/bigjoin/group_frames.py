"""Counts by groups as DataFrames: of the queries that a statement is the sum of, each counted by the same keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bigjoin.errors import QueryError
from bigjoin.group_counts import group_keys, is_distinct, listing_keys
from bigjoin.languages.keys import GROUP_COUNT
from bigjoin.local.group_job import MAX_GROUP_COUNT
from bigjoin.local.strategy import Ask, Progress
from bigjoin.query.expressions import attributes_of
from bigjoin.query.query import Query
from bigjoin.query.statement import Statement
from bigjoin.spark.held import Held
from bigjoin.spark.read import quoted
from bigjoin.spark.strategy import Grouped, SparkStrategy

_DECIMAL = "decimal(38, 0)"


def count_groups(
    statement: Statement,
    by: str | Sequence[str],
    count: Callable[[Query], list[Grouped]],
    find: Callable[[Statement], DataFrame],
) -> DataFrame:
    """Return the number of rows of a statement for each combination of values of some keys.

    `count` counts the queries that a query is the sum of by what its head lists; `find` gives the rows of a statement that has
    to be found first, since Spark decides which of its rows there are.
    """
    keys = group_keys(by, statement)
    listing = listing_keys(statement, keys)
    if is_distinct(statement) or not statement.counts_as_queries:
        return find(listing).groupBy(*(quoted(name) for name, _ in keys)).count()
    return all_groups([found for block in listing.blocks for found in count(block.query)], listing.columns)


def count_literal(number: int) -> Column:
    """Return a count as a column of Spark: 64 bits, or a decimal if it is larger."""
    return F.lit(Decimal(number)) if number >= 1 << 63 else F.lit(number).cast("bigint")


def group(strategy: SparkStrategy, part: Ask, query: Query, held: Held, progress: Progress | None) -> Grouped:
    """Count one of the queries that a query is the sum of by what its head lists."""
    if {*part.query.columns}.isdisjoint(query.columns):  # it binds none of the keys, so these are all NULL
        matches = strategy.count(part, progress).matches
        number = count_literal(matches).alias(GROUP_COUNT)
        return Grouped(strategy.spark.range(1 if matches else 0).select(number), matches)
    keys = dict.fromkeys(attribute for term in part.query.head for attribute in attributes_of(term))
    return strategy.count_by(replace(part, meaning=replace(part.meaning, keys=tuple(keys))), held, progress)


def all_groups(found: Sequence[Grouped], columns: Sequence[str]) -> DataFrame:
    """Return the groups of queries whose matches are added up, with one row for each combination of values."""
    missing = [name for name in columns if not any(name in one.frame.columns for one in found)]
    if missing:
        hint = "name what an atom of the query binds in this source"
        raise QueryError(f"{missing[0]!r} has no values here: nothing that the source keeps binds it", hint=hint)
    frame = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), (one.frame for one in found))
    if len(found) > 1 or found[0].adds_up:
        matches = sum(one.matches for one in found)
        if matches > MAX_GROUP_COUNT:
            raise QueryError(f"{matches:.1e} matches are more than can be added up by groups", hint="group by attributes alone")
        count = F.col(GROUP_COUNT)
        total = F.sum(count.cast(_DECIMAL) if matches >= 1 << 63 else count).alias(GROUP_COUNT)
        frame = frame.groupBy(*map(quoted, columns)).agg(total)
    return frame.select(*map(quoted, (*columns, GROUP_COUNT)))


def in_order(frame: DataFrame) -> DataFrame:
    """Return the groups of a count with the largest first, and those of one size in order of their keys."""
    *keys, count = frame.columns
    return frame.orderBy(F.col(count).desc(), *(F.col(quoted(key)).asc_nulls_last() for key in keys))
