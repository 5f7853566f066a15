"""Property graphs: parallel edges, labels, and properties of vertices and edges, against the brute-force oracle."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from itertools import permutations
from math import nan
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bigjoin.errors import QueryError
from bigjoin.index.dictionary import Dictionary, RowNumbers, ranks_of
from bigjoin.index.trie import Trie, build_trie
from bigjoin.indexing import build_index
from bigjoin.join.bind import bind
from bigjoin.languages import parse
from bigjoin.planner import plan
from bigjoin.planner.agm import agm_bound
from bigjoin.query.plan import Version
from bigjoin.query.query import Property
from bigjoin.query.statistics import RelationStatistics, Statistics
from tests.oracles import naive
from tests.treatments import locally, plain

IDS = [30, 10, 20, 40]
MAY, NOON, JUNE = datetime(2024, 5, 1), datetime(2024, 5, 1, 12), datetime(2024, 6, 1)

TYPES = {
    "age": (pa.int32(), [None, 1, 2, 30, -5]),
    "weight": (pa.float64(), [None, nan, 1.0, 2.5, -0.0, 0.0, 30.0, float("inf")]),
    "price": (pa.decimal128(10, 2), [None, Decimal("1.00"), Decimal("2.50"), Decimal("0.10")]),
    "big": (pa.int64(), [2**63 - 1, -(2**63), 2**53 + 1, 2**53, None]),
    "wide": (pa.float64(), [2.0**53, 2.0**63, -(2.0**63)]),
    "name": (pa.string(), [None, "", "x", "é", "z"]),
    "note": (pa.large_string(), [None, "x", "zz"]),
    "time": (pa.timestamp("us"), [None, MAY, NOON, JUNE]),
    "since": (pa.timestamp("s", tz="UTC"), [MAY, JUNE]),
    "day": (pa.date32(), [None, date(2024, 5, 1), date(2024, 5, 2)]),
    "flag": (pa.bool_(), [None, True, False]),
}
KINDS = {
    "number": ["age", "weight", "price", "big", "wide", "id"],
    "text": ["name", "note"],
    "time": ["time", "since", "day"],
    "truth": ["flag"],
}
CONSTANTS = {
    "number": ["1", "2.5", "-5", "0", "0.1", "9007199254740993", "1e30", "-1e400", str(10**400), "20"],
    "text": ['"x"', "'zz'", '""'],
    "time": ['"2024-05-01"', '"2024-05-01 12:00:00"', "'2024-06-01T02:00+02:00'", '"2024-05-01T00:00:00.5"'],
    "truth": ["true", "False"],
}
OPERATORS = ["<", "<=", ">", ">=", "=", "!="]


@dataclass
class PropertyGraph:
    """A graph in memory, with `pays` (its rows have ids), `likes` (they have none) and a label, as an index would hold them."""

    codes: list[int]
    pays: list[tuple]
    likes: list[tuple]
    person: list[int]
    directed: bool
    values: dict[str, dict[str, list]]

    def tuples(self, relation: str, arity: int) -> list[tuple]:
        """The tuples of a relation; those of arity 3 are rows."""
        if relation == "person":
            return [(v,) for v in self.person]
        rows = [(s, d, e) for e, (s, d) in enumerate(getattr(self, relation)) if self.directed or s != d]
        rows += [] if self.directed else [(d, s, e) for s, d, e in rows]
        return sorted({row[:arity] for row in rows})

    @cached_property
    def relations(self) -> dict[str, set]:
        """What the oracle takes: pairs and rows in one set."""
        pays = {*self.tuples("pays", 2), *self.tuples("pays", 3)}
        return {"pays": pays, "likes": set(self.tuples("likes", 2)), "person": set(self.tuples("person", 1))}

    @cached_property
    def dictionaries(self):
        ids = pa.array(self.codes)
        pieces = pa.chunked_array([ids[:1], ids[1:1], ids[1:]])
        return {"vertex": Dictionary(pieces, ranks_of(ids)), "pays edge": RowNumbers(len(self.pays))}

    @cached_property
    def columns(self) -> dict[str, dict[str, pa.ChunkedArray]]:
        """The properties by code, in several pieces."""
        tables = {}
        for domain, columns in self.values.items():
            ids = self.codes if domain == "vertex" else range(len(self.pays))
            by_id = IDS if domain == "vertex" else list(ids)
            arrays = {n: pa.array([values[by_id.index(i)] for i in ids], TYPES[n][0]) for n, values in columns.items()}
            tables[domain] = {n: pa.chunked_array([a[:2], a[2:]], a.type) for n, a in arrays.items()}
        return tables

    def properties(self, domain: str) -> dict[str, pa.ChunkedArray]:
        return self.columns[domain]

    @cached_property
    def statistics(self) -> Statistics:
        def relation(name, domains, orders, rows=None):
            tuples = self.tuples(name, len(domains))
            loops = sum(len(set(t[:2])) == 1 for t in tuples) if len(domains) > 1 else 0
            lists = {columns: self.extensions(name, columns).statistics() for columns in orders}
            return RelationStatistics(domains, len(tuples), not self.directed and len(domains) > 1, loops, lists, rows)

        ends = ("vertex", "vertex")
        return Statistics(
            {
                "pays": relation("pays", ends, [(0, 1), (1, 0)], relation("pays", (*ends, "pays edge"), [(0, 1, 2)])),
                "likes": relation("likes", ends, [(0, 1), (1, 0)]),
                "person": relation("person", ("vertex",), [(0,)]),
            },
            {"vertex": len(IDS), "pays edge": len(self.pays)},
            {domain: {n: str(column.type) for n, column in columns.items()} for domain, columns in self.columns.items()},
        )

    def extensions(self, relation: str, columns: tuple[int, ...], version: Version = Version.NEW) -> Trie:
        assert columns in {"pays": {(0,), (1,), (0, 1), (1, 0), (0, 1, 2)}, "person": {(0,)}}.get(
            relation, {(0,), (1,), (0, 1), (1, 0)}
        )
        tuples = self.tuples(relation, 1 if relation == "person" else max(2, len(columns)))
        coded = [[t[c] if c == 2 else self.codes.index(t[c]) for t in tuples] for c in columns]
        return build_trie([np.array(column, np.uint32) for column in coded], len(IDS))

    def known(self, query) -> dict:
        """What the oracle must be told beside relations and query."""
        domains = {}
        for atom in query.atoms:
            domains |= zip(atom.attributes, ("vertex", "vertex", "pays edge"), strict=False)
        ids = {"vertex": IDS, "pays edge": list(range(len(self.pays)))}
        properties = {
            domain: {n: dict(zip(ids[domain], map(_as_moment, values), strict=True)) for n, values in columns.items()}
            | {"id": {i: i for i in ids[domain]}}
            for domain, columns in self.values.items()
        }
        return {"domains": domains, "properties": properties}


def _as_moment(value):
    return datetime(value.year, value.month, value.day) if type(value) is date else value


@st.composite
def graphs(draw, *, nulls=True):
    ends = st.tuples(st.sampled_from(IDS), st.sampled_from(IDS))
    pays = draw(st.lists(ends, min_size=1, max_size=8))
    values = {}
    for domain, size, names in (
        ("vertex", len(IDS), ["age", "big", "name", "since", "day", "weight"]),
        ("pays edge", len(pays), list(TYPES)),
    ):
        values[domain] = {n: draw(st.lists(st.sampled_from(TYPES[n][1]), min_size=size, max_size=size)) for n in names}
    return PropertyGraph(
        draw(st.permutations(IDS)),
        pays,
        draw(st.lists(ends, min_size=1, max_size=6)),
        draw(st.lists(st.sampled_from(IDS), unique=True)),
        draw(st.booleans()),
        values,
    )


@st.composite
def rules(draw, graph):
    """A rule of up to three vertices and two edge ids."""
    vertices = st.sampled_from("abc"[: draw(st.integers(1, 3))])
    edges = st.sampled_from("ef")

    def atom():
        relation = draw(st.sampled_from(["pays", "rows", "rows", "likes", "person"]))
        if relation == "person":
            return relation, (draw(vertices),)
        pair = draw(vertices), draw(vertices)
        return ("pays", (*pair, draw(edges))) if relation == "rows" else (relation, pair)

    atoms = [atom() for _ in range(draw(st.integers(1, 3)))]
    bound = sorted({a for _, attributes in atoms for a in attributes})
    body = [f"{relation}({', '.join(attributes)})" for relation, attributes in atoms]
    negated = [atom() for _ in range(draw(st.integers(0, 2)))]
    body += [f"not {r}({', '.join(attributes)})" for r, attributes in negated if set(attributes) <= set(bound)]
    kinds = {a: graph.values["vertex" if a in "abc" else "pays edge"] for a in bound}

    def term(kind):
        attribute = draw(st.sampled_from(bound))
        names = [n for n in KINDS[kind] if n == "id" or n in kinds[attribute]]
        return f"{attribute}.{draw(st.sampled_from(names))}" if names else None

    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(sorted(KINDS)))
        sides = [term(kind), draw(st.sampled_from(CONSTANTS[kind])) if draw(st.booleans()) else term(kind)]
        if None not in sides and not _ids_of_two_domains(sides):
            sides = [s.removesuffix(".id") if draw(st.booleans()) else s for s in sides]
            body.append(f" {draw(st.sampled_from(OPERATORS))} ".join(draw(st.permutations(sides))))
    properties = [f"{a}.{n}" for a in bound for n in (*kinds[a], "id")]
    head = draw(st.permutations([*bound, *draw(st.lists(st.sampled_from(properties), max_size=2, unique=True))]))
    return f"q({', '.join(head)}) := {', '.join(body)}"


def _ids_of_two_domains(sides):
    return all(s.endswith(".id") for s in sides) and len({s[0] in "abc" for s in sides}) == 2


@st.composite
def questions(draw):
    graph = draw(graphs())
    flags = draw(st.sampled_from([(), (), ("distinct",), ("unique",), ("induced",), ("unique", "induced")]))
    return graph, draw(rules(graph)), dict.fromkeys(flags, True)


def answer(query, graph, flags):
    """The oracle's rows, each completed by the properties of the head."""
    known = graph.known(query)
    return naive.matches(graph.relations, *spelled_out(query), **flags, symmetric=not graph.directed, **known)


