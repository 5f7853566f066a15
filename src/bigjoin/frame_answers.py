"""Rows of statements as Spark DataFrames, under any strategy that has a session."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame, SparkSession

from bigjoin.defaults import ListOptions, RunOptions, check_numbers, run_of
from bigjoin.errors import QueryError
from bigjoin.group_frames import all_groups, count_literal, group
from bigjoin.local.strategy import Progress
from bigjoin.query.query import Query
from bigjoin.query.statement import Statement
from bigjoin.queryable import AskedQuery, Queryable
from bigjoin.rows import Rows, cut
from bigjoin.sample_frames import frame_of, queries_of, sample_of_rows
from bigjoin.samples import sample_size, state_of
from bigjoin.spark.held import Held
from bigjoin.spark.own_session import copy_settings
from bigjoin.spark.row_meter import bounded_rows
from bigjoin.spark.strategy import Grouped


class FrameAnswers:
    """Answers statements about a source with DataFrames; the files that these read are added to `held`.

    A frame is the user's, unless it is made in a session of our own.
    """

    def __init__(
        self, source: Queryable, held: Held, session: SparkSession | None = None, progress: Progress | None = None
    ) -> None:
        self.source, self.held, self.session, self.progress = source, held, session, progress

    def rows(self, statement: Statement, options: ListOptions) -> DataFrame:
        """Return the rows of a statement."""
        index, most = self.source._index_for(statement.query), options["max_rows"]
        if (size := sample_size(statement, options)) is not None:
            return bounded_rows(self._sampled(statement, options, size), most, index.path, self.held)
        if statement.is_query:
            asked = self.source._ask_statement(statement, options, may_stay=False)
            frame = self._find(asked)
            return frame if asked.parts[0].max_rows is not None else bounded_rows(frame, most, index.path, self.held)
        check_numbers(limit=options["limit"])
        if options["factorized"]:
            raise QueryError("factorized matches are those of a rule", hint="write the query as a rule; explain shows it")
        run = run_of(options)
        spark = self.session or self.source.spark  # columns can only be named in a session
        copy_settings(self.source.spark, spark)
        if statement.count_column is not None and statement.counts_as_queries:
            number = self.source._number_of_rows(replace(statement, skip=0, limit=None), run)
            column = count_literal(number).alias(statement.count_column)
            return cut(spark.range(1).select(column), statement, options["limit"])
        rows = Rows(
            lambda query: self._find(self.source._ask(query, may_stay=False, **run)),
            index.statistics,
            count_by=lambda query: all_groups(self.groups(query, run), query.columns),
        )
        return bounded_rows(rows.of(statement, options["limit"]), most, index.path, self.held)

    def groups(self, query: Query, run: RunOptions) -> list[Grouped]:
        """Count the matches of each query that a query is the sum of by what its head lists."""
        asked = self.source._ask(query, may_stay=False, **run)
        strategy = self.source._spark_strategy(asked)
        return [group(strategy, part, query, self.held, self.progress) for part in asked.parts]

    def _sampled(self, statement: Statement, options: ListOptions, size: int) -> DataFrame:
        """Return a sample of the rows of a statement."""
        known, state = self.source._index_for(statement.query).statistics, state_of(options)
        spark = self.session or self.source.spark
        all_rows: ListOptions = {**options, "limit": None, "sample": None, "max_rows": None}
        whole = replace(statement, limit=None, order=())
        asked = [self.source._ask_listed(query, all_rows, may_stay=False) for query in queries_of(whole, known, spark)]
        if statement.deduplicate or any(one.is_distinct for one in asked):
            return sample_of_rows(self.rows(whole, all_rows), size, state)
        parts = [part for one in asked for part in one.parts]
        tables = iter(self.source._spark_strategy(asked[0], self.session).sample(parts, size, state))
        found = (([next(tables) for _ in one.parts], one) for one in asked)
        frames = (frame_of(some, one.query.columns, one.parts[0].index.path, spark, self.held) for some, one in found)
        return next(frames) if statement.is_query else Rows(lambda _: next(frames), known).of(whole)

    def _find(self, asked: AskedQuery) -> DataFrame:
        """Return the matches of a query."""
        strategy = self.source._spark_strategy(asked, self.session)
        parts = strategy.together(asked.parts, counting=False)
        frames = [strategy.find(part, self.held, self.progress) for part in parts]
        frame = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
        if len(frames) > 1:
            frame = frame.select(*asked.query.columns)
        if asked.is_distinct:
            frame = frame.distinct()
        return frame.limit(asked.limit) if asked.limit is not None and (asked.is_distinct or len(frames) > 1) else frame
