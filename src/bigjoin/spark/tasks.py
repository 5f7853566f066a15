"""Run a function once for each item, in Spark's tasks: how stages that work on files become a Spark job."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from bigjoin import errors
from bigjoin.spark.progress import Meter, watching
from bigjoin.spark.session import parallelism

ITEMS = 8
"""Items of one task at most: a task costs as much as a little work, and is what is done again if a machine is lost."""

_seen: set[str] = set()
"""The modules that were loaded when the collector was last told to look away."""

_Item = TypeVar("_Item")


def run_tasks(
    spark: SparkSession,
    function: Callable[[_Item], Any],
    items: Sequence[_Item],
    *,
    progress: Callable[[float], None] | None = None,
) -> list[Any]:
    """Return function(item) for each item, in their order; results travel as JSON, so they say where data lies, not what it is.

    A task may run twice: what a function writes must have a name of its own, or the same bytes each time. An error that
    tells the user something is raised here as it was raised there.
    """
    if not items:
        return []
    with watching(len(items), progress) as meter:

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    result = _attempt(function, items[number])
                    Meter(meter, number).advance(1)
                    yield pa.RecordBatch.from_pydict({"item": [number], "result": [json.dumps(result)]})

        tasks = min(len(items), max(parallelism(spark), -(-len(items) // ITEMS)))
        rows = spark.range(0, len(items), 1, tasks).mapInArrow(run, "item long, result string").toArrow()
    results = [json.loads(result) for result in rows.sort_by("item")["result"].to_pylist()]
    for result in results:
        if "error" in result:
            raise getattr(errors, result["error"])(result["message"])
    return [result["value"] for result in results]


def settle() -> None:
    """Take the modules that a worker process has loaded out of the sight of Python's collector: a task begins with this.

    Spark has the collector run after every task, so there is no garbage now; and to look at all that NumPy, numba and Arrow
    are made of takes longer than an exchange of a few blocks: 12 to 40 ms.
    """
    if len(sys.modules) > len(_seen):  # not for what a query leaves behind, which is to be collected some day
        _seen.update(sys.modules)
        gc.freeze()


def _attempt(function: Callable[[_Item], Any], item: _Item) -> dict[str, Any]:
    try:
        return {"value": function(item)}
    except errors.BigjoinError as error:
        return {"error": type(error).__name__, "message": str(error)}
    except OSError as error:
        return {"error": "OutputError", "message": errors.reason(error)}
