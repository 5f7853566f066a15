"""Write the rows of a DataFrame to files, from its tasks: for results that Spark has combined from several frames."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from bigjoin.spark.matches import write_batches
from bigjoin.spark.strategy import PartFile


def write_frame(frame: DataFrame, folder: Path, suffix: str) -> tuple[list[PartFile], pa.Schema]:
    """Write the rows of a frame to files in a folder; return the files with their rows, and the columns."""
    columns, where = to_arrow_schema(frame.schema), folder.absolute()

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        file = where / f"part-{uuid.uuid4().hex}{suffix}"
        named = (batch.rename_columns(columns.names).cast(columns) for batch in batches if batch.num_rows)
        if rows := write_batches(named, file, suffix):
            yield pa.RecordBatch.from_pydict({"file": [str(file)], "rows": [rows]})

    plain = frame.toDF(*(f"c{place}" for place in range(len(frame.columns))))  # Spark takes a name with a dot for a field
    written = plain.mapInArrow(write, "file string, rows long").toArrow()
    return [(Path(row["file"]), row["rows"]) for row in written.sort_by("file").to_pylist()], columns
