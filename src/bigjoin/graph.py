"""Graph: a graph, its index, and the verbs that query and update it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

import pyarrow as pa

from bigjoin.defaults import (
    LOCAL,
    BadRowName,
    RunOptions,
    StrategyName,
    SyncName,
    check_numbers,
    check_on_bad_row,
    check_strategy,
    check_sync,
)
from bigjoin.errors import BigjoinError, IndexFormatError
from bigjoin.html_tables import titled
from bigjoin.index.contents import contents_line, contents_table, edge_count, is_directed, sizes_line
from bigjoin.index.directory import VERTEX, Index
from bigjoin.languages import Flags, Text, only_query, read
from bigjoin.local.threads import count_here, is_small
from bigjoin.notebook import with_progress
from bigjoin.planner import meaning
from bigjoin.query.query import Query
from bigjoin.query.statement import Statement
from bigjoin.signatures import with_known_keywords
from bigjoin.spark.failures import with_plain_errors
from bigjoin.spark.store_options import place_with_options
from bigjoin.storage import Place, is_on_store, remove_folder
from bigjoin.storage.place import place_like
from bigjoin.storage.store_scratch import scratch_on_store, scratch_place
from bigjoin.verbs import Verbs

if TYPE_CHECKING:  # most programs neither build an index nor change it, and what does that takes a while to import
    from pyspark.sql import DataFrame, SparkSession

    from bigjoin.drawing.drawing import Drawing
    from bigjoin.spark.sources import TableLike
    from bigjoin.streaming.epoch import Epoch
    from bigjoin.streaming.monitor import Monitor, Observer
    from bigjoin.streaming.update_columns import UpdateColumns
    from bigjoin.streaming.watch_facts import Watch
    from bigjoin.streaming.watched import Watchable, Watched
    from bigjoin.streaming.window import Window

DRAWN_HUBS = 5
"""The largest hubs that a picture of degrees names."""


class Graph(Verbs):
    """A graph that is ready for questions.

    Making a `Graph` reads the edges and builds an index of them, in a scratch directory. `close` removes that directory, and so
    does the end of a `with` block, or of Python. To keep an index, use `build_index` and `Graph.open`.

    All questions (`count`, `find`, `arrow`, `write`, `exists`, `estimate`, `explain`) share these keywords:

    - `distinct`, `unique` and `induced` say what counts as a match. `distinct`: the vertices of a match all differ. `unique`:
      they differ, and each subgraph counts once. `induced`: they differ, and there are no further edges among them.
    - `where` adds conditions, such as `"a < b and e.amount > 100"`. `select` adds columns, such as `"a.name"`.
    - `seeds` restricts attributes to ids, and the search starts from them: `{"a": [5, 7]}`, or a table (or its path) whose
      columns are attributes and whose rows restrict them together.
    - `parameters` are the values of `$name` in Cypher.
    - `deduplicate` returns or counts each row once, if the head leaves attributes out. `cross_product` allows a query whose
      parts share no attribute.
    - `timeout` (seconds), `memory` (bytes for each process, or text such as `"2GB"`) and `cancel` (a `threading.Event`) end a
      query early.
    - `strategy`, `workers` and `batch_size` say how a query runs. The strategies are `"local"` (threads, without Spark),
      `"shared"`, `"partitioned"`, `"heavy-light"` and `"balanced"`; `"auto"` chooses one.

    Examples:
        >>> graph = bj.Graph([(1, 2), (2, 3), (3, 1), (3, 4)], directed=False)
        >>> graph
        Graph: 4 vertices, 4 edges, undirected; edge(src, dst)
        >>> graph.count("triangle", unique=True)
        1

    Args:
        edges: A path (edge list, CSV, JSON, Parquet), a Spark or pandas DataFrame, a table of Arrow or another library, a
            NetworkX graph, or a list of tuples or dictionaries. The ends of an edge are the columns `src` and `dst`; further
            columns become properties. Give a mapping of names to such tables to have several relations.
        *tables: A second table, as in GraphFrames' `Graph(vertices, edges)`, if the columns show which table is which.
        vertices: A table of vertices. The column `id` has their ids; further columns become properties.
        directed: Whether edges have a direction. If not, loops are dropped, and every edge is read in both directions.
        properties: Whether to keep the further columns of edges.
        parallel: Whether to give every row an id even if there are no further columns, so that parallel edges count.
        labels: The column of `vertices` that has labels (by default `label`). Each label becomes a relation.
        types: A column of edge types. Each type becomes a relation, in addition to the relation of all edges.
        src: The column of the sources of edges, by name or by position from 1.
        dst: The column of their targets.
        id: The column of the ids of vertices.
        columns: Names for the columns of a text file without a header. For other sources, the columns to read.
        header: Whether the first line of a text file is a header. By default, bigjoin judges by its content.
        delimiter: What separates the columns of a text file.
        encoding: The encoding of a text file; by default UTF-8.
        drop_nulls: Whether to drop edges with a NULL id. By default, they are an error.
        spark: The session that runs queries. By default, the active one, or a local one that starts when it is needed.
    """

    index: Index
    _scratch: Place | None = None
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
        self._scratch = scratch_place("graph")
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
    def open(
        cls,
        path: str | Place,
        *,
        epoch: int | None = None,
        verify: bool = True,
        spark: SparkSession | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Graph:
        """Open an index that `build_index` or `bigjoin index` has built, at its current version or after an earlier epoch.

        Args:
            path: The directory of the index, or its URL on a store, such as `s3://bucket/graph.index`.
            epoch: One of the last epochs, if the index was watched with `keep_epochs`: the graph is opened as it was after
                that epoch, and cannot be changed.
            verify: Whether to check the files that a query reads, once on each machine, and to refuse damaged ones. Unchecked
                files that are damaged may give wrong answers or crash the process.
            spark: The session that runs queries, as for `Graph`.
            storage_options: What fsspec needs to open the store, such as credentials, if it does not find that by itself. It
                travels to Spark's tasks, and is never written or shown.
        """
        check_numbers(epoch=epoch)
        index = Index.open(place_with_options(path, storage_options, spark).absolute(), verify=verify, epoch=epoch)
        if VERTEX not in index.manifest.domains:
            raise IndexFormatError(f"the index {path} is not that of a graph: it has no domain {VERTEX!r}")
        if any(entry.definition is not None for entry in index.manifest.relations.values()):
            from bigjoin.materialize import check_definitions

            check_definitions(index)
        return cls.over(index, spark=spark)

    @classmethod
    def over(cls, index: Index, *, spark: SparkSession | None = None, scratch: Place | None = None) -> Graph:
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

        self.flush()

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
        """Return a copy of the graph whose queries run in another session.

        The original still owns the files, so do not close it while you use the copy.

        Args:
            spark: The session for the copy.
        """
        return self.over(self.index, spark=spark)

    @property
    def directed(self) -> bool:
        """Whether edges have a direction."""
        return is_directed(self.index.statistics)

    @property
    def vertex_count(self) -> int:
        """The number of vertices. A vertex is an id that occurs in an edge or in the table of vertices."""
        return self.index.statistics.domains[VERTEX]

    @property
    def edge_count(self) -> int:
        """The number of edges in all relations. Parallel edges count once, and so do both directions of undirected edges."""
        return edge_count(self.index.statistics)

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

    @with_plain_errors()
    def draw_degrees(self) -> Drawing:
        """Draw how many vertices have which degree, on logarithmic scales.

        The degree of a vertex is the number of edges at it, in and out, in all relations. Below stand the vertices with the
        most edges.

        Examples:
            >>> bj.Graph([(1, 2), (2, 3), (3, 1), (3, 4)], directed=False).draw_degrees()
            Drawing('4 vertices, 4 undirected edges')
        """
        from bigjoin.drawing.degree_plot import degree_plot
        from bigjoin.index.trust import verify_degrees

        index = self._without_runs()
        verify_degrees(index, VERTEX)
        ids, degrees = index.dictionaries[VERTEX].ids, index.manifest.degrees
        hubs = [(ids[code].as_py(), degree) for code, degree in degrees.hubs[:DRAWN_HUBS]]
        edges = f"{self.edge_count:,} {'directed' if self.directed else 'undirected'} edges"
        return degree_plot(degrees.histogram, hubs, title=f"{self.vertex_count:,} vertices, {edges}")

    def undirected(self) -> Graph:
        """Return this graph as an undirected one: without loops, and with each edge in both directions."""
        if not self.directed:
            return self
        from bigjoin.indexing import undirected_copy

        at = self.index.path
        scratch = scratch_on_store(at.parent, "graph") if is_on_store(at) else scratch_place("graph")
        return self.over(undirected_copy(self._without_runs(), scratch / "index"), spark=self._spark, scratch=scratch)

    @with_known_keywords(flags=Flags)
    @with_plain_errors()
    @with_progress("finding and storing matches")
    def materialize(self, name: str, query: Text, **flags: Unpack[Flags]) -> int:
        """Store the result of a query as a relation of the index, and return how many tuples it has.

        Queries can use the relation like any other. Its columns are the attributes of the head. If the query has only atoms, no
        filters and no flags, plans also use the relation by themselves, wherever it replaces several atoms of another query.
        The relation belongs to this index: an index that is built again starts without it.

        Args:
            name: The name of the new relation.
            query: The query whose result to store.
            **flags: What counts as a match, and conditions: `distinct`, `unique`, `induced`, `where` and so on.
        """
        from bigjoin.indexing import run_for
        from bigjoin.materialize import materialize
        from bigjoin.streaming.compaction import compact_in_place

        asked = only_query(read(query, **flags))
        with self._lock:
            self._check_present()
            self.flush()
            self.index = compact_in_place(self.index)
            self.index = materialize(self.index, {name: asked}, run_for(self.index, lambda: self.spark))
            return self.index.statistics.relations[name].tuples

    @with_known_keywords(flags=Flags)
    @with_plain_errors()
    @with_progress("applying updates")
    def apply(
        self,
        updates: TableLike | Watchable,
        queries: Watchable | TableLike | None = None,
        *,
        by: str | Sequence[str] | None = None,
        listing: bool = True,
        order: str | None = None,
        key: str | None = None,
        src: str | None = None,
        dst: str | None = None,
        op: str | None = None,
        on_bad_row: BadRowName = "fail",
        sync: SyncName = "epoch",
        keep_epochs: int | None = None,
        strategy: StrategyName = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        **flags: Unpack[Flags],
    ) -> Epoch:
        """Apply a table of updates as one epoch, and return how it changed the results of queries.

        Pass the same queries with every epoch: a query that the previous epoch did not have is counted from scratch. You can
        give updates and queries in either order; if both are strings, the first is the path of the updates.

        Examples:
            >>> graph = bj.Graph([(1, 2), (2, 3), (3, 1)], directed=False)
            >>> epoch = graph.apply([{"src": 3, "dst": 1, "op": "-"}], "triangle", unique=True)
            >>> epoch.created, epoch.destroyed, epoch.count
            (0, 1, 0)

        Args:
            updates: A table, or the path of one, with the columns `src`, `dst` and `op` (`+` or `-`, `insert` or `delete`, 1
                or -1). Without a column `op`, every row is an insertion.
            queries: A query, or a mapping of names to queries.
            by: Attributes, properties or expressions to count the matches by, as in `count`: rows that change are reported.
            listing: Whether to list the matches that were created and destroyed. If not, they are only counted, which is
                cheaper.
            order: The column whose order updates follow. Without it, deletions come first, and replacements last.
            key: The column that tells parallel edges apart: an update of an edge is about the one with the same value.
            src: The column of the sources of edges, if it has another name.
            dst: The column of the targets of edges, if it has another name.
            op: The column that says what an update does, if it has another name.
            on_bad_row: What to do with rows that cannot be read: `"fail"` refuses the epoch, `"skip"` leaves them out, and
                counts them as `bad` in the epoch's `fate`.
            sync: When the epoch survives a power failure: `"epoch"`, before it is returned; `"group"`, within a tenth of a
                second, together with others; `"none"`, when you call `flush`. `epoch.durable` says whether it does.
            keep_epochs: How many epochs before the last one stay readable, with `Graph.open(path, epoch=N)` and `replay`. The
                index remembers the number; 0 ends it.
            strategy: Where the queries run; `"auto"` chooses. See `Graph`.
            workers: The number of tasks or threads, or of owners of keys.
            batch_size: How many matches or proposals to hold at once.
            **flags: What counts as a match, and conditions: `distinct`, `unique`, `induced`, `where` and so on.
        """
        from bigjoin.streaming.update_columns import UpdateColumns
        from bigjoin.streaming.watched import watchable

        check_sync(sync)
        check_on_bad_row(on_bad_row, has_output=False)
        columns = UpdateColumns(src, dst, op)
        rows, asked = _updates_and_queries(updates, queries)
        run = RunOptions(strategy=strategy, workers=workers, batch_size=batch_size)
        grouped = by if isinstance(by, str | None) else [*by]
        settings = (copy(asked), _copied(flags), grouped, listing, order, key, run, sync, columns, on_bad_row, keep_epochs)
        with self._lock:  # an epoch is one thread's, and the next one begins with the index that it leaves
            if self._monitor is None or self._monitor[0] != settings:
                watched = watchable(asked, flags, listing=listing, by=by)
                self.flush()
                made = monitor_of(
                    self,
                    watched,
                    run,
                    order=order,
                    key=key,
                    sync=sync,
                    columns=columns,
                    on_bad_row=on_bad_row,
                    keep_epochs=keep_epochs,
                )
                self._monitor = settings, made
            monitor = self._monitor[1]
            epoch = monitor.apply(_table(rows, self.index, columns))
            assert epoch is not None
            assert monitor.live is not None
            self.index = monitor.live.index
            return epoch

    @with_known_keywords(flags=Flags)
    @with_plain_errors()
    @with_progress("replaying epochs")
    def replay(self, queries: Watchable, *, output: str | Path, first: int, **flags: Unpack[Flags]) -> list[Epoch]:
        """Find again what the last epochs created and destroyed, for queries that may be new, and return these epochs.

        The index has to keep the epochs (`keep_epochs` of `apply` and `watch`). It is not changed, and may be watched
        meanwhile. Of the updates, only those are known that changed the graph.

        Args:
            queries: A query, or a mapping of names to queries.
            output: A new folder for the matches, which are written as `watch` would have written them.
            first: The first epoch to replay. The last is the last one of the index.
            **flags: What counts as a match, and conditions: `distinct`, `unique`, `induced`, `where` and so on.
        """
        from bigjoin.streaming.replay import Replay
        from bigjoin.streaming.watched import watchable

        check_numbers(first=first)
        watched = watchable(queries, flags, listing=True)
        self.flush()
        initial = partial(self._counted, spark=lambda: self.spark)
        path, verify = self.index.path.absolute(), self.index.verifies
        return Replay(path, watched, place_like(output, path).absolute(), first, initial, verify).run()

    @with_plain_errors()
    def flush(self) -> None:
        """Wait until all epochs that `apply` has returned would survive a power failure."""
        with self._lock:
            if self._monitor is not None:
                self._monitor[1].flush()

    @with_known_keywords(flags=Flags)
    @with_plain_errors()
    @with_progress("counting what is watched")
    def watch(
        self,
        queries: Watchable | DataFrame,
        updates: DataFrame | Watchable,
        *,
        by: str | Sequence[str] | None = None,
        output: str | Place | None = None,
        function: Observer | None = None,
        checkpoint: str | None = None,
        order: str | None = None,
        key: str | None = None,
        src: str | None = None,
        dst: str | None = None,
        op: str | None = None,
        on_bad_row: BadRowName = "fail",
        window: str | float | None = None,
        time: str | None = None,
        trigger: Mapping[str, Any] | None = None,
        adopt: bool = False,
        keep_epochs: int | None = None,
        strategy: StrategyName = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        **flags: Unpack[Flags],
    ) -> Watch:
        """Watch queries while a stream of updates changes the graph, and return Spark's streaming query, which is running.

        Each batch of the stream is an epoch. If there is neither `output` nor `function`, only the counts of matches are kept.
        You can give queries and updates in either order. The guide to graphs that change explains the guarantees.

        Besides what every streaming query of Spark has, the result has the `epoch` that was committed last, the `counts` after
        it, the `queries` and the `output`.

        Args:
            queries: A query, or a mapping of names to queries.
            updates: A streaming DataFrame with the columns `src`, `dst` and `op` (`+` or `-`, `insert` or `delete`, 1 or -1).
                Without a column `op`, every row is an insertion. Columns that cannot fit the graph are refused at once.
            by: Attributes, properties or expressions to count the matches by, as in `count`: rows that change are reported.
            output: A folder for the matches that each epoch creates and destroys. They are written exactly once, as
                `epoch=N/*.parquet` (in a folder for each query, if queries have names), and their counts to `_counts.jsonl`.
            function: A function to call with every `Epoch` before it is committed. It is called at least once, each time with
                the same number and rows.
            checkpoint: Where Spark records its progress; by default, inside the output folder.
            order: The column whose order the updates of a batch follow. Without it, deletions come first, and replacements
                last.
            key: The column that tells parallel edges apart: an update of an edge is about the one with the same value.
            src: The column of the sources of edges, if it has another name.
            dst: The column of the targets of edges, if it has another name.
            op: The column that says what an update does, if it has another name.
            on_bad_row: What to do with rows that cannot be read: `"fail"` stops the stream; `"skip"` leaves them out, and
                counts them as `bad`; `"quarantine"` writes them to `_quarantine` in the output folder as well.
            window: How long edges live: a number in the unit of the column `time`, or a duration such as `"7 days"`. An edge
                expires once its time is this far behind the latest.
            time: The column with the times of edges, for `window`.
            trigger: The arguments of Spark's `trigger`.
            adopt: Whether to accept a checkpoint that the index was not watched with before.
            keep_epochs: How many epochs before the last one stay readable, as for `apply`.
            strategy: Where the queries run; `"auto"` chooses. See `Graph`.
            workers: The number of tasks or threads, or of owners of keys.
            batch_size: How many matches or proposals to hold at once.
            **flags: What counts as a match, and conditions: `distinct`, `unique`, `induced`, `where` and so on.
        """
        from bigjoin.streaming.batches import Batches, KnownCounts, as_watch, check_checkpoint, columns_of
        from bigjoin.streaming.update_columns import UpdateColumns
        from bigjoin.streaming.watch_facts import WatchBeginning
        from bigjoin.streaming.watched import watchable
        from bigjoin.streaming.window import Window

        rows, asked = _updates_and_queries(updates, queries)
        if not hasattr(rows, "writeStream"):
            raise BigjoinError(f"updates is a {type(rows).__name__}; give a streaming DataFrame")
        frame = cast("DataFrame", rows)
        if (window is None) != (time is None):
            raise BigjoinError("a window is a length and the column it is about: give both window= and time=")
        self._check_present()
        check_numbers(workers=workers, batch_size=batch_size)
        check_on_bad_row(on_bad_row, has_output=output is not None)
        watched = watchable(asked, flags, listing=output is not None or function is not None, by=by)
        folder = None if output is None else place_like(output, self.index.path).absolute()
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
            key=key,
            window=None if window is None or time is None else Window(time, window),
            columns=UpdateColumns(src, dst, op),
            on_bad_row=on_bad_row,
            keep_epochs=keep_epochs,
        )
        monitor.check(columns_of(frame), "the stream")
        with monitor.writing() as live:  # so that mistakes are errors here, and do not make the stream fail later
            self.index = live.index
        counts = {one.text: monitor.counts[name] for name, one in watched.items()}
        monitor.initial = KnownCounts(self.index.epoch, counts)
        self._is_watched = True
        batches = Batches(monitor, where, adopt=adopt, function=function)
        stream = frame.writeStream.foreachBatch(batches).option("checkpointLocation", where)
        texts = {name: one.text for name, one in watched.items()}
        beginning = WatchBeginning(self.index.path.absolute(), texts, folder, self.index.epoch, dict(monitor.counts))
        return as_watch((stream.trigger(**trigger) if trigger else stream).start(), beginning)

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

    def _check_present(self) -> None:
        """Refuse to change a graph as it was after an earlier epoch."""
        if self.index.is_past:
            raise BigjoinError(
                f"this is the graph of {self.index.path} as it was after epoch {self.index.epoch:,}, which nobody can change: "
                "open it without epoch="
            )

    def close(self) -> None:
        """Remove the scratch index and the files of results, and stop the queries that other threads are running.

        You cannot read frames from `find` after this. An index that you have opened stays.
        """
        self._running.stop("the graph was closed while this query ran: make it again")
        self.flush()
        self._results.free()
        for folder in (self._scratch, None if self._compacted is None else self._compacted[1].path.parent):
            if folder is not None:
                remove_folder(folder)
        self._compacted = None

    def __enter__(self) -> Graph:
        return self

    def __repr__(self) -> str:
        return f"Graph: {contents_line(self.index.statistics, self.index.epoch)}{self._state}"

    def _repr_html_(self) -> str:
        epoch = f"; epoch {self.index.epoch:,}" if self.index.epoch else ""
        known = self.index.statistics
        return titled("Graph", f"{sizes_line(known)}{epoch}{self._state}", contents_table(known))

    @property
    def _state(self) -> str:
        """What else there is to say of the graph."""
        return "; closed" if self.index.is_gone else ""


def monitor_of(
    graph: Graph,
    watched: Mapping[str, Watched],
    run: RunOptions,
    *,
    output: Place | None = None,
    order: str | None = None,
    key: str | None = None,
    window: Window | None = None,
    sync: SyncName = "epoch",
    columns: UpdateColumns | None = None,
    on_bad_row: BadRowName = "fail",
    keep_epochs: int | None = None,
    spark: Callable[[], SparkSession] | None = None,
) -> Monitor:
    """Return the monitor of queries over a graph's index; `spark` is called only if a session is needed."""
    from bigjoin.streaming.monitor import Monitor
    from bigjoin.streaming.update_columns import UpdateColumns

    graph._check_present()
    check_numbers(workers=run["workers"], batch_size=run["batch_size"], keep_epochs=keep_epochs)
    session = spark or (lambda: graph.spark)
    return Monitor(
        graph.index.path.absolute(),
        watched,
        spark=session,
        initial=count_here if run["strategy"] == LOCAL else partial(graph._counted, spark=session),
        output=output,
        order=order,
        key=key,
        window=window,
        strategy=graph._strategy_for_updates(run["strategy"], watched, run["workers"]),
        workers=run["workers"],
        batch_size=run["batch_size"],
        verify=graph.index.verifies,
        sync=sync,
        columns=columns or UpdateColumns(),
        on_bad_row=on_bad_row,
        keep_epochs=keep_epochs,
    )


