"""Text: find the fields of each line, read those that are integers, and copy the others without their quotes.

A line ends at LF or CR. Blank lines, lines that begin with # or %, and a byte-order mark are skipped. A table gives the class
of every byte, and `limit` is the lowest class that ends a field: BREAK if a single byte separates two fields, BLANK if any
sequence of blanks and breaks does.
"""

from __future__ import annotations

import numpy as np

from bigjoin.kernels.jit import helper, kernel

ORDINARY, BLANK, BREAK, NEWLINE = range(4)
MISSING, EMPTY, INTEGER, PLAIN, QUOTED, UNCLOSED = range(6)
"""Kinds of fields: missing from its line, empty, an integer as it would be printed, text, text with doubled quotes, or text
with a quote that opens and is not closed where it should be."""
NONE = -1

_TAB, _QUOTE, _HASH, _PERCENT, _MINUS, _ZERO, _NINE, _BYTE_ORDER_MARK = 9, 34, 35, 37, 45, 48, 57, 0xEF
_SAFE_DIGITS = 18
"""Any integer of so many digits fits into 64 bits."""
_TENTH_OF_MAX_INT64 = (2**63 - 1) // 10


@kernel
def find_fields(text, at, classes, limit, slots, width, starts, stops, integers, kinds):
    """Find the fields of lines from position `at` on, and return the number of lines, the position after them, and two faults.

    slots[c] is the row of the arrays for column c, or -1. The arrays have a place for each line; when they are full, call again
    with the position that was returned. Integers between separators are read inline, since a call would take longer.

    The faults are the first line with text after its first `width` fields (not checked if that is 0), and the first line with a
    quote that is not closed; either may be NONE.
    """
    size = len(text)
    row = 0
    wide = unclosed = NONE
    while row < starts.shape[1]:
        while at < size and classes[text[at]] == NEWLINE:
            at += 1
        if at == size or text[at] < _ZERO or text[at] == _BYTE_ORDER_MARK:
            at = _next_line(text, at, classes)
            if at == size:
                break
        more = True
        column = 0
        while column < len(slots) or (width > 0 and more):
            start = stop = at
            kind, value = MISSING, 0
            if more:
                negative = at < size and text[at] == _MINUS
                first = at + 1 if negative else at
                stop = first
                while stop < size and _ZERO <= text[stop] <= _NINE:
                    value = value * 10 + (np.int64(text[stop]) - _ZERO)
                    stop += 1
                usual = 0 < stop - first <= _SAFE_DIGITS and (text[first] != _ZERO or (stop - first == 1 and not negative))
                if usual and (stop == size or classes[text[stop]] >= limit):
                    kind, value = INTEGER, -value if negative else value
                    at = stop
                else:
                    start, stop, kind, value, at = _field(text, at, classes, limit)
                more = False
                while at < size and BLANK <= classes[text[at]] <= BREAK:
                    more = more or classes[text[at]] == BREAK
                    at += 1
                    if limit == BREAK:
                        break
                more = more or (limit == BLANK and at < size and classes[text[at]] != NEWLINE)
            slot = slots[column] if column < len(slots) else NONE
            if slot >= 0:
                starts[slot, row] = start
                stops[slot, row] = stop
                kinds[slot, row] = kind
                integers[slot, row] = value
            if kind == UNCLOSED and unclosed == NONE:
                unclosed = row
            if kind > EMPTY and column >= width > 0 and wide == NONE:
                wide = row
            column += 1
        while at < size and classes[text[at]] != NEWLINE:
            at += 1
        row += 1
    return row, at, wide, unclosed


@kernel
def copy_fields(text, starts, stops, kinds, offsets, copy):
    """Copy the fields of a column one after another, with doubled quotes made single; offsets[i] is where field i begins."""
    position = 0
    for i in range(len(starts)):
        offsets[i] = position
        at = starts[i]
        stop = stops[i]
        quoted = kinds[i] == QUOTED
        while at < stop:
            copy[position] = text[at]
            position += 1
            at += 2 if quoted and text[at] == _QUOTE else 1
    offsets[len(starts)] = position


