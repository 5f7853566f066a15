"""The exchange: what tasks send each other travels as rows of a DataFrame, one row a destination.

A row of the JVM costs a microsecond, however large it is. So a task packs what goes to another task into one row: the number
of that task, and columns of codes as bytes. `repartitionById` moves the row; Spark gives the shuffle, the spilling and the
recovery. Rows are sorted by who sent them and when before a task looks at them, so a task that runs again packs the same bytes,
in whatever order its rows came.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from bigjoin.dataflow.schedule import Round
from bigjoin.errors import BigjoinError
from bigjoin.join.dataflow_primitive import Tally
from bigjoin.spark.job import Job
from bigjoin.spark.receipts import Failure, Receipt, TaskOutput, encode, failure
from bigjoin.spark.session import OWN_SESSION
from bigjoin.spark.tasks import freeze_modules

RECEIPT = -1
"""In the place of a visit's number: what a task has done, on its way to the driver."""

BATCH_BYTES = 16 << 20
"""Bytes that Spark gives a task at once, about."""

_SETTINGS = {
    "spark.sql.execution.arrow.maxBytesPerBatch": str(BATCH_BYTES),
    "spark.sql.adaptive.enabled": "false",
}

ROW = StructType(
    [
        StructField("task", IntegerType()),
        StructField("source", IntegerType()),
        StructField("sequence", LongType()),
        StructField("visit", IntegerType()),
        StructField("payload", BinaryType()),
    ]
)
_ROW = pa.schema(
    [("task", pa.int32()), ("source", pa.int32()), ("sequence", pa.int64()), ("visit", pa.int32()), ("payload", pa.binary())]
)

Row: TypeAlias = tuple[int, int, int, int, bytes]
"""(task, source, sequence, visit, payload): where it goes, who sent it and when, what is to be done, and with what."""

Stage: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A row that has arrived. Its payload is a view of the batch it came in."""

    source: int
    sequence: int
    visit: int
    payload: Any
    batch_bytes: int


class RoundTask(ABC):
    """A task in one stage of a round: it receives rows, sends rows, and at the end a receipt. Strategies say what it does."""

    def __init__(self, job: Job, now: Round, stage: int = 0) -> None:
        self.job, self.now, self.stage = job, now, stage
        self.output = TaskOutput(job)
        self.number = -1
        """Of this task, once a row has told it."""
        self.bytes = 0
        """Sent to other tasks."""
        self.load = np.zeros(job.workers, np.int64)
        """Tuples that each worker will receive."""
        self._earlier: list[bytes] = []
        """Receipts of earlier stages."""

    @property
    @abstractmethod
    def tally(self) -> Tally: ...

    @abstractmethod
    def begun(self) -> Iterator[Sequence[Row]]:
        """Give the rows to send after a look at what the round begins with for this task."""

    @abstractmethod
    def arrived(self, rows: Iterator[Arrival]) -> Iterator[Sequence[Row]]:
        """Give the rows to send after a look at those that have arrived."""

    def receipt(self) -> Receipt:
        """Return what this task has done."""
        done = self.output.receipt
        return done(task=self.number, stage=self.stage, tally=self.tally, bytes_sent=self.bytes, load=self.load)

    def begin(self, number: int) -> Iterator[pa.RecordBatch]:
        """Run the first stage, as the task with a number."""
        self.number = number
        yield from self._sent(self.begun())

    def advance(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run a later stage, with the rows of the one before."""
        yield from self._sent(self.arrived(self._arrivals(batches)))

    def _arrivals(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Arrival]:
        for batch in batches:
            if batch.num_rows:
                self.number = batch.column("task")[0].as_py()
            rows = zip(*(batch.column(name).to_pylist() for name in ("source", "sequence", "visit")), strict=True)
            for (source, sequence, visit), payload in zip(rows, batch.column("payload"), strict=True):
                if visit == RECEIPT:
                    self._earlier.append(payload.as_py())
                else:
                    yield Arrival(source, sequence, visit, payload.as_buffer(), batch.nbytes)

    def _sent(self, rows: Iterator[Sequence[Row]]) -> Iterator[pa.RecordBatch]:
        """Give rows as batches and, at their end, the receipts: of what was done, or of what went wrong."""
        said: Receipt | Failure
        try:
            for some in rows:
                self.bytes += sum(len(row[-1]) for row in some)
                yield batch_of(some)
            self.output.close()
            said = self.receipt()
        except (BigjoinError, OSError) as error:
            said = failure(self.job, error)
        finally:
            with suppress(OSError):  # what went wrong is told already
                self.output.close()
        if self.number >= 0:  # else nothing was sent here
            told = [*self._earlier, encode(said)]
            yield batch_of([(self.number, self.number, n, RECEIPT, payload) for n, payload in enumerate(told)])


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    """Return rows as Spark takes them."""
    columns = zip(*rows, strict=True) if rows else [()] * len(_ROW)
    return pa.RecordBatch.from_arrays([pa.array(c, f.type) for c, f in zip(columns, _ROW, strict=True)], schema=_ROW)


def exchange(
    spark: SparkSession, tasks: int, begin: Callable[[int], Iterator[pa.RecordBatch]], stages: Sequence[Stage]
) -> DataFrame:
    """Return the rows of the last stage: each task begins with its number, and what it gives travels from stage to stage."""

    def first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from begin(number)

    frame = spark.range(0, tasks, 1, tasks).mapInArrow(_frozen(first), ROW)
    for stage in stages:
        arrived = frame.repartitionById(tasks, "task").sortWithinPartitions("source", "sequence")
        frame = arrived.mapInArrow(_frozen(stage), ROW)
    return frame


def _frozen(stage: Stage) -> Stage:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_modules()
        yield from stage(batches)

    return run


@contextmanager
def exchanging(spark: SparkSession) -> Iterator[SparkSession]:
    """Give a session for exchanges, over the same cluster; the user's settings are as they were.

    Blocks are large rows, so Spark has to bound what it gives a task at once by bytes; and it need not plan again after each
    exchange, as there is nothing to adapt.
    """
    if "connect" not in type(spark).__module__:
        session = spark if spark.conf.get(OWN_SESSION, None) else spark.newSession()
        for name, value in _SETTINGS.items():
            session.conf.set(name, value)
        yield session
        return
    # A new session on Spark Connect would not have what the user has sent to the server.
    before = {name: spark.conf.get(name, None) for name in _SETTINGS}
    try:
        for name, value in _SETTINGS.items():
            spark.conf.set(name, value)
        yield spark
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)
