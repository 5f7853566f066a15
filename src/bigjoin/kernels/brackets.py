"""Brackets and quotes of a whole text: how deep brackets nest, and whether quotes close. Parsers trust both."""

from __future__ import annotations

from bigjoin.kernels.jit import kernel

NOWHERE = -1
_QUOTE, _ESCAPE = ord('"'), ord("\\")
_SPACE, _TAB, _LF, _CR = ord(" "), ord("\t"), ord("\n"), ord("\r")
_OPEN, _OPEN_LIST, _CLOSE, _CLOSE_LIST = ord("{"), ord("["), ord("}"), ord("]")


@kernel
def find_objects(text, most, wanted):
    """Walk over the objects of JSON that follow each other; return three places in the text, each of them or NOWHERE.

    Where brackets nest deeper than `most`; where something stands outside all objects; and where the object with a number
    begins. What comes after one of the first two is not looked at.
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
            if depth > most:
                return at, NOWHERE, begin
        elif byte in (_CLOSE, _CLOSE_LIST):
            depth -= 1
        at += 1
    return NOWHERE, NOWHERE, begin


@kernel
def find_open_quote(text, separator):
    """Return where quotes open at the beginning of a field of CSV and do not close before the text ends, or NOWHERE."""
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