@helper
def _next_line(text, at, classes):
    """Return where the next line with fields begins, or the end of the text."""
    while at < len(text):
        look = at
        while look < len(text) and (classes[text[look]] == BLANK or text[look] == _TAB):
            look += 1
        if look == len(text):
            return look
        if classes[text[look]] == NEWLINE:
            at = look + 1
        elif text[look] == _HASH or text[look] == _PERCENT:
            at = _line_end(text, look, classes)
        elif text[look] == _BYTE_ORDER_MARK and look + 2 < len(text) and text[look + 1] == 0xBB and text[look + 2] == 0xBF:
            at = look + 3
        else:
            while classes[text[at]] == BLANK:
                at += 1
            return at
    return at


@helper
def _line_end(text, at, classes):
    while at < len(text) and classes[text[at]] != NEWLINE:
        at += 1
    return at


@helper
def _field(text, at, classes, limit):
    """Return the bounds of a field inside its blanks and quotes, its kind and value, and where it ends including those."""
    while at < len(text) and classes[text[at]] == BLANK:
        at += 1
    start = stop = end = at
    quotes = PLAIN
    if limit == BREAK and at < len(text) and text[at] == _QUOTE:
        stop, end, quotes = _closing_quote(text, at, classes)
    if end > at:
        start += 1
    else:
        while end < len(text) and classes[text[end]] < limit:
            end += 1
        stop = end
    while start < stop and classes[text[start]] == BLANK:
        start += 1
    while start < stop and classes[text[stop - 1]] == BLANK:
        stop -= 1
    if start == stop:
        return start, stop, EMPTY, 0, end
    if quotes != PLAIN or text[start] > _NINE:
        return start, stop, quotes, 0, end
    kind, value = _integer(text, start, stop)
    return start, stop, kind, value, end


@helper
def _closing_quote(text, at, classes):
    """Return where the quote that opens at `at` is closed, where the field ends after it, and what kind of text it encloses.

    A closing quote must be followed by a separator or the end of the line. If it is not, or if there is none in the line, the
    first two are `at`. The kind is then PLAIN if the quotes are ordinary characters, and UNCLOSED if there is no closing quote
    or only one after a separator.
    """
    kind = otherwise = PLAIN
    stop = at + 1
    while stop < len(text) and classes[text[stop]] != NEWLINE:
        if text[stop] == _QUOTE:
            if stop + 1 == len(text) or text[stop + 1] != _QUOTE:
                after = stop + 1
                while after < len(text) and classes[text[after]] == BLANK:
                    after += 1
                if after == len(text) or classes[text[after]] >= BREAK:
                    return stop, after, kind
                return at, at, otherwise
            kind = QUOTED
            stop += 1
        elif classes[text[stop]] == BREAK:
            otherwise = UNCLOSED
        stop += 1
    return at, at, UNCLOSED


@helper
def _integer(text, start, stop):
    """Return INTEGER and the value of a field that is spelled as the value would be printed; otherwise PLAIN and zero."""
    negative = text[start] == _MINUS
    first = start + 1 if negative else start
    digits = stop - first
    if digits == 0 or digits > _SAFE_DIGITS + 1 or (text[first] == _ZERO and (digits > 1 or negative)):
        return PLAIN, 0
    value = 0
    for at in range(first, stop):
        if not _ZERO <= text[at] <= _NINE:
            return PLAIN, 0
        digit = np.int64(text[at]) - _ZERO
        if value < -_TENTH_OF_MAX_INT64 or (value == -_TENTH_OF_MAX_INT64 and digit > (8 if negative else 7)):
            return PLAIN, 0
        value = value * 10 - digit  # negative, since there is one more negative number than positive ones
    return INTEGER, value if negative else -value
