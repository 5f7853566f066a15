"""Graph: the few public verbs over one graph. Edges in, an int or a Spark DataFrame out."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

from pyspark.sql import SparkSession

from bigjoin.index.directory import VERTEX, Index
from bigjoin.indexing import Rows, build_index, run_for, undirected_copy
from bigjoin.languages import Flags, parse, refine
from bigjoin.materialize import materialize
from bigjoin.query.query import Query
from bigjoin.spark.session import scratch_directory
from bigjoin.verbs import Verbs


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

    def _index_for(self, query: Query) -> Index:
        del query  # a graph's index serves them all
        return self.index

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
        return self._over(undirected_copy(self.index, scratch / "index"), spark=self._spark, scratch=scratch)

    def materialize(self, name: str, query: str | Query, **flags: Unpack[Flags]) -> int:
        """Store a query's result as a relation of the index, and return how many tuples it has.

        Queries may name it like any other relation, with the head's attributes as its columns. If its query is atoms alone,
        without filters or flags, plans read it by themselves wherever it stands for several of a query's atoms. It belongs to
        this version of the index: one that is built anew starts without it.
        """
        asked = refine(query, **flags) if isinstance(query, Query) else parse(query, **flags)
        self.index = materialize(self.index, {name: asked}, run_for(self.index, lambda: self.spark))
        return self.index.statistics.relations[name].tuples

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
