"""Draw what a query asks for: the pattern of each of its parts, and what is asked of matches besides."""

from __future__ import annotations

from typing import Unpack

from bigjoin.drawing.drawing import Drawing
from bigjoin.drawing.figure import FONT_SIZE, ROW_WIDTH, SMALL_SIZE, Figure, in_rows, lines_of_text, stacked
from bigjoin.drawing.pattern import PatternDrawing
from bigjoin.errors import QueryError, shown
from bigjoin.languages import Flags, Text, read
from bigjoin.query.query import Query
from bigjoin.query.statement import QueryBlock, Statement
from bigjoin.query.statistics import Statistics
from bigjoin.signatures import with_known_keywords

MAX_BLOCKS = 6
"""Patterns of a sum that are drawn; the others are counted."""

MAX_CONDITIONS = 12
"""Conditions that are shown below a pattern."""

CONDITION_WIDTH = 460.0

MAX_TITLE = 80

_BESIDE = {"exists": "if there is", "not exists": "if there is no", "optional": "with, where there is one,"}


@with_known_keywords(flags=Flags)
def draw(query: Text, *, undirected: bool = False, **flags: Unpack[Flags]) -> Drawing:
    """Draw the pattern of a query.

    Vertices are attributes and edges are atoms. Dashed edges are negated or optional, and edges with dots on them are paths.
    An atom of three attributes or more is a box that is joined to them. Other conditions stand below.

    Examples:
        >>> bj.draw("house")
        Drawing('house')
        >>> bj.draw("q(a, b) := edge(a, b), not edge(b, a)").save("one-way.svg")

    Args:
        query: A name, a rule, a motif or Cypher. What a SELECT means depends on its tables: `graph.explain` draws it, and so
            does `bigjoin draw QUERY SOURCE`.
        undirected: Whether edges have no direction.
        **flags: `where`, `unique` and the like, which go with any query.
    """
    return drawn(read(query, **flags), undirected=undirected)


def drawn(statement: Statement, known: Statistics | None = None, *, undirected: bool = False) -> Drawing:
    """Return the picture of a statement; statistics tell which atoms are edges with names, and which have no direction."""
    if statement.unread is not None:
        raise QueryError(
            "what a SELECT means depends on its tables", hint="draw it with a source: bigjoin draw QUERY SOURCE, graph.explain"
        )
    figures = [_block(block, known, undirected=undirected) for block in statement.blocks[:MAX_BLOCKS]]
    figures = [figure if not i else _after("or", figure) for i, figure in enumerate(figures)]
    left = len(statement.blocks) - len(figures)
    told = [f"or {left} more patterns"] if left > 0 else []
    row = in_rows(figures, most=max(ROW_WIDTH, *(figure.width for figure in figures)), gap=34.0)
    return Drawing.of(stacked([row, lines_of_text(told, most=ROW_WIDTH, quiet=True)]), shown(title_of(statement), MAX_TITLE))


def title_of(statement: Statement) -> str:
    """Return what a picture of a statement is called."""
    return statement.text.strip() if statement.language == "name" else " ".join(statement.text.split())


def pattern_figure(query: Query, known: Statistics | None = None, *, undirected: bool = False) -> Figure:
    """Return the pattern of a query with the conditions below."""
    drawing = PatternDrawing(query, known, undirected)
    conditions = drawing.conditions()
    if len(conditions) > MAX_CONDITIONS:
        left = len(conditions) - MAX_CONDITIONS + 1
        conditions = [*conditions[: MAX_CONDITIONS - 1], f"and {left} more conditions"]
    below = lines_of_text(conditions, most=CONDITION_WIDTH, size=SMALL_SIZE, mono=True, quiet=True)
    return stacked([drawing.graph().figure(), below])


def _block(block: QueryBlock, known: Statistics | None, *, undirected: bool) -> Figure:
    """Return the pattern of a block, followed by those that decide about its matches."""
    figures = [pattern_figure(block.query, known, undirected=undirected)]
    for sub in block.subpatterns:
        figures.append(_after(_BESIDE[sub.kind], _block(sub.block, known, undirected=undirected)))
    return in_rows(figures, most=max(ROW_WIDTH, *(figure.width for figure in figures)), gap=30.0)


def _after(word: str, figure: Figure) -> Figure:
    return stacked([lines_of_text([word], most=ROW_WIDTH, size=FONT_SIZE, quiet=True), figure], gap=6.0)
