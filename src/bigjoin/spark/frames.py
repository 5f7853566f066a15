"""What a DataFrame is in Arrow: its columns, and its rows as files, which its tasks write."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from bigjoin.local.matches import PartFile, write_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the columns of frames in Arrow's types; times with a zone are in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # before Spark 4.3, times are in UTC without being asked
        return to_arrow_schema(schema)


def arrow_type(kind: DataType) -> pa.DataType:
    """Return a type of Spark's in Arrow; a struct without fields stands for types that Arrow does not have."""
    from pyspark.sql.types import StructField, StructType

    try:
        return arrow_schema(StructType([StructField("value", kind)])).field(0).type
    except Exception:  # Spark's own, of several kinds
        return pa.struct([])


def write_frame(frame: DataFrame, folder: Path, suffix: str) -> tuple[list[PartFile], pa.Schema]:
    """Write the rows of a frame to files in a folder; return the files with their rows, and the columns."""
    columns, where = arrow_schema(frame.schema), folder.absolute()

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        file = where / f"part-{uuid.uuid4().hex}{suffix}"
        named = (batch.rename_columns(columns.names).cast(columns) for batch in batches if batch.num_rows)
        if rows := write_batches(named, file, suffix):
            yield pa.RecordBatch.from_pydict({"file": [str(file)], "rows": [rows]})

    plain = frame.toDF(*(f"c{place}" for place in range(len(frame.columns))))  # Spark takes a name with a dot for a field
    written = plain.mapInArrow(write, "file string, rows long").toArrow()
    return [(Path(row["file"]), row["rows"]) for row in written.sort_by("file").to_pylist()], columns