def spelled_out(query):
    """The query as the oracle takes it, with the pair that each row implies, and ids that are spelled as properties."""
    head, atoms, filters = plain(query)
    atoms += [(r, names[:2], False) for r, names, negated in atoms if len(names) == 3 and not negated]

    def side(operand):
        return operand[1] if operand[0] == "property" and operand[2] == "id" else operand

    return head, atoms, [(side(left), op, side(right)) for left, op, right in filters]


def split(query, rows):
    """Rows of ids in the order of the head's attributes, and what else they hold: (attribute, property, value)."""
    ids = [tuple(v for v, term in zip(row, query.head, strict=True) if isinstance(term, str)) for row in rows]
    others = [
        [(term.attribute, term.name, v) for v, term in zip(row, query.head, strict=True) if isinstance(term, Property)]
        for row in rows
    ]
    return ids, others


def up_to_automorphism(query, rows, graph):
    if query.unique:
        group = naive.automorphisms(*spelled_out(query), symmetric=not graph.directed, induced=query.induced)
        rows = [min(tuple(row[i] for i in image) for image in group) for row in rows]
    return sorted(rows)


def check(query, graph, rows, wanted):
    found, others = split(query, rows)
    assert up_to_automorphism(query, found, graph) == sorted(wanted)
    known, names = graph.known(query), [term for term in query.head if isinstance(term, str)]
    for row, values in zip(found, others, strict=True):
        at = dict(zip(names, row, strict=True))
        for attribute, name, value in values:
            stored = known["properties"][known["domains"][attribute]][name][at[attribute]]
            assert repr(_naive(_as_moment(value))) == repr(stored), (attribute, name)


def _naive(value):
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


thorough = settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))


@thorough
@given(questions(), st.randoms(use_true_random=False), st.sampled_from([1, 3, 1000]))
def test_rows_are_those_of_the_definition(question, random, batch_size):
    graph, text, flags = question
    query = parse(text, cross_product=True, **flags)
    wanted = answer(query, graph, flags)
    for order in (None, tuple(random.sample(query.attributes, len(query.attributes)))):
        try:
            chosen = plan(query, graph.statistics, order=order)
        except ValueError:
            assert order is not None
            assert not possible(query, order)
            continue
        check(query, graph, locally(bind(chosen, graph), batch_size=batch_size, parts=2), wanted)
    if not (flags or query.filters):
        assert len(wanted) <= agm_bound(query, graph.statistics) + 1e-6


def possible(query, order):
    """Whether every edge id comes after the ends of an edge that it names."""
    ends = {e: [a.attributes[:2] for a in query.positive if a.attributes[2:] == (e,)] for e in order if e in "ef"}
    return all(any(set(pair) <= set(order[: order.index(e)]) for pair in pairs) for e, pairs in ends.items())
