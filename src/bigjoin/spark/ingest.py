"""Build an index with Spark: the stages of `ingest` run in its tasks, and rows of a DataFrame reach them as Arrow batches.

Edges never come to the driver, and files are read in the tasks, without a detour through the JVM. Between stages data travels
in files of the build's own folder, which every executor must see anyway, as it is where the index will be.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bigjoin.index.directory import Index
from bigjoin.index.entries import Manifest
from bigjoin.index.stage_runner import StageRunner
from bigjoin.index.writer import writing
from bigjoin.ingest.assembly import Chunks
from bigjoin.ingest.build import Blueprint, build, scan_files
from bigjoin.ingest.scan import Scan
from bigjoin.spark.read import reading
from bigjoin.spark.tasks import run_tasks

Finish = Callable[..., Manifest]


def ingest(
    spark: SparkSession,
    blueprint: Blueprint,
    path: Path,
    *,
    held: Mapping[int, Any],
    finish: Finish,
    progress: Callable[[str], None] = lambda _: None,
    share: Callable[[float], None] | None = None,
) -> Index:
    """Build the index of a blueprint at `path`; `held` are the tables, by number, that are DataFrames or in memory.

    `finish` adds to the manifest, in the build's folder, before it is committed.
    """
    run = runner(spark, share)

    def scan(stage: Scan, items: list[dict[str, Any]]) -> Chunks:
        found = scan_files(stage, items, run)
        for number, rows in held.items():
            if hasattr(rows, "mapInArrow"):  # a DataFrame of this kind of session or of the other
                found += _scan_frame(stage, rows, blueprint, number)
            else:
                found += stage.chunks(rows, blueprint.item(number))
        return found

    with writing(path) as writer:
        manifest = build(blueprint, writer.folder, run, scan=scan, progress=progress)
        manifest = finish(manifest=manifest, folder=writer.folder, run=run)
        progress("committing")
        return writer.commit(manifest, run)


def runner(spark: SparkSession, share: Callable[[float], None] | None = None) -> StageRunner:
    """Return a way to run stages in Spark's tasks."""
    return lambda function, items: run_tasks(spark, function, items, progress=share)


def _scan_frame(stage: Scan, frame: DataFrame, blueprint: Blueprint, number: int) -> Chunks:
    """Scan a DataFrame, partition by partition."""
    item, schema = blueprint.item(number), blueprint.tables[number].schema

    def scan(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Spark gives times in the session's zone, and text of either size of offset.
        for chunk in stage.chunks((batch.cast(schema) for batch in batches), item):
            yield pa.RecordBatch.from_pydict({"chunk": [json.dumps(chunk)]})

    with reading(blueprint.tables[number].source):
        rows = frame.mapInArrow(scan, "chunk string").toArrow()
    return [json.loads(chunk) for chunk in rows["chunk"].to_pylist()]
