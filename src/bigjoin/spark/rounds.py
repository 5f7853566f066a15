"""Strategies that work in rounds: one driver, which runs Spark jobs until nothing waits.

A round is one Spark job. Its tasks begin with seeds, or with proposals of prefixes that wait; rows travel through some
exchanges; prefixes that are not done wait in files. The driver only knows which files there are and how many proposals each
will make: a schedule decides what the next round takes. A strategy says how it deals work (`schedule`), how many exchanges a
round has, and what a task does in each stage.
"""

from __future__ import annotations

import shutil
import time
import uuid
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from bigjoin.dataflow.schedule import Round, Schedule
from bigjoin.defaults import EXCHANGE_BATCH_SIZE
from bigjoin.errors import BigjoinError
from bigjoin.planner import plan
from bigjoin.spark.exchange import RoundTask, exchange, exchanging
from bigjoin.spark.held import Held
from bigjoin.spark.job import Job, worker_count
from bigjoin.spark.matches import ARROW_SUFFIX, file_writer, in_microseconds
from bigjoin.spark.receipts import Receipt, read_receipts
from bigjoin.spark.round_stats import RoundStats
from bigjoin.spark.session import common_directory, parallelism
from bigjoin.spark.strategy import Ask, PartFile, Progress, Ran, Strategy
from bigjoin.spark.stream import publish

LIMITED_PROPOSALS = 1 << 16
"""Proposals of the first round where a limit asks for few matches; each next one has twice as many."""

STREAMED_PROPOSALS = 1 << 20
"""The same, where matches are read as they are found."""

MAX_BYTES_IN_FRAME = 1 << 19
"""Bytes of a result that is part of its frame, and travels to tasks with it; larger ones are read from files."""

_S = TypeVar("_S", bound=Schedule)


@dataclass
class Rounds(Generic[_S]):
    """One run of a job: its schedule, and what differs from strategy to strategy."""

    job: Job
    schedule: _S

    @abstractmethod
    def exchanges(self, now: Round) -> int:
        """Return how often rows travel in a round."""

    @abstractmethod
    def task(self, job: Job, now: Round) -> Callable[..., RoundTask]:
        """Return what makes a task of a round, given its stage. It runs in Spark's tasks, so it holds no more than it needs."""

    @abstractmethod
    def index_tuples(self) -> NDArray[np.int64]:
        """Return how many tuples of the lists that a plan reads each worker has."""

    def labels(self, stats: RoundStats, now: Round) -> list[dict[str, Any]]:
        """Return what the loads of each exchange are called in the figures."""
        del stats, now
        return []

    def observe(self, now: Round, receipts: Sequence[Receipt], loads: NDArray[np.int64]) -> None:
        """Look at what a round did; `loads` are what each worker received, exchange by exchange."""

    def figures(self) -> dict[str, Any]:
        """Return the figures of a run that only this strategy has."""
        return {"waiting": {"prefixes": self.schedule.peak_prefixes, "bytes": self.schedule.peak_bytes}}


