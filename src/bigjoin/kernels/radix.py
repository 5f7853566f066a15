"""Radix sort: order 64-bit keys by one digit at a time. Keys with the same digit keep their order, so passes can follow passes.

Blocks of keys are counted and moved by threads of their own: where the keys of each block and digit begin is known before any
of them moves.
"""

from __future__ import annotations

from numpy import uint64

from bigjoin.kernels.jit import kernel

DIGIT_BITS = 10
"""A pass writes to as many places at once as a digit has values. Beyond a thousand, each key costs twice as much."""
DIGITS = 1 << DIGIT_BITS


@kernel
def differing_bits(keys, key):
    """Return the bits in which any key differs from a given one."""
    found = uint64(0)
    for i in range(len(keys)):
        found |= keys[i] ^ key
    return found


@kernel
def count_digits(keys, shift, counts):
    """Add one to the count of each key's digit, which begins at bit `shift`."""
    for i in range(len(keys)):
        counts[(keys[i] >> shift) & uint64(DIGITS - 1)] += 1


@kernel
def move_keys(keys, shift, places, moved):
    """Write each key to the next place of its digit; `places` is overwritten."""
    for i in range(len(keys)):
        digit = (keys[i] >> shift) & uint64(DIGITS - 1)
        moved[places[digit]] = keys[i]
        places[digit] += 1


@kernel
def move_numbered_keys(keys, numbers, shift, places, moved, moved_numbers):
    """Do the same as `move_keys`, each key with its number."""
    for i in range(len(keys)):
        digit = (keys[i] >> shift) & uint64(DIGITS - 1)
        moved[places[digit]] = keys[i]
        moved_numbers[places[digit]] = numbers[i]
        places[digit] += 1


@kernel
def rank_numbered_keys(keys, numbers, ranks):
    """Move the distinct ones of sorted keys to the front, and return how many there are; ranks[n] becomes the rank of key n."""
    kept = 0
    for i in range(len(keys)):
        if i == 0 or keys[i] != keys[kept - 1]:
            keys[kept] = keys[i]
            kept += 1
        ranks[numbers[i]] = kept - 1
    return kept
