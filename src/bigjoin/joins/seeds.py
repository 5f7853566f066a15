"""Seeds: the tuples of a plan's first atom as prefixes, read lazily, and cut into ranges of equal estimated work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.trie import Codes
from bigjoin.joins.bind import BoundPlan, BoundSeed
from bigjoin.joins.blocks import Prefixes
from bigjoin.joins.extend import fewest_extensions

SAMPLED_SEEDS = 1 << 20
"""Seeds that are sampled to estimate where the work lies."""


def read_seeds(seed: BoundSeed, ranges: Iterable[tuple[int, int]], size: int) -> Iterator[tuple[int, Codes]]:
    """Give the prefixes of the tuples in ranges of positions, at most `size` at a time, with the number of tuples read."""
    for first, last in ranges:
        for position in range(first, last, size):
            positions = np.arange(position, min(position + size, last))
            yield len(positions), prefixes_of(seed, positions)


def equal_ranges(plan: BoundPlan, parts: int) -> list[tuple[int, int]]:
    """Cut the seeds into at most `parts` ranges of about equal work: a seed costs one, plus its proposals at the first step."""
    first, last = plan.seed.positions
    if last <= first:
        return []
    if parts == 1:
        return [(first, last)]
    positions = np.arange(first, last, -(-(last - first) // SAMPLED_SEEDS))
    work = np.ones(len(positions))
    if plan.steps:
        prefixes, kept = decide(plan.seed, positions)
        work += fewest_extensions(plan.steps[0], Prefixes(prefixes)).counts * kept
    total = np.cumsum(work)
    cuts = positions[np.searchsorted(total, total[-1] * np.arange(1, parts) / parts)]
    bounds = np.unique(np.concatenate([[first], cuts, [last]]))
    return [(int(a), int(b)) for a, b in pairwise(bounds)]


def prefixes_of(seed: BoundSeed, positions: NDArray[np.int64]) -> Codes:
    """Return the prefixes of those tuples that satisfy the seed's conditions."""
    prefixes, kept = decide(seed, positions)
    return prefixes if kept.all() else np.compress(kept, prefixes, axis=1)


def decide(seed: BoundSeed, positions: NDArray[np.int64]) -> tuple[Codes, NDArray[np.bool_]]:
    """Return the prefixes of tuples, and which of them satisfy the seed's conditions."""
    columns = seed.extender.trie.tuples(positions)
    prefixes = np.stack([columns[c] for c in seed.columns], dtype=seed.code_type, casting="unsafe")
    kept = np.ones(len(positions), np.bool_)
    for a, b in seed.repeats:
        kept &= columns[a] == columns[b]
    for codes, condition in zip(prefixes, seed.conditions, strict=True):
        lower, upper = condition.bounds.bounds_of(prefixes)
        kept &= codes >= lower if len(lower) else True
        kept &= codes < upper if len(upper) else True
        for f in condition.filters:
            kept &= f.allows(codes, prefixes)
    for predicate in (p for condition in seed.conditions for p in condition.row_filters):
        places = np.flatnonzero(kept)  # only these are asked: others may be errors
        kept[places] = predicate.allows(prefixes[:, places])
    return prefixes, kept
