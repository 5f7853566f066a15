"""The balanced strategy: nothing has an owner, and each worker gets the same work under any skew.

This is the paper's BiGJoin-S (section 3.4). A round is one batch of a step: every worker reads its deal of the ranges that
wait, and looks up what the three verbs need (`dataflow/managed.py`). Each exchange of lookups is two exchanges of Spark: to the
workers that answer, and back. Between the two, what a worker manages is kept in a file.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigjoin.dataflow.lookups import Answers, Dealing, entries_of_workers, tuples_answered
from bigjoin.dataflow.managed import Managed, Manager, begin
from bigjoin.dataflow.packing import Arrays, pack_arrays, packed, unpack_arrays
from bigjoin.dataflow.schedule import DealtSchedule, Round
from bigjoin.defaults import EXCHANGE_BATCH_SIZE
from bigjoin.spark.exchange import Arrival, RoundTask, Row
from bigjoin.spark.job import Job
from bigjoin.spark.receipts import Receipt, TaskOutput, by_worker
from bigjoin.spark.round_stats import RoundStats
from bigjoin.spark.rounds import LIMITED_PROPOSALS, STREAMED_PROPOSALS, InRounds, Rounds
from bigjoin.storage import place_like

STATE = -2
"""The visit of a row that tells a worker which file holds what it manages; other visits are the numbers of indices."""

MAX_BATCH_CANDIDATES = 1 << 26
"""The most candidates of a batch with the default B'. Each takes some 25 bytes on disk in each exchange."""

ROW_REQUESTS = 1 << 20
"""The most requests in one row: some 8 MB. A multiple of eight, as answers of single bits are joined byte by byte."""


