"""The exchange: blocks of prefixes travel between tasks as rows of a DataFrame, one row a destination.

A row of the JVM costs a microsecond, however large it is. So a task packs what goes to another task into one row: the number
of that task, and columns of codes as bytes. `repartitionById` moves the row; Spark gives the shuffle, the spilling and the
recovery. Rows are sorted by who sent them and when before a task looks at them: what it packs then is the same whenever it
runs, in whatever order they came.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from bigjoin.dataflow.blocks import Block, Spread, join, pack, pieces, route, unpack
from bigjoin.spark.session import OWN
from bigjoin.spark.tasks import freeze_modules

RECEIPT = -1
"""In the place of a visit's number: what a task has done, on its way to the driver."""

ROW_TUPLES = 1 << 21
"""Tuples of one row at most, whatever B': some 8 MB."""

BATCH_BYTES = 16 << 20
"""Bytes that Spark gives a task at once, about."""

SMALL = 8
"""A row that is so many times smaller than the batch it came in is copied out of it."""

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

Stage = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Outbox:
    """What a task sends: rows for other tasks, with the bytes and tuples of each worker added up."""

    def __init__(self, task: int, *, workers: int, tasks: int) -> None:
        self.task, self.workers, self.tasks = task, workers, tasks
        self.sequence = 0
        self.bytes = self.tuples = 0
        self.load = np.zeros(workers, np.int64)
        """Tuples that each worker will receive."""

    def send(self, visit: int, block: Block | Spread, at: int) -> pa.RecordBatch:
        """Return the rows that carry a block to the owners of the attribute at a position, or as it is spread."""
        rows = []
        for task, part in route(block, at, workers=self.workers, tasks=self.tasks, load=self.load):
            rows += [(task, pack(piece)) for piece in pieces(part, ROW_TUPLES)]
            self.tuples += part.tuples
        self.bytes += sum(len(data) for _, data in rows)
        return self._batch(visit, rows)

    def receipt(self, said: dict[str, Any]) -> pa.RecordBatch:
        """Return the row that tells the driver what this task has done."""
        return self._batch(RECEIPT, [(self.task, json.dumps(said).encode())])

    def _batch(self, visit: int, rows: list[tuple[int, bytes]]) -> pa.RecordBatch:
        first, self.sequence = self.sequence, self.sequence + len(rows)
        return batch_of([(task, self.task, first + n, visit, data) for n, (task, data) in enumerate(rows)])


def batch_of(rows: Sequence[tuple[int, int, int, int, bytes]]) -> pa.RecordBatch:
    """Return rows as Spark takes them: (task, source, sequence, visit, payload) each."""
    columns = zip(*rows, strict=True) if rows else [()] * len(_ROW)
    return pa.RecordBatch.from_arrays([pa.array(c, f.type) for c, f in zip(columns, _ROW, strict=True)], schema=_ROW)


class Inbox:
    """What a task receives: blocks for the same visit are joined, as long as all that are gathered hold B' tuples at most."""

    def __init__(self, batches: Iterable[pa.RecordBatch], batch_size: int, code_type: Any) -> None:
        self.batches, self.batch_size, self.code_type = batches, batch_size, code_type
        self.task: int | None = None
        """The task that these rows were sent to."""
        self.receipts: list[dict[str, Any]] = []

    def blocks(self) -> Iterator[tuple[int, Block]]:
        """Give blocks with the numbers of their visits."""
        arrived: dict[int, list[Block]] = defaultdict(list)
        tuples: dict[int, int] = defaultdict(int)
        for batch in self.batches:
            visits, payloads = batch.column("visit").to_pylist(), batch.column("payload")
            if visits:
                self.task = batch.column("task")[0].as_py()
            for visit, payload in zip(visits, payloads, strict=True):
                if visit == RECEIPT:
                    self.receipts.append(json.loads(payload.as_py()))
                    continue
                data = payload.as_buffer()
                # A view keeps the whole batch alive: what is small beside it is copied.
                block = unpack(payload.as_py() if data.size * SMALL < batch.nbytes else data, self.code_type)
                while tuples and sum(tuples.values()) + block.tuples > self.batch_size:
                    fullest = max(sorted(tuples), key=tuples.__getitem__)
                    del tuples[fullest]
                    yield fullest, join(arrived.pop(fullest))
                arrived[visit].append(block)
                tuples[visit] += block.tuples
        for visit in sorted(arrived):
            yield visit, join(arrived.pop(visit))


def exchange(
    spark: SparkSession, tasks: int, first: Callable[[int], Iterator[pa.RecordBatch]], stages: Sequence[Stage]
) -> DataFrame:
    """Return the rows of the last stage: each task begins with its number, and what it gives travels from stage to stage."""

    def begin(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_modules()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from first(number)

    frame = spark.range(0, tasks, 1, tasks).mapInArrow(begin, ROW)
    for stage in stages:
        arrived = frame.repartitionById(tasks, "task").sortWithinPartitions("source", "sequence")
        frame = arrived.mapInArrow(_settled(stage), ROW)
    return frame


def _settled(stage: Stage) -> Stage:
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
        session = spark if spark.conf.get(OWN, None) else spark.newSession()
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
