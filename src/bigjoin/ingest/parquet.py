"""Parquet: a file, or a folder of files that hold the same columns, cut by row groups."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from bigjoin.errors import SourceError
from bigjoin.ingest.columns import cast, check_64_bits, common_type, id_type, joined_type, property_type
from bigjoin.ingest.table import BATCH, Kind, Table, choose, from_text, to_text, warn_left_out
from bigjoin.paths import is_hidden

SPLIT = 2**20
"""A piece has about so many rows; a larger row group is cut, and each of its pieces passes over the rows before it."""

_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Footer:
    """What the end of a file says about it; `partition` are the columns that its path spells, as in type=x/part.parquet."""

    path: Path
    metadata: pq.FileMetaData
    types: dict[str, pa.DataType]
    partition: dict[str, str | int | None]


def open_parquet(source: str, kind: Kind, *, columns: Sequence[str] | None, properties: bool) -> Table:
    """Return what a Parquet file, or a folder of them, holds; no rows are read."""
    footers = _footers(source)
    first = footers[0]
    for footer in footers:
        if footer.types.keys() != first.types.keys():
            differing = ", ".join(repr(name) for name in sorted(footer.types.keys() ^ first.types.keys()))
            raise SourceError(f"{footer.path} and {first.path} do not have the same columns: only one has {differing}")
    keys, others = choose(kind, list(first.types), source, columns=columns, properties=properties)
    key_type = _key_type(footers, keys, source)
    found = {name: _shared_type(footers, name, source) for name in others}
    warn_left_out(source, [name for name in others if found[name] is None], "its type is nested, or none that properties have")
    fields = [(end, key_type) for end in kind.ends] + [(name, found[name]) for name in others if found[name] is not None]
    schema = pa.schema(fields)
    wanted = [*keys, *schema.names[len(keys) :]]
    described = {"format": "parquet", "source": source, "columns": wanted, "schema": to_text(schema)}
    splits = tuple({**described, **piece} for footer in footers for piece in _pieces(footer))
    span = _span(footers, keys, source) if pa.types.is_integer(key_type) else None
    return Table(source, keys, schema, splits, sum(footer.metadata.num_rows for footer in footers), span)


def read_parquet(split: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    """Read the rows of one piece."""
    schema, source, partition = from_text(split["schema"]), split["source"], split["partition"]
    own = [name for name in split["columns"] if name not in partition]
    groups = range(*split["groups"])
    skip, left = split["skip"], split["rows"]
    with pq.ParquetFile(split["path"], buffer_size=2**20, pre_buffer=False) as file:
        for batch in file.iter_batches(BATCH, row_groups=groups, columns=own, use_threads=False):
            passed = min(skip, batch.num_rows)
            rows = batch.slice(passed, left)
            skip, left = skip - passed, left - rows.num_rows
            if not rows.num_rows:
                continue
            arrays = []
            for name, field in zip(split["columns"], schema, strict=True):
                values = pa.repeat(pa.scalar(partition[name], field.type), rows.num_rows) if name in partition else rows[name]
                arrays.append(cast(values, field.type, column=name, source=source))
            yield pa.record_batch(arrays, schema=schema)
            if not left:
                return


def _footers(source: str) -> list[Footer]:
    """Return the footers of a source's files, in the order of their paths."""
    path = Path(source).absolute()
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
    """Return the values of a partition column: integers if all are, in their usual spelling; else text."""
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


def _key_type(footers: list[Footer], keys: tuple[str, ...], source: str) -> pa.DataType:
    """Return the type that all ids of a source get."""
    for name in keys:
        for footer in footers:
            id_type(footer.types[name], name, source)
    kinds = [_shared_type(footers, name, source) for name in keys]
    shared = None if None in kinds else common_type(kinds[0], kinds[-1])
    if shared is None:
        raise SourceError(
            f"columns {keys[0]!r} and {keys[-1]!r} of {source} differ in type ({kinds[0]}, {kinds[-1]}): cast one of them"
        )
    return joined_type(shared)


def _shared_type(footers: list[Footer], name: str, source: str) -> pa.DataType | None:
    """Return the type that a column gets from what it is in every file; None if it has to be left out."""
    first = footers[0]
    shared = property_type(first.types[name])
    for footer in footers[1:]:
        found = property_type(footer.types[name])
        if shared is None or found is None:
            return None
        before, shared = shared, common_type(shared, found)
        if shared is None:
            raise SourceError(
                f"column {name!r} of {source} differs in type: it is {before} in {first.path} and {found} in {footer.path}"
            )
    return shared


def _pieces(footer: Footer) -> Iterator[dict[str, Any]]:
    """Cut a file: small row groups that follow each other go together, a large one is cut."""
    sizes = [footer.metadata.row_group(i).num_rows for i in range(footer.metadata.num_row_groups)]
    described = {"path": str(footer.path), "partition": footer.partition}
    start = 0
    while start < len(sizes):
        stop, rows = start + 1, sizes[start]
        while stop < len(sizes) and rows + sizes[stop] <= SPLIT:
            rows += sizes[stop]
            stop += 1
        for skip in range(0, rows, SPLIT):
            yield {**described, "groups": [start, stop], "skip": skip, "rows": min(SPLIT, rows - skip)}
        start = stop


def _span(footers: list[Footer], keys: tuple[str, ...], source: str) -> tuple[int, int] | None:
    """Return the smallest and the largest id, if every row group tells."""
    bounds: list[int] = []
    for footer in footers:
        for i in range(footer.metadata.num_row_groups):
            group = footer.metadata.row_group(i)
            columns = {group.column(c).path_in_schema: group.column(c) for c in range(group.num_columns)}
            for key in keys:
                told = columns[key].statistics if key in columns else None
                if told is not None and told.has_min_max:
                    check_64_bits(told.max, column=key, source=source)
                    bounds += (told.min, told.max)
                elif group.num_rows:
                    return None
    return (min(bounds), max(bounds)) if bounds else None
