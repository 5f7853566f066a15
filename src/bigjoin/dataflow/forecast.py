"""What the partitioned strategy would ask of its workers: a sample of prefixes goes through the plan, and visits owners.

Each prefix of a step visits the owner of every key to be counted, and each of its candidates those that did not propose it. A
sample, taken evenly from seeds and then from candidates, visits the owners in proportion. So the owner that gets most of the
sample gets most of the work, by about as much.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bigjoin.dataflow.itinerary import owner
from bigjoin.index.trie import Codes
from bigjoin.joins.bind import BoundPlan, BoundStep
from bigjoin.joins.extend import Counted, check, extend, minimum_counts
from bigjoin.joins.seeds import decide

SAMPLE = 1 << 16
"""Prefixes of a step that are looked at."""


@dataclass
class Forecast:
    """Tuples that workers would receive, exchange by exchange: the most of them, and the mean."""

    most: float = 0.0
    mean: float = 0.0
    hottest: tuple[float, str] = field(default=(0.0, ""))
    """How many times its share the worst-off worker gets in an exchange, and the attribute whose owner it is."""

    @property
    def skew(self) -> float:
        """How many times longer the critical path is than it would be if all workers had the same to do."""
        return self.most / self.mean if self.mean else 1.0

    def visit(self, attribute: str, owners: Codes, weights: NDArray[np.float64], workers: int) -> None:
        """Note that owners of codes are visited."""
        load = np.bincount(owners.astype(np.int64) % workers, weights, workers)
        self.most += load.max()
        self.mean += load.mean()
        if load.any():
            self.hottest = max(self.hottest, (float(load.max() / load.mean()), attribute))


def forecast(plan: BoundPlan, workers: int) -> Forecast:
    """Return what to expect of the partitioned strategy with so many workers."""
    found = Forecast()
    first, last = plan.seed.positions
    if last <= first:
        return found
    positions = np.unique(np.linspace(first, last - 1, min(SAMPLE, last - first)).astype(np.int64))
    prefixes, kept = decide(plan.seed, positions)
    prefixes = check(plan.seed.checks, np.compress(kept, prefixes, axis=1))
    weight = (last - first) / len(positions)
    for step in plan.steps:
        if not prefixes.shape[1]:
            break
        counts, proposers = minimum_counts(step, prefixes)
        _visit(found, plan, step, prefixes, counts, proposers, weight, workers)
        total = int(counts.sum())
        if not total:
            break
        chosen = np.unique(np.linspace(0, total - 1, min(SAMPLE, total)).astype(np.int64))
        rows = np.searchsorted(np.cumsum(counts), chosen, side="right")
        starts = chosen - (np.cumsum(counts) - counts)[rows]
        batch = Counted(prefixes.take(rows, axis=1), proposers[rows], starts, starts + 1, np.ones(len(rows), np.bool_))
        prefixes, weight = extend(step, batch), weight * total / len(chosen)
    return found


def _visit(
    found: Forecast,
    plan: BoundPlan,
    step: BoundStep,
    prefixes: Codes,
    counts: NDArray[np.int64],
    proposers: NDArray[np.uint8],
    weight: float,
    workers: int,
) -> None:
    """Note the owners that prefixes of a step visit, and those that their candidates do."""
    owners = [owner(extender) for extender in step.extenders]
    for at in dict.fromkeys(owners):
        if at is None:
            continue
        attribute = plan.plan.attributes[at]
        found.visit(attribute, prefixes[at], np.full(prefixes.shape[1], weight), workers)
        elsewhere = np.array([o != at for o in owners])[proposers]
        found.visit(attribute, prefixes[at], counts * elsewhere * weight, workers)
