"""Matches as small graphs in a grid: the pattern first, then what its attributes are bound to in each match."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

from bigjoin.drawing.figure import FONT_SIZE, ROW_WIDTH, SMALL_SIZE, Figure, in_rows, lines_of_text, stacked
from bigjoin.drawing.pattern import PatternDrawing
from bigjoin.drawing.small_graph import DrawnEdge, DrawnVertex, SmallGraph, common_places
from bigjoin.query.expressions import Call, Expression
from bigjoin.query.terms import Property

MIN_CELL_WIDTH = 110.0

MAX_VALUE_LENGTH = 400
"""Characters of an id or of a property that are looked at: a picture shows fewer anyway."""


@dataclass(frozen=True)
class FoundMatch:
    """A match: what stands where, and the values of attributes, of properties and of what else the query lists."""

    drawing: PatternDrawing
    values: Mapping[Expression, Any]


def match_grid(found: Sequence[FoundMatch], pattern: Figure, *, told: str) -> Figure:
    """Return the pattern, and the matches; those whose attributes are the same vertices have these in the same places."""
    graphs = [_graph(match, _merged(match)) for match in found]
    alike: dict[object, list[SmallGraph]] = {}
    keys = [(id(match.drawing), tuple(_merged(match).values())) for match in found]
    for key, graph in zip(keys, graphs, strict=True):
        alike.setdefault(key, []).append(graph)
    places = {key: common_places(some) for key, some in alike.items()}
    cells = [_cell("the pattern", pattern)]
    for number, (match, key, graph) in enumerate(zip(found, keys, graphs, strict=True), start=1):
        below = lines_of_text(_computed(match), most=ROW_WIDTH / 3, size=SMALL_SIZE, quiet=True)
        cells.append(_cell(str(number), stacked([replace(graph, places=places[key]).figure(), below], gap=4.0)))
    below = lines_of_text([told], most=ROW_WIDTH, size=FONT_SIZE, quiet=True)
    return stacked([in_rows(cells, most=max(ROW_WIDTH, *(cell.width for cell in cells)), gap=28.0), below], gap=16.0)


def _cell(title: str, figure: Figure) -> Figure:
    width = max(MIN_CELL_WIDTH, figure.width)
    heading = lines_of_text([title], most=width, size=SMALL_SIZE, quiet=True)
    return stacked([heading, Figure(figure.at((width - figure.width) / 2, 0.0), width, figure.height)], gap=4.0)


def _merged(match: FoundMatch) -> dict[str, int]:
    """Return for each attribute the number of the vertex that it is: attributes with the same value may be the same vertex."""
    numbers: dict[tuple[str, str], int] = {}
    found = {}
    for name in match.drawing.vertex_names:
        if name in match.values:
            value = match.values[name]
            key = (match.drawing.domain(name), f"{type(value).__name__} {value!r}")
            found[name] = numbers.setdefault(key, len(numbers))
    return found


def _graph(match: FoundMatch, merged: Mapping[str, int]) -> SmallGraph:
    """Return a match as a small graph without places."""
    beside = _properties(match)
    vertices: dict[str, DrawnVertex] = {}
    for vertex in match.drawing.vertices():
        if vertex.name not in merged:  # a box, or what must not be there
            vertices[vertex.name] = vertex
            continue
        key = _vertex_name(merged[vertex.name])
        lines = (*vertex.beside, *beside.get(vertex.name, ()))
        earlier = vertices[key].beside if key in vertices else ()
        vertices[key] = DrawnVertex(key, value_text(match.values[vertex.name]), tuple(dict.fromkeys((*earlier, *lines))))
    edges: dict[tuple[DrawnEdge, str], DrawnEdge] = {}
    for atom, edge in match.drawing.edges():
        if atom.negated:
            continue
        source, target = (_vertex_name(merged[name]) if name in merged else name for name in (edge.source, edge.target))
        if not edge.directed and not edge.is_thin and source > target:
            source, target = target, source
        row = atom.attributes[2] if len(atom.attributes) == 3 and not edge.is_thin else ""
        relation = edge.text if edge.is_thin else atom.relation if len(match.drawing.edge_relations) > 1 else ""
        said = ", ".join((*((relation,) if relation else ()), *beside.get(row, ())))
        drawn = replace(edge, source=source, target=target, text=said, dashed=False, is_path=False, tone="")
        edges[drawn, repr(match.values.get(row))] = drawn
    used = {name for edge in edges.values() for name in (edge.source, edge.target)}
    kept = (v for v in vertices.values() if v.name in used or v.name.startswith(VERTEX_PREFIX))
    return SmallGraph(tuple(kept), tuple(edges.values()))


VERTEX_PREFIX = "vertex "


def _vertex_name(number: int) -> str:
    return f"{VERTEX_PREFIX}{number}"


def _properties(match: FoundMatch) -> dict[str, list[str]]:
    """Return what the query names of each attribute, as lines."""
    found: dict[str, list[str]] = {}
    for term, value in match.values.items():
        if isinstance(term, Property):
            found.setdefault(term.attribute, []).append(f"{term.name} {value_text(value)}")
    return found


def _computed(match: FoundMatch) -> list[str]:
    """Return what is computed of a match, as lines."""
    return [f"{term} = {value_text(value)}" for term, value in match.values.items() if isinstance(term, Call)]


def value_text(value: object) -> str:
    """Return an id or a property as people write it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds" if not value.microsecond else "auto")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value[:MAX_VALUE_LENGTH].hex()
    return str(value)[:MAX_VALUE_LENGTH] or "''"
