"""GraphFrames' motif language by definition: term after term, from left to right, over lists. It imports nothing of ours.

The answer is a bag of homomorphisms. A vertex or an edge in a row is the tuple of its (column, value) pairs, so that two are
equal where GraphFrames' structs are; `_hop`, `_pattern` and `_direction` are plain values. What a union leaves open is None.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from string import ascii_letters, digits, whitespace

NAME = ascii_letters + digits + "_"


class MotifError(ValueError):
    """A motif that GraphFrames refuses."""


@dataclass(frozen=True)
class Term:
    """An edge between two vertices, or one vertex alone, which is its source. What is anonymous has an empty name."""

    source: str
    name: str = ""
    target: str = ""
    arrow: str = ""  # of an edge: ->, <-, <-> or -
    lengths: range | None = None  # of a path: (a)-[*2..3]->(b) has the lengths 2 and 3
    is_span: bool = False  # written as *m..n, not as *k
    is_negated: bool = False

    @property
    def vertices(self) -> list[str]:
        return [name for name in (self.source, self.target) if name]

    @property
    def names(self) -> list[str]:
        """The columns that the term has in the answer, in their order."""
        named = [name for name in (self.source, self.name, self.target) if name]
        return named + ["_pattern", "_direction"] * (self.arrow == "-")

    @property
    def reversed(self) -> Term:
        return replace(self, source=self.target, target=self.source)


def interpret(pattern: str, vertices: list[dict], edges: list[dict]) -> tuple[list[str], list[tuple]]:
    """The columns in GraphFrames' order and the bag of rows."""
    graph = _structs(vertices), _structs(edges)
    terms = parse(pattern)
    if any(map(_stands_alone, terms)):
        columns, rows = _every_length(terms[0], graph)
    else:
        columns, rows = _find(terms, graph)
    return columns, [tuple(row.get(column) for column in columns) for row in rows]


# Text to terms


class Reader:
    """A place in the text of a term; it steps over white space, and remembers that there was some."""

    def __init__(self, text: str):
        self.text = text
        self.place = 0
        self.has_spaces = False

    def rest(self) -> str:
        while self.place < len(self.text) and self.text[self.place] in whitespace:
            self.place += 1
            self.has_spaces = True
        return self.text[self.place :]

    def take(self, symbol: str) -> bool:
        is_there = self.rest().startswith(symbol)
        self.place += len(symbol) * is_there
        return is_there

    def expect(self, symbol: str) -> None:
        if not self.take(symbol):
            raise MotifError(f"{self.text!r}: {symbol} is missing before {self.rest()!r}")

    def word(self, letters: str) -> str:
        rest = self.rest()
        length = len(rest) - len(rest.lstrip(letters))
        self.place += length
        return rest[:length]

    def vertex(self) -> str:
        self.expect("(")
        name = self.word(NAME)
        self.expect(")")
        return name


def parse(pattern: str) -> list[Term]:
    """The terms as they are written; what follows the last of them may be empty."""
    texts = [text.strip(whitespace) for text in pattern.split(";")]
    while texts and not texts[-1]:
        texts.pop()
    terms = [_term(text) for text in texts]
    if any(map(_stands_alone, terms)) and pattern != texts[0]:
        raise MotifError(f"{pattern!r}: *m..n and an undirected *k are the whole motif, without any space")
    return terms


def _term(text: str) -> Term:
    reader = Reader(text)
    is_negated = reader.take("!")
    source = reader.vertex()
    if not reader.rest():
        if is_negated or not source:
            raise MotifError(f"{text!r}: a vertex alone has a name and no negation")
        return Term(source)
    left = reader.take("<-")
    if not left:
        reader.expect("-")
    reader.expect("[")
    name = reader.word(NAME)
    lengths, is_span = _lengths(reader) if reader.take("*") else (None, False)
    reader.expect("]")
    right = reader.take("->")
    if not right:
        reader.expect("-")
    target = reader.vertex()
    if reader.rest():
        raise MotifError(f"{text!r}: there is more than one edge")
    arrow = "<" * left + "-" + ">" * right
    term = Term(source, name, target, arrow, lengths, is_span, is_negated)
    if reader.has_spaces and (left or lengths):
        raise MotifError(f"{text!r}: white space is only for plain edges")
    if is_negated and (arrow == "<->" or _stands_alone(term)):
        raise MotifError(f"{text!r}: this cannot be negated")
    if is_span and left:
        raise MotifError(f"{text!r}: *m..n points to the right, or nowhere")
    return term


def _lengths(reader: Reader) -> tuple[range, bool]:
    low = high = reader.word(digits)
    is_span = reader.take("..")
    if is_span:
        high = reader.word(digits)
    if not low or not high or not 1 <= int(low) <= int(high):
        raise MotifError(f"{reader.text!r}: a path has a length of 1 or more")
    return range(int(low), int(high) + 1), is_span


def _stands_alone(term: Term) -> bool:
    return term.is_span or (term.lengths is not None and term.arrow == "-")


# Terms to plain terms: vertices, directed edges and undirected edges


