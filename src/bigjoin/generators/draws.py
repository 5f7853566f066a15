"""Randomness: a counter-based generator for each seed and chunk, and permutations that need no table.

Only the raw words of NumPy's Philox are used. NumPy keeps these the same from version to version, which it does not promise
for its distributions: a seed names the same graph for good.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bigjoin.generators.family import EdgeNumbers

_KEY_STREAM = (1 << 64) - 1
"""The stream from which permutations take their keys: no chunk has this number."""

_MIXING_ROUNDS = 4


def stream(seed: int, chunk: int) -> np.random.Philox:
    """Return the random words of a chunk; streams of different seeds or chunks are independent."""
    return np.random.Philox(key=np.array([seed, chunk], dtype=np.uint64))


@dataclass(frozen=True)
class Permutation:
    """A seeded bijection of 0 up to `size` (at most 2^63), in constant memory.

    Multiplying by an odd number, adding, and xor with the upper half are each reversible on the bits that `size` needs. Where
    `size` is no power of two, a number that lands outside walks on until it is inside: fewer than two steps on average.
    """

    size: int
    seed: int

    def __call__(self, numbers: EdgeNumbers) -> EdgeNumbers:
        """Return the images of numbers."""
        images = self._mix(numbers.astype(np.uint64))
        outside = np.flatnonzero(images >= self.size)
        while outside.size:
            images[outside] = self._mix(images[outside])
            outside = outside[images[outside] >= self.size]
        return images.astype(np.int64)

    def _mix(self, x: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        bits = max(1, (self.size - 1).bit_length())
        mask, half = np.uint64((1 << bits) - 1), np.uint64((bits + 1) // 2)
        for factor, term in self._keys:
            x = (x * factor + term) & mask
            x ^= x >> half
        return x

    @cached_property
    def _keys(self) -> tuple[tuple[np.uint64, np.uint64], ...]:
        words = stream(self.seed, _KEY_STREAM).random_raw(2 * _MIXING_ROUNDS)
        return tuple((factor | np.uint64(1), term) for factor, term in words.reshape(_MIXING_ROUNDS, 2))
