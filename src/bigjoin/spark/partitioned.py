"""The partitioned strategy: each key of each index has a worker that owns it, and prefixes travel to the owners.

This is the paper's BiGJoin (sections 3.1 and 3.2). Blocks travel through the exchanges of a step and of later steps, as far as
the budget of each step allows; prefixes that reach their proposer after the budget is spent wait there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from bigjoin.dataflow.owned_seeds import WorkerSeeds, seeds_of_tasks, tuples_of_workers
from bigjoin.dataflow.packing import pack, unpack
from bigjoin.dataflow.routing import pieces, route
from bigjoin.dataflow.schedule import OwnedSchedule, Round
from bigjoin.dataflow.waiting import read_waiting
from bigjoin.joins.blocks import Block, join
from bigjoin.joins.dataflow_primitive import DataflowPrimitive, Travels
from bigjoin.joins.itinerary import Itinerary
from bigjoin.spark.exchange import Arrival, RoundTask, Row
from bigjoin.spark.job import Job
from bigjoin.spark.rounds import LIMITED_PROPOSALS, STREAMED_PROPOSALS, InRounds, Rounds
from bigjoin.storage import place_like

ROUND_PROPOSALS = 1 << 26
"""Proposals of each step in one round, which limits what a Spark job moves and what waits on disk at each step."""

ROW_TUPLES = 1 << 21
"""The most tuples in one row, whatever B' is: some 8 MB."""

COPIED_SHARE = 1 / 8
"""A row that is less than this share of the batch it came in is copied, as a view would keep the whole batch in memory."""


class Partitioned(InRounds):
    """Each key has a worker that owns it."""

    def rounds(self, job: Job) -> PartitionedRounds:
        """Return the rounds of a job."""
        seeds = seeds_of_tasks(job.bound.seed, job.workers, job.tasks, job.heavy.marks[0] if job.heavy else None)
        limited, first = job.limit is not None, min(ROUND_PROPOSALS, STREAMED_PROPOSALS) if job.streams else ROUND_PROPOSALS
        schedule = OwnedSchedule(
            seeds,
            len(job.plan.steps),
            workers=job.workers,
            batch_size=job.batch_size,
            budget=LIMITED_PROPOSALS if limited else first,
            max_budget=ROUND_PROPOSALS,
            shares_last=job.itinerary.shares_last and not job.streams,
            deepest_first=limited,
        )
        return PartitionedRounds(job, schedule)


@dataclass
class PartitionedRounds(Rounds[OwnedSchedule]):
    """The rounds of a job in which blocks travel to the owners of keys."""

    @cached_property
    def itinerary(self) -> Itinerary:
        return self.job.itinerary

    def exchanges(self, now: Round) -> int:
        """Return how often blocks travel in a round at most."""
        return self.itinerary.exchanges(now.step)

    def task(self, now: Round) -> Callable[[int], RoundTask]:
        """Return a function that makes a task of a round; its stages share the allowance."""
        return partial(PartitionedTask, self.job, replace(now, allowance=now.allowance // (self.exchanges(now) + 1)))

    def index_tuples(self) -> NDArray[np.int64]:
        """Return how many tuples each worker owns of the lists that the plan reads."""
        plan = self.job.bound
        if self.job.heavy is not None:
            return self.job.heavy.tuples_of_workers([plan.seed.extender, *plan.extenders])
        return np.asarray(np.sum([tuples_of_workers(trie, self.job.workers) for trie in plan.tries], axis=0))


class PartitionedTask(RoundTask):
    """A task of a round: it hosts some workers, makes their visits, and sends what has to travel further."""

    def __init__(self, job: Job, now: Round, stage: int = 0) -> None:
        super().__init__(job, now, stage)
        itinerary = job.itinerary
        self.dataflow = DataflowPrimitive(
            job.bound,
            self.output,
            itinerary,
            counting=job.is_counted,
            batch_size=job.batch_size,
            allowance=now.allowance,
            last=itinerary.furthest(now.step),
            shares=not job.streams,
        )
        self.tally = self.dataflow.tally
        self.visits = itinerary.visits
        self.numbers = {visit: n for n, visit in enumerate(self.visits)}
        self.sequence = 0

    def begun(self) -> Iterator[Sequence[Row]]:
        """Read seeds, or propose for prefixes that wait."""
        for part in self.now.work[self.number]:
            if self.now.step is None:
                dealt = self.job.heavy.marks[0] if self.job.heavy else None
                seeds = WorkerSeeds(self.job.bound.seed, self.job.workers, self.job.tasks, self.number, dealt)
                for read, prefixes in seeds.read(part.first, part.last, self.job.batch_size):
                    self.tally.candidates[0] += read
                    yield from self._send(self.dataflow.seed(prefixes))
                    if self.output.is_full:
                        return
            else:
                waiting = read_waiting(place_like(part.file, self.job.folder), part.first, part.last)
                batches = (block.batches(self.job.batch_size) for block in waiting)
                for batch in chain.from_iterable(batches):
                    yield from self._send(self.dataflow.propose(self.now.step, part.stop, batch))
                    if self.output.is_full:
                        return

    def arrived(self, rows: Iterator[Arrival]) -> Iterator[Sequence[Row]]:
        """Make the visits of the blocks that have arrived."""
        for number, block in self._blocks(rows):
            yield from self._send(self.dataflow.visit(self.visits[number], block))

    def _blocks(self, rows: Iterator[Arrival]) -> Iterator[tuple[int, Block]]:
        """Give blocks, with those for the same visit joined as long as all gathered blocks hold at most B' tuples."""
        gathered: dict[int, list[Block]] = defaultdict(list)
        tuples: dict[int, int] = defaultdict(int)
        for row in rows:
            is_small = row.payload.size < COPIED_SHARE * row.batch_bytes
            block = unpack(row.payload.to_pybytes() if is_small else row.payload)
            while tuples and sum(tuples.values()) + block.tuples > self.job.batch_size:
                fullest = max(sorted(tuples), key=tuples.__getitem__)
                del tuples[fullest]
                yield fullest, join(gathered.pop(fullest))
            gathered[row.visit].append(block)
            tuples[row.visit] += block.tuples
        for visit in sorted(gathered):
            yield visit, join(gathered.pop(visit))

    def _send(self, travelling: Travels) -> Iterator[Sequence[Row]]:
        """Give the rows that carry blocks to the owners of keys, one or more for each task."""
        hosts = {"workers": self.job.workers, "tasks": self.job.tasks}
        for visit, block in travelling:
            at = self.dataflow.itinerary.place(visit)
            assert at is not None, "a block that any worker can process does not travel"
            rows = []
            for task, part in route(block, at, **hosts, load=self.load):
                for piece in pieces(part, ROW_TUPLES):
                    rows.append((task, self.number, self.sequence, self.numbers[visit], pack(piece)))
                    self.sequence += 1
            yield rows
