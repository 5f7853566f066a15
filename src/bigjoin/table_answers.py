"""Rows of statements as Arrow tables, under the strategy that has no session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from random import Random

import pyarrow as pa

from bigjoin.defaults import LOCAL, ListOptions, RunOptions, check_numbers, run_of
from bigjoin.elements import struct_fields
from bigjoin.errors import NeedsSparkError, QueryError
from bigjoin.group_counts import group_keys, is_distinct, listing_keys
from bigjoin.languages.keys import GROUP_COUNT
from bigjoin.local.group_job import MAX_GROUP_COUNT
from bigjoin.local.pick_job import choose
from bigjoin.local.row_bound import too_many_rows
from bigjoin.local.strategy import Ask, Progress
from bigjoin.local.threads import Local
from bigjoin.query.expressions import attributes_of
from bigjoin.query.query import Query
from bigjoin.query.statement import QueryBlock, RowStage, SortKey, Statement
from bigjoin.query.statistics import Statistics
from bigjoin.query.terms import Term
from bigjoin.queryable import AskedQuery, Queryable
from bigjoin.samples import sample_size, state_of
from bigjoin.table_rows import computed, counted, distinct, in_order, staged, summed, together

_WIDE = pa.decimal128(38)
_HERE_AGGREGATES = frozenset({"count", "count distinct", "sum", "min", "max", "avg"})
"""Aggregates that mean the same in Arrow as in Spark, at least of some types."""


def needs_spark(statement: Statement) -> str | None:
    """Return what a statement asks for that only Spark can do, or None."""
    kinds = {sub.kind for block in statement.blocks for sub in block.subpatterns}
    if kinds:
        return "this OPTIONAL MATCH" if "optional" in kinds else "a condition of several relationships"
    groupings = (*(stage.grouping for stage in statement.before), statement.grouping)
    aggregates = [aggregate for grouping in groupings if grouping is not None for _, aggregate in grouping.aggregates]
    return next((f"'{one}'" for one in aggregates if one.function not in _HERE_AGGREGATES), None)


class TableAnswers:
    """Answers statements about a source with Arrow tables, in threads of this process."""

    def __init__(self, source: Queryable) -> None:
        self.source, self.local = source, Local()

    def rows(self, statement: Statement, options: ListOptions) -> pa.Table:
        """Return the rows of a statement."""
        if (what := needs_spark(statement)) is not None:
            raise NeedsSparkError(what)
        options = {**options, "strategy": LOCAL}
        size = sample_size(statement, options)
        found = self._rows(statement, options) if size is None else self._sampled(statement, options, size)
        if options["max_rows"] is not None and found.num_rows > options["max_rows"]:
            raise too_many_rows(options["max_rows"])
        return found

    def _rows(self, statement: Statement, options: ListOptions) -> pa.Table:
        check_numbers(limit=options["limit"])
        if statement.is_query:
            return self._find(self.source._ask_statement(statement, options))
        if options["factorized"]:
            raise QueryError("factorized matches are those of a rule", hint="write the query as a rule; explain shows it")
        run = run_of(options)
        if statement.count_column is not None and statement.counts_as_queries:
            number = self.source._number_of_rows(replace(statement, skip=0, limit=None), run)
            return _cut(_number(number, statement.count_column), statement, options["limit"])
        grouped = self._grouped_matches(statement, run)
        return self._staged(statement, self._blocks(statement, run) if grouped is None else grouped, options["limit"])

    def _blocks(self, statement: Statement, run: RunOptions) -> list[pa.Table]:
        return [self._shaped(block, self._find(self.source._ask(self._query(block), **run))) for block in statement.blocks]

    def _staged(self, statement: Statement, rows: pa.Table | Sequence[pa.Table], limit: int | None) -> pa.Table:
        """Return what the clauses of a statement make of the rows of its blocks, or of the groups of its first stage."""
        dialect, zone = statement.query.dialect, self.source.zone
        first, *others = (*statement.before, RowStage(grouping=statement.grouping))
        if isinstance(rows, pa.Table):
            table, first = rows, replace(first, grouping=None)
        else:
            table = together(rows)
        for stage in (first, *others):
            table = staged(table, stage, dialect, zone)
        if statement.count_column is not None:
            return _cut(_number(table.num_rows, statement.count_column), statement, limit)
        if statement.deduplicate:
            table = distinct(table)
        table = _cut(in_order(table, statement.order), statement, limit)
        return table.select(list(statement.columns or statement.query.columns))

    def groups(
        self, statement: Statement, by: str | Sequence[str], run: RunOptions, progress: Progress | None = None
    ) -> pa.Table:
        """Return how many rows of a statement there are for each combination of values of some keys, the largest first."""
        if (what := needs_spark(statement)) is not None:
            raise NeedsSparkError(what)
        run = {**run, "strategy": LOCAL}
        keys = [name for name, _ in group_keys(by, statement)]
        listed = listing_keys(statement, group_keys(by, statement))
        if is_distinct(statement) or not statement.counts_as_queries:
            rows = self._staged(listed, self._blocks(listed, run), None)
            found = counted(rows.select(keys), GROUP_COUNT)
        else:
            found = self._added_up([one for block in listed.blocks for one in self._groups(block.query, run, progress)], keys)
        return in_order(found, [SortKey(GROUP_COUNT, descending=True), *(SortKey(key) for key in keys)])

    def _groups(self, query: Query, run: RunOptions, progress: Progress | None = None) -> list[tuple[pa.Table, int]]:
        """Count the matches of each query that a query is the sum of by what its head lists, with the sum of the counts."""
        return [self._group(part, query, progress) for part in self.source._ask(query, **run).parts]

    def _group(self, part: Ask, query: Query, progress: Progress | None) -> tuple[pa.Table, int]:
        if {*part.query.columns}.isdisjoint(query.columns):  # it binds none of the keys, so these are all NULL
            matches = self.local.count(part, progress).matches
            return _number(matches, GROUP_COUNT).slice(0, 1 if matches else 0), matches
        keys = dict.fromkeys(attribute for term in part.query.head for attribute in attributes_of(term))
        meant = replace(part, meaning=replace(part.meaning, keys=tuple(keys)))
        found = self.local.count_by(meant, progress) if keys else None
        if found is not None:
            return found
        rows = self.local.table(part)  # loops are too large to compile
        return counted(rows, GROUP_COUNT), rows.num_rows

    def _added_up(self, found: Sequence[tuple[pa.Table, int]], columns: Sequence[str]) -> pa.Table:
        """Return the groups of queries whose matches are added up, with one row for each combination of values."""
        missing = [name for name in columns if not any(name in table.column_names for table, _ in found)]
        if missing:
            hint = "name what an atom of the query binds in this source"
            raise QueryError(f"{missing[0]!r} has no values here: nothing that the source keeps binds it", hint=hint)
        tables = [table for table, _ in found]
        if len(tables) == 1 and not any(pa.types.is_floating(field.type) for field in tables[0].schema):
            return tables[0].select([*columns, GROUP_COUNT])
        matches = sum(number for _, number in found)
        if matches > MAX_GROUP_COUNT:
            raise QueryError(f"{matches:.1e} matches are more than can be added up by groups", hint="group by attributes alone")
        wide = _WIDE if matches >= 1 << 63 else pa.int64()
        counts = [table.append_column("_", table[GROUP_COUNT].cast(wide)).drop_columns(GROUP_COUNT) for table in tables]
        return summed(together(counts).rename_columns({"_": GROUP_COUNT}).select([*columns, GROUP_COUNT]))

    def _grouped_matches(self, statement: Statement, run: RunOptions) -> pa.Table | None:
        """Return the groups that a first stage makes if it asks only for the number of matches in each; None if not."""
        stage = (*statement.before, RowStage(grouping=statement.grouping))[0]
        grouping, query = stage.grouping, statement.query
        if grouping is None or not (grouping.counts_matches and grouping.keys) or stage.columns:
            return None
        if len(statement.blocks) > 1 or query.deduplicate:
            return None
        ((name, _),) = grouping.aggregates
        counts = self._added_up(self._groups(query, run), query.columns).rename_columns([*query.columns, name])
        return computed(counts, grouping.columns, grouping.having, query.dialect, self.source.zone)

    def _sampled(self, statement: Statement, options: ListOptions, size: int) -> pa.Table:
        """Return a sample of the rows of a statement."""
        all_rows: ListOptions = {**options, "limit": None, "sample": None, "max_rows": None}
        whole, state = replace(statement, limit=None, order=()), state_of(options)
        queries = [whole.query] if whole.is_query else [self._query(block) for block in whole.blocks]
        asked = [self.source._ask_listed(query, all_rows) for query in queries]
        if statement.deduplicate or any(one.is_distinct for one in asked):
            rows = self._rows(whole, all_rows)
            return rows.take(pa.array(choose(rows.num_rows, size, Random(state)), pa.int64()))
        tables = iter(self.local.sample([part for one in asked for part in one.parts], size, state))
        found = [together([next(tables) for _ in one.parts]).select(list(one.query.columns)) for one in asked]
        if whole.is_query:
            return found[0]
        shaped = [self._shaped(block, table) for block, table in zip(whole.blocks, found, strict=True)]
        return self._staged(whole, shaped, None)

    def _find(self, asked: AskedQuery) -> pa.Table:
        """Return the matches of a query."""
        tables = [self.local.table(part) for part in self.local.together(asked.parts, counting=False)]
        table = together(tables)
        if len(tables) > 1:
            table = table.select(list(asked.query.columns))
        if asked.is_distinct:
            table = distinct(table)
        return table.slice(0, asked.limit)

    def _query(self, block: QueryBlock) -> Query:
        """Return the query of a block, with the columns that its rows are made of."""
        if block.elements:
            terms = _struct_terms(block, self.source._index_for(block.query).statistics)
            return replace(block.query, head=tuple(terms), names=tuple(terms.values()))
        empty = not block.query.head  # rows of which only the number is wanted
        return replace(block.query, head=block.query.attributes[:1]) if empty else block.query

    def _shaped(self, block: QueryBlock, rows: pa.Table) -> pa.Table:
        """Return the rows of a block as users see them: a struct for each named element of a motif, and constants."""
        if not block.elements:
            return rows
        known = self.source._index_for(block.query).statistics
        terms, rows = _struct_terms(block, known), rows.combine_chunks()
        columns = {}
        for element in (element for element in block.elements if not element.hidden):
            fields = [(name, rows[terms[term]].combine_chunks()) for name, term in struct_fields(element, known)]
            columns[element.name] = pa.StructArray.from_arrays([column for _, column in fields], [name for name, _ in fields])
        types = {name: pa.string() if isinstance(value, str) else pa.int32() for name, value in block.constants}
        constants = {name: pa.repeat(pa.scalar(value, types[name]), len(rows)) for name, value in block.constants}
        return pa.table({**columns, **constants})


def _struct_terms(block: QueryBlock, statistics: Statistics) -> dict[Term, str]:
    """Return what the structs of a motif are made of, each with the name of its column."""
    names: dict[Term, str] = {}
    for element in (element for element in block.elements if not element.hidden):
        for _, term in struct_fields(element, statistics):
            names.setdefault(term, f"c{len(names)}")
    return names


def _number(number: int, name: str) -> pa.Table:
    """Return a count as a table of one row: 64 bits, or a decimal if it is larger."""
    kind = pa.int64() if number < 1 << 63 else pa.decimal128(len(str(number)))
    return pa.table({name: pa.array([number if number < 1 << 63 else Decimal(number)], kind)})


def _cut(table: pa.Table, statement: Statement, limit: int | None) -> pa.Table:
    """Return the rows that SKIP and LIMIT of a statement, and a limit, leave."""
    return table.slice(statement.skip, min((n for n in (limit, statement.limit) if n is not None), default=None))
