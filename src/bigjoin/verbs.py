"""What can be asked of relations in an index: count, exists, find, write, explain. A graph is asked the same as any others."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial, reduce
from pathlib import Path
from typing import Any, Unpack

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bigjoin.defaults import BATCH_SIZE, StrategyName, check_numbers, check_strategy
from bigjoin.errors import BigjoinError, QueryError
from bigjoin.explain import explain
from bigjoin.index.directory import Index
from bigjoin.joins.bind import bind
from bigjoin.languages import Flags, parse, refine
from bigjoin.output import assemble, check_target, staging
from bigjoin.planner import count_plan, factorized_plan, plan
from bigjoin.planner.agm import agm_bound
from bigjoin.planner.resolve_relations import resolve_relations
from bigjoin.query.nest import nest_of
from bigjoin.query.optional import branches
from bigjoin.query.plan import Plan
from bigjoin.query.query import Query
from bigjoin.query.statistics import Statistics
from bigjoin.spark import results, shared
from bigjoin.spark.choose import choose
from bigjoin.spark.failures import told
from bigjoin.spark.frames import schema_of_frame, write_frame
from bigjoin.spark.held import Held
from bigjoin.spark.job import Job, worker_count
from bigjoin.spark.session import common_directory, get_session, parallelism
from bigjoin.spark.strategies import IN_ROUNDS
from bigjoin.spark.stream import publish, stream

KEPT_JOBS = 256
"""Counts of which the plan is remembered."""


class Count(int):
    """The number of matches: an int, with the figures of the run that found it."""

    seconds: float
    strategy: str
    workers: int
    _stats: dict[str, Any]
    _asked: tuple[Query, Statistics]
    _index_tuples: Callable[[], dict[str, float]]

    @cached_property
    def stats(self) -> dict[str, Any]:
        """The rounds, steps, memory and seconds of the run, what a worker holds, and the AGM bound beside them."""
        return {**self._stats, "index_tuples": self._index_tuples(), "agm": agm_bound(*self._asked)}


class Explanation(str):
    """A plan and what to expect of it, as text; with the figures of the run, if there was one."""

    __slots__ = ("stats",)
    stats: dict[str, Any] | None


class Verbs(ABC):
    """Relations in an index, ready for queries."""

    _spark: SparkSession | None

    @abstractmethod
    def _index_for(self, query: Query) -> Index:
        """Return an index that holds what a query reads."""

    @cached_property
    def _count_jobs(self) -> dict[tuple[str, str, int], tuple[shared.CountJob, DataFrame]]:
        """Plans of counts, cut for tasks: a query that is asked again, of an index that never changes, has the same one."""
        return {}

    @property
    def spark(self) -> SparkSession:
        """The session that runs queries: the one given, the active one, or a local one that starts now."""
        if self._spark is None:
            self._spark = get_session()
        return self._spark

    @property
    def _session(self) -> SparkSession | None:
        """The session that queries would run in, if there is one already."""
        return self._spark or SparkSession.getActiveSession()

    @told()
    def count(
        self,
        query: str | Query,
        *,
        strategy: StrategyName = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        progress: Callable[[float], None] | None = None,
        **flags: Unpack[Flags],
    ) -> Count:
        """Return the number of matches, an int that carries the `stats` of the run.

        With `deduplicate`, of rows that differ, if the head leaves attributes out.
        """
        spark = self.spark  # may start a session, which is not the query's time
        parallelism(spark)  # asks a cluster, now and then, by a job of its own
        asked = _query(query, flags)
        index = self._index_for(asked)
        if asked.deduplicate and asked.projects:
            return self._count_rows(asked, index, strategy, workers, batch_size)
        options = (index, strategy, workers, batch_size, progress)
        return _added([self._count(branch, *options) for branch in _branches(asked, index)])

    def _count(
        self,
        asked: Query,
        index: Index,
        strategy: str,
        workers: int | None,
        batch_size: int | None,
        progress: Callable[[float], None] | None,
    ) -> Count:
        started = time.perf_counter()
        chosen, _ = self._choose(asked, index, strategy, workers=workers, batch_size=batch_size)
        if chosen in IN_ROUNDS:
            dealt = self._dealt(chosen, asked, index, workers, batch_size)
            planned, dealt_to = time.perf_counter(), dealt.workers
            ran = IN_ROUNDS[chosen].run(self.spark, dealt, progress=progress)
            number, stats, index_tuples = ran.matches, ran.stats, ran.index_tuples
        else:
            job, frame = self._count_job(asked, index, workers or parallelism(self.spark))
            planned, dealt_to = time.perf_counter(), len(job.ranges)
            number, stats = shared.count(self.spark, job, frame=frame, progress=progress)
            index_tuples = partial(_whole, index)
        finished = time.perf_counter()
        count = Count(number)
        count.seconds, count.strategy, count.workers = finished - started, chosen, dealt_to
        count._stats = {**stats, "seconds": {"plan": planned - started, "run": finished - planned}}
        count._index_tuples = index_tuples
        count._asked = asked, index.statistics
        return count

    def _count_rows(
        self, asked: Query, index: Index, strategy: StrategyName, workers: int | None, batch_size: int | None
    ) -> Count:
        """Count rows that differ, by Spark."""
        started = time.perf_counter()
        chosen, _ = self._choose(asked, index, strategy, workers=workers, batch_size=batch_size)
        if not asked.head:
            asked = replace(asked, head=asked.attributes[:1])
            number = int(self.exists(asked, strategy=strategy, workers=workers, batch_size=batch_size))
        else:
            with Held() as held:
                number = self._find(asked, index, chosen, held, workers=workers, batch_size=batch_size).count()
        count = Count(number)
        count.seconds, count.strategy = time.perf_counter() - started, chosen
        count.workers = workers or parallelism(self.spark)
        count._index_tuples = partial(_whole, index)
        count._stats = {
            "rounds": 1,
            "bytes": 0,
            "load": {"max": 0, "mean": 0.0},
            "steps": [],
            "tasks": {"count": count.workers, "seconds": {"max": count.seconds, "mean": count.seconds}},
            "peak_memory": 0,
            "seconds": {"plan": 0.0, "run": count.seconds},
        }
        count._asked = asked, index.statistics
        return count

    @told()
    def exists(
        self,
        query: str | Query,
        *,
        strategy: StrategyName = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        **flags: Unpack[Flags],
    ) -> bool:
        """Tell whether there is a match: the join stops at the first."""
        asked = _query(query, flags)
        atoms = tuple(atom for atom in asked.atoms if not atom.optional)
        known = {attribute for atom in atoms for attribute in atom.attributes}
        filters = tuple(f for f in asked.filters if known.issuperset(f.attributes))
        first = replace(asked, atoms=atoms, filters=filters, head=asked.attributes[:1], deduplicate=False)
        index = self._index_for(first)
        chosen, _ = self._choose(first, index, strategy, workers=workers, batch_size=batch_size, limit=1)
        with Held() as held:
            return self._find(first, index, chosen, held, limit=1, workers=workers, batch_size=batch_size).count() > 0

    @told()
    def find(
        self,
        query: str | Query,
        *,
        limit: int | None = None,
        factorized: bool = False,
        strategy: StrategyName = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        **flags: Unpack[Flags],
    ) -> DataFrame:
        """Return the matches as a Spark DataFrame with a column for each attribute of the head.

        Factorized, a row stands for many matches: attributes that are independent once the others are bound are arrays, and
        the matches of a row are the combinations of their values. A limit then counts rows.

        Lazy, like any DataFrame: each action runs the join again (persist the frame to keep the rows), and it reads this
        index, so use it before `close`. With a limit the join stops as soon as it has that many. Not so under strategies
        that work in rounds, which run now: a small result is then part of the frame, and a large one lies in scratch files
        until `close`, or until Python exits. `scratch_bytes` says how much that is.
        """
        options: dict[str, Any] = {"workers": workers, "batch_size": batch_size, "limit": limit, "factorized": factorized}
        asked, index, chosen = self._listed(_query(query, flags), strategy, **options)
        return self._find(asked, index, chosen, self._results, **options)

    def _listed(self, asked: Query, strategy: str, *, factorized: bool, **options: Any) -> tuple[Query, Index, str]:
        """Return a query whose matches can be listed, the index that has them, and the strategy that finds them."""
        _check_head(asked, factorized=factorized)
        index = self._index_for(asked)
        chosen, _ = self._choose(asked, index, strategy, factorized, **options)
        return asked, index, chosen

    @cached_property
    def _results(self) -> Held:
        """The files of results that frames read."""
        return Held()

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch files that results of `find` hold until `close`."""
        return self._results.bytes

    def _find(
        self,
        asked: Query,
        index: Index,
        chosen: str,
        held: Held,
        *,
        workers: int | None,
        batch_size: int | None,
        limit: int | None = None,
        factorized: bool = False,
        spark: SparkSession | None = None,
    ) -> DataFrame:
        """Return the matches; files that their frame reads are held."""
        spark = spark or self.spark
        distinct = asked.deduplicate and asked.projects
        options = (index, workers, batch_size, None if distinct else limit)
        parts = _branches(asked, index)
        if chosen in IN_ROUNDS:
            frames = [results.find(spark, self._dealt(chosen, part, *options), IN_ROUNDS[chosen].run, held) for part in parts]
        else:
            frames = [shared.find(spark, self._shared(part, *options, factorized), index) for part in parts]
        frame = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
        if len(frames) > 1:
            frame = frame.select(*asked.columns)
        if distinct:
            frame = frame.distinct()
        return frame.limit(limit) if limit is not None and (distinct or len(frames) > 1) else frame

    @told()
    def write(
        self,
        query: str | Query,
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
        """Write the matches to one Parquet or CSV file, by its suffix, and return how many rows there are.

        The tasks write the rows themselves. The file appears when it is complete, and replaces one of the same name.
        """
        target = Path(path)
        check_target(target, lists=factorized)
        options: dict[str, Any] = {"workers": workers, "batch_size": batch_size, "limit": limit, "factorized": factorized}
        asked, index, chosen = self._listed(_query(query, flags), strategy, **options)
        with staging(target) as folder:
            parts, columns = self._write(
                asked, index, chosen, folder, target.suffix.lower(), self.spark, progress=progress, **options
            )
            assemble([file for file, _ in parts], columns, target, folder)
        return sum(rows for _, rows in parts)

    def pieces(
        self,
        query: str | Query,
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
        """Give files of matches as they are found, each until the next is asked for: CSV without titles, or Arrow.

        Close the iterator to stop the work, or let `look` raise, which is called now and then. Rows that have to be brought
        together first, for `deduplicate` or optional atoms, all come at the end.
        """
        options: dict[str, Any] = {"workers": workers, "batch_size": batch_size, "limit": limit, "factorized": factorized}
        asked, index, chosen = self._listed(_query(query, flags), strategy, **options)
        folder = common_directory(self.spark, index.path, "found")

        def work(spark: SparkSession) -> None:
            self._write(asked, index, chosen, folder, suffix, spark, progress=progress, in_pieces=True, **options)

        return stream(self.spark, folder, work, look)

    def _write(
        self,
        asked: Query,
        index: Index,
        chosen: str,
        folder: Path,
        suffix: str,
        spark: SparkSession,
        *,
        workers: int | None,
        batch_size: int | None,
        limit: int | None,
        factorized: bool,
        progress: Callable[[float], None] | None,
        in_pieces: bool = False,
    ) -> tuple[list[tuple[Path, int]], pa.Schema]:
        """Write the matches to files in a folder, and return these with their rows, and the columns; pieces are published."""
        first, *others = _branches(asked, index)
        found = partial(publish, folder=folder) if in_pieces else None
        if others or (asked.deduplicate and asked.projects):
            with Held() as held:
                options: dict[str, Any] = {"workers": workers, "batch_size": batch_size, "limit": limit, "spark": spark}
                frame = self._find(asked, index, chosen, held, **options)
                columns = schema_of_frame(frame)
                parts = write_frame(frame, columns, folder, suffix)
            if found is not None:
                found([file for file, _ in parts])
        elif chosen in IN_ROUNDS:
            dealt = self._dealt(chosen, first, index, workers, batch_size, limit)
            parts = results.write(spark, dealt, IN_ROUNDS[chosen].run, folder, suffix, progress=progress, found=found)
            columns = dealt.schema
        else:
            job = self._shared(first, index, workers, batch_size, limit, factorized)
            parts = shared.write(spark, job, folder, suffix, progress=progress, in_pieces=in_pieces)
            columns = shared.schema(job, index)
        return parts, columns

    @told()
    def explain(
        self,
        query: str | Query,
        *,
        analyze: bool = False,
        delta: bool = False,
        strategy: StrategyName = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        **flags: Unpack[Flags],
    ) -> Explanation:
        """Return the plan as numbered rules, what the data lets expect and, with analyze, what happened (as `stats`, too).

        With delta, also the delta queries by which matches are kept up to date while updates change the relations.
        """
        asked = _query(query, flags)
        index = self._index_for(asked)
        stats = None
        if analyze:
            stats = self.count(asked, strategy=strategy, workers=workers, batch_size=batch_size).stats
        chosen, why = self._choose(asked, index, strategy, workers=workers, batch_size=batch_size)
        text = Explanation(explain(asked, index.statistics, delta=delta, strategy=f"{chosen} ({why})", stats=stats))
        text.stats = stats
        return text

    def plan(self, query: str | Query, **flags: Unpack[Flags]) -> Plan:
        """Return the plan for a query; raise QueryError, before anything runs, if it does not fit."""
        asked = _query(query, flags)
        index = self._index_for(asked)
        plans = [plan(branch, index.statistics) for branch in _branches(asked, index)]
        for chosen in plans:
            bind(chosen, index)
        return plans[0]

    def _shared(
        self,
        query: Query,
        index: Index,
        workers: int | None,
        batch_size: int | None,
        limit: int | None = None,
        factorized: bool = False,
    ) -> shared.Job:

        @cache
        def steps(order: tuple[str, ...] | None = None) -> Plan:
            return plan(query, index.statistics, order=order)

        term = factorized_plan(query, index.statistics) if factorized else nest_of(steps())
        size = batch_size or BATCH_SIZE
        options: dict[str, Any] = {"tasks": workers or parallelism(self.spark), "batch_size": size, "limit": limit}
        return shared.prepare(term, query, index, **options, factorized=factorized, plan=steps)

    def _dealt(
        self,
        strategy: str,
        query: Query,
        index: Index,
        workers: int | None,
        batch_size: int | None,
        limit: int | None = None,
    ) -> Job:
        """Return the job of a strategy that works in rounds."""
        cores = parallelism(self.spark)
        many = worker_count(index, workers, cores)
        size = batch_size or IN_ROUNDS[strategy].batch_size(many)
        return Job(plan(query, index.statistics), index, many, min(cores, many), size, limit)

    def _count_job(self, query: Query, index: Index, tasks: int) -> tuple[shared.CountJob, DataFrame]:
        asked = (index.manifest.identity, repr(query), tasks)  # text, as 1 and true are equal constants to Python
        if asked not in self._count_jobs:
            if len(self._count_jobs) >= KEPT_JOBS:
                del self._count_jobs[next(iter(self._count_jobs))]
            chosen = count_plan(query, index.statistics)
            job = shared.prepare_count(chosen, index, tasks=tasks, plan=partial(plan, query, index.statistics))
            self._count_jobs[asked] = job, shared.counts(self.spark, job)
        return self._count_jobs[asked]

    def _choose(
        self,
        query: Query,
        index: Index,
        strategy: str,
        factorized: bool = False,
        *,
        workers: int | None,
        batch_size: int | None,
        limit: int | None = None,
    ) -> tuple[str, str]:
        """Return the strategy and why; refuse an unknown one, a number below the least it may be, and an index that is gone."""
        check_strategy(strategy, factorized=factorized)
        check_numbers(workers=workers, batch_size=batch_size, limit=limit)
        if not index.path.exists():
            raise BigjoinError("this graph is closed, and its index is gone; make it again")
        if strategy != "auto":
            return strategy, "as asked for"
        if factorized:
            return "shared", "which alone finds factorized matches"
        return choose(self._session, index, partial(plan, _branches(query, index)[0], index.statistics), workers)


def _query(query: str | Query, flags: Flags) -> Query:
    return refine(query, **flags) if isinstance(query, Query) else parse(query, **flags)


def _branches(query: Query, index: Index) -> list[Query]:
    """Return the queries that a query is the sum of, with atoms in the order of what they read."""
    return [resolve_relations(branch, index.statistics) for branch in branches(query)]


def _check_head(query: Query, *, factorized: bool) -> None:
    """Refuse heads that matches cannot be listed by."""
    if not query.head:
        raise QueryError(f"the head of {query.name!r} is empty, so matches have no columns", hint="list attributes, or count")
    if factorized and (query.projects or query.optional):
        hint = f"list every attribute: {query.name}({', '.join(query.attributes)})"
        raise QueryError("factorized matches need a head with every attribute, and no optional atoms", hint=hint)


def _added(counts: Sequence[Count]) -> Count:
    """Return the sum of some counts, with the figures of all their runs."""
    if len(counts) == 1:
        return counts[0]
    total = Count(sum(counts))
    total.strategy, total.workers, total._asked = counts[0].strategy, counts[0].workers, counts[0]._asked
    total.seconds = sum(count.seconds for count in counts)
    figures = [count._stats for count in counts]
    stats = dict(figures[0])
    for name in ("rounds", "exchanges", "bytes", "tuples", "critical_path", "kernels_compiled"):
        if name in stats:
            stats[name] = sum(one[name] for one in figures)
    for name in ("load", "waiting", "balance"):
        if name in stats:
            stats[name] = {part: max((one[name][part] for one in figures), key=_known) for part in stats[name]}
    if "exchange_loads" in stats:
        stats["exchange_loads"] = [load for one in figures for load in one["exchange_loads"]]
    stats["peak_memory"] = max(one["peak_memory"] for one in figures)
    stats["seconds"] = {part: sum(one["seconds"][part] for one in figures) for part in ("plan", "run")}
    stats["steps"] = [step for one in figures for step in one["steps"]]
    total._stats, total._index_tuples = stats, counts[0]._index_tuples
    return total


def _whole(index: Index) -> dict[str, float]:
    """Return how many tuples a worker has that maps all of an index."""
    tuples = sum(relation.tuples for relation in index.statistics.relations.values())
    return {"max": tuples, "mean": tuples}


def _known(figure: float | None) -> float:
    """Return a figure, or less than any if it is not known."""
    return -1.0 if figure is None else figure
