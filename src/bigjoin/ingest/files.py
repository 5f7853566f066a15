"""Files of edges and vertices, read in bounded pieces: Parquet and text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from bigjoin.errors import SourceError
from bigjoin.index.stage_runner import StageRunner, in_threads
from bigjoin.ingest.parquet import open_parquet, read_parquet
from bigjoin.ingest.table import EDGES, VERTICES, Kind, Table, reading
from bigjoin.ingest.text import open_text, read_text
from bigjoin.paths import COMPRESSED, UNREADABLE, check_regular, format_suffix

__all__ = ["Table", "open_edges", "open_vertices", "read"]

PARQUET = (".parquet", ".parq", ".pq")


def open_edges(source: str, *, columns: Sequence[str] | None = None, properties: bool = True) -> Table:
    """Return what a file or folder holds as edges: src, dst, and the other columns as properties."""
    return open_files(source, EDGES, columns=columns, properties=properties)


def open_vertices(source: str, *, columns: Sequence[str] | None = None) -> Table:
    """Return what a file or folder holds as vertices: id, and the other columns as properties."""
    return open_files(source, VERTICES, columns=columns)


def open_files(
    source: str,
    kind: Kind,
    *,
    columns: Sequence[str] | None = None,
    properties: bool = True,
    drop_nulls: bool = False,
    run: StageRunner = in_threads,
) -> Table:
    """Return what a file or folder holds as edges or vertices.

    `columns` picks the ids and the properties from a source with titles, and names the columns of one without. Text has to be
    looked through before its types are known: `run` does that, piece by piece. `drop_nulls` lets lines pass that lack an id.
    """
    check_regular(source)
    with reading(source):
        path = Path(source).absolute()
        if path.suffix.lower() in UNREADABLE:
            raise SourceError(f"{source}: bigjoin does not read {path.suffix}; use {', '.join(COMPRESSED)} or no compression")
        if not path.exists():
            raise SourceError(f"there is no file {source}")
        if path.is_dir() and not any(path.rglob("*.parquet")):
            raise SourceError(f"{source} is neither an index (it has no manifest.json) nor a folder of Parquet files")
        if path.is_dir() or format_suffix(source) in PARQUET:
            return open_parquet(source, kind, columns=columns, properties=properties)
        return open_text(source, kind, columns=columns, properties=properties, drop_nulls=drop_nulls, run=run)


def read(split: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    """Read one piece of a table, in batches with exactly the table's schema."""
    with reading(split["source"]):
        yield from read_parquet(split) if split["format"] == "parquet" else read_text(split)
