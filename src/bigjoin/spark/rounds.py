"""Strategies that work in rounds: one driver, which runs Spark jobs until nothing waits.

A round is one Spark job. Its tasks begin with seeds, or with proposals of prefixes that wait; rows travel through some
exchanges; prefixes that are not finished wait in files. The driver knows only which files there are and how many proposals each
will make, and a schedule decides what the next round takes. A strategy defines the schedule, how many exchanges a round has,
and what a task does in each stage.
"""

from __future__ import annotations

import time
import uuid
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from random import Random
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from bigjoin.dataflow.schedule import Round, Schedule
from bigjoin.defaults import EXCHANGE_BATCH_SIZE
from bigjoin.local.matches import ARROW_SUFFIX, PartFile, arrow_batches, in_microseconds, limited, write_batches
from bigjoin.local.pieces import publish
from bigjoin.local.row_bound import too_many_rows
from bigjoin.local.strategy import Ask, Outcome, Progress
from bigjoin.planner import plan
from bigjoin.quota import quota
from bigjoin.spark.arrow_files import frame_of_files
from bigjoin.spark.exchange import RoundTask, exchange, exchanging
from bigjoin.spark.held import Held
from bigjoin.spark.job import Job, worker_count
from bigjoin.spark.receipts import Receipt, read_receipts
from bigjoin.spark.round_stats import RoundStats
from bigjoin.spark.session import common_directory, parallelism
from bigjoin.spark.smallest import smallest_of
from bigjoin.spark.strategy import SparkStrategy
from bigjoin.storage import Place, place_like, remove_folder

LIMITED_PROPOSALS = 1 << 16
"""Proposals of the first round if there is a limit; each later round has twice as many."""

STREAMED_PROPOSALS = 1 << 20
"""Proposals of the first round if matches are read as they are found; each later round has twice as many."""

_S = TypeVar("_S", bound=Schedule)


@dataclass
class Rounds(Generic[_S]):
    """The execution of one job: its schedule, and what differs between strategies."""

    job: Job
    schedule: _S

    @abstractmethod
    def exchanges(self, now: Round) -> int:
        """Return how often rows travel in a round."""

    @abstractmethod
    def task(self, now: Round) -> Callable[[int], RoundTask]:
        """Return a function that makes a task of a round, given its stage. It travels to tasks, so it must not hold `self`."""

    @abstractmethod
    def index_tuples(self) -> NDArray[np.int64]:
        """Return how many tuples each worker has of the lists that the plan reads."""

    def labels(self, stats: RoundStats, now: Round) -> list[dict[str, Any]]:
        """Return labels for the loads of each exchange in the stats."""
        del stats, now
        return []

    def observe(self, now: Round, receipts: Sequence[Receipt], loads: NDArray[np.int64]) -> None:
        """Take note of what a round did; `loads` says what each worker received, exchange by exchange."""

    def figures(self) -> dict[str, Any]:
        """Return the stats that only this strategy has."""
        return {"waiting": {"prefixes": self.schedule.peak_prefixes, "bytes": self.schedule.peak_bytes}}


