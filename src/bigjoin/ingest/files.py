"""Files of rows: Parquet, JSON and text, opened as edges or vertices and read in pieces, or read whole as a relation."""

from __future__ import annotations

import codecs
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from bigjoin.errors import SourceError, did_you_mean, shown
from bigjoin.index.manifest_entries import ReadingEntry
from bigjoin.index.stage_runner import StageRunner, in_threads
from bigjoin.ingest.delimited import read_delimited, whole_content
from bigjoin.ingest.encodings import check_text, transcode
from bigjoin.ingest.heading import IS_VALUE, OTHER_SEPARATORS
from bigjoin.ingest.json_lines import EDGE_EXAMPLE, JSON_SUFFIXES, read_json
from bigjoin.ingest.memory import open_table
from bigjoin.ingest.parquet import open_parquet
from bigjoin.ingest.table import EDGES, VERTICES, Kind, Table, choose, edge_columns, reading
from bigjoin.ingest.text import open_text
from bigjoin.paths import (
    COMPRESSED_SUFFIXES,
    UNREADABLE_SUFFIXES,
    NamedPath,
    check_regular,
    format_suffix,
    shown_name,
)
from bigjoin.reading import JUDGED, ReadingOptions

PARQUET_SUFFIXES = (".parquet", ".parq", ".pq")
TABLE_SUFFIXES = (".csv", ".tsv", ".tbl")
"""Files whose first line is a header if it holds words alone."""
SEPARATORS = (",", "\t", "|", ";")
"""What may stand between the columns of a relation in a text file; without any of them, spaces do, and rows are edges."""

Named = TypeVar("Named", pa.Table, pa.Schema)


def open_edges(source: str, *, properties: bool = True, **said: Any) -> Table:
    """Return a file or folder as edges: src, dst, and the other columns as properties."""
    return open_files(source, EDGES, ReadingOptions(**said), properties=properties)


def open_vertices(source: str, **said: Any) -> Table:
    """Return a file or folder as vertices: id, and the other columns as properties."""
    return open_files(source, VERTICES, ReadingOptions(**said))


def open_files(
    source: str,
    kind: Kind,
    said: ReadingOptions = JUDGED,
    *,
    properties: bool = True,
    drop_nulls: bool = False,
    lenient: bool = False,
    run: StageRunner = in_threads,
) -> Table:
    """Return what a file or folder holds as edges or vertices.

    All of a text file is looked at before its types are known: `run` does that, piece by piece. `drop_nulls` lets lines pass
    that lack an id. What is said of lines of text is an error for other files, unless the reader is `lenient`.
    """
    name, path = shown_name(source), Path(source)
    with reading(name):
        if _is_parquet(source):
            if not lenient:
                said.check_is_text(name)
            return open_parquet(name, kind, said, path=path, properties=properties)
        check_text(name, path)
        if format_suffix(source) in JSON_SUFFIXES:
            if not lenient:
                said.check_is_text(name, but="encoding")
            return _not_empty(open_table(_json_rows(path, name), kind, said, properties=properties, source=name), kind)
        return open_text(name, path, kind, said, properties=properties, drop_nulls=drop_nulls, run=run)


def _json_rows(path: Path, name: str) -> pa.Table:
    if not whole_content(path).strip():
        raise SourceError(f"{name} is empty: a row is an object, such as {EDGE_EXAMPLE}")
    return read_json(path, name, EDGE_EXAMPLE)


def _not_empty(table: Table, kind: Kind) -> Table:
    if not table.rows:
        raise SourceError(f"{table.source} has no {kind.noun}: it is empty")
    return replace(table, may_be_empty=False)


def decoded(source: str, said: ReadingOptions, folder: Callable[[], Path]) -> str:
    """Return a source as UTF-8: itself, or, if the user says that it has another encoding, a copy in a folder for scratch."""
    name, path = shown_name(source), Path(source)
    if said.encoding is None or codecs.lookup(said.encoding).name == "utf-8" or path.is_dir() or not path.exists():
        return source
    if format_suffix(source) in PARQUET_SUFFIXES:
        return source
    check_regular(source)
    copy = folder() / f"{uuid.uuid4().hex}{format_suffix(source)}"
    with reading(name):
        transcode(name, path, said.encoding, copy)
    return NamedPath(str(copy), name)


def read_whole(source: str, said: ReadingOptions = JUDGED) -> pa.Table:
    """Return all columns and rows of a file or folder: Parquet, JSON, CSV with any usual separator, or an edge list."""
    return read_relation(source, said)[0]


