"""What motifs mean, on a graph of four vertices and five edges: the table that any engine for the language has to satisfy.

A row of an answer is written as its ids: a vertex as a digit, an edge as the digits of its ends, a point for what is missing; a
slash stands before other values.
"""

from __future__ import annotations

from dataclasses import dataclass, field

VERTICES = [{"id": number, "attr": "abcd"[number]} for number in range(4)]


def edge(ends: str, relationship: str) -> dict:
    return {"src": int(ends[0]), "dst": int(ends[1]), "relationship": relationship}


EDGES = [edge("01", "friend"), edge("10", "follow"), edge("12", "friend"), edge("23", "follow"), edge("20", "unknown")]
TRIPLES = "012 201 120"
NOT_ADJACENT = "00 02 03 11 13 21 22 30 31 32 33"
WITHOUT_AN_EDGE = "011 013 100 102 103 121 122 230 231 232 233 200 202 203"  # from the second to the third
WITHOUT_TWO_EDGES = "013 102 103 121 122 230 232 233 200 202 203"


@dataclass(frozen=True)
class Expected:
    """A motif and its answer: the columns, and the rows or how many there are. `only` keeps rows by the value of a vertex."""

    pattern: str
    columns: str
    rows: str | None = None
    count: int | None = None
    only: tuple[str, int] | None = None
    more_edges: list[dict] = field(default_factory=list)


def rows(pattern: str, columns: str, answer: str, **other) -> Expected:
    return Expected(pattern, columns, rows=answer, **other)


def count(pattern: str, columns: str, number: int) -> Expected:
    return Expected(pattern, columns, count=number)


TABLE = [
    rows("(a)", "a", "0 1 2 3"),
    rows("(a)-[]->(b);(b)-[]->(c);(c)-[]->(a)", "a b c", TRIPLES),
    rows("(u)-[]->(v)", "u v", "01 10 12 23 20"),
    rows("(u)-[uv]->(v)", "u uv v", "0011 1100 1122 2233 2200"),
    rows("(u)-[]->()", "u", "0 1 1 2 2"),
    rows("()-[uv]->()", "uv", "01 10 12 23 20"),
    rows("(a)-[]->(a)", "a", "1 3", more_edges=[edge("11", "loop"), edge("33", "loop")]),
    rows(
        "(a)-[]->(b)",
        "a b",
        "10 10 12 12",
        only=("a", 1),
        more_edges=[edge("10", "follow"), edge("12", "friend")],
    ),
    count("(a)-[]->(b);(c)-[]->(d)", "a b c d", 25),
    rows("(a)-[]->(b);!(b)-[]->(a)", "a b", "12 20 23"),
    rows("(a)-[]->(b);(b)-[]->(c);!(c)-[]->(a)", "a b c", "010 101 123"),
    rows("(a)-[]->(b);!(b)-[]->(c)", "a b c", WITHOUT_AN_EDGE),
    rows("(a)-[]->(b);!(b)-[]->()", "a b", "23"),
    count("(a)-[]->(b);!(c)-[]->(d)", "a b c d", 5 * 11),
    rows("(a)-[]->(b);!(b)-[]->(c);!(c)-[]->(a)", "a b c", WITHOUT_TWO_EDGES),
    rows("!(v)-[]->()", "v", "3"),
    rows("!(u)-[]->(v)", "u v", NOT_ADJACENT),
    rows("()-[e]->(v);!(v)-[]->()", "e v", "233"),
    rows("(u)-[e*3]->(v)", "u _e1 _uv1 _e2 _uv2 _e3 v", "0011122200 0011122233 0011100011", only=("u", 0)),
    rows("(u)-[*3]->(v)", "u _uv1 _uv2 v", "0120 0123 0101", only=("u", 0)),
    rows("(u)-[]-(v)", "u v _pattern _direction", "01/(u)-[]->(v)/out 01/(u)<-[]-(v)/in 02/(u)<-[]-(v)/in", only=("u", 0)),
    rows(
        "(u)-[e]-(v)",
        "u e v _pattern _direction",
        "0011/(u)-[e]->(v)/out 0101/(u)<-[e]-(v)/in 0202/(u)<-[e]-(v)/in",
        only=("u", 0),
    ),
    rows(
        "(u)-[*2..3]->(v)",
        "u _uv1 _uv2 v _hop _pattern _direction",
        "01.0/2/(u)-[*2]->(v)/out 01.2/2/(u)-[*2]->(v)/out "
        "0120/3/(u)-[*3]->(v)/out 0123/3/(u)-[*3]->(v)/out 0101/3/(u)-[*3]->(v)/out",
        only=("u", 0),
    ),
    rows(
        "(u)-[*2]-(v)",
        "u _uv1 v _hop _pattern _direction _vu1",
        "3.1/2/(u)<-[*2]-(v)/in2",
        only=("u", 3),
    ),
]

