"""Put the rows of a statement together from the matches of its queries: structs, subpatterns, unions, order and limits.

Only ids travel through a join. The properties that a struct holds are looked up in the index when matches leave it; what a
pattern in a condition or an OPTIONAL MATCH finds is joined by the attributes that it shares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from bigjoin.elements import struct_fields
from bigjoin.grouped import computed, in_order, staged
from bigjoin.query.expressions import Expression, attributes_of
from bigjoin.query.query import Query
from bigjoin.query.spelled_out import refuse_rows_of_several
from bigjoin.query.statement import QueryBlock, RowStage, Statement, Subpattern
from bigjoin.query.statistics import Statistics
from bigjoin.query.terms import Term
from bigjoin.spark.read import quoted


@dataclass(frozen=True)
class Rows:
    """Makes DataFrames of statements, given how to find the matches of a query, and what is known about the source."""

    find: Callable[[Query], DataFrame]
    statistics: Statistics
    count_by: Callable[[Query], DataFrame] | None = field(default=None, kw_only=True)
    """Counts the matches of a query by what its head lists, without listing them where that is possible."""

    def of(self, statement: Statement, limit: int | None = None) -> DataFrame:
        """Return the rows of a statement, up to a limit; a count(*) is one row."""
        dialect = statement.query.dialect
        last = RowStage(grouping=statement.grouping)
        first, *others = (*statement.before, last)
        frame = self._groups(first, statement)
        if frame is None:
            frames = [self._columns(block, statement) for block in statement.blocks]
            frame = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
        else:
            first = replace(first, grouping=None)
        for stage in (first, *others):
            frame = staged(frame, stage, dialect)
        if statement.count_column is not None:
            return cut(frame.agg(F.count(F.lit(1)).alias(statement.count_column)), statement, limit)
        if statement.deduplicate:
            frame = frame.distinct()
        frame = cut(in_order(frame, statement.order), statement, limit)
        columns = statement.columns or statement.query.columns
        return frame.select(*map(quoted, columns)) if tuple(frame.columns) != columns else frame

    def _groups(self, stage: RowStage, statement: Statement) -> DataFrame | None:
        """Return the groups that a first stage makes if it asks only for the number of matches in each; None if not."""
        grouping = stage.grouping
        if grouping is None or self.count_by is None or not (grouping.counts_matches and grouping.keys) or stage.columns:
            return None
        if len(statement.blocks) > 1 or statement.blocks[0].subpatterns or statement.query.deduplicate:
            return None
        ((name, _),) = grouping.aggregates
        counts = self.count_by(statement.query).withColumnRenamed("count", name)
        return computed(counts, grouping.columns, grouping.having, statement.query.dialect)

    def _columns(self, block: QueryBlock, statement: Statement) -> DataFrame:
        """Return the rows of a block with the columns that a user sees, and those that rows are sorted by."""
        if statement.has_structs:
            frame = self._structs(block)
            return frame.withColumns({name: F.lit(value) for name, value in block.constants}) if block.constants else frame
        if not block.subpatterns:
            empty = not block.query.head  # rows of which only the number is wanted
            return self.find(replace(block.query, head=block.query.attributes[:1]) if empty else block.query)
        wanted = {term: f"c{i}" for i, term in enumerate(dict.fromkeys(statement.head))}
        shared = dict.fromkeys(a for inner in block.walk() for sub in inner.subpatterns for a in sub.shared)
        keys = {attribute: wanted.get(attribute, f"k{i}") for i, attribute in enumerate(shared)}
        frame = self._block(block, wanted, keys)
        named = zip(statement.head, statement.names, strict=True)
        return frame.select(*(F.col(wanted[term]).alias(name) for term, name in named)) if statement.head else frame

    def _structs(self, block: QueryBlock) -> DataFrame:
        """Return the rows of a motif: a struct for each named element, with all its properties."""
        names: dict[Term, str] = {}
        structs = []
        for element in (element for element in block.elements if not element.hidden):
            fields = []
            for name, term in struct_fields(element, self.statistics):
                column = names.setdefault(term, f"c{len(names)}")
                fields.append(F.col(column).alias(name))
            structs.append(F.struct(*fields).alias(element.name))
        query = replace(block.query, head=tuple(names), names=tuple(names.values()))
        return self.find(query).select(*structs)

    def _block(self, block: QueryBlock, wanted: Mapping[Expression, str], keys: Mapping[str, str]) -> DataFrame:
        """Return the rows of a block, with the columns that are wanted of it and its optional patterns.

        `keys` are the columns of attributes that are shared, the same throughout a statement.
        """
        own = block.query.bound
        needed: dict[Expression, str] = {**wanted, **{a: keys[a] for sub in block.subpatterns for a in sub.shared}}
        mine = {term: name for term, name in needed.items() if own.issuperset(attributes_of(term))}
        if not mine:
            mine = {next(iter(block.query.attributes)): "k"}
        frame = self.find(replace(block.query, head=tuple(mine), names=tuple(mine.values()), deduplicate=False))
        for sub in block.subpatterns:
            frame = self._joined(frame, sub, needed, keys)
        return frame

    def _joined(
        self, frame: DataFrame, sub: Subpattern, needed: Mapping[Expression, str], keys: Mapping[str, str]
    ) -> DataFrame:
        """Return rows joined to what a subpattern finds for them, or kept by whether it finds something."""
        refuse_rows_of_several(sub.shared, sub.block.query, self.statistics)
        on = [keys[attribute] for attribute in sub.shared]
        shared: dict[Expression, str] = {attribute: keys[attribute] for attribute in sub.shared}
        if sub.kind == "optional":
            taken = set(frame.columns)
            more = {term: name for term, name in needed.items() if name not in taken}
            inside = _bound(sub.block)
            inner = {**shared, **{term: name for term, name in more.items() if inside.issuperset(attributes_of(term))}}
            found = self._block(sub.block, inner, keys).select(*inner.values())
            return frame.join(found, on, "left") if on else frame.join(found, F.lit(True), "left")
        found = self._block(sub.block, shared, keys)
        how = "left_semi" if sub.kind == "exists" else "left_anti"
        if on:
            return frame.join(found.select(*on).distinct(), on, how)
        return frame.join(found.limit(1).select(F.lit(1)), F.lit(True), how)


def _bound(block: QueryBlock) -> set[str]:
    """Return the attributes that the rows of a block have, those of its optional patterns as well."""
    optional = (_bound(sub.block) for sub in block.subpatterns if sub.kind == "optional")
    return block.query.bound.union(*optional)


def cut(frame: DataFrame, statement: Statement, limit: int | None) -> DataFrame:
    """Return the rows that SKIP and LIMIT of a statement, and a limit, leave."""
    frame = frame.offset(statement.skip) if statement.skip else frame
    limits = [n for n in (limit, statement.limit) if n is not None]
    return frame.limit(min(limits)) if limits else frame


def flat(frame: DataFrame) -> DataFrame:
    """Return rows with a column for each field of a struct."""
    columns = []
    for column in frame.schema:
        inner = column.dataType.names if isinstance(column.dataType, StructType) else []
        columns += [F.col(quoted(column.name))[name].alias(f"{column.name}.{name}") for name in inner]
        columns += [] if inner else [F.col(quoted(column.name))]
    return frame.select(*columns)
