"""Matches as they leave a strategy: which columns they have, and the files that tasks write."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from bigjoin.join.bind import Output

ARROW = ".arrow"
"""The suffix of files that only a DataFrame of ours reads."""


def schema_of(outputs: Iterable[Output], width: int) -> pa.Schema:
    """Return the columns of matches of `width` attributes; those beyond are tails, which are lists.

    A time is in milliseconds at least, as Parquet has no others.
    """
    fields = []
    for output in outputs:
        kind = in_unit(output.type, "ms", only="s")
        fields.append((output.name, pa.list_(kind) if output.position >= width else kind))
    return pa.schema(fields)


def in_microseconds(schema: pa.Schema) -> pa.Schema:
    """Return the columns as Spark has them: its times are in microseconds."""
    return pa.schema([(field.name, in_unit(field.type, "us")) for field in schema])


def in_unit(kind: pa.DataType, unit: str, only: str | None = None) -> pa.DataType:
    """Return a type with another unit, if it is a time (in one certain unit) or a list of times."""
    if pa.types.is_list(kind):
        return pa.list_(in_unit(kind.value_type, unit, only))
    return pa.timestamp(unit, kind.tz) if pa.types.is_timestamp(kind) and only in (None, kind.unit) else kind


def file_writer(file: Path, schema: pa.Schema, suffix: str) -> Any:
    """Return what writes batches of matches to a file: Parquet, CSV without titles, or Arrow."""
    if suffix == ".csv":
        options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")
        return pyarrow.csv.CSVWriter(file, schema, write_options=options)
    return pa.ipc.new_file(str(file), schema) if suffix == ARROW else pq.ParquetWriter(file, schema)