class InRounds(SparkStrategy):
    """A strategy that works in rounds."""

    @abstractmethod
    def rounds(self, job: Job) -> Rounds[Any]:
        """Return the rounds of a job."""

    def batch_size(self, workers: int) -> int:
        """Return the default B' for a number of workers."""
        del workers
        return EXCHANGE_BATCH_SIZE

    def job(self, ask: Ask) -> Job:
        """Return the job that finds the matches of a query."""
        cores = parallelism(self.spark)
        workers = worker_count(ask.index, ask.workers, cores)
        steps = plan(ask.meaning)
        size = quota().affordable(ask.batch_size or self.batch_size(workers), len(steps.attributes))
        return Job(steps, ask.index, workers, min(cores, workers), size, ask.limit, max_rows=ask.max_rows)

    def count(self, ask: Ask, progress: Progress | None = None) -> Outcome:
        """Count the matches of a query."""
        started = time.perf_counter()
        job = self.job(ask)
        planned = time.perf_counter() - started
        return replace(self.run(job, progress=progress), plan_seconds=planned)

    def find(self, ask: Ask, held: Held, progress: Progress | None = None) -> DataFrame:
        """Find the matches now, and return a DataFrame with them: a small result is part of it, a large one lies in files."""
        job, folder = self.job(ask), common_directory(self.spark, ask.index.path, "matches")

        def write() -> tuple[list[Place], pa.Schema]:
            return [file for file, _ in self.write_job(job, folder, ARROW_SUFFIX, progress=progress)], job.schema

        return frame_of_files(self.spark, folder, held, job.tasks, write)

    def sample(self, asks: Sequence[Ask], size: int, random_state: int) -> list[pa.Table]:
        """Return matches that are chosen uniformly: every match is found, and each task keeps as many as are wanted."""
        random = Random(random_state)
        jobs = [replace(self.job(replace(ask, limit=None)), sample=(size, random.getrandbits(64))) for ask in asks]
        folder = common_directory(self.spark, asks[0].index.path, "sample")
        try:
            parts = [self.write_job(job, folder, ARROW_SUFFIX) for job in jobs]
            found = smallest_of([[file for file, _ in some] for some in parts], [job.schema for job in jobs], size)
        finally:
            remove_folder(folder)
        return [table.cast(in_microseconds(table.schema), safe=False) for table in found]

    def write(
        self, ask: Ask, folder: Place, suffix: str, progress: Progress | None = None, *, in_pieces: bool = False
    ) -> tuple[list[PartFile], pa.Schema]:
        """Write the matches to files in a folder; with `in_pieces`, those of a round are published as soon as it is over."""
        job = self.job(ask)
        return self.write_job(job, folder, suffix, progress=progress, in_pieces=in_pieces), job.schema

    def write_job(
        self, job: Job, folder: Place, suffix: str, *, progress: Progress | None = None, in_pieces: bool = False
    ) -> list[PartFile]:
        """Write the matches of a job to files in a folder, from the tasks, and return the files and their rows.

        With a limit, rounds stop once they have found enough matches, and exactly as many as wanted are copied to one file.
        """
        where = folder.absolute()
        if job.limit is None:
            return self.run(replace(job, output=(where, suffix), streams=in_pieces), progress=progress).parts
        found = self.run(replace(job, output=(where, ARROW_SUFFIX)), progress=progress).parts
        first = folder / f"first-{uuid.uuid4().hex}{suffix}"
        rows = write_batches(limited(chain.from_iterable(arrow_batches(file) for file, _ in found), job.limit), first, suffix)
        if in_pieces and rows:
            publish([first], folder)
        return [(first, rows)] if rows else []

    def run(self, job: Job, *, progress: Progress | None = None) -> Outcome:
        """Execute rounds until nothing waits."""
        job = replace(job, folder=common_directory(self.spark, job.index.path, "waiting"))
        stats = RoundStats.of(job)
        try:
            rounds = self.rounds(job)
            with exchanging(self.spark) as session:
                while not stats.has(job.limit) and (now := rounds.schedule.next_round()) is not None:
                    quota().check()
                    self._round(session, rounds, now, stats)
                    quota().share = rounds.schedule.share
                    if progress is not None:
                        progress(rounds.schedule.share)
        finally:
            remove_folder(job.folder)
        return Outcome(stats.matches, job.workers, {**stats.report(job), **rounds.figures()}, rounds.index_tuples, stats.parts)

    def _round(self, session: SparkSession, rounds: Rounds[Any], now: Round, stats: RoundStats) -> None:
        """Run one Spark job, and record what its tasks have done."""
        exchanges = rounds.exchanges(now)
        receipts = read_receipts(self._rows(session, rounds, now, exchanges))
        rounds.observe(now, receipts, stats.add(receipts, exchanges, rounds.labels(stats, now)))
        if rounds.job.max_rows is not None and stats.has(rounds.job.max_rows + 1):
            raise too_many_rows(rounds.job.max_rows)
        if rounds.job.streams and rounds.job.output is not None:
            folder = rounds.job.output[0]
            publish([place_like(file, folder) for receipt in receipts for file, _ in receipt.parts], folder)
        waiting = [file for receipt in receipts for file in receipt.waiting]
        rounds.schedule.add(waiting, sum(sum(receipt.candidates[1:]) for receipt in receipts))
        for file in (*now.spent, *(file for receipt in receipts for file, _ in receipt.states)):
            place_like(file, rounds.job.folder).unlink(missing_ok=True)
        rounds.schedule.grow()

    def _rows(self, session: SparkSession, rounds: Rounds[Any], now: Round, exchanges: int) -> DataFrame:
        """Return the rows of a round's last stage: its receipts."""
        make = rounds.task(now)

        def begin(number: int) -> Iterator[pa.RecordBatch]:
            yield from make(0).begin(number)

        def advance(stage: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from make(stage).advance(batches)

        stages = [partial(advance, stage) for stage in range(1, exchanges + 1)]
        return exchange(session, rounds.job.tasks, begin, stages)
