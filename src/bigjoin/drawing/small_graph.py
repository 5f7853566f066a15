"""Draw a small graph: vertices with their texts, edges with arrows and labels, and what is written beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import hypot
from typing import Literal, TypeAlias

from bigjoin.drawing.curves import Curve, Outline, arrowhead, bent, between_rims, free_bend, freest_angle, loop
from bigjoin.drawing.figure import FONT_SIZE, SMALL_SIZE, Figure, coloured, words
from bigjoin.drawing.layout import Extent, Point, placed
from bigjoin.drawing.text_width import shortened, width_of
from bigjoin.markup import Markup, element, joined

Tone: TypeAlias = Literal["", "new", "later", "negated"]
"""How something is drawn: as it is, as what has just come, faintly, or as what must not be there."""

VERTEX_SIZE, PILL_HEIGHT, DOT_SIZE = 30.0, 26.0, 12.0
"""The size of a vertex with a short text, the height of one with a longer text, and the size of one without."""

MAX_TEXT_WIDTH = 150.0
"""Longer texts of vertices and edges lose their middle."""

BESIDE_HEIGHT = 12.5
"""The height of a line beside a vertex."""

PARALLEL_GAP, LABELLED_GAP = 13.0, 18.0
"""Pixels between edges that join the same vertices, and if there is text on them."""

MANY_EDGES = 30
"""Edges beyond which lines are thinner, and arrowheads smaller."""

COVERED_COST = 30.0
"""How much it costs a label to cover a place of another edge, in square pixels of other texts."""

LINE_WIDTH, NEW_LINE_WIDTH = 1.3, 2.2

LATER_OPACITY = 0.28

PATH_ROOM = 44.0
"""Pixels that a path needs besides its label."""

LABEL_SHARES = (0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74)
"""Shares of an edge's way at which its label may stand."""


@dataclass(frozen=True, slots=True)
class DrawnVertex:
    """A vertex: what stands in it and beside it. A box stands for a relation that joins more than two attributes."""

    name: str
    text: str
    beside: tuple[str, ...] = ()
    is_box: bool = False
    tone: Tone = ""

    @property
    def shape(self) -> Extent:
        """How large it is, without what stands beside it."""
        if not self.text:
            return DOT_SIZE, DOT_SIZE
        width = width_of(shortened(self.text, MAX_TEXT_WIDTH, FONT_SIZE), FONT_SIZE)
        if width <= VERTEX_SIZE - 5 and not self.is_box:
            return VERTEX_SIZE, VERTEX_SIZE
        return width + (12 if self.is_box else 18), PILL_HEIGHT

    @property
    def radius(self) -> float:
        return 3.0 if self.is_box else self.shape[1] / 2

    @property
    def extent(self) -> Extent:
        """How large it is, with what stands below it and as much space above: its middle is that of the vertex."""
        width, height = self.shape
        widest = max((width_of(shortened(line, MAX_TEXT_WIDTH, SMALL_SIZE), SMALL_SIZE) for line in self.beside), default=0.0)
        return max(width, widest), height + 2 * BESIDE_HEIGHT * len(self.beside)


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """An edge between two vertices, or from one to itself."""

    source: str
    target: str
    text: str = ""
    directed: bool = True
    dashed: bool = False
    """Whether it may be missing, or has to be."""
    is_path: bool = False
    """Whether it stands for several edges that follow each other."""
    is_thin: bool = False
    """Whether it only leads from a box to what that joins."""
    tone: Tone = ""


@dataclass(frozen=True)
class SmallGraph:
    """Vertices and edges, and where the vertices lie."""

    vertices: tuple[DrawnVertex, ...]
    edges: tuple[DrawnEdge, ...]
    places: Mapping[str, Point] = field(default_factory=dict)

    @classmethod
    def of(cls, vertices: Iterable[DrawnVertex], edges: Iterable[DrawnEdge]) -> SmallGraph:
        """Return a graph with a place for each of its vertices."""
        graph = cls(tuple(vertices), tuple(edges))
        return replace(graph, places=common_places([graph]))

    def toned(self, vertices: Mapping[str, Tone], edges: Sequence[Tone]) -> SmallGraph:
        """Return the same graph at the same places in other tones: of vertices by name, of edges in their order."""
        return replace(
            self,
            vertices=tuple(replace(vertex, tone=vertices.get(vertex.name, "")) for vertex in self.vertices),
            edges=tuple(replace(edge, tone=tone) for edge, tone in zip(self.edges, edges, strict=True)),
        )

    def figure(self) -> Figure:
        """Return the graph as a figure."""
        return _Sketch(self).figure()


