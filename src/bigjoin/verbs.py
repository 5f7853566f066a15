"""The verbs: count, exists, find, write and explain, over relations in an index. Graphs and other relations share them."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property, partial, reduce
from pathlib import Path
from typing import Unpack

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bigjoin.answers import Count, Explanation, added
from bigjoin.defaults import ListOptions, RunOptions, StrategyName, check_numbers, check_strategy
from bigjoin.errors import BigjoinError, QueryError
from bigjoin.explain import explain
from bigjoin.index.directory import Index
from bigjoin.joins.bind import bind
from bigjoin.languages import Flags, Text, read
from bigjoin.output import assemble, check_target, staging
from bigjoin.planner import meaning, plan
from bigjoin.planner.draft import Draft
from bigjoin.query.plan import Plan
from bigjoin.query.query import Query
from bigjoin.query.spelled_out import spelled_out
from bigjoin.query.statement import Statement
from bigjoin.query.statistics import Statistics
from bigjoin.rows import Rows, check_relations, cut, flat
from bigjoin.signatures import with_known_keywords
from bigjoin.spark.choose import choose
from bigjoin.spark.failures import with_plain_errors
from bigjoin.spark.frames import write_frame
from bigjoin.spark.held import Held
from bigjoin.spark.session import common_directory, get_session, parallelism
from bigjoin.spark.strategy import Ask, Outcome, PartFile, Strategy, strategy_named, task_stats, whole_index
from bigjoin.spark.stream import publish, stream


class Verbs(ABC):
    """Relations in an index, ready for queries."""

    _spark: SparkSession | None
    _has_frames: bool = False
    """Whether `find` has given out a frame, which may still read the files after a `with` block."""

    @abstractmethod
    def close(self) -> None:
        """Remove the files of results and of the scratch index."""

    def __exit__(self, *_: object) -> None:
        if not self._has_frames:
            self.close()

    @abstractmethod
    def _index_for(self, query: Query) -> Index:
        """Return an index with the relations that a query reads."""

    def _read(self, query: Text, flags: Flags) -> Statement:
        """Return what a query asks for, if these relations can answer it."""
        statement = read(query, **flags)
        if statement.has_structs:
            check_relations(statement, self._index_for(statement.query).statistics)
        return statement

    @property
    def spark(self) -> SparkSession:
        """The session that runs queries: the one given, the active one, or a local one that starts now."""
        if self._spark is None:
            self._spark = get_session()
        return self._spark

    @cached_property
    def _strategies(self) -> dict[str, Strategy]:
        """The strategies that have been used; they keep what they have planned in this session."""
        return {}

    @cached_property
    def _results(self) -> Held:
        """The files that frames of results read."""
        return Held()

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch files that results of `find` hold until `close`."""
        return self._results.bytes

    @with_known_keywords(flags=Flags)
    @with_plain_errors()
    def count(
        self,
        query: Text,
        *,
        strategy: StrategyName = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        progress: Callable[[float], None] | None = None,
        **flags: Unpack[Flags],
    ) -> Count:
        """Return the number of matches, an int that carries the `stats` of the run.

        With `deduplicate`, return the number of distinct rows, if the head leaves attributes out.
        """
        parallelism(self.spark)  # may start a session, or run a job to ask a cluster: that is not part of the query's time
        started = time.perf_counter()
        statement = self._read(query, flags)
        run = RunOptions(strategy=strategy, workers=workers, batch_size=batch_size)
        if not statement.counts_as_queries:
            return self._count_rows(statement, run)
        counts = []
        for block in statement.blocks:
            asked = self._ask(block.query, **run)
            if asked.is_distinct:
                return self._count_rows(statement, run)
            for part in asked.parts:  # what is asked is found out once, in the time of the first part
                counts.append(self._count(asked, part, progress, started))
                started = time.perf_counter()
        return added(counts).cut(statement)

    def _count(self, asked: _Asked, part: Ask, progress: Callable[[float], None] | None, started: float) -> Count:
        asked_seconds = time.perf_counter() - started
        ran = self._strategy(asked).count(part, progress)
        seconds, planned = time.perf_counter() - started, asked_seconds + ran.plan_seconds
        stats = {**ran.stats, "seconds": {"plan": planned, "run": seconds - planned}}
        return Count.of(replace(ran, stats=stats), part, asked.strategy, seconds)

    def _count_rows(self, statement: Statement, run: RunOptions) -> Count:
        """Count rows that only Spark can tell: those that are distinct, or that other patterns decide about."""
        started = time.perf_counter()
        asked = self._ask(statement.query, **run)
        first = asked.parts[0]
        if not statement.query.head and statement.counts_as_queries:
            number = int(self.exists(statement.query, **run))
        else:
            whole = replace(statement, count_column=None, order=(), skip=0, limit=None)
            with Held() as held:
                number = self._answer(whole, ListOptions(limit=None, factorized=False, **run), held).count()
        seconds, workers = time.perf_counter() - started, first.workers or parallelism(self.spark)
        tasks = task_stats([seconds] * workers, peak_memory=0, compiled=0)
        stats = {"rounds": 1, "bytes": 0, "load": {"max": 0, "mean": 0.0}, "steps": [], **tasks}
        stats["seconds"] = {"plan": 0.0, "run": seconds}
        ran = Outcome(number, workers, stats, partial(whole_index, first.index))
        return Count.of(ran, first, asked.strategy, seconds).cut(statement)

    @with_known_keywords(flags=Flags)
    @with_plain_errors()
    def exists(
        self,
        query: Text,
        *,
        strategy: StrategyName = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        **flags: Unpack[Flags],
    ) -> bool:
        """Tell whether there is a match; the join stops at the first."""
        statement = self._read(query, flags)
        run = RunOptions(strategy=strategy, workers=workers, batch_size=batch_size)
        if statement.limit == 0:
            return False
        if statement.skip:
            return self.count(statement, **run) > 0
        with Held() as held:
            if not statement.counts_as_queries:
                listing = ListOptions(limit=1, factorized=False, **run)
                return self._answer(replace(statement, count_column=None, order=()), listing, held).count() > 0
            asked = (self._ask(_witness(block.query), limit=1, **run) for block in statement.blocks)
            return any(self._strategy(one).find(part, held).count() > 0 for one in asked for part in one.parts)

    @with_known_keywords(flags=Flags)
    @with_plain_errors()
    def find(
        self,
        query: Text,
        *,
        limit: int | None = None,
        factorized: bool = False,
        strategy: StrategyName = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        **flags: Unpack[Flags],
    ) -> DataFrame:
        """Return the matches as a Spark DataFrame with a column for each attribute of the head.

        If it is factorized, a row stands for many matches: attributes that are independent once the others are bound are
        arrays, and the matches of a row are all combinations of their values. A limit then counts rows.

        The columns of a motif are structs, as in GraphFrames; those of Cypher are what it returns.

        The frame is lazy: each action runs the join again (persist the frame to keep the rows) and reads this index, so use it
        before `close`; after a `with` block it still works, and files stay until Python exits. With a limit, the join stops as
        soon as it has that many matches. Strategies that work in rounds are different, as they find the matches now: a small
        result is part of the frame, and a large one lies in scratch files until `close`, or until Python exits. `scratch_bytes`
        says how much that is.
        """
        options = ListOptions(strategy=strategy, workers=workers, batch_size=batch_size, limit=limit, factorized=factorized)
        frame = self._answer(self._read(query, flags), options, self._results)
        self._has_frames = True
        return frame

    def _answer(
        self,
        statement: Statement,
        options: ListOptions,
        held: Held,
        strategy: Callable[[_Asked], Strategy] | None = None,
    ) -> DataFrame:
        """Return the rows of a statement; the files that their frame reads are added to `held`."""
        chosen = strategy or self._strategy
        if statement.is_query:
            asked = self._ask_statement(statement, options)
            return self._find(asked, chosen(asked), held)
        check_numbers(limit=options["limit"])
        if options["factorized"]:
            raise QueryError("factorized matches are those of a rule", hint="write the query as a rule; explain shows it")

        run = RunOptions(strategy=options["strategy"], workers=options["workers"], batch_size=options["batch_size"])

        def find(query: Query) -> DataFrame:
            asked = self._ask(query, **run)
            return self._find(asked, chosen(asked), held)

        spark = self.spark  # columns can only be named in a session
        if statement.count_column is not None and statement.counts_as_queries:
            number = int(self.count(replace(statement, skip=0, limit=None), **run))
            column = F.lit(Decimal(number) if number >= 1 << 63 else number).alias(statement.count_column)
            return cut(spark.range(1).select(column), statement, options["limit"])
        return Rows(find, self._index_for(statement.query).statistics).of(statement, options["limit"])

    def _ask_statement(self, statement: Statement, options: ListOptions) -> _Asked:
        """Do the same as `_ask_listed` for a statement that is a query, perhaps with a limit of its own."""
        limits = [n for n in (options["limit"], statement.limit) if n is not None]
        check_numbers(limit=options["limit"])
        return self._ask_listed(statement.query, {**options, "limit": min(limits, default=None)})

    def _find(self, asked: _Asked, strategy: Strategy, held: Held) -> DataFrame:
        """Return the matches; the files that their frame reads are added to `held`."""
        frames = [strategy.find(part, held) for part in asked.parts]
        frame = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
        if len(frames) > 1:
            frame = frame.select(*asked.query.columns)
        if asked.is_distinct:
            frame = frame.distinct()
        return frame.limit(asked.limit) if asked.limit is not None and (asked.is_distinct or len(frames) > 1) else frame

    @with_known_keywords(flags=Flags)
    @with_plain_errors()
    def write(
        self,
        query: Text,
        path: str | Path,
        *,
        limit: int | None = None,
        factorized: bool = False,
        strategy: StrategyName = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        progress: Callable[[float], None] | None = None,
        **flags: Unpack[Flags],
    ) -> int:
        """Write the matches to one Parquet, CSV or JSON lines file, by its suffix, and return how many rows it has.

        The tasks write the rows themselves. The file appears when it is complete, and replaces an existing one.
        """
        target = Path(path)
        check_target(target, lists=factorized)
        options = ListOptions(strategy=strategy, workers=workers, batch_size=batch_size, limit=limit, factorized=factorized)
        statement = self._read(query, flags)
        with staging(target) as folder:
            parts, columns = self._write(statement, options, self._strategy, folder, target.suffix.lower(), progress)
            assemble([file for file, _ in parts], columns, target, folder)
        return sum(rows for _, rows in parts)

    @with_known_keywords(flags=Flags)
    def pieces(
        self,
        query: Text,
        suffix: str,
        *,
        limit: int | None = None,
        factorized: bool = False,
        strategy: StrategyName = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        progress: Callable[[float], None] | None = None,
        look: Callable[[], None] = lambda: None,
        **flags: Unpack[Flags],
    ) -> Generator[Path, None, None]:
        """Give files of matches as they are found: CSV without a header, or Arrow. Each file lasts until the next is taken.

        Close the iterator to stop the work, or raise an error in `look`, which is called now and then. Rows that have to be
        combined first, for `deduplicate` or optional atoms, all come at the end.
        """
        options = ListOptions(strategy=strategy, workers=workers, batch_size=batch_size, limit=limit, factorized=factorized)
        statement = self._read(query, flags)
        if statement.is_query:
            self._ask_statement(statement, options)  # refuse it before anything runs
        folder = common_directory(self.spark, self._index_for(statement.query).path, "found")

        def work(spark: SparkSession) -> None:
            def strategy(asked: _Asked) -> Strategy:
                return strategy_named(asked.strategy)(spark)

            self._write(statement, options, strategy, folder, suffix, progress, in_pieces=True)

        return stream(self.spark, folder, work, look)

    def _write(
        self,
        statement: Statement,
        options: ListOptions,
        strategy: Callable[[_Asked], Strategy],
        folder: Path,
        suffix: str,
        progress: Callable[[float], None] | None,
        *,
        in_pieces: bool = False,
    ) -> tuple[list[PartFile], pa.Schema]:
        """Write the rows to files in a folder, and return the files with their rows, and the columns; publish pieces."""
        if statement.is_query:
            asked = self._ask_statement(statement, options)
            if len(asked.parts) == 1 and not asked.is_distinct:
                return strategy(asked).write(asked.parts[0], folder, suffix, progress, in_pieces=in_pieces)
        with Held() as held:
            frame = self._answer(statement, options, held, strategy)
            frame = frame.coalesce(1) if statement.order else frame  # the parts of an order stay in it
            frame = flat(frame) if suffix == ".csv" else frame
            parts, columns = write_frame(frame, folder, suffix)
        if in_pieces:
            publish([file for file, _ in parts], folder)
        return parts, columns

    @with_known_keywords(flags=Flags)
    @with_plain_errors()
    def explain(
        self,
        query: Text,
        *,
        analyze: bool = False,
        delta: bool = False,
        strategy: StrategyName = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        **flags: Unpack[Flags],
    ) -> Explanation:
        """Return the plan as numbered rules with estimates and, with `analyze`, with what a run did (also as `stats`).

        With `delta`, include the delta queries that keep matches up to date while updates change the relations.
        """
        statement = self._read(query, flags)
        run = RunOptions(strategy=strategy, workers=workers, batch_size=batch_size)
        asked = self._ask(statement.query, **run)
        stats = self.count(statement, **run).stats if analyze else None
        known, chosen = asked.parts[0].index.statistics, f"{asked.strategy} ({asked.why})"
        text = Explanation(explain(statement, known, delta=delta, strategy=chosen, stats=stats))
        text.stats = stats
        return text

    @with_known_keywords(flags=Flags)
    def plan(self, query: Text, **flags: Unpack[Flags]) -> Plan:
        """Return the plan for a query; raise QueryError if the query does not fit the relations."""
        plans = []
        for block in self._read(query, flags).everything:
            index = self._index_for(block.query)
            for part in meaning(block.query, index.statistics):
                plans.append(plan(part))
                bind(plans[-1], index)
        return plans[0]

    @with_known_keywords(flags=Flags)
    def flat_columns(self, query: Text, **flags: Unpack[Flags]) -> list[str]:
        """Return the columns of a query's rows as a CSV file has them: a struct is a column for each of its fields."""
        statement = self._read(query, flags)
        return Rows(lambda _: self.spark.range(0), self._index_for(statement.query).statistics).flat_columns(statement)

    @with_known_keywords(flags=Flags)
    def statistics_for(self, query: Text, **flags: Unpack[Flags]) -> Statistics:
        """Return what is known about the relations that a query reads."""
        return self._index_for(self._read(query, flags).query).statistics

    def _ask_listed(self, query: Query, options: ListOptions) -> _Asked:
        """Do the same as `_ask` for a query whose matches are listed; refuse heads that make this impossible."""
        _check_head(query, factorized=options["factorized"])
        return self._ask(query, **options)

    def _ask(
        self,
        query: Query,
        *,
        strategy: StrategyName,
        workers: int | None,
        batch_size: int | None,
        limit: int | None = None,
        factorized: bool = False,
    ) -> _Asked:
        """Return what a query means in an index, and the strategy that will answer it."""
        check_strategy(strategy, factorized=factorized)
        check_numbers(workers=workers, batch_size=batch_size, limit=limit)
        index = self._index_for(query)
        if not index.path.exists():
            raise BigjoinError("this graph is closed, and its index is gone; make it again")
        parts = meaning(query, index.statistics)
        chosen, why = self._choose(parts[0], index, strategy, workers=workers, factorized=factorized)
        projects = query.projects or len(spelled_out(query, index.statistics)) > 1 or any(p.query.projects for p in parts)
        is_distinct = query.deduplicate and projects
        if factorized and (len(parts) > 1 or parts[0].query.projects):
            raise QueryError("factorized matches need one query with every attribute in its head", hint="name all edges, too")
        wanted = None if is_distinct else limit
        asks = tuple(Ask(part, index, workers, batch_size, wanted, factorized) for part in parts)
        return _Asked(query, asks, chosen, why, limit, is_distinct)

    def _choose(
        self, part: Draft, index: Index, strategy: StrategyName, *, workers: int | None, factorized: bool = False
    ) -> tuple[StrategyName, str]:
        """Return the strategy for a query, and the reason."""
        if strategy != "auto":
            return strategy, "as asked for"
        if factorized:
            return "shared", "which alone finds factorized matches"
        session = self._spark or SparkSession.getActiveSession()  # none is started only to choose
        return choose(session, index, partial(plan, part), workers)

    def _strategy(self, asked: _Asked) -> Strategy:
        """Return the strategy that answers a query, in this session."""
        if asked.strategy not in self._strategies:
            self._strategies[asked.strategy] = strategy_named(asked.strategy)(self.spark)
        return self._strategies[asked.strategy]


@dataclass(frozen=True)
class _Asked:
    """A query, the queries that it is the sum of in an index, and the strategy that answers them."""

    query: Query
    parts: tuple[Ask, ...]
    strategy: StrategyName
    why: str
    limit: int | None
    is_distinct: bool
    """Whether equal rows count once."""


def _witness(query: Query) -> Query:
    """Return a simpler query that has a match if and only if this one has: without optional atoms, and with a short head."""
    atoms = tuple(atom for atom in query.atoms if not atom.optional)
    known = {attribute for atom in atoms for attribute in atom.attributes}
    filters = tuple(f for f in query.filters if known.issuperset(f.attributes))
    return replace(query, atoms=atoms, filters=filters, head=query.attributes[:1], deduplicate=False)


def _check_head(query: Query, *, factorized: bool) -> None:
    """Refuse heads with which matches cannot be listed."""
    if not query.head:
        raise QueryError(f"the head of {query.name!r} is empty, so matches have no columns", hint="list attributes, or count")
    if factorized and (query.projects or query.optional):
        hint = f"list every attribute: {query.name}({', '.join(query.attributes)})"
        raise QueryError("factorized matches need a head with every attribute, and no optional atoms", hint=hint)
