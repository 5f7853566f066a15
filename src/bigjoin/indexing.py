"""Building an index from whatever holds edges: a path, a DataFrame, an Arrow table, a pandas frame, or another index."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bigjoin.errors import BigjoinError, SourceError
from bigjoin.index.directory import EDGE, Index
from bigjoin.index.manifest import is_index
from bigjoin.index.run import Run, in_threads
from bigjoin.index.writer import writing
from bigjoin.ingest.assembly import Chunks
from bigjoin.ingest.build import Blueprint, Relation, build, scan_files
from bigjoin.ingest.copy import copy
from bigjoin.ingest.files import Table, open_edges, open_vertices
from bigjoin.ingest.memory import open_table
from bigjoin.ingest.scan import Scan, Values, distinct_values
from bigjoin.ingest.table import EDGES, VERTICES, Kind, warn_left_out
from bigjoin.paths import is_remote
from bigjoin.spark.ingest import ingest, runner
from bigjoin.spark.read import frame_table, read_frame
from bigjoin.spark.session import get_session

if TYPE_CHECKING:
    import pandas as pd

Rows: TypeAlias = "DataFrame | pa.Table | pd.DataFrame | str | Path"
"""Whatever holds rows: a DataFrame, an Arrow table, a pandas frame, or a path."""

Session: TypeAlias = "SparkSession | Callable[[], SparkSession] | None"
"""The session to build with, or how to start it if it turns out that one is needed."""

Held: TypeAlias = "DataFrame | list[pa.RecordBatch]"
"""Rows that are not in files: a DataFrame, or batches in memory."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

LARGE = 1 << 29
"""Bytes beyond which Spark's tasks look through a text file to learn its types."""
ALONE = 6_000_000
"""Rows up to which this process builds an index by itself: Spark's jobs would take longer than the work."""


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
    spark: Session = None,
    progress: Callable[[str], None] = lambda _: None,
    share: Callable[[float], None] | None = None,
) -> Index:
    """Build a durable index at `path`, replacing one that is there when the new one is complete.

    `edges` holds one relation, called edge, or is a mapping of names to relations over one dictionary. Their columns beyond
    the two ends become properties, and `vertices` is a table of the vertices' properties, whose column `labels` (or label)
    gives each label a relation. So does each value of the column `types` of edges, beside the relation of all. `parallel`
    keeps the rows of a relation apart that has no properties. `shards` is the number of workers that lists are dealt to. The
    path of an index is written again, with other shards or undirected.
    """
    path = Path(path)
    if shards is not None and shards < 1:
        raise BigjoinError(f"shards is {shards}; it must be at least 1")
    if isinstance(edges, (str, Path)) and not is_remote(str(edges)) and is_index(Path(edges)):
        if parallel or any(given is not None for given in (vertices, columns, labels, types)):
            raise BigjoinError(f"{edges} is an index: only its shards can change, and whether it is directed")
        return _rebuild(Index.open(edges), path, directed, shards, spark, progress, share)
    progress("looking at the source")
    named = edges if isinstance(edges, Mapping) else {EDGE: edges}
    if not named:
        raise BigjoinError("there are no edges: give at least one relation")
    held: dict[int, Held] = {}
    relations: list[Relation] = []
    for name, rows in named.items():
        table, kept = _open(rows, kind=EDGES, columns=columns, properties=properties, spark=spark)
        whole = Relation(name, table, rowwise=parallel or len(table.schema) > 2)
        for relation in (whole, *(_by_type(whole, types, kept, spark) if types is not None else ())):
            _check_name(relation.name, [other.name for other in relations])
            held |= {} if kept is None else {len(relations): kept}
            relations.append(relation)
    of_vertices = None
    if vertices is not None:
        of_vertices, kept = _open(vertices, kind=VERTICES, columns=None, properties=True, spark=spark)
        held |= {} if kept is None else {len(relations): kept}
    blueprint = Blueprint(
        tuple(relations),
        of_vertices,
        labels=labels,
        directed=directed is not False,
        shards=shards or 1,
        drop_nulls=drop_nulls,
        may_be_empty=bool(held),
    )
    _refuse_mixed(blueprint.tables)
    in_memory = len(held) == len(blueprint.tables) and blueprint.rows is not None
    if in_memory or (blueprint.rows is not None and blueprint.rows <= ALONE):
        return _build_here(blueprint, path, held, progress)
    return ingest(_session(spark), blueprint, path, held=held, progress=progress, share=share)


