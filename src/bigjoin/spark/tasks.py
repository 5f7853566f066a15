"""Run a stage in Spark's tasks, an item each: how stages that work on files become a Spark job.

Between the stages of a build, data travels in files of the build's own folder, which every executor must see anyway, as it is
where the index will be.
"""

from __future__ import annotations

import gc
import inspect
import json
import sys
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from bigjoin import errors
from bigjoin.index.stage_runner import StageRunner
from bigjoin.index.typed_json import from_json, to_json
from bigjoin.spark.progress import Meter, watching
from bigjoin.spark.session import parallelism

MAX_ITEMS_PER_TASK = 8
"""Starting a task takes as long as some work, but a task that is lost with its machine is done again as a whole."""

_seen: set[str] = set()
"""The modules that were loaded when they were last hidden from the collector."""

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class TaskError:
    """An error of ours that a task has raised: the name of its class, and what it says."""

    kind: str
    message: str


def run_tasks(
    spark: SparkSession,
    stage: Callable[[_Item], Any],
    items: Sequence[_Item],
    *,
    progress: Callable[[float], None] | None = None,
) -> list[Any]:
    """Return stage(item) for each item, in order. Results travel as JSON, so they should name files rather than hold data.

    A task may run twice: what a stage writes must have a unique name, or the same bytes each time. An error of ours is raised
    here as it was raised in the task.
    """
    if not items:
        return []
    with watching(len(items), progress) as meter:

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    result, error = _attempt(stage, items[number])
                    Meter(meter, number).advance(1)
                    yield pa.RecordBatch.from_pydict({"item": [number], "result": [result], "error": [error]})

        tasks = min(len(items), max(parallelism(spark), -(-len(items) // MAX_ITEMS_PER_TASK)))
        columns = "item long, result string, error string"
        rows = spark.range(0, len(items), 1, tasks).mapInArrow(run, columns).toArrow().sort_by("item")
    for error in filter(None, rows["error"].to_pylist()):
        raised = decode(TaskError, error)
        raise getattr(errors, raised.kind)(raised.message)
    kind = _result_type(stage)
    return [decode(kind, result) for result in rows["result"].to_pylist()]


def runner(spark: SparkSession, share: Callable[[float], None] | None = None) -> StageRunner:
    """Return a way to run stages in Spark's tasks; `share` is told which share of the items is done."""
    return partial(run_tasks, spark, progress=share)


def encode(value: Any) -> str:
    """Return a dataclass, or any value that its fields may have, as JSON text."""
    return json.dumps(to_json(value))


def decode(kind: Any, text: str) -> Any:
    """Return the value of such a text, given its type."""
    value = json.loads(text)
    return value if value is None or typing.get_origin(kind) is list else from_json(kind, value)


def _result_type(stage: Callable[..., Any]) -> Any:
    """Return the type of a stage's results, as it is declared."""
    function = stage.func if isinstance(stage, partial) else stage
    declared = function if inspect.isroutine(function) else type(function).__call__
    return typing.get_type_hints(declared).get("return", Any)


def freeze_modules() -> None:
    """Hide the modules that a worker process has loaded from Python's garbage collector; every task begins with this.

    Spark runs the collector after every task, so there is no garbage now. Going through all objects of NumPy, numba and Arrow
    takes 12 to 40 ms, longer than an exchange of a few blocks.
    """
    if len(sys.modules) > len(_seen):  # only then: what a query leaves behind must stay collectable
        _seen.update(sys.modules)
        gc.freeze()


def _attempt(stage: Callable[[_Item], Any], item: _Item) -> tuple[str | None, str | None]:
    """Return the result of a stage, or its error."""
    try:
        return encode(stage(item)), None
    except errors.BigjoinError as error:
        return None, encode(TaskError(type(error).__name__, str(error)))
    except OSError as error:
        return None, encode(TaskError("OutputError", errors.reason(error)))
