"""Building an index from whatever holds edges: a path, a DataFrame, an Arrow table, a pandas frame, or another index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bigjoin.defaults import MAX_SHARDS, PART_SIZE
from bigjoin.errors import BigjoinError, SourceError
from bigjoin.index.directory import EDGE, Index
from bigjoin.index.entries import RELATION_NAME, check_name
from bigjoin.index.manifest import is_index
from bigjoin.index.stage_runner import StageRunner, in_threads
from bigjoin.index.writer import verify, writing
from bigjoin.ingest.assembly import Chunks
from bigjoin.ingest.build import Blueprint, Relation, build, scan_files
from bigjoin.ingest.columns import common_type
from bigjoin.ingest.copy import copy
from bigjoin.ingest.files import Table, open_files
from bigjoin.ingest.memory import open_table
from bigjoin.ingest.scan import Scan, Values, distinct_values
from bigjoin.ingest.table import EDGES, VERTICES, Kind, warn_left_out
from bigjoin.languages import parse
from bigjoin.materialize import check_queries, definitions, store
from bigjoin.paths import check_regular, is_remote
from bigjoin.query.query import Query
from bigjoin.spark.failures import told
from bigjoin.spark.ingest import ingest, runner
from bigjoin.spark.read import frame_table, read_frame
from bigjoin.spark.session import get_session
from bigjoin.streaming.compaction import without_runs

if TYPE_CHECKING:
    import pandas as pd

Rows: TypeAlias = "DataFrame | pa.Table | pd.DataFrame | str | Path"
"""Whatever holds rows: a DataFrame, an Arrow table, a pandas frame, or a path."""

Session: TypeAlias = "SparkSession | Callable[[], SparkSession] | None"
"""The session to build with, or how to start it if it turns out that one is needed."""

Held: TypeAlias = "DataFrame | list[pa.RecordBatch]"
"""Rows that are not in files: a DataFrame, or batches in memory."""

LARGE = 1 << 29
"""Bytes beyond which Spark's tasks look through a text file to learn its types."""
ALONE = 6_000_000
"""Rows up to which this process builds an index by itself: Spark's jobs would take longer than the work."""


