"""The language of GraphFrames: motifs such as `(a)-[e]->(b); (b)-[]->(c); !(c)-[]->(a)`.

A motif is read strictly from left to right, as a bag: every row of the edges counts, named or not. A negated term keeps those
of the rows so far for which it does not hold, each once. So only what follows the last negated term multiplies rows; before
it an edge without a name, or an end without a name, only has to be there. Queries can say that: a pair instead of a row, a
view instead of a pair. What GraphFrames rewrites (arrows that point left, both ways or nowhere, several hops) is rewritten
first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count, product
from pathlib import Path
from typing import Any

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedInput, VisitError
from lark.tree import Meta

from bigjoin.errors import QueryError, Span
from bigjoin.query.operators import NOT_EQUAL
from bigjoin.query.query import Atom, Comparison, Pattern, Query
from bigjoin.query.statement import Block, Element, SortKey, Statement

MAX_HOPS = 64
"""Hops of a motif: every hop is an edge of the pattern."""

EXAMPLE = "(a)-[e]->(b); (b)-[]->(c); !(c)-[]->(a)"

_ANY = Pattern()
"""An edge of a motif: of the only relation, row by row where rows are kept."""
_PAIR = Pattern(rows=False)
"""The same where it only has to be there."""


@dataclass(frozen=True, slots=True)
class VertexTerm:
    """A vertex; its name is empty if it has none."""

    name: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class EdgeTerm:
    """An edge between two vertices; its name is empty if it has none."""

    src: VertexTerm
    name: str
    dst: VertexTerm
    negated: bool = False
    undirected: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def reversed(self) -> EdgeTerm:
        return replace(self, src=self.dst, dst=self.src)

    def arrow(self, direction: str) -> str:
        """Return the term as GraphFrames spells the direction that an undirected one took."""
        left, right = ("-", "->") if direction == "out" else ("<-", "-")
        return f"({self.src.name}){left}[{self.name}]{right}({self.dst.name})"


@dataclass(frozen=True, slots=True)
class Hops:
    """How many hops an edge stands for: `highest` is None if there is no `..`."""

    lowest: int | None
    highest: int | None
    ranged: bool
    span: Span


@dataclass(frozen=True, slots=True)
class WrittenEdge:
    """An edge as it is written."""

    left: VertexTerm
    name: str
    right: VertexTerm
    points: tuple[bool, bool]
    """Whether it has an arrow to the left, and to the right."""
    hops: Hops | None
    span: Span
    negated: bool = False


def is_motif(text: str) -> bool:
    """Tell whether a text looks like a motif rather than a rule: it begins with a vertex, or has arrows and no head."""
    if re.match(r"\s*[;!\s]*\(|\s*not\s*\(", text, re.IGNORECASE):
        return True
    return re.search(r":=|:-", text) is None and re.search(r"\]\s*->?|-\s*\[|\w\s*->\s*\w|\w\s*--", text) is not None


def parse(text: str, *, members: str | None = None, distinct_rows: str | None = None) -> Statement:
    """Return what a motif asks for.

    `members` is the relation of vertices that the ends of edges have to be in, if some may not be. `distinct_rows` is the
    relation to read named edges from where equal rows count once, if the edges have equal rows.
    """
    written = _written(text)
    scope = _Scope(text, members, distinct_rows)
    if len(written) == 1 and isinstance(written[0], WrittenEdge) and _is_walk(written[0]):
        return _walks(written[0], scope)
    terms = [term for one in written for term in _rewritten(one)]
    _check_names(terms)
    undirected = [term for term in terms if isinstance(term, EdgeTerm) and term.undirected]
    columns = _columns(terms)
    blocks = tuple(
        _directed(terms, undirected, choice, scope, columns) for choice in product(("in", "out"), repeat=len(undirected))
    )
    order = (SortKey("_direction"),) if undirected else ()
    return Statement("motif", text, blocks, columns=tuple(columns), order=order)


# Reading


@cache
def _grammar() -> Lark:
    grammar = Path(__file__).with_suffix(".lark").read_text(encoding="utf-8")
    return Lark(grammar, start="motif", parser="lalr", propagate_positions=True)


def _written(text: str) -> list[VertexTerm | WrittenEdge]:
    try:
        terms: list[VertexTerm | WrittenEdge] = _Build(text).transform(_grammar().parse(text))
    except UnexpectedInput as error:
        raise _syntax_error(text, error) from None
    except VisitError as error:
        raise error.orig_exc from None
    return terms


@v_args(meta=True)
class _Build(Transformer):  # type: ignore[misc]
    """Turn lark's tree into terms with spans."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def _span(self, at: Meta | Token) -> Span:
        return Span(self.text, at.start_pos, at.end_pos)

    def motif(self, _: Meta, terms: list[VertexTerm | WrittenEdge]) -> list[VertexTerm | WrittenEdge]:
        for term in terms:
            if isinstance(term, VertexTerm) and not term.name:
                raise QueryError("'()' alone says nothing", term.span, "name the vertex, as in (a), or leave it out")
        return terms

    def vertex(self, meta: Meta, names: list[Token]) -> VertexTerm:
        return VertexTerm(str(names[0]) if names else "", self._span(meta))

    def hops(self, meta: Meta, tokens: list[Token]) -> Hops:
        ranged = any(token.type == "DOTS" for token in tokens)
        dots = next((i for i, token in enumerate(tokens) if token.type == "DOTS"), len(tokens))
        low, high = tokens[:dots], tokens[dots + 1 :]
        return Hops(int(low[0]) if low else None, int(high[0]) if high else None, ranged, self._span(meta))

    def edge(self, meta: Meta, parts: list[Any]) -> WrittenEdge:
        vertices = [part for part in parts if isinstance(part, VertexTerm)]
        tokens = {part.type: str(part) for part in parts if isinstance(part, Token)}
        hops = next((part for part in parts if isinstance(part, Hops)), None)
        points = ("INWARD" in tokens, "OUTWARD" in tokens)
        return WrittenEdge(vertices[0], tokens.get("NAME", ""), vertices[1], points, hops, self._span(meta))

    def negated(self, meta: Meta, parts: list[Any]) -> WrittenEdge:
        edge: VertexTerm | WrittenEdge = parts[0]
        if isinstance(edge, VertexTerm):
            raise QueryError("a vertex cannot be negated", self._span(meta), "negate an edge, as in !(a)-[]->(b)")
        if edge.negated:
            raise QueryError("a term is negated twice", self._span(meta), "write ! once, or not at all")
        return replace(edge, negated=True, span=self._span(meta))


