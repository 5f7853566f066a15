"""A stream of files of updates, one a batch, the time that each batch took, and a batch that does next to nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame

from bigjoin.spark.session import get_session
from bigjoin_bench.feeds import SCHEMA, Feed, after_first
from bigjoin_bench.question import Answer, Input, Question

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

ONCE: dict[str, Any] = {"availableNow": True}
"""The trigger: what is there, a file a batch, and then the stream ends."""


class Streamed:
    """What contenders over a stream of updates have in common: the session, the files, and a folder for each run."""

    def __init__(self, *, threads: int, updates: int, epochs: int | None = None, base: float | None = None) -> None:
        self.spark = get_session(f"local[{threads}]")
        self.feed = Feed(updates, epochs, base)
        self._folder = tempfile.TemporaryDirectory(prefix="bigjoin-bench-")
        self.scratch = Path(self._folder.name)

    def load(self, graph: Input) -> None:
        """Write the updates."""
        self.first, self.later = self.feed.split(graph)
        self.files = self.feed.write(self.later, self.scratch / "updates")
        self.spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", str(self.files + 1))

    def stream(self) -> DataFrame:
        """Return the updates as a streaming DataFrame."""
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.scratch / "updates"))

    def place(self) -> Path:
        """Return a new folder for a run."""
        return Path(tempfile.mkdtemp(dir=self.scratch))


class NoOp(Streamed):
    """A batch is one job with tasks in Python that give back what they get, and nothing is kept."""

    def version(self) -> str:
        return str(pyspark.__version__)

    def run(self, question: Question) -> Answer:
        """Pass the updates through."""
        del question
        stream = self.stream().writeStream.foreachBatch(_pass).trigger(**ONCE)
        times = finished(stream.option("checkpointLocation", str(self.place())).start())
        return Answer(None, fmean(after_first(times)), {"updates": self.feed.updates, "epochs": times})


def finished(query: StreamingQuery) -> list[float]:
    """Wait until a stream has ended, and return the seconds of each of its batches."""
    query.awaitTermination()
    durations = [progress["durationMs"] for progress in query.recentProgress]
    return [each["triggerExecution"] / 1000 for each in durations if "addBatch" in each]


def _pass(frame: DataFrame, batch: int) -> None:
    del batch
    frame.mapInArrow(_same, frame.schema).toArrow()


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
