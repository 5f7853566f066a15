"""The verbs that tell how many: count, also by groups, estimate and exists."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Unpack, overload

import pyarrow as pa

from bigjoin.answers import Count, added
from bigjoin.defaults import LOCAL, ListOptions, RunOptions, StrategyName, listing
from bigjoin.errors import BigjoinError, NeedsSparkError
from bigjoin.estimates import PRECISION, SECONDS, Estimate, estimate
from bigjoin.index.stage_runner import cores
from bigjoin.languages import Text
from bigjoin.limited import Keywords, within_limits
from bigjoin.local.strategy import Ask, Outcome, task_stats, whole_index
from bigjoin.local.threads import Local
from bigjoin.notebook import with_progress
from bigjoin.query.query import Query
from bigjoin.query.statement import Statement
from bigjoin.queryable import AskedQuery, Queryable
from bigjoin.signatures import with_known_keywords
from bigjoin.spark.failures import with_plain_errors
from bigjoin.spark.held import Held
from bigjoin.spark.own_session import own_session
from bigjoin.spark.session import parallelism
from bigjoin.table_answers import TableAnswers, needs_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class CountingVerbs(Queryable):
    """What can be asked how many matches there are."""

    @overload
    def count(
        self,
        query: Text,
        *,
        by: None = None,
        strategy: StrategyName = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        progress: Callable[[float], None] | None = None,
        **flags: Unpack[Keywords],
    ) -> Count: ...

    @overload
    def count(
        self,
        query: Text,
        *,
        by: str | Sequence[str],
        strategy: StrategyName = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        progress: Callable[[float], None] | None = None,
        **flags: Unpack[Keywords],
    ) -> DataFrame: ...

    @with_known_keywords(flags=Keywords)
    @with_plain_errors()
    @within_limits
    @with_progress("counting", progress="share")
    def count(
        self,
        query: Text,
        *,
        by: str | Sequence[str] | None = None,
        strategy: StrategyName = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        progress: Callable[[float], None] | None = None,
        **flags: Unpack[Keywords],
    ) -> Count | DataFrame:
        """Return the number of matches: an int, which also has the `stats` of the run.

        With `by`, return the number of matches for each value of an attribute, or for each combination of values of several, as
        a DataFrame. It has a column for each key, and `count`. A group without matches has no row, and NULL is a group of its
        own. Under `unique`, a subgraph counts at each vertex that can take the place of the key, so triangles by `a1` are the
        triangles at each vertex. Groups are counted now; a large result stays in scratch files until `close`, or until Python
        exits.

        Examples:
            >>> graph = bj.Graph([(1, 2), (2, 3), (3, 1), (3, 4)], directed=False)
            >>> graph.count("triangle")
            6
            >>> graph.count("triangle", unique=True)
            1
            >>> sorted(tuple(row) for row in graph.count("triangle", unique=True, by="a1").collect())
            [(1, 1), (2, 1), (3, 1)]

        Args:
            query: A name, a rule, a motif, Cypher or SQL.
            by: Attributes, properties or expressions to count by: `"a1"`, `("a1", "a2")`, `"a.city, year(e.time) as year"`.
            strategy: Where the query runs; `"auto"` chooses. See `Graph`.
            workers: The number of tasks or threads, or of owners of keys.
            batch_size: How many matches or proposals to hold at once.
            progress: A function to call now and then with the share of the work that is done.
            **flags: The keywords that all questions share. See `Graph`.
        """
        started = time.perf_counter()
        statement = self._read(query, flags)
        run = RunOptions(strategy=strategy, workers=workers, batch_size=batch_size)
        if by is not None:
            if strategy == LOCAL:
                raise BigjoinError("count(by=...) returns a Spark DataFrame: under the strategy local, use graph.arrow")
            from bigjoin.frame_answers import FrameAnswers
            from bigjoin.group_frames import count_groups

            answers = FrameAnswers(self, self._results, progress=progress)
            self._has_frames = True
            rows = partial(answers.rows, options=listing(run))
            return count_groups(statement, by, lambda query: answers.groups(query, run), rows)
        if not statement.counts_as_queries:
            return self._count_rows(statement, run, progress)
        counts = []
        for block in statement.blocks:
            asked = self._ask(block.query, counting=True, **run)
            if asked.is_distinct:
                return self._count_rows(statement, run, progress)
            started += self._ready(asked)
            parts = self._strategy(asked).together(asked.parts, counting=True)
            for part in parts:  # what is asked is found out once, in the time of the first part
                counts.append(self._count(asked, part, progress, started))
                started = time.perf_counter()
        return added(counts).cut(statement)

    @with_known_keywords(flags=Keywords)
    @with_plain_errors()
    @within_limits
    @with_progress("counting", progress="share")
    def group_table(
        self,
        query: Text,
        by: str | Sequence[str],
        *,
        strategy: StrategyName = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        progress: Callable[[float], None] | None = None,
        may_stay: bool | None = None,
        **flags: Unpack[Keywords],
    ) -> pa.Table | None:
        """Return the groups of a count, the largest first, if this process can count them; return None if Spark has to."""
        statement = self._read(query, flags)
        run = RunOptions(strategy=strategy, workers=workers, batch_size=batch_size)
        if not self._is_local(statement, run, counting=True, may_stay=may_stay):
            return None
        try:
            return TableAnswers(self).groups(statement, by, run, progress)
        except NeedsSparkError:
            if strategy == LOCAL:
                raise
        return None

    def _ready(self, asked: AskedQuery) -> float:
        """Start a session, or ask a cluster how large it is, if need be; return the seconds, which are not the query's."""
        started = time.perf_counter()
        if asked.strategy != LOCAL:
            parallelism(self.spark)
        return time.perf_counter() - started

    def _count(self, asked: AskedQuery, part: Ask, progress: Callable[[float], None] | None, started: float) -> Count:
        asked_seconds = time.perf_counter() - started
        ran = self._strategy(asked).count(part, progress)
        seconds, planned = time.perf_counter() - started, asked_seconds + ran.plan_seconds
        stats = {**ran.stats, "seconds": {"plan": planned, "run": seconds - planned}}
        return Count.of(replace(ran, stats=stats), part, asked.strategy, seconds, asked.why)

    def _number_of_rows(self, statement: Statement, run: RunOptions) -> int:
        return int(self.count(statement, **run))

    def _is_local(
        self,
        statement: Statement,
        run: RunOptions,
        *,
        limit: int | None = None,
        counting: bool = False,
        may_stay: bool | None = None,
    ) -> bool:
        """Tell whether the rows of a statement are found in this process: as asked for, or because that takes little time."""
        if run["strategy"] == LOCAL:
            return True
        may_stay = self.stays_here if may_stay is None else may_stay
        if run["strategy"] != "auto" or not may_stay or needs_spark(statement) is not None:
            return False
        limit = limit if statement.is_query else None
        asked = (self._ask(block.query, limit=limit, counting=counting, may_stay=True, **run) for block in statement.blocks)
        return all(one.strategy == LOCAL for one in asked)

    def _found(
        self,
        statement: Statement,
        options: ListOptions,
        *,
        is_local: bool,
        progress: Callable[[float], None] | None = None,
    ) -> int:
        """Find the rows of a statement, and return how many there are."""
        if is_local:
            try:
                return int(TableAnswers(self).rows(statement, options).num_rows)
            except NeedsSparkError:
                if options["strategy"] == LOCAL:
                    raise
        from bigjoin.frame_answers import FrameAnswers

        with Held() as held, own_session(self.spark) as session:
            return FrameAnswers(self, held, session, progress).rows(statement, options).count()

    def _count_rows(self, statement: Statement, run: RunOptions, progress: Callable[[float], None] | None = None) -> Count:
        """Count rows that have to be found: those that are distinct, or that other patterns or groups decide about."""
        started = time.perf_counter()
        is_local = self._is_local(statement, run)
        asked = self._ask(statement.query, may_stay=is_local, **run)
        first = asked.parts[0]
        started += self._ready(asked)
        if not statement.query.head and statement.counts_as_queries:
            number = int(self.exists(statement.query, **run))
        else:
            whole = replace(statement, count_column=None, order=(), skip=0, limit=None)
            number = self._found(whole, listing(run), is_local=is_local, progress=progress)
        seconds, workers = time.perf_counter() - started, first.workers or (cores() if is_local else parallelism(self.spark))
        tasks = task_stats([seconds] * workers, peak_memory=0, compiled=0)
        stats = {"rounds": 1, "bytes": 0, "load": {"max": 0, "mean": 0.0}, "steps": [], **tasks}
        stats["seconds"] = {"plan": 0.0, "run": seconds}
        ran = Outcome(number, workers, stats, partial(whole_index, first.index))
        return Count.of(ran, first, asked.strategy, seconds, asked.why).cut(statement)

    @with_known_keywords(flags=Keywords)
    @with_plain_errors()
    @within_limits
    @with_progress("estimating", progress="share")
    def estimate(
        self,
        query: Text,
        *,
        seconds: float = SECONDS,
        precision: float = PRECISION,
        random_state: int | None = None,
        progress: Callable[[float], None] | None = None,
        **flags: Unpack[Keywords],
    ) -> Estimate:
        """Estimate the number of matches, from samples of the join.

        The result has the estimated `count`, and an interval from `low` to `high` that holds the true count in 95 of 100 cases.
        It is computed in this process, without Spark, usually in tenths of a second. If the join is small, it is run
        completely, and the count is exact.

        Args:
            query: A name, a rule, a motif, Cypher or SQL.
            seconds: Roughly how long the estimate may take.
            precision: The half-width of the interval to aim for, as a share of the count.
            random_state: The same number draws the same samples again.
            progress: A function to call now and then with the share of the work that is done.
            **flags: The keywords that all questions share. See `Graph`.
        """
        statement = self._read(query, flags)
        return estimate(
            statement,
            self._index_for,
            seconds=seconds,
            precision=precision,
            random_state=random_state,
            progress=progress,
        )

    @with_known_keywords(flags=Keywords)
    @with_plain_errors()
    @within_limits
    @with_progress("looking for a match")
    def exists(
        self,
        query: Text,
        *,
        strategy: StrategyName = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        **flags: Unpack[Keywords],
    ) -> bool:
        """Tell whether there is a match. The join stops at the first one.

        Args:
            query: A name, a rule, a motif, Cypher or SQL.
            strategy: Where the query runs; `"auto"` chooses. See `Graph`.
            workers: The number of tasks or threads, or of owners of keys.
            batch_size: How many matches or proposals to hold at once.
            **flags: The keywords that all questions share. See `Graph`.
        """
        statement = self._read(query, flags)
        run = RunOptions(strategy=strategy, workers=workers, batch_size=batch_size)
        if statement.limit == 0:
            return False
        if statement.skip:
            return self.count(statement, **run) > 0
        if not statement.counts_as_queries:
            first = replace(statement, count_column=None, order=())
            return self._found(first, listing(run, limit=1), is_local=self._is_local(statement, run)) > 0
        asked = (self._ask(_witness(block.query), limit=1, **run) for block in statement.blocks)
        return any(self._has_match(one, part) for one in asked for part in one.parts)

    def _has_match(self, asked: AskedQuery, part: Ask) -> bool:
        if asked.strategy == LOCAL:
            return bool(Local().table(part).num_rows)
        with Held() as held, own_session(self.spark) as session:
            return self._spark_strategy(asked, session).find(part, held).count() > 0


def _witness(query: Query) -> Query:
    """Return a simpler query that has a match if and only if this one has: without optional atoms, and with a short head."""
    atoms = tuple(atom for atom in query.atoms if not atom.optional)
    known = {attribute for atom in atoms for attribute in atom.attributes}
    filters = tuple(f for f in query.filters if known.issuperset(f.attributes))
    return replace(query, atoms=atoms, filters=filters, head=query.attributes[:1], names=(), deduplicate=False)