def common_places(graphs: Iterable[SmallGraph]) -> dict[str, Point]:
    """Return places for the vertices of graphs that have the same ones, with room for the texts of each."""
    extents: dict[str, Extent] = {}
    labels: dict[tuple[str, str], float] = {}
    for graph in graphs:
        for vertex in graph.vertices:
            (width, height), known = vertex.extent, extents.get(vertex.name, (0.0, 0.0))
            extents[vertex.name] = (max(width, known[0]), max(height, known[1]))
        for edge in graph.edges:
            pair = (edge.source, edge.target)
            labels[pair] = max(labels.get(pair, 0.0), _label_width(edge) + (PATH_ROOM if edge.is_path else 0.0))
    return placed(extents, labels)


def _label_width(edge: DrawnEdge) -> float:
    return width_of(shortened(edge.text, MAX_TEXT_WIDTH, SMALL_SIZE), SMALL_SIZE) + 6 if edge.text else 0.0


@dataclass(frozen=True, slots=True)
class _Box:
    """A rectangle that is taken."""

    middle: Point
    extent: Extent

    def overlap(self, other: _Box) -> float:
        """Return how much of another rectangle it covers."""
        sides = [(self.extent[axis] + other.extent[axis]) / 2 - abs(self.middle[axis] - other.middle[axis]) for axis in (0, 1)]
        return max(0.0, sides[0]) * max(0.0, sides[1])

    def holds(self, place: Point) -> bool:
        """Tell whether a place lies inside."""
        return all(abs(place[axis] - self.middle[axis]) <= self.extent[axis] / 2 for axis in (0, 1))


