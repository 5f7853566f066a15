"""Blocks of prefixes, which everything on batches works on: bare, counted, or with proposed candidates.

A block holds prefixes column by column: `prefixes[k]` are the codes of attribute k. The verbs of an extender turn one kind into
the next: count (Prefixes -> Counts), propose (Counts -> Proposals), intersect (Proposals -> Proposals). The candidates that
remain are flattened into the Prefixes of the next step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.trie import Codes
from bigjoin.kernels.flatten import flatten_extensions
from bigjoin.kernels.route import copy_segments, share_segments

UNCOUNTED = np.iinfo(np.int64).max
"""The count of a prefix that no extender has counted: more than any list has."""


@dataclass(frozen=True, slots=True)
class _Columns:
    """What all blocks have: prefixes, a row for each attribute."""

    prefixes: Codes

    def __len__(self) -> int:
        return int(self.prefixes.shape[1])

    @property
    def tuples(self) -> int:
        """How many tuples travel with the block."""
        return len(self)


@dataclass(frozen=True, slots=True)
class Prefixes(_Columns):
    """Bare prefixes."""

    def part(self, chosen: NDArray[Any]) -> Prefixes:
        """Return some of the prefixes."""
        return Prefixes(self.prefixes.take(chosen, axis=1))

    view = part


@dataclass(frozen=True, slots=True)
class Counts(_Columns):
    """Counted prefixes: the fewest extensions so far, the extender that has them, and where among them the block begins.

    This is the paper's (prefix, min-c, min-i) and, for a piece of the list, (prefix, min-i, start, end).
    """

    counts: NDArray[np.int64]
    proposers: NDArray[np.uint8]
    starts: NDArray[np.int64]

    @classmethod
    def none(cls, prefixes: Codes) -> Counts:
        """Return prefixes that no extender has counted yet."""
        count = prefixes.shape[1]
        return cls(prefixes, np.full(count, UNCOUNTED), np.zeros(count, np.uint8), np.zeros(count, np.int64))

    @property
    def proposals(self) -> int:
        """How many candidates the prefixes will propose."""
        return int(self.counts.sum())

    def part(self, chosen: NDArray[Any] | slice) -> Counts:
        """Return some of the prefixes."""
        if isinstance(chosen, slice):
            prefixes = np.ascontiguousarray(self.prefixes[:, chosen])  # kernels are compiled for contiguous rows
        else:
            prefixes = self.prefixes.take(chosen, axis=1)
        return Counts(prefixes, self.counts[chosen], self.proposers[chosen], self.starts[chosen])

    view = part

    def cut(self, first: int, last: int) -> Counts:
        """Return proposals first..last - 1 of the block; the lists at both ends may be cut."""
        before = np.cumsum(self.counts) - self.counts
        begins, ends = np.clip(first - before, 0, self.counts), np.clip(last - before, 0, self.counts)
        return where(Counts(self.prefixes, ends - begins, self.proposers, self.starts + begins), ends > begins)

    def only(self, chosen: NDArray[np.int64]) -> Counts:
        """Return single proposals, given their numbers in the block, each as a prefix of its own."""
        after = np.cumsum(self.counts)
        rows = np.searchsorted(after, chosen, side="right")
        starts = self.starts[rows] + chosen - (after - self.counts)[rows]
        return Counts(self.prefixes.take(rows, axis=1), np.ones(len(rows), np.int64), self.proposers[rows], starts)

    def runs(self, firsts: NDArray[np.int64], length: int) -> Counts:
        """Return runs of proposals, given the number of the first of each; a run ends early with the block."""
        after = np.cumsum(self.counts)
        before, ends = after - self.counts, np.minimum(firsts + length, after[-1])
        row, last = np.searchsorted(after, firsts, side="right"), np.searchsorted(after, ends - 1, side="right")
        pieces = last - row + 1  # a run that goes on in the list of the next prefix is cut there
        rows = np.repeat(row - np.cumsum(pieces) + pieces, pieces) + np.arange(pieces.sum())
        begins = np.maximum(np.repeat(firsts, pieces), before[rows])
        counts = np.minimum(np.repeat(ends, pieces), after[rows]) - begins
        starts = self.starts[rows] + begins - before[rows]
        return Counts(self.prefixes.take(rows, axis=1), counts, self.proposers[rows], starts)

    def batches(self, size: int) -> Iterator[Counts]:
        """Give the block in batches of at most `size` proposals; only lists longer than that are cut."""
        after = np.cumsum(self.counts)
        first = done = 0
        while first < len(self):
            last = int(np.searchsorted(after, done + size, side="right"))
            if last > first:
                yield self.part(slice(first, last))
                first, done = last, int(after[last - 1])
            else:
                for start in range(done, int(after[first]), size):
                    yield self.cut(start, min(start + size, int(after[first])))
                first, done = first + 1, int(after[first])


@dataclass(frozen=True, slots=True)
class Proposals(_Columns):
    """Prefixes with their candidates: for each a sorted segment, codes[begin : begin + length]. Segments may overlap."""

    begins: NDArray[np.int64]
    lengths: NDArray[np.int64]
    codes: Codes

    @property
    def tuples(self) -> int:
        """How many candidates there are."""
        return int(self.lengths.sum())

    @property
    def segments(self) -> tuple[Codes, NDArray[np.int64], NDArray[np.int64]]:
        """The candidates in the form that kernels take."""
        return self.codes, self.begins, self.lengths

    def part(self, chosen: NDArray[Any]) -> Proposals:
        """Return some of the prefixes with their segments packed; codes that several segments share are copied once."""
        begins = np.empty(len(chosen), np.int64)
        return self._copied(chosen, begins, share_segments(self.begins, self.lengths, chosen, begins))

    def view(self, chosen: NDArray[Any]) -> Proposals:
        """Return some of the prefixes; their segments are not copied."""
        return Proposals(self.prefixes.take(chosen, axis=1), self.begins[chosen], self.lengths[chosen], self.codes)

    def unshared(self, chosen: NDArray[Any]) -> Proposals:
        """Return some of the prefixes, each with a segment of its own that can be shortened in place."""
        lengths = self.lengths[chosen]
        return self._copied(chosen, np.cumsum(lengths) - lengths, int(lengths.sum()))

    def _copied(self, chosen: NDArray[Any], begins: NDArray[np.int64], size: int) -> Proposals:
        codes = np.empty(size, self.codes.dtype)
        copy_segments(self.codes, self.begins, self.lengths, chosen, begins, codes)
        return Proposals(self.prefixes.take(chosen, axis=1), begins, self.lengths[chosen], codes)

    def flattened(self) -> Codes:
        """Return the extended prefixes: each prefix once for each of its candidates."""
        extended = np.empty((len(self.prefixes) + 1, self.tuples), self.prefixes.dtype)
        flatten_extensions(self.prefixes, *self.segments, extended)
        return extended


Block: TypeAlias = Prefixes | Counts | Proposals
AnyBlock = TypeVar("AnyBlock", Prefixes, Counts, Proposals)


@dataclass(frozen=True, slots=True)
class Spread:
    """A block that travels to workers given by `numbers`, modulo the workers, and not to the owners of an attribute.

    A prefix goes to the worker of its number, a candidate to the worker of its prefix's number plus its own code. Candidates
    whose codes are marked do not travel.
    """

    block: Block
    numbers: NDArray[np.uint64]
    marks: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))

    def __len__(self) -> int:
        return len(self.block)

    @property
    def tuples(self) -> int:
        return self.block.tuples


Travelling: TypeAlias = Block | Spread


def where(block: AnyBlock, kept: NDArray[np.bool_]) -> AnyBlock:
    """Return the prefixes of a block that are kept: the block itself if that is all of them."""
    return block if kept.all() else block.part(np.flatnonzero(kept))


def join(blocks: Sequence[Any]) -> Any:
    """Join blocks of the same kind into one with arrays of its own, which can be written to."""
    first = blocks[0]
    prefixes = np.concatenate([b.prefixes for b in blocks], axis=1)
    if isinstance(first, Prefixes):
        return Prefixes(prefixes)
    if isinstance(first, Counts):
        proposers = np.concatenate([b.proposers for b in blocks])
        return Counts(prefixes, _wide([b.counts for b in blocks]), proposers, _wide([b.starts for b in blocks]))
    before = np.cumsum([0, *(len(b.codes) for b in blocks[:-1])])
    begins = _wide([b.begins.astype(np.int64) + shift for b, shift in zip(blocks, before, strict=True)])
    return Proposals(prefixes, begins, _wide([b.lengths for b in blocks]), np.concatenate([b.codes for b in blocks]))


def _wide(arrays: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    return np.concatenate(arrays).astype(np.int64)
