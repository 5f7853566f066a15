"""Build an index: of a path, a DataFrame, an Arrow table, a pandas frame, or another index."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bigjoin.defaults import MAX_SHARDS, PART_SIZE
from bigjoin.errors import BigjoinError, SourceError, warn_of_reading
from bigjoin.index.directory import EDGE, Index
from bigjoin.index.manifest_entries import RELATION_NAME, Manifest, check_name
from bigjoin.index.stage_runner import StageRunner, in_threads
from bigjoin.index.writer import verify, writing
from bigjoin.ingest.build import Blueprint, GraphRelation, build
from bigjoin.ingest.copy import copy
from bigjoin.ingest.files import decoded, open_files
from bigjoin.ingest.held import can_hold
from bigjoin.ingest.memory import TABLE, open_table
from bigjoin.ingest.python_rows import is_columns, is_networkx, networkx_edges, networkx_vertices
from bigjoin.ingest.scan import DistinctValues, Scan, ScannedChunk
from bigjoin.ingest.table import EDGES, VERTICES, Kind, Table, warn_left_out
from bigjoin.languages import parse
from bigjoin.materialize import check_queries, definitions, store
from bigjoin.notebook import with_progress
from bigjoin.paths import check_regular
from bigjoin.query.query import Query
from bigjoin.reading import JUDGED, ReadingOptions
from bigjoin.signatures import with_known_keywords
from bigjoin.spark.failures import with_plain_errors
from bigjoin.spark.session import common_directory
from bigjoin.spark.sources import Session, TableLike, column_names, no_session, read_rows, session_of
from bigjoin.spark.store_options import index_at, place_with_options
from bigjoin.spark.tasks import runner
from bigjoin.storage import Place, is_on_store
from bigjoin.storage.scratch import scratch_directory
from bigjoin.streaming.compaction import without_runs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_BYTES_READ_HERE = 1 << 29
"""The types of a larger text file are learned in Spark's tasks."""
MAX_ROWS_INDEXED_HERE = 6_000_000
"""Up to this many rows, this process builds the index alone: Spark's jobs would take longer than the work."""


