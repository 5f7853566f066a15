"""Graph: the few public verbs over one graph. Edges in, an int or a Spark DataFrame out."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bigjoin.defaults import check_numbers, check_strategy
from bigjoin.errors import BigjoinError, IndexFormatError, QueryError
from bigjoin.index.directory import VERTEX, Index
from bigjoin.index.entries import NAME
from bigjoin.indexing import Rows, build_index, run_for, undirected_copy
from bigjoin.languages import Flags, parse, refine
from bigjoin.materialize import check_definitions, materialize
from bigjoin.query.query import Query
from bigjoin.spark.failures import told
from bigjoin.spark.session import scratch_directory
from bigjoin.streaming.compaction import settled, settled_in_place
from bigjoin.streaming.initial import count_here, is_small
from bigjoin.streaming.monitor import Epoch, Monitor, Watched
from bigjoin.streaming.watch import Batches, check_checkpoint, read_file, telling
from bigjoin.verbs import Verbs

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


Watchable: TypeAlias = "str | Query | Mapping[str, str | Query]"
"""A query, or queries by name."""


class Graph(Verbs):
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
        self._monitor: tuple[Any, Monitor] | None = None
        self._follows = False
        """Whether a stream changes the index, so that queries open it again."""
        self._copy: tuple[str, Index] | None = None
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
    def open(cls, path: str | Path, *, verify: bool = True, spark: SparkSession | None = None) -> Graph:
        """Open an index directory, at the version that it has now.

        What a query reads is verified first, once on each machine: damaged files are refused. Without `verify` they may give
        wrong answers, or end the process.
        """
        index = Index.open(Path(path).absolute(), verify=verify)
        if VERTEX not in index.manifest.domains:
            raise IndexFormatError(f"the index {path} is not that of a graph: it has no domain {VERTEX!r}")
        return cls._over(check_definitions(index), spark=spark)

    @classmethod
    def _over(cls, index: Index, *, spark: SparkSession | None, scratch: Path | None = None) -> Graph:
        graph = cls.__new__(cls)
        graph._spark, graph._scratch, graph.index, graph._copy = spark, scratch, index, None
        graph._monitor, graph._follows = None, False
        return graph

    def _index_for(self, query: Query) -> Index:
        del query  # a graph's index serves them all
        return self._settled()

    def _settled(self) -> Index:
        """Return the index without runs: itself, or a copy while it cannot be written, which no update is meant for."""
        if self._follows:
            self.index = Index.open(self.index.path, verify=self.index.verifies)
        asked = self.index.manifest.identity
        if self._copy is None or self._copy[0] != asked:
            found = settled(self.index)
            if found.path == self.index.path:
                self.index = found
                return found
            self._copy = (asked, found)
        return self._copy[1]

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
        relations = self.index.statistics.relations.values()
        tuples = sum(relation.tuples for relation in relations if relation.arity == 2 and not relation.materialized)
        return tuples if self.directed else tuples // 2

    def undirected(self) -> Graph:
        """Return the undirected graph: loops dropped, each edge in both directions."""
        if not self.directed:
            return self
        scratch = scratch_directory("graph")
        return self._over(undirected_copy(self._settled(), scratch / "index"), spark=self._spark, scratch=scratch)

    @told()
    def materialize(self, name: str, query: str | Query, **flags: Unpack[Flags]) -> int:
        """Store a query's result as a relation of the index, and return how many tuples it has.

        Queries may name it like any other relation, with the head's attributes as its columns. If its query is atoms alone,
        without filters or flags, plans read it by themselves wherever it stands for several of a query's atoms. It belongs to
        this version of the index: one that is built anew starts without it.
        """
        asked = refine(query, **flags) if isinstance(query, Query) else parse(query, **flags)
        self.index = settled_in_place(self.index)
        self.index = materialize(self.index, {name: asked}, run_for(self.index, lambda: self.spark))
        return self.index.statistics.relations[name].tuples

    @told()
    def apply(
        self,
        updates: Rows,
        queries: Watchable | None = None,
        *,
        listing: bool = True,
        order: str | None = None,
        strategy: str = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        **flags: Unpack[Flags],
    ) -> Epoch:
        """Change the graph by a table of updates, as one epoch, and return what that changed in the results of queries.

        Updates have columns src, dst and op (`+` or `-`, insert or delete, 1 or -1). They follow the column `order`; without
        one, deletions come before insertions. `queries` is a query or a mapping of names to queries. The epoch has for each the
        matches that came and went (`table`), and the new `count`; without `listing`, the counts alone. Give all queries at
        once: one that was not asked of the epoch before is counted anew.
        """
        check_numbers(workers=workers, batch_size=batch_size)
        watched = watchable(queries, flags, listing=listing)
        options: dict[str, Any] = {
            "strategy": self.strategy_for_updates(strategy, watched, workers),
            "workers": workers,
            "batch_size": batch_size,
        }
        asked = (tuple((name, str(w.query), w.listing) for name, w in watched.items()), order, tuple(options.values()))
        if self._monitor is None or self._monitor[0] != asked:
            monitor = Monitor(
                self.index.path,
                watched,
                spark=lambda: self.spark,
                initial=self.counted,
                order=order,
                verify=self.index.verifies,
                **options,
            )
            self._monitor = (asked, monitor)
        epoch = self._monitor[1].apply(_table(updates, self.index))
        assert epoch is not None
        assert self._monitor[1].live is not None
        self.index = self._monitor[1].live.index
        return epoch

    @told()
    def watch(
        self,
        queries: Watchable,
        updates: DataFrame,
        *,
        output: str | Path | None = None,
        function: Callable[[Epoch], None] | None = None,
        checkpoint: str | None = None,
        order: str | None = None,
        window: str | float | None = None,
        time: str | None = None,
        trigger: Mapping[str, Any] | None = None,
        adopt: bool = False,
        strategy: str = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        **flags: Unpack[Flags],
    ) -> StreamingQuery:
        """Watch queries while a streaming DataFrame of updates changes the graph; return Spark's streaming query, started.

        Each batch is an epoch. The matches that it creates and destroys are written to the folder `output` exactly once, as
        epoch=N/*.parquet (below a folder for each query, if there are several), and the counts to _counts.jsonl. `function` is
        called with every Epoch before it is committed: at least once, with the same number and the same rows if again. With
        neither, counts alone are kept. `checkpoint` is where Spark notes how far the stream is: with the output, if not said.

        `window` and `time` let edges expire: those whose column `time` lies further behind the latest than `window`, a number
        in its unit or a length such as "7 days". `trigger` is what Spark's `trigger` takes. `adopt` goes on with a checkpoint
        that the index was not watched with before.
        """
        if (window is None) != (time is None):
            raise BigjoinError("a window is a length and the column it is about: give both window= and time=")
        check_numbers(workers=workers, batch_size=batch_size)
        watched = watchable(queries, flags, listing=output is not None or function is not None)
        where = checkpoint or (
            f"{Path(output).absolute()}/_checkpoint" if output is not None else f"{self.index.path}.checkpoint"
        )
        self.index = Index.open(self.index.path, verify=self.index.verifies)
        if not adopt:
            check_checkpoint(self.index, where, updates.sparkSession)
        self._spark = self._spark or updates.sparkSession
        batches = Batches(
            str(self.index.path.absolute()),
            watched,
            where,
            {},
            output=None if output is None else str(Path(output).absolute()),
            order=order,
            window=None if window is None or time is None else (time, window),
            strategy=self.strategy_for_updates(strategy, watched, workers),
            workers=workers,
            batch_size=batch_size,
            adopt=adopt,
            function=function,
            verify=self.index.verifies,
        )
        first = batches.monitor(lambda: self.spark)
        first.initial = self.counted
        with first.writing() as live:  # whatever is wrong is told here, and not by a stream that fails
            self.index = live.index
            epoch = live.index.epoch
        batches.counts = {str(w.query): (epoch, first.counts[name]) for name, w in watched.items()}
        self._follows = True
        stream = updates.writeStream.foreachBatch(batches).option("checkpointLocation", where)
        return telling((stream.trigger(**trigger) if trigger else stream).start())

    @told()
    def counted(self, index: Index, query: Query, spark: Callable[[], SparkSession] | None = None) -> int:
        """Return how many matches a query has in an index of this graph."""
        if is_small(index):
            return count_here(index, query)
        return int(self._over(index, spark=spark() if spark is not None else self._spark).count(query))

    def strategy_for_updates(self, strategy: str, watched: Mapping[str, Watched], workers: int | None) -> str:
        """Return the strategy that delta queries run by: that for all matches of the first query, as updates take its steps."""
        check_strategy(strategy, factorized=False)
        if strategy != "auto":
            return strategy
        first = next((one.query for one in watched.values()), None)
        if first is None:
            return "shared"  # nothing is asked
        asked = (str(first), workers)
        if asked not in self._strategies:  # once, so that all epochs have the same
            self._strategies[asked] = self._choose(first, self.index.base, strategy, workers=workers, batch_size=None)[0]
        return self._strategies[asked]

    @cached_property
    def _strategies(self) -> dict[tuple[str, int | None], str]:
        """What `auto` has chosen for the updates of queries."""
        return {}

    def close(self) -> None:
        """Remove the scratch index, if this graph owns one, and results. Frames from `find` cannot be read afterwards."""
        self._results.free()
        for scratch in (self._scratch, None if self._copy is None else self._copy[1].path.parent):
            if scratch is not None:
                shutil.rmtree(scratch, ignore_errors=True)
        self._copy = None

    def __enter__(self) -> Graph:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        kind = "directed" if self.directed else "undirected"
        return f"Graph({self.vertices:,} vertices, {self.edges:,} {kind} edges)"


def watchable(queries: Watchable | None, flags: Flags, *, listing: bool) -> dict[str, Watched]:
    """Return queries by name, ready to be watched; refuse what cannot be."""
    named = queries if isinstance(queries, Mapping) else {} if queries is None else {"": queries}
    found = {}
    for name, query in named.items():
        asked = refine(query, **flags) if isinstance(query, Query) else parse(query, **flags)
        if name and name != asked.name and not NAME.fullmatch(name):
            raise BigjoinError(f"{name!r} cannot name a query: use letters, digits and _")
        if asked.deduplicate and asked.projects:
            raise QueryError("deduplicated rows cannot be watched: how often a row is there would have to be kept")
        if taken := {"change", "epoch"} & set(asked.columns):
            raise QueryError(f"{min(taken)!r} is a column of every watch's output", hint="give the attribute another name")
        if not asked.head:
            raise QueryError(f"the head of {asked.name!r} is empty, so matches have no columns", hint="list attributes")
        found[name or asked.name] = Watched(asked, listing)
    return found


def _table(rows: Rows, index: Index) -> pa.Table:
    """Return updates of a graph as an Arrow table."""
    if isinstance(rows, (str, Path)):
        return read_file(Path(rows), index)
    if isinstance(rows, pa.Table):
        return rows
    if hasattr(rows, "toArrow"):
        return cast("pa.Table", rows.toArrow())
    return pa.Table.from_pandas(cast("Any", rows), preserve_index=False)
