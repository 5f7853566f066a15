"""The exchange: what tasks send each other travels as rows of a DataFrame, one row for each destination.

A row costs the JVM a microsecond, however large it is. So a task packs everything for another task into one row: the number
of that task, and columns of codes as bytes. `repartition` moves the row; Spark provides the shuffle, spilling and recovery.
Rows are sorted by source and sequence before a task reads them, so a task that runs again sends the same bytes, in whatever
order its rows arrive.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from bigjoin.dataflow.schedule import Round
from bigjoin.errors import BigjoinError
from bigjoin.joins.dataflow_primitive import Tally
from bigjoin.quota import Quota, quota, within
from bigjoin.spark.job import Job
from bigjoin.spark.own_session import own_session
from bigjoin.spark.receipts import Receipt, TaskOutput, failure
from bigjoin.spark.task_keys import keys_of
from bigjoin.spark.tasks import TaskError, encode, freeze_modules, run_numbered

RECEIPT = -1
"""The visit of a row that carries a receipt to the driver."""

BATCH_BYTES = 16 << 20
"""Bytes that Spark passes to a task at once, roughly."""

_SETTINGS = {
    "spark.sql.execution.arrow.maxBytesPerBatch": str(BATCH_BYTES),
    "spark.sql.adaptive.enabled": "false",
}

_exchanging: dict[SparkSession, tuple[int, dict[str, str | None]]] = {}
"""Sessions in which exchanges run now: how many, and the settings before, which the last of them restores."""
_setting = threading.Lock()

ROW = pa.schema(
    [
        ("task", pa.int32()),
        ("source", pa.int32()),
        ("sequence", pa.int64()),
        ("visit", pa.int32()),
        ("payload", pa.binary()),
        ("key", pa.int32()),
    ]
)
"""The columns of a Row, and the key of its destination, which Spark partitions rows by."""

Row: TypeAlias = tuple[int, int, int, int, bytes]
"""(task, source, sequence, visit, payload): its destination, its sender and number, the visit to make, and the block."""

Stage: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A row that has arrived. Its payload is a view of the batch that it came in, which has `batch_bytes`."""

    source: int
    sequence: int
    visit: int
    payload: Any
    batch_bytes: int


class RoundTask(ABC):
    """A task in one stage of a round: it receives rows, and sends rows and finally a receipt. Strategies define its work."""

    tally: Tally
    """What this task has done; subclasses set it."""

    def __init__(self, job: Job, now: Round, stage: int = 0) -> None:
        self.job, self.now, self.stage = job, now, stage
        self.output = TaskOutput(job)
        self.number = -1
        """The number of this task, known once a row has arrived."""
        self.bytes = 0
        """Bytes sent to other tasks."""
        self.load = np.zeros(job.workers, np.int64)
        """Tuples that each worker will receive."""
        self._earlier: list[bytes] = []
        """Receipts of earlier stages."""

    @abstractmethod
    def begun(self) -> Iterator[Sequence[Row]]:
        """Work on what the round begins with for this task, and give the rows to send."""

    @abstractmethod
    def arrived(self, rows: Iterator[Arrival]) -> Iterator[Sequence[Row]]:
        """Work on the rows that have arrived, and give the rows to send."""

    def receipt(self) -> Receipt:
        """Return what this task has done."""
        return self.output.receipt(task=self.number, stage=self.stage, tally=self.tally, bytes_sent=self.bytes, load=self.load)

    def begin(self, number: int) -> Iterator[pa.RecordBatch]:
        """Execute the first stage as the task with a number."""
        self.number = number
        yield from self._sent(self.begun())

    def advance(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Execute a later stage with the rows of the stage before."""
        yield from self._sent(self.arrived(self._arrivals(batches)))

    def _arrivals(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Arrival]:
        for batch in batches:
            if batch.num_rows:
                self.number, *others = batch.column("task").unique().to_pylist()
                if others:  # an engine in Spark's place that hashes integers in another way
                    raise BigjoinError("this Spark does not partition rows by its own hash, so blocks went to the wrong tasks")
            rows = zip(*(batch.column(name).to_pylist() for name in ("source", "sequence", "visit")), strict=True)
            for (source, sequence, visit), payload in zip(rows, batch.column("payload"), strict=True):
                if visit == RECEIPT:
                    self._earlier.append(payload.as_py())
                else:
                    quota().check()
                    yield Arrival(source, sequence, visit, payload.as_buffer(), batch.nbytes)

    def _sent(self, rows: Iterator[Sequence[Row]]) -> Iterator[pa.RecordBatch]:
        """Give rows as batches, followed by the receipts of this stage and earlier ones; an error takes a receipt's place."""
        report: Receipt | TaskError
        try:
            for some in rows:
                quota().check()
                self.bytes += sum(len(row[-1]) for row in some)
                yield batch_of(some)
            self.output.close()
            report = self.receipt()
        except (BigjoinError, OSError) as error:
            report = failure(self.job, error)
        finally:
            with suppress(OSError):  # the first error is the one to report
                self.output.close()
        if self.number >= 0:  # otherwise no row has arrived
            reports = [*self._earlier, encode(report).encode()]
            yield batch_of([(self.number, self.number, n, RECEIPT, payload) for n, payload in enumerate(reports)])


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    """Return rows as one Arrow batch."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * (len(ROW) - 1)
    arrays = map(pa.array, (*columns, keys_of(columns[0])), ROW.types)
    return pa.RecordBatch.from_arrays(list(arrays), schema=ROW)


def exchange(
    spark: SparkSession, tasks: int, begin: Callable[[int], Iterator[pa.RecordBatch]], stages: Sequence[Stage]
) -> DataFrame:
    """Return the rows of the last stage: each task begins with its number, and its rows travel from stage to stage."""
    columns = from_arrow_schema(ROW)
    frame = run_numbered(spark, begin, tasks, columns)
    for stage in stages:
        arrived = frame.repartition(tasks, "key").sortWithinPartitions("source", "sequence")
        frame = arrived.mapInArrow(_frozen(stage), columns)
    return frame


def _frozen(stage: Stage) -> Stage:
    numbers = quota().numbers

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_modules()
        with within(Quota(*numbers)):
            yield from stage(batches)

    return run


@contextmanager
def exchanging(spark: SparkSession) -> Iterator[SparkSession]:
    """Give a session for exchanges on the same cluster, and leave its settings as they were.

    Blocks are large rows, so Spark has to limit what it passes to a task at once by bytes. And replanning after each exchange
    would only cost time, as there is nothing to adapt.
    """
    with own_session(spark) as session, _settings_for_blocks(session):
        yield session


@contextmanager
def _settings_for_blocks(spark: SparkSession) -> Iterator[None]:
    """Change the settings of a session until the last of its exchanges has ended: on Spark Connect, queries share one."""
    with _setting:
        many, before = _exchanging.get(spark, (0, {}))
        if not many:
            before = {name: spark.conf.get(name, None) for name in _SETTINGS}
        for name, value in _SETTINGS.items():
            spark.conf.set(name, value)
        _exchanging[spark] = (many + 1, before)
    try:
        yield
    finally:
        with _setting:
            many, before = _exchanging.pop(spark)
            if many > 1:
                _exchanging[spark] = (many - 1, before)
            else:
                for name, old in before.items():
                    spark.conf.unset(name) if old is None else spark.conf.set(name, old)
