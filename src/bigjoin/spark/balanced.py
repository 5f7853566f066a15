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
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from bigjoin import errors
from bigjoin.dataflow.agenda import Waiting
from bigjoin.dataflow.balance import Balance, Batch
from bigjoin.dataflow.blocks import Counts
from bigjoin.dataflow.lookups import Answers, Dealing, entries_of_workers, pack_arrays, packed, told, unpack_arrays
from bigjoin.dataflow.managed import Manager, State, begin, exchanges_of, tries_of
from bigjoin.dataflow.waiting import WaitingFile
from bigjoin.index.trie import Codes
from bigjoin.spark.exchange import RECEIPT, batch_of, exchange, exchanging
from bigjoin.spark.job import Clock, Job, Matches, failure, receipts
from bigjoin.spark.results import Progress, Ran, Stats
from bigjoin.spark.session import common_directory

STATE = -2
"""In the place of a lookup's number: the file of what a worker manages, on its way to that worker."""

FEW = 1 << 16
"""Candidates of the first batch where a limit asks for few matches; the next ones have twice as many each."""

PIECE = 1 << 20
"""Requests of one row at most: some 8 MB."""


def run(spark: SparkSession, job: Job, *, progress: Progress | None = None) -> Ran:
    """Run batches until nothing waits."""
    limited = job.limit is not None
    balance = Balance(
        job.bound.seed.positions,
        len(job.plan.steps),
        job.workers,
        min(job.batch_size, max(1, FEW // job.workers)) if limited else job.batch_size,
        deepest_first=limited,
    )
    stats, dealt, asked = Stats.of(job), 0, 0.0
    job = replace(job, folder=str(common_directory(spark, job.index.path, "waiting")))
    try:
        with exchanging(spark) as session:
            while not stats.has(job.limit) and (batch := balance.next_batch()) is not None:
                kinds = [type(exchange[0]).__name__.lower() for exchange in exchanges_of(job.bound, batch.step)]
                told = _round(session, job, batch, 2 * len(kinds))
                label = {"round": stats.rounds, "dealt": batch.size / job.workers}
                labels = [{**label, "of": what} for kind in kinds for what in (kind, f"{kind} answers")]
                loads = stats.add(told, 2 * len(kinds), [*labels, {**label, "of": "deal"}])
                sizes = [sum(part.last - part.first for part in parts) for parts in batch.work]
                dealt = max(dealt, max(sizes) - min(sizes))
                if batch.size == balance.size:
                    for load in loads[: 2 * len(kinds) : 2]:
                        asked = max(asked, float(load.max() / max(load.mean(), balance.batch_size)))
                balance.add([Waiting(**file) for receipt in told for file in receipt["waiting"]])
                for file in (*batch.spent, *(file for receipt in told for file in receipt["states"])):
                    Path(file).unlink(missing_ok=True)
                balance.batch_size = min(job.batch_size, 2 * balance.batch_size)
                if progress is not None:
                    progress(balance.share)
    finally:
        shutil.rmtree(job.folder, ignore_errors=True)
    figures = {
        "index_tuples": _index_tuples(job),
        "waiting": {"prefixes": balance.peak_prefixes, "bytes": balance.peak_bytes},
        "balance": {
            "batch": job.batch_size * job.workers,
            "dealt": dealt,
            "lookups": asked,
            "new": balance.most_new,
            "waiting": balance.most_waiting,
        },
    }
    return Ran(stats.matches, stats.parts, {**stats.report(job), **figures})


def _round(spark: SparkSession, job: Job, batch: Batch, exchanges: int) -> list[dict[str, Any]]:
    """Run one Spark job, and return the receipts of its tasks."""

    def first(number: int) -> Iterator[pa.RecordBatch]:
        yield from Task(job, batch, 0).begin(number)

    def then(stage: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = Task(job, batch, stage)
        yield from task.answer(batches) if stage % 2 else task.advance(batches)

    return receipts(exchange(spark, job.tasks, first, [partial(then, stage) for stage in range(1, exchanges + 1)]))


Row = tuple[int, int, int, int, bytes]
"""(task, source, sequence, visit, payload); the source of a lookup is the worker that asks, its visit the lookup's number."""


class Task:
    """A task of a round: its workers ask (in stages with even numbers), or answer."""

    def __init__(self, job: Job, batch: Batch, stage: int) -> None:
        self.job, self.batch, self.stage = job, batch, stage
        self.clock = Clock()
        dealing = Dealing(job.workers, job.tasks, salt=int(job.name[:12], 16))
        self.manager = Manager(job.bound, batch.step, dealing, self, counting=job.output is None)
        self.bytes = 0
        self.answered: NDArray[np.int64] = np.zeros(job.workers, np.int64)
        """Answers for each worker."""
        self.dealt: NDArray[np.int64] = np.zeros(job.workers, np.int64)
        """Ranges (or seeds) that each worker was dealt."""
        self.files: dict[int, WaitingFile] = {}
        self.states: list[str] = []
        self.earlier: list[bytes] = []
        """Receipts of earlier stages."""
        self.number: int
        self.found: Matches

    def begin(self, number: int) -> Iterator[pa.RecordBatch]:
        """Read what is dealt to the workers of a task, and ask."""
        self._open(number)
        yield from self._sent(self._dealt())

    def answer(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Answer what arrives, and pass on what workers have sent to themselves."""
        yield from self._sent(self._answered(self._arrived(batches)))

    def advance(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Go on with the answers that arrive, worker by worker."""
        yield from self._sent(self._advanced(self._arrived(batches)))

    def _open(self, number: int) -> None:
        self.number, self.found = number, Matches(self.job, number)

    def _arrived(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, int, int, Any]]:
        """Give the source, the sequence, the visit and the payload of rows, and keep receipts."""
        for batch in batches:
            if batch.num_rows and not hasattr(self, "number"):
                self._open(batch.column("task")[0].as_py())
            rows = zip(*(batch.column(name).to_pylist() for name in ("source", "sequence", "visit")), strict=True)
            for (source, sequence, visit), payload in zip(rows, batch.column("payload"), strict=True):
                if visit == RECEIPT:
                    self.earlier.append(payload.as_py())
                else:
                    yield source, sequence, visit, payload.as_buffer()

    def _dealt(self) -> Iterator[list[Row]]:
        for worker in self.job.hosted(self.number):
            state = begin(self.manager, self.batch.work[worker])
            self.dealt[worker] = 0 if state is None else len(state.proposers)
            if state is not None:
                yield from self._asked(worker, state)

    def _answered(self, arrived: Iterator[tuple[int, int, int, Any]]) -> Iterator[list[Row]]:
        for worker, sequence, visit, payload in arrived:
            home = worker % self.job.tasks
            if visit == STATE:
                yield [(home, worker, -1, STATE, bytes(payload))]
                continue
            said = self.manager.answer(self.stage // 2, visit, unpack_arrays(payload), self.number)
            self.answered[worker] += told(said[0])
            yield [(home, worker, (self.number << 32) + sequence, visit, pack_arrays(said))]

    def _advanced(self, arrived: Iterator[tuple[int, int, int, Any]]) -> Iterator[list[Row]]:
        for worker, rows in groupby(arrived, key=lambda row: row[0]):
            (_, _, _, file), *said = rows  # of all that a worker receives, its state comes first
            if not self.found.is_full:
                managed = State.of(unpack_arrays(Path(bytes(file).decode()).read_bytes()))
                state = self.manager.advance(self.stage // 2 - 1, managed, _answers(said))
                if state is not None:
                    yield from self._asked(worker, state)

    def _asked(self, worker: int, state: State) -> Iterator[list[Row]]:
        """Give the rows that carry a worker's requests, and the one that tells itself where its state is."""
        sequence = 0
        for number, asked in state.asked.items():
            for task, request in enumerate(asked.requests):
                for first in range(0, len(request[0]), PIECE):
                    piece = tuple(column[first : first + PIECE] for column in request)
                    yield [(task, worker, sequence, number, pack_arrays(piece))]
                    sequence += 1
        path = Path(self.job.folder) / f"{uuid.uuid4().hex}.state"
        with path.open("wb") as target:
            target.writelines(packed(state.arrays()))
        self.states.append(str(path))
        yield [(worker % self.job.tasks, worker, -1, STATE, str(path).encode())]

    def _sent(self, rows: Iterator[list[Row]]) -> Iterator[pa.RecordBatch]:
        """Give rows as batches, and at their end the receipts."""
        said: dict[str, Any]
        try:
            for some in rows:
                self.bytes += sum(len(row[-1]) for row in some)
                yield batch_of(some)
            if not hasattr(self, "number"):  # nothing was sent here
                return
            self._close()
            said = self._receipt()
        except (errors.BigjoinError, OSError) as error:
            said = failure(self.job, error)
        finally:
            with suppress(OSError):  # what went wrong is told by now
                self._close()
        told = [*self.earlier, json.dumps(said).encode()]
        yield batch_of([(self.number, self.number, n, RECEIPT, payload) for n, payload in enumerate(told)])

    def _close(self) -> None:
        for file in self.files.values():
            file.close()
        if hasattr(self, "found"):
            self.found.close()

    def _receipt(self) -> dict[str, Any]:
        tally, load = self.manager.tally, self.manager.load + self.answered
        return {
            "task": self.number,
            "stage": self.stage,
            "prefixes": tally.prefixes,
            "candidates": tally.candidates,
            "matches": tally.matches,
            "parts": self.found.parts,
            "bytes": self.bytes,
            "load": _by_worker(load),
            "dealt": _by_worker(self.dealt),
            "states": self.states,
            "waiting": [
                {
                    "file": str(file.path),
                    "step": step,
                    "stop": 0,
                    "task": self.number,
                    "prefixes": file.prefixes,
                    "proposals": file.proposals,
                    "bytes": file.bytes,
                    "codes": file.codes,
                }
                for step, file in self.files.items()
            ],
            **self.clock.receipt(),
        }

    def wait(self, step: int, ranges: Counts) -> None:
        """Write ranges to the file of those that wait for a step."""
        if step not in self.files:
            self.files[step] = WaitingFile(Path(self.job.folder) / f"{uuid.uuid4().hex}.waiting")
        self.files[step].put(ranges)

    def match(self, matches: Codes) -> None:
        """Write matches to this task's file."""
        self.found.put(matches)


def _by_worker(tuples: NDArray[np.int64]) -> list[tuple[int, int]]:
    busy = np.flatnonzero(tuples)
    return list(zip(busy.tolist(), tuples[busy].tolist(), strict=True))


def _answers(rows: list[tuple[int, int, int, Any]]) -> Answers:
    """Return what rows say, the pieces of each task put together."""
    pieces: dict[tuple[int, int], list[Any]] = defaultdict(list)
    for _, sequence, lookup, payload in rows:
        pieces[lookup, sequence >> 32].append(unpack_arrays(payload))
    answers: Answers = defaultdict(list)
    for (lookup, _), said in pieces.items():
        answers[lookup].append(tuple(map(np.concatenate, zip(*said, strict=True))))
    return answers


def _index_tuples(job: Job) -> dict[str, float]:
    """Return how many entries of all indices that a plan reads a worker has."""
    dealing = Dealing(job.workers, job.tasks, salt=int(job.name[:12], 16))
    owned = sum(entries_of_workers(trie, dealing.of(number)) for number, trie in enumerate(tries_of(job.bound)))
    return {"max": int(np.max(owned)), "mean": float(np.mean(owned))}
