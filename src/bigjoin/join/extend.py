"""One Extend step on a batch of prefixes: the extender with the fewest extensions proposes, the others intersect.

This file is the algorithm (section 3.1 of the paper). A batch of prefixes is a 2-d array, one row an attribute and one column
a prefix. `count` finds each prefix's proposer, `propose` writes its extensions, `intersect` keeps those that every other
extender has; strategies decide only where these three run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.trie import Codes
from bigjoin.join.bind import BoundStep
from bigjoin.kernels.compare import compare_extensions
from bigjoin.kernels.count import count_extensions
from bigjoin.kernels.flatten import flatten_extensions
from bigjoin.kernels.intersect import exclude_extensions, intersect_extensions
from bigjoin.kernels.propose import propose_extensions


@dataclass(frozen=True, slots=True)
class Counted:
    """Prefixes that wait to be extended: (prefix, min-i, start, end), extensions start..end - 1 of extender min-i to come."""

    prefixes: Codes
    proposers: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    @property
    def proposals(self) -> int:
        """How many extensions are still to be proposed: the work that waits here."""
        return int((self.ends - self.starts).sum())

    def split(self, proposals: int) -> tuple[Counted, Counted]:
        """Return a part with at most that many proposals, and the rest; a prefix may be cut in the middle of its list."""
        after = np.cumsum(self.ends - self.starts)
        whole = int(np.searchsorted(after, proposals, side="right"))
        left = proposals - (int(after[whole - 1]) if whole else 0)
        if whole == len(after) or left == 0:
            return self._slice(0, whole), self._slice(whole, len(after))
        first, rest = self._slice(0, whole + 1), self._slice(whole, len(after))
        cut = int(self.starts[whole]) + left
        first.ends[-1] = cut
        rest.starts[0] = cut
        return first, rest

    def _slice(self, first: int, last: int) -> Counted:
        return Counted(
            np.ascontiguousarray(self.prefixes[:, first:last]),
            self.proposers[first:last],
            self.starts[first:last].copy(),
            self.ends[first:last].copy(),
        )


def concatenate(parts: list[Counted]) -> Counted:
    """Return one batch of the prefixes of several, in order."""
    if len(parts) == 1:
        return parts[0]
    return Counted(
        np.concatenate([p.prefixes for p in parts], axis=1),
        np.concatenate([p.proposers for p in parts]),
        np.concatenate([p.starts for p in parts]),
        np.concatenate([p.ends for p in parts]),
    )


@dataclass(frozen=True, slots=True)
class Candidates:
    """A sorted segment of extensions for each prefix; `lengths` shrinks as they are intersected and filtered."""

    codes: Codes
    begins: NDArray[np.int64]
    lengths: NDArray[np.int64]


def count(step: BoundStep, prefixes: Codes) -> Counted:
    """Find the extender with the fewest extensions of each prefix, and drop the prefixes that have none."""
    counts, proposers = minimum_counts(step, prefixes)
    some = counts > 0
    if not some.all():
        prefixes, counts, proposers = np.compress(some, prefixes, axis=1), counts[some], proposers[some]
    return Counted(prefixes, proposers, np.zeros(len(counts), np.int64), counts)


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
    """Keep the candidates that every other extender has, no excluder has, and every filter allows."""
    prefixes = batch.prefixes
    segments = candidates.codes, candidates.begins, candidates.lengths
    lower, upper = step.window.bounds(prefixes)
    for i, extender in enumerate(step.extenders):
        if len(step.extenders) > 1:
            trie, nodes = extender.trie, extender.nodes(prefixes)
            intersect_extensions(trie.offsets, trie.values, nodes, lower, upper, i, batch.proposers, *segments)
    for excluder in step.excluders:
        trie, nodes = excluder.trie, excluder.nodes(prefixes)
        exclude_extensions(trie.offsets, trie.values, nodes, lower, upper, *segments)
    for f in step.filters:
        compare_extensions(f.ranks, f.operator, f.others(prefixes), *segments)


def flatten(step: BoundStep, batch: Counted, candidates: Candidates) -> Codes:
    """Return the extended prefixes, those that the step's checks allow."""
    width, total = len(batch.prefixes) + 1, int(candidates.lengths.sum())
    extended = np.empty((width, total), batch.prefixes.dtype)
    flatten_extensions(batch.prefixes, candidates.codes, candidates.begins, candidates.lengths, extended)
    return check(step.checks, extended)


def check(checks: tuple[tuple[Any, bool], ...], prefixes: Codes) -> Codes:
    """Keep the prefixes for which each wholly bound atom holds (or, negated, does not)."""
    for extender, wanted in checks:
        kept = extender.holds(prefixes) == wanted
        prefixes = np.compress(kept, prefixes, axis=1)
    return prefixes


def extend(step: BoundStep, batch: Counted) -> Codes:
    """Extend each prefix of a batch by one attribute."""
    candidates = propose(step, batch)
    intersect(step, batch, candidates)
    return flatten(step, batch, candidates)


def count_extended(step: BoundStep, batch: Counted) -> int:
    """Return how many prefixes `extend` would give, without writing them where nothing remains to be checked."""
    if step.checks:
        return int(extend(step, batch).shape[1])
    candidates = propose(step, batch)
    intersect(step, batch, candidates)
    return int(candidates.lengths.sum())