def _is_walk(edge: WrittenEdge) -> bool:
    """Tell whether a motif is one edge of several lengths, or of a length in either direction: a union of its own."""
    return edge.hops is not None and (edge.hops.ranged or not any(edge.points)) and not edge.negated and not edge.points[0]


def _walks(edge: WrittenEdge, scope: _Scope) -> Statement:
    """Return the walks of each length, the longest first, and of both directions if the edge has none."""
    assert edge.hops is not None
    low, high = _lengths(edge.hops)
    directions = ("out",) if edge.points[1] else ("out", "in")
    blocks, columns = [], dict[str, None]()
    for direction in directions:
        for hops in range(high, low - 1, -1):
            ends = (edge.left, edge.right) if direction == "out" else (edge.right, edge.left)
            terms: list[VertexTerm | EdgeTerm] = list(_chain(*ends, edge.name, hops, negated=False, span=edge.span))
            _check_names(terms)
            left, right = ("-", "->") if direction == "out" else ("<-", "-")
            spelled = f"({edge.left.name}){left}[{edge.name}*{hops}]{right}({edge.right.name})"
            constants = (("_hop", hops), ("_pattern", spelled), ("_direction", direction))
            block = _block(terms, (), scope, constants)
            blocks.append(block)
            shown = (element.name for element in block.elements if not element.hidden)
            columns |= dict.fromkeys((*shown, "_hop", "_pattern", "_direction"))
    return Statement("motif", scope.text, tuple(blocks), columns=tuple(columns), order=(SortKey("_hop"), SortKey("_direction")))


def _lengths(hops: Hops) -> tuple[int, int]:
    """Return the least and the most hops; refuse what has no bounds, or none in between."""
    low, high = hops.lowest, hops.highest if hops.ranged else hops.lowest
    if low is None or high is None:
        raise QueryError("an edge of several hops needs bounds", hops.span, "write *3, or *1..3 as the whole motif")
    if low < 1:
        raise QueryError("an edge has at least one hop", hops.span, "begin with 1")
    if high < low:
        raise QueryError(f"there is no number of hops from {low} to {high}", hops.span, f"write *{high}..{low}")
    if high > MAX_HOPS:
        raise QueryError(f"a motif can have at most {MAX_HOPS} hops", hops.span, f"write *{MAX_HOPS} or less")
    return low, high