class Balanced(InRounds):
    """Nothing has an owner: work is dealt evenly, and workers look up what they need."""

    def batch_size(self, workers: int) -> int:
        """Return the default B': a batch of all workers has to fit on the disk."""
        return min(EXCHANGE_BATCH_SIZE, max(1, MAX_BATCH_CANDIDATES // workers))

    def rounds(self, job: Job) -> BalancedRounds:
        """Return the rounds of a job."""
        limited = job.limit is not None
        first = LIMITED_PROPOSALS if limited else STREAMED_PROPOSALS if job.streams else job.batch_size * job.workers
        schedule = DealtSchedule(
            job.bound.seed.positions,
            len(job.plan.steps),
            workers=job.workers,
            batch_size=min(job.batch_size, max(1, first // job.workers)),
            max_batch_size=job.batch_size,
            deepest_first=limited,
        )
        return BalancedRounds(job, schedule)


@dataclass
class BalancedRounds(Rounds[DealtSchedule]):
    """The batches of a job, with the figures that theorem 3.4 is about."""

    dealt: int = 0
    """The largest difference between the candidates that two workers began with."""
    lookups: float | None = None
    """The most requests to a worker in a full batch, in units of the larger of B' and their mean; None if none was full."""
    bytes: int = 0
    """The most bytes on disk: ranges that wait, and what workers manage."""

    def exchanges(self, now: Round) -> int:
        """Return how often rows travel in a round: to the workers that answer, and back."""
        return self._manager(now).stages

    def task(self, now: Round) -> Callable[[int], RoundTask]:
        """Return a function that makes a task of a round."""
        return partial(BalancedTask, self.job, now)

    def labels(self, stats: RoundStats, now: Round) -> list[dict[str, Any]]:
        """Return the round, what a worker was dealt, and the lookup, for each exchange and finally for the deal."""
        manager = self._manager(now)
        verbs = [exchange[0][0].verb for exchange in manager.exchanges]
        kinds = [what for verb in verbs for what in (verb, f"{verb} answers")][: manager.stages]
        return [{"round": stats.rounds, "dealt": now.size / self.job.workers, "of": kind} for kind in (*kinds, "deal")]

    def observe(self, now: Round, receipts: Sequence[Receipt], loads: NDArray[np.int64]) -> None:
        """Record how even a batch was, how many requests it made, and what was on disk."""
        begun = [size for receipt in receipts for _, size in receipt.begun]
        self.dealt = max(self.dealt, max(begun, default=0) - min(begun, default=0))
        if now.size == self.schedule.batch:
            for load in loads[: len(loads) - 1 : 2]:
                most = float(load.max() / max(load.mean(), self.schedule.batch_size))
                self.lookups = max(self.lookups or 0.0, most)
        waiting = sum(file.bytes for receipt in receipts for file in receipt.waiting)
        managed = sum(size for receipt in receipts for _, size in receipt.states)
        self.bytes = max(self.bytes, self.schedule.bytes + waiting + managed)

    def figures(self) -> dict[str, Any]:
        """Return what waited, and the figures of the proof."""
        relations = self.job.index.statistics.relations.values()
        return {
            "waiting": {"prefixes": self.schedule.peak_prefixes, "bytes": self.bytes},
            "balance": {
                "batch": self.job.batch_size * self.job.workers,
                "input": sum(relation.tuples for relation in relations),
                "dealt": self.dealt,
                "lookups": self.lookups,
                "new": self.schedule.most_new,
                "waiting": self.schedule.most_waiting,
            },
        }

    def index_tuples(self) -> NDArray[np.int64]:
        """Return how many entries each worker has of all indices that the plan reads."""
        dealing = dealing_of(self.job)
        held = [entries_of_workers(trie, dealing.of(number)) for number, trie in enumerate(self.job.bound.tries)]
        return np.asarray(np.sum(held, axis=0))

    def _manager(self, now: Round) -> Manager:
        return Manager(self.job.bound, now.step, dealing_of(self.job), TaskOutput(self.job), counting=self.job.is_counted)


class BalancedTask(RoundTask):
    """A task of a round: its workers ask in even stages and answer in odd ones."""

    def __init__(self, job: Job, now: Round, stage: int = 0) -> None:
        super().__init__(job, now, stage)
        self.manager = Manager(job.bound, now.step, dealing_of(job), self.output, counting=job.is_counted)
        self.tally = self.manager.tally
        self.dealt = np.zeros(job.workers, np.int64)
        """How many ranges of candidates or seeds each worker was dealt."""
        self.begun_with: list[tuple[int, int]] = []
        """Workers, and how many candidates each begins with."""
        self.states: list[tuple[str, int]] = []
        """Files with what workers manage, and their bytes."""

    def receipt(self) -> Receipt:
        """Return what this task has done."""
        self.load += self.manager.load
        receipt, dealt = super().receipt(), by_worker(self.dealt)
        return replace(receipt, dealt=dealt, begun=tuple(self.begun_with), states=tuple(self.states))

    def begun(self) -> Iterator[Sequence[Row]]:
        """Read what is dealt to the workers of this task, and make the first requests."""
        for worker in self.job.hosted(self.number):
            before = sum(self.tally.candidates)
            self.dealt[worker], state = begin(self.manager, self.now.work[worker], self.job.folder)
            self.begun_with.append((worker, sum(self.tally.candidates) - before))
            if state is not None:
                yield from self._asked(worker, state)

    def arrived(self, rows: Iterator[Arrival]) -> Iterator[Sequence[Row]]:
        """Answer requests, or continue with answers."""
        yield from self._answered(rows) if self.stage % 2 else self._advanced(rows)

    def _answered(self, rows: Iterator[Arrival]) -> Iterator[Sequence[Row]]:
        for row in rows:
            worker, home = row.source, row.source % self.job.tasks
            if row.visit == STATE:
                yield [(home, worker, row.sequence, STATE, row.payload.to_pybytes())]
                continue
            said = self.manager.answer(self.stage // 2, row.visit, unpack_arrays(row.payload), self.number)
            if said:
                self.load[worker] += tuples_answered(said[0])
                yield [(home, worker, (self.number << 32) + row.sequence, row.visit, pack_arrays(said))]

    def _advanced(self, rows: Iterator[Arrival]) -> Iterator[Sequence[Row]]:
        for worker, mine in groupby(rows, key=lambda row: row.source):
            file, *said = mine  # the row with the worker's state has the smallest sequence number
            if not self.output.is_full:
                managed = Managed.of(
                    unpack_arrays(place_like(file.payload.to_pybytes().decode(), self.job.folder).read_bytes())
                )
                state = self.manager.advance(self.stage // 2 - 1, managed, _answers(said))
                if state is not None:
                    yield from self._asked(worker, state)

    def _asked(self, worker: int, state: Managed) -> Iterator[Sequence[Row]]:
        """Give the row that tells a worker where its own state is, and the rows that carry its requests.

        The state is written first: if that fails, no requests are sent whose answers could not be used.
        """
        if not state.is_last:
            path = self.job.folder / f"{uuid.uuid4().hex}.state"
            with path.open("wb") as target:
                target.writelines(packed(state.arrays()))
                self.states.append((str(path), target.tell()))
            yield [(worker % self.job.tasks, worker, -1, STATE, str(path).encode())]
        sequence = 0
        for number, asked in state.asked.items():
            for task, request in enumerate(asked.requests):
                for first in range(0, len(request[0]), ROW_REQUESTS):
                    piece = tuple(column[first : first + ROW_REQUESTS] for column in request)
                    yield [(task, worker, sequence, number, pack_arrays(piece))]
                    sequence += 1


def dealing_of(job: Job) -> Dealing:
    """Return how a job's lookups are dealt. The salt comes from the job's random name."""
    return Dealing(job.workers, job.tasks, salt=int(job.name[:12], 16))


def _answers(rows: list[Arrival]) -> Answers:
    """Return the answers in rows, with the pieces of each task joined."""
    pieces: dict[tuple[int, int], list[Arrays]] = defaultdict(list)
    for row in rows:
        pieces[row.visit, row.sequence >> 32].append(unpack_arrays(row.payload))
    answers: Answers = defaultdict(dict)
    for (index, task), said in pieces.items():
        answers[index][task] = tuple(map(np.concatenate, zip(*said, strict=True)))
    return answers
