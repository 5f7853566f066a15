"""A drop-in for GraphFrames: import `GraphFrame` from here, and `find` uses worst-case optimal joins.

The result is the same DataFrame as GraphFrames returns: a struct for each named element, and every row of the edges counts.
Joins only see keys and row numbers; the structs are added at the end. Their columns come from the index. If the index cannot
hold them (nested columns, several rows with the same vertex id), the tables themselves are joined to the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pyspark import StorageLevel
from pyspark.errors import AnalysisException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bigjoin.defaults import StrategyName
from bigjoin.errors import QueryError, SourceError, did_you_mean
from bigjoin.graph import Graph
from bigjoin.languages import motif, recognized
from bigjoin.languages.motif_terms import MOTIF_EXAMPLE
from bigjoin.query.query import Query
from bigjoin.query.statement import Element, QueryBlock
from bigjoin.query.terms import Property, Term
from bigjoin.rows import Rows
from bigjoin.spark.failures import with_plain_errors
from bigjoin.spark.read import can_be_property, quoted
from bigjoin.storage.scratch import scratch_directory

__all__ = ["GraphFrame", "GraphFrameError"]

ID, SRC, DST, EDGE_NAME = "id", "src", "dst", "edge"
MEMBER, DISTINCT_ROW = "member", "distinct_row"
"""The label of what is in the table of vertices, and the relation of edges in which equal rows are one."""
MAX_COLUMNS_FROM_INDEX = 8
"""Columns of vertices up to which tasks look them up. More are joined to the result: Python need not move them then."""
MAX_CELLS_BROADCAST = 1 << 23
"""Cells of a table up to which it is sent to every executor for that; a larger one stays in the index."""
_ROW = "row"
"""The property with the number of a row, where rows are joined to the result."""


class GraphFrameError(SourceError, ValueError):
    """The tables do not make a graph. This is a `ValueError`, too, as in GraphFrames."""


class GraphFrame:
    """A graph made of two DataFrames, as in GraphFrames.

    Args:
        v: The vertices, with a column `id`. Or an existing GraphFrame, without `e`: then bigjoin answers `find`, and that
            object answers everything that this class does not have.
        e: The edges, with the columns `src` and `dst`.
        strategy: Where queries run; `"auto"` chooses. See `Graph`.
    """

    ID, SRC, DST, EDGE = ID, SRC, DST, EDGE_NAME

    def __init__(self, v: DataFrame | Any, e: DataFrame | None = None, *, strategy: StrategyName = "auto") -> None:
        self._existing: Callable[[], Any] | None = None
        """Gives the existing GraphFrame that answers what this class lacks."""
        if e is None:
            if not (hasattr(v, "vertices") and hasattr(v, "edges")):
                raise GraphFrameError("give vertices and edges, GraphFrame(v, e), or an existing GraphFrame")
            self._existing = lambda: v
        vertices: Any = v.vertices if e is None else v
        edges: Any = v.edges if e is None else e
        for frame, what, needed in ((vertices, "vertices", (ID,)), (edges, "edges", (SRC, DST))):
            if not hasattr(frame, "mapInArrow"):
                raise GraphFrameError(f"the {what} are a {type(frame).__name__}; give a Spark DataFrame")
            if frame.isStreaming:
                raise GraphFrameError(f"the {what} are a stream: give a table, or watch the stream with bj.Graph(...).watch")
            for column in needed:
                if column not in frame.columns:
                    hint = did_you_mean(column, frame.columns) or f"their columns are {', '.join(frame.columns)}"
                    raise GraphFrameError(f"the {what} have no column {column!r}; {hint}; rename one with withColumnRenamed")
            _check_columns(frame, what)
        self._vertices: DataFrame = vertices
        self._edges: DataFrame = edges
        self._strategy: StrategyName = strategy

    @property
    def vertices(self) -> DataFrame:
        """The table of vertices."""
        return self._vertices

    @property
    def nodes(self) -> DataFrame:
        """The table of vertices."""
        return self._vertices

    @property
    def edges(self) -> DataFrame:
        """The table of edges."""
        return self._edges

    @with_plain_errors()
    def find(self, pattern: str) -> DataFrame:
        """Return the matches of a motif, with a struct column for each named element, as GraphFrames does.

        Args:
            pattern: The motif, such as `"(a)-[e]->(b); (b)-[]->(c); !(c)-[]->(a)"`.
        """
        if not isinstance(pattern, str):
            raise QueryError(f"the motif is of type {type(pattern).__name__}: give a text", hint=f"for example {MOTIF_EXAMPLE}")
        language = {"cypher": "Cypher", "sql": "SQL"}.get(recognized(pattern.strip() or "(a)"))
        if language is not None:
            hint = f"ask bj.Graph(edges, vertices=vertices), which takes {language} too"
            raise QueryError(f"this is {language}, and a GraphFrame takes motifs", hint=hint)
        if not pattern.strip(" \t\r\n;"):
            return self._vertices.sparkSession.createDataFrame([], T.StructType([]))
        motif.parse(pattern)  # a mistake is told before anything is indexed
        source = self._source
        has_vertices = MEMBER in source.graph.index.statistics.relations
        members = MEMBER if has_vertices else None  # without any, the table that is joined has no rows
        statement = motif.parse(pattern, members=members)
        elements = [element for block in statement.blocks for element in block.elements]
        if any(element.distinct and not element.is_vertex for element in elements) and self._has_equal_edges:
            statement, source = motif.parse(pattern, members=members, distinct_rows=DISTINCT_ROW), self._source_of_distinct
        graph = source.graph

        def find(query: Query) -> DataFrame:
            return graph.find(query, strategy=self._strategy)

        return _FrameRows(find, graph.index.statistics, source).of(statement)

    @property
    def triplets(self) -> DataFrame:
        """Every edge with its two vertices, as columns src, edge and dst."""
        return self.find("(src)-[edge]->(dst)")

    @with_plain_errors()
    def triangleCount(self) -> DataFrame:  # noqa: N802
        """Return the vertices with a column `count`: the triangles at each vertex, ignoring the direction of edges."""
        key = self._tables.key
        ends = self._edges.select(*(key(F.col(c)).alias(c) for c in (SRC, DST))).dropna().where(F.col(SRC) != F.col(DST))
        members = self._vertices.select(key(F.col(ID)).alias(ID)).dropna().distinct()
        if "count" in self._vertices.columns:
            raise SourceError("the vertices have a column 'count', which triangleCount adds: rename it")
        if members.isEmpty():
            return self._vertices.withColumn("count", F.lit(0).cast("long"))
        with Graph(ends, vertices=members.withColumn("label", F.lit(MEMBER)), directed=False) as graph:
            inside = "t(a, b, c) := edge(a, b), edge(a, c), edge(b, c), member(a), member(b), member(c)"
            found = graph.count(inside, unique=True, by="a as _key", strategy=self._strategy).persist()
            found.count()  # while the graph is open
        counted = self._vertices.join(found, key(self._vertices[ID]) == F.col("_key"), "left").drop("_key")
        return counted.withColumn("count", F.coalesce("count", F.lit(0)))

    def filterVertices(self, condition: str | SparkColumn) -> GraphFrame:  # noqa: N802
        """Return the graph of the vertices that satisfy a condition, and of the edges between them.

        Args:
            condition: A condition on the columns of vertices.
        """
        kept = self._vertices.filter(condition)
        key = self._tables.key
        ids = kept.select(key(F.col(ID)).alias("_kept"))
        edges = self._edges
        for end in (SRC, DST):
            edges = edges.join(ids, key(edges[end]) == F.col("_kept"), "left_semi")
        return self._like(kept, edges, lambda other: other.filterVertices(condition))

    def filterEdges(self, condition: str | SparkColumn) -> GraphFrame:  # noqa: N802
        """Return the graph of the edges that satisfy a condition, and of all vertices.

        Args:
            condition: A condition on the columns of edges.
        """
        return self._like(self._vertices, self._edges.filter(condition), lambda other: other.filterEdges(condition))

    def dropIsolatedVertices(self) -> GraphFrame:  # noqa: N802
        """Return the graph without the vertices that have no edge."""
        key = self._tables.key
        ends = self._edges.select(F.explode(F.array(key(F.col(SRC)), key(F.col(DST)))).alias("_end"))
        kept = self._vertices.join(ends, key(self._vertices[ID]) == F.col("_end"), "left_semi")
        return self._like(kept, self._edges, lambda other: other.dropIsolatedVertices())

    def _like(self, vertices: DataFrame, edges: DataFrame, change: Callable[[Any], Any]) -> GraphFrame:
        """Return a graph of other tables; if this one was made of an existing GraphFrame, that is changed when it is needed."""
        made = GraphFrame(vertices, edges, strategy=self._strategy)
        if (existing := self._existing) is not None:
            made._existing = lambda: change(existing())
        return made

    @property
    def outDegrees(self) -> DataFrame:  # noqa: N802
        """The number of edges that begin at each vertex, if there are any, as columns id and outDegree."""
        return self._edges.groupBy(F.col(SRC).alias(ID)).agg(F.count("*").alias("outDegree"))

    @property
    def inDegrees(self) -> DataFrame:  # noqa: N802
        """The number of edges that end at each vertex, if there are any, as columns id and inDegree."""
        return self._edges.groupBy(F.col(DST).alias(ID)).agg(F.count("*").alias("inDegree"))

    @property
    def degrees(self) -> DataFrame:
        """The number of edges at each vertex that has any, as columns id and degree. A loop counts twice."""
        ends = self._edges.select(F.explode(F.array(SRC, DST)).alias(ID))
        return ends.groupBy(ID).agg(F.count("*").alias("degree"))

    def cache(self) -> GraphFrame:
        """Persist both tables in memory."""
        return self.persist()

    def persist(self, storageLevel: StorageLevel = StorageLevel.MEMORY_ONLY) -> GraphFrame:  # noqa: N803
        """Persist both tables.

        Args:
            storageLevel: Where to keep them, as for Spark's `persist`.
        """
        self._vertices.persist(storageLevel)
        self._edges.persist(storageLevel)
        return self

    def unpersist(self, blocking: bool = False) -> GraphFrame:
        """Free the memory of both tables.

        Args:
            blocking: Whether to wait until it is done.
        """
        self._vertices.unpersist(blocking)
        self._edges.unpersist(blocking)
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if self._existing is not None:
            return getattr(self._existing(), name)
        raise AttributeError(f"bigjoin's GraphFrame has no {name!r}; one made of an existing GraphFrame passes it on to that")

    def __repr__(self) -> str:
        return f"GraphFrame(v:[{', '.join(self._vertices.columns)}], e:[{', '.join(self._edges.columns)}])"

    # The index behind it

    @cached_property
    def _tables(self) -> _Tables:
        return _Tables.of(self._vertices, self._edges)

    @cached_property
    def _source(self) -> _Source:
        return _Source.of(self._tables, with_distinct=False)

    @cached_property
    def _source_of_distinct(self) -> _Source:
        return _Source.of(self._tables, with_distinct=True)

    @cached_property
    def _has_equal_edges(self) -> bool:
        try:
            return self._edges.count() > self._edges.distinct().count()
        except AnalysisException as error:  # maps, for one, cannot be compared
            said = str(error).strip().splitlines()[0]
            raise SourceError(
                f"a negated term removes equal rows, and those of the edges cannot be compared: {said}"
            ) from error


@dataclass(frozen=True)
class _Tables:
    """The tables of a graph, and the one type that their ids are compared in, as Spark would coerce them."""

    vertices: DataFrame
    edges: DataFrame
    type: T.DataType

    @classmethod
    def of(cls, vertices: DataFrame, edges: DataFrame) -> _Tables:
        """Return the tables, with the type that ids share; refuse ids that cannot be compared."""
        found = [vertices.schema[ID].dataType, edges.schema[SRC].dataType, edges.schema[DST].dataType]
        integers = [kind for kind in found if isinstance(kind, T.IntegralType)]
        texts = [kind for kind in found if isinstance(kind, (T.StringType, T.VarcharType, T.CharType))]
        if len({kind.simpleString() for kind in found}) == 1:
            return cls(vertices, edges, found[0])
        if len(integers) + len(texts) == len(found) and integers:
            _check_numbers(vertices, (ID,), "vertices")
            _check_numbers(edges, (SRC, DST), "edges")
            return cls(vertices, edges, T.LongType())
        kinds = ", ".join(f"{name} is {kind.simpleString()}" for name, kind in zip((ID, SRC, DST), found, strict=True))
        raise SourceError(f"the ids of vertices and edges differ in type ({kinds}): cast them to one type")

    def key(self, column: SparkColumn) -> SparkColumn:
        """Return an id in the type that all ids are compared in."""
        return column.cast(self.type)

    @cached_property
    def missing(self) -> tuple[bool, bool]:
        """Whether some vertices have a NULL id, and whether some edges have a NULL end."""
        vertices = self.vertices.select(F.count_if(F.col(ID).isNull()).alias("n")).first()
        edges = self.edges.select(F.count_if(F.col(SRC).isNull() | F.col(DST).isNull()).alias("n")).first()
        assert vertices is not None
        assert edges is not None
        return vertices.n > 0, edges.n > 0

    @cached_property
    def substitutes(self) -> tuple[Any, Any]:
        """What stands for NULL: an id of a vertex that no edge has, and an end of edges that is no vertex."""
        if isinstance(self.type, T.StringType):
            return "\ufffd NULL id", "\ufffd NULL end"
        if not isinstance(self.type, T.IntegralType):
            raise SourceError(
                f"some ids are NULL, and ids are {self.type.simpleString()}: drop those rows, or cast ids to text"
            )
        columns = [self.key(F.col(ID)), self.key(F.col(SRC)), self.key(F.col(DST))]
        lows = [self.vertices.select(F.min(columns[0]).alias("n")), self.edges.select(F.min(F.least(*columns[1:])).alias("n"))]
        lowest = min((row.n for row in (low.first() for low in lows) if row is not None and row.n is not None), default=0)
        return lowest - 1, lowest - 2

    def vertex_key(self) -> SparkColumn:
        """Return the key of a vertex."""
        key = self.key(F.col(ID))
        return F.coalesce(key, F.lit(self.substitutes[0]).cast(self.type)) if self.missing[0] else key

    def end_key(self, end: str) -> SparkColumn:
        """Return the key of an end of an edge."""
        key = self.key(F.col(end))
        return F.coalesce(key, F.lit(self.substitutes[1]).cast(self.type)) if self.missing[1] else key


@dataclass(frozen=True)
class _Source:
    """An index of both tables, and where the columns of a struct come from."""

    tables: _Tables
    graph: Graph
    vertex_properties: dict[str, str] | None
    """The property of each column; None if the table itself is joined."""
    edge_properties: dict[str, str] | None
    rows: DataFrame | None
    """The edges with their numbers, if they are joined."""
    broadcasts: bool
    """Whether the table of vertices is small enough to be sent everywhere."""

    @classmethod
    def of(cls, tables: _Tables, *, with_distinct: bool) -> _Source:
        """Build the index."""
        edges, rows = tables.edges, None
        edge_properties: dict[str, str] | None = _properties(edges)
        if edge_properties is None:
            folder = str(scratch_directory("rows") / "edges")
            try:
                edges.withColumn(_ROW, F.monotonically_increasing_id()).write.parquet(folder)
            except Exception as error:
                said = str(error).strip().splitlines()[0]
                raise SourceError(f"the edges have a column that cannot be kept: {said}; drop or cast it") from error
            rows = edges = edges.sparkSession.read.parquet(folder)
            selected = {_ROW: F.col(_ROW)}
        else:
            selected = {name: F.col(quoted(column)) for column, name in edge_properties.items()}

        def relation(frame: DataFrame) -> DataFrame:
            kept = (column.alias(name) for name, column in selected.items())
            return frame.select(*(tables.end_key(end).alias(end) for end in (SRC, DST)), *kept)

        relations = {"edge": relation(edges)}
        if with_distinct:
            once = edges.dropDuplicates([c for c in edges.columns if c != _ROW])
            relations[DISTINCT_ROW] = relation(once)
        vertex_properties = _properties(tables.vertices)
        keys = tables.vertices.select(tables.vertex_key().alias(ID))
        total = keys.count()
        if vertex_properties is not None:
            distinct = keys.distinct().count()
            is_wide = len(vertex_properties) > MAX_COLUMNS_FROM_INDEX and total * len(vertex_properties) <= MAX_CELLS_BROADCAST
            vertex_properties = vertex_properties if 0 < total == distinct and not is_wide else None
        if vertex_properties is None:
            members = keys.distinct()
        else:
            further = (F.col(quoted(column)).alias(name) for column, name in vertex_properties.items())
            members = tables.vertices.select(tables.vertex_key().alias(ID), *further)
        graph = Graph(relations, vertices=members.withColumn("label", F.lit(MEMBER)), labels="label", parallel=True)
        broadcasts = total * len(tables.vertices.columns) <= MAX_CELLS_BROADCAST
        return cls(tables, graph, vertex_properties, edge_properties, rows, broadcasts)


@dataclass(frozen=True)
class _FrameRows(Rows):
    """Rows whose structs have the columns of the tables."""

    source: _Source

    def _structs(self, block: QueryBlock) -> DataFrame:
        """Return the rows of a motif: a struct for each named element."""
        names: dict[Term, str] = {}

        def column(term: Term) -> str:
            return names.setdefault(term, f"c{len(names)}")

        tables, source = self.source.tables, self.source
        structs: dict[str, list[SparkColumn]] = {}
        joined: list[tuple[Element, str]] = []
        for element in block.elements:
            table = tables.vertices if element.is_vertex else tables.edges
            properties = source.vertex_properties if element.is_vertex else source.edge_properties
            if element.hidden and properties is not None:
                continue
            if properties is None:
                joined.append((element, column(element.attribute if element.is_vertex else Property(element.attribute, _ROW))))
                continue
            structs[element.name] = [
                F.col(column(Property(element.attribute, properties[field.name]))).cast(field.dataType).alias(field.name)
                for field in table.schema
            ]
        if not names:  # no element has a name of its own, but rows count
            column(block.query.attributes[0])
        frame = self.find(replace(block.query, head=tuple(names), names=tuple(names.values())))
        for element, key in joined:
            found = self._table(element)
            frame = frame.join(found.withColumnRenamed("_key", f"_{key}"), F.col(key) == F.col(f"_{key}"))
            frame = frame.withColumnRenamed("_struct", f"s_{key}").drop(f"_{key}")
            structs[element.name] = []
        shown = []
        keys = {element.name: key for element, key in joined}
        for element in (element for element in block.elements if not element.hidden):
            built = F.col(f"s_{keys[element.name]}") if element.name in keys else F.struct(*structs[element.name])
            shown.append(built.alias(element.name))
        return frame.select(*shown)

    def _table(self, element: Element) -> DataFrame:
        """Return a table as keys and structs; each equal row once, if a negated term follows."""
        tables = self.source.tables
        if element.is_vertex:
            table = tables.vertices.distinct() if element.distinct else tables.vertices
            found = table.select(tables.vertex_key().alias("_key"), _struct(table.columns).alias("_struct"))
            return F.broadcast(found) if self.source.broadcasts else found
        assert self.source.rows is not None
        return self.source.rows.select(F.col(_ROW).alias("_key"), _struct(tables.edges.columns).alias("_struct"))


def _check_numbers(frame: DataFrame, columns: tuple[str, ...], what: str) -> None:
    """Refuse text that is not a number where ids elsewhere are numbers, as Spark would in the middle of a join."""
    for column in columns:
        wrong = frame.where(F.col(column).isNotNull() & F.col(column).try_cast("long").isNull()).select(column).first()
        if wrong is not None:
            raise SourceError(
                f"the {what} have {wrong[0]!r} in {column!r}, and other ids are numbers: cast all of them to text"
            )


def _struct(columns: Iterable[str]) -> SparkColumn:
    return F.struct(*(F.col(quoted(column)) for column in columns))


def _properties(frame: DataFrame) -> dict[str, str] | None:
    """Return a plain name for each column, or None if an index cannot hold all of them."""
    if not all(can_be_property(field) for field in frame.schema):
        return None
    return {column: f"p{place}" for place, column in enumerate(frame.columns)}


def _check_columns(frame: DataFrame, what: str) -> None:
    """Refuse a table with two columns that Spark takes for one."""
    lower = [column.lower() for column in frame.columns]
    if twice := next((column for column in frame.columns if lower.count(column.lower()) > 1), None):
        raise SourceError(f"the {what} have two columns called {twice!r}: rename one of them")