def _rewritten(written: VertexTerm | WrittenEdge) -> Iterator[VertexTerm | EdgeTerm]:
    """Give the plain terms that a term stands for."""
    if isinstance(written, VertexTerm):
        yield written
        return
    name, hops, span, negated = written.name, written.hops, written.span, written.negated
    inward, outward = written.points
    if negated and name and hops is None:
        hint = "leave the name out, as in !(a)-[]->(b): an edge that is not there has no columns"
        raise QueryError("a negated edge cannot have a name", span, hint)
    if negated and inward == outward:
        hint = "negate each direction: !(a)-[]->(b); !(b)-[]->(a)"
        raise QueryError("a negated edge needs one direction", span, hint)
    if hops is not None and (hops.ranged or inward == outward):
        if hops.ranged:
            _lengths(hops)
            hint = "ask for each length by itself, as in -[e*2]->"
            raise QueryError("an edge of several lengths has to be the whole motif, and point right or nowhere", span, hint)
        if not inward:
            hint = "give the edge a direction, as in -[e*2]->"
            raise QueryError("several hops without a direction have to be the whole motif", span, hint)
    ends = [(written.right, written.left)] if inward and not outward else [(written.left, written.right)]
    if inward and outward:
        ends.append((written.right, written.left))
    for number, (src, dst) in enumerate(ends, 1):
        if hops is not None:
            low, _ = _lengths(hops)
            if negated and name:
                raise QueryError("negated edges cannot have names", span, "leave the name out")
            yield from _chain(src, dst, name, low, negated=negated, span=span)
        else:
            called = f"{name}{number}" if name and len(ends) == 2 else name
            yield EdgeTerm(src, called, dst, negated, undirected=not (inward or outward), span=span)


def _chain(src: VertexTerm, dst: VertexTerm, name: str, hops: int, *, negated: bool, span: Span) -> Iterator[EdgeTerm]:
    """Give the edges of a number of hops, with the names that GraphFrames gives them and what lies between."""
    between = (f"_{src.name}{dst.name}{i}" if src.name or dst.name else f"{_HIDDEN}{i}" for i in range(1, hops))
    stops = [src, *(VertexTerm(called, span) for called in between), dst]
    for i in range(hops):
        yield EdgeTerm(stops[i], f"_{name}{i + 1}" if name else "", stops[i + 1], negated, span=span)


_HIDDEN = "__tmpv"
"""The name of vertices between two that have none: they have to be vertices, and are no columns if anything else is."""


def _check_names(terms: list[VertexTerm | EdgeTerm]) -> None:
    """Refuse a name of two edges, or of a vertex and an edge, and a negated term before what binds its vertices."""
    edges = [term for term in terms if isinstance(term, EdgeTerm)]
    vertices = {v.name.casefold() for t in terms for v in (_ends(t) if isinstance(t, EdgeTerm) else (t,)) if v.name}
    seen: set[str] = set()
    spelled: dict[str, str] = {}
    for name in (name for t in terms for name in _names_in(t)):
        if spelled.setdefault(name.casefold(), name) != name:
            span = next(t.span for t in terms if name in _names_in(t))
            both = f"{spelled[name.casefold()]!r} and {name!r}"
            raise QueryError(f"the names {both} differ only in case, and columns do not tell that", span, "use other names")
    for term in edges:
        key = term.name.casefold()
        if not any(_names_in(term)):
            raise QueryError("an edge without any name says nothing", term.span, "name an end or the edge, as in ()-[e]->()")
        if key and key in vertices:
            raise QueryError(f"{term.name!r} is the name of a vertex and of an edge", term.span, "use two names")
        if key and key in seen:
            raise QueryError(f"two edges are called {term.name!r}", term.span, "give each edge a name of its own, or none")
        seen.add(key)
    positive = _named([term for term in terms if not (isinstance(term, EdgeTerm) and term.negated)])
    bound: set[str] = set()
    for each in terms:
        names = _named([each])
        if isinstance(each, EdgeTerm) and each.negated:
            if late := [name for key, name in names.items() if key in positive and key not in bound]:
                hint = "move the negated term behind the terms that have its vertices"
                raise QueryError(f"the negated term comes before {late[0]!r} is bound", each.span, hint)
        else:
            bound |= names.keys()


