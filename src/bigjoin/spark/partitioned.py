"""The partitioned strategy: each worker owns the keys that fall to it, in every index, and prefixes travel to the owner.

This is the paper's BiGJoin (sections 3.1 and 3.2). A round is one Spark job: tasks begin with seeds, or with proposals of
prefixes that wait; blocks travel through the exchanges of that step and of the next ones, as far as a budget for each step
allows; and prefixes that found their proposer when it was spent wait there in files. The driver only knows which files there
are, and how many proposals each will make.

The heavy-light strategy is the same but for heavy keys, which the driver finds before the first round (`dataflow/heavy.py`).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from bigjoin.dataflow.agenda import Agenda, Round, Slice, Waiting
from bigjoin.dataflow.heavy import find_heavy
from bigjoin.dataflow.itinerary import Itinerary
from bigjoin.dataflow.operators import Operators, Travels
from bigjoin.dataflow.seeds import WorkerSeeds, seeds_of_tasks, tuples_of_workers
from bigjoin.dataflow.waiting import read_waiting
from bigjoin.spark.exchange import Inbox, Outbox, exchange, exchanging
from bigjoin.spark.job import Job, Kept, by_worker, receipts, reported
from bigjoin.spark.results import Found, Progress, Ran, Stats, parts_of
from bigjoin.spark.session import common_directory

BUDGET = 1 << 26
"""Proposals of each step in one round: what a Spark job moves, and prefixes that wait on disk at each step."""

FEW = 1 << 16
"""Proposals of the first round where a limit asks for few matches; the next ones have twice as many each."""

SOON = 1 << 20
"""The same, where matches are read as they are found."""

RunRound = Callable[[SparkSession, Job, Round, int], list[dict[str, Any]]]


def run(
    spark: SparkSession,
    job: Job,
    *,
    budget: int = BUDGET,
    progress: Progress | None = None,
    found: Found | None = None,
    run_round: RunRound | None = None,
) -> Ran:
    """Run rounds until nothing waits."""
    job = replace(job, soon=found is not None)
    itinerary, steps, limited = Itinerary(job.bound, job.heavy), len(job.plan.steps), job.limit is not None
    agenda = Agenda(
        seeds_of_tasks(job.bound.seed, job.workers, job.tasks, job.heavy.marks[0] if job.heavy else None),
        steps,
        job.workers,
        job.batch_size,
        FEW if limited else min(budget, SOON) if job.soon else budget,
        shares_last=itinerary.shares_last and not job.soon,
        deepest_first=limited,
    )
    stats = Stats.of(job)
    job = replace(job, folder=str(common_directory(spark, job.index.path, "waiting")))
    try:
        with exchanging(spark) as session:
            while not stats.has(job.limit) and (now := agenda.next_round()) is not None:
                exchanges = itinerary.exchanges(now.step)
                told = (run_round or _round)(session, job, now, exchanges)
                stats.add(told, exchanges)
                if found is not None:
                    found(parts_of(told))
                waiting = [Waiting(**file) for receipt in told for file in receipt["waiting"]]
                agenda.add(waiting, sum(sum(receipt["candidates"][1:]) for receipt in told))
                for file in now.spent:
                    Path(file).unlink(missing_ok=True)
                agenda.budget = min(budget, 2 * agenda.budget)
                if progress is not None:
                    progress(agenda.share)
    finally:
        shutil.rmtree(job.folder, ignore_errors=True)
    waited = {"prefixes": agenda.peak_prefixes, "bytes": agenda.peak_bytes}
    return Ran(stats.matches, stats.parts, {**stats.report(job), "waiting": waited}, partial(_index_tuples, job))


def run_heavy_light(spark: SparkSession, job: Job, *, progress: Progress | None = None, found: Found | None = None) -> Ran:
    """Run rounds in which heavy keys are dealt out over all workers, and light ones stay whole."""
    return run(spark, replace(job, heavy=find_heavy(job.bound, job.workers)), progress=progress, found=found)


def _round(spark: SparkSession, job: Job, now: Round, exchanges: int) -> list[dict[str, Any]]:
    """Run one Spark job, and return the receipts of its tasks."""
    allowance = now.allowance // (exchanges + 1)

    def begin(number: int) -> Iterator[pa.RecordBatch]:
        yield from Task(job, allowance, now.step).begin(number, now.work[number])

    def advance(stage: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from Task(job, allowance, now.step, stage).advance(batches)

    return receipts(exchange(spark, job.tasks, begin, [partial(advance, stage) for stage in range(1, exchanges + 1)]))


class Task:
    """A task of a round: it hosts some workers, does what visits ask for, and sends what has to travel further."""

    def __init__(self, job: Job, allowance: int, step: int | None, stage: int = 0) -> None:
        self.job, self.step, self.stage = job, step, stage
        self.kept = Kept(job)
        last = Itinerary(job.bound, job.heavy).furthest(step)
        options: dict[str, Any] = {"batch_size": job.batch_size, "allowance": allowance, "last": last, "heavy": job.heavy}
        self.operators = Operators(job.bound, self.kept, counting=job.output is None, shares=not job.soon, **options)
        self.numbers = {visit: n for n, visit in enumerate(self.operators.itinerary.visits)}
        self.outbox: Outbox

    def begin(self, number: int, work: tuple[Slice, ...]) -> Iterator[pa.RecordBatch]:
        """Read seeds, or propose for prefixes that wait."""
        self.outbox = Outbox(number, workers=self.job.workers, tasks=self.job.tasks)
        yield from self._sent(self._begun(work))

    def advance(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Do what the blocks that arrive ask for, and pass the receipts of earlier tasks on."""
        inbox = Inbox(batches, self.job.batch_size, self.job.bound.seed.code_type)
        blocks = inbox.blocks()
        first = list(next(blocks, ()))
        if inbox.task is None:  # nothing was sent here
            return
        self.outbox = Outbox(inbox.task, workers=self.job.workers, tasks=self.job.tasks)
        if first:
            yield from self._sent(self._visited(chain([first], blocks)))
        for receipt in inbox.receipts:
            yield self.outbox.receipt(receipt)

    def _begun(self, work: tuple[Slice, ...]) -> Travels:
        size, bound, step = self.job.batch_size, self.job.bound, self.step
        dealt = self.job.heavy.marks[0] if self.job.heavy else None
        seeds = WorkerSeeds(bound.seed, self.job.workers, self.job.tasks, self.outbox.task, dealt)
        for part in work:
            if step is None:
                for read, prefixes in seeds.read(part.first, part.last, size):
                    self.operators.tally.candidates[0] += read
                    yield from self.operators.seed(prefixes)
                    if self.kept.is_full:
                        return
            else:
                for batch in read_waiting(part.file, part.first, part.last, size, bound.seed.code_type):
                    yield from self.operators.propose(step, part.stop, batch)
                    if self.kept.is_full:
                        return

    def _visited(self, blocks: Iterator[Any]) -> Travels:
        visits = self.operators.itinerary.visits
        for number, block in blocks:
            if not self.kept.is_full:
                yield from self.operators.visit(visits[number], block)

    def _sent(self, travelling: Travels) -> Iterator[pa.RecordBatch]:
        """Give the rows that carry blocks further, and at their end the receipt."""
        said = yield from reported(self.kept, self._rows(travelling), self._receipt)
        yield self.outbox.receipt(said)

    def _rows(self, travelling: Travels) -> Iterator[pa.RecordBatch]:
        for visit, block in travelling:
            at = self.operators.itinerary.place(visit)
            assert at is not None, "a block that may be anywhere has no need to travel"
            yield self.outbox.send(self.numbers[visit], block, at)

    def _receipt(self) -> dict[str, Any]:
        outbox = self.outbox
        sent = {"stage": self.stage, "bytes": outbox.bytes, "load": by_worker(outbox.load)}
        return {**self.kept.receipt(outbox.task, self.operators.tally), **sent}


def _index_tuples(job: Job) -> dict[str, float]:
    """Return how many tuples of all lists that a plan reads a worker owns."""
    used = [job.bound.seed.extender, *job.bound.extenders]
    owned: Any
    if job.heavy is not None:
        owned = job.heavy.tuples_of_workers(used)
    else:
        owned = sum(tuples_of_workers(trie, job.workers) for trie in {id(e.trie): e.trie for e in used}.values())
    return {"max": int(np.max(owned)), "mean": float(np.mean(owned))}
