"""Files of rows: Parquet and text, opened as edges or vertices and read in bounded pieces, or read whole as a relation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from bigjoin.errors import SourceError
from bigjoin.index.stage_runner import StageRunner, in_threads
from bigjoin.ingest.delimited import read_delimited
from bigjoin.ingest.parquet import open_parquet
from bigjoin.ingest.table import EDGES, VERTICES, Kind, Table, reading
from bigjoin.ingest.text import open_text
from bigjoin.paths import COMPRESSED_SUFFIXES, UNREADABLE_SUFFIXES, check_regular, format_suffix

PARQUET_SUFFIXES = (".parquet", ".parq", ".pq")
SEPARATORS = (",", "\t", "|", ";")
"""What may stand between the columns of a relation in a text file; without any of them, spaces do, and rows are edges."""

Named = TypeVar("Named", pa.Table, pa.Schema)

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def open_edges(source: str, *, columns: Sequence[str] | None = None, properties: bool = True) -> Table:
    """Return a file or folder as edges: src, dst, and the other columns as properties."""
    return open_files(source, EDGES, columns=columns, properties=properties)


def open_vertices(source: str, *, columns: Sequence[str] | None = None) -> Table:
    """Return a file or folder as vertices: id, and the other columns as properties."""
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

    `columns` picks the ids and the properties from a source with titles, and names the columns of one without. All of a text
    file is looked at before its types are known: `run` does that, piece by piece. `drop_nulls` lets lines pass that lack an id.
    """
    with reading(source):
        if _is_parquet(source):
            return open_parquet(source, kind, columns=columns, properties=properties)
        return open_text(source, kind, columns=columns, properties=properties, drop_nulls=drop_nulls, run=run)


def read_whole(source: str) -> pa.Table:
    """Return all columns and rows of a file or folder: Parquet, CSV with any usual separator, or an edge list."""
    with reading(source):
        if _is_parquet(source):
            return named_apart(pq.read_table(source), source)
        path = Path(source)
        skipped, lines = _first_lines(path)
        if not lines:
            raise SourceError(f"{source} has no rows: it is empty, or holds only comments")
        separator = max(SEPARATORS, key=lines[0].count)
        if separator not in lines[0] and format_suffix(source) not in (".csv", ".tsv", ".tbl"):
            edges = open_edges(source)
            return pa.Table.from_batches([batch for split in edges.splits for batch in split.read()], edges.schema)
        titled = not any(_NUMBER.fullmatch(word.strip().strip('"')) for word in lines[0].split(separator))
        table = read_delimited(path, separator, titled=titled, skipped=skipped)
        return named_apart(table if titled else table.rename_columns([f"c{i + 1}" for i in range(table.num_columns)]), source)


def _is_parquet(source: str) -> bool:
    """Tell whether a source is Parquet, or else text; refuse what does not exist or is neither."""
    check_regular(source)
    path = Path(source)
    if path.suffix.lower() in UNREADABLE_SUFFIXES:
        raise SourceError(
            f"{source}: bigjoin does not read {path.suffix}; use {', '.join(COMPRESSED_SUFFIXES)} or no compression"
        )
    if not path.exists():
        raise SourceError(f"there is no file or directory {source}")
    if path.is_dir() and not any(path.rglob("*.parquet")):
        raise SourceError(f"{source} is neither an index (it has no manifest.json) nor a folder of Parquet files")
    return path.is_dir() or format_suffix(source) in PARQUET_SUFFIXES


def _first_lines(path: Path) -> tuple[int, list[str]]:
    """Return how many lines of comments a file begins with, and its first line of data, if it has one."""
    with pa.input_stream(str(path)) as stream:
        start = stream.read(1 << 16).decode("utf-8", errors="replace")
    lines = start.splitlines()
    skipped = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return skipped, [line for line in lines[skipped:] if line.strip()][:1]


def named_apart(columns: Named, source: str) -> Named:
    """Return columns if no two of them have one name."""
    names = columns.column_names if isinstance(columns, pa.Table) else columns.names
    if twice := next((name for i, name in enumerate(names) if name in names[:i]), None):
        raise SourceError(f"{source} has two columns called {twice!r}: rename one of them")
    return columns
