"""Matches to be drawn: the first that a search finds, with a value for every attribute, also those that the head leaves out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa

from bigjoin.drawing.draw import pattern_figure, title_of
from bigjoin.drawing.drawing import Drawing
from bigjoin.drawing.matches import FoundMatch, match_grid
from bigjoin.drawing.pattern import PatternDrawing
from bigjoin.errors import BigjoinError, QueryError, shown
from bigjoin.planner import all_branches
from bigjoin.query.expressions import Call, Expression, attributes_of
from bigjoin.query.query import Query
from bigjoin.query.statement import QueryBlock, RowStage, Statement
from bigjoin.query.statistics import Statistics
from bigjoin.query.terms import Property

MAX_DRAWN = 200
"""Matches that one picture can have."""

FindRows = Callable[[Query, int], pa.Table]
"""Gives the first rows of a query, at most so many."""


def check_drawable(statement: Statement, limit: int) -> None:
    """Refuse a statement whose matches are decided by more than its patterns, and pictures that nobody could look at."""
    if limit > MAX_DRAWN:
        raise BigjoinError(f"limit is {limit:,}; a picture shows at most {MAX_DRAWN} matches")
    subpatterns = any(block.subpatterns for block in statement.blocks)
    stages = (*statement.before, RowStage(grouping=statement.grouping))
    is_filtered = any(stage.where is not None or (stage.grouping and stage.grouping.having) for stage in stages)
    is_cut = any(stage.limit is not None or stage.skip for stage in statement.before)
    is_first = bool(statement.order) and statement.limit is not None and statement.language != "motif"
    if subpatterns or is_filtered or is_cut or is_first:
        what = statement.beyond_query or "this statement"
        raise QueryError(f"{what} decides about rows after they are found, so its matches are not drawn", hint="draw a rule")


def matches_drawn(statement: Statement, statistics: Callable[[Query], Statistics], find: FindRows, limit: int) -> Drawing:
    """Return the first matches of a statement as a picture: so many, or as many as there are."""
    check_drawable(statement, limit)
    most = limit if statement.limit is None else min(limit, statement.limit)
    found: list[FoundMatch] = []
    for block in statement.blocks:
        for match in _matches(block, statistics(block.query), find, most + 1 - len(found)):
            found.append(match)
    first = statement.blocks[0].query
    pattern = pattern_figure(first, statistics(first))
    return Drawing.of(match_grid(found[:most], pattern, told=_told(len(found), most)), shown(title_of(statement), 80))


def _told(found: int, most: int) -> str:
    """Say how many of the matches are drawn."""
    if found > most:
        return f"the first {most:,} matches that the search found" if most != 1 else "the first match that the search found"
    return {0: "no match", 1: "the only match", 2: "both matches"}.get(found, f"all {found:,} matches")


def _matches(block: QueryBlock, known: Statistics, find: FindRows, most: int) -> Iterator[FoundMatch]:
    """Give matches of each query that a block is the sum of, until there are enough."""
    for branch in all_branches(block.query, known):
        if most <= 0:
            return
        terms = _terms(branch, block.query)
        names = tuple(f"c{number}" for number in range(len(terms)))
        rows = find(replace(branch, head=terms, names=names, deduplicate=False), most)
        drawing = PatternDrawing(replace(branch, seeds=()), known)
        for row in rows.to_pylist():
            yield FoundMatch(drawing, dict(zip(terms, row.values(), strict=True)))
        most -= rows.num_rows


def _terms(branch: Query, given: Query) -> tuple[Expression, ...]:
    """Return what is found of a match: its attributes, computed columns, and the properties that the query names."""
    bound = set(branch.attributes)
    listed = [term for term in given.head if isinstance(term, Property | Call) and bound.issuperset(attributes_of(term))]
    tested = [term for f in branch.filters for term in f.properties if term.attribute in bound]
    named = (term for term in (*listed, *tested) if not (isinstance(term, Property) and term.name == "id"))
    return tuple(dict.fromkeys((*branch.attributes, *named)))
