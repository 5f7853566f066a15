"""Graph: a graph, its index, and the verbs that query and update it. Edges in, an int or a Spark DataFrame out."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

import pyarrow as pa

from bigjoin.defaults import LOCAL, RunOptions, StrategyName, check_numbers, check_strategy
from bigjoin.errors import BigjoinError, IndexFormatError
from bigjoin.index.directory import VERTEX, Index
from bigjoin.languages import Flags, Text, only_query, read
from bigjoin.local.threads import count_here, is_small
from bigjoin.planner import meaning
from bigjoin.query.query import Query
from bigjoin.query.statement import Statement
from bigjoin.signatures import with_known_keywords
from bigjoin.spark.failures import with_plain_errors
from bigjoin.storage.scratch import scratch_directory
from bigjoin.verbs import Verbs

if TYPE_CHECKING:  # most programs neither build an index nor change it, and what does that takes a while to import
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from bigjoin.spark.sources import TableLike
    from bigjoin.streaming.epoch import Epoch
    from bigjoin.streaming.monitor import Monitor, Observer
    from bigjoin.streaming.watched import Watchable, Watched
    from bigjoin.streaming.window import Window


class Graph(Verbs):
    """A graph with its extension indices, ready for queries.

    `edges` is a Spark DataFrame, a path (edge list, CSV, JSON, Parquet), a table of Arrow, pandas or another library, or a list
    of tuples or dictionaries, with columns src and dst; or a mapping of names to such relations. Further columns are properties
    of edges; `vertices` is a table of vertices, with a column id, and their properties. If columns have other names, `src`,
    `dst` and `id` say which they are, by name or by position from 1. `columns`, `header`, `delimiter` and `encoding` say how
    text files are read, as in `build_index`. The index is built at once, in a scratch directory that is removed by `close` or
    when Python exits.
    """

    index: Index
    _scratch: Path | None = None
    """The folder that this graph owns, which `close` removes."""
    _compacted: tuple[str, Index] | None = None
    """If the index cannot be written: its identity, and a copy of it without runs."""
    _monitor: tuple[Any, Monitor] | None = None
    """The options of the last `apply`, and the monitor made for them."""
    _is_watched: bool = False
    """Whether a stream changes the index, so that queries have to open it again."""

    @with_known_keywords("Graph")
    def __init__(
        self,
        edges: TableLike | Mapping[str, TableLike],
        *tables: TableLike,
        vertices: TableLike | None = None,
        directed: bool = True,
        properties: bool = True,
        parallel: bool = False,
        labels: str | None = None,
        types: str | None = None,
        src: str | int | None = None,
        dst: str | int | None = None,
        id: str | int | None = None,  # noqa: A002
        columns: Sequence[str] | None = None,
        header: bool | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
        drop_nulls: bool = False,
        spark: SparkSession | None = None,
    ) -> None:
        from bigjoin.indexing import build_index, edges_and_vertices

        if tables:
            edges, vertices = edges_and_vertices(edges, tables, vertices)
        given = (*(edges.values() if isinstance(edges, Mapping) else (edges,)), vertices)
        self._spark = spark or next((table.sparkSession for table in given if hasattr(table, "mapInArrow")), None)
        self._scratch = scratch_directory("graph")
        self.index = build_index(
            edges,
            self._scratch / "index",
            vertices=vertices,
            directed=directed,
            properties=properties,
            parallel=parallel,
            labels=labels,
            types=types,
            src=src,
            dst=dst,
            id=id,
            columns=columns,
            header=header,
            delimiter=delimiter,
            encoding=encoding,
            drop_nulls=drop_nulls,
            spark=self._spark,
        )

    @classmethod
    def open(cls, path: str | Path, *, verify: bool = True, spark: SparkSession | None = None) -> Graph:
        """Open an index directory at its current version.

        What a query reads is verified first, once on each machine, and damaged files are refused. Without `verify` they may
        give wrong answers or crash the process.
        """
        index = Index.open(Path(path).absolute(), verify=verify)
        if VERTEX not in index.manifest.domains:
            raise IndexFormatError(f"the index {path} is not that of a graph: it has no domain {VERTEX!r}")
        if any(entry.definition is not None for entry in index.manifest.relations.values()):
            from bigjoin.materialize import check_definitions

            check_definitions(index)
        return cls.over(index, spark=spark)

    @classmethod
    def over(cls, index: Index, *, spark: SparkSession | None = None, scratch: Path | None = None) -> Graph:
        """Return the graph of an open index; a scratch folder that holds it is the graph's own."""
        graph = cls.__new__(cls)
        graph._spark, graph._scratch, graph.index = spark, scratch, index
        return graph

    def _index_for(self, query: Query) -> Index:
        del query  # one index serves all queries of a graph
        return self._without_runs()

    def _complete(self, statement: Statement) -> Statement:
        from bigjoin.languages.sql_meaning import meaning_of
        from bigjoin.sql_graph import GraphTables

        return meaning_of(statement.unread, statement.text, GraphTables(self._without_runs()), "select")

    def _without_runs(self) -> Index:
        """Return the index with its runs compacted: in place if it can be written, otherwise in a copy, which is kept."""
        with self._lock:
            return self._compact()

    def _compact(self) -> Index:
        if self._is_watched:
            self.index = Index.open(self.index.path, verify=self.index.verifies)
        if not self.index.runs:
            return self.index
        from bigjoin.streaming.compaction import without_runs

        identity = self.index.manifest.identity
        if self._compacted is None or self._compacted[0] != identity:
            live = None if self._monitor is None else self._monitor[1].live
            known = live.versions if live is not None and live.index.manifest.identity == identity else None
            found = without_runs(self.index, known)
            if found.path == self.index.path:
                self.index = found
                return found
            self._compacted = (identity, found)
        return self._compacted[1]

    def on(self, spark: SparkSession) -> Graph:
        """Return a copy of the graph whose queries run in another session; this graph still owns the files."""
        return self.over(self.index, spark=spark)

    @property
    def directed(self) -> bool:
        return not any(relation.symmetric for relation in self.index.statistics.relations.values())

    @property
    def vertex_count(self) -> int:
        """The number of vertices: ids that occur in an edge or in the table of vertices."""
        return self.index.statistics.domains[VERTEX]

    @property
    def edge_count(self) -> int:
        """The number of edges in all relations. Parallel edges count once, and so do both directions of undirected edges."""
        relations = self.index.statistics.relations.values()
        tuples = sum(relation.tuples for relation in relations if relation.arity == 2 and not relation.materialized)
        return tuples if self.directed else tuples // 2

    @property
    def vertices(self) -> int:
        """The old name of `vertex_count`."""
        warnings.warn("Graph.vertices is now called Graph.vertex_count", DeprecationWarning, stacklevel=2)
        return self.vertex_count

    @property
    def edges(self) -> int:
        """The old name of `edge_count`."""
        warnings.warn("Graph.edges is now called Graph.edge_count", DeprecationWarning, stacklevel=2)
        return self.edge_count

    def undirected(self) -> Graph:
        """Return the undirected graph: without loops, and with each edge in both directions."""
        if not self.directed:
            return self
        from bigjoin.indexing import undirected_copy

        scratch = scratch_directory("graph")
        return self.over(undirected_copy(self._without_runs(), scratch / "index"), spark=self._spark, scratch=scratch)

    @with_known_keywords(flags=Flags)
    @with_plain_errors()
    def materialize(self, name: str, query: Text, **flags: Unpack[Flags]) -> int:
        """Store a query's result as a relation of the index, and return how many tuples it has.

        Queries may name it like any other relation, with the head's attributes as its columns. If its query consists of atoms
        only, without filters or flags, plans use it automatically wherever it can replace several of a query's atoms. It
        belongs to this index: one that is built again starts without it.
        """
        from bigjoin.indexing import run_for
        from bigjoin.materialize import materialize
        from bigjoin.streaming.compaction import compact_in_place

        asked = only_query(read(query, **flags))
        with self._lock:
            self.index = compact_in_place(self.index)
            self.index = materialize(self.index, {name: asked}, run_for(self.index, lambda: self.spark))
            return self.index.statistics.relations[name].tuples

    @with_known_keywords(flags=Flags)
    @with_plain_errors()
    def apply(
        self,
        updates: TableLike | Watchable,
        queries: Watchable | TableLike | None = None,
        *,
        listing: bool = True,
        order: str | None = None,
        strategy: StrategyName = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        **flags: Unpack[Flags],
    ) -> Epoch:
        """Apply a table of updates to the graph, as one epoch, and return how that changed the results of queries.

        Updates have columns src, dst and op (`+` or `-`, insert or delete, 1 or -1). They apply in the order of the column
        `order`; without one, deletions come before insertions. `queries` is a query, or a mapping of names to queries. For each
        of them the epoch has the matches that were created and destroyed (`table`) and the new `count`; without `listing`, only
        the counts. Pass the same queries with every epoch: one that the previous epoch did not have is counted from scratch.
        Updates and queries may be given in either order, but of two strings the first is the path of the updates.
        """
        from bigjoin.streaming.watched import watchable

        rows, asked = _updates_and_queries(updates, queries)
        watched = watchable(asked, flags, listing=listing)
        run = RunOptions(strategy=strategy, workers=workers, batch_size=batch_size)
        key = ({name: (str(one.query), one.listing) for name, one in watched.items()}, order, run)
        with self._lock:  # an epoch is one thread's, and the next one begins with the index that it leaves
            if self._monitor is None or self._monitor[0] != key:
                self._monitor = key, monitor_of(self, watched, run, order=order)
            monitor = self._monitor[1]
            epoch = monitor.apply(_table(rows, self.index))
            assert epoch is not None
            assert monitor.live is not None
            self.index = monitor.live.index
            return epoch

    @with_known_keywords(flags=Flags)
    @with_plain_errors()
    def watch(
        self,
        queries: Watchable | DataFrame,
        updates: DataFrame | Watchable,
        *,
        output: str | Path | None = None,
        function: Observer | None = None,
        checkpoint: str | None = None,
        order: str | None = None,
        window: str | float | None = None,
        time: str | None = None,
        trigger: Mapping[str, Any] | None = None,
        adopt: bool = False,
        strategy: StrategyName = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        **flags: Unpack[Flags],
    ) -> StreamingQuery:
        """Watch queries while a streaming DataFrame of updates changes the graph; return Spark's streaming query, started.

        Each batch is an epoch. The matches that it creates and destroys are written to the folder `output` exactly once, as
        epoch=N/*.parquet (in a folder for each query, if there are several), and the counts to _counts.jsonl. `function` is
        called with every Epoch before it is committed: at least once, and with the same number and rows each time. With
        neither, only counts are kept. `checkpoint` is where Spark records its progress, by default inside the output folder.

        With `window` and `time`, an edge expires once its value in the column `time` is more than `window` behind the latest.
        A window is a number in the column's unit, or a duration such as "7 days". `trigger` holds the arguments of Spark's
        `trigger`. `adopt` accepts a checkpoint that the index was not watched with before. Queries and updates may be given in
        either order.
        """
        from bigjoin.streaming.batches import Batches, KnownCounts, check_checkpoint, with_plain_failure
        from bigjoin.streaming.watched import watchable
        from bigjoin.streaming.window import Window

        rows, asked = _updates_and_queries(updates, queries)
        if not hasattr(rows, "writeStream"):
            raise BigjoinError(f"updates is a {type(rows).__name__}; give a streaming DataFrame")
        frame = cast("DataFrame", rows)
        if (window is None) != (time is None):
            raise BigjoinError("a window is a length and the column it is about: give both window= and time=")
        check_numbers(workers=workers, batch_size=batch_size)
        watched = watchable(asked, flags, listing=output is not None or function is not None)
        folder = None if output is None else Path(output).absolute()
        where = checkpoint or (f"{self.index.path}.checkpoint" if folder is None else f"{folder}/_checkpoint")
        self.index = Index.open(self.index.path, verify=self.index.verifies)
        if not adopt:
            check_checkpoint(self.index, where, frame.sparkSession)
        self._spark = self._spark or frame.sparkSession
        monitor = monitor_of(
            self,
            watched,
            RunOptions(strategy=strategy, workers=workers, batch_size=batch_size),
            output=folder,
            order=order,
            window=None if window is None or time is None else Window(time, window),
        )
        with monitor.writing() as live:  # so that mistakes are errors here, and do not make the stream fail later
            self.index = live.index
        counts = {str(one.query): monitor.counts[name] for name, one in watched.items()}
        monitor.initial = KnownCounts(self.index.epoch, counts)
        self._is_watched = True
        batches = Batches(monitor, where, adopt=adopt, function=function)
        stream = frame.writeStream.foreachBatch(batches).option("checkpointLocation", where)
        return with_plain_failure((stream.trigger(**trigger) if trigger else stream).start())

    @with_plain_errors()
    def _counted(self, index: Index, query: Query, spark: Callable[[], SparkSession]) -> int:
        """Return the number of matches of a query in an index of this graph, without Spark if the index is small."""
        return count_here(index, query) if is_small(index) else int(self.over(index, spark=spark()).count(query))

    def _strategy_for_updates(self, strategy: StrategyName, watched: Mapping[str, Watched], workers: int | None) -> str:
        """Return the strategy of delta queries: that of the first query, since delta queries take the same steps."""
        check_strategy(strategy)
        first = next((one.query for one in watched.values()), None)
        if strategy != "auto" or first is None:
            return "shared" if strategy == "auto" else strategy
        return self._choose(meaning(first, self.index.base.statistics)[0], self.index.base, strategy, workers=workers)[0]

    def close(self) -> None:
        """Remove the files of results and the scratch index, if there is one, and stop the queries that other threads run.

        Frames from `find` cannot be read afterwards.
        """
        self._running.stop("the graph was closed while this query ran: make it again")
        self._results.free()
        for folder in (self._scratch, None if self._compacted is None else self._compacted[1].path.parent):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
        self._compacted = None

    def __enter__(self) -> Graph:
        return self

    def __repr__(self) -> str:
        kind = "directed" if self.directed else "undirected"
        return f"Graph({self.vertex_count:,} vertices, {self.edge_count:,} {kind} edges)"


