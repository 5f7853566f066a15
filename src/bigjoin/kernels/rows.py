"""Sets of members of a universe as bits, and lists as rows of bits.

A *universe* is a set that many smaller sets are part of, such as the neighbours of a vertex while its cliques are counted. Each
member has a *place*: its number in the sorted universe, from 1. `places` gives the place of each code, and 0 for all others.
A *row* has a bit for each place: those of the members that some list holds. Bit 0 of a row is not used.

A set is kept as its words that are not zero (`bits`) with the numbers of these words (`at`), in ascending order. There are
never more words than members, nor more than a row has, so what it costs to meet a set with a row is bounded by both.

A row takes more to make than one intersection may cost, if the list is that of a hub and the set is small. So the sets that
come first are met with the list itself, and what they cost is noted in `spent`; once the row costs at most MAX_ROW_COST times
as much, it is made. So all of it costs a constant times what the lists alone would have cost. Rows for which there is no space
are never made: those of the last places, whose codes are the largest and whose lists are the shortest.

Results are written to `out` and `out_at`; if `out` is None, they are only counted.
"""

from __future__ import annotations

import numpy as np

from bigjoin.kernels.bits import lowest, population
from bigjoin.kernels.jit import helper
from bigjoin.kernels.lists import gallop
from bigjoin.kernels.sets import GALLOP_RATIO

MAX_ROW_COST = 8
"""How many times what was spent without a row it may cost."""

ZERO = np.uint64(0)
ONE = np.uint64(1)
ONES = ~ZERO


@helper
def settle(places, members, first, last):
    """Give the members of a universe their places."""
    for p in range(first, last):
        places[members[p]] = p - first + 1


@helper
def bit(place):
    """Return the word that has only the bit of a place."""
    return ONE << np.uint64(place & 63)


@helper
def without_lowest(word):
    """Return a word without its lowest bit."""
    return word & (word - ONE)


@helper
def from_place(word, number, place):
    """Return what a set's word, of some number, has at a place and above."""
    if number < place >> 6:
        return ZERO
    return word if number > place >> 6 else word & ~(bit(place) - ONE)


@helper
def make_row(rows, begin, words, places, members, first, last, values, start, stop):
    """Make the row of a list."""
    for w in range(begin, begin + words):
        rows[w] = ZERO
    if stop - start > GALLOP_RATIO * (last - first):
        for p in range(first, last):
            start = gallop(values, start, stop, members[p])
            if start == stop:
                break
            if values[start] == members[p]:
                place = p - first + 1
                rows[begin + (place >> 6)] |= bit(place)
        return
    for p in range(start, stop):
        place = np.int64(places[values[p]])
        rows[begin + (place >> 6)] |= bit(place)  # without a branch: what is not a member sets bit 0
    rows[begin] &= ~ONE


@helper
def make_row_if_paid(rows, ready, spent, q, era, words, places, members, first, last, values, start, stop, size):
    """Make the row of a list that is met by a set of some size, if what was spent without it comes to what it costs."""
    length = stop - start
    spent[q] += MAX_ROW_COST * min(length, GALLOP_RATIO * size)
    if spent[q] >= min(length, GALLOP_RATIO * (last - first)) and (q + 1) * words <= len(rows):
        make_row(rows, q * words, words, places, members, first, last, values, start, stop)
        ready[q] = era


@helper
def meet_row(bits, at, kept, rows, begin, words, flip, out, out_at):
    """Return the words and the members that a set shares with a row, or with `flip` all ones, does not share with it."""
    n = size = 0
    if bits is None:  # all members
        for w in range(words):
            word = rows[begin + w]
            size += population(word)
            if out is not None:
                out[n] = word
                out_at[n] = w
                n += word != ZERO
        return n, size
    for i in range(kept):
        word = bits[i] & (rows[begin + at[i]] ^ flip)
        size += population(word)
        if out is not None:
            out[n] = word
            out_at[n] = at[i]
            n += word != ZERO
    return n, size


@helper
def meet_list(bits, at, kept, size, places, members, first, last, values, start, stop, flip, out, out_at):
    """Do the same as `meet_row` with a list, by the cheaper of scanning it and galloping through it."""
    if bits is None:
        return _meet_codes(bits, at, kept, places, members, first, last, values, start, stop, out, out_at)
    if flip == ZERO and stop - start <= GALLOP_RATIO * size:
        return _meet_codes(bits, at, kept, places, members, first, last, values, start, stop, out, out_at)
    n = total = 0
    for i in range(kept):
        rest = bits[i]
        word = rest if flip != ZERO else ZERO
        while rest != ZERO:
            place = (np.int64(at[i]) << 6) + lowest(rest)
            code = members[first + place - 1]
            start = gallop(values, start, stop, code)
            if start < stop and values[start] == code:
                word ^= bit(place)
            rest = without_lowest(rest)
        total += population(word)
        if out is not None and word != ZERO:
            out[n] = word
            out_at[n] = at[i]
            n += 1
    return n, total


@helper
def _meet_codes(bits, at, kept, places, members, first, last, values, start, stop, out, out_at):
    """Look up the codes of a list in a set, or, if the list is long, the members of the universe in the list."""
    n = total = i = 0
    word, number = ZERO, np.int64(-1)
    by_members = stop - start > GALLOP_RATIO * (last - first)
    p, end = (first, last) if by_members else (start, stop)
    while p < end:
        if by_members:
            start = gallop(values, start, stop, members[p])
            if start == stop:
                break
            place = p - first + 1 if values[start] == members[p] else 0
        else:
            place = np.int64(places[values[p]])
        p += 1
        if place == 0:
            continue
        if bits is not None:
            i = gallop(at, i, kept, place >> 6)
            if i == kept:
                break
            if at[i] != place >> 6 or bits[i] & bit(place) == ZERO:
                continue
        total += 1
        if out is not None:
            if number != place >> 6:
                if word != ZERO:
                    out[n] = word
                    out_at[n] = number
                    n += 1
                word, number = ZERO, place >> 6
            word |= bit(place)
    if out is not None and word != ZERO:
        out[n] = word
        out_at[n] = number
        n += 1
    return n, total


@helper
def members_in_list(row, words, places, members, first, last, values, start, stop, out, out_at):
    """Write the members of a universe that a list holds as a set; `row` is space for one."""
    if stop - start < words:
        return _meet_codes(None, None, 0, places, members, first, last, values, start, stop, out, out_at)
    make_row(row, 0, words, places, members, first, last, values, start, stop)
    return meet_row(None, None, 0, row, 0, words, ZERO, out, out_at)


@helper
def all_members(words, size, out, out_at):
    """Write all members of a universe of some size as a set."""
    for w in range(words):
        out[w] = ~ZERO
        out_at[w] = w
    out[0] &= ~ONE
    out[words - 1] &= (bit(size) - ONE) | bit(size)
    return words, size


@helper
def meet_places(bits, at, kept, low, high, out, out_at):
    """Write the members of a set whose place is at least `low` and below `high`."""
    n = size = 0
    for i in range(kept):
        number = np.int64(at[i])
        word = from_place(bits[i], number, low)
        word &= ~from_place(~ZERO, number, high)
        size += population(word)
        if word != ZERO:
            out[n] = word
            out_at[n] = number
            n += 1
    return n, size


@helper
def holds_place(bits, at, kept, place):
    """Tell whether a set holds a place; no set holds place 0."""
    i = gallop(at, 0, kept, place >> 6)
    return i < kept and at[i] == place >> 6 and bits[i] & bit(place) != ZERO
