"""Build an index with Spark: the stages of `ingest` run in its tasks, and rows of a DataFrame reach them as Arrow batches.

Edges never come to the driver, and files are read in the tasks, without a detour through the JVM. Between stages data travels
in files of the build's own folder, which every executor must see anyway, as it is where the index will be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bigjoin.index.stage_runner import StageRunner
from bigjoin.ingest.scan import Scan, ScannedChunk, ScannedTable
from bigjoin.spark.read import reading
from bigjoin.spark.tasks import decode, encode, run_tasks


def runner(spark: SparkSession, share: Callable[[float], None] | None = None) -> StageRunner:
    """Return a way to run stages in Spark's tasks."""
    return lambda stage, items: run_tasks(spark, stage, items, progress=share)


def scan_frame(scan: Scan, table: ScannedTable, frame: DataFrame, schema: pa.Schema) -> list[ScannedChunk]:
    """Scan a DataFrame, partition by partition, in tasks of its own session."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Spark gives times in the session's zone, and text of either size of offset.
        for chunk in scan.chunks(table, (batch.cast(schema) for batch in batches)):
            yield pa.RecordBatch.from_pydict({"chunk": [encode(chunk)]})

    with reading(table.source):
        rows = frame.mapInArrow(write, "chunk string").toArrow()
    return [decode(ScannedChunk, chunk) for chunk in rows["chunk"].to_pylist()]
