"""Draw the diagrams of docs/how-it-works.md into docs/pictures, about the graph that the page counts by hand.

Run it with: make figures
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from math import dist
from pathlib import Path

from bigjoin.drawing.curves import ARROW_LENGTH, Curve, arrowhead
from bigjoin.drawing.figure import FONT_SIZE, Figure, coloured, document, in_rows, lines_of_text, stacked, words
from bigjoin.drawing.layout import Point
from bigjoin.drawing.small_graph import LINE_WIDTH, NEW_LINE_WIDTH, DrawnEdge, DrawnVertex, SmallGraph, Tone
from bigjoin.drawing.text_width import width_of
from bigjoin.markup import Markup, element, joined

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"

EDGES = [*((a, 6) for a in range(1, 6)), *((6, b) for b in range(7, 12)), (7, 1)]
"""The example graph of the paper's appendix A."""

WIDTH, GAP = 720.0, 24.0
"""Pixels: of a diagram, and between its parts."""

WORKER_WIDTH = (WIDTH - 2 * GAP) / 3


def example(vertices: Mapping[int, Tone], edges: Mapping[tuple[int, int], Tone]) -> Figure:
    """Return the example graph with some vertices and edges in other tones: five, the hub, five."""
    places: dict[str, Point] = {str(a): (0.0, 40.0 * (a - 1)) for a in range(1, 6)}
    places |= {"6": (95.0, 80.0)} | {str(b): (190.0, 40.0 * (b - 7)) for b in range(7, 12)}
    drawn = [DrawnVertex(name, name, tone=vertices.get(int(name), "")) for name in places]
    lines = [DrawnEdge(str(a), str(b), tone=edges.get((a, b), "later")) for a, b in EDGES]
    return SmallGraph(tuple(drawn), tuple(lines), places).figure()


def box(title: str, lines: Sequence[str], *, width: float, height: float, colour: str | None = None) -> Figure:
    """Return a rectangle with a title and lines of text in its middle."""
    outline = element(
        "rect",
        width=width,
        height=height,
        rx=6,
        fill="currentColor",
        fill_opacity=0.1 if colour else 0.04,
        stroke="currentColor",
        stroke_width=LINE_WIDTH,
    )
    top = (height - 18.0 * (len(lines) + 1)) / 2 + 13
    text = [words(title, width / 2, top, anchor="middle", bold=True, most=width - 12)]
    text += [words(line, width / 2, top + 18.0 * (i + 1), anchor="middle", most=width - 12) for i, line in enumerate(lines)]
    return Figure(joined(coloured(colour, outline) if colour else outline, *text), width, height)


def arrow(start: Point, end: Point, *, colour: str | None = None) -> Markup:
    """Return an arrow."""
    shaft = Curve((start, end)).part(0.0, 1.0 - ARROW_LENGTH / 2 / dist(start, end))
    line = element("path", d=shaft.path, fill="none", stroke="currentColor", stroke_width=NEW_LINE_WIDTH)
    drawn = joined(line, element("path", d=arrowhead(end, shaft), stroke="none"))
    return coloured(colour, drawn) if colour else element("g", drawn, opacity=0.6)


def centred(text: str, x: float, y: float, *, quiet: bool = False) -> Markup:
    """Return a line of text around a place."""
    return words(text, x, y, anchor="middle", quiet=quiet)


def captioned(title: str, figure: Figure, lines: Sequence[str]) -> Figure:
    """Return a figure with a title above it and lines below it, all in the middle."""
    width = max(figure.width, *(width_of(line, FONT_SIZE) for line in (title, *lines)))
    above = Figure(words(title, width / 2, 12.0, anchor="middle", bold=True), width, 16.0)
    below = [words(line, width / 2, 12.0 + 18.0 * i, anchor="middle", quiet=i > 0) for i, line in enumerate(lines)]
    middle = Figure(figure.at((width - figure.width) / 2, 0.0), width, figure.height)
    return stacked([above, middle, Figure(joined(*below), width, 18.0 * len(lines))], gap=12.0)


def prefixes() -> tuple[Figure, str]:
    """Draw one prefix, extended step by step."""
    bound: dict[int, Tone] = {1: "new", 6: "new"}
    seed: dict[tuple[int, int], Tone] = {(1, 6): "new"}
    panels = (
        ("a prefix", example(bound, seed), ("(1, 6), an edge:", "the first two attributes are bound")),
        (
            "count, propose",
            example({**bound, 7: "negated"}, {**seed, (7, 1): "negated"}),
            ("6 leads to five, only 7 leads to 1:", "one candidate, (1, 6, 7)"),
        ),
        (
            "intersect",
            example({**bound, 7: "new"}, {**seed, (7, 1): "new", (6, 7): "new"}),
            ("6 leads to 7 as well, so 7 stays:", "(1, 6, 7) is a triangle"),
        ),
    )
    figure = in_rows((captioned(*panel) for panel in panels), most=2 * WIDTH, gap=40.0)
    return figure, "A prefix is extended: the edge 1 to 6, the candidate 7, and the triangle 1, 6, 7"