class _Sketch:
    """A small graph while it is drawn."""

    def __init__(self, graph: SmallGraph) -> None:
        self.graph = graph
        self.vertices = {vertex.name: vertex for vertex in graph.vertices}
        self.rims = {vertex.name: self._rim(vertex) for vertex in graph.vertices}
        self.taken = [_Box(graph.places[vertex.name], vertex.shape) for vertex in graph.vertices]
        """What texts beside vertices and on edges must not cover."""
        self.corners: list[Point] = [corner for box in self.taken for corner in _corners(box)]
        self.passed: list[list[Point]] = []
        """Places that each edge passes."""
        self.is_dense = len(graph.edges) > MANY_EDGES

    def _rim(self, vertex: DrawnVertex) -> Outline:
        return Outline(self.graph.places[vertex.name], vertex.shape, vertex.radius)

    def figure(self) -> Figure:
        """Return the figure: edges below vertices, labels above edges."""
        curves = self._curves()
        order = sorted(
            range(len(curves)), key=lambda i: (self.graph.edges[i].tone != "later", self.graph.edges[i].tone == "new")
        )
        lines = [self._edge(self.graph.edges[i], *curves[i]) for i in order]
        self.passed = [[curve.at(i / 16) for i in range(17)] for curve, _ in curves]
        beside = [self._beside(vertex) for vertex in self.graph.vertices]
        labels = [self._label(i, curves[i][0]) for i in order]
        vertices = [self._vertex(vertex) for vertex in self.graph.vertices]
        low = [min((corner[axis] for corner in self.corners), default=0.0) - 2 for axis in (0, 1)]
        high = [max((corner[axis] for corner in self.corners), default=0.0) + 2 for axis in (0, 1)]
        whole = Figure(joined(*lines, *beside, *labels, *vertices), 0.0, 0.0)
        return Figure(whole.at(-low[0], -low[1]), high[0] - low[0], high[1] - low[1])

    def _curves(self) -> list[tuple[Curve, Point]]:
        """Return the line of each edge, and where its arrow ends."""
        together: dict[tuple[str, str], list[int]] = {}
        for i, edge in enumerate(self.graph.edges):
            together.setdefault((min(edge.source, edge.target), max(edge.source, edge.target)), []).append(i)
        found: dict[int, tuple[Curve, Point]] = {}
        for pair, numbers in together.items():
            gap = LABELLED_GAP if any(self.graph.edges[i].text for i in numbers) else PARALLEL_GAP
            for rank, i in enumerate(numbers):
                edge = self.graph.edges[i]
                if edge.source == edge.target:
                    found[i] = self._loop(edge, rank)
                else:
                    aside = (rank - (len(numbers) - 1) / 2) * gap
                    found[i] = self._line(edge, aside if edge.source == pair[0] else -aside)
        for curve, tip in found.values():
            self.corners += [*(curve.at(i / 8) for i in range(9)), tip]
        return [found[i] for i in range(len(self.graph.edges))]

    def _line(self, edge: DrawnEdge, aside: float) -> tuple[Curve, Point]:
        start, end = self.rims[edge.source], self.rims[edge.target]
        others = [rim for name, rim in self.rims.items() if name not in (edge.source, edge.target)]
        curve = bent(start.middle, end.middle, free_bend(start, end, others, aside))
        return between_rims(curve, start, end, arrow=edge.directed)

    def _loop(self, edge: DrawnEdge, rank: int) -> tuple[Curve, Point]:
        rim = self.rims[edge.source]
        ends = [self.graph.places[other] for e in self.graph.edges for other in _other_end(e, edge.source)]
        angle = freest_angle(rim.middle, ends)
        return loop(rim, angle, size=(1.6 if edge.is_path else 1.0) + 0.55 * rank)

    def _edge(self, edge: DrawnEdge, curve: Curve, tip: Point) -> Markup:
        width = 0.8 if edge.is_thin else NEW_LINE_WIDTH if edge.tone == "new" else LINE_WIDTH
        width *= 0.75 if self.is_dense else 1.0
        dashes = "4 3" if edge.dashed else None
        line = element("path", d=curve.path, fill="none", stroke="currentColor", stroke_width=width, stroke_dasharray=dashes)
        parts = [line]
        if edge.is_path:
            parts = [_chain(curve, width)]
        if edge.directed:
            parts.append(element("path", d=arrowhead(tip, curve, size=0.75 if self.is_dense else 1.0), stroke="none"))
        drawn = element("g", *parts, class_="bigjoin-edge", data_source=edge.source, data_target=edge.target)
        return _in_tone(edge.tone, drawn, opacity=0.55 if edge.is_thin and edge.tone != "later" else None)

    def _label(self, number: int, curve: Curve) -> Markup:
        """Return what stands on an edge, at the place where it covers the least of other things."""
        edge = self.graph.edges[number]
        if not edge.text:
            return Markup("")
        extent = (_label_width(edge), SMALL_SIZE + 5)
        if edge.source == edge.target:
            spots = [_beyond(self.graph.places[edge.source], curve.at(0.5), extent)]
        else:
            spots = [_Box(curve.at(share), extent) for share in LABEL_SHARES]
        (x, y), paper = self._put(spots, number)
        text = words(edge.text, x, y + 3.6, most=MAX_TEXT_WIDTH, size=SMALL_SIZE, anchor="middle")
        return _in_tone(edge.tone, paper, text)

    def _beside(self, vertex: DrawnVertex) -> Markup:
        """Return the lines beside a vertex: below it, or wherever they cover less."""
        if not vertex.beside:
            return Markup("")
        (x, y), (width, height) = self.graph.places[vertex.name], vertex.shape
        widths = [width_of(shortened(line, MAX_TEXT_WIDTH, SMALL_SIZE), SMALL_SIZE) for line in vertex.beside]
        extent = (max(widths) + 4, BESIDE_HEIGHT * len(vertex.beside) + 2)
        aside, away = (width + extent[0]) / 2 + 1, (height + extent[1]) / 2
        spots = [_Box(middle, extent) for middle in ((x, y + away), (x, y - away), (x + aside, y), (x - aside, y))]
        (x, y), paper = self._put(spots)
        parts = [paper]
        for i, line in enumerate(vertex.beside):
            below = y - extent[1] / 2 + BESIDE_HEIGHT * (i + 0.85)
            parts.append(words(line, x, below, most=MAX_TEXT_WIDTH, size=SMALL_SIZE, anchor="middle", quiet=True))
        return _in_tone(vertex.tone, *parts)

    def _put(self, spots: Sequence[_Box], edge: int | None = None) -> tuple[Point, Markup]:
        """Take the spot for a text that covers the least of other things, perhaps on an edge; return its middle, and paper."""
        others = [place for i, passed in enumerate(self.passed) if i != edge for place in passed]

        def cost(box: _Box) -> float:
            covered = sum(box.holds(place) for place in others)
            return round(sum(box.overlap(other) for other in self.taken) + COVERED_COST * covered, 1)

        spot = min(spots, key=cost)
        self.taken.append(spot)
        self.corners += _corners(spot)
        (x, y), (width, height) = spot.middle, spot.extent
        where = {"x": x - width / 2, "y": y - height / 2, "width": width, "height": height, "rx": 3}
        return (x, y), element("rect", class_="bigjoin-paper", fill="#ffffff", **where)

    def _vertex(self, vertex: DrawnVertex) -> Markup:
        rim = self.rims[vertex.name]
        (x, y), (width, height) = rim.middle, vertex.shape
        outline = {"x": x - width / 2, "y": y - height / 2, "width": width, "height": height, "rx": vertex.radius}
        is_new = vertex.tone == "new"
        parts = [
            element("rect", class_="bigjoin-paper", fill="#ffffff", **outline),
            element(
                "rect",
                fill="currentColor",
                fill_opacity=0.16 if is_new else 0.05 if vertex.text else 0.45,
                stroke="currentColor",
                stroke_width=NEW_LINE_WIDTH if is_new else 0.9 if vertex.is_box else LINE_WIDTH,
                **outline,
            ),
        ]
        if vertex.text:
            parts.append(words(vertex.text, x, y + 4.2, most=MAX_TEXT_WIDTH, anchor="middle", bold=is_new))
        return _in_tone(vertex.tone, element("g", *parts, class_="bigjoin-vertex", data_name=vertex.name))


