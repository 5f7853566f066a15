"""Generic Join on one worker: the dataflow of a plan in which nothing travels.

The deepest step with B' proposals waiting goes next. If no step has that many, seeds are read; if no seeds are left, the
deepest step with anything waiting is flushed. A batch has at most B' proposals, so at most 2 B' prefixes wait at any step and
memory is O(m B') however large the output is (section 3.1 of the paper), while batches stay full.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf

import numpy as np

from bigjoin.defaults import BATCH_SIZE
from bigjoin.index.trie import Codes
from bigjoin.join.bind import BoundPlan
from bigjoin.join.blocks import Counts, join
from bigjoin.join.itinerary import OneWorker
from bigjoin.join.operators import Operators, Travels
from bigjoin.join.seeds import read_seeds


class TooManyPrefixesError(Exception):
    """A join was abandoned because it had more prefixes than allowed."""


class GenericJoin:
    """An execution of a plan over ranges of seeds: its queues, the matches found, and its `tally`."""

    is_full = False

    def __init__(self, plan: BoundPlan, *, counting: bool, batch_size: int = BATCH_SIZE, max_prefixes: float = inf) -> None:
        self.plan, self.batch_size, self.max_prefixes = plan, batch_size, max_prefixes
        self.operators = Operators(plan, self, OneWorker(plan), counting=counting, batch_size=batch_size)
        self.tally = self.operators.tally
        self.queues = [Queue(batch_size) for _ in plan.steps]
        self.found: list[Codes] = []
        self.peak = 0
        """The largest number of prefixes that waited at one step."""

    def count(self, ranges: Iterable[tuple[int, int]]) -> int:
        """Return the number of matches that start from ranges of seeds."""
        before = self.tally.matches
        for _ in self._batches(ranges):
            pass
        return self.tally.matches - before

    def matches(self, ranges: Iterable[tuple[int, int]]) -> Iterator[Codes]:
        """Give the matches that start from ranges of seeds, at most B' at a time, in the plan's attribute order."""
        for _ in self._batches(ranges):
            yield from self.found
            self.found.clear()

    def _batches(self, ranges: Iterable[tuple[int, int]]) -> Iterator[None]:
        """Execute batch after batch, and yield after each."""
        for read, prefixes in read_seeds(self.plan.seed, ranges, self.batch_size):
            self.tally.candidates[0] += read
            self._finish(self.operators.seed(prefixes))
            yield
            yield from self._flush(self.batch_size)
        yield from self._flush(1)

    def _flush(self, least: int) -> Iterator[None]:
        """Execute the deepest step where at least so many proposals wait, until there is none."""
        while ready := [step for step, queue in enumerate(self.queues) if queue.proposals >= least]:
            self._finish(self.operators.propose(ready[-1], 0, self.queues[ready[-1]].take()))
            yield

    def _finish(self, travels: Travels) -> None:
        for _ in travels:
            raise AssertionError("nothing travels with one worker")
        if sum(self.tally.prefixes[:-1]) > self.max_prefixes:
            raise TooManyPrefixesError

    def wait(self, step: int, stop: int, block: Counts, keys: Codes | None) -> None:
        """Keep prefixes until their step goes next."""
        del stop, keys
        self.queues[step].put(block)
        self.peak = max(self.peak, self.queues[step].prefixes)

    def match(self, matches: Codes) -> None:
        """Keep matches until `matches` yields them."""
        self.found.append(matches)


class Queue:
    """The prefixes that wait at one step, handed out in batches of at most B' proposals."""

    def __init__(self, batch_size: int) -> None:
        self.batch_size = batch_size
        self.proposals = self.prefixes = 0
        self._arrived: list[Counts] = []
        self._front: Iterator[Counts] = iter(())

    def put(self, block: Counts) -> None:
        """Add prefixes, each of which has something to propose."""
        self._arrived.append(block)
        self.proposals += block.proposals
        self.prefixes += len(block)

    def take(self) -> Counts:
        """Remove and return a batch. What has arrived is cut into batches once all earlier batches are gone."""
        batch = next(self._front, None)
        if batch is None:
            self._front, self._arrived = join(self._arrived).batches(self.batch_size), []
            batch = next(self._front)
        self.proposals -= batch.proposals
        self.prefixes -= int(np.count_nonzero(batch.starts == 0))  # later pieces of a list that was cut start beyond 0
        return batch
