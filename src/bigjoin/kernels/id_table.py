"""A hash table from integer ids to their codes, with open addressing: an id whose slot is taken goes to the next free one.

A slot holds a code plus one, and zero if it is empty; the id is looked up by the code. There are at least twice as many slots
as ids, and their number is a power of two. The salt makes it hard to prepare ids that share a slot.
"""

from __future__ import annotations

from numpy import uint64

from bigjoin.kernels.jit import helper, kernel

_GOLDEN = uint64(0x9E3779B97F4A7C15)
_HALF = uint64(32)


@helper
def first_slot(value, salt, mask):
    """Return the slot that an id is looked for in first."""
    mixed = (uint64(value) ^ salt) * _GOLDEN
    mixed = (mixed ^ (mixed >> _HALF)) * _GOLDEN
    return (mixed >> _HALF) & mask


@kernel
def enter_ids(slots, ids, first, last, salt):
    """Enter the ids of the codes from `first` to `last` - 1, none of which is in the table."""
    mask = uint64(len(slots) - 1)
    for code in range(first, last):
        slot = first_slot(ids[code], salt, mask)
        while slots[slot] != 0:
            slot = (slot + uint64(1)) & mask
        slots[slot] = code + 1


@kernel
def find_codes(slots, ids, values, salt, missing, codes):
    """Write the code of each value, or `missing`."""
    mask = uint64(len(slots) - 1)
    for i in range(len(values)):
        slot = first_slot(values[i], salt, mask)
        found = missing
        while slots[slot] != 0:
            code = int(slots[slot]) - 1
            if ids[code] == values[i]:
                found = code
                break
            slot = (slot + uint64(1)) & mask
        codes[i] = found