def undirected_copy(index: Index, path: Path) -> Index:
    """Write the undirected graph of an index at `path`, here and now."""
    with writing(path) as writer:
        return writer.commit(copy(index, writer.folder, in_threads, directed=False, shards=index.shards))


def _rebuild(
    index: Index,
    path: Path,
    directed: bool | None,
    shards: int | None,
    spark: Session,
    progress: Callable[[str], None],
    share: Callable[[float], None] | None,
) -> Index:
    """Write an index again, by Spark if it is large."""
    relations = index.statistics.relations.values()
    run: Run = in_threads
    if sum(relation.tuples for relation in relations) > ALONE:
        run = runner(_session(spark), share)
    directed = directed is not False and not any(relation.symmetric for relation in relations)
    with writing(path) as writer:
        content = copy(index, writer.folder, run, directed=directed, shards=shards or index.shards, progress=progress)
        progress("committing")
        return writer.commit(content)


def _build_here(blueprint: Blueprint, path: Path, held: Mapping[int, Any], progress: Callable[[str], None]) -> Index:
    """Build an index in this process."""

    def scan(stage: Scan, items: list[dict[str, Any]]) -> Chunks:
        chunks = scan_files(stage, items, in_threads)
        return chunks + [c for number, rows in held.items() for c in stage.chunks(rows, blueprint.item(number))]

    with writing(path) as writer:
        return writer.commit(build(blueprint, writer.folder, in_threads, scan=scan, progress=progress))


def _session(spark: Session) -> SparkSession:
    if spark is None:
        return get_session()
    return spark() if callable(spark) else spark


def _open(
    rows: Rows, *, kind: Kind, columns: Sequence[str] | None, properties: bool, spark: Session
) -> tuple[Table, Held | None]:
    """Return what is known of a table, and its rows if they are not in files that tasks can read."""
    if isinstance(rows, (str, Path)):
        if not is_remote(str(rows)):
            large = Path(rows).is_file() and Path(rows).stat().st_size > LARGE
            run = runner(_session(spark)) if large else in_threads
            if kind is VERTICES:
                return open_vertices(str(rows), columns=columns, run=run), None
            return open_edges(str(rows), columns=columns, properties=properties, run=run), None
        return frame_table(read_frame(_session(spark), str(rows)), str(rows), kind, properties=properties)
    if hasattr(rows, "mapInArrow"):
        return frame_table(rows, "the DataFrame", kind, properties=properties)
    return open_table(rows, kind, properties=properties)


def _by_type(whole: Relation, column: str, held: Held | None, spark: Session) -> list[Relation]:
    """Return a relation for each value of a column of types."""
    table = whole.table
    if column not in table.schema.names[2:]:
        others = ", ".join(table.schema.names[2:]) or "none"
        raise SourceError(f"{table.source} has no column {column!r} for types; its further columns are: {others}")
    if held is None:
        large = table.rows is None or table.rows > ALONE
        run = runner(_session(spark)) if large else in_threads
        values = {value for found in run(Values(column), table.splits) for value in found}
    elif isinstance(held, list):
        values = set(distinct_values(held, column))
    else:
        values = {row[0] for row in held.select(column).distinct().collect()} - {None}
    named = {value: str(value) for value in values if _NAME.fullmatch(str(value))}
    warn_left_out(table.source, sorted(str(value) for value in values - named.keys()), "no relation can have that name", "type")
    return [replace(whole, name=name, only=(column, value)) for value, name in sorted(named.items(), key=lambda e: e[1])]


def _check_name(name: str, others: Sequence[str]) -> None:
    if not _NAME.fullmatch(name):
        raise BigjoinError(f"{name!r} cannot name a relation: use letters, digits and _")
    if name in others:
        raise BigjoinError(f"there would be two relations {name!r}: rename one, or the type of edges with that name")


def _refuse_mixed(tables: Sequence[Table]) -> None:
    """Refuse tables whose ids could not be in one dictionary."""
    first = tables[0]
    for table in tables[1:]:
        if table.schema.field(0).type != first.schema.field(0).type:
            raise SourceError(
                f"the ids of {table.source} are {table.schema.field(0).type}, and those of {first.source} are "
                f"{first.schema.field(0).type}: cast one of them"
            )
