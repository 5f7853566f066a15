"""The rows of a statement as a table in parts, each of which is a task of its own: what Spark's data source reads.

`find` gives the same rows as a frame. Here nothing is a frame: a part gives Arrow batches wherever it is asked, and what a
statement wants besides (structs, columns that only some of its queries have) is done with their arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

import pyarrow as pa

from bigjoin.defaults import ListOptions
from bigjoin.elements import struct_fields
from bigjoin.errors import QueryError
from bigjoin.graph import Graph
from bigjoin.local.list_job import ListJob, list_job, match_batches
from bigjoin.local.matches import in_microseconds
from bigjoin.query.statement import QueryBlock, Statement
from bigjoin.query.terms import Term


@dataclass(frozen=True)
class TablePart:
    """A search for matches, and how these become rows."""

    job: ListJob
    structs: Mapping[str, Mapping[str, str]]
    """Columns that are structs: the columns of matches that their fields are."""
    constants: Mapping[str, str | int]
    """Columns that have one value."""

    def types(self) -> dict[str, pa.DataType]:
        """Return the columns of its rows."""
        found = {field.name: field.type for field in in_microseconds(self.job.schema)}
        made = {name: pa.struct([(f, found[c]) for f, c in fields.items()]) for name, fields in self.structs.items()}
        return {**(made or found), **{name: pa.scalar(value).type for name, value in self.constants.items()}}

    def shaped(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        """Return matches as rows with the columns of a schema; NULL in columns that they do not have."""
        return pa.RecordBatch.from_arrays([self._column(batch, field) for field in schema], schema=schema)

    def _column(self, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        if field.name in self.structs:
            fields = self.structs[field.name]
            values = [batch.column(fields[inner.name]).cast(inner.type, safe=False) for inner in field.type]
            return pa.StructArray.from_arrays(values, fields=list(field.type))
        if field.name in self.constants:
            return pa.repeat(pa.scalar(self.constants[field.name], field.type), batch.num_rows)
        if field.name in batch.schema.names:
            return batch.column(field.name).cast(field.type, safe=False)
        return pa.nulls(batch.num_rows, field.type)


@dataclass(frozen=True)
class MatchTable:
    """The rows of a statement: those of all its parts."""

    parts: tuple[TablePart, ...]
    schema: pa.Schema

    @classmethod
    def of(cls, graph: Graph, statement: Statement, options: ListOptions, tasks: int) -> MatchTable:
        """Return the rows of a statement over a graph; refuse statements whose rows Spark has to put together."""
        _check_rows(statement)
        found = (_parts(graph, statement, block, options, tasks) for block in statement.blocks)
        parts = tuple(chain.from_iterable(found))
        if len(parts) > 1 and parts[0].job.limit is not None:
            raise QueryError("a limit is for one query, and this is a sum of several", hint="use LIMIT in SQL instead")
        types = {name: kind for part in reversed(parts) for name, kind in part.types().items()}
        names = statement.columns or statement.query.columns
        return cls(parts, pa.schema([(name, types[name]) for name in names]))

    def tasks(self) -> list[tuple[int, int]]:
        """Return what there is to do: the number of a part, and of a task in it."""
        return [(number, task) for number, part in enumerate(self.parts) for task in range(len(part.job.ranges))]

    def batches(self, number: int, task: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Give the rows of one task, with the types of a schema."""
        part = self.parts[number]
        for batch in match_batches(part.job, task, None):
            yield part.shaped(batch, schema)


def _fields(graph: Graph, statement: Statement, block: QueryBlock) -> dict[str, dict[str, Term]]:
    """Return the structs of a motif, and what their fields are."""
    shown = [element for element in block.elements if not element.hidden]
    statistics = graph.statistics_for(statement) if shown else None
    return {element.name: dict(struct_fields(element, statistics)) for element in shown if statistics is not None}


def _check_rows(statement: Statement) -> None:
    """Refuse what is done with rows after they are found: SQL does that, over the table."""
    if statement.unread is not None:
        hint = (
            "give a rule, a motif or Cypher here, and SELECT from the table; bj.sql(text, edge=...) answers a SELECT by itself"
        )
        raise QueryError("the query of a table is no SELECT", hint=hint)
    for is_there, what, hint in (
        (statement.grouping is not None, "an aggregate", "list the attributes, and GROUP BY them"),
        (statement.count_column is not None, "count(*)", "return the attributes, and count rows"),
        (statement.order and statement.language != "motif", "ORDER BY", "leave it out, and sort rows"),
        (statement.skip, "SKIP", "leave it out, and use OFFSET"),
        (statement.deduplicate or any(b.query.deduplicate for b in statement.blocks), "DISTINCT", "SELECT DISTINCT rows"),
    ):
        if is_there:
            raise QueryError(f"{what} is for SQL to do, over the table of matches", hint=hint)
    if any(block.subpatterns for block in statement.blocks):
        hint = "find it with a Graph, and make a view of the frame: createOrReplaceTempView"
        raise QueryError(f"{statement.beyond_query} is joined by Spark, and a data source cannot do that", hint=hint)


def _parts(graph: Graph, statement: Statement, block: QueryBlock, options: ListOptions, tasks: int) -> Iterator[TablePart]:
    """Give the searches for the matches of a block."""
    names: dict[Term, str] = {}
    structs: dict[str, dict[str, str]] = {}
    for name, terms in _fields(graph, statement, block).items():
        structs[name] = {field: names.setdefault(term, f"c{len(names)}") for field, term in terms.items()}
    query = replace(block.query, head=tuple(names), names=tuple(names.values())) if names else block.query
    limits = [n for n in (options["limit"], statement.limit) if n is not None]
    asked = graph._ask_listed(query, {**options, "limit": min(limits, default=None)})
    if asked.is_distinct:
        raise QueryError("a negated edge without a name makes rows distinct", hint="name it, or SELECT DISTINCT rows of a rule")
    for part in asked.parts:
        job = list_job(part, tasks)
        if job.limit is not None:  # one task finds the first matches as fast as many do
            job = replace(job, ranges=(tuple(chain.from_iterable(job.ranges)),))
        yield TablePart(job, structs, dict(block.constants))
