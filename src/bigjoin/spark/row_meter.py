"""A bound on the rows of a DataFrame: its tasks tell each other how many they have (`local/row_bound.py`)."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from bigjoin.local.row_bound import RowBound
from bigjoin.spark.held import Held
from bigjoin.spark.session import common_directory
from bigjoin.storage import Place


def bounded_rows(frame: DataFrame, most: int | None, index: Place, held: Held) -> DataFrame:
    """Return a frame that cannot be read if it has more than `most` rows; what its tasks note is added to `held`."""
    if most is None:
        return frame
    folder = common_directory(frame.sparkSession, index, "rows")
    held.add(folder, frame.sparkSession)
    return _at_most(frame, RowBound(most, folder))


def _at_most(frame: DataFrame, bound: RowBound) -> DataFrame:
    """Return a frame that cannot be read if it has too many rows."""

    def check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        yield from bound.watched(batches, 0 if context is None else context.partitionId())

    return frame.mapInArrow(check, frame.schema)
