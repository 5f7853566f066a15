"""A join on a random sample of its proposals, which estimates the number of matches without finding them all.

It is Generic Join (`generic_join.py`), except that of all the proposals that wait at a step only some are made. These are cut
into equal stretches, and one proposal is drawn from each. A proposal that is made then stands for as many as a stretch is
long, and a match that is found stands for the product of these numbers over all steps. Whatever the data, the sum over the
matches found has the number of all matches as its mean.

Drawing proposals, and not seeds or prefixes, is what makes a small sample suffice. A prefix is extended as often as it has
proposals, so hubs get the share of the sample that they have of the work (importance sampling). Lists lie in the order of
codes, which is that of degrees, so stretches sample all degrees evenly (stratified sampling). And each step draws anew, so a
hub's many matches do not keep the sample busy: the cost of a sample does not depend on the data.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bigjoin.defaults import BATCH_SIZE
from bigjoin.index.trie import Codes
from bigjoin.joins.bind import BoundPlan
from bigjoin.joins.blocks import Counts, join
from bigjoin.joins.dataflow_primitive import DataflowPrimitive, Travels
from bigjoin.joins.itinerary import OneWorker
from bigjoin.joins.seeds import prefixes_of
from bigjoin.quota import quota

SEEDS_PER_PROPOSAL = 4
"""Seeds that are drawn for each proposal of a step: they cost less, and all later steps depend on them."""

LAST_PROPOSALS = 64
"""Proposals of the last step for each of another step: neighbours in a list, which are only counted, cost much less."""

LAST_RUN = 64
"""Proposals of the last step that are drawn together."""

MIN_KEPT = 1 / 64
"""The smallest share of seeds that satisfy their conditions for which more seeds are drawn in return."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What a sample found."""

    matches: float
    """An estimate of the number of matches, without bias."""
    found: int
    """Matches that were found."""
    weight: float
    """How many matches a further one would have stood for."""
    kept: float
    """The share of seeds that satisfied their conditions."""
    work: float
    """What the sample cost, in proposals of inner steps."""
    expected: float
    """An estimate, without bias, of the seeds and proposals of the whole join."""


class SampledJoin:
    """A plan that is executed on samples. Threads need one each."""

    is_full = False

    def __init__(self, plan: BoundPlan) -> None:
        marks = {id(step.marks): np.zeros_like(step.marks) for step in plan.steps}
        self.plan = replace(plan, steps=tuple(replace(step, marks=marks[id(step.marks)]) for step in plan.steps))
        self.itinerary = OneWorker(self.plan)
        self._waiting: dict[int, list[Counts]] = defaultdict(list)

    def draw(self, random: np.random.Generator, size: int, *, kept: float = 1.0) -> Sample:
        """Draw a sample of `size` proposals at each step, given what share of the seeds is expected to be kept."""
        plan, steps = self.plan, len(self.plan.steps)
        dataflow = DataflowPrimitive(plan, self, self.itinerary, counting=True, batch_size=BATCH_SIZE)
        first, last = plan.seed.positions
        seeds, each = drawn(random, max(0, last - first), int(SEEDS_PER_PROPOSAL * size / max(kept, MIN_KEPT)))
        prefixes = prefixes_of(plan.seed, first + seeds)
        work, expected = len(seeds) / SEEDS_PER_PROPOSAL, float(max(0, last - first))
        self._finish(dataflow.seed(prefixes))
        for number in range(steps):
            if not (arrived := self._waiting.pop(number, [])):
                break
            block: Counts = join(arrived)
            proposals, is_last = block.proposals, number == steps - 1
            expected += each * proposals
            run = LAST_RUN if is_last else 1
            chosen, share = drawn(random, -(-proposals // run), LAST_PROPOSALS * size // run if is_last else size)
            if share > 1:
                block = block.runs(run * chosen, run)
                each *= share
            work += block.proposals / (LAST_PROPOSALS / 4 if is_last else 1)
            for batch in block.batches(BATCH_SIZE):
                quota().check()
                self._finish(dataflow.propose(number, 0, batch))
        found = dataflow.tally.matches
        return Sample(each * found, found, each, prefixes.shape[1] / max(1, len(seeds)), work, expected)

    def wait(self, step: int, stop: int, block: Counts, keys: Codes | None) -> None:
        """Keep prefixes until their step goes next."""
        del stop, keys
        self._waiting[step].append(block)

    def match(self, matches: Codes) -> None:
        """Do nothing: matches are counted."""

    def _finish(self, travels: Travels) -> None:
        for _ in travels:
            raise AssertionError("nothing travels with one worker")


def drawn(random: np.random.Generator, total: int, size: int) -> tuple[NDArray[np.int64], float]:
    """Return one number from each of `size` equal stretches below a total, and how many numbers each stands for.

    They are sorted. All numbers are equally likely; one that two stretches share may be drawn twice. If there are no more
    numbers than stretches, return all of them.
    """
    if total <= size:
        return np.arange(total), 1.0
    numbers = ((np.arange(size) + random.random(size)) * (total / size)).astype(np.int64)
    return np.minimum(numbers, total - 1), total / size
