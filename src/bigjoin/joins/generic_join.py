"""Generic Join over ranges of seeds: which step runs next, so that few proposals are alive at any time.

A step that has B' proposals waiting runs, the deepest such step first; where none has, seeds are read; where no seeds are left,
the deepest step with anything waiting is flushed. A step runs on at most B' proposals, so at most 2 B' prefixes wait at any
step and memory is O(m B') whatever the output (section 3.1 of the paper), while batches stay full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import inf

from bigjoin.defaults import BATCH_SIZE
from bigjoin.index.trie import Codes
from bigjoin.joins.bind import BoundPlan
from bigjoin.joins.extend import Counted, count, count_extended, extend
from bigjoin.joins.queue import Queue
from bigjoin.joins.seeds import read_seeds


class TooManyPrefixesError(Exception):
    """A run was given up: it has come to more prefixes than it was to."""


@dataclass(slots=True)
class Tally:
    """What a run did, step by step; the first entry is the seed's."""

    prefixes: list[int]
    candidates: list[int]
    peak: int = 0
    """Most prefixes that waited at one step."""
    most: float = inf
    """Prefixes, but for those of the last step, after which the run is given up."""

    @classmethod
    def of(cls, plan: BoundPlan, most: float = inf) -> Tally:
        return cls([0] * (len(plan.steps) + 1), [0] * (len(plan.steps) + 1), most=most)

    def reached(self, step: int, prefixes: int) -> None:
        """Note that a step has come to further prefixes."""
        self.prefixes[step] += prefixes
        if sum(self.prefixes[:-1]) > self.most:
            raise TooManyPrefixesError


def matches(
    plan: BoundPlan,
    ranges: Iterable[tuple[int, int]],
    *,
    batch_size: int = BATCH_SIZE,
    tally: Tally | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Iterator[Codes]:
    """Give the matches that start from ranges of seeds, in batches of at most B', as prefixes in the plan's attribute order."""
    tally = tally or Tally.of(plan)
    for depth, batch in _batches(plan, ranges, batch_size, tally, progress):
        if isinstance(batch, Counted):
            batch = extend(plan.steps[depth], batch)
            tally.prefixes[-1] += batch.shape[1]
        if batch.shape[1]:
            yield batch


def count_matches(
    plan: BoundPlan,
    ranges: Iterable[tuple[int, int]],
    *,
    batch_size: int = BATCH_SIZE,
    tally: Tally | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Return the number of matches that start from ranges of seeds, without writing the last attribute."""
    tally = tally or Tally.of(plan)
    total = 0
    for depth, batch in _batches(plan, ranges, batch_size, tally, progress, counting=True):
        if isinstance(batch, Counted):
            step = plan.steps[depth]
            found = int(batch.ends.sum()) if step.counts_suffice else count_extended(step, batch)
            tally.prefixes[-1] += found
            total += found
        else:
            total += batch.shape[1]
    return total


def _batches(
    plan: BoundPlan,
    ranges: Iterable[tuple[int, int]],
    batch_size: int,
    tally: Tally,
    progress: Callable[[int], None],
    *,
    counting: bool = False,
) -> Iterator[tuple[int, Counted | Codes]]:
    """Run every step but the last, and give what the last one has to do; a plan without steps gives its seeds."""
    seeds = read_seeds(plan.seed, ranges, batch_size)
    last = len(plan.steps) - 1
    queues = [Queue(by_run=counting and depth == last and not step.checks) for depth, step in enumerate(plan.steps)]
    seeds_left = True
    while True:
        depth = _next_step(queues, batch_size, seeds_left=seeds_left)
        if depth is None and not seeds_left:
            return
        if depth is None:
            read, prefixes = next(seeds, (0, None))
            progress(read)
            if prefixes is None:
                seeds_left = False
                continue
            tally.candidates[0] += read
            tally.reached(0, prefixes.shape[1])
            target = 0
        else:
            batch = queues[depth].take(batch_size)
            tally.candidates[depth + 1] += int(batch.proposals(by_run=True).sum())
            if depth == last:
                yield depth, batch
                continue
            prefixes = extend(plan.steps[depth], batch)
            target = depth + 1
            tally.reached(target, prefixes.shape[1])
        if last < 0:
            yield -1, prefixes
            continue
        counted = count(plan.steps[target], prefixes)
        if target == last and counting and plan.steps[last].counts_suffice:
            tally.candidates[-1] += int(counted.ends.sum())
            yield last, counted  # lengths are all that is asked for: nothing needs to wait
            continue
        queues[target].put(counted)
        tally.peak = max(tally.peak, len(queues[target]))


def _next_step(queues: list[Queue], batch_size: int, *, seeds_left: bool) -> int | None:
    """Return the step to run next, or None to read seeds (or to stop, where there are none)."""
    for enough in (batch_size,) if seeds_left else (batch_size, 1):
        for depth in reversed(range(len(queues))):
            if queues[depth].has(enough):
                return depth
    return None