def _names_in(term: VertexTerm | EdgeTerm) -> tuple[str, ...]:
    names = (term.src.name, term.name, term.dst.name) if isinstance(term, EdgeTerm) else (term.name,)
    return tuple(name for name in names if name)


def _ends(term: EdgeTerm) -> tuple[VertexTerm, VertexTerm]:
    return term.src, term.dst


def _named(terms: list[VertexTerm | EdgeTerm]) -> dict[str, str]:
    """Return the named vertices of terms by their names in lower case, in the order in which they appear."""
    found: dict[str, str] = {}
    for term in terms:
        for vertex in _ends(term) if isinstance(term, EdgeTerm) else (term,):
            if vertex.name:
                found.setdefault(vertex.name.casefold(), vertex.name)
    return found


def _columns(terms: list[VertexTerm | EdgeTerm]) -> list[str]:
    """Return the columns of a result: names in the order in which they appear, an edge between its ends."""
    found: dict[str, str] = {}
    for term in terms:
        found |= {name.casefold(): name for name in _names_in(term) if name.casefold() not in found}
        if isinstance(term, EdgeTerm) and term.undirected:
            found |= {"_pattern": "_pattern", "_direction": "_direction"}
    return _shown(found.values())


def _shown(names: Iterable[str]) -> list[str]:
    """Return names without those of hidden vertices, unless there are no others."""
    every = list(names)
    return [name for name in every if not name.startswith(_HIDDEN)] or every


# Meaning


@dataclass(frozen=True, slots=True)
class _Scope:
    """The text of a motif, and what the caller says about the source."""

    text: str
    members: str | None
    distinct_rows: str | None


def _directed(
    terms: list[VertexTerm | EdgeTerm],
    undirected: list[EdgeTerm],
    choice: tuple[str, ...],
    scope: _Scope,
    columns: list[str],
) -> Block:
    """Return the rows for one choice of directions; the columns tell the direction of the last undirected term."""
    chosen = dict(zip(map(id, undirected), choice, strict=True))
    directed = [term.reversed if chosen.get(id(term)) == "in" else term for term in terms if isinstance(term, EdgeTerm)]
    edges = iter(directed)
    plain = [next(edges) if isinstance(term, EdgeTerm) else term for term in terms]
    constants: tuple[tuple[str, str | int], ...] = ()
    if undirected:
        constants = (("_pattern", undirected[-1].arrow(choice[-1])), ("_direction", choice[-1]))
    places = [i for i, term in enumerate(terms) if isinstance(term, EdgeTerm) and term.undirected]
    last = max((i for i, term in enumerate(terms) if isinstance(term, EdgeTerm) and term.negated), default=-1)
    before = [i for i in places if i < last]  # the columns tell the direction of the last of these when duplicates are removed
    again = tuple(i for i in before[:-1] if chosen[id(terms[i])] == "in")
    block = _block(plain, again, scope, constants)
    rank = {name.casefold(): i for i, name in enumerate(columns)}
    return replace(block, elements=tuple(sorted(block.elements, key=lambda e: rank.get(e.name.casefold(), len(rank)))))


def _block(
    terms: list[VertexTerm | EdgeTerm],
    again: tuple[int, ...],
    scope: _Scope,
    constants: tuple[tuple[str, str | int], ...],
) -> Block:
    """Return the query of terms whose edges point to the right.

    `again` are the terms whose other direction is read elsewhere and leaves no trace in the rows: where rows count once, they
    must not find what that has found.
    """
    negated = [i for i, term in enumerate(terms) if isinstance(term, EdgeTerm) and term.negated]
    last = negated[-1] if negated else -1
    fresh = (f"_{n}" for n in count(1))
    attributes = _attributes(terms)
    joined = {v.name.casefold() for t in terms if isinstance(t, EdgeTerm) and not t.negated for v in _ends(t)}
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

    for key, name in sorted(_named([t for t in terms if isinstance(t, EdgeTerm) and t.negated]).items(), key=lambda n: n[1]):
        if key not in _named([t for t in terms if not (isinstance(t, EdgeTerm) and t.negated)]):
            add_vertex(VertexTerm(name), -1)
    for place, term in enumerate(terms):
        if isinstance(term, VertexTerm):
            add_vertex(term, place)
            continue
        add_vertex(term.src, place)
        src, dst = (attributes[v.name.casefold()] if v.name else next(fresh) for v in _ends(term))
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
    return Block(query, elements=known, constants=constants)


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


