"""Run a function once for each item, in Spark's tasks: how stages that work on files become a Spark job."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

_Item = TypeVar("_Item")


def run_tasks(spark: SparkSession, function: Callable[[_Item], Any], items: Sequence[_Item]) -> list[Any]:
    """Return function(item) for each item, in their order; results travel as JSON, so they say where data lies, not what it is.

    A task may run twice: what a function writes must have a name of its own, or the same bytes each time.
    """
    if not items:
        return []

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                result = json.dumps(function(items[number]))
                yield pa.RecordBatch.from_pydict({"item": [number], "result": [result]})

    rows = spark.range(0, len(items), 1, len(items)).mapInArrow(run, "item long, result string").toArrow()
    return [json.loads(result) for result in rows.sort_by("item")["result"].to_pylist()]
