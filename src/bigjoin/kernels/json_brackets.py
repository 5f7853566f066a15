"""Check brackets and quotes of a text before a parser sees it: how deep brackets nest, and whether quotes are closed."""

from __future__ import annotations

from bigjoin.kernels.jit import kernel

NOWHERE = -1
_QUOTE, _ESCAPE = ord('"'), ord("\\")
_SPACE, _TAB, _LF, _CR = ord(" "), ord("\t"), ord("\n"), ord("\r")
_OPEN, _OPEN_LIST, _CLOSE, _CLOSE_LIST, _COMMA = ord("{"), ord("["), ord("}"), ord("]"), ord(",")


@kernel
def find_objects(text, max_depth, wanted):
    """Read consecutive JSON objects, and return three positions in the text, each of which may be NOWHERE.

    They are where brackets nest deeper than `max_depth`, where something stands outside all objects, and where object number
    `wanted` begins. Reading stops at the first of the two faults.
    """
    depth = objects = 0
    begin = NOWHERE
    quoted = False
    at = 0
    while at < len(text):
        byte = text[at]
        if quoted:
            if byte == _ESCAPE:
                at += 1
            elif byte == _QUOTE:
                quoted = False
        elif depth == 0:
            if byte == _OPEN:
                if objects == wanted:
                    begin = at
                objects += 1
                depth = 1
            elif byte not in (_SPACE, _TAB, _LF, _CR):
                return NOWHERE, at, begin
        elif byte == _QUOTE:
            quoted = True
        elif byte in (_OPEN, _OPEN_LIST):
            depth += 1
            if depth > max_depth:
                return at, NOWHERE, begin
        elif byte in (_CLOSE, _CLOSE_LIST):
            depth -= 1
        at += 1
    return NOWHERE, NOWHERE, begin


@kernel
def blank_list(text):
    """Overwrite the brackets and commas of a list of objects with spaces, so that the objects alone are left.

    Return whether the list is closed. What stands after it, or between its objects, is left for `find_objects` to report.
    """
    depth = 0
    quoted = False
    at = 0
    while at < len(text):
        byte = text[at]
        if quoted:
            if byte == _ESCAPE:
                at += 1
            elif byte == _QUOTE:
                quoted = False
        elif depth == 0:
            if byte == _OPEN_LIST:
                text[at] = _SPACE
                depth = 1
        elif depth == 1 and byte == _COMMA:
            text[at] = _SPACE
        elif depth == 1 and byte == _CLOSE_LIST:
            text[at] = _SPACE
            return True
        elif byte == _QUOTE:
            quoted = True
        elif byte in (_OPEN, _OPEN_LIST):
            depth += 1
        elif byte in (_CLOSE, _CLOSE_LIST):
            depth -= 1
        at += 1
    return False


@kernel
def find_open_quote(text, separator):
    """Return where a quote opens a field of CSV and is not closed before the text ends, or NOWHERE."""
    begins = True
    at = 0
    while at < len(text):
        byte = text[at]
        if begins and byte == _QUOTE:
            opened = at
            at += 1
            while at < len(text):
                if text[at] == _QUOTE:
                    if at + 1 == len(text) or text[at + 1] != _QUOTE:
                        break
                    at += 1
                at += 1
            if at >= len(text):
                return opened
            begins = False
        else:
            begins = byte in (separator, _LF, _CR)
        at += 1
    return NOWHERE
