"""Sets as sorted stretches of arrays, for compiled nests: intersect, exclude, count, look up, mark.

Two sets are merged while their lengths are within GALLOP of each other; beyond that each value of the shorter one gallops
through the longer. Where the first set is marked (a one for each of its codes), the second is scanned instead, if it is at
most SCAN times as long. So a step costs at most a constant, or a logarithm, times its shortest list, also on hubs.
"""

from __future__ import annotations

from bigjoin.kernels.jit import helper
from bigjoin.kernels.lists import gallop, lower_bound

GALLOP = 16
SCAN = 8


@helper
def mark(marks, values, start, stop, flag):
    """Set the marks of a set's codes."""
    for p in range(start, stop):
        marks[values[p]] = flag


@helper
def position_of(values, start, stop, code):
    """Return where a sorted set holds a code, or -1."""
    p = lower_bound(values, start, stop, code)
    return p if p < stop and values[p] == code else -1


@helper
def common(values, start, stop, marks, marked, others, first, last, out):
    """Write what two sets share, sorted, and return how many codes that is; `marks` are those of the first set, if `marked`."""
    mine = stop - start
    theirs = last - first
    n = 0
    if mine == 0 or theirs == 0:
        return n
    if marked and theirs <= SCAN * mine:
        for p in range(first, last):
            code = others[p]
            out[n] = code
            n += int(marks[code])
    elif theirs > GALLOP * mine:
        for p in range(start, stop):
            code = values[p]
            first = gallop(others, first, last, code)
            if first == last:
                break
            if others[first] == code:
                out[n] = code
                n += 1
    elif mine > GALLOP * theirs:
        for p in range(first, last):
            code = others[p]
            start = gallop(values, start, stop, code)
            if start == stop:
                break
            if values[start] == code:
                out[n] = code
                n += 1
    else:
        while start < stop and first < last:
            a = values[start]
            b = others[first]
            out[n] = a
            n += a == b
            start += a <= b
            first += b <= a
    return n


@helper
def count_common(values, start, stop, marks, marked, others, first, last):
    """Return how many codes two sets share, as `common` does, without writing them."""
    mine = stop - start
    theirs = last - first
    n = 0
    if mine == 0 or theirs == 0:
        return n
    if marked and theirs <= SCAN * mine:
        for p in range(first, last):
            n += int(marks[others[p]])
    elif theirs > GALLOP * mine:
        for p in range(start, stop):
            code = values[p]
            first = gallop(others, first, last, code)
            if first == last:
                break
            n += others[first] == code
    elif mine > GALLOP * theirs:
        for p in range(first, last):
            code = others[p]
            start = gallop(values, start, stop, code)
            if start == stop:
                break
            n += values[start] == code
    else:
        while start < stop and first < last:
            a = values[start]
            b = others[first]
            n += a == b
            start += a <= b
            first += b <= a
    return n


@helper
def without(values, start, stop, others, first, last, out):
    """Write the codes of a set that another does not hold, sorted, and return how many they are."""
    n = 0
    for p in range(start, stop):
        code = values[p]
        first = gallop(others, first, last, code)
        if first == last or others[first] != code:
            out[n] = code
            n += 1
    return n