class InRounds(Strategy):
    """A strategy that works in rounds."""

    @abstractmethod
    def rounds(self, job: Job) -> Rounds[Any]:
        """Return a run of a job."""

    def batch_size(self, workers: int) -> int:
        """Return B' for so many workers, if nobody says another."""
        del workers
        return EXCHANGE_BATCH_SIZE

    def job(self, ask: Ask) -> Job:
        """Return the job that finds the matches of a query."""
        cores = parallelism(self.spark)
        workers = worker_count(ask.index, ask.workers, cores)
        size = ask.batch_size or self.batch_size(workers)
        return Job(plan(ask.meaning), ask.index, workers, min(cores, workers), size, ask.limit)

    def count(self, ask: Ask, progress: Progress | None = None) -> Ran:
        """Count the matches of a query."""
        started = time.perf_counter()
        job = self.job(ask)
        planned = time.perf_counter() - started
        return replace(self.run(job, progress=progress), plan_seconds=planned)

    def find(self, ask: Ask, held: Held) -> DataFrame:
        """Find the matches now, and return a DataFrame that reads them: from itself if they are few, else from files."""
        job, folder = self.job(ask), common_directory(self.spark, ask.index.path, "matches")
        files: list[str] | list[bytes]
        try:
            written = [file for file, _ in self.write_job(job, folder, ARROW_SUFFIX)]
            is_small = sum(file.stat().st_size for file in written) <= MAX_BYTES_IN_FRAME
            files = [file.read_bytes() for file in written] if is_small else [str(file) for file in written]
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        if is_small:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            held.add(folder, self.spark)
        return _frame_of(self.spark, files, in_microseconds(job.schema), max(1, min(job.tasks, len(files))))

    def write(
        self, ask: Ask, folder: Path, suffix: str, progress: Progress | None = None, *, in_pieces: bool = False
    ) -> tuple[list[PartFile], pa.Schema]:
        """Write the matches to files in a folder; in pieces, those of a round are published as soon as it is over."""
        job = self.job(ask)
        return self.write_job(job, folder, suffix, progress=progress, in_pieces=in_pieces), job.schema

    def write_job(
        self, job: Job, folder: Path, suffix: str, *, progress: Progress | None = None, in_pieces: bool = False
    ) -> list[PartFile]:
        """Write the matches of a job to files in a folder, from the tasks, and return the files and their rows.

        With a limit, rounds stop when there are enough, and one file of exactly that many is made of what they found.
        """
        if job.limit is None:
            job = replace(job, output=(str(folder.absolute()), suffix), streams=in_pieces)
            return self.run(job, progress=progress).parts
        parts = (
            self.run(replace(job, output=(str(folder.absolute()), ARROW_SUFFIX)), progress=progress).parts if job.limit else []
        )
        first = _first(job, parts, folder, suffix)
        if in_pieces:
            publish([file for file, _ in first], folder)
        return first

    def run(self, job: Job, *, progress: Progress | None = None) -> Ran:
        """Run rounds until nothing waits."""
        job = replace(job, folder=str(common_directory(self.spark, job.index.path, "waiting")))
        rounds, stats = self.rounds(job), RoundStats.of(job)
        try:
            with exchanging(self.spark) as session:
                while not stats.has(job.limit) and (now := rounds.schedule.next_round()) is not None:
                    self._round(session, rounds, now, stats)
                    if progress is not None:
                        progress(rounds.schedule.share)
        finally:
            shutil.rmtree(job.folder, ignore_errors=True)
        return Ran(stats.matches, job.workers, {**stats.report(job), **rounds.figures()}, rounds.index_tuples, stats.parts)

    def _round(self, session: SparkSession, rounds: Rounds[Any], now: Round, stats: RoundStats) -> None:
        """Run one Spark job, and note what its tasks have done."""
        exchanges = rounds.exchanges(now)
        receipts = read_receipts(self._rows(session, rounds, now, exchanges))
        rounds.observe(now, receipts, stats.add(receipts, exchanges, rounds.labels(stats, now)))
        if rounds.job.streams and rounds.job.output is not None:
            publish([Path(file) for receipt in receipts for file, _ in receipt.parts], Path(rounds.job.output[0]))
        waiting = [file for receipt in receipts for file in receipt.waiting]
        rounds.schedule.add(waiting, sum(sum(receipt.candidates[1:]) for receipt in receipts))
        for file in (*now.spent, *(file for receipt in receipts for file, _ in receipt.states)):
            Path(file).unlink(missing_ok=True)
        rounds.schedule.grow()

    def _rows(self, session: SparkSession, rounds: Rounds[Any], now: Round, exchanges: int) -> DataFrame:
        make = rounds.task(rounds.job, now)

        def begin(number: int) -> Iterator[pa.RecordBatch]:
            yield from make(0).begin(number)

        def advance(stage: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from make(stage).advance(batches)

        stages = [partial(advance, stage) for stage in range(1, exchanges + 1)]
        return exchange(session, rounds.job.tasks, begin, stages)


def _first(job: Job, parts: list[PartFile], folder: Path, suffix: str) -> list[PartFile]:
    """Write the first matches of some Arrow files to one file."""
    left = job.limit or 0
    target = folder / f"first-{uuid.uuid4().hex}{suffix}"
    with file_writer(target, job.schema, suffix) as writer:
        for batch in chain.from_iterable(_batches(str(file)) for file, _ in parts):
            writer.write_batch(batch.slice(0, left))
            left -= min(left, batch.num_rows)
            if not left:
                break
    rows = (job.limit or 0) - left
    return [(target, rows)] if rows else []


def _frame_of(spark: SparkSession, files: list[str] | list[bytes], columns: pa.Schema, tasks: int) -> DataFrame:
    """Return a DataFrame that reads Arrow files, or their contents."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for rows in chain.from_iterable(map(_batches, files[number::tasks])):
                    yield rows.cast(columns, safe=False)

    return spark.range(0, tasks, 1, tasks).mapInArrow(read, from_arrow_schema(columns))


def _batches(file: str | bytes) -> Iterator[pa.RecordBatch]:
    """Give the batches of an Arrow file."""
    try:
        source = pa.BufferReader(file) if isinstance(file, bytes) else pa.memory_map(file)
    except FileNotFoundError:
        raise BigjoinError("the files of this result are gone, as its graph was closed: find it again") from None
    with source:
        reader = pa.ipc.open_file(source)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)
