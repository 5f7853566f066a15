"""Slots: room for lists in one array, which is used again once a list is superseded.

A slot is two entries of the offsets: where its list begins, and where it ends. The room behind the end is nobody's list. Sizes
come in classes, four for each power of two, so that a slot is at most a quarter larger than its list. The free slots of a class
are linked: the first value of each is the next one, or 0, which is never a slot.
"""

from __future__ import annotations

from bigjoin.kernels.jit import helper, kernel

LEAST_ROOM = 4
"""The values of the smallest slot."""
CLASSES = 4 * 62
"""How many classes there are for lists of up to 2^62 values."""


@kernel
def take_slots(offsets, values, nodes, starts, insert, free, slots, ends):
    """Set slots[i] to a free slot for the list of nodes[i] once it has changed, or to 0; ends[i] is its length then.

    `starts` says how many codes each list gains or loses. Return how many values the slots need that have to be new; -1 if a
    list loses more than it has.
    """
    needed = 0
    for i in range(len(nodes)):
        length = offsets[nodes[i] + 1] - offsets[nodes[i]]
        change = starts[i + 1] - starts[i]
        length = length + change if insert else length - change
        if length < 0:
            return -1
        number, room = _class_of(length)
        slots[i] = free[number]
        ends[i] = length
        if slots[i] == 0:
            needed += room
        else:
            free[number] = values[offsets[slots[i]]]
            offsets[slots[i] + 1] = offsets[slots[i]] + length
    return needed


@kernel
def new_slots(offsets, first, begin, slots, lengths):
    """Make a slot wherever slots[i] is 0, for a list of lengths[i] values; the first slot is `first` and begins at `begin`."""
    for i in range(len(slots)):
        if slots[i] == 0:
            slots[i] = first
            offsets[first] = begin
            offsets[first + 1] = begin + lengths[i]
            begin += _class_of(lengths[i])[1]
            first += 2


@kernel
def free_slots(offsets, values, keys, places, others, free, first):
    """Free the slots, from `first` on, that hold the lists of keys in `others` but not in `places`; then make these alike.

    `others` are the places of other versions, which may share slots.
    """
    for key in keys:
        kept = places[key]
        for number in range(len(others)):
            slot = others[number][key]
            is_new = slot != kept and slot >= first
            for before in range(number):
                is_new = is_new and others[before][key] != slot
            if is_new:
                of_class, _ = _class_of(offsets[slot + 1] - offsets[slot])
                values[offsets[slot]] = free[of_class]
                free[of_class] = slot
        for other in others:
            other[key] = kept


@helper
def _class_of(length):
    """Return the class of the slots for lists of a length, and the room that they have."""
    if length <= LEAST_ROOM:
        return 0, LEAST_ROOM
    shift = 0
    while (length - 1) >> shift >= 2 * LEAST_ROOM:
        shift += 1
    steps = (length - 1) >> shift
    return 1 + LEAST_ROOM * shift + steps - LEAST_ROOM, (steps + 1) << shift