def _copied(flags: Flags) -> Flags:
    """Return a copy of flags, which nobody changes; what cannot be copied will be refused."""
    try:
        return deepcopy(flags)
    except Exception:  # of a generator, a frame or whatever else was given
        return flags


def _updates_and_queries(
    updates: TableLike | Watchable, queries: Watchable | TableLike | None
) -> tuple[TableLike, Watchable | None]:
    """Return updates and queries, swapped if their types show that they were given in the other order."""
    is_text_before_rows = isinstance(updates, str) and not isinstance(queries, (str, Query, Mapping, type(None)))
    if isinstance(updates, (Query, Mapping)) or is_text_before_rows:
        updates, queries = queries, updates
    return updates, cast("Watchable | None", queries)


def _table(updates: TableLike, index: Index, columns: UpdateColumns) -> pa.Table:
    """Return updates of a graph as an Arrow table."""
    if updates is None:
        raise BigjoinError("there are no updates: give a DataFrame, an Arrow table, a pandas frame or a path")
    from bigjoin.spark.sources import given_rows

    rows = given_rows(updates, "updates", None)
    if isinstance(rows, str):
        from bigjoin.streaming.update_files import read_file

        return read_file(Path(rows), index, columns)
    return rows if isinstance(rows, pa.Table) else rows.toArrow()
