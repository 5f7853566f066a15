"""Parquet: a file, or a folder of files with the same columns, read in pieces of row groups."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from bigjoin.errors import SourceError
from bigjoin.ingest.columns import cast, check_64_bits, common_type, property_type
from bigjoin.ingest.table import BATCH_ROWS, Kind, Table, reading, typed_columns
from bigjoin.paths import is_hidden
from bigjoin.reading import JUDGED, ReadingOptions

SPLIT_ROWS = 2**20
"""Approximate rows of a piece; a larger row group is cut, and each of its pieces skips the rows before it."""

_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Footer:
    """The footer of a file; `partition` has the columns that its path spells, as in type=x/part.parquet."""

    path: Path
    metadata: pq.FileMetaData
    types: dict[str, pa.DataType]
    partition: dict[str, str | int | None]


def open_parquet(source: str, kind: Kind, said: ReadingOptions = JUDGED, *, path: Path, properties: bool) -> Table:
    """Return a Parquet file, or a folder of them, as edges or vertices; no rows are read."""
    footers = _footers(source, path.absolute())
    first = footers[0]
    for footer in footers:
        if footer.types.keys() != first.types.keys():
            differing = ", ".join(repr(name) for name in sorted(footer.types.keys() ^ first.types.keys()))
            raise SourceError(f"{footer.path} and {first.path} do not have the same columns: only one has {differing}")
    choice, schema = typed_columns(
        kind, list(first.types), source, partial(_shared_type, footers, source), said, properties=properties
    )
    keys, names = choice.keys, (*choice.keys, *choice.others)
    splits = [split for footer in footers for split in _splits(footer, source, names, schema)]
    span = _span(footers, keys, source) if pa.types.is_integer(schema.field(0).type) else None
    rows = sum(footer.metadata.num_rows for footer in footers)
    return Table(source, keys, schema, splits, rows, span, reading=choice.entry(source))


@dataclass(frozen=True)
class ParquetSplit:
    """Some row groups of a file, or some rows of a large one, behind `skip` others that belong to other pieces."""

    source: str
    path: str
    names: tuple[str, ...]
    schema: pa.Schema
    partition: Mapping[str, str | int | None]
    groups: tuple[int, int]
    skip: int
    rows: int

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read the rows."""
        own = [name for name in self.names if name not in self.partition]
        skip, left = self.skip, self.rows
        with reading(self.source), pq.ParquetFile(self.path, buffer_size=2**20, pre_buffer=False) as file:
            for batch in file.iter_batches(BATCH_ROWS, row_groups=range(*self.groups), columns=own, use_threads=False):
                passed = min(skip, batch.num_rows)
                rows = batch.slice(passed, left)
                skip, left = skip - passed, left - rows.num_rows
                if rows.num_rows:
                    yield pa.record_batch(
                        [self._column(rows, *column) for column in zip(self.names, self.schema, strict=True)],
                        schema=self.schema,
                    )
                if not left:
                    return

    def _column(self, rows: pa.RecordBatch, name: str, field: pa.Field) -> pa.Array:
        if name in self.partition:
            return pa.repeat(pa.scalar(self.partition[name], field.type), rows.num_rows)
        return cast(rows[name], field.type, column=name, source=self.source)


def _footers(source: str, path: Path) -> list[Footer]:
    """Return the footers of a source's files, in the order of their paths."""
    if not path.is_dir():
        return [_footer(source, path, {})]
    inside = sorted(file.relative_to(path) for file in path.rglob("*") if file.is_file())
    files = [file for file in inside if not any(map(is_hidden, file.parts))]
    if not any(file.suffix.lower() == ".parquet" for file in files):
        raise SourceError(f"{source} is neither an index (it has no manifest.json) nor a folder of Parquet files")
    spelled = [dict(unquote(part).split("=", 1) for part in file.parts[:-1] if "=" in part) for file in files]
    names = {name for values in spelled for name in values}
    partitions = {name: _typed([values.get(name, "") for values in spelled]) for name in names}
    return [_footer(source, path / file, {name: partitions[name][i] for name in spelled[i]}) for i, file in enumerate(files)]


def _typed(values: list[str]) -> list[pa.Scalar]:
    """Return the values of a partition column: integers if all are spelled as integers print, otherwise text."""
    known = [None if value == _NULL_PARTITION else value for value in values]
    if all(value is None or re.fullmatch(r"0|-?[1-9]\d{0,17}", value) for value in known):
        return [pa.scalar(None if value is None else int(value), pa.int64()) for value in known]
    return [pa.scalar(value, pa.string()) for value in known]


def _footer(source: str, path: Path, partition: dict[str, pa.Scalar]) -> Footer:
    try:
        with pq.ParquetFile(path) as file:
            metadata, schema, leaves = file.metadata, file.schema_arrow, file.schema
    except pa.ArrowInvalid:
        reason = "is not a Parquet file, or is cut off" if path.stat().st_size else "is not a Parquet file: it is empty"
        raise SourceError(f"{source} cannot be read: {path} {reason}") from None
    if twice := next((name for name in schema.names if schema.names.count(name) > 1), None):
        raise SourceError(f"{path} has two columns named {twice!r}")
    uuids = {leaf.path for leaf in map(leaves.column, range(len(leaves))) if leaf.logical_type.type == "UUID"}
    types = {field.name: pa.uuid() if field.name in uuids else field.type for field in schema}
    outside = {name: value for name, value in partition.items() if name not in types}
    types.update({name: value.type for name, value in outside.items()})
    return Footer(path, metadata, types, {name: value.as_py() for name, value in outside.items()})


def _shared_type(footers: list[Footer], source: str, name: str) -> pa.DataType:
    """Return the type that holds a column's values in all files, or the type that it has in some file and cannot be read."""
    first = footers[0]
    shared = first.types[name]
    for footer in footers:
        found = property_type(footer.types[name])
        if found is None:
            return footer.types[name]
        before, shared = shared, found if footer is first else common_type(shared, found)
        if shared is None:
            raise SourceError(
                f"column {name!r} of {source} differs in type: it is {before} in {first.path} and {found} in {footer.path}"
            )
    return shared


def _splits(footer: Footer, source: str, names: tuple[str, ...], schema: pa.Schema) -> Iterator[ParquetSplit]:
    """Cut a file into pieces: consecutive small row groups go together, a large one is cut."""
    sizes = [footer.metadata.row_group(i).num_rows for i in range(footer.metadata.num_row_groups)]
    start = 0
    while start < len(sizes):
        stop, rows = start + 1, sizes[start]
        while stop < len(sizes) and rows + sizes[stop] <= SPLIT_ROWS:
            rows += sizes[stop]
            stop += 1
        for skip in range(0, rows, SPLIT_ROWS):
            left = min(SPLIT_ROWS, rows - skip)
            yield ParquetSplit(source, str(footer.path), names, schema, footer.partition, (start, stop), skip, left)
        start = stop


def _span(footers: list[Footer], keys: tuple[str, ...], source: str) -> tuple[int, int] | None:
    """Return the smallest and the largest id, if every row group has statistics."""
    bounds: list[int] = []
    for footer in footers:
        for i in range(footer.metadata.num_row_groups):
            group = footer.metadata.row_group(i)
            columns = {group.column(c).path_in_schema: group.column(c) for c in range(group.num_columns)}
            for key in keys:
                statistics = columns[key].statistics if key in columns else None
                if statistics is not None and statistics.has_min_max:
                    check_64_bits(statistics.max, column=key, source=source)
                    bounds += (statistics.min, statistics.max)
                elif group.num_rows:
                    return None
    return (min(bounds), max(bounds)) if bounds else None
