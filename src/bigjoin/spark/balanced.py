"""The balanced strategy: no index has a place of its own, and each worker gets the same work, under any skew.

This is the paper's BiGJoin-S (section 3.4). A round is one Spark job over one batch of a step: every worker reads its deal of
the ranges that wait, and looks up what it has to know; each exchange of lookups is two of Spark's, to those who answer and
back. Between the two, what a worker manages lies in a file. The driver deals, and knows only how many proposals wait in which
file.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from bigjoin.dataflow.agenda import Waiting
from bigjoin.dataflow.balance import Balance, Batch
from bigjoin.dataflow.lookups import Answers, Dealing, entries_of_workers, tuples_said
from bigjoin.dataflow.managed import Manager, State, begin, tries_of
from bigjoin.dataflow.packing import pack_arrays, packed, unpack_arrays
from bigjoin.defaults import EXCHANGE_BATCH_SIZE
from bigjoin.spark.exchange import RECEIPT, batch_of, exchange, exchanging
from bigjoin.spark.job import Job, Kept, by_worker, receipts, reported
from bigjoin.spark.results import Found, Progress, Ran, Stats, parts_of
from bigjoin.spark.session import common_directory

STATE = -2
"""In the place of an index's number: the file of what a worker manages, on its way to that worker."""

MOST = 1 << 26
"""Candidates of a batch at most, if nobody says B': they take some 25 bytes each on disk, in each exchange."""

FEW = 1 << 16
"""Candidates of the first batch where a limit asks for few matches; the next ones have twice as many each."""

SOON = 1 << 20
"""The same, where matches are read as they are found."""

PIECE = 1 << 20
"""Requests of one row at most: some 8 MB. A multiple of eight, as answers that are bits are put together byte by byte."""


