"""Run functions in Spark's tasks: numbered tasks, and stages that work on files, with an item for each call.

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
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from bigjoin import errors
from bigjoin.index.stage_runner import StageRunner
from bigjoin.index.typed_json import from_json, to_json
from bigjoin.local.progress import Meter, watching
from bigjoin.quota import Quota, quota, within
from bigjoin.spark.session import parallelism

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

MAX_ITEMS_PER_TASK = 8
"""A compromise: starting a task costs time, but a task that is lost with its machine is repeated as a whole."""

_frozen_modules: set[str] = set()
"""The modules that have been hidden from the garbage collector."""

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class TaskError:
    """An error that a task reports to the driver: the name of a class in `bigjoin.errors`, and the message."""

    error: str
    message: str

    @classmethod
    def of(cls, error: errors.BigjoinError | OSError) -> TaskError:
        """Describe an error; those of the file system become an OutputError."""
        if isinstance(error, OSError):
            return cls("OutputError", errors.reason(error))
        return cls(type(error).__name__, str(error))

    def raised(self) -> errors.BigjoinError:
        """Return the error, to be raised in the driver."""
        kind: type[errors.BigjoinError] = getattr(errors, self.error, errors.BigjoinError)
        return kind(self.message)


def run_numbered(
    spark: SparkSession,
    function: Callable[[int], Iterator[pa.RecordBatch]],
    count: int,
    schema: StructType | str,
    tasks: int | None = None,
) -> DataFrame:
    """Return the rows that a function gives for the numbers below `count`, in one task for each unless `tasks` says otherwise.

    The row that reaches a task says which number it has: a partition id would not. A task may take as long as the query may,
    and as much memory.
    """
    numbers = quota().numbers

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_modules()
        with within(Quota(*numbers)):
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from function(number)

    return spark.range(0, count, 1, tasks or count).mapInArrow(run, schema)


def run_tasks(
    spark: SparkSession,
    stage: Callable[[_Item], Any],
    items: Sequence[_Item],
    *,
    progress: Callable[[float], None] | None = None,
) -> list[Any]:
    """Return stage(item) for each item, in order. Results travel as JSON, so they should name files rather than hold data.

    A task may run twice: what a stage writes must have a unique name, or the same bytes each time. A BigjoinError that a task
    raises is raised here.
    """
    if not items:
        return []
    with watching(len(items), progress) as meter:

        def run(number: int) -> Iterator[pa.RecordBatch]:
            result, error = _attempt(stage, items[number])
            Meter(meter, number).advance(1)
            yield pa.RecordBatch.from_pydict({"item": [number], "result": [result], "error": [error]})

        tasks = min(len(items), max(parallelism(spark), -(-len(items) // MAX_ITEMS_PER_TASK)))
        columns = "item long, result string, error string"
        rows = run_numbered(spark, run, len(items), columns, tasks).toArrow().sort_by("item")
    for error in filter(None, rows["error"].to_pylist()):
        raise decode(TaskError, error).raised()
    kind = _result_type(stage)
    return [decode(kind, result) for result in rows["result"].to_pylist()]


def runner(spark: SparkSession, share: Callable[[float], None] | None = None) -> StageRunner:
    """Return what executes stages in Spark's tasks; `share` is called with the share of the items that is done."""
    return partial(run_tasks, spark, progress=share)


def encode(value: Any) -> str:
    """Return a dataclass, or any value that a field of one may have, as JSON text."""
    return json.dumps(to_json(value))


def decode(kind: Any, text: str) -> Any:
    """Return the value that JSON text encodes, given its type."""
    return from_json(kind, json.loads(text))


def _result_type(stage: Callable[..., Any]) -> Any:
    """Return the declared type of a stage's results."""
    function = stage.func if isinstance(stage, partial) else stage
    declared = function if inspect.isroutine(function) else type(function).__call__
    return typing.get_type_hints(declared).get("return", Any)


def freeze_modules() -> None:
    """Hide the modules that a worker process has loaded from Python's garbage collector; every task begins with this.

    Spark runs the collector after every task, so there is no garbage when a task begins. A pass over all objects of NumPy,
    numba and Arrow takes 12 to 40 ms, longer than an exchange of a few blocks.
    """
    if len(sys.modules) > len(_frozen_modules):  # only then, so that what a query leaves behind can still be collected
        _frozen_modules.update(sys.modules)
        gc.freeze()


def _attempt(stage: Callable[[_Item], Any], item: _Item) -> tuple[str | None, str | None]:
    """Return the result of a stage, or its error, as JSON."""
    try:
        return encode(stage(item)), None
    except (errors.BigjoinError, OSError) as error:
        return None, encode(TaskError.of(error))
