"""One step extends every prefix by one attribute: the extender with the fewest extensions proposes, the others intersect.

This file is the algorithm (section 3.1 of the paper). `extend` is a whole step. In the dataflow of a plan the verbs run one by
one, each owner of lists with its own extenders (`dataflow_primitive.py`). `balanced` answers the same verbs by lookups, and
the compiled form of a plan does the same in nested loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.trie import Codes
from bigjoin.joins.bind import BoundStep
from bigjoin.joins.blocks import Counts, Prefixes, Proposals, where
from bigjoin.joins.bounds_and_filters import Filter
from bigjoin.joins.extender import BoundExtender
from bigjoin.kernels.compare import compare_extensions, count_differing
from bigjoin.kernels.runs import first_of_runs


def extend(step: BoundStep, block: Counts) -> Codes:
    """Return counted prefixes extended by one attribute."""
    extended = [np.empty((len(block.prefixes) + 1, 0), block.prefixes.dtype)]
    for proposer, proposed in propose(step, block):
        others = [extender for i, extender in enumerate(step.extenders) if i != proposer]
        kept = intersect(step, proposed, others, step.excluders, step.early_filters)
        extended.append(check(step.checks, flatten(step, kept)))
    return np.concatenate(extended, axis=1)


def count(step: BoundStep, block: Prefixes | Counts, extenders: Sequence[int] | None = None) -> Counts:
    """Find the extender with the fewest extensions of each prefix, and drop prefixes that have none."""
    counted = fewest_extensions(step, block, extenders)
    return where(counted, counted.counts > 0)


def fewest_extensions(step: BoundStep, block: Prefixes | Counts, extenders: Sequence[int] | None = None) -> Counts:
    """Count prefixes with some extenders of a step, or all; lower the counts that a block already has."""
    counted = Counts.none(block.prefixes) if isinstance(block, Prefixes) else block
    code_bounds = step.bounds_of(counted.prefixes)
    for number in range(len(step.extenders)) if extenders is None else extenders:
        step.extenders[number].count(number, counted, code_bounds)
    return counted


def propose(step: BoundStep, block: Counts, extenders: Sequence[int] | None = None) -> Iterator[tuple[int, Proposals]]:
    """Give for each extender that proposes its number, and its prefixes with their candidates."""
    for number in range(len(step.extenders)) if extenders is None else extenders:
        mine = where(block, block.proposers == number)
        if len(mine):
            yield number, step.extenders[number].propose(mine, step.bounds_of(mine.prefixes))


def intersect(
    step: BoundStep,
    block: Proposals,
    extenders: Sequence[BoundExtender],
    excluders: Sequence[BoundExtender] = (),
    filters: Sequence[Filter] = (),
    order: NDArray[np.int64] | None = None,
) -> Proposals:
    """Keep the candidates that all extenders hold, no excluder holds and all filters allow; drop prefixes without any.

    Neighbours with the same segment and the same keys keep the same candidates, which are found once and shared. `order` says
    in which order prefixes are neighbours, if not in their own.
    """
    if not (extenders or excluders or filters):
        return block
    reads = {p for extender in (*extenders, *excluders) for p in extender.reads}
    order, firsts = _neighbours(block, order, reads.union(p for f in filters for p in f.reads))
    found = block.unshared(order[firsts])
    code_bounds = step.bounds_of(found.prefixes)
    for extender in extenders:
        extender.intersect(found, code_bounds, step.marks)
    for excluder in excluders:
        excluder.exclude(found, code_bounds)
    for f in filters:
        compare_extensions(f.ranks, f.operator, f.others(found.prefixes), *found.segments)
    if not firsts.all():
        group = np.cumsum(firsts) - 1
        found = Proposals(block.prefixes.take(order, axis=1), found.begins[group], found.lengths[group], found.codes)
    return where(found, found.lengths > 0)


def count_intersection(
    step: BoundStep, block: Proposals, extender: BoundExtender, order: NDArray[np.int64] | None = None
) -> int:
    """Return how many candidates `intersect` with one extender would keep, without copying them."""
    order, firsts = _neighbours(block, order, set(extender.reads))
    found = block.view(order[firsts])
    counts = extender.count_common(found, step.bounds_of(found.prefixes), step.marks)
    return int(counts @ np.diff(np.append(np.flatnonzero(firsts), len(order))))


def flatten(step: BoundStep, block: Proposals) -> Codes:
    """Return the extended prefixes that the late filters and the predicates allow."""
    extended = block.flattened()
    for f in step.late_filters:
        extended = np.compress(f.allows(extended[-1], extended), extended, axis=1)
    for predicate in step.condition.row_filters:
        extended = np.compress(predicate.allows(extended), extended, axis=1)
    return extended


def count_flattened(step: BoundStep, block: Proposals) -> int:
    """Return how many prefixes `flatten` would return."""
    if step.condition.row_filters:
        return int(flatten(step, block).shape[1])
    if not step.late_filters:
        return block.tuples
    return int(count_differing(block.prefixes, np.array([f.position for f in step.late_filters]), *block.segments))


def check(checks: Sequence[tuple[BoundExtender, bool]], prefixes: Codes) -> Codes:
    """Keep the prefixes for which each atom, all of whose attributes are bound, holds (or does not, if it is negated)."""
    for extender, wanted in checks:
        prefixes = np.compress(extender.holds(prefixes) == wanted, prefixes, axis=1)
    return prefixes


def _neighbours(
    block: Proposals, order: NDArray[np.int64] | None, reads: set[int]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the order, and which prefixes differ from their predecessor in their segment or at the positions in `reads`."""
    order = np.arange(len(block)) if order is None else order
    firsts = np.ones(len(block), np.bool_)
    first_of_runs(block.prefixes.take(order, axis=1), np.array(sorted(reads), np.int64), firsts)
    firsts[1:] |= (np.diff(block.begins[order]) != 0) | (np.diff(block.lengths[order]) != 0)
    return order, firsts