@told()
def build_index(
    edges: Rows | Mapping[str, Rows],
    path: str | Path,
    *,
    vertices: Rows | None = None,
    directed: bool | None = None,
    shards: int | None = None,
    properties: bool = True,
    parallel: bool = False,
    labels: str | None = None,
    types: str | None = None,
    columns: Sequence[str] | None = None,
    drop_nulls: bool = False,
    materialized: Mapping[str, str | Query] | None = None,
    part_size: int = PART_SIZE,
    spark: Session = None,
    progress: Callable[[str], None] = lambda _: None,
    share: Callable[[float], None] | None = None,
) -> Index:
    """Build a durable index at `path`, replacing one that is there when the new one is complete.

    `edges` holds one relation, called edge, or is a mapping of names to relations over one dictionary. Their columns beyond
    the two ends become properties, and `vertices` is a table of the vertices' properties, whose column `labels` (or label)
    gives each label a relation. So does each value of the column `types` of edges, beside the relation of all. `parallel`
    keeps the rows of a relation apart that has no properties. The results of the queries in `materialized` are stored beside
    them, as relations of these names. `shards` is the number of workers that lists are dealt to, and
    `part_size` how many rows a task holds at once, about. The path of an index is written again, with other shards, or
    undirected.
    """
    path = Path(path)
    if shards is not None and not 1 <= shards <= MAX_SHARDS:
        raise BigjoinError(f"shards is {shards}; it must be at least 1, and at most {MAX_SHARDS:,}")
    if part_size < 1:
        raise BigjoinError(f"part_size is {part_size}; it must be at least 1")
    queries = {name: parse(q) if isinstance(q, str) else q for name, q in (materialized or {}).items()}
    check_queries(queries)
    if isinstance(edges, (str, Path)):
        check_regular(edges)
    if isinstance(edges, (str, Path)) and not is_remote(str(edges)) and is_index(Path(edges)):
        if parallel or drop_nulls or not properties or any(g is not None for g in (vertices, columns, labels, types)):
            raise BigjoinError(f"{edges} is an index: only its shards can change, and whether it is directed")
        return _rebuild(
            without_runs(Index.open(edges)), path, Path(edges), directed, shards, queries, part_size, spark, progress, share
        )
    progress("looking at the source")
    reader = _Reader(spark, properties=properties, drop_nulls=drop_nulls)
    named = edges if isinstance(edges, Mapping) else {EDGE: edges}
    if not named:
        raise BigjoinError("there are no edges: give at least one relation")
    relations: list[Relation] = []
    for name, rows in named.items():
        table = reader.open(rows, EDGES, None if relations else columns, number=len(relations))
        whole = Relation(name, table, rowwise=parallel or len(table.schema) > 2)
        for relation in (whole, *(reader.types_of(whole, types, len(relations)) if types is not None else ())):
            check_name(relation.name, [other.name for other in relations])
            relations.append(relation)
    of_vertices = None
    if vertices is not None:
        of_vertices = reader.open(vertices, VERTICES, None, number=len(relations))
        if labels is not None and labels not in of_vertices.schema.names[1:]:
            others = ", ".join(of_vertices.schema.names[1:]) or "none"
            raise SourceError(f"{of_vertices.source} has no column {labels!r} for labels; its further columns are: {others}")
    blueprint = Blueprint(
        tuple(relations),
        of_vertices,
        ids=_type_of_ids([relation.table for relation in relations] + ([of_vertices] if of_vertices else [])),
        labels=labels,
        directed=directed is not False,
        shards=shards or 1,
        drop_nulls=drop_nulls,
        part=part_size,
        may_be_empty=bool(reader.held),
    )
    rows = blueprint.rows
    if rows is not None and (rows <= ALONE or reader.holds_all(blueprint)):
        return _build_here(blueprint, path, reader.held, queries, progress)
    finish = partial(store, queries=queries, part=part_size, progress=progress)
    return ingest(_session(spark), blueprint, path, held=reader.held, finish=finish, progress=progress, share=share)


class _Reader:
    """Opens tables, and holds the rows of those that are not in files which tasks can read."""

    def __init__(self, spark: Session, *, properties: bool, drop_nulls: bool) -> None:
        self.spark, self.properties, self.drop_nulls = spark, properties, drop_nulls
        self.held: dict[int, Held] = {}
        """Rows by the number of their table."""

    def open(self, rows: Rows, kind: Kind, columns: Sequence[str] | None, *, number: int) -> Table:
        """Return what is known of a table."""
        held: Held
        options: dict[str, Any] = {"columns": columns, "properties": self.properties or kind is VERTICES}
        if isinstance(rows, (str, Path)) and not is_remote(str(rows)):
            large = Path(rows).is_file() and Path(rows).stat().st_size > LARGE
            return open_files(str(rows), kind, **options, drop_nulls=self.drop_nulls, run=self.run(large=large))
        if isinstance(rows, (str, Path)):
            table, held = frame_table(read_frame(_session(self.spark), str(rows)), str(rows), kind, **options)
        elif hasattr(rows, "mapInArrow"):
            table, held = frame_table(rows, "the DataFrame", kind, **options)
        else:
            table, held = open_table(rows, kind, **options)
        self.held[number] = held
        return table

    def run(self, *, large: bool) -> StageRunner:
        """Return how to look through a source: by Spark if it is large."""
        return runner(_session(self.spark)) if large else in_threads

    def types_of(self, whole: Relation, column: str, number: int) -> list[Relation]:
        """Return a relation for each value of a column of types."""
        table, held = whole.table, self.held.get(number)
        if column not in table.schema.names[2:]:
            others = ", ".join(table.schema.names[2:]) or "none"
            raise SourceError(f"{table.source} has no column {column!r} for types; its further columns are: {others}")
        if held is None:
            run = self.run(large=table.rows is None or table.rows > ALONE)
            values = {value for found in run(Values(column), table.splits) for value in found}
        elif isinstance(held, list):
            values = set(distinct_values(held, column))
        else:
            values = {row[0] for row in held.select(column).distinct().collect()} - {None}
        names = {value: str(value) for value in values if RELATION_NAME.fullmatch(str(value))}
        warn_left_out(table.source, sorted(str(v) for v in values - names.keys()), "no relation can have that name", "type")
        return [replace(whole, name=name, only=(column, value)) for value, name in sorted(names.items(), key=lambda e: e[1])]

    def holds_all(self, blueprint: Blueprint) -> bool:
        """Tell whether every table is in memory."""
        whole = [n for n in range(len(blueprint.tables)) if not blueprint.is_part(n)]
        return all(isinstance(self.held.get(number), list) for number in whole)


