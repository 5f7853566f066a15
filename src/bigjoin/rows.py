"""Put the rows of a statement together from the matches of its queries: structs, subpatterns, unions, order and limits.

Only ids travel through a join. The properties that a struct holds are looked up in the index when matches leave it; what a
pattern in a condition or an OPTIONAL MATCH finds is joined by the attributes that it shares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from bigjoin.errors import QueryError
from bigjoin.query.query import Query
from bigjoin.query.spelled_out import edge_relations, refuse_rows_of_several
from bigjoin.query.statement import Element, QueryBlock, SortKey, Statement, Subpattern
from bigjoin.query.statistics import VERTEX, Statistics
from bigjoin.query.terms import Property, Term, attribute_of
from bigjoin.spark.read import quoted


@dataclass(frozen=True)
class Rows:
    """Makes DataFrames of statements, given how to find the matches of a query, and what is known about the source."""

    find: Callable[[Query], DataFrame]
    statistics: Statistics

    def of(self, statement: Statement, limit: int | None = None) -> DataFrame:
        """Return the rows of a statement, up to a limit; a count(*) is one row."""
        frames = [self._columns(block, statement) for block in statement.blocks]
        frame = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
        if statement.count_column is not None:
            return cut(frame.agg(F.count(F.lit(1)).alias(statement.count_column)), statement, limit)
        if statement.deduplicate:
            frame = frame.distinct()
        if statement.order:
            frame = frame.orderBy(*map(_sorted, statement.order))
        frame = cut(frame, statement, limit)
        columns = statement.columns or statement.query.columns
        return frame.select(*map(quoted, columns)) if tuple(frame.columns) != columns else frame

    def flat_columns(self, statement: Statement) -> list[str]:
        """Return the columns of a statement's rows as a file without structs has them."""
        if statement.count_column is not None:
            return [statement.count_column]
        elements = {element.name: element for block in statement.blocks for element in block.elements}
        found = []
        for name in statement.columns or statement.query.columns:
            fields = [field for field, _ in self._fields(elements[name])] if name in elements else []
            found += [f"{name}.{field}" for field in fields] or [name]
        return found

    def _columns(self, block: QueryBlock, statement: Statement) -> DataFrame:
        """Return the rows of a block with the columns that a user sees, and those that rows are sorted by."""
        if statement.has_structs:
            frame = self._structs(block)
            return frame.withColumns({name: F.lit(value) for name, value in block.constants}) if block.constants else frame
        if not block.subpatterns:
            return self.find(block.query)
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
            for field, term in self._fields(element):
                column = names.setdefault(term, f"c{len(names)}")
                fields.append(F.col(column).alias(field))
            structs.append(F.struct(*fields).alias(element.name))
        query = replace(block.query, head=tuple(names), names=tuple(names.values()))
        return self.find(query).select(*structs)

    def _fields(self, element: Element) -> list[tuple[str, Term]]:
        """Return the fields of a struct: ids first, then properties, each with what it is in a query."""
        if element.ends is None:
            known = self.statistics.properties.get(VERTEX, {})
            return [("id", element.attribute), *((name, Property(element.attribute, name)) for name in known if name != "id")]
        ends: list[tuple[str, Term]] = list(zip(("src", "dst"), element.ends, strict=True))
        (relation,) = edge_relations(self.statistics)
        rows = self.statistics.relations[relation].rows
        known = {} if rows is None else self.statistics.properties.get(rows.domains[-1], {})
        return [*ends, *((name, Property(element.attribute, name)) for name in known if name not in ("src", "dst"))]

    def _block(self, block: QueryBlock, wanted: Mapping[Term, str], keys: Mapping[str, str]) -> DataFrame:
        """Return the rows of a block, with the columns that are wanted of it and its optional patterns.

        `keys` are the columns of attributes that are shared, the same throughout a statement.
        """
        own = block.query.bound
        needed: dict[Term, str] = {**wanted, **{a: keys[a] for sub in block.subpatterns for a in sub.shared}}
        mine = {term: name for term, name in needed.items() if attribute_of(term) in own}
        if not mine:
            mine = {next(iter(block.query.attributes)): "k"}
        frame = self.find(replace(block.query, head=tuple(mine), names=tuple(mine.values()), deduplicate=False))
        for sub in block.subpatterns:
            frame = self._joined(frame, sub, needed, keys)
        return frame

    def _joined(self, frame: DataFrame, sub: Subpattern, needed: Mapping[Term, str], keys: Mapping[str, str]) -> DataFrame:
        """Return rows joined to what a subpattern finds for them, or kept by whether it finds something."""
        refuse_rows_of_several(sub.shared, sub.block.query, self.statistics)
        on = [keys[attribute] for attribute in sub.shared]
        shared: dict[Term, str] = {attribute: keys[attribute] for attribute in sub.shared}
        if sub.kind == "optional":
            taken = set(frame.columns)
            more = {term: name for term, name in needed.items() if name not in taken}
            inside = sub.block.query.bound
            inner = {**shared, **{term: name for term, name in more.items() if attribute_of(term) in inside}}
            found = self._block(sub.block, inner, keys).select(*inner.values())
            return frame.join(found, on, "left") if on else frame.join(found, F.lit(True), "left")
        found = self._block(sub.block, shared, keys)
        how = "left_semi" if sub.kind == "exists" else "left_anti"
        if on:
            return frame.join(found.select(*on).distinct(), on, how)
        return frame.join(found.limit(1).select(F.lit(1)), F.lit(True), how)


def cut(frame: DataFrame, statement: Statement, limit: int | None) -> DataFrame:
    """Return the rows that SKIP and LIMIT of a statement, and a limit, leave."""
    frame = frame.offset(statement.skip) if statement.skip else frame
    limits = [n for n in (limit, statement.limit) if n is not None]
    return frame.limit(min(limits)) if limits else frame


def flat(frame: DataFrame) -> DataFrame:
    """Return rows with a column for each field of a struct."""
    columns = []
    for field in frame.schema:
        inner = field.dataType.names if isinstance(field.dataType, StructType) else []
        columns += [F.col(quoted(field.name))[name].alias(f"{field.name}.{name}") for name in inner]
        columns += [] if inner else [F.col(quoted(field.name))]
    return frame.select(*columns)


def check_relations(statement: Statement, statistics: Statistics) -> None:
    """Refuse motifs over several relations: an edge of a motif has no type."""
    if statement.has_structs and len(known := edge_relations(statistics)) > 1:
        hint = f"use Cypher, MATCH (a)-[e:{known[0]}]->(b) RETURN a, b, or a rule"
        raise QueryError(f"motifs have no types, and the graph has the relations {', '.join(known)}", hint=hint)


def _sorted(key: SortKey) -> SparkColumn:
    """Return a column to sort by; NULL is larger than anything, as in openCypher."""
    column = F.col(quoted(key.column))
    return column.desc_nulls_first() if key.descending else column.asc_nulls_last()