def batch_size(workers: int) -> int:
    """Return B' for so many workers, if nobody says another: a batch of all of them fits on the disk."""
    return min(EXCHANGE_BATCH_SIZE, max(1, MOST // workers))


def run(spark: SparkSession, job: Job, *, progress: Progress | None = None, found: Found | None = None) -> Ran:
    """Run batches until nothing waits."""
    limited = job.limit is not None
    first = FEW if limited else SOON if found is not None else job.batch_size * job.workers
    balance = Balance(
        job.bound.seed.positions,
        len(job.plan.steps),
        job.workers,
        min(job.batch_size, max(1, first // job.workers)),
        deepest_first=limited,
    )
    stats, proof = Stats.of(job), Proof()
    job = replace(job, folder=str(common_directory(spark, job.index.path, "waiting")))
    try:
        with exchanging(spark) as session:
            while not stats.has(job.limit) and (batch := balance.next_batch()) is not None:
                stages, kinds = shape_of(job, batch)
                told = _round(session, job, batch, stages)
                label = {"round": stats.rounds, "dealt": batch.size / job.workers}
                loads = stats.add(told, stages, [{**label, "of": kind} for kind in (*kinds, "deal")])
                if found is not None:
                    found(parts_of(told))
                proof.add(told, loads[:stages:2], None if batch.size < balance.size else balance.batch_size)
                balance.add([Waiting(**file) for receipt in told for file in receipt["waiting"]])
                proof.bytes = max(proof.bytes, balance.bytes + sum(size for r in told for _, size in r["states"]))
                for file in (*batch.spent, *(file for receipt in told for file, _ in receipt["states"])):
                    Path(file).unlink(missing_ok=True)
                balance.batch_size = min(job.batch_size, 2 * balance.batch_size)
                if progress is not None:
                    progress(balance.share)
    finally:
        shutil.rmtree(job.folder, ignore_errors=True)
    figures = {
        "waiting": {"prefixes": balance.peak_prefixes, "bytes": proof.bytes},
        "balance": {
            "batch": job.batch_size * job.workers,
            "input": sum(relation.tuples for relation in job.index.statistics.relations.values()),
            "dealt": proof.dealt,
            "lookups": proof.lookups,
            "new": balance.most_new,
            "waiting": balance.most_waiting,
        },
    }
    return Ran(stats.matches, stats.parts, {**stats.report(job), **figures}, partial(_index_tuples, job))


@dataclass
class Proof:
    """Figures of the proof, as the tasks of rounds tell them."""

    dealt: int = 0
    """How many candidates one worker had to begin with more than another, at most."""
    lookups: float | None = None
    """Requests to a worker in a full batch at most, in units of what is larger of B' and their mean; None if none was full."""
    bytes: int = 0
    """What was on disk at most: ranges that wait, and what workers manage."""

    def add(self, told: Sequence[dict[str, Any]], requests: NDArray[np.int64], full: int | None) -> None:
        """Add what the tasks of a round tell, and what was asked in it; `full` is B', if workers had that much."""
        begun = [size for receipt in told for _, size in receipt["begun"]]
        self.dealt = max(self.dealt, max(begun, default=0) - min(begun, default=0))
        for load in requests if full is not None else ():
            self.lookups = max(self.lookups or 0.0, float(load.max() / max(load.mean(), full or 1)))


def _round(spark: SparkSession, job: Job, batch: Batch, exchanges: int) -> list[dict[str, Any]]:
    """Run one Spark job, and return the receipts of its tasks."""

    def first(number: int) -> Iterator[pa.RecordBatch]:
        yield from Task(job, batch, 0).begin(number)

    def then(stage: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = Task(job, batch, stage)
        yield from task.answer(batches) if stage % 2 else task.advance(batches)

    return receipts(exchange(spark, job.tasks, first, [partial(then, stage) for stage in range(1, exchanges + 1)]))


Row = tuple[int, int, int, int, bytes]
"""(task, source, sequence, visit, payload): the source of requests is the worker that asks, their visit the index's number."""

Arrived = tuple[int, int, int, Any]
"""A row without its task."""


class Task:
    """A task of a round: its workers ask (in stages with even numbers), or answer."""

    def __init__(self, job: Job, batch: Batch, stage: int) -> None:
        self.job, self.batch, self.stage = job, batch, stage
        self.kept = Kept(job)
        self.manager = Manager(job.bound, batch.step, dealing_of(job), self.kept, counting=job.output is None)
        self.number: int | None = None
        """Of this task, once a row has told it."""
        self.bytes = 0
        self.answered: NDArray[np.int64] = np.zeros(job.workers, np.int64)
        """Answers for each worker."""
        self.dealt: NDArray[np.int64] = np.zeros(job.workers, np.int64)
        """Ranges of candidates, or of seeds, that each worker was dealt."""
        self.begun: list[tuple[int, int]] = []
        """Workers, and how many candidates each begins with."""
        self.states: list[tuple[str, int]] = []
        """Files of what workers manage, and their bytes."""
        self.earlier: list[bytes] = []
        """Receipts of earlier stages."""

    def begin(self, number: int) -> Iterator[pa.RecordBatch]:
        """Read what is dealt to the workers of a task, and ask."""
        self.number = number
        yield from self._sent(self._dealt(number))

    def answer(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Answer what arrives, and pass on what workers have sent to themselves."""
        yield from self._sent(self._answered(self._arrived(batches)))

    def advance(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Go on with the answers that arrive, worker by worker."""
        yield from self._sent(self._advanced(self._arrived(batches)))

    def _arrived(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Arrived]:
        """Give rows, and keep receipts."""
        for batch in batches:
            if batch.num_rows:
                self.number = batch.column("task")[0].as_py()
            rows = zip(*(batch.column(name).to_pylist() for name in ("source", "sequence", "visit")), strict=True)
            for (source, sequence, visit), payload in zip(rows, batch.column("payload"), strict=True):
                if visit == RECEIPT:
                    self.earlier.append(payload.as_py())
                else:
                    yield source, sequence, visit, payload.as_buffer()

    def _dealt(self, number: int) -> Iterator[Row]:
        for worker in self.job.hosted(number):
            before = sum(self.manager.tally.candidates)
            self.dealt[worker], state = begin(self.manager, self.batch.work[worker])
            self.begun.append((worker, sum(self.manager.tally.candidates) - before))
            if state is not None:
                yield from self._asked(worker, state)

    def _answered(self, arrived: Iterator[Arrived]) -> Iterator[Row]:
        for worker, sequence, visit, payload in arrived:
            home = worker % self.job.tasks
            if visit == STATE:
                yield home, worker, sequence, STATE, bytes(payload)
                continue
            assert self.number is not None
            said = self.manager.answer(self.stage // 2, visit, unpack_arrays(payload), self.number)
            if said:
                self.answered[worker] += tuples_said(said[0])
                yield home, worker, (self.number << 32) + sequence, visit, pack_arrays(said)

    def _advanced(self, arrived: Iterator[Arrived]) -> Iterator[Row]:
        for worker, rows in groupby(arrived, key=lambda row: row[0]):
            (_, _, _, file), *said = rows  # of all that a worker receives, its state comes first
            if not self.kept.is_full:
                managed = State.of(unpack_arrays(Path(bytes(file).decode()).read_bytes()))
                state = self.manager.advance(self.stage // 2 - 1, managed, _answers(said))
                if state is not None:
                    yield from self._asked(worker, state)

    def _asked(self, worker: int, state: State) -> Iterator[Row]:
        """Give the row that tells a worker itself where its state is, and those that carry its requests.

        The state is written first: if it cannot be, nothing travels that somebody would wait for.
        """
        if not state.is_last:
            path = Path(self.job.folder) / f"{uuid.uuid4().hex}.state"
            with path.open("wb") as target:
                target.writelines(packed(state.arrays()))
                self.states.append((str(path), target.tell()))
            yield worker % self.job.tasks, worker, -1, STATE, str(path).encode()
        sequence = 0
        for number, asked in state.asked.items():
            for task, request in enumerate(asked.requests):
                for first in range(0, len(request[0]), PIECE):
                    piece = tuple(column[first : first + PIECE] for column in request)
                    yield task, worker, sequence, number, pack_arrays(piece)
                    sequence += 1

    def _sent(self, rows: Iterator[Row]) -> Iterator[pa.RecordBatch]:
        """Give rows as batches, and at their end the receipts."""
        said = yield from reported(self.kept, self._batches(rows), self._receipt)
        if self.number is not None:  # something was sent here
            told = [*self.earlier, json.dumps(said).encode()]
            yield batch_of([(self.number, self.number, n, RECEIPT, payload) for n, payload in enumerate(told)])

    def _batches(self, rows: Iterator[Row]) -> Iterator[pa.RecordBatch]:
        for row in rows:
            self.bytes += len(row[-1])
            yield batch_of([row])

    def _receipt(self) -> dict[str, Any]:
        load = by_worker(self.manager.load + self.answered)
        sent = {"stage": self.stage, "bytes": self.bytes, "load": load, "states": self.states}
        dealt = {"dealt": by_worker(self.dealt), "begun": self.begun}
        return {**self.kept.receipt(self.number or 0, self.manager.tally), **sent, **dealt}


def shape_of(job: Job, batch: Batch) -> tuple[int, list[str]]:
    """Return how often something travels in a round, and what."""
    manager = Manager(job.bound, batch.step, dealing_of(job), Kept(job), counting=job.output is None)
    kinds = [type(exchange[0][0]).__name__.lower() for exchange in manager.exchanges]
    return manager.stages, [what for kind in kinds for what in (kind, f"{kind} answers")][: manager.stages]


def dealing_of(job: Job) -> Dealing:
    """Return how a job's lookups are dealt; the salt is that of this run."""
    return Dealing(job.workers, job.tasks, salt=int(job.name[:12], 16))


def _answers(rows: list[Arrived]) -> Answers:
    """Return what rows say, the pieces of each task put together."""
    pieces: dict[tuple[int, int], list[Any]] = defaultdict(list)
    for _, sequence, index, payload in rows:
        pieces[index, sequence >> 32].append(unpack_arrays(payload))
    answers: Answers = defaultdict(dict)
    for (index, task), said in pieces.items():
        answers[index][task] = tuple(map(np.concatenate, zip(*said, strict=True)))
    return answers


def _index_tuples(job: Job) -> dict[str, float]:
    """Return how many entries of all indices that a plan reads a worker has."""
    owned = sum(entries_of_workers(trie, dealing_of(job).of(number)) for number, trie in enumerate(tries_of(job.bound)))
    return {"max": int(np.max(owned)), "mean": float(np.mean(owned))}
