"""Bars: sizes beside each other, estimated ones faint and real ones in full, and histograms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, log10

from bigjoin.drawing.figure import FONT_SIZE, LINE_HEIGHT, SMALL_SIZE, Figure, coloured, stacked, words
from bigjoin.drawing.text_width import shortened, width_of
from bigjoin.markup import Markup, element, joined

BAR_HEIGHT = 9.0
BAR_LENGTH = 120.0
"""The length of the longest bar."""

FAINT = 0.3

_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K"))
MAX_WITH_UNITS = 1e15


def about(value: float) -> str:
    """Return an estimate with the two digits that matter."""
    if value == inf:
        return "very many"
    if value >= MAX_WITH_UNITS:
        return f"{value:.1e}".replace("e+", "e")
    for unit, letter in _UNITS:
        if value >= unit * 0.9995:
            return f"{value / unit:.2g} {letter}" if value < 99.5 * unit else f"{value / unit:.0f} {letter}"
    return f"{value:.0f}" if value >= 9.95 else f"{value:.2g}"


@dataclass(frozen=True, slots=True)
class SizeBar:
    """A size as a bar, with the text that says it; if it is not known, there is neither."""

    size: float | None
    is_real: bool = True
    text: str = ""

    @property
    def said(self) -> str:
        if self.size is None:
            return ""
        if self.text:
            return self.text
        return f"{self.size:,.0f}" if self.is_real else f"about {about(self.size)}"


@dataclass(frozen=True, slots=True)
class BarGroup:
    """Bars that are compared with each other, below one name."""

    name: str
    bars: tuple[SizeBar, ...]


def largest(groups: Iterable[BarGroup]) -> float:
    """Return the largest size of bars."""
    return max((bar.size for group in groups for bar in group.bars if bar.size is not None and bar.size != inf), default=0.0)


def bar_rows(
    groups: Sequence[BarGroup],
    *,
    most: float,
    logarithmic: bool = True,
    name_width: float | None = None,
    length: float = BAR_LENGTH,
) -> Figure:
    """Return groups of bars below each other, as long as their sizes compared with `most`, names before them."""
    wide = max((width_of(group.name, SMALL_SIZE) for group in groups), default=0.0) if name_width is None else name_width
    left = wide + 8 if wide else 0.0
    parts, y, width = [], 0.0, 0.0
    for group in groups:
        known = [bar for bar in group.bars if bar.size is not None]
        if not known:
            continue
        parts.append(words(group.name, 0.0, y + 9.0, size=SMALL_SIZE, quiet=True, most=wide or None))
        for bar in known:
            long = length * _share(bar.size or 0.0, most, logarithmic=logarithmic)
            parts.append(_bar(left, y + 1, long, is_real=bar.is_real, said=bar.said))
            parts.append(words(bar.said, left + long + 5, y + 9.0, size=SMALL_SIZE, quiet=not bar.is_real))
            width = max(width, left + long + 5 + width_of(bar.said, SMALL_SIZE))
            y += BAR_HEIGHT + 3.5
        y += 3.0
    return Figure(joined(*parts), width, max(0.0, y - 3.0))


def _bar(x: float, y: float, length: float, *, is_real: bool, said: str | None = None) -> Markup:
    """Return a bar, which also carries its size as data, for programs that read pictures."""
    named = {"data_real" if is_real else "data_expected": said}
    shape = element(
        "rect",
        x=x,
        y=y,
        width=max(1.0, length),
        height=BAR_HEIGHT - 1,
        rx=1.5,
        fill_opacity=None if is_real else FAINT,
        **named,
    )
    return coloured("blue", shape) if is_real else shape


def _share(size: float, most: float, *, logarithmic: bool) -> float:
    """Return how long a bar is, compared with the longest."""
    if size == inf:
        return 1.0
    if most <= 0:
        return 0.0
    return min(1.0, log10(1 + size) / log10(1 + most) if logarithmic else size / most)


def legend(names: Sequence[tuple[str, bool]]) -> Figure:
    """Return what the two kinds of bars are."""
    parts, x = [], 0.0
    for name, is_real in names:
        parts.append(_bar(x, 3.0, 16.0, is_real=is_real))
        parts.append(words(name, x + 22, 11.0, size=SMALL_SIZE, quiet=True))
        x += 22 + width_of(name, SMALL_SIZE) + 18
    return Figure(joined(*parts), max(0.0, x - 18), LINE_HEIGHT)


COLUMN_WIDTH, COLUMN_HEIGHT = 30.0, 170.0
COLUMN_TEXT_WIDTH = 70.0

COLUMN_SHARE = 0.62
"""The width of a column, compared with the room that it has."""


def columns(
    sizes: Sequence[int], names: Sequence[str], *, title: str, across: str, upwards: str, logarithmic: bool = True
) -> Figure:
    """Return a histogram: a column for each size, on a logarithmic scale, with what it is below and its size above."""
    most = max(sizes, default=0)
    widest = max((width_of(text, SMALL_SIZE) for text in (*names, *(f"{size:,}" for size in sizes))), default=0.0)
    step = max(COLUMN_WIDTH, min(widest, COLUMN_TEXT_WIDTH)) + 8
    parts: list[Markup] = []
    for place, (size, name) in enumerate(zip(sizes, names, strict=True)):
        x = step * place
        height = COLUMN_HEIGHT * _share(size, most, logarithmic=logarithmic) if size else 0.0
        top = 16 + COLUMN_HEIGHT - height
        wide = step * COLUMN_SHARE
        column = element(
            "rect", x=x + (step - wide) / 2, y=top, width=wide, height=height, rx=2, fill_opacity=0.85, data_size=size
        )
        parts.append(coloured("blue", column))
        middle = x + step / 2
        parts.append(words(f"{size:,}", middle, top - 4, size=SMALL_SIZE, anchor="middle", quiet=not size))
        parts.append(words(name, middle, 16 + COLUMN_HEIGHT + 15, size=SMALL_SIZE, anchor="middle"))
    base = 16.5 + COLUMN_HEIGHT
    width = step * len(sizes)
    parts.append(element("path", d=f"M0 {base:.1f} H{width:.1f}", stroke="currentColor", stroke_opacity=0.4, fill="none"))
    drawn = Figure(joined(*parts), width, base + 20)
    heading = Figure(words(title, 0.0, 12.0, bold=True), width_of(title, FONT_SIZE) * 1.05, LINE_HEIGHT)
    scale = f"{upwards}; columns are logarithmic" if logarithmic else upwards
    below = Figure(
        words(f"{across} \u2192", 0.0, 10.0, size=SMALL_SIZE, quiet=True), width_of(across, SMALL_SIZE) + 20, LINE_HEIGHT
    )
    about_it = Figure(words(scale, 0.0, 10.0, size=SMALL_SIZE, quiet=True), width_of(scale, SMALL_SIZE), LINE_HEIGHT)
    return stacked([heading, about_it, drawn, below], gap=4.0)


def named_bars(rows: Sequence[tuple[str, Sequence[SizeBar]]], *, title: str, most_name: float = 320.0) -> Figure:
    """Return bars with a title, on one scale."""
    shown = [(shortened(name, most_name, SMALL_SIZE), bars) for name, bars in rows]
    groups = [BarGroup(name, tuple(bars)) for name, bars in shown]
    heading = Figure(words(title, 0.0, 12.0, bold=True), width_of(title, FONT_SIZE) * 1.05, LINE_HEIGHT)
    return stacked([heading, bar_rows(groups, most=largest(groups), logarithmic=False, length=260.0)], gap=6.0)
