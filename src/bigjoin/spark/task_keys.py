"""Keys that Spark's own hash partitioning sends to the task that we mean.

`repartition(n, "key")` sends a row to partition `pmod(hash(key), n)`, where the hash of a 32-bit integer is MurmurHash3 with
seed 42. Every step of that hash can be undone, so there is exactly one key whose hash is a given number: with task t's key, a
row arrives in partition t, whatever n is. (`repartitionById` would need no keys, but Spark has it only since 4.1.)
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_SEED = 42
_LENGTH = 4
"""The bytes of a key, which the hash mixes in."""
_BITS = 1 << 32


def keys_of(tasks: npt.ArrayLike) -> npt.NDArray[np.int32]:
    """Return, for each number of a task, the key whose hash is that number."""
    h = np.asarray(tasks).astype(np.uint32)
    h ^= h >> np.uint32(16)
    h *= _inverse(0xC2B2AE35)
    h ^= h >> np.uint32(13) ^ h >> np.uint32(26)
    h *= _inverse(0x85EBCA6B)
    h ^= h >> np.uint32(16)
    h ^= np.uint32(_LENGTH)
    h -= np.uint32(0xE6546B64)
    h *= _inverse(5)
    h = _rotated(h, 32 - 13)
    h ^= np.uint32(_SEED)
    h *= _inverse(0x1B873593)
    h = _rotated(h, 32 - 15)
    h *= _inverse(0xCC9E2D51)
    return h.view(np.int32)


def _inverse(factor: int) -> np.uint32:
    """Return what undoes a multiplication by an odd number."""
    return np.uint32(pow(factor, -1, _BITS))


def _rotated(h: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    return h << np.uint32(bits) | h >> np.uint32(32 - bits)