def _plain(term: Term) -> list[Term]:
    if term.arrow == "<-":
        return _plain(replace(term.reversed, arrow="->"))
    if term.arrow == "<->":
        forth = replace(term, arrow="->")
        back = forth.reversed
        if term.name and not term.lengths:
            forth, back = replace(forth, name=f"{term.name}1"), replace(back, name=f"{term.name}2")
        return _plain(forth) + _plain(back)
    if term.lengths is None:
        return [term]
    (length,) = term.lengths
    prefix = f"_{term.source}{term.target}" if term.vertices else "__tmpv"
    path = [term.source, *(f"{prefix}{i}" for i in range(1, length)), term.target]
    return [
        Term(path[i], f"_{term.name}{i + 1}" if term.name else "", path[i + 1], "->", is_negated=term.is_negated)
        for i in range(length)
    ]


def _check(terms: list[Term]) -> None:
    vertices = {name for term in terms for name in term.vertices}
    edges = [term.name for term in terms if term.name]
    if any(not term.names or term.names == ["_pattern", "_direction"] for term in terms):
        raise MotifError("()-[]->() has no name at all")
    if any(term.is_negated and term.name for term in terms):
        raise MotifError("a negated edge has a name")
    if len(set(edges)) < len(edges):
        raise MotifError("two edges have one name")
    if vertices & set(edges):
        raise MotifError("a vertex and an edge have one name")
    if len({name.lower() for name in (*vertices, *edges)}) < len(vertices) + len(edges):
        raise MotifError("two names differ in their case only")


# Plain terms to rows, which are dictionaries from names to values


def _find(terms: list[Term], graph) -> tuple[list[str], list[dict]]:
    terms = [plain for term in terms for plain in _plain(term)]
    if not terms:
        return [], []
    _check(terms)
    positive = {name for term in terms if not term.is_negated for name in term.vertices}
    first = {name for term in terms if term.is_negated for name in term.vertices} - positive
    rows, known = [{}], {}
    for term in [*map(Term, sorted(first)), *terms]:
        if term.is_negated:
            if not known.keys() >= set(term.names):
                raise MotifError("a negation comes before what it needs")
            rows = _except(rows, _joined(rows, term, graph))
        else:
            rows = _joined(rows, term, graph)
            known |= dict.fromkeys(term.names)
    names = list(dict.fromkeys(name for term in terms for name in term.names))
    return [name for name in names if not name.startswith("__tmpv")] or names, rows


def _joined(rows: list[dict], term: Term, graph) -> list[dict]:
    """Every row with every match of a term that agrees with it."""
    vertices, edges = graph
    if not term.arrow:
        new = [{term.source: vertex} for vertex in vertices]
        return rows if rows and term.source in rows[0] else [row | more for row in rows for more in new]
    if term.arrow == "-":
        directed = replace(term, arrow="->")
        directions = {
            f"({term.source})<-[{term.name}]-({term.target})": ("in", directed.reversed),
            f"({term.source})-[{term.name}]->({term.target})": ("out", directed),
        }
        return [
            row | {"_pattern": pattern, "_direction": direction}
            for pattern, (direction, either) in directions.items()
            for row in _joined(rows, either, graph)
        ]
    return [
        at_target | ({term.name: edge} if term.name else {})
        for row in rows
        for edge in edges
        for at_source in _at_end(row, term.source, dict(edge)["src"], vertices)
        for at_target in _at_end(at_source, term.target, dict(edge)["dst"], vertices)
    ]


def _at_end(row: dict, name: str, value, vertices) -> list[dict]:
    """The rows in which the vertex of this name has the id that an edge wants; an anonymous vertex need not exist."""
    if not name:
        return [row]
    if name in row:
        return [row] if _equal(dict(row[name])["id"], value) else []
    return [row | {name: vertex} for vertex in vertices if _equal(dict(vertex)["id"], value)]


def _except(rows: list[dict], removed: list[dict]) -> list[dict]:
    """The rows that are not removed, each once."""
    gone = {frozenset(row.items()) for row in removed}
    kept = {frozenset(row.items()): row for row in rows}
    return [row for items, row in kept.items() if items not in gone]


def _every_length(term: Term, graph) -> tuple[list[str], list[dict]]:
    """The union of a path's lengths, the longest first, and of its directions."""
    left, right = f"({term.source})", f"({term.target})"
    columns, found = {}, []
    for direction in ("out", "in") if term.arrow == "-" else ("out",):
        for length in reversed(term.lengths):
            path = f"[{term.name}*{length}]"
            pattern = f"{left}-{path}->{right}" if direction == "out" else f"{left}<-{path}-{right}"
            more = {"_hop": length, "_pattern": pattern, "_direction": direction}
            names, rows = _find(parse(pattern), graph)
            columns |= dict.fromkeys([*names, *more])
            found += [row | more for row in rows]
    return list(columns), sorted(found, key=lambda row: (row["_hop"], row["_direction"]))


def _structs(rows: list[dict]) -> list[tuple]:
    columns = dict.fromkeys(column for row in rows for column in row)
    return [tuple((column, row.get(column)) for column in columns) for row in rows]


def _equal(left, right) -> bool:
    """Whether two ids are equal in SQL: NULL never is, and a number with a text reads the text as a number."""
    if left is None or right is None:
        return False
    if isinstance(left, str) != isinstance(right, str):
        left, right = int(left), int(right)
    return left == right
