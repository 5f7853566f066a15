"""How evenly a strategy would load its workers, forecast by sending a sample of prefixes through the plan.

Each prefix of a step visits the owners of all its keys to be counted, and each of its candidates visits those that did not
propose it. A sample, taken evenly from the seeds and then from the candidates of each step, visits owners in proportion to the
whole, so it shows which owner gets the most work and how much that is. The work of heavy keys is shared by all workers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigjoin.dataflow.heavy import Heavy
from bigjoin.index.trie import Codes
from bigjoin.joins.bind import BoundPlan
from bigjoin.joins.blocks import Prefixes
from bigjoin.joins.extend import check, extend, fewest_extensions
from bigjoin.joins.itinerary import Itinerary
from bigjoin.joins.seeds import prefixes_of

SAMPLED_PREFIXES = 1 << 16
"""Prefixes of each step that are sampled."""


@dataclass
class Forecast:
    """Tuples that workers would receive, added up over all exchanges: by the busiest worker of each, and on average."""

    most: float = 0.0
    mean: float = 0.0
    hottest: tuple[float, str] = field(default=(0.0, ""))
    """The largest load in an exchange as a multiple of the mean, and the attribute whose owner has it."""

    @property
    def skew(self) -> float:
        """How many times longer the critical path is than with equal work for all workers."""
        return self.most / self.mean if self.mean else 1.0

    def visit(self, attribute: str, load: NDArray[np.float64]) -> None:
        """Add an exchange in which the owners of an attribute receive a load, worker by worker."""
        self.most += load.max()
        self.mean += load.mean()
        if load.any():
            self.hottest = max(self.hottest, (float(load.max() / load.mean()), attribute))


def forecast(plan: BoundPlan, workers: int, heavy: Heavy | None = None) -> Forecast:
    """Return the forecast for the partitioned strategy or, with heavy keys, for the heavy-light strategy."""
    found = Forecast()
    first, last = plan.seed.positions
    if last <= first:
        return found
    positions = np.unique(np.linspace(first, last - 1, min(SAMPLED_PREFIXES, last - first)).astype(np.int64))
    prefixes = check(plan.seed.checks, prefixes_of(plan.seed, positions))
    weight = (last - first) / len(positions)
    owner = Itinerary(plan).owner
    for step in plan.steps:
        counted = fewest_extensions(step, Prefixes(prefixes))
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
    """Return how much each worker receives, given keys and their weights."""
    return np.bincount(keys.astype(np.int64) % workers, weights, workers).astype(np.float64)
