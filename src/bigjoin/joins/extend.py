"""One Extend step on a batch of prefixes: the extender with the fewest extensions proposes, the others intersect.

This file is the algorithm (section 3.1 of the paper). A batch of prefixes is a 2-d array, one row an attribute and one column
a prefix. `count` finds each prefix's proposer, `propose` writes its extensions, `intersect` keeps those that every other
extender has; strategies decide only where these three run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.trie import Codes
from bigjoin.joins.bind import BoundExtender, BoundStep
from bigjoin.kernels.compare import NOT_EQUAL, compare_extensions, count_compared, count_differing
from bigjoin.kernels.count import count_extensions
from bigjoin.kernels.flatten import flatten_extensions
from bigjoin.kernels.intersect import exclude_extensions, intersect_extensions
from bigjoin.kernels.propose import propose_extensions
from bigjoin.kernels.runs import first_of_runs


@dataclass(frozen=True, slots=True)
class Counted:
    """Prefixes that wait to be extended: (prefix, min-i, start, end), extensions start..end - 1 of extender min-i to come.

    `firsts` marks where a run begins: neighbours that agree on all that the step reads, and so have the same extensions.
    """

    prefixes: Codes
    proposers: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    firsts: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.firsts)

    def proposals(self, *, by_run: bool) -> NDArray[np.int64]:
        """Return how many extensions each prefix will propose; by run, only the first prefix of each run proposes."""
        lengths = self.ends - self.starts
        return lengths * self.firsts if by_run else lengths

    def part(self, first: int, last: int) -> Counted:
        """Return a copy of the prefixes number first..last - 1."""
        return Counted(
            np.ascontiguousarray(self.prefixes[:, first:last]),
            self.proposers[first:last],
            self.starts[first:last].copy(),
            self.ends[first:last].copy(),
            self.firsts[first:last].copy(),
        )

    def where(self, kept: NDArray[np.bool_]) -> Counted:
        """Return the prefixes that are kept."""
        if kept.all():
            return self
        at = np.flatnonzero(kept)
        return Counted(self.prefixes.take(at, axis=1), self.proposers[at], self.starts[at], self.ends[at], self.firsts[at])


def concatenate(parts: list[Counted]) -> Counted:
    """Return one batch of the prefixes of several, in order."""
    if len(parts) == 1:
        return parts[0]
    return Counted(
        np.concatenate([p.prefixes for p in parts], axis=1),
        np.concatenate([p.proposers for p in parts]),
        np.concatenate([p.starts for p in parts]),
        np.concatenate([p.ends for p in parts]),
        np.concatenate([p.firsts for p in parts]),
    )


@dataclass(frozen=True, slots=True)
class Candidates:
    """A sorted segment of extensions for each prefix; `lengths` shrinks as they are intersected and filtered."""

    codes: Codes
    begins: NDArray[np.int64]
    lengths: NDArray[np.int64]

    def repeated(self, times: NDArray[np.int64]) -> Candidates:
        """Return the segments with each one standing for several prefixes in a row."""
        return Candidates(self.codes, np.repeat(self.begins, times), np.repeat(self.lengths, times))


def extend(step: BoundStep, batch: Counted) -> Codes:
    """Extend each prefix of a batch by one attribute."""
    return flatten(step, batch, extension_sets(step, batch))


def count_extended(step: BoundStep, batch: Counted) -> int:
    """Return how many prefixes `extend` would give, without writing them unless a check needs them."""
    if step.checks:
        return int(extend(step, batch).shape[1])
    found = extension_sets(step, batch)
    segments = found.codes, found.begins, found.lengths
    late = step.late_filters
    if not late:
        return int(found.lengths.sum())
    by_code = np.array([f.by_code for f in late])
    if by_code.all() and all(f.operator == NOT_EQUAL for f in late):
        return int(count_differing(batch.prefixes, np.array([f.position for f in late]), *segments))
    operators, others = np.array([f.operator for f in late]), np.stack([f.others(batch.prefixes) for f in late])
    return int(count_compared(step.late_ranks, by_code, operators, others, *segments))


def extension_sets(step: BoundStep, batch: Counted) -> Candidates:
    """Propose and intersect, once for each run of prefixes that have the same extensions."""
    if batch.firsts.all():
        candidates = propose(step, batch)
        intersect(step, batch, candidates)
        return candidates
    runs = batch.where(batch.firsts)
    candidates = propose(step, runs)
    intersect(step, runs, candidates)
    return candidates.repeated(np.diff(np.append(np.flatnonzero(batch.firsts), len(batch))))


def count(step: BoundStep, prefixes: Codes) -> Counted:
    """Find the extender with the fewest extensions of each prefix, and drop the prefixes that have none."""
    counts, proposers = minimum_counts(step, prefixes)
    some = counts > 0
    if not some.all():
        prefixes, counts, proposers = np.compress(some, prefixes, axis=1), counts[some], proposers[some]
    firsts = np.ones(len(counts), np.bool_)
    if len(prefixes) - 1 not in step.reads:
        first_of_runs(prefixes, np.array(step.reads, np.int64), firsts)
    return Counted(prefixes, proposers, np.zeros(len(counts), np.int64), counts, firsts)


def minimum_counts(step: BoundStep, prefixes: Codes) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return (min-c, min-i) for each prefix: the fewest extensions, and the extender that has them."""
    counts = np.full(prefixes.shape[1], np.iinfo(np.int64).max)
    proposers = np.zeros(prefixes.shape[1], np.uint8)
    lower, upper = step.window.bounds(prefixes)
    for i, extender in enumerate(step.extenders):
        trie = extender.trie
        count_extensions(trie.offsets, trie.values, extender.nodes(prefixes), lower, upper, i, counts, proposers)
    return counts, proposers