def binary_join() -> tuple[Figure, str]:
    """Draw what two ways of joining build, as bars."""
    hub = {edge: "negated" for edge in EDGES if 6 in edge}
    graph = captioned("5 times 5 paths go through 6", example({6: "negated"}, hub), ())
    ways = (
        ("an edge at a time", (("edges", 11), ("open paths", 27), ("rows", 3))),
        ("a vertex at a time", (("edges", 11), ("candidates", 3), ("rows", 3))),
    )
    parts = []
    for title, bars in ways:
        marks = [words(title, 0.0, 14.0, bold=True)]
        for place, (name, size) in enumerate(bars):
            y = 26.0 + 25.0 * place
            mark = element("rect", x=88.0, y=y, width=11.0 * size, height=18.0, rx=3, fill="currentColor", fill_opacity=0.75)
            marks += [words(name, 78.0, y + 13.5, anchor="end"), coloured("orange" if place == 1 else "blue", mark)]
            marks.append(words(str(size), 96.0 + 11.0 * size, y + 13.5))
        parts.append(Figure(joined(*marks), 430.0, 104.0))
    figure = in_rows([graph, stacked(parts, gap=14.0)], most=2 * WIDTH, gap=50.0)
    return figure, "An edge at a time builds 27 open paths, a vertex at a time 3 candidates, for 3 rows"


def three(titles: Sequence[str], held: Sequence[Sequence[str]], *, height: float, colour: str | None = None) -> Figure:
    """Return three boxes beside each other."""
    boxes = [box(t, lines, width=WORKER_WIDTH, height=height, colour=colour) for t, lines in zip(titles, held, strict=True)]
    return in_rows(boxes, most=2 * WIDTH, gap=GAP)


def middle_of(number: int) -> float:
    """Return the middle of one of three boxes."""
    return WORKER_WIDTH / 2 + number * (WORKER_WIDTH + GAP)


def whole_index() -> tuple[Figure, str]:
    """Draw `local` and `shared`: every task maps the whole index."""
    index = box(
        "the index: all lists of all vertices", ["mapped by every task; nothing is exchanged"], width=440.0, height=58.0
    )
    seeds = (["(1, 6) (2, 6) (3, 6) (4, 6)"], ["(5, 6) (6, 7) (6, 8) (6, 9)"], ["(6, 10) (6, 11) (7, 1)"])
    tasks = three([f"task {n}: its range of the seeds" for n in (1, 2, 3)], seeds, height=58.0, colour="blue")
    lines = [arrow((WIDTH / 2 + 130 * (n - 1), 60.0), (middle_of(n), 108.0)) for n in range(3)]
    lines += [arrow((middle_of(n), 170.0), (WIDTH / 2 + 80 * (n - 1), 222.0), colour="blue") for n in range(3)]
    counts = [centred("1 row", middle_of(n) + (0, 24, 0)[n], 200.0, quiet=True) for n in range(3)]
    total = centred("3: only numbers, or rows, come together", WIDTH / 2, 240.0)
    parts = joined(index.at((WIDTH - 440.0) / 2, 0.0), tasks.at(0.0, 110.0), *lines, *counts, total)
    return Figure(parts, WIDTH, 246.0), "local and shared: every task maps the whole index, and gets a range of the seeds"


def talking(workers: Figure, said: Sequence[tuple[int, int, str, str]]) -> Figure:
    """Return three workers, and below them what they say to each other, one line after another.

    A line is who speaks, to whom, what, and in which colour; who speaks to itself only notes something.
    """
    top = workers.height
    height = top + 30.0 * len(said) + 14.0
    parts = [
        element("path", d=f"M{middle_of(n):g} {top:g} V{height:g}", stroke="currentColor", stroke_dasharray="3 4", opacity=0.5)
        for n in range(3)
    ]
    for number, (speaker, to, text, colour) in enumerate(said):
        y = top + 30.0 * (number + 1)
        start, end = middle_of(speaker), middle_of(to)
        middle = (start + end) / 2
        width = width_of(text, FONT_SIZE) + 8
        behind = element("rect", class_="bigjoin-paper", x=middle - width / 2, y=y - 19, width=width, height=17, fill="#ffffff")
        if start != end:
            parts.append(arrow((start, y), (end, y), colour=colour))
        parts += [behind, centred(text, middle, y - 6.0)]
    return Figure(joined(*parts, workers.markup), WIDTH, height)


def partitioned() -> tuple[Figure, str]:
    """Draw `partitioned`: keys have owners, and a prefix travels to them."""
    held = (
        ["6 leads to 7 8 9 10 11", "to 6 lead 1 2 3 4 5", "and the lists of 3 and 9"],
        ["1 leads to 6", "to 1 leads 7", "and the lists of 4, 7 and 10"],
        ["the lists of 2, 5, 8 and 11"],
    )
    workers = three(["worker 0 owns 3 6 9", "worker 1 owns 1 4 7 10", "worker 2 owns 2 5 8 11"], held, height=92.0)
    said = (
        (1, 1, "(1, 6) begins here: 7 leads to 1", "blue"),
        (1, 0, "(1, 6) has one extension", "blue"),
        (0, 1, "five here, so 1 proposes", "orange"),
        (1, 0, "does 6 lead to 7?", "orange"),
        (0, 0, "it does: (1, 6, 7) stays", "blue"),
    )
    title = "partitioned: each worker owns the lists of some vertices, and the prefix 1, 6 travels between the owners"
    return talking(workers, said), title