# Motifs that mean the same: equal columns and rows.
SAME = [
    ("(a)<-[e]-(b)", "(b)-[e]->(a)"),
    ("(a)<-[e]->(b)", "(a)-[e1]->(b);(b)-[e2]->(a)"),
    ("(a)<-[]->(b)", "(a)-[]->(b);(b)-[]->(a)"),
    ("(a)<-[*2]->(b)", "(a)-[*2]->(b);(b)-[*2]->(a)"),
    ("(a)<-[e*2]-(b)", "(b)-[_e1]->(_ba1);(_ba1)-[_e2]->(a)"),
    ("(a)-[*2]->(b);(b)-[]->(c)", "(a)-[]->(_ab1);(_ab1)-[]->(b);(b)-[]->(c)"),
    ("(a)-[*2]->()", "(a)-[]->(_a1);(_a1)-[]->()"),
    ("(a)-[e*1]->(b)", "(a)-[_e1]->(b)"),
    ("!(a)-[*2]->(b)", "!(a)-[]->(_ab1);!(_ab1)-[]->(b)"),
    (" ( a ) - [ e ] -> ( b ) ; ( c ) ; ", "(a)-[e]->(b);(c)"),
    ("(u)-[e*3]-(v)", "(u)-[e*3..3]-(v)"),
]

EMPTY = ["", " ", ";", ";;", " ; "]  # neither columns nor rows

ERRORS = [
    # nothing has a name
    *(
        "()",
        "!()",
        "()-[]->()",
        "!()-[]->()",
        "()-[]-()",
        "!()-[]-()",
        "()<-[]-()",
        "()<-[]->()",
        "()-[*1]->()",
        "()-[*1..2]->()",
    ),
    # negations
    *("!(a)", "!!(a)-[]->(b)", "(a);!(a)-[e]->()", "(a);(b);!(a)<-[]->(b)", "(a);(b);!(a)-[e*2]->(b)"),
    *("!(a)-[]->(b);(a)-[]->(b)", "(a)-[]->(b);!(b)-[]->(c);(c)-[]->(a)", "(a)-[]->(b);!(a)-[]-(b)"),
    *("!(a)-[]-(b)", "(a)-[]-(b);!(a)-[e]-(b)", "(a);!(a)-[]-();(a)-[]-()"),
    # names
    *(
        "(a)-[e]->(b);(b)-[e]->(c)",
        "(a)-[a]->(b)",
        "(a)-[]->(b);(c)-[a]->(d)",
        "(a)-[e]->(b);(e)",
        "(a)-[]->(A)",
        "(a)-[A]->()",
    ),
    *("(a)<-[e]->(b);(a)-[e1]->(b)", "(a)<-[e*2]->(b)", "(a)-[e*2]->(b);(_e1)"),
    # lengths
    *("(a)-[*0]->(b)", "(a)-[*]->(b)", "(a)-[*..5]->(b)", "(a)-[*2..]->(b)", "(a)-[*3..1]->(b)", "(a)-[*0..1]->(b)"),
    *("(a)-[*]-(b)", "(a)-[*0]-(b)", "(a)-[*3..1]-(b)", "(a)<-[*1..2]-(b)", "(a)<-[*1..2]->(b)", "!(a)-[*1..2]->(b)"),
    *("(a)-[*2]-(b);(b)", "(a)-[*1..2]->(b);", " (a)-[*1..2]->(b)", "(a)-[*1..2]->(b);(c)", "!(a)-[*2]-(b)"),
    # spelling
    *(
        ";(a)",
        "(a);;(b)",
        "(a),(b)",
        "(a)-->(b)",
        "(a)-[]->(b)-[]->(c)",
        "(a:A)",
        "(a)-[:e]->(b)",
        "(a b)",
        "a",
        "(a",
        "(a)-[e]",
    ),
    *("(a) <-[e]- (b)", "(a)<- [e]->(b)", "(a)-[ e*2]->(b)", "(a)-[]- >(b)", "(é)", "(a)(b)", "(a)-[]->", "(a)<-[e]"),
]


def written(row) -> str:
    """A row of an answer as the table writes it; vertices and edges are dictionaries here."""
    texts = []
    for cell in row:
        if isinstance(cell, dict):
            texts.append("".join(str(cell[name]) for name in ("id", "src", "dst") if name in cell))
        else:
            texts.append("." if cell is None else f"/{cell}")
    return "".join(texts)
