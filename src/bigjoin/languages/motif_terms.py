"""The text of a motif becomes terms that point to the right, each an edge or a vertex; what cannot be read gets a hint."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedInput, VisitError
from lark.tree import Meta

from bigjoin.errors import QueryError, Span
from bigjoin.query.paths import MAX_HOPS

MOTIF_EXAMPLE = "(a)-[e]->(b); (b)-[]->(c); !(c)-[]->(a)"


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
class WrittenHops:
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
    hops: WrittenHops | None
    span: Span
    negated: bool = False


Terms: TypeAlias = list[VertexTerm | EdgeTerm]
"""A motif whose edges point to the right."""

Constants: TypeAlias = tuple[tuple[str, str | int], ...]
"""Columns that have one value, by name."""


def is_motif(text: str) -> bool:
    """Tell whether a text looks like a motif rather than a rule: it begins with a vertex, or has arrows and no head."""
    if re.match(r"\s*[;!\s]*\(|\s*not\s*\(", text, re.IGNORECASE):
        return True
    return re.search(r":=|:-", text) is None and re.search(r"\]\s*->?|-\s*\[|\w\s*->\s*\w|\w\s*--", text) is not None


@cache
def _grammar() -> Lark:
    grammar = Path(__file__).with_name("motif.lark").read_text(encoding="utf-8")
    return Lark(grammar, start="motif", parser="lalr", propagate_positions=True)


def written_terms(text: str) -> list[VertexTerm | WrittenEdge]:
    """Return the terms of a motif as they are written; raise QueryError if it cannot be read."""
    try:
        terms: list[VertexTerm | WrittenEdge] = _BuildTerms(text).transform(_grammar().parse(text))
    except UnexpectedInput as error:
        raise _syntax_error(text, error) from None
    except VisitError as error:
        raise error.orig_exc from None
    return terms


@v_args(meta=True)
class _BuildTerms(Transformer):  # type: ignore[misc]
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

    def hops(self, meta: Meta, tokens: list[Token]) -> WrittenHops:
        ranged = any(token.type == "DOTS" for token in tokens)
        dots = next((i for i, token in enumerate(tokens) if token.type == "DOTS"), len(tokens))
        low, high = tokens[:dots], tokens[dots + 1 :]
        return WrittenHops(int(low[0]) if low else None, int(high[0]) if high else None, ranged, self._span(meta))

    def edge(self, meta: Meta, parts: list[Any]) -> WrittenEdge:
        vertices = [part for part in parts if isinstance(part, VertexTerm)]
        tokens = {part.type: str(part) for part in parts if isinstance(part, Token)}
        hops = next((part for part in parts if isinstance(part, WrittenHops)), None)
        points = ("INWARD" in tokens, "OUTWARD" in tokens)
        return WrittenEdge(vertices[0], tokens.get("NAME", ""), vertices[1], points, hops, self._span(meta))

    def negated(self, meta: Meta, parts: list[Any]) -> WrittenEdge:
        edge: VertexTerm | WrittenEdge = parts[0]
        if isinstance(edge, VertexTerm):
            raise QueryError("a vertex cannot be negated", self._span(meta), "negate an edge, as in !(a)-[]->(b)")
        if edge.negated:
            raise QueryError("a term is negated twice", self._span(meta), "write ! once, or not at all")
        return replace(edge, negated=True, span=self._span(meta))


def is_walk(edge: VertexTerm | WrittenEdge) -> bool:
    """Tell whether a term is an edge of several lengths, or of several hops in either direction: there are ways to read it."""
    if isinstance(edge, VertexTerm) or edge.hops is None or edge.negated:
        return False
    return not all(edge.points) if edge.hops.ranged else not any(edge.points)


def ways(written: VertexTerm | WrittenEdge) -> Iterator[tuple[Terms, Constants]]:
    """Give the plain terms that a term may stand for, the longest first, and the columns that tell which of them it is."""
    if isinstance(written, VertexTerm) or not is_walk(written):
        yield list(rewritten(written)), ()
        return
    assert written.hops is not None
    low, high = lengths(written.hops)
    directions = {(True, False): ("in",), (False, True): ("out",)}.get(written.points, ("out", "in"))
    for direction in directions:
        src, dst = (written.left, written.right) if direction == "out" else (written.right, written.left)
        left, right = ("-", "->") if direction == "out" else ("<-", "-")
        for hops in range(high, low - 1, -1):
            spelled = f"({written.left.name}){left}[{written.name}*{hops}]{right}({written.right.name})"
            terms: Terms = list(chain(src, dst, written.name, hops, negated=False, span=written.span))
            yield terms, (("_hop", hops), ("_pattern", spelled), ("_direction", direction))


def lengths(hops: WrittenHops) -> tuple[int, int]:
    """Return the least and the most hops; refuse what has no bounds, or none in between."""
    low, high = hops.lowest, hops.highest if hops.ranged else hops.lowest
    if low is None or high is None:
        raise QueryError("an edge of several hops needs bounds", hops.span, "write *3, or *1..3")
    if low < 1:
        raise QueryError("an edge has at least one hop", hops.span, "begin with 1")
    if high < low:
        raise QueryError(f"there is no number of hops from {low} to {high}", hops.span, f"write *{high}..{low}")
    if high > MAX_HOPS:
        raise QueryError(f"a motif can have at most {MAX_HOPS} hops", hops.span, f"write *{MAX_HOPS} or less")
    return low, high


def rewritten(written: VertexTerm | WrittenEdge) -> Iterator[VertexTerm | EdgeTerm]:
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
    if hops is not None and hops.ranged:
        lengths(hops)
        hint = "ask for each length by itself, as in -[e*2]->"
        raise QueryError("an edge of several lengths cannot be negated, nor point both ways", span, hint)
    ends = [(written.right, written.left)] if inward and not outward else [(written.left, written.right)]
    if inward and outward:
        ends.append((written.right, written.left))
    for number, (src, dst) in enumerate(ends, 1):
        if hops is not None:
            low, _ = lengths(hops)
            if negated and name:
                raise QueryError("negated edges cannot have names", span, "leave the name out")
            yield from chain(src, dst, name, low, negated=negated, span=span)
        else:
            called = f"{name}{number}" if name and len(ends) == 2 else name
            yield EdgeTerm(src, called, dst, negated, undirected=not (inward or outward), span=span)


def chain(src: VertexTerm, dst: VertexTerm, name: str, hops: int, *, negated: bool, span: Span) -> Iterator[EdgeTerm]:
    """Give the edges of a number of hops, with the names that GraphFrames gives them and what lies between."""
    between = (f"_{src.name}{dst.name}{i}" if src.name or dst.name else f"{HIDDEN}{i}" for i in range(1, hops))
    stops = [src, *(VertexTerm(called, span) for called in between), dst]
    for i in range(hops):
        yield EdgeTerm(stops[i], f"_{name}{i + 1}" if name else "", stops[i + 1], negated, span=span)


HIDDEN = "__tmpv"
"""The name of vertices between two that have none: they have to be vertices, and are no columns if anything else is."""


def check_names(terms: Terms) -> None:
    """Refuse a name of two edges, or of a vertex and an edge, and a negated term before what binds its vertices."""
    edges = [term for term in terms if isinstance(term, EdgeTerm)]
    vertices = {v.name.casefold() for t in terms for v in (ends_of(t) if isinstance(t, EdgeTerm) else (t,)) if v.name}
    seen: set[str] = set()
    spelled: dict[str, str] = {}
    for name in (name for t in terms for name in names_in(t)):
        if spelled.setdefault(name.casefold(), name) != name:
            span = next(t.span for t in terms if name in names_in(t))
            both = f"{spelled[name.casefold()]!r} and {name!r}"
            raise QueryError(f"the names {both} differ only in case, and columns do not tell that", span, "use other names")
    for term in edges:
        key = term.name.casefold()
        if not any(names_in(term)):
            raise QueryError("an edge without any name says nothing", term.span, "name an end or the edge, as in ()-[e]->()")
        if key and key in vertices:
            raise QueryError(f"{term.name!r} is the name of a vertex and of an edge", term.span, "use two names")
        if key and key in seen:
            raise QueryError(f"two edges are called {term.name!r}", term.span, "give each edge a name of its own, or none")
        seen.add(key)
    positive = named_vertices([term for term in terms if not (isinstance(term, EdgeTerm) and term.negated)])
    bound: set[str] = set()
    for each in terms:
        names = named_vertices([each])
        if isinstance(each, EdgeTerm) and each.negated:
            if late := [name for key, name in names.items() if key in positive and key not in bound]:
                hint = "move the negated term behind the terms that have its vertices"
                raise QueryError(f"the negated term comes before {late[0]!r} is bound", each.span, hint)
        else:
            bound |= names.keys()


def names_in(term: VertexTerm | EdgeTerm) -> tuple[str, ...]:
    """Return the names in a term, an edge between its ends."""
    names = (term.src.name, term.name, term.dst.name) if isinstance(term, EdgeTerm) else (term.name,)
    return tuple(name for name in names if name)


def ends_of(term: EdgeTerm) -> tuple[VertexTerm, VertexTerm]:
    """Return both vertices of an edge."""
    return term.src, term.dst


def named_vertices(terms: Terms) -> dict[str, str]:
    """Return the named vertices of terms by their names in lower case, in the order in which they appear."""
    found: dict[str, str] = {}
    for term in terms:
        for vertex in ends_of(term) if isinstance(term, EdgeTerm) else (term,):
            if vertex.name:
                found.setdefault(vertex.name.casefold(), vertex.name)
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
    return f"for example {MOTIF_EXAMPLE}"


_SLIPS = (
    (r"^\s*;", "begin with a term, not with ';'"),
    (r"\{", 'motifs have no properties: filter the result, or write where="a.age > 30"'),
    (r":=|:-|\w\([^()]*,[^()]*\)", "this mixes a rule and a motif: write q(a, b) := edge(a, b), or (a)-[]->(b)"),
    (r"\w:\w|:\w", "motifs have no labels or types: use Cypher, MATCH (a:person)-[e:pays]->(b) RETURN a, or a rule"),
    (r"\breturn\b", "that is Cypher: begin with MATCH, as in MATCH (a)-[]->(b) RETURN a"),
    (r"\bwhere\b|\)\s*and\b|^[^;]*;[^;(]*\w\s*[<>=]+\s*\w", 'a motif has no conditions: write where="a.age > b.age" (--where)'),
    (r"\w\s*(<|<=|>|>=|=|!=|<>)\s*\w", 'a motif has no conditions: write where="a.age > b.age" (--where)'),
    (r"\bnot\b", "write ! before a term that must not hold, as in !(a)-[]->(b)"),
    (r"\(\s*\(", "leave out the parentheses around a term"),
    (r"-->|<--|\)\s*--\s*\(|\)\s*-\s*>?\s*\(|\)\s*<-\s*\(|-\w+-", "an edge has brackets: (a)-[]->(b)"),
    (r"^\s*\w+\s*\)|^[^();]*[\w\]]\s*<?-|->\s*\w|-\s*\w+\s*(;|$)|-\[[^]]*\]->?\s*\w", "a vertex has parentheses: (a)-[]->(b)"),
    (r"\[[^\]]*$", "a bracket is not closed: (a)-[e]->(b)"),
    (r"\([^)]*$", "a parenthesis is not closed: (a)-[e]->(b)"),
)
"""What people write instead of a motif, and what to tell them; with ^ in it, a pattern is about the whole text."""