def monitor_of(
    graph: Graph,
    watched: Mapping[str, Watched],
    run: RunOptions,
    *,
    output: Path | None = None,
    order: str | None = None,
    window: Window | None = None,
    spark: Callable[[], SparkSession] | None = None,
) -> Monitor:
    """Return the monitor of queries over a graph's index; `spark` is called only if a session is needed."""
    from bigjoin.streaming.monitor import Monitor

    check_numbers(workers=run["workers"], batch_size=run["batch_size"])
    session = spark or (lambda: graph.spark)
    return Monitor(
        graph.index.path.absolute(),
        watched,
        spark=session,
        initial=count_here if run["strategy"] == LOCAL else partial(graph._counted, spark=session),
        output=output,
        order=order,
        window=window,
        strategy=graph._strategy_for_updates(run["strategy"], watched, run["workers"]),
        workers=run["workers"],
        batch_size=run["batch_size"],
        verify=graph.index.verifies,
    )


def _updates_and_queries(
    updates: TableLike | Watchable, queries: Watchable | TableLike | None
) -> tuple[TableLike, Watchable | None]:
    """Return updates and queries, swapped if their types show that they were given in the other order."""
    is_text_before_rows = isinstance(updates, str) and not isinstance(queries, (str, Query, Mapping, type(None)))
    if isinstance(updates, (Query, Mapping)) or is_text_before_rows:
        updates, queries = queries, updates
    return updates, cast("Watchable | None", queries)


def _table(updates: TableLike, index: Index) -> pa.Table:
    """Return updates of a graph as an Arrow table."""
    if updates is None:
        raise BigjoinError("there are no updates: give a DataFrame, an Arrow table, a pandas frame or a path")
    from bigjoin.spark.sources import given_rows

    rows = given_rows(updates, "updates", None)
    if isinstance(rows, str):
        from bigjoin.streaming.update_files import read_file

        return read_file(Path(rows), index)
    return rows if isinstance(rows, pa.Table) else rows.toArrow()
