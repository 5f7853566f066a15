"""A whole file as one table, with all of its columns: for relations that are no edges."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from bigjoin.errors import SourceError
from bigjoin.ingest.delimited import read_delimited
from bigjoin.ingest.files import PARQUET, open_edges, read
from bigjoin.ingest.table import reading
from bigjoin.paths import check_regular, format_suffix

SEPARATORS = (",", "\t", "|", ";")
"""What may stand between the columns of a text file; without any of them, spaces do, and rows are edges."""

Named = TypeVar("Named", pa.Table, pa.Schema)

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def read_whole(source: str) -> pa.Table:
    """Return the rows of a Parquet file or folder, or of text: CSV with any usual separator, or an edge list."""
    check_regular(source)
    with reading(source):
        path = Path(source)
        if not path.exists():
            raise SourceError(f"there is no file or directory {source}")
        if path.is_dir() or format_suffix(source) in PARQUET:
            if path.is_dir() and not any(path.rglob("*.parquet")):
                raise SourceError(f"{source} is neither an index (it has no manifest.json) nor a folder of Parquet files")
            return named_apart(pq.read_table(path), source)
        skipped, lines = _first_lines(path)
        if not lines:
            raise SourceError(f"{source} has no rows: it is empty, or holds only comments")
        separator = max(SEPARATORS, key=lines[0].count)
        if separator not in lines[0] and format_suffix(source) not in (".csv", ".tsv", ".tbl"):
            edges = open_edges(source)
            return pa.Table.from_batches([batch for split in edges.splits for batch in read(split)], edges.schema)
        titled = not any(_NUMBER.fullmatch(word.strip().strip('"')) for word in lines[0].split(separator))
        table = read_delimited(path, separator, titled=titled, skipped=skipped)
        return named_apart(table if titled else table.rename_columns([f"c{i + 1}" for i in range(table.num_columns)]), source)


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