def _beyond(middle: Point, apex: Point, extent: Extent) -> _Box:
    """Return the place of a label beyond the apex of a loop, seen from the middle of its vertex."""
    dx, dy = apex[0] - middle[0], apex[1] - middle[1]
    length = hypot(dx, dy) or 1.0
    away = extent[0] / 2 * abs(dx) / length + extent[1] / 2 * abs(dy) / length + 2
    return _Box((apex[0] + away * dx / length, apex[1] + away * dy / length), extent)


def _other_end(edge: DrawnEdge, name: str) -> list[str]:
    """Return the other end of an edge, if it has one and the vertex is an end of it."""
    return [other for other in (edge.source, edge.target) if name in (edge.source, edge.target) and other != name]


def _corners(box: _Box) -> list[Point]:
    (x, y), (width, height) = box.middle, box.extent
    return [(x - width / 2, y - height / 2), (x + width / 2, y + height / 2)]


def _chain(curve: Curve, width: float) -> Markup:
    """Return a line over two further vertices, the part between which is dotted: there may be more of them."""
    shares = (0.0, 0.2, 0.8, 1.0)
    parts = []
    for first, last in pairwise(shares):
        dots = "1.5 4" if first == shares[1] else None
        path = curve.part(first, last).path
        parts.append(element("path", d=path, fill="none", stroke="currentColor", stroke_width=width, stroke_dasharray=dots))
    for share in shares[1:3]:
        x, y = curve.at(share)
        parts.append(element("circle", class_="bigjoin-paper", cx=x, cy=y, r=3.2, fill="#ffffff", stroke="currentColor"))
    return joined(*parts)


def _in_tone(tone: Tone, *parts: Markup, opacity: float | None = None) -> Markup:
    """Return parts in a tone."""
    if tone == "new":
        return coloured("blue", *parts)
    if tone == "negated":
        return coloured("orange", *parts)
    opacity = LATER_OPACITY if tone == "later" else opacity
    return joined(*parts) if opacity is None else element("g", *parts, opacity=opacity)
