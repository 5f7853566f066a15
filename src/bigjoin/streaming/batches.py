"""Updates from a streaming DataFrame: every batch is an epoch, and Spark's checkpoint belongs to the index's ledger."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bigjoin.errors import BigjoinError
from bigjoin.index.directory import Index
from bigjoin.index.manifest_entries import LedgerEntry
from bigjoin.paths import is_remote
from bigjoin.query.query import Query
from bigjoin.spark.failures import plain_error, with_plain_errors
from bigjoin.spark.frames import arrow_type
from bigjoin.streaming.monitor import Monitor, Observer
from bigjoin.streaming.watch_facts import WatchBeginning, WatchFacts

if TYPE_CHECKING:
    from bigjoin.streaming.watch_facts import Watch


@dataclass(frozen=True)
class KnownCounts:
    """The counts with which a watch began: the process that runs its epochs does not count again."""

    epoch: int
    counts: Mapping[str, int]
    """By the text of the query."""

    def __call__(self, index: Index, query: Query) -> int:
        if index.epoch != self.epoch:
            raise BigjoinError(f"the index {index.path} has changed since the watch began: begin it again")
        return self.counts[str(query)]


@dataclass
class Batches:
    """What a streaming query calls for each of its batches. Under Spark Connect it is pickled for another process."""

    monitor: Monitor
    checkpoint: str
    adopt: bool = False
    function: Observer | None = None

    @with_plain_errors()
    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Apply a batch as an epoch, unless it is committed already."""
        spark = frame.sparkSession
        self.monitor.spark = lambda: spark
        stream = stream_id(self.checkpoint, spark)
        if stream is None:
            raise BigjoinError(
                f"the id of the stream cannot be read from its checkpoint {self.checkpoint}: give a path of a file system"
            )
        entry = LedgerEntry(f"stream {stream}", batch)
        self.monitor.apply(frame.toArrow(), f"batch {batch}", ledger=entry, adopt=self.adopt, function=self.function)
        self.adopt = False


def as_watch(query: StreamingQuery, beginning: WatchBeginning) -> Watch:
    """Return a streaming query that says what it watches, and fails with our error message, which Spark buries in its own."""
    kind: Any = type(query)  # Spark Connect has a class of its own

    class Watching(WatchFacts, kind):  # type: ignore[misc]
        def awaitTermination(self, *arguments: Any, **named: Any) -> bool | None:  # noqa: N802 - Spark's name
            try:
                return cast("bool | None", super().awaitTermination(*arguments, **named))
            except Exception as failure:
                if (error := _plain_stream_error(failure)) is None:
                    raise
                raise error from failure

        def exception(self) -> StreamingQueryException | None:
            failure = super().exception()
            return failure if failure is None else (_plain_stream_error(failure) or failure)

    watching = Watching.__new__(Watching)
    watching.__dict__.update(query.__dict__, _beginning=beginning)
    return cast("Watch", watching)


class StreamError(BigjoinError, StreamingQueryException):
    """A watch ended with an error of bigjoin's. This is also a `StreamingQueryException`; its cause is Spark's own error."""

    def __init__(self, message: str) -> None:
        StreamingQueryException.__init__(self, message)
        BigjoinError.__init__(self, message)


def _plain_stream_error(failure: Exception) -> StreamError | None:
    if (meant := plain_error(failure)) is None:
        return None
    error = StreamError(str(meant))
    error.__cause__ = failure
    return error


def stream_id(checkpoint: str, spark: SparkSession) -> str | None:
    """Return the id that a checkpoint gives its stream; None if the checkpoint was never used."""
    local = local_path(checkpoint)
    if local is not None:
        file = local / "metadata"
        return _id_in(file.read_text(encoding="utf-8")) if file.exists() else None
    try:
        row = spark.read.text(f"{checkpoint.rstrip('/')}/metadata").first()
    except AnalysisException:  # there is no such path
        return None
    return None if row is None else _id_in(row[0])


def _id_in(metadata: str) -> str:
    return str(json.loads(metadata)["id"])


def local_path(checkpoint: str) -> Path | None:
    """Return the path of a checkpoint if it is on this machine, in any spelling."""
    plain = re.sub("^file:(//(?=/))?", "", checkpoint)
    return None if is_remote(plain) else Path(plain)


def columns_of(frame: DataFrame) -> pa.Schema:
    """Return the columns of a DataFrame as its batches have them in Arrow."""
    return pa.schema([(field.name, arrow_type(field.dataType)) for field in frame.schema.fields])


def check_checkpoint(index: Index, checkpoint: str, spark: SparkSession) -> None:
    """Refuse a checkpoint that does not belong to an index, before a stream starts."""
    ledger, known = index.manifest.ledger, stream_id(checkpoint, spark)
    if ledger is not None and ledger.source != f"stream {known}":
        mine = f"is that of stream {known}" if known else "is new"
        raise BigjoinError(
            f"the index {index.path} follows {ledger.source}, until its batch {ledger.batch}, and the checkpoint "
            f"{checkpoint} {mine}: go on with the checkpoint that it was watched with, or begin anew from here with adopt=True"
        )
    local = local_path(checkpoint)
    if ledger is None and known is not None and local is not None:
        done = sum(file.name.isdigit() for file in (local / "commits").glob("*"))
        if done:
            raise BigjoinError(
                f"the checkpoint {checkpoint} has {done} batches behind it, and the index {index.path} has none of them: "
                "it is another index's, or the index was built again; give a new checkpoint, or go on from here with adopt=True"
            )
