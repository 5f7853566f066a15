"""How wide text is, without knowing the font: as in the widest of those that are usually there, so that nothing overlaps."""

from __future__ import annotations

import unicodedata

from bigjoin.markup import fit

MONO_WIDTH = 0.61
"""The width of a character of the fonts in which every character has the same, compared with their size."""

ELLIPSIS = "\u2026"

_WIDTHS = (
    (0.38, "ijlI.,:;'|!()[]{} /\\`\u2026"),
    (0.46, 'frt-"*'),
    (0.99, "mMwW@%"),
    (0.80, "OQDGNHUAV&"),
)
"""Widths of characters in DejaVu Sans, compared with the size of the font."""

_WIDTH_OF = {character: width for width, characters in _WIDTHS for character in characters}


def width_of(text: str, size: float, *, mono: bool = False) -> float:
    """Return the width of a line of text."""
    return size * sum(_width(character, mono=mono) for character in fit(text))


def _width(character: str, *, mono: bool) -> float:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(character) in ("W", "F"):
        return 1.25 if mono else 1.05
    if mono:
        return MONO_WIDTH if character.isascii() else 0.8
    return _WIDTH_OF.get(character, 0.72 if character.isupper() or not character.isascii() else 0.64)


def shortened(text: str, most: float, size: float, *, mono: bool = False) -> str:
    """Return a line of text without its middle, if it is wider than `most`."""
    line = " ".join(fit(text).split())
    if width_of(line, size, mono=mono) <= most:
        return line
    low, high = 0, len(line) // 2
    while low < high:  # the most characters that are left on each side
        kept = (low + high + 1) // 2
        low, high = (kept, high) if width_of(_cut(line, kept), size, mono=mono) <= most else (low, kept - 1)
    return _cut(line, low)


def _cut(line: str, kept: int) -> str:
    return line[:kept] + ELLIPSIS + (line[-kept:] if kept else "")


def wrapped(text: str, most: float, size: float, *, mono: bool = False) -> list[str]:
    """Return text as lines of at most some width; a word that is wider loses its middle."""
    lines: list[str] = []
    for word in fit(text).split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and width_of(longer, size, mono=mono) <= most:
            lines[-1] = longer
        else:
            lines.append(shortened(word, most, size, mono=mono))
    return lines