def heavy_light() -> tuple[Figure, str]:
    """Draw `heavy-light`: the lists of hubs are spread."""
    held = (
        ["6 leads to 7 8 ...", "to 6 lead 1 2 ...", "and the lists of 3 and 9"],
        ["6 leads to ... 9 10 ...", "to 6 lead ... 3 4 ...", "and the lists of 1, 4, 7 and 10"],
        ["6 leads to ... 11", "to 6 lead ... 5", "and the lists of 2, 5, 8 and 11"],
    )
    workers = three(["worker 0", "worker 1", "worker 2"], held, height=92.0)
    told = ["so its lists are cut, and everybody knows their lengths"]
    hub = box("vertex 6 has 10 of the 22 entries", told, width=400.0, height=58.0)
    lines = [arrow((WIDTH / 2 + 110 * (n - 1), 60.0), (middle_of(n), 104.0), colour="orange") for n in range(3)]
    parts = joined(hub.at((WIDTH - 400.0) / 2, 0.0), *lines, workers.at(0.0, 106.0))
    return Figure(parts, WIDTH, 198.0), "heavy-light: the lists of vertex 6 are cut, and every worker owns a part of them"


def balanced() -> tuple[Figure, str]:
    """Draw `balanced`: entries by their hash, candidates dealt, lookups answered."""
    held = (
        ["(6, 7) (6, 10) (2, 6) (4, 6)", "was dealt the candidate", "(1, 6, 7)"],
        ["(6, 8) (6, 11) (3, 6) (5, 6)", "was dealt the candidate", "(6, 7, 1)"],
        ["(6, 9) (7, 1) (1, 6)", "was dealt the candidate", "(7, 1, 6)"],
    )
    workers = three([f"worker {n} holds, by their hash" for n in range(3)], held, height=92.0)
    said = (
        (0, 0, "is (6, 7) an edge? Yes, here", "blue"),
        (1, 2, "is (1, 6) an edge?", "orange"),
        (2, 1, "yes", "blue"),
        (2, 0, "is (6, 7) an edge?", "orange"),
        (0, 2, "yes", "blue"),
    )
    title = "balanced: candidates are dealt evenly, and their workers ask for what they need to know"
    return talking(workers, said), title


def epochs() -> tuple[Figure, str]:
    """Draw an epoch: two phases, and the delta queries of one."""
    names = ("before", "without what goes", "after")
    states = [
        box(name, (), width=160.0, height=44.0, colour=None if place < 2 else "blue").at(280.0 * place, 0.0)
        for place, name in enumerate(names)
    ]
    lines = [arrow((164.0, 22.0), (276.0, 22.0), colour="orange"), arrow((444.0, 22.0), (556.0, 22.0), colour="blue")]
    lines += [centred("deletions", 220.0, 12.0), centred("rows with -1", 220.0, 42.0, quiet=True)]
    lines += [centred("insertions", 500.0, 12.0), centred("rows with +1", 500.0, 42.0, quiet=True)]
    title = "In each phase, a delta query for each atom of triangle(a, b, c) := r(a, b), s(b, c), t(c, a):"
    rows = []
    for number in range(3):
        cells = [words(f"{number + 1}.", 0.0, 25.0)]
        for place, name in enumerate("rst"):
            colour = "orange" if place == number else "blue" if place < number else None
            said = (
                f"changes of {name}"
                if place == number
                else f"{name} after the phase"
                if place < number
                else f"{name} before it"
            )
            cells.append(box(said, (), width=200.0, height=38.0, colour=colour).at(30.0 + 220.0 * place, 0.0))
        rows.append(Figure(joined(*cells), 670.0, 38.0))
    whole = stacked(
        [Figure(joined(*states, *lines), WIDTH, 48.0), lines_of_text([title], most=WIDTH), stacked(rows, gap=8.0)], gap=18.0
    )
    return whole, "An epoch deletes, then inserts; in each phase, every atom of the query is seeded once with the changes"


DRAWN: dict[str, Callable[[], tuple[Figure, str]]] = {
    "prefixes": prefixes,
    "binary-join": binary_join,
    "whole-index": whole_index,
    "partitioned": partitioned,
    "heavy-light": heavy_light,
    "balanced": balanced,
    "epochs": epochs,
}
"""The name of a diagram, and what draws it and says what it shows."""


def pictures() -> dict[str, str]:
    """Return every diagram by the name of its file."""
    return {f"{name}.svg": f"{document(*draw())}\n" for name, draw in DRAWN.items()}


def main() -> None:
    """Write all diagrams into the folder that is named, else into docs/pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES
    folder.mkdir(parents=True, exist_ok=True)
    for name, svg in pictures().items():
        (folder / name).write_text(svg)


if __name__ == "__main__":
    main()
