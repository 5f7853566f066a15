"""What a strategy would ask of its workers: a sample of prefixes goes through the plan, and visits the owners of its keys.

Each prefix of a step visits the owner of every key to be counted, and each of its candidates those that did not propose it. A
sample, taken evenly from seeds and then from candidates, visits the owners in proportion. So the owner that gets most of the
sample gets most of the work, by about as much. Where keys are heavy, all workers share what is asked of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigjoin.dataflow.heavy import Heavy
from bigjoin.index.trie import Codes
from bigjoin.join.bind import BoundPlan
from bigjoin.join.extend import check, extend
from bigjoin.join.itinerary import Itinerary
from bigjoin.join.seeds import fewest_extensions, prefixes_of

SAMPLED_PREFIXES = 1 << 16
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

    def visit(self, attribute: str, load: NDArray[np.float64]) -> None:
        """Note that the owners of an attribute receive so much in an exchange."""
        self.most += load.max()
        self.mean += load.mean()
        if load.any():
            self.hottest = max(self.hottest, (float(load.max() / load.mean()), attribute))


def forecast(plan: BoundPlan, workers: int, heavy: Heavy | None = None) -> Forecast:
    """Return what to expect of the partitioned strategy with so many workers, or with heavy keys of the heavy-light one."""
    found = Forecast()
    first, last = plan.seed.positions
    if last <= first:
        return found
    positions = np.unique(np.linspace(first, last - 1, min(SAMPLED_PREFIXES, last - first)).astype(np.int64))
    prefixes = check(plan.seed.checks, prefixes_of(plan.seed, positions))
    weight = (last - first) / len(positions)
    owner = Itinerary(plan).owner
    for number, step in enumerate(plan.steps):
        counted = fewest_extensions(plan, prefixes, number)
        total = counted.proposals
        if not total:
            break
        owners = [owner(extender) for extender in step.extenders]
        for at in dict.fromkeys(owners):
            if at is not None:
                attribute, keys = plan.plan.attributes[at], prefixes[at]
                spread = np.zeros(len(keys), np.bool_) if heavy is None else heavy.has(at, keys)
                elsewhere = np.array([other != at for other in owners])[counted.proposers]
                found.visit(attribute, weight * _load(keys[~spread], np.ones(int((~spread).sum())), workers))
                asked = counted.counts * elsewhere
                shared = asked[spread].sum() / workers
                found.visit(attribute, weight * (_load(keys[~spread], asked[~spread], workers) + shared))
        chosen = np.unique(np.linspace(0, total - 1, min(SAMPLED_PREFIXES, total)).astype(np.int64))
        prefixes, weight = extend(step, counted.only(chosen)), weight * total / len(chosen)
    return found


def _load(keys: Codes, weights: NDArray[Any], workers: int) -> NDArray[np.float64]:
    """Return what the owner of each key receives, worker by worker."""
    return np.bincount(keys.astype(np.int64) % workers, weights, workers).astype(np.float64)
