"""Intersect and subtract sets, which are sorted stretches of arrays.

Two sets of similar length are merged. If one is more than GALLOP_RATIO times as long as the other, each code of the shorter set
gallops through the longer one. A set can also be *marked*: a byte array then holds a one at each of its codes, and another set
is scanned for marks, unless that one is more than SCAN_RATIO times as long. So an intersection costs at most a constant or a
logarithm times the shorter set, even if the other one is the list of a hub.

Results are written to out[n:], and the end of what was written is returned. If `out` is None they are only counted: numba
compiles that as a function of its own, without the writes. `out` may be the array of the first set if n is at most its start:
a result never overtakes what is still to be read.
"""

from __future__ import annotations

from numpy import int64, uint64

from bigjoin.kernels.jit import helper
from bigjoin.kernels.lists import gallop

GALLOP_RATIO = 16
SCAN_RATIO = 8


@helper
def mark(marks, values, start, stop, flag):
    """Set the marks of the codes of a set."""
    marked = values[start:stop]
    for at in range(len(marked)):
        marks[marked[at]] = flag


@helper
def common(values, start, stop, marks, marked, others, first, last, out, n):
    """Write what two sets share; `marks` are those of the first set if `marked`, and unused otherwise."""
    mine = stop - start
    theirs = last - first
    if mine == 0 or theirs == 0:
        return n
    if marked and theirs <= SCAN_RATIO * mine:
        return common_with_marks(marks, others, first, last, out, n)
    if theirs > GALLOP_RATIO * mine:
        return _common_by_galloping(values, start, stop, others, first, last, out, n)
    if mine > GALLOP_RATIO * theirs:
        return _common_by_galloping(others, first, last, values, start, stop, out, n)
    while start < stop and first < last:
        a = values[start]
        b = others[first]
        if out is not None:
            out[n] = a
        n += a == b
        start += a <= b
        first += b <= a
    return n


@helper
def common_with_marks(marks, values, start, stop, out, n):
    """Write the codes of a set that are marked.

    There is no branch on the marks, which are hard to predict, and none on the signs of positions, which the compiler would
    need if they were not those of a whole array, or unsigned.
    """
    scanned = values[start:stop]
    found = uint64(0)
    if out is None:
        for at in range(len(scanned)):
            found += uint64(marks[scanned[at]])
    else:
        written = out[n:]
        for at in range(len(scanned)):
            code = scanned[at]
            written[found] = code
            found += uint64(marks[code])
    return n + int64(found)


@helper
def _common_by_galloping(values, start, stop, others, first, last, out, n):
    """Write what two sets share, where the second is much longer."""
    for p in range(start, stop):
        code = values[p]
        first = gallop(others, first, last, code)
        if first == last:
            break
        if others[first] == code:
            if out is not None:
                out[n] = code
            n += 1
    return n


@helper
def without(values, start, stop, others, first, last, out, n):
    """Write the codes of a set that another set does not hold."""
    for p in range(start, stop):
        code = values[p]
        first = gallop(others, first, last, code)
        if first == last or others[first] != code:
            out[n] = code
            n += 1
    return n
