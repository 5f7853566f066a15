"""Blocks of prefixes as they travel: bare, counted, or with stretches of lists, by position or copied; packed as bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.trie import Codes
from bigjoin.kernels.route import copy_segments, group, owners, share_segments
from bigjoin.kernels.spread import copy_dealt, deal_candidates

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

    view = part


@dataclass(frozen=True, slots=True)
class Counts:
    """Prefixes with the fewest extensions so far and the extender that has them: the paper's (prefix, min-c, min-i).

    With starts, a prefix stands for only so many of its extensions, from a start on: the paper's (prefix, min-i, start, end).
    What a start counts from, the head of the list or that of all lists, is agreed by those who read it.
    """

    prefixes: Codes
    counts: NDArray[np.int64]
    proposers: NDArray[np.uint8]
    starts: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def tuples(self) -> int:
        return len(self)

    def part(self, chosen: NDArray[Any]) -> Counts:
        """Return some of the prefixes."""
        starts = None if self.starts is None else self.starts[chosen]
        return Counts(self.prefixes.take(chosen, axis=1), self.counts[chosen], self.proposers[chosen], starts)

    view = part

    def cut(self, first: int, last: int) -> Counts:
        """Return the extensions number first..last - 1 of all, in ranges that are cut at both ends."""
        before = np.cumsum(self.counts) - self.counts
        begins, ends = np.clip(first - before, 0, self.counts), np.clip(last - before, 0, self.counts)
        starts = begins if self.starts is None else self.starts + begins
        return where(Counts(self.prefixes, ends - begins, self.proposers, starts), ends > begins)


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

    def view(self, chosen: NDArray[Any]) -> Proposals:
        """Return some of the prefixes, with their segments where they are."""
        return Proposals(self.prefixes.take(chosen, axis=1), self.begins[chosen], self.lengths[chosen], self.codes)

    def unshared(self, order: NDArray[Any]) -> Proposals:
        """Return the prefixes in an order, each with a segment of its own, which may be shortened."""
        lengths = self.lengths[order]
        placed = np.zeros(len(order), np.int64)
        np.cumsum(lengths[:-1], out=placed[1:])
        codes = np.empty(int(lengths.sum()), self.codes.dtype)
        copy_segments(self.codes, self.begins, self.lengths, order, placed, codes)
        return Proposals(self.prefixes.take(order, axis=1), placed, lengths, codes)


Block: TypeAlias = Prefixes | Counts | Proposals
AnyBlock = TypeVar("AnyBlock", Prefixes, Counts, Proposals)
_KINDS: tuple[type[Block], ...] = (Prefixes, Counts, Proposals)
_PIECES = len(_KINDS)


@dataclass(frozen=True, slots=True)
class Spread:
    """A block that travels to workers it names, instead of the owners of an attribute.

    A prefix goes to the worker that its number is, modulo all of them. A candidate goes to its prefix's number + its own code,
    but not those that are marked: they stay.
    """

    block: Block
    numbers: NDArray[np.uint64]
    marks: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))

    def __len__(self) -> int:
        return len(self.block)

    @property
    def tuples(self) -> int:
        return self.block.tuples


def pack(block: Block) -> bytes:
    """Return a block as bytes, whose number is a multiple of eight. Counts and places are as narrow as codes."""
    narrow = block.prefixes.dtype
    arrays: list[NDArray[Any]] = []
    if isinstance(block, Counts):
        starts = [] if block.starts is None else [block.starts.astype(np.int64, copy=False)]
        arrays = [block.counts.astype(narrow), *starts, block.proposers]
    elif isinstance(block, Proposals):
        arrays = [array.astype(narrow, copy=False) for array in (block.begins, block.lengths, block.codes)]
    kind = _PIECES if isinstance(block, Counts) and block.starts is not None else _KINDS.index(type(block))
    header = np.array([kind, *block.prefixes.shape, len(arrays[-1]) if arrays else 0], np.int64)
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
    if kind == _PIECES:
        counts, starts = take(count), take(count, np.int64)
        return Counts(prefixes, counts, take(count, np.uint8), starts)
    if _KINDS[kind] is Counts:
        return Counts(prefixes, take(count), take(count, np.uint8))
    return Prefixes(prefixes) if _KINDS[kind] is Prefixes else Proposals(prefixes, take(count), take(count), take(size))


def where(block: AnyBlock, kept: NDArray[np.bool_]) -> AnyBlock:
    """Return the prefixes of a block that are kept: the block itself, if that is all of them."""
    return block if kept.all() else block.part(np.flatnonzero(kept))


def join(blocks: Sequence[Any]) -> Any:
    """Return one block of several of the same kind, in arrays of its own."""
    first = blocks[0]
    prefixes = np.concatenate([b.prefixes for b in blocks], axis=1)
    if isinstance(first, Counts):
        starts = None
        if any(b.starts is not None for b in blocks):
            starts = _wide([np.zeros(len(b), np.int64) if b.starts is None else b.starts for b in blocks])
        return Counts(prefixes, _wide([b.counts for b in blocks]), np.concatenate([b.proposers for b in blocks]), starts)
    if isinstance(first, Prefixes):
        return Prefixes(prefixes)
    before = np.cumsum([0, *(len(b.codes) for b in blocks[:-1])])
    begins = np.concatenate([b.begins.astype(np.int64) + shift for b, shift in zip(blocks, before, strict=True)])
    return Proposals(prefixes, begins, _wide([b.lengths for b in blocks]), np.concatenate([b.codes for b in blocks]))


def route(block: Block | Spread, at: int, *, workers: int, tasks: int, load: NDArray[np.int64]) -> Iterator[tuple[int, Block]]:
    """Give the part of a block for each task: that which hosts the owner of the attribute at a position, or as it is spread.

    `load` grows by the tuples that each worker receives.
    """
    if not isinstance(block, Spread):
        yield from _routed(block, block.prefixes[at], workers, tasks, load)
    elif isinstance(block.block, Proposals):
        yield from _dealt(block.block, block, workers, tasks, load)
    else:
        yield from _routed(block.block, block.numbers % np.uint64(workers), workers, tasks, load)


def _routed(block: Block, keys: NDArray[Any], workers: int, tasks: int, load: NDArray[np.int64]) -> Iterator[tuple[int, Block]]:
    """Give the part of a block for each task, that which hosts the owner of each key."""
    destinations = np.empty(len(block), np.int32)
    starts = np.zeros(tasks + 1, np.int64)
    weights = block.lengths if isinstance(block, Proposals) else np.empty(0, np.int64)
    owners(keys, weights, workers, tasks, destinations, load, starts)
    order = np.empty(len(block), np.int64)
    bounds = starts.copy()
    group(destinations, starts, order)
    for task in range(tasks):
        if bounds[task + 1] > bounds[task]:
            yield task, block.part(order[bounds[task] : bounds[task + 1]])


def _dealt(block: Proposals, spread: Spread, workers: int, tasks: int, load: NDArray[np.int64]) -> Iterator[tuple[int, Block]]:
    """Give the prefixes for each task with those of their candidates whose owners it hosts."""
    firsts = (spread.numbers % np.uint64(workers)).astype(np.int64)
    tasks_of = np.empty(block.tuples, np.int32)
    sizes = np.zeros((tasks, len(block)), np.int64)
    deal_candidates(block.codes, block.begins, block.lengths, firsts, spread.marks, workers, tasks, tasks_of, load, sizes)
    places = np.cumsum(sizes).reshape(sizes.shape) - sizes
    codes = np.empty(int(sizes.sum()), block.codes.dtype)
    copy_dealt(block.codes, block.begins, block.lengths, tasks_of, places.copy(), codes)
    for task in range(tasks):
        some = np.flatnonzero(sizes[task])
        if len(some):
            begins, lengths = places[task, some], sizes[task, some]
            mine = codes[begins[0] : begins[-1] + lengths[-1]]
            yield task, Proposals(block.prefixes.take(some, axis=1), begins - begins[0], lengths, mine)


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
