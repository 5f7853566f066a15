"""The loops of a count as rows: what each goes over, indented as it lies within others, and how much there is of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bigjoin.drawing.bars import bar_rows, largest
from bigjoin.drawing.figure import FONT_SIZE, LINE_HEIGHT, SMALL_SIZE, Figure, joined_row, lines_of_text, stacked
from bigjoin.drawing.steps import MAX_PART_LINES, OPERATORS_OF_LISTS, SIZE_NAME_WIDTH, StepSizes, part_lines
from bigjoin.drawing.text_width import width_of
from bigjoin.markup import joined
from bigjoin.query.nest import Loop, Nest

INDENT = 18.0
BEFORE_BARS = 14.0
"""Pixels between the loops and their bars."""

MAX_LOOP_WIDTH = 620.0
"""Pixels that are left for what loops say; what needs more goes on in another line."""

MAX_ROWS = 40
"""Loops that are drawn; the others are counted."""


def loop_rows(nest: Nest, sizes: Sequence[StepSizes], *, most: float | None = None, width: float | None = None) -> Figure:
    """Return a row for each loop of a nest; `width` is for what the loops say, if other nests have theirs below it."""
    most = largest(group for each in sizes for group in each.groups()) if most is None else most
    width = text_width(nest) if width is None else width
    rows = []
    loops = list(_nested(nest.root, 0, ""))
    for (loop, depth, before), each in zip(loops[:MAX_ROWS], sizes, strict=False):
        text = _text(_pieces(loop, before), width - _indent(depth))
        bars = bar_rows(each.groups(), most=most, name_width=SIZE_NAME_WIDTH)
        rows.append(joined_row(_indent(depth), text, width + BEFORE_BARS, bars, max(LINE_HEIGHT, text.height, bars.height)))
    left = len(loops) - len(rows)
    told = lines_of_text([f"and {left} more loops"] if left else [], most=width, size=FONT_SIZE, quiet=True)
    return stacked([*rows, told], gap=7.0)


def text_width(nest: Nest) -> float:
    """Return how wide the longest line of a nest is, or the most that a picture has room for."""
    loops = list(_nested(nest.root, 0, ""))[:MAX_ROWS]
    wanted = (_indent(depth) + _width(" ".join(_pieces(loop, before))) for loop, depth, before in loops)
    return min(MAX_LOOP_WIDTH, max(wanted))


def _indent(depth: int) -> float:
    return INDENT * min(depth, 10)


def _width(text: str) -> float:
    return width_of(text, SMALL_SIZE, mono=True)


def _text(pieces: Sequence[str], most: float) -> Figure:
    """Return pieces in lines of some width, those after the first indented; only what is wider than a line loses its middle."""
    lines: list[str] = []
    for piece in pieces:
        room = most - (INDENT if len(lines) > 1 else 0.0)
        if lines and _width(f"{lines[-1]} {piece}") <= room:
            lines[-1] += f" {piece}"
        else:
            lines.append(piece)
    if len(lines) > MAX_PART_LINES:
        lines = [*lines[: MAX_PART_LINES - 1], f"and {len(lines) - MAX_PART_LINES + 1} more lines"]
    first, others = (
        lines_of_text(part, most=most - indent, size=SMALL_SIZE, mono=True)
        for part, indent in ((lines[:1], 0.0), (lines[1:], INDENT))
    )
    return Figure(joined(first.markup, others.at(INDENT, first.height)), most, first.height + others.height)


def _pieces(loop: Loop, before: str) -> list[str]:
    """Return what a loop goes over in pieces, within which no line ends."""
    parts = [*part_lines(loop.step), *_about(loop)] or ["all values"]
    commas = ["" if after.startswith(OPERATORS_OF_LISTS) else "," for after in parts[1:]]
    pieces = [part + comma for part, comma in zip(parts, [*commas, ""], strict=True)]
    return [f"{before}over {loop.attribute}: {pieces[0]}", *pieces[1:]]


def _about(loop: Loop) -> list[str]:
    """Return what a loop does besides going over lists."""
    weights = [f"counter{number}({loop.attribute})" for number in loop.weights]
    kept = ["kept for each value"] if loop.cached else []
    kept += [f"but for {loop.discount} that are taken"] if loop.discount else []
    into = [f"added to counter{loop.collects}"] if loop.collects is not None else []
    return [*weights, *kept, *into]


def _nested(loop: Loop, depth: int, before: str) -> Iterator[tuple[Loop, int, str]]:
    """Give each loop with how deep it lies and what is said before it, in the order of `walk`."""
    yield loop, depth, before
    for counter in loop.counters:
        yield from _nested(counter.spine, depth + 1, f"counter{counter.number}: ")
    for inner in (*loop.inner, *loop.apart):
        yield from _nested(inner, depth + 1, "")
