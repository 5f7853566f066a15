"""Markup: elements of SVG and HTML as text, in which everything that is not markup itself is escaped."""

from __future__ import annotations

import re

SHAPES = frozenset({"circle", "line", "meta", "path", "rect"})
"""Elements without content, which close themselves."""

_UNFIT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Characters that XML does not have, and those that would turn round the text after them."""

_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})


class Markup(str):
    """Text that is markup, and is not escaped again."""

    __slots__ = ()


def fit(text: object) -> str:
    """Return text with U+FFFD in place of characters that no document may hold."""
    return _UNFIT.sub("\ufffd", str(text))


def escaped(content: object) -> Markup:
    """Return content as markup: what is none is text, whatever it looks like."""
    return content if isinstance(content, Markup) else Markup(fit(content).translate(_ENTITIES))


def joined(*parts: object) -> Markup:
    """Return parts, one after the other."""
    return Markup("".join(map(escaped, parts)))


def element(tag: str, *content: object, **attributes: object) -> Markup:
    """Return an element. `_` in the name of an attribute stands for `-`; attributes that are None are left out."""
    said = "".join(f' {_name(name)}="{escaped(_value(value))}"' for name, value in attributes.items() if value is not None)
    return Markup(f"<{tag}{said}/>" if tag in SHAPES else f"<{tag}{said}>{joined(*content)}</{tag}>")


def number(value: float) -> str:
    """Return a coordinate: a tenth of a pixel is enough, and the same on every machine."""
    shown = f"{value:.1f}".removesuffix(".0")
    return "0" if shown == "-0" else shown


def _name(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _value(value: object) -> object:
    return number(value) if isinstance(value, float) else value
