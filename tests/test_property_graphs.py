"""Property graphs: parallel edges, labels, and properties of vertices and edges, against the brute-force oracle."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from math import nan
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bigjoin as bj
from bigjoin.errors import QueryError
from bigjoin.index.dictionary import Dictionary, RowNumbers, ranks_of
from bigjoin.index.trie import Trie, build_trie, list_statistics
from bigjoin.indexing import build_index
from bigjoin.joins.bind import bind
from bigjoin.languages import parse
from bigjoin.planner import plan
from bigjoin.planner.agm import agm_bound
from bigjoin.query.read import Read
from bigjoin.query.statistics import ListStatistics, RelationStatistics, Statistics
from bigjoin.query.terms import Property
from tests.executions import locally, plain
from tests.oracles import naive

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
            lists = {columns: list_statistics(self.trie(name, columns).offsets) for columns in orders}
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

    def extensions(self, read: Read, columns: tuple[int, ...]) -> Trie:
        return self.trie(read.relation, columns)

    def trie(self, relation: str, columns: tuple[int, ...]) -> Trie:
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


def make_graph(random: Random) -> PropertyGraph:
    ids = IDS[: random.randint(2, len(IDS))]

    def edges(most):
        return [(random.choice(ids), random.choice(ids)) for _ in range(random.randint(most // 2, most))]

    def values(size, names):
        return {n: [random.choice(TYPES[n][1]) for _ in range(size)] for n in names}

    pays = edges(12)
    return PropertyGraph(
        random.sample(IDS, len(IDS)),
        pays,
        edges(7),
        random.sample(IDS, random.randint(0, len(IDS))),
        random.random() < 0.5,
        {
            "vertex": values(len(IDS), ["age", "big", "name", "since", "day", "weight"]),
            "pays edge": values(len(pays), list(TYPES)),
        },
    )


def make_rule(random: Random, graph: PropertyGraph) -> str:
    """A rule of up to three vertices and two edge ids, connected or not."""
    vertices = "abc"[: random.choice([1, 2, 2, 2, 3])]

    def atom():
        relation = random.choice(["pays", "rows", "rows", "rows", "likes", "person"])
        if relation == "person":
            return relation, (random.choice(vertices),)
        loop = random.random() < 0.1 or len(vertices) == 1
        pair = (random.choice(vertices),) * 2 if loop else tuple(random.sample(vertices, 2))
        return ("pays", (*pair, random.choice(edges))) if relation == "rows" else (relation, pair)

    edges = random.choice(["e", "ef"])
    atoms = [atom() for _ in range(random.randint(1, 3))]
    bound = sorted({a for _, attributes in atoms for a in attributes})
    body = [f"{relation}({', '.join(attributes)})" for relation, attributes in atoms]
    negated = [atom() for _ in range(random.choice([0, 0, 0, 1, 2]))]
    body += [f"not {r}({', '.join(attributes)})" for r, attributes in negated if set(attributes) <= set(bound)]
    known = {a: graph.values["vertex" if a in "abc" else "pays edge"] for a in bound}

    def term(kind):
        attribute = random.choice(bound)
        names = [n for n in KINDS[kind] if n == "id" or n in known[attribute]]
        return f"{attribute}.{random.choice(names)}" if names else None

    for _ in range(random.choice([0, 1, 1, 2, 2])):
        kind = random.choice(["number", *KINDS])
        sides = [term(kind), random.choice(CONSTANTS[kind]) if random.random() < 0.4 else term(kind)]
        if None not in sides and not _ids_of_two_domains(sides):
            sides = [s.removesuffix(".id") if random.random() < 0.5 else s for s in sides]
            body.append(f" {random.choice(OPERATORS)} ".join(random.sample(sides, 2)))
    properties = [f"{a}.{n}" for a in bound for n in (*known[a], "id")]
    head = [*bound, *random.sample(properties, random.randint(0, 2))]
    return f"q({', '.join(random.sample(head, len(head)))}) := {', '.join(body)}"


def _ids_of_two_domains(sides):
    return all(s.endswith(".id") for s in sides) and len({s[0] in "abc" for s in sides}) == 2


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


FLAGS = [(), (), (), ("distinct",), ("unique",), ("unique",), ("induced",), ("unique", "induced")]


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=True))
def test_rows_are_those_of_the_definition(random):
    graph = make_graph(random)
    flags = dict.fromkeys(random.choice(FLAGS), True)
    query = parse(make_rule(random, graph), cross_product=True, **flags)
    wanted = answer(query, graph, flags)
    for order in (None, tuple(random.sample(query.attributes, len(query.attributes)))):
        try:
            chosen = plan(query, graph.statistics, order=order)
        except ValueError:
            assert order is not None
            assert not possible(query, order)
            continue
        check(query, graph, locally(bind(chosen, graph), graph, batch_size=random.choice([1, 3, 1000]), parts=2), wanted)
    if not (flags or query.filters):
        assert len(wanted) <= agm_bound(query, graph.statistics) + 1e-6


def test_a_label_that_everybody_has_still_tells_attributes_apart():
    """What `unique` counts is up to the query, and not to how many vertices have a label today."""
    edges, everybody = pa.table({"src": [1, 2], "dst": [2, 3]}), pa.table({"id": [1, 2, 3], "label": ["person"] * 3})
    with bj.Graph(edges, vertices=everybody, labels="label", directed=False) as graph:
        assert graph.count("q(a, b) := edge(a, b)", unique=True, strategy="local") == 2
        assert graph.count("q(a, b) := person(b), edge(b, a)", unique=True, strategy="local") == 4
        assert graph.count("q(a, b) := vertex(b), edge(b, a)", unique=True, strategy="local") == 2  # any vertex is one


def possible(query, order):
    """Whether every edge id comes after the ends of an edge that it names."""
    ends = {e: [a.attributes[:2] for a in query.positive if a.attributes[2:] == (e,)] for e in order if e in "ef"}
    return all(any(set(pair) <= set(order[: order.index(e)]) for pair in pairs) for e, pairs in ends.items())


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=True), st.sampled_from([1, 3]))
def test_an_index_of_the_same_tables_gives_the_same_rows(random, shards):
    graph = make_graph(random)
    flags = dict.fromkeys(random.choice(FLAGS), True)
    query = parse(make_rule(random, graph), cross_product=True, **flags)
    edges = {
        "pays": pa.table(ends(graph.pays) | {n: pa.array(v, TYPES[n][0]) for n, v in graph.values["pays edge"].items()}),
        "likes": pa.table(ends(graph.likes)),
    }
    labels = pa.array(["person" if i in graph.person else None for i in IDS], pa.string())
    vertices = {n: pa.array(v, TYPES[n][0]) for n, v in graph.values["vertex"].items()}
    with tempfile.TemporaryDirectory() as folder:
        index = build_index(
            edges,
            Path(folder) / "index",
            vertices=pa.table({"id": IDS, "kind": labels} | vertices),
            labels="kind",
            directed=graph.directed,
            shards=shards,
        )
        if "person" not in index.statistics.relations:
            return
        found = locally(bind(plan(query, index.statistics), index), index, batch_size=1000, parts=1)
        check(query, graph, found, answer(query, graph, flags))


def ends(rows):
    return {name: [row[i] for row in rows] for i, name in enumerate(("src", "dst"))}


def example(**changes):
    """Four payments, two of them between the same pair; every property has a value."""
    pays = [(10, 20), (10, 20), (20, 30), (30, 10)]
    known = {"vertex": ["age", "name"], "pays edge": ["age", "name", "time", "flag"]}
    values = {d: {n: [TYPES[n][1][i % 2 + 1] for i in range(4)] for n in names} for d, names in known.items()}
    options = {"codes": IDS, "pays": pays, "likes": [(10, 20)], "person": [10], "directed": True, "values": values}
    return PropertyGraph(**options | changes)


def rows_of(text, graph, **flags):
    query = parse(text, **flags)
    return sorted(locally(bind(plan(query, graph.statistics), graph), graph, batch_size=1000, parts=1))


@pytest.mark.parametrize("condition", ["a.name != c.name", "a.name != c.name, a != c", "a.age < c.age, a < c", "a.age = c.age"])
def test_counting_tells_late_filters_apart(condition):
    """The last step of a path reads only its middle: what compares the ends is looked at last, here while counting."""
    pairs = [(i, j) for i in IDS for j in IDS if i != j]
    graph = example(likes=pairs)
    query = parse(f"q(a,b,c) := likes(a,b), likes(b,c), {condition}")
    bound = bind(plan(query, graph.statistics, order=("b", "a", "c")), graph)
    assert any(f.position == 1 for f in bound.steps[-1].condition.filters)
    assert sorted(locally(bound, graph, batch_size=1000, parts=1)) == sorted(answer(query, graph, {}))


@pytest.mark.parametrize(
    ("text", "flags", "wanted"),
    [
        (
            "q(a,b,c,e,f,g) := pays(a,b,e), pays(b,c,f), pays(c,a,g), e.time < f.time, e.name = 'x'",
            {},
            "1. p1(a, b, e) := pays(a, b, e), e.name = 'x'\n"
            "2. p2(a, b, e, c) := p1(a, b, e), pays(b, c), pays(c, a)\n"
            "3. p3(a, b, e, c, f) := p2(a, b, e, c), pays(b, c, f), f.time > e.time\n"
            "4. p4(a, b, e, c, f, g) := p3(a, b, e, c, f), pays(c, a, g)",
        ),
        (
            "q(a,b,e,f) := pays(a,b,e), pays(a,b,f), b = 20",
            {"unique": True},
            "1. p1(b, a) := pays(a, b), b = 20\n"
            "2. p2(b, a, e) := p1(b, a), pays(a, b, e)\n"
            "3. p3(b, a, e, f) := p2(b, a, e), pays(a, b, f), code(f) < code(e)",
        ),
        (
            "q(a,b,e) := pays(a,b,e), person(a), not pays(b,a,e)",
            {},
            "1. p1(a) := person(a), pays(a, _)\n"
            "2. p2(a, b) := p1(a), pays(a, b)\n"
            "3. p3(a, b, e) := p2(a, b), pays(a, b, e), not pays(b, a, e)",
        ),
    ],
)
def test_plans_bind_edge_ids_after_their_ends(text, flags, wanted):
    many = [(i, j) for i in range(100) for j in range(100) if i != j and (i * j) % 7 == 1]
    statistics = example().statistics
    pays = statistics.relations["pays"]
    lists = {order: ListStatistics(100, len(many) / 100, len(many) / 100, 20) for order in pays.lists}
    rows = replace(pays.rows, tuples=3 * len(many), lists={(0, 1, 2): ListStatistics(len(many), 3, 3, 3)})
    pays = replace(pays, tuples=len(many), lists=lists, rows=rows)
    sizes = {"vertex": 100, "pays edge": 3 * len(many)}
    known = replace(statistics, relations={**statistics.relations, "pays": pays}, domains=sizes)
    assert str(plan(parse(text, **flags), known)) == wanted


def test_what_has_no_properties_or_no_order_is_said():
    graph = example()
    graph.values["vertex"] = {}
    with pytest.raises(QueryError, match=r"'a' has no properties(?s:.)*further columns of the tables"):
        plan(parse("q(a,b) := pays(a,b), a.size = 1"), graph.statistics)
    graph = example()
    graph.columns["vertex"]["tags"] = pa.chunked_array([[["x"]] * len(IDS)])
    graph.columns["vertex"]["raw"] = pa.chunked_array([[b"x"] * len(IDS)])
    assert rows_of("q(a,a.tags) := person(a), a.raw = a.raw", graph) == [(10, ["x"])]
    for condition, message in [
        ("a.tags = 'x'", "a.tags is list<item: string>, which has no order"),
        ("b.name = a.tags", "a.tags is list<item: string>, which has no order"),
        ("a.raw = 'x'", "'x' is text, but a.raw is binary(?s:.)*cast them to text"),
    ]:
        with pytest.raises(QueryError, match=message):
            bind(plan(parse(f"q(a,b) := pays(a,b), {condition}"), graph.statistics), graph)


def test_an_order_that_no_list_serves_is_refused():
    graph = example()
    with pytest.raises(ValueError, match="binds 'e' before the attributes that lead to it"):
        plan(parse("q(a,b,c,e) := pays(a,b,e), likes(b,c)"), graph.statistics, order=("c", "e", "a", "b"))


@pytest.mark.spark
def test_properties_reach_frames_and_files(spark, tmp_path):
    kinds = [t for t, _ in TYPES.values()] + [pa.timestamp("ns"), pa.timestamp("ms", "UTC"), pa.binary()]
    values = [[v for v in vs if v is not None and v == v][-1] for _, vs in TYPES.values()] + [MAY, MAY, b"x"]
    columns = {f"p{i}": pa.array([v, None], t) for i, (t, v) in enumerate(zip(kinds, values, strict=True))}
    edges = pa.table({"src": [1, 1], "dst": [2, 2]} | columns)
    people = pa.table({"id": [1, 2], "name": ["ann", None], "label": ["person", "robot"]})
    head = ", ".join(["a", "b", "e", *(f"e.{name}" for name in columns)])
    with bj.Graph(edges, vertices=people, spark=spark) as graph:
        frame = graph.find(f"q({head}) := edge(a,b,e), person(a)", select="a.name")
        assert frame.columns == ["a", "b", "e", *(f"e_{name}" for name in columns), "a_name"]
        found = frame.orderBy("e").toArrow().to_pylist()
        assert [row["a_name"] for row in found] == ["ann", "ann"]
        for name, column in columns.items():
            first, second = (row[f"e_{name}"] for row in found)
            assert _naive(first) == _naive(column[0].as_py()), name
            assert second is None
        for suffix in (".parquet", ".csv"):
            assert graph.write(f"q({head}) := edge(a,b,e)", tmp_path / f"rows{suffix}") == 2
        assert pq.read_table(tmp_path / "rows.parquet")["e_p0"].to_pylist() == columns["p0"].to_pylist()
        assert graph.count("q(a,b,e) := edge(a,b,e), e.p0 <= -5, robot(b)", where="a.name = 'ann'") == 1
        assert "edge with edge ids: 2 tuples" in graph.explain("q(a,b,e) := edge(a,b,e)")
