"""The parts of a picture, and the picture as an SVG document: its colours, its fonts, and what lies where in it.

Everything is drawn in the current colour, and so follows the text around it: in a file that is dark where readers ask for
that, and in a notebook or on a site that of their theme. No element has an id, so that a page can hold many pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bigjoin.drawing.text_width import shortened, width_of
from bigjoin.markup import Markup, element, joined, number

FONT = "ui-sans-serif, system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif"
MONO_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"

FONT_SIZE, SMALL_SIZE = 12.0, 10.5

LINE_HEIGHT = 15.0

QUIET = 0.66
"""The opacity of text that is not the point."""

MARGIN = 14.0

ROW_WIDTH = 920.0
"""The width of figures beside each other, at most, unless one of them is wider."""

COLOURS = {"blue": ("#0969da", "#4493f8"), "orange": ("#bc4c00", "#f0883e")}
"""Colours beside that of the text, each in light and in dark surroundings."""

_INK, _PAPER = ("#24292f", "#e6edf3"), ("#ffffff", "#0d1117")
_THEME_INK = "var(--jp-content-font-color0,var(--md-default-fg-color,var(--vscode-foreground,{})))"
_THEME_PAPER = "var(--jp-layout-color0,var(--md-default-bg-color,var(--vscode-editor-background,{})))"


def _rules(kind: int) -> str:
    """Return the rules of light surroundings (0) or of dark ones (1)."""
    colours = "".join(f".bigjoin-{name}{{color:{pair[kind]}}}" for name, pair in COLOURS.items())
    return f".bigjoin{{color:{_INK[kind]}}}.bigjoin-paper{{fill:{_PAPER[kind]}}}{colours}"


def _theme(kind: int) -> str:
    """Return the rules for pages with a theme, whose colours have names."""
    return f".bigjoin{{color:{_THEME_INK.format(_INK[kind])}}}.bigjoin-paper{{fill:{_THEME_PAPER.format(_PAPER[kind])}}}"


def _light_and_dark(rules: Callable[[int], str]) -> str:
    return f"{rules(0)}@media (prefers-color-scheme:dark){{{rules(1)}}}"


STYLE = f"{_light_and_dark(_rules)}@supports (color:var(--a)){{{_light_and_dark(_theme)}}}"
"""The rules of a picture. Programs that know neither themes nor dark surroundings see plain colours."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A part of a picture: markup in a rectangle that begins at (0, 0)."""

    markup: Markup
    width: float
    height: float

    def at(self, x: float, y: float) -> Markup:
        """Return its markup, moved."""
        return element("g", self.markup, transform=f"translate({number(x)} {number(y)})") if self.markup else self.markup

    def within(self, width: float, least: float = 0.5) -> Figure:
        """Return the figure made smaller, if it is wider, but not smaller than a share of its size."""
        scale = max(least, min(1.0, width / max(1.0, self.width)))
        if scale == 1.0:
            return self
        drawn = element("g", self.markup, transform=f"scale({scale:.3f})")
        return Figure(drawn, self.width * scale, self.height * scale)


NOTHING = Figure(Markup(""), 0.0, 0.0)


def document(figure: Figure, title: str) -> str:
    """Return a picture as an SVG document."""
    width, height = round(figure.width + 2 * MARGIN), round(figure.height + 2 * MARGIN)
    return element(
        "svg",
        element("style", Markup(STYLE)),
        element("rect", class_="bigjoin-paper", width="100%", height="100%", rx=6, fill=_PAPER[0]),
        figure.at(MARGIN, MARGIN),
        xmlns="http://www.w3.org/2000/svg",
        class_="bigjoin",
        width=width,
        height=height,
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_label=title,
        font_family=FONT,
        font_size=FONT_SIZE,
        fill="currentColor",
        style="max-width:100%;height:auto",
    )


def coloured(name: str, *parts: object) -> Markup:
    """Return parts in one of the colours."""
    return element("g", *parts, class_=f"bigjoin-{name}", color=COLOURS[name][0])


def words(
    text: str,
    x: float,
    y: float,
    *,
    most: float | None = None,
    size: float = FONT_SIZE,
    anchor: str | None = None,
    bold: bool = False,
    quiet: bool = False,
    mono: bool = False,
) -> Markup:
    """Return a line of text on a base line; if it has to lose its middle, it says all of itself when pointed at."""
    line = text if most is None else shortened(text, most, size, mono=mono)
    return element(
        "text",
        line,
        element("title", text) if line != " ".join(text.split()) else Markup(""),
        x=x,
        y=y,
        font_size=None if size == FONT_SIZE else size,
        text_anchor=anchor,
        font_weight=600 if bold else None,
        fill_opacity=QUIET if quiet else None,
        font_family=MONO_FONT if mono else None,
    )


def lines_of_text(
    lines: Sequence[str], *, most: float, size: float = FONT_SIZE, bold: bool = False, quiet: bool = False, mono: bool = False
) -> Figure:
    """Return lines of text below each other."""
    if not lines:
        return NOTHING
    height = LINE_HEIGHT * size / FONT_SIZE
    shown = [
        words(line, 0.0, height * (i + 0.8), most=most, size=size, bold=bold, quiet=quiet, mono=mono)
        for i, line in enumerate(lines)
    ]
    width = max(width_of(shortened(line, most, size, mono=mono), size, mono=mono) for line in lines)
    return Figure(joined(*shown), width, height * len(lines))


def stacked(figures: Iterable[Figure], gap: float = 10.0) -> Figure:
    """Return figures below each other."""
    parts: list[Markup] = []
    width = y = 0.0
    for figure in figures:
        if figure.height:
            y += gap if parts else 0.0
            parts.append(figure.at(0.0, y))
            width, y = max(width, figure.width), y + figure.height
    return Figure(joined(*parts), width, y)


def in_rows(figures: Iterable[Figure], *, most: float, gap: float = 22.0, row_gap: float = 22.0) -> Figure:
    """Return figures beside each other, in rows of at most some width."""
    rows: list[list[Figure]] = []
    x = 0.0
    for figure in figures:
        if not rows or x + figure.width > most:
            rows.append([])
            x = 0.0
        rows[-1].append(figure)
        x += figure.width + gap
    parts, width, y = [], 0.0, 0.0
    for row in rows:
        x = 0.0
        for figure in row:
            parts.append(figure.at(x, y))
            x += figure.width + gap
        width, y = max(width, x - gap), y + max(figure.height for figure in row) + row_gap
    return Figure(joined(*parts), width, max(0.0, y - row_gap))


def joined_row(x: float, left: Figure, middle: float, right: Figure, height: float) -> Figure:
    """Return two figures beside each other, each from where it has to begin."""
    return Figure(joined(left.at(x, 0.0), right.at(middle, 0.0)), middle + right.width, height)
