"""Write the rows of a DataFrame to files, from its tasks: for results that Spark itself has put together from matches."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from bigjoin.spark.matches import file_writer


def schema_of_frame(frame: DataFrame) -> pa.Schema:
    """Return the columns of a frame, all of them nullable."""
    return to_arrow_schema(frame.schema)


def write_frame(frame: DataFrame, columns: pa.Schema, folder: Path, suffix: str) -> list[tuple[Path, int]]:
    """Write the rows of a frame to files in a folder; return the files, and how many rows each has."""
    where = str(folder.absolute())

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        file, rows, writer = Path(where) / f"part-{uuid.uuid4().hex}{suffix}", 0, None
        for batch in batches:
            if batch.num_rows:
                writer = writer or file_writer(file, columns, suffix)
                writer.write_batch(batch.cast(columns))
                rows += batch.num_rows
        if writer is not None:
            writer.close()
            yield pa.RecordBatch.from_pydict({"file": [str(file)], "rows": [rows]})

    written = frame.mapInArrow(write, "file string, rows long").toArrow()
    return [(Path(row["file"]), row["rows"]) for row in written.sort_by("file").to_pylist()]
