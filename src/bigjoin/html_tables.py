"""HTML for notebooks: small tables and bars, without scripts, that can be read on a dark and on a light page.

Nothing has a colour of its own: text and rules are the page's, and what is less important is fainter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from bigjoin.markup import Markup, element

MAX_CELL_CHARACTERS = 200
"""Longer texts are cut off."""
BAR_EMS = 10.0
"""The length of a bar that is full."""
_RIGHT, _LEFT = "text-align:right;font-variant-numeric:tabular-nums", "text-align:left"
_BAR = "display:inline-block;height:.8em;"

Cell: TypeAlias = "str | int | float | None"
"""What a cell shows: text, which is escaped unless it is markup; a number, which stands to the right; or nothing."""


def cell(value: Cell) -> str:
    """Return how a value is shown."""
    if value is None:
        return ""
    if isinstance(value, str):
        is_long = len(value) > MAX_CELL_CHARACTERS and not isinstance(value, Markup)
        return value[: MAX_CELL_CHARACTERS - 1] + "…" if is_long else value
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def table(rows: Sequence[Sequence[Cell]], header: Sequence[str] = ()) -> Markup:
    """Return a table. A column stands to the right if its first cell is a number."""
    sides = [_LEFT if value is None or isinstance(value, str) else _RIGHT for value in rows[0]] if rows else []
    titles = [element("th", cell(name), style=side) for name, side in zip(header, sides, strict=False)]
    head = [element("thead", element("tr", *titles))] if titles else []
    lines = ([element("td", cell(value), style=side) for value, side in zip(row, sides, strict=True)] for row in rows)
    body = element("tbody", *(element("tr", *line) for line in lines))
    return element("table", *head, body, style="width:auto;display:table")


def bar(share: float, *, of: float = 1.0, mark: float | None = None) -> Markup:
    """Return a bar as long as a share of the longest, with a line across it at `mark`."""
    length, most = (BAR_EMS * min(1.0, max(0.0, part / of)) if of > 0 else 0.0 for part in (share, mark or 0.0))
    filled = element("span", style=f"{_BAR}width:{length:.2f}em;background:currentColor;opacity:.35")
    across = f"position:absolute;left:{most:.2f}em;top:0;height:.8em;border-left:2px solid currentColor"
    line = [] if mark is None else [element("span", style=across)]
    return element("span", filled, *line, style=f"position:relative;{_BAR}width:{BAR_EMS:g}em")


def faint(value: Cell) -> Markup:
    """Return a value that is less important than what stands beside it."""
    return element("span", cell(value), style="opacity:.65")


def titled(title: Cell, more: Cell = None, *parts: Markup) -> Markup:
    """Return what a value is, in bold, with something more about it, above its tables."""
    told = [" ", faint(more)] if more is not None else []
    return element("div", element("div", element("b", cell(title)), *told), *parts)


def folded(summary: str, content: Markup) -> Markup:
    """Return content that is shown after a click on its summary."""
    return element("details", element("summary", summary), content)