@with_known_keywords("build_index")
@with_plain_errors()
@with_progress("building an index", progress="stage", share="share")
def build_index(
    edges: TableLike | Mapping[str, TableLike],
    path: str | Place,
    *,
    vertices: TableLike | None = None,
    directed: bool | None = None,
    shards: int | None = None,
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
    materialized: Mapping[str, str | Query] | None = None,
    part_size: int = PART_SIZE,
    spark: Session = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] = lambda _: None,
    share: Callable[[float], None] | None = None,
) -> Index:
    """Build an index of a graph in a directory or on a store, where it stays, and return it.

    Open the index with `Graph.open`. If the directory already has an index, it is replaced once the new one is complete.

    If you do not say how a source is to be read, bigjoin judges by its content. If you may have meant something else, you get a
    warning or an error.

    Examples:
        >>> index = bj.build_index([(1, 2), (2, 3), (3, 1)], "friends.index", directed=False)
        >>> bj.Graph.open("friends.index").count("triangle", unique=True)
        1

    Args:
        edges: The edges, as for `Graph`: one table, whose relation is called `edge`, or a mapping of names to tables. Or the
            path of an index, to write that index again with other `shards` or as undirected.
        path: The directory for the index, or its URL on a store, such as `s3://bucket/graph.index`.
        vertices: A table of vertices. The column `id` has their ids; further columns become properties.
        directed: Whether edges have a direction, as for `Graph`.
        shards: The number of workers to divide the lists among; by default 1.
        properties: Whether to keep the further columns of edges.
        parallel: Whether to give every row an id even if there are no further columns, so that parallel edges count.
        labels: The column of `vertices` that has labels (by default `label`). Each label becomes a relation.
        types: A column of edge types. Each type becomes a relation, in addition to the relation of all edges.
        src: The column of the sources of edges, by name or by position from 1.
        dst: The column of their targets.
        id: The column of the ids of vertices.
        columns: Names for the columns of a text file without a header. For other sources, the columns to read.
        header: Whether the first line of a text file is a header.
        delimiter: What separates the columns of a text file.
        encoding: The encoding of a text file; by default UTF-8.
        drop_nulls: Whether to drop edges with a NULL id. By default, they are an error.
        materialized: Queries whose results to store, by the names of the relations that they become.
        part_size: Roughly how many rows a task holds at once. If it is smaller than usual, edges are never all in memory.
        spark: The session that builds large indices.
        storage_options: What fsspec needs to open the store, as for `Graph.open`.
        progress: A function to call with the name of each stage.
        share: A function to call now and then with the share of a stage that is done.
    """
    said = ReadingOptions(src, dst, id, columns, header, delimiter, encoding)
    path = place_with_options(path, storage_options, None if callable(spark) else spark)
    if shards is not None and not 1 <= shards <= MAX_SHARDS:
        raise BigjoinError(f"shards is {shards}; it must be at least 1, and at most {MAX_SHARDS:,}")
    if part_size < 1:
        raise BigjoinError(f"part_size is {part_size}; it must be at least 1")
    queries = {name: parse(q) if isinstance(q, str) else q for name, q in (materialized or {}).items()}
    check_queries(queries)

    def commit(make: Callable[[Path], Manifest], run: StageRunner) -> Index:
        """Commit an index whose files `make` writes into a folder, with the results of queries."""
        with writing(path) as writer:
            manifest = store(make(writer.folder), writer.folder, queries, run, part=part_size, progress=progress)
            progress("committing")
            return writer.commit(manifest, run)

    if isinstance(edges, (str, Path)):
        check_regular(edges)
    known = index_at(edges, storage_options)
    if known is not None:
        if parallel or drop_nulls or not properties or any(g is not None for g in (vertices, labels, types)) or said != JUDGED:
            raise BigjoinError(f"{edges} is an index: only its shards can change, and whether it is directed")
        index = without_runs(Index.open(known))
        progress("verifying")  # the copy of a damaged index would have new checksums
        verify(index)
        run, was_directed = run_for(index, spark, share), _is_directed(index)
        same = directed is not False or not was_directed  # otherwise queries have other matches
        if same:
            queries = {**definitions(index), **queries}

        def copied(folder: Path) -> Manifest:
            dealt = shards or index.shards
            manifest = copy(index, folder, run, directed=was_directed and same, shards=dealt, part=part_size, progress=progress)
            return _following(manifest, index.manifest, same) if path.resolve() == known.resolve() else manifest

        return commit(copied, run)
    progress("looking at the source")
    named: Mapping[str, TableLike] = {EDGE: edges} if not isinstance(edges, Mapping) or is_columns(edges) else edges
    if not named:
        raise BigjoinError("there are no edges: give at least one relation")
    if is_networkx(edges):
        vertices = networkx_vertices(edges) if vertices is None else vertices
        named = {EDGE: networkx_edges(edges, directed=directed)}
    lenient = len(named) + (vertices is not None) > 1
    with _GraphSource(spark, said, path, properties=properties, drop_nulls=drop_nulls, lenient=lenient) as source:
        relations: list[GraphRelation] = []
        for name, rows in named.items():
            table = source.open(rows, EDGES, number=len(relations))
            whole = GraphRelation(name, table, rowwise=parallel or len(table.schema) > 2)
            for relation in (whole, *(source.types_of(whole, types, len(relations)) if types is not None else ())):
                check_name(relation.name, [other.name for other in relations])
                relations.append(relation)
        of_vertices = None
        if vertices is not None:
            of_vertices = source.open(vertices, VERTICES, number=len(relations))
            if labels is not None:
                _check_column(of_vertices, labels, "labels")
        blueprint = Blueprint(
            tuple(relations), of_vertices, labels, directed is not False, shards or 1, drop_nulls=drop_nulls, part=part_size
        )
        rows = blueprint.rows
        holds = rows is not None and part_size >= PART_SIZE and can_hold(rows)
        is_small = rows is not None and rows <= MAX_ROWS_INDEXED_HERE
        here = holds or is_small or all(table.in_memory for table in blueprint.tables)
        run = in_threads if here or is_on_store(path) else _runner(spark, share)  # a draft for a store is on this machine

        def scan_frames(scan: Scan) -> list[ScannedChunk]:
            if not source.frames:
                return []
            from bigjoin.spark.read import scan_frame

            found = (
                scan_frame(scan, blueprint.scanned(n), frame, blueprint.tables[n].schema, path)
                for n, frame in source.frames.items()
            )
            return [chunk for chunks in found for chunk in chunks]

        return commit(partial(build, blueprint, run=run, holds=holds, scan_others=scan_frames, progress=progress), run)


