"""Generic Join on one worker: the dataflow of a plan in which nothing travels.

The deepest step with B' proposals waiting goes next. If no step has that many, seeds are read; if no seeds are left, the
deepest step with anything waiting is flushed. A batch has at most B' proposals, so at most 2 B' prefixes wait at any step and
memory is O(m B') however large the output is (section 3.1 of the paper), while batches stay full.

`Batched` executes a plan this way: patterns whose loops would be too large to compile, and small epochs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf

import numpy as np

from bigjoin.defaults import BATCH_SIZE
from bigjoin.index.trie import Codes
from bigjoin.joins.bind import BoundPlan, ReadableIndex, bind
from bigjoin.joins.blocks import Counts, join
from bigjoin.joins.dataflow_primitive import DataflowPrimitive, Travels
from bigjoin.joins.itinerary import OneWorker
from bigjoin.joins.match_rows import MatchRows, Range
from bigjoin.joins.seeds import equal_ranges, read_seeds
from bigjoin.query.plan import Plan
from bigjoin.quota import quota


class TooManyPrefixesError(Exception):
    """A join was abandoned because it had more prefixes than allowed."""


class GenericJoin:
    """An execution of a plan over ranges of seeds: its queues, the matches found, and its `tally`."""

    is_full = False

    def __init__(self, plan: BoundPlan, *, counting: bool, batch_size: int = BATCH_SIZE, max_prefixes: float = inf) -> None:
        self.plan, self.batch_size, self.max_prefixes = plan, batch_size, max_prefixes
        self.dataflow = DataflowPrimitive(plan, self, OneWorker(plan), counting=counting, batch_size=batch_size)
        self.tally = self.dataflow.tally
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
            self._finish(self.dataflow.seed(prefixes))
            yield
            yield from self._flush(self.batch_size)
        yield from self._flush(1)

    def _flush(self, least: int) -> Iterator[None]:
        """Execute the deepest step where at least so many proposals wait, until there is none."""
        while ready := [step for step, queue in enumerate(self.queues) if queue.proposals >= least]:
            self._finish(self.dataflow.propose(ready[-1], 0, self.queues[ready[-1]].take()))
            yield

    def _finish(self, travels: Travels) -> None:
        quota().check()
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


class Batched:
    """A plan bound to an index, with the interface of compiled loops; its seeds are the tuples of the first atom.

    Counting raises TooManyPrefixesError beyond `max_prefixes` prefixes before the last step. The last `tails` attributes are
    listed as tails, with one value for each prefix.
    """

    def __init__(self, plan: Plan, index: ReadableIndex, *, max_prefixes: float = inf, tails: int = 0) -> None:
        self.plan, self.max_prefixes = bind(plan, index), max_prefixes
        self.attributes = list(plan.attributes[: len(plan.attributes) - tails])
        self.tally = np.zeros(2 * (len(plan.steps) + 1), np.int64)

    @property
    def whole(self) -> list[Range]:
        """All seeds, as one range."""
        return self.ranges(1)

    def ranges(self, parts: int) -> list[Range]:
        """Cut the seeds into at most `parts` ranges of about equal work."""
        return [(first, last, 0, 0) for first, last in equal_ranges(self.plan, parts)]

    def count(self, ranges: Iterable[Range], progress: Callable[[int], None] = lambda _: None) -> int:
        """Return the count for ranges of seeds, and report progress after each."""
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
