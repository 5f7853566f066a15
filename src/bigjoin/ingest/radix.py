"""Sort keys of 64 bits by their digits, on one core or on several. NumPy's sort takes four times as long."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.stage_runner import StageRunner
from bigjoin.kernels.radix import (
    DIGIT_BITS,
    DIGITS,
    count_digits,
    differing_bits,
    move_keys,
    move_numbered_keys,
    rank_numbered_keys,
)

MIN_KEYS_BY_DIGIT = 1 << 19
"""Fewer keys are left to NumPy: to load the kernels, or to compile them once, would take longer."""
DISTINCT_PER_PASS = 1 / 8
"""Keys are ranked by hashing them, which is quick while a table of all keys stays in the cache, unless at least this share of a
sample is distinct for each pass over the keys."""
COMPARED_KEYS = 1 << 15
"""The size of that sample."""
BLOCK_KEYS = 1 << 20
"""Keys that a thread moves before it looks whether it should end."""

Keys: TypeAlias = NDArray[np.uint64]


def blocks_of(keys: Keys) -> list[Keys]:
    """Return keys in pieces of BLOCK_KEYS."""
    return [keys[first : first + BLOCK_KEYS] for first in range(0, len(keys), BLOCK_KEYS)]


def sorted_keys(blocks: Sequence[Keys], run: StageRunner, *, first_bit: int = 0) -> Keys:
    """Return the keys of all blocks in one array, sorted by the bits from the first on; others keep their order.

    `run` gets the blocks of each pass. What the caller gives stays as it is, and is not needed after the first pass.
    """
    size = sum(map(len, blocks))
    if size < MIN_KEYS_BY_DIGIT:
        keys = np.concatenate([np.empty(0, np.uint64), *blocks])
        return keys[np.argsort(keys >> np.uint64(first_bit), kind="stable")] if first_bit else np.sort(keys)
    some = next(block[0] for block in blocks if len(block))
    varying = reduce(or_, map(int, run(lambda block: differing_bits(block, some), blocks)))
    shifts = _digit_shifts(varying >> first_bit << first_bit)
    moved, spare = np.empty(size, np.uint64), np.empty(size if len(shifts) > 1 else 0, np.uint64)
    if not shifts:
        return np.concatenate(blocks, out=moved)
    for shift in shifts:
        _move(blocks, np.uint64(shift), moved, run)
        blocks = blocks_of(moved)
        moved, spare = spare, moved
    return spare


def are_ranked_by_digit(keys: Keys) -> bool:
    """Tell whether `ranked_keys` is quicker than a table of the distinct keys."""
    if len(keys) < MIN_KEYS_BY_DIGIT:
        return False
    sample = keys[:: max(1, len(keys) // COMPARED_KEYS)]
    passes = len(_digit_shifts(int(differing_bits(keys, keys[0]))))
    return len(np.unique(sample)) >= DISTINCT_PER_PASS * passes * len(sample)


def ranked_keys(keys: Keys) -> tuple[Keys, NDArray[np.uint32]]:
    """Return the distinct keys, sorted, and the rank of each given key among them. There are fewer than 2^32."""
    numbers = np.arange(len(keys), dtype=np.uint32)
    moved, moved_numbers = np.empty_like(keys), np.empty_like(numbers)
    keys = keys.copy()
    for shift in _digit_shifts(int(differing_bits(keys, keys[0])) if len(keys) else 0):
        counts = np.zeros(DIGITS, np.int64)
        count_digits(keys, np.uint64(shift), counts)
        move_numbered_keys(keys, numbers, np.uint64(shift), np.cumsum(counts) - counts, moved, moved_numbers)
        keys, numbers, moved, moved_numbers = moved, moved_numbers, keys, numbers
    ranks = np.empty(len(keys), np.uint32)
    return keys[: rank_numbered_keys(keys, numbers, ranks)], ranks


def _digit_shifts(varying: int) -> list[int]:
    """Return where digits begin that cover these bits, the lowest first."""
    shifts = []
    while varying:
        shifts.append((varying & -varying).bit_length() - 1)
        varying = varying >> (shifts[-1] + DIGIT_BITS) << (shifts[-1] + DIGIT_BITS)
    return shifts


def _move(blocks: Sequence[Keys], shift: np.uint64, moved: Keys, run: StageRunner) -> None:
    """Move the keys of all blocks to their places by one digit."""
    counts = np.zeros((len(blocks), DIGITS), np.int64)
    run(lambda n: count_digits(blocks[n], shift, counts[n]), range(len(blocks)))
    ends = np.cumsum(counts.T).reshape(DIGITS, len(blocks)).T
    places = ends - counts
    run(lambda n: move_keys(blocks[n], shift, places[n], moved), range(len(blocks)))