@dataclass
class _GraphSource:
    """Opens the tables of a graph, and holds those that are DataFrames, and the decoded copies of files, until it is closed."""

    spark: Session
    said: ReadingOptions
    target: Path
    """Where the index will be, beside which every executor sees files."""
    properties: bool
    drop_nulls: bool
    lenient: bool
    """Whether there are several tables, and what is said of lines of text is about those that are text."""
    frames: dict[int, DataFrame] = field(default_factory=dict)
    """By the number of their table."""
    scratch: list[Path] = field(default_factory=list)

    def __enter__(self) -> _GraphSource:
        return self

    def __exit__(self, *_: object) -> None:
        for folder in self.scratch:
            shutil.rmtree(folder, ignore_errors=True)

    def open(self, given: TableLike, kind: Kind, *, number: int) -> Table:
        """Return a table of edges or vertices, ready to be scanned; warn if a user may have meant other columns."""
        table = self._open(given, kind, number)
        if table.reading is not None and table.reading.is_guess:
            warn_of_reading(f"{table.source}: {table.reading.sentence(kind.ends)}")
        return table

    def _open(self, given: TableLike, kind: Kind, number: int) -> Table:
        properties = self.properties or kind is VERTICES
        said = replace(self.said, columns=None) if kind is VERTICES else self.said
        rows, said = read_rows(given, kind.noun, self.spark, kind, said)
        if isinstance(rows, str):
            large = Path(rows).is_file() and Path(rows).stat().st_size > MAX_BYTES_READ_HERE
            return open_files(
                decoded(rows, said, partial(self._folder, large=large)),
                kind,
                said,
                properties=properties,
                drop_nulls=self.drop_nulls,
                lenient=self.lenient,
                run=self._run(large=large),
            )
        source = str(given) if isinstance(given, (str, Path)) else TABLE if isinstance(rows, pa.Table) else "the DataFrame"
        if not self.lenient:
            said.check_is_text(source)
        if isinstance(rows, pa.Table):
            return open_table(rows, kind, said, properties=properties)
        from bigjoin.spark.read import frame_table

        table, self.frames[number] = frame_table(rows, source, kind, said, properties=properties)
        return table

    def _folder(self, *, large: bool) -> Path:
        """Return a folder for a decoded copy, which tasks read if it is large."""
        shared = large and self.spark is not no_session and not is_on_store(self.target)
        folder = common_directory(session_of(self.spark), self.target, "decoded") if shared else scratch_directory("decoded")
        self.scratch.append(folder)
        return self.scratch[-1]

    def _run(self, *, large: bool) -> StageRunner:
        """Return how to read all of a source: in Spark's tasks if it is large."""
        return _runner(self.spark) if large and not is_on_store(self.target) else in_threads

    def types_of(self, whole: GraphRelation, column: str, number: int) -> list[GraphRelation]:
        """Return a relation for each value of a column of types."""
        table = whole.table
        _check_column(table, column, "types")
        if number in self.frames:
            values = {row[0] for row in self.frames[number].select(column).distinct().collect()} - {None}
        else:
            large = not table.in_memory and (table.rows is None or table.rows > MAX_ROWS_INDEXED_HERE)
            values = {value for found in self._run(large=large)(DistinctValues(column), table.splits) for value in found}
        names = {value: str(value) for value in values if RELATION_NAME.fullmatch(str(value))}
        warn_left_out(table.source, sorted(str(v) for v in values - names.keys()), "no relation can have that name", "type")
        return [replace(whole, name=name, only=(column, value)) for value, name in sorted(names.items(), key=lambda e: e[1])]


def edges_and_vertices(
    first: TableLike | Mapping[str, TableLike], others: Sequence[TableLike], vertices: TableLike | None
) -> tuple[TableLike, TableLike]:
    """Return two tables as edges and vertices, in either order, if the names of their columns say which is which."""
    names = [column_names(table) for table in (first, *others)]
    are_edges = [known is not None and EDGES.named(known) is not None for known in names]
    are_vertices = [
        known is not None and not are_edges[i] and VERTICES.named(known) is not None for i, known in enumerate(names)
    ]
    if vertices is None and len(names) == 2:
        if are_edges[0] and are_vertices[1]:
            return first, others[0]
        if are_vertices[0] and are_edges[1]:
            return others[0], first
    raise BigjoinError(
        "Graph takes one table of edges, and further tables by name: write Graph(edges, vertices=vertices), or "
        "Graph({'follows': edges1, 'pays': edges2})"
    )


def _check_column(table: Table, column: str, purpose: str) -> None:
    """Refuse a column that is not among the properties of a table."""
    others = table.schema.names[len(table.keys) :]
    if column not in others:
        raise SourceError(
            f"{table.source} has no column {column!r} for {purpose}; its further columns are: {', '.join(others) or 'none'}"
        )


def run_for(index: Index, spark: Session, share: Callable[[float], None] | None = None) -> StageRunner:
    """Return how to process all of an index: in Spark's tasks if it is large."""
    tuples = sum((relation.rows or relation).tuples for relation in index.statistics.relations.values())
    return in_threads if tuples <= MAX_ROWS_INDEXED_HERE or is_on_store(index.path) else _runner(spark, share)


def _runner(spark: Session, share: Callable[[float], None] | None = None) -> StageRunner:
    """Return what executes the stages of a large index: Spark's tasks, or threads where there is no session."""
    return in_threads if spark is no_session else runner(session_of(spark), share)


@with_progress("making the graph undirected")
def undirected_copy(index: Index, path: Place) -> Index:
    """Write the undirected graph of an index at `path`, in this process."""
    with writing(path) as writer:
        manifest = copy(index, writer.folder, in_threads, directed=False, shards=index.shards)
        return writer.commit(manifest, verified=index.verifies)


def _following(manifest: Manifest, old: Manifest, same: bool) -> Manifest:
    """Return the manifest of an index that is written again in its own place: it keeps what the old one says of updates."""
    kept = ("epoch", "origin", "ledger", "clock", "publications", *(("watched",) if same else ()))
    return replace(manifest, **{name: getattr(old, name) for name in kept})


def _is_directed(index: Index) -> bool:
    return not any(relation.symmetric for relation in index.statistics.relations.values())
