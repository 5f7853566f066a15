"""Graph: the few public verbs over one graph. Edges in, an int or a Spark DataFrame out."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

from pyspark.sql import DataFrame, SparkSession

from bigjoin.defaults import BATCH_SIZE, PROPOSALS, check_strategy
from bigjoin.errors import BigjoinError
from bigjoin.explain import explain
from bigjoin.index.directory import VERTEX, Index
from bigjoin.indexing import Rows, build_index, undirected_copy
from bigjoin.join.bind import bind
from bigjoin.languages import Flags, parse, refine
from bigjoin.output import assemble, check_target, staging
from bigjoin.planner import count_plan, factorized_plan, plan
from bigjoin.planner.agm import agm_bound
from bigjoin.query.nest import Term, nest_of
from bigjoin.query.plan import Plan
from bigjoin.query.query import Query
from bigjoin.query.statistics import Statistics
from bigjoin.spark import partitioned, shared
from bigjoin.spark.choose import choose
from bigjoin.spark.session import get_session, parallelism, scratch_directory

KEPT_JOBS = 256
"""Counts of which a graph remembers the plan."""

WORKERS = 4
"""Workers for each core, where nobody says how many and the index is not dealt to any."""


class Count(int):
    """The number of matches: an int, with the figures of the run that found it."""

    seconds: float
    strategy: str
    workers: int
    _stats: dict[str, Any]
    _asked: tuple[Query, Statistics]

    @cached_property
    def stats(self) -> dict[str, Any]:
        """The rounds, steps, memory and seconds of the run, and the AGM bound beside them."""
        return {**self._stats, "agm": agm_bound(*self._asked)}


class Explanation(str):
    """A plan and what to expect of it, as text; with the figures of the run, if there was one."""

    __slots__ = ("stats",)
    stats: dict[str, Any] | None


class Graph:
    """A graph with its extension indices, ready for queries.

    `edges` is a Spark DataFrame, a path (edge list, CSV, Parquet), an Arrow table or a pandas frame, with columns src and dst
    (or its first two), or a mapping of names to such relations. Further columns are properties of edges, `vertices` is a table
    of those of vertices. The index is built at once, in a scratch directory that is removed when Python exits or on `close`.
    """

    def __init__(
        self,
        edges: Rows | Mapping[str, Rows],
        *,
        vertices: Rows | None = None,
        directed: bool = True,
        properties: bool = True,
        parallel: bool = False,
        labels: str | None = None,
        types: str | None = None,
        drop_nulls: bool = False,
        spark: SparkSession | None = None,
    ) -> None:
        rows = (*(edges.values() if isinstance(edges, Mapping) else (edges,)), vertices)
        self._spark = spark or next((table.sparkSession for table in rows if hasattr(table, "mapInArrow")), None)
        self._scratch: Path | None = scratch_directory("graph")
        self.index = build_index(
            edges,
            self._scratch / "index",
            vertices=vertices,
            directed=directed,
            properties=properties,
            parallel=parallel,
            labels=labels,
            types=types,
            drop_nulls=drop_nulls,
            spark=self._spark,
        )

    @classmethod
    def open(cls, path: str | Path, *, spark: SparkSession | None = None) -> Graph:
        """Open an index directory, at the version that it has now."""
        return cls._over(Index.open(Path(path).absolute()), spark=spark)

    @classmethod
    def _over(cls, index: Index, *, spark: SparkSession | None, scratch: Path | None = None) -> Graph:
        graph = cls.__new__(cls)
        graph._spark, graph._scratch, graph.index = spark, scratch, index
        return graph

    @cached_property
    def _count_jobs(self) -> dict[tuple[str, int], tuple[shared.CountJob, DataFrame]]:
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

    def on(self, spark: SparkSession) -> Graph:
        """Return the same graph, with its queries run by another session."""
        return self._over(self.index, spark=spark)

    @property
    def directed(self) -> bool:
        return not any(relation.symmetric for relation in self.index.statistics.relations.values())

    @property
    def vertices(self) -> int:
        """How many vertices there are: the ids that occur in an edge, or in the table of vertices."""
        return self.index.statistics.domains[VERTEX]

    @property
    def edges(self) -> int:
        """How many edges there are, in all relations; in an undirected graph each counts once, parallel ones as one."""
        tuples = sum(relation.tuples for relation in self.index.statistics.relations.values() if relation.arity == 2)
        return tuples if self.directed else tuples // 2

    def undirected(self) -> Graph:
        """Return the undirected graph: loops dropped, each edge in both directions."""
        if not self.directed:
            return self
        scratch = scratch_directory("graph")
        return self._over(undirected_copy(self.index, scratch / "index"), spark=self._spark, scratch=scratch)

    def count(
        self,
        query: str | Query,
        *,
        strategy: str = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        progress: Callable[[float], None] | None = None,
        **flags: Unpack[Flags],
    ) -> Count:
        """Return the number of matches, an int that carries the `stats` of the run."""
        spark = self.spark  # may start a session, which is not the query's time
        parallelism(spark)  # asks a cluster, now and then, by a job of its own
        started = time.perf_counter()
        asked = _query(query, flags)
        chosen = self._choose(strategy, workers=(workers, 1), batch_size=(batch_size, 1))
        if chosen == "partitioned":
            spread = self._partitioned(asked, workers, batch_size)
            planned, dealt_to = time.perf_counter(), spread.workers
            number, stats = partitioned.count(spark, spread, progress=progress)
        else:
            job, frame = self._count_job(asked, workers or parallelism(spark))
            planned, dealt_to = time.perf_counter(), len(job.ranges)
            number, stats = shared.count(spark, job, frame=frame, progress=progress)
            tuples = sum(relation.tuples for relation in self.index.statistics.relations.values())
            stats["index_tuples"] = {"max": tuples, "mean": tuples}
        finished = time.perf_counter()
        count = Count(number)
        count.seconds, count.strategy, count.workers = finished - started, chosen, dealt_to
        count._stats = {**stats, "seconds": {"plan": planned - started, "run": finished - planned}}
        count._asked = asked, self.index.statistics
        return count

    def find(
        self,
        query: str | Query,
        *,
        limit: int | None = None,
        factorized: bool = False,
        strategy: str = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        **flags: Unpack[Flags],
    ) -> DataFrame:
        """Return the matches as a Spark DataFrame with a column for each attribute of the head.

        Factorized, a row stands for many matches: attributes that are independent once the others are bound are arrays, and
        the matches of a row are the combinations of their values. A limit then counts rows.

        Lazy, like any DataFrame: each action runs the join again (persist the frame to keep the rows), and it reads this
        graph's index, so use it before `close`. With a limit the join stops as soon as it has that many. Not so under the
        partitioned strategy, whose rounds run now: the frame then reads the matches from scratch files, until Python exits.
        """
        asked = _query(query, flags)
        chosen = self._choose(strategy, factorized, workers=(workers, 1), batch_size=(batch_size, 1), limit=(limit, 0))
        if chosen == "partitioned":
            return partitioned.find(self.spark, self._partitioned(asked, workers, batch_size, limit))
        return shared.find(self.spark, self._shared(asked, workers, batch_size, limit, factorized), self.index)

    def write(
        self,
        query: str | Query,
        path: str | Path,
        *,
        limit: int | None = None,
        factorized: bool = False,
        strategy: str = "auto",
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
        asked, suffix = _query(query, flags), target.suffix.lower()
        chosen = self._choose(strategy, factorized, workers=(workers, 1), batch_size=(batch_size, 1), limit=(limit, 0))
        with staging(target) as folder:
            if chosen == "partitioned":
                spread = self._partitioned(asked, workers, batch_size, limit)
                parts = partitioned.write(self.spark, spread, folder, suffix, progress=progress)
                columns = partitioned.schema(spread)
            else:
                job = self._shared(asked, workers, batch_size, limit, factorized)
                parts = shared.write(self.spark, job, folder, suffix, progress=progress)
                columns = shared.schema(job, self.index)
            assemble([file for file, _ in parts], columns, target, folder)
        return sum(rows for _, rows in parts)

    def explain(
        self,
        query: str | Query,
        *,
        analyze: bool = False,
        strategy: str = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        **flags: Unpack[Flags],
    ) -> Explanation:
        """Return the plan as numbered rules, what the data lets expect and, with analyze, what happened (as `stats`, too)."""
        asked = _query(query, flags)
        stats = None
        if analyze:
            stats = self.count(asked, strategy=strategy, workers=workers, batch_size=batch_size).stats
        chosen = self._choose(strategy, workers=(workers, 1), batch_size=(batch_size, 1))
        why = choose(self._session, self.index)[1] if strategy == "auto" else "as asked for"
        text = Explanation(explain(asked, self.index.statistics, strategy=f"{chosen} ({why})", stats=stats))
        text.stats = stats
        return text

    def plan(self, query: str | Query, **flags: Unpack[Flags]) -> Plan:
        """Return the plan for a query on this graph; raise QueryError, before anything runs, if it does not fit."""
        chosen = plan(_query(query, flags), self.index.statistics)
        bind(chosen, self.index)
        return chosen

    def close(self) -> None:
        """Remove the scratch index, if this graph owns one. Frames from `find` cannot be read afterwards."""
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def __enter__(self) -> Graph:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        kind = "directed" if self.directed else "undirected"
        return f"Graph({self.vertices:,} vertices, {self.edges:,} {kind} edges)"

    def _shared(
        self, query: Query, workers: int | None, batch_size: int | None, limit: int | None = None, factorized: bool = False
    ) -> shared.Job:
        if factorized:
            term = factorized_plan(query, self.index.statistics)
        else:
            chosen = plan(query, self.index.statistics)
            term = Term(1, nest_of(chosen), chosen.attributes)
        tasks = workers or parallelism(self.spark)
        size = batch_size or BATCH_SIZE
        return shared.prepare(term, query, self.index, tasks=tasks, batch_size=size, limit=limit, factorized=factorized)

    def _partitioned(
        self, query: Query, workers: int | None, batch_size: int | None, limit: int | None = None
    ) -> partitioned.Job:
        cores = parallelism(self.spark)
        many = workers or (self.index.shards if self.index.shards > 1 else WORKERS * cores)
        if many > partitioned.MOST_WORKERS:
            raise BigjoinError(f"workers is {many}; it must be at most {partitioned.MOST_WORKERS:,}")
        chosen = plan(query, self.index.statistics)
        return partitioned.Job(chosen, self.index, many, min(cores, many), batch_size or PROPOSALS, limit)

    def _count_job(self, query: Query, tasks: int) -> tuple[shared.CountJob, DataFrame]:
        asked = (repr(query), tasks)  # text, as 1 and true are equal constants to Python
        if asked not in self._count_jobs:
            if len(self._count_jobs) >= KEPT_JOBS:
                del self._count_jobs[next(iter(self._count_jobs))]
            chosen = count_plan(query, self.index.statistics)
            job = shared.prepare_count(chosen, self.index, tasks=tasks)
            self._count_jobs[asked] = job, shared.counts(self.spark, job)
        return self._count_jobs[asked]

    def _choose(self, strategy: str, factorized: bool = False, **values: tuple[int | None, int]) -> str:
        """Return the strategy; refuse an unknown one, a number below the least it may be, and a graph that is gone."""
        check_strategy(strategy, factorized=factorized)
        for name, (value, least) in values.items():
            if value is not None and value < least:
                raise BigjoinError(f"{name} is {value}; it must be at least {least}")
        if not self.index.path.exists():
            raise BigjoinError("this graph is closed, and its index is gone; make it again")
        if strategy != "auto":
            return strategy
        return "shared" if factorized else choose(self._session, self.index)[0]


def _query(query: str | Query, flags: Flags) -> Query:
    return refine(query, **flags) if isinstance(query, Query) else parse(query, **flags)
