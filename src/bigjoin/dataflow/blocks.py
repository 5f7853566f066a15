"""Blocks of prefixes as they travel: bare, counted, or with stretches of lists, by position or copied; packed as bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.trie import Codes
from bigjoin.kernels.route import copy_segments, group, owners, share_segments

_ALIGNED = 8


@dataclass(frozen=True, slots=True)
class Prefixes:
    """Prefixes, one row an attribute and one column a prefix."""

    prefixes: Codes

    def __len__(self) -> int:
        return int(self.prefixes.shape[1])

    @property
    def tuples(self) -> int:
        return len(self)

    def part(self, chosen: NDArray[Any]) -> Prefixes:
        """Return some of the prefixes."""
        return Prefixes(self.prefixes.take(chosen, axis=1))


@dataclass(frozen=True, slots=True)
class Counts:
    """Prefixes with the fewest extensions so far and the extender that has them: the paper's (prefix, min-c, min-i)."""

    prefixes: Codes
    counts: NDArray[np.int64]
    proposers: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def tuples(self) -> int:
        return len(self)

    def part(self, chosen: NDArray[Any]) -> Counts:
        """Return some of the prefixes."""
        return Counts(self.prefixes.take(chosen, axis=1), self.counts[chosen], self.proposers[chosen])


@dataclass(frozen=True, slots=True)
class Ranges:
    """Prefixes with the positions of their candidates in the lists of an extender: the paper's (prefix, min-i, start, end)."""

    prefixes: Codes
    proposers: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def tuples(self) -> int:
        return len(self)

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many candidates each prefix has."""
        return self.ends - self.starts

    def part(self, chosen: NDArray[Any]) -> Ranges:
        """Return some of the prefixes."""
        return Ranges(self.prefixes.take(chosen, axis=1), self.proposers[chosen], self.starts[chosen], self.ends[chosen])

    def cut(self, first: int, last: int) -> Ranges:
        """Return the candidates number first..last - 1 of all, in ranges that are cut at both ends."""
        before = np.cumsum(self.counts) - self.counts
        starts = self.starts + np.clip(first - before, 0, self.counts)
        ends = self.starts + np.clip(last - before, 0, self.counts)
        return where(Ranges(self.prefixes, self.proposers, starts, ends), ends > starts)


@dataclass(frozen=True, slots=True)
class Proposals:
    """Prefixes with their candidates, codes[begin : begin + length] for each; segments of one list may overlap."""

    prefixes: Codes
    begins: NDArray[np.int64]
    lengths: NDArray[np.int64]
    codes: Codes

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def tuples(self) -> int:
        """How many candidates there are."""
        return int(self.lengths.sum())

    def part(self, chosen: NDArray[Any]) -> Proposals:
        """Return some of the prefixes, with their segments packed: what overlaps is there once."""
        placed = np.empty(len(chosen), np.int64)
        codes = np.empty(share_segments(self.begins, self.lengths, chosen, placed), self.codes.dtype)
        copy_segments(self.codes, self.begins, self.lengths, chosen, placed, codes)
        return Proposals(self.prefixes.take(chosen, axis=1), placed, self.lengths[chosen], codes)

    def unshared(self, order: NDArray[Any]) -> Proposals:
        """Return the prefixes in an order, each with a segment of its own, which may be shortened."""
        lengths = self.lengths[order]
        placed = np.zeros(len(order), np.int64)
        np.cumsum(lengths[:-1], out=placed[1:])
        codes = np.empty(int(lengths.sum()), self.codes.dtype)
        copy_segments(self.codes, self.begins, self.lengths, order, placed, codes)
        return Proposals(self.prefixes.take(order, axis=1), placed, lengths, codes)


Block: TypeAlias = Prefixes | Counts | Ranges | Proposals
AnyBlock = TypeVar("AnyBlock", Prefixes, Counts, Ranges, Proposals)
_KINDS: tuple[type[Block], ...] = (Prefixes, Counts, Ranges, Proposals)


def pack(block: Block) -> bytes:
    """Return a block as bytes, whose number is a multiple of eight. Counts and places are as narrow as codes."""
    narrow = block.prefixes.dtype
    arrays: list[NDArray[Any]] = []
    if isinstance(block, Counts):
        arrays = [block.counts.astype(narrow), block.proposers]
    elif isinstance(block, Ranges):
        arrays = [block.starts, block.ends, block.proposers]
    elif isinstance(block, Proposals):
        arrays = [array.astype(narrow, copy=False) for array in (block.begins, block.lengths, block.codes)]
    header = np.array([_KINDS.index(type(block)), *block.prefixes.shape, len(arrays[-1]) if arrays else 0], np.int64)
    parts = (header, block.prefixes, *arrays)
    return b"".join(part for array in parts for part in (array.tobytes(), bytes(-array.nbytes % _ALIGNED)))


def unpack(data: Any, code_type: Any) -> Block:
    """Return the block that bytes hold, as views of them."""
    kind, width, count, size = (int(n) for n in np.frombuffer(data, np.int64, 4))
    at = 4 * 8

    def take(number: int, dtype: Any = code_type) -> NDArray[Any]:
        nonlocal at
        array = np.frombuffer(data, dtype, number, at)
        at += array.nbytes + -array.nbytes % _ALIGNED
        return array

    prefixes = take(width * count).reshape(width, count)
    if _KINDS[kind] is Counts:
        return Counts(prefixes, take(count), take(count, np.uint8))
    if _KINDS[kind] is Ranges:
        starts, ends = take(count, np.int64), take(count, np.int64)
        return Ranges(prefixes, take(count, np.uint8), starts, ends)
    return Prefixes(prefixes) if _KINDS[kind] is Prefixes else Proposals(prefixes, take(count), take(count), take(size))


def where(block: AnyBlock, kept: NDArray[np.bool_]) -> AnyBlock:
    """Return the prefixes of a block that are kept: the block itself, if that is all of them."""
    return block if kept.all() else block.part(np.flatnonzero(kept))


def join(blocks: Sequence[Any]) -> Any:
    """Return one block of several of the same kind, in arrays of its own."""
    first = blocks[0]
    prefixes = np.concatenate([b.prefixes for b in blocks], axis=1)
    if isinstance(first, Counts):
        return Counts(prefixes, _wide([b.counts for b in blocks]), np.concatenate([b.proposers for b in blocks]))
    if isinstance(first, Ranges):
        starts, ends = _wide([b.starts for b in blocks]), _wide([b.ends for b in blocks])
        return Ranges(prefixes, np.concatenate([b.proposers for b in blocks]), starts, ends)
    if isinstance(first, Prefixes):
        return Prefixes(prefixes)
    before = np.cumsum([0, *(len(b.codes) for b in blocks[:-1])])
    begins = np.concatenate([b.begins.astype(np.int64) + shift for b, shift in zip(blocks, before, strict=True)])
    return Proposals(prefixes, begins, _wide([b.lengths for b in blocks]), np.concatenate([b.codes for b in blocks]))


def route(block: Block, at: int, *, workers: int, tasks: int, load: NDArray[np.int64]) -> Iterator[tuple[int, Block]]:
    """Give the part of a block for each task: that which hosts the owner of the attribute at a position.

    `load` grows by the tuples that each worker receives.
    """
    destinations = np.empty(len(block), np.int32)
    starts = np.zeros(tasks + 1, np.int64)
    weights = block.lengths if isinstance(block, Proposals) else np.empty(0, np.int64)
    owners(block.prefixes[at], weights, workers, tasks, destinations, load, starts)
    order = np.empty(len(block), np.int64)
    bounds = starts.copy()
    group(destinations, starts, order)
    for task in range(tasks):
        if bounds[task + 1] > bounds[task]:
            yield task, block.part(order[bounds[task] : bounds[task + 1]])


def pieces(block: Block, most: int) -> Iterator[Block]:
    """Give a block in pieces of at most that many tuples; a prefix with more candidates is a piece of its own."""
    if block.tuples <= most:
        yield block
        return
    tuples = np.cumsum(block.lengths) if isinstance(block, Proposals) else np.arange(1, len(block) + 1)
    first, done = 0, 0
    while first < len(block):
        last = max(first + 1, int(np.searchsorted(tuples, done + most, side="right")))
        yield block.part(np.arange(first, last))
        first, done = last, int(tuples[last - 1])


def _wide(arrays: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    return np.concatenate(arrays).astype(np.int64)
