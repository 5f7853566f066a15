"""The motifs of the suites: a few that are timed, by name, and many whose rows are compared."""

from __future__ import annotations

READ, COUNTED = "rows", "count"
"""What is done with the matches: every column of every row is written to Spark's `noop`, or rows are counted."""

TIMED: dict[str, str] = {
    "triangle": "(a)-[]->(b); (b)-[]->(c); (a)-[]->(c)",
    "cyclic triangle": "(a)-[]->(b); (b)-[]->(c); (c)-[]->(a)",
    "4-cycle": "(a)-[]->(b); (b)-[]->(c); (c)-[]->(d); (d)-[]->(a)",
    "diamond": "(a)-[]->(b); (b)-[]->(c); (a)-[]->(d); (d)-[]->(c)",
    "chordal 4-cycle": "(a)-[]->(b); (b)-[]->(c); (c)-[]->(d); (d)-[]->(a); (a)-[]->(c)",
    "4-clique": "(a)-[]->(b); (a)-[]->(c); (a)-[]->(d); (b)-[]->(c); (b)-[]->(d); (c)-[]->(d)",
    "tailed triangle": "(a)-[]->(b); (b)-[]->(c); (c)-[]->(a); (c)-[]->(d)",
}
"""Name -> motif; all but the triangles have four vertices."""

COMPARED: tuple[str, ...] = (
    "(a)",
    "(a)-[]->(b)",
    "(a)-[e]->(b)",
    "(a)-[]->(a)",
    "(a)-[]->()",
    "()-[e]->()",
    "()-[e]->(b); (b)-[]->()",
    "(a)<-[e]-(b)",
    "(a)<-[e]->(b)",
    "(a)-[e]->(b); (b)-[f]->(c)",
    "(a)-[]->(b); (a)-[]->(c); (a)-[]->(d)",
    "(a)-[]->(b); (b)-[]->(c); (a)-[]->(c)",
    "(a)-[e]->(b); (b)-[f]->(c); (c)-[g]->(a)",
    "(a)<-[]->(b); (b)<-[]->(c); (c)<-[]->(a)",
    "(a)-[]->(b); (b)-[]->(c); (c)-[]->(d); (d)-[]->(a)",
    "(a)-[]->(b); (b)-[]->(c); (a)-[]->(d); (d)-[]->(c)",
    "(a)-[]->(b); (b)-[]->(c); (c)-[]->(d); (d)-[]->(a); (a)-[e]->(c)",
    "(a)-[]->(b); (a)-[]->(c); (a)-[]->(d); (b)-[]->(c); (b)-[]->(d); (c)-[]->(d)",
    "(a)-[]->(b); (b)-[]->(c); (c)-[]->(a); (c)-[]->(d)",
    "(a)-[]->(b); !(b)-[]->(a)",
    "(a)-[e]->(b); (b)-[]->(c); !(a)-[]->(c)",
    "(a)-[]->(b); (b)-[]->(c); !(c)-[]->(a); (c)-[f]->(d)",
    "(a)-[e]->(b); !(b)-[]->()",
    "(a)-[e]->(b); !()-[]->(a)",
    "(a); !(a)-[]->()",
    "(a)-[]->(b); !(b)-[]->(b); !(a)-[]->(a)",
    "(a)-[]->(b); (a)-[]->(c); !(b)-[]->(c); !(c)-[]->(b)",
    "(a)-[e*2]->(b)",
    "(a)-[*3]->(b)",
    "(a)-[*2]->(b); !(a)-[]->(b)",
    "(a)-[e*1..3]->(b)",
    "(a)-[*1..2]-(b)",
    "(a)-[e]-(b)",
    "(a)-[]-(b); (b)-[]->(c)",
    "(a)-[e*2]-(b)",
)
"""Motifs of every kind whose rows are few in any small graph."""

PRODUCTS: tuple[str, ...] = (
    "(a); (b)",
    "(a)-[]->(b); (c)",
    "(a)-[]->(b); (c)-[e]->(d)",
    "!(a)-[]->(b)",
    "(a)-[]->(b); !(b)-[]->(c)",
)
"""Motifs whose rows are cross products, for graphs of a few dozen edges."""