def read_relation(source: str, said: ReadingOptions = JUDGED, *, lenient: bool = False) -> tuple[pa.Table, ReadingEntry]:
    """Return the columns and rows of a file or folder that a relation has, and how they were read.

    These are all columns, in their order, unless the user names some of them, or two that are src and dst.
    """
    name, path = shown_name(source), Path(source)
    with reading(name):
        if _is_parquet(source):
            if not lenient:
                said.check_is_text(name)
            return relation_columns(named_apart(pq.read_table(source), name), name, said)
        check_text(name, path)
        if format_suffix(source) in JSON_SUFFIXES:
            if not lenient:
                said.check_is_text(name, but="encoding")
            return relation_columns(_json_rows(path, name), name, said)
        skipped, lines = first_lines(path)
        if not lines:
            raise SourceError(f"{name} has no rows: it is empty, or holds only comments")
        separator = said.delimiter or max(SEPARATORS, key=lines[0].count)
        if said.delimiter is not None and separator not in lines[0]:
            likely = next((f", such as --delimiter {one!r} (delimiter={one!r})" for one in SEPARATORS if one in lines[0]), "")
            raise SourceError(
                f"{name} has no {separator!r} in its first line, {shown(lines[0], 80)!r}: "
                f"give the delimiter that it has{likely}"
            )
        if separator not in lines[0] and format_suffix(name) not in TABLE_SUFFIXES:
            return _edge_list(source, said)
        titled, judged = _is_titled(name, [words(line, separator) for line in lines], said)
        table = read_delimited(path, separator, titled=titled, skipped=skipped, source=name)
        if not titled:
            names = said.columns or [f"c{i + 1}" for i in range(table.num_columns)]
            if len(names) != table.num_columns:
                raise SourceError(f"{len(names)} columns are named, and the first line of {name} has {table.num_columns}")
            table, said = table.rename_columns(list(names)), replace(said, columns=None)
        chosen, entry = relation_columns(named_apart(table, name), name, said, titled=titled)
        guessed = separator if said.delimiter is None and separator in OTHER_SEPARATORS else None
        return chosen, replace(entry, header=titled, judged=lines[0] if judged else None, separator=guessed)


def relation_columns(
    table: pa.Table, source: str, said: ReadingOptions, *, titled: bool = True
) -> tuple[pa.Table, ReadingEntry]:
    """Return the columns of a table that a relation has, and how it was read."""
    columns: Sequence[str] = said.columns or table.column_names
    if said.src is not None or said.dst is not None:
        columns = choose(EDGES, table.column_names, source, replace(said, columns=None), properties=False, titled=titled).keys
    for name in columns:
        if name not in table.column_names:
            hint = did_you_mean(name, table.column_names) or f"it has {', '.join(table.column_names)}"
            raise SourceError(f"{source} has no column {name!r}; {hint}")
    return table.select(list(columns)), ReadingEntry(source, tuple(columns))


def _edge_list(source: str, said: ReadingOptions) -> tuple[pa.Table, ReadingEntry]:
    """Return the rows of a text whose fields are separated by blanks, as edges with properties."""
    places = said if said.src is not None or said.dst is not None or said.columns is not None else replace(said, src=1, dst=2)
    try:
        edges = open_files(source, EDGES, said)
    except SourceError:
        if said is places:
            raise
        edges = open_files(source, EDGES, places)  # all columns are the relation's, whatever they are called
    table = pa.Table.from_batches([batch for split in edges.splits for batch in split.read()], edges.schema)
    assert edges.reading is not None
    if said.src is not None or said.dst is not None:
        table = table.select(list(EDGES.ends))
    return table, edges.reading


def words(line: str, separator: str) -> list[str]:
    """Return the fields of a line, without blanks and quotes around them."""
    return [word.strip().strip('"') for word in line.split(separator)]


def _is_titled(source: str, lines: list[list[str]], said: ReadingOptions) -> tuple[bool, bool]:
    """Tell whether the first line of a relation is its header, and whether only the looks of its words tell."""
    first, below = lines[0], lines[1:2]
    if said.header is not None:
        return said.header, False
    names = [str(one) for one in (*(said.columns or ()), said.src, said.dst) if one is not None and not str(one).isdigit()]
    if edge_columns(first) is not None or (names and set(names) <= set(first)):
        return True, False
    if any(map(IS_VALUE.fullmatch, first)):
        return False, False
    above_numbers = any(IS_VALUE.fullmatch(word) for words in below for word in words)
    return above_numbers or format_suffix(source) in TABLE_SUFFIXES, not above_numbers


def _is_parquet(source: str) -> bool:
    """Tell whether a source is Parquet, or else text; refuse what does not exist or is neither."""
    check_regular(source)
    path, source = Path(source), shown_name(source)
    if path.suffix.lower() in UNREADABLE_SUFFIXES:
        raise SourceError(
            f"{source}: bigjoin does not read {path.suffix}; use {', '.join(COMPRESSED_SUFFIXES)} or no compression"
        )
    if not path.exists():
        raise SourceError(f"there is no file or directory {source}")
    if path.is_dir() and not any(path.rglob("*.parquet")):
        raise SourceError(f"{source} is neither an index (it has no manifest.json) nor a folder of Parquet files")
    return path.is_dir() or format_suffix(str(path)) in PARQUET_SUFFIXES


def first_lines(path: Path) -> tuple[int, list[str]]:
    """Return how many lines of comments a file begins with, and its first two lines of data."""
    with pa.input_stream(str(path)) as stream:
        start = stream.read(1 << 16).decode("utf-8-sig", errors="replace")
    lines = start.splitlines()
    skipped = next((i for i, line in enumerate(lines) if not line.startswith(("#", "%"))), len(lines))
    return skipped, [line for line in lines[skipped:] if line.strip()][:2]


def named_apart(columns: Named, source: str) -> Named:
    """Return columns if no two of them have one name."""
    names = columns.column_names if isinstance(columns, pa.Table) else columns.names
    if twice := next((name for i, name in enumerate(names) if name in names[:i]), None):
        raise SourceError(f"{source} has two columns called {twice!r}: rename one of them")
    return columns