def run_for(index: Index, spark: Session, share: Callable[[float], None] | None = None) -> StageRunner:
    """Return how to go through all of an index: by Spark's tasks if it is large."""
    tuples = sum((relation.rows or relation).tuples for relation in index.statistics.relations.values())
    return runner(_session(spark), share) if tuples > ALONE else in_threads


def undirected_copy(index: Index, path: Path) -> Index:
    """Write the undirected graph of an index at `path`, here and now."""
    with writing(path) as writer:
        manifest = copy(index, writer.folder, in_threads, directed=False, shards=index.shards)
        return writer.commit(manifest, verified=index.verifies)


FOLLOWS = ("epoch", "origin", "ledger", "clock", "publications", "watched")
"""What the manifest says of updates: it stays if an index is written again in its own place."""


def _rebuild(
    index: Index,
    path: Path,
    source: Path,
    directed: bool | None,
    shards: int | None,
    queries: Mapping[str, Query],
    part_size: int,
    spark: Session,
    progress: Callable[[str], None],
    share: Callable[[float], None] | None,
) -> Index:
    """Write an index again, by Spark if it is large; not one that is damaged, whose copy would have new checksums."""
    progress("verifying")
    verify(index)
    run = run_for(index, spark, share)
    undirected = any(relation.symmetric for relation in index.statistics.relations.values())
    if directed is not False or undirected:  # else queries mean something else
        queries = {**definitions(index), **queries}
    with writing(path) as writer:
        options: dict[str, Any] = {"directed": directed is not False and not undirected, "shards": shards or index.shards}
        manifest = copy(index, writer.folder, run, progress=progress, part=part_size, **options)
        manifest = store(manifest, writer.folder, queries, run, part=part_size, progress=progress)
        if path.resolve() == source.resolve():
            same = options["directed"] == (not undirected)  # else queries have other matches
            kept = FOLLOWS if same else FOLLOWS[:-1]
            manifest = replace(manifest, **{name: getattr(index.manifest, name) for name in kept})
        progress("committing")
        return writer.commit(manifest, run)


def _build_here(
    blueprint: Blueprint,
    path: Path,
    held: Mapping[int, Any],
    queries: Mapping[str, Query],
    progress: Callable[[str], None],
) -> Index:
    """Build an index in this process."""

    def scan(stage: Scan, items: list[dict[str, Any]]) -> Chunks:
        chunks = scan_files(stage, items, in_threads)
        return chunks + [c for number, rows in held.items() for c in stage.chunks(rows, blueprint.item(number))]

    with writing(path) as writer:
        manifest = build(blueprint, writer.folder, in_threads, scan=scan, progress=progress)
        return writer.commit(store(manifest, writer.folder, queries, in_threads, part=blueprint.part, progress=progress))


def _session(spark: Session) -> SparkSession:
    if spark is None:
        return get_session()
    return spark() if callable(spark) else spark


def _type_of_ids(tables: Sequence[Table]) -> pa.DataType:
    """Return the type of all ids; refuse tables whose ids could not be in one dictionary."""
    first, *others = tables
    found = first.schema.field(0).type
    texts = [table for table in tables if table.schema.field(0).type == pa.string()]
    for table in others:
        kind = table.schema.field(0).type
        common = common_type(found, kind)
        if common is None and texts and all(table in texts or table.is_text for table in tables):
            return pa.string()  # integers of a text file are spelled as they print
        if common is None:
            raise SourceError(
                f"the ids of {table.source} are {kind}, and those of {first.source} are {found}: cast one of them"
            )
        found = common
    return found
