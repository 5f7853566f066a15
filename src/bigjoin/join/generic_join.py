"""Generic Join on one worker: the dataflow of a plan in which nothing travels, and which step of it runs next.

The deepest step with B' proposals waiting runs; where none has that many, seeds are read; where no seeds are left, the deepest
step with anything waiting is flushed. A step runs on at most B' proposals, so at most 2 B' prefixes wait at any step and memory
is O(m B') whatever the output (section 3.1 of the paper), while batches stay full.

`Batched` executes a plan this way: patterns whose loops would be too large to compile, and small epochs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf

import numpy as np

from bigjoin.defaults import BATCH_SIZE
from bigjoin.index.trie import Codes
from bigjoin.join.bind import BoundPlan, ReadableIndex, bind
from bigjoin.join.blocks import Counts, join
from bigjoin.join.dataflow_primitive import DataflowPrimitive, Tally, Travels
from bigjoin.join.executable import MatchRows, Range
from bigjoin.join.itinerary import OneWorker
from bigjoin.join.seeds import equal_ranges, read_seeds
from bigjoin.query.plan import Plan


class TooManyPrefixesError(Exception):
    """A run was given up: it has come to more prefixes than it was allowed."""


class GenericJoin:
    """A run of a plan over ranges of seeds: its queues, what it has found, and what it did (`tally`)."""

    is_full = False

    def __init__(
        self,
        plan: BoundPlan,
        *,
        counting: bool,
        batch_size: int = BATCH_SIZE,
        max_prefixes: float = inf,
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.plan, self.batch_size, self.max_prefixes, self.progress = plan, batch_size, max_prefixes, progress
        self.dataflow = DataflowPrimitive(plan, self, OneWorker(plan), counting=counting, batch_size=batch_size)
        self.queues = [Queue(batch_size) for _ in plan.steps]
        self.found: list[Codes] = []
        self.peak = 0
        """Most prefixes that waited at one step."""

    @property
    def tally(self) -> Tally:
        return self.dataflow.tally

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
        """Run batch after batch."""
        for read, prefixes in read_seeds(self.plan.seed, ranges, self.batch_size):
            self.tally.candidates[0] += read
            self.progress(read)
            self._run(self.dataflow.seed(prefixes))
            yield
            yield from self._flush(self.batch_size)
        yield from self._flush(1)

    def _flush(self, enough: int) -> Iterator[None]:
        """Run the deepest step where enough proposals wait, until there is none."""
        while ready := [step for step, queue in enumerate(self.queues) if queue.proposals >= enough]:
            self._run(self.dataflow.propose(ready[-1], 0, self.queues[ready[-1]].take()))
            yield

    def _run(self, moves: Travels) -> None:
        for _ in moves:
            raise AssertionError("nothing travels with one worker")
        if sum(self.tally.prefixes[:-1]) > self.max_prefixes:
            raise TooManyPrefixesError

    def wait(self, step: int, stop: int, block: Counts, keys: Codes | None) -> None:
        """Keep prefixes until their step runs."""
        del stop, keys
        self.queues[step].put(block)
        self.peak = max(self.peak, self.queues[step].prefixes)

    def match(self, matches: Codes) -> None:
        """Keep matches until somebody takes them."""
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
        """Remove and return a batch. What arrived meanwhile is cut into batches when those before it are gone."""
        batch = next(self._front, None)
        if batch is None:
            self._front, self._arrived = join(self._arrived).batches(self.batch_size), []
            batch = next(self._front)
        self.proposals -= batch.proposals
        self.prefixes -= int(np.count_nonzero(batch.starts == 0))  # the later pieces of a list that was cut begin further on
        return batch


class Batched:
    """A plan bound to an index, which counts and lists as compiled loops do; its seeds are the tuples of the first atom.

    A count that comes to more than `max_prefixes` before the last step is given up: TooManyPrefixesError. The last `tails`
    attributes are given as lists, of one value each.
    """

    def __init__(self, plan: Plan, index: ReadableIndex, *, max_prefixes: float = inf, tails: int = 0) -> None:
        self.plan, self.max_prefixes = bind(plan, index), max_prefixes
        self.attributes = list(plan.attributes[: len(plan.attributes) - tails])
        self.tally = np.zeros(2 * (len(plan.steps) + 1), np.int64)

    def ranges(self, parts: int) -> list[Range]:
        """Cut the seeds into at most `parts` ranges of about equal work."""
        return [(first, last, 0, 0) for first, last in equal_ranges(self.plan, parts)]

    def count(self, ranges: Iterable[Range], progress: Callable[[int], None] = lambda _: None) -> int:
        """Return the count for some ranges of seeds, and report progress after each."""
        join = GenericJoin(self.plan, counting=True, max_prefixes=self.max_prefixes)
        for first, last, *_ in ranges:
            join.count([(first, last)])
            progress(1)
        self.tally += np.array([*join.tally.prefixes, *join.tally.candidates])
        return join.tally.matches

    def rows(self, ranges: Iterable[Range], size: int, progress: Callable[[int], None] = lambda _: None) -> Iterator[MatchRows]:
        """Give the matches of ranges of seeds, at most `size` at a time."""
        width = len(self.attributes)
        for first, last, *_ in ranges:
            for found in GenericJoin(self.plan, counting=False, batch_size=size).matches([(first, last)]):
                ones = np.ones(found.shape[1], np.int64)
                yield MatchRows(found[:width], tuple((ones, tail) for tail in found[width:]))
            progress(1)