def _attributes(terms: list[VertexTerm | EdgeTerm]) -> dict[str, str]:
    """Return the attribute of every name: the name itself, if a rule could have it."""
    edges = [term for term in terms if isinstance(term, EdgeTerm) and term.name]
    names = {**_named(terms), **{term.name.casefold(): term.name for term in edges}}
    found: dict[str, str] = {}
    for key, name in names.items():
        attribute = name if re.fullmatch(r"[A-Za-z]\w*", name) else f"v{name}"
        while attribute in found.values() or (attribute != name and attribute.casefold() in names):
            attribute = f"v{attribute}"
        found[key] = attribute
    return found


def _syntax_error(text: str, error: UnexpectedInput) -> QueryError:
    """Say what cannot be read, and what people mostly mean by it."""
    position = error.pos_in_stream if error.pos_in_stream is not None else len(text)
    token = getattr(error, "token", None)
    at_end = token is not None and token.type == "$END"
    start = len(text.rstrip()) if at_end else position
    width = 1 if at_end or token is None else len(token)
    what = "the text ends too early" if at_end else f"unexpected {text[start : start + width]!r}"
    return QueryError(f"the motif cannot be read: {what}", Span(text, start, start + max(1, width)), _hint(text, start))


def _hint(text: str, at: int) -> str:
    rest, before = text[at:], text[:at]
    term = re.split(r";", before)[-1] + re.split(r";", rest)[0]
    for pattern, hint in _SLIPS:
        if re.search(pattern, term if "^" not in pattern else text, re.IGNORECASE):
            return hint
    if re.match(r"\s*;", rest) and before.rstrip().endswith(";"):
        return "write one ';' between two terms"
    if rest.startswith(","):
        return "separate terms with ';'"
    if re.match(r"\s*[-<]", rest) and before.rstrip().endswith(")"):
        return "a term has one edge: write (a)-[]->(b); (b)-[]->(c)"
    if re.match(r"\s*\(", rest) and re.search(r";\s*;\s*$", before):
        return "write one ';' between two terms"
    if re.match(r"\s*\(", rest):
        return "separate terms with ';'"
    return f"for example {EXAMPLE}"


_SLIPS = (
    (r"^\s*;", "begin with a term, not with ';'"),
    (r"\{", 'motifs have no properties: filter the result, or write where="a.age > 30"'),
    (r":=|:-|\w\([^()]*,[^()]*\)", "this mixes a rule and a motif: write q(a, b) := edge(a, b), or (a)-[]->(b)"),
    (r"\w:\w|:\w", "motifs have no labels or types: use Cypher, MATCH (a:person)-[e:pays]->(b) RETURN a, or a rule"),
    (r"\breturn\b", "that is Cypher: begin with MATCH, as in MATCH (a)-[]->(b) RETURN a"),
    (r"\bwhere\b|\)\s*and\b|^[^;]*;[^;(]*\w\s*[<>=]+\s*\w", 'conditions are no terms: write where="a.age > b.age" (--where)'),
    (r"\w\s*(<|<=|>|>=|=|!=|<>)\s*\w", 'conditions are no terms: write where="a.age > b.age" (--where)'),
    (r"\bnot\b", "write ! before a term that must not hold, as in !(a)-[]->(b)"),
    (r"\(\s*\(", "leave out the parentheses around a term"),
    (r"-->|<--|\)\s*--\s*\(|\)\s*-\s*>?\s*\(|\)\s*<-\s*\(|-\w+-", "an edge has brackets: (a)-[]->(b)"),
    (r"^\s*\w+\s*\)|^[^();]*[\w\]]\s*<?-|->\s*\w|-\s*\w+\s*(;|$)|-\[[^]]*\]->?\s*\w", "a vertex has parentheses: (a)-[]->(b)"),
    (r"\[[^\]]*$", "a bracket is not closed: (a)-[e]->(b)"),
    (r"\([^)]*$", "a parenthesis is not closed: (a)-[e]->(b)"),
)
"""What people write instead of a motif, and what to tell them; with ^ in it, a pattern is about the whole text."""
