"""The language of GraphFrames: motifs such as `(a)-[e]->(b); (b)-[]->(c); !(c)-[]->(a)`.

A motif is read strictly from left to right, as a bag: every row of the edges counts, named or not. A negated term keeps those
of the rows so far for which it does not hold, each once. So only what follows the last negated term multiplies rows; before
it an edge without a name, or an end without a name, only has to be there. Queries can say that: a pair instead of a row, a
view instead of a pair. What GraphFrames rewrites (arrows that point left, both ways or nowhere, several hops) is rewritten
first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count, product
from math import prod

from bigjoin.errors import QueryError
from bigjoin.languages.motif_terms import (
    HIDDEN,
    Constants,
    EdgeTerm,
    Terms,
    VertexTerm,
    WrittenEdge,
    check_names,
    ends_of,
    is_walk,
    named_vertices,
    names_in,
    ways,
    written_terms,
)
from bigjoin.query.operators import NOT_EQUAL
from bigjoin.query.query import Atom, Comparison, Pattern, Query
from bigjoin.query.spelled_out import MAX_CHOICES
from bigjoin.query.statement import Element, QueryBlock, SortKey, Statement

_ANY = Pattern()
"""An edge of a motif: of the only relation, row by row where rows are kept."""
_PAIR = Pattern(rows=False)
"""The same where it only has to be there."""


def parse(text: str, *, members: str | None = None, distinct_rows: str | None = None) -> Statement:
    """Return what a motif asks for.

    `members` is the relation of vertices that the ends of edges have to be in, if some may not be. `distinct_rows` is the
    relation to read named edges from where equal rows count once, if the edges have equal rows.
    """
    written = written_terms(text)
    scope = _Scope(text, members, distinct_rows)
    _check_directions(written)
    walks = [one for one in written if is_walk(one)]
    choices = [list(ways(one)) for one in written]
    if (number := prod(map(len, choices))) > MAX_CHOICES:
        message = f"edges of several lengths make this motif a sum of {number:,}; at most {MAX_CHOICES} are planned"
        raise QueryError(message, walks[-1].span, "give fewer lengths")
    blocks: list[QueryBlock] = []
    columns: dict[str, None] = {}
    for choice in product(*choices):
        terms = [term for part, _ in choice for term in part]
        check_names(terms)
        undirected = [place for place, term in enumerate(terms) if isinstance(term, EdgeTerm) and term.undirected]
        names = _columns(terms)
        columns |= dict.fromkeys([*names, *(("_hop", "_pattern", "_direction") if walks else ())])
        for directions in product(("in", "out"), repeat=len(undirected)):
            block = _directed(terms, dict(zip(undirected, directions, strict=True)), scope, names)
            blocks.append(replace(block, constants=_told(choice, block.constants)) if walks else block)
    order = (SortKey("_direction"),) if "_direction" in columns else ()
    order = (SortKey("_hop"), *order) if walks and len(written) == 1 else () if walks else order
    return Statement("motif", text, tuple(blocks), columns=tuple(columns), order=order)


def _check_directions(written: Sequence[VertexTerm | WrittenEdge]) -> None:
    """Refuse what would have to remove rows that are equal but for directions that no column tells."""
    edges = [one for one in written if isinstance(one, WrittenEdge)]
    last = max((place for place, edge in enumerate(edges) if edge.negated), default=-1)
    either = [edge for edge in edges[: last + 1] if not any(edge.points) and not edge.negated]
    if len(either) > 1 and any(map(is_walk, either)):
        hint = "give all but one of them a direction, as in -[*2]->"
        raise QueryError(
            "several edges without a direction, one of several hops, come before a negated term", either[0].span, hint
        )


@dataclass(frozen=True, slots=True)
class _Scope:
    """The text of a motif, and what the caller says about the source."""

    text: str
    members: str | None
    distinct_rows: str | None


def _told(choice: Sequence[tuple[Terms, Constants]], of_direction: Constants) -> Constants:
    """Return what columns tell of the last edge of several lengths, or of a plain one without a direction that follows it."""
    last = max(place for place, (_, constants) in enumerate(choice) if constants)
    after = [term for terms, _ in choice[last + 1 :] for term in terms]
    follows = any(isinstance(term, EdgeTerm) and term.undirected for term in after)
    return tuple({**dict(choice[last][1]), **(dict(of_direction) if follows else {})}.items())


def _directed(terms: Terms, chosen: dict[int, str], scope: _Scope, columns: list[str]) -> QueryBlock:
    """Return the rows for the directions chosen for terms, by place; the columns tell that of the last undirected term."""
    plain: Terms = []
    constants: Constants = ()
    for place, term in enumerate(terms):
        direction = chosen.get(place)
        if direction is not None and isinstance(term, EdgeTerm):
            constants = (("_pattern", term.arrow(direction)), ("_direction", direction))
        plain.append(term.reversed if direction == "in" and isinstance(term, EdgeTerm) else term)
    last = max((place for place, term in enumerate(terms) if isinstance(term, EdgeTerm) and term.negated), default=-1)
    before = [place for place in chosen if place < last]  # where duplicates are removed, the columns tell the last of these
    again = tuple(place for place in before[:-1] if chosen[place] == "in")
    block = _block(plain, again, scope, constants)
    rank = {name.casefold(): i for i, name in enumerate(columns)}
    return replace(block, elements=tuple(sorted(block.elements, key=lambda e: rank.get(e.name.casefold(), len(rank)))))


def _block(
    terms: Terms,
    again: tuple[int, ...],
    scope: _Scope,
    constants: Constants,
) -> QueryBlock:
    """Return the query of terms whose edges point to the right.

    `again` are the terms whose other direction is read elsewhere and leaves no trace in the rows: where rows count once, they
    must not find what that has found.
    """
    negated = [i for i, term in enumerate(terms) if isinstance(term, EdgeTerm) and term.negated]
    last = negated[-1] if negated else -1
    fresh = (f"_{n}" for n in count(1))
    attributes = _attributes(terms)
    joined = {v.name.casefold() for t in terms if isinstance(t, EdgeTerm) and not t.negated for v in ends_of(t)}
    atoms: list[Atom] = []
    filters: list[Comparison] = []
    elements: dict[str, Element] = {}

    def add_vertex(vertex: VertexTerm, place: int) -> None:
        key = vertex.name.casefold()
        if not key or key in elements:
            return
        attribute = attributes[key]
        elements[key] = Element(vertex.name, attribute, distinct=place < last)
        if key not in joined or scope.members is not None:
            pattern = None if scope.members is not None else Pattern(("vertex",))
            atoms.append(Atom(scope.members or "vertex", (attribute,), pattern=pattern, span=vertex.span))

    positive = named_vertices([term for place, term in enumerate(terms) if place not in negated])
    denied = named_vertices([terms[place] for place in negated])
    for name in sorted(name for key, name in denied.items() if key not in positive):
        add_vertex(VertexTerm(name), -1)
    for place, term in enumerate(terms):
        if isinstance(term, VertexTerm):
            add_vertex(term, place)
            continue
        add_vertex(term.src, place)
        src, dst = (attributes[v.name.casefold()] if v.name else next(fresh) for v in ends_of(term))
        ends = (src, dst)
        if term.name:
            elements[term.name.casefold()] = Element(term.name, attributes[term.name.casefold()], ends, distinct=place < last)
        add_vertex(term.dst, place)
        once = place < last and not term.negated
        atoms.append(_edge(term, ends, attributes, scope, once=once))
        if place in again and once and term.name:
            filters.append(Comparison(ends[0], NOT_EQUAL.text, ends[1], span=term.span))
        elif place in again and once:
            atoms.append(_edge(replace(term.reversed, negated=True), (dst, src), attributes, scope, once=False))
    names = _shown(element.name for element in elements.values())
    known = tuple(replace(element, hidden=element.name not in names) for element in elements.values())
    head = tuple(element.attribute for element in known if not element.hidden)
    query = Query("motif", head, tuple(atoms), tuple(filters), cross_product=True)
    return QueryBlock(query, elements=known, constants=constants)


def _edge(term: EdgeTerm, ends: tuple[str, str], attributes: dict[str, str], scope: _Scope, *, once: bool) -> Atom:
    """Return the atom of an edge; where rows count once, an edge without a name only has to be there."""
    if term.negated:
        return Atom("edge", ends, negated=True, pattern=_PAIR, span=term.span)
    if term.name:
        relation = scope.distinct_rows if once else None
        pattern = _ANY if relation is None else None
        return Atom(relation or "edge", (*ends, attributes[term.name.casefold()]), pattern=pattern, span=term.span)
    if not once:
        return Atom("edge", ends, pattern=_ANY, span=term.span)
    if term.src.name and term.dst.name:
        return Atom("edge", ends, pattern=_PAIR, span=term.span)
    column, end = ("src", ends[0]) if term.src.name else ("dst", ends[1])
    return Atom("edge", (end,), columns=(column,), pattern=_PAIR, span=term.span)


def _attributes(terms: Terms) -> dict[str, str]:
    """Return the attribute of every name: the name itself, if a rule could have it."""
    edges = [term for term in terms if isinstance(term, EdgeTerm) and term.name]
    names = {**named_vertices(terms), **{term.name.casefold(): term.name for term in edges}}
    found: dict[str, str] = {}
    for key, name in names.items():
        attribute = name if re.fullmatch(r"[A-Za-z]\w*", name) else f"v{name}"
        while attribute in found.values() or (attribute != name and attribute.casefold() in names):
            attribute = f"v{attribute}"
        found[key] = attribute
    return found


def _columns(terms: Terms) -> list[str]:
    """Return the columns of a result: names in the order in which they appear, an edge between its ends."""
    found: dict[str, str] = {}
    for term in terms:
        found |= {name.casefold(): name for name in names_in(term) if name.casefold() not in found}
        if isinstance(term, EdgeTerm) and term.undirected:
            found |= {"_pattern": "_pattern", "_direction": "_direction"}
    return _shown(found.values())


def _shown(names: Iterable[str]) -> list[str]:
    """Return names without those of hidden vertices, unless there are no others."""
    every = list(names)
    return [name for name in every if not name.startswith(HIDDEN)] or every