def propose(step: BoundStep, batch: Counted) -> Candidates:
    """Write the extensions of each prefix by the extender that has the fewest."""
    lengths = batch.ends - batch.starts
    begins = np.zeros(len(lengths), np.int64)
    np.cumsum(lengths[:-1], out=begins[1:])
    codes = np.empty(int(lengths.sum()), batch.prefixes.dtype)
    lower, upper = step.window.bounds(batch.prefixes)
    for i, extender in enumerate(step.extenders):
        trie, nodes = extender.trie, extender.nodes(batch.prefixes)
        propose_extensions(
            trie.offsets, trie.values, nodes, lower, upper, i, batch.proposers, batch.starts, codes, begins, lengths
        )
    return Candidates(codes, begins, lengths)


def intersect(step: BoundStep, batch: Counted, candidates: Candidates) -> None:
    """Keep the candidates that every other extender has, no excluder has, and every filter allows that can tell by now."""
    prefixes = batch.prefixes
    segments = candidates.codes, candidates.begins, candidates.lengths
    lower, upper = step.window.bounds(prefixes)
    for i, extender in enumerate(step.extenders):
        if len(step.extenders) > 1:
            trie, nodes = extender.trie, extender.nodes(prefixes)
            intersect_extensions(trie.offsets, trie.values, nodes, lower, upper, i, batch.proposers, step.marks, *segments)
    for excluder in step.excluders:
        trie, nodes = excluder.trie, excluder.nodes(prefixes)
        exclude_extensions(trie.offsets, trie.values, nodes, excluder.lower(prefixes, lower), upper, *segments)
    for f in step.early_filters:
        compare_extensions(f.ranks, f.operator, f.others(prefixes), *segments)


def flatten(step: BoundStep, batch: Counted, candidates: Candidates) -> Codes:
    """Return the extended prefixes, those that the remaining filters and the checks allow."""
    width, total = len(batch.prefixes) + 1, int(candidates.lengths.sum())
    extended = np.empty((width, total), batch.prefixes.dtype)
    flatten_extensions(batch.prefixes, candidates.codes, candidates.begins, candidates.lengths, extended)
    for f in step.late_filters:
        extended = np.compress(f.allows(extended[-1], extended), extended, axis=1)
    return check(step.checks, extended)


def check(checks: tuple[tuple[BoundExtender, bool], ...], prefixes: Codes) -> Codes:
    """Keep the prefixes for which each wholly bound atom holds (or, negated, does not)."""
    for extender, wanted in checks:
        prefixes = np.compress(extender.holds(prefixes) == wanted, prefixes, axis=1)
    return prefixes
