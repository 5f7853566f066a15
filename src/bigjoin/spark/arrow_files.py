"""DataFrames of rows that were found already: a small result is part of its frame, a large one lies in Arrow files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from bigjoin.local.matches import arrow_batches, in_microseconds
from bigjoin.spark.held import Held
from bigjoin.spark.tasks import run_numbered
from bigjoin.storage import Place, remove_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAX_BYTES_IN_FRAME = 1 << 19
"""A result of at most this many bytes is part of its frame, and travels to tasks with it; a larger one is read from files."""


def frame_of_files(
    spark: SparkSession, folder: Place, held: Held, tasks: int, write: Callable[[], tuple[Sequence[Place], pa.Schema]]
) -> DataFrame:
    """Return a DataFrame of the rows that `write` puts into Arrow files in a folder, which is then kept only if it is read."""
    files: list[Place] | list[bytes]
    with ExitStack() as removal:
        removal.callback(remove_folder, folder)
        written, columns = write()
        if sum(file.stat().st_size for file in written) <= MAX_BYTES_IN_FRAME:
            files = [file.read_bytes() for file in written]
        else:
            files = list(written)
            held.add(folder, spark)
            removal.pop_all()  # the folder is kept
    return _frame(spark, files, in_microseconds(columns), max(1, min(tasks, len(files))))


def _frame(spark: SparkSession, files: list[Place] | list[bytes], columns: pa.Schema, tasks: int) -> DataFrame:
    """Return a DataFrame that reads Arrow files, or their contents."""
    from pyspark.sql.pandas.types import from_arrow_schema

    def read(number: int) -> Iterator[pa.RecordBatch]:
        for rows in chain.from_iterable(map(arrow_batches, files[number::tasks])):
            yield rows.cast(columns, safe=False)

    return run_numbered(spark, read, tasks, from_arrow_schema(columns))
