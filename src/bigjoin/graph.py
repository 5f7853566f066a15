"""Graph: a graph, its index, and the verbs that query and update it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from bigjoin.changing_verbs import ChangingVerbs
from bigjoin.defaults import (
    check_numbers,
)
from bigjoin.errors import IndexFormatError
from bigjoin.html_tables import titled
from bigjoin.index.contents import contents_line, contents_table, edge_count, is_directed, sizes_line
from bigjoin.index.directory import VERTEX, Index
from bigjoin.languages import Flags, Text, only_query, read
from bigjoin.local.threads import count_here, is_small
from bigjoin.notebook import with_progress
from bigjoin.query.query import Query
from bigjoin.query.statement import Statement
from bigjoin.signatures import with_known_keywords
from bigjoin.spark.failures import with_plain_errors
from bigjoin.spark.store_options import place_with_options
from bigjoin.storage import Place, is_on_store, remove_folder
from bigjoin.storage.store_scratch import scratch_on_store, scratch_place

if TYPE_CHECKING:  # most programs neither build an index nor change it, and what does that takes a while to import
    from pyspark.sql import SparkSession

    from bigjoin.drawing.drawing import Drawing
    from bigjoin.spark.sources import TableLike

DRAWN_HUBS = 5
"""The largest hubs that a picture of degrees names."""


class Graph(ChangingVerbs):
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

    _scratch: Place | None = None
    """The folder that this graph owns, which `close` removes."""
    _compacted: tuple[str, Index] | None = None
    """If the index cannot be written: its identity, and a copy of it without runs."""

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

    @with_plain_errors()
    def _counted(self, index: Index, query: Query, spark: Callable[[], SparkSession]) -> int:
        """Return the number of matches of a query in an index of this graph, without Spark if the index is small."""
        return count_here(index, query) if is_small(index) else int(self.over(index, spark=spark()).count(query))

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
        return "" if self.index.path.exists() else "; closed"
