"""Vertices, labels, properties and typed edges change: an epoch reports the difference of two results, by definition."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from random import Random
from unittest import mock

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bigjoin as bj
from bigjoin.cli.main import cli
from bigjoin.errors import BigjoinError, SourceError
from bigjoin.joins.bind import result_columns
from bigjoin.joins.changes import Signed, changed
from bigjoin.languages import parse
from bigjoin.streaming import commit, find, monitor
from tests.oracles import naive
from tests.power import Disk, listen
from tests.test_delta import balanced, by_loops, on_batches, spread

IDS = range(1, 6)
QUERIES = {
    "labels": "labels(a, b) := edge(a, b), person(a), not bank(b)",
    "alone": "alone(a) := person(a), a.age > 1",
    "compared": "compared(a, b, c) := edge(a, b), edge(b, c), a.age < c.age",
    "shown": "shown(a, b, a.name) := edge(a, b), b.age >= 2",
    "amounts": "amounts(a, b, e.amount) := edge(a, b, e), e.amount > 5, a.age > 1",
    "typed": "typed(a, b, c) := pays(a, b), owns(b, c)",
    "rows": "rows(a, b, e.pid) := pays(a, b, e), b.name = 'x'",
    "computed": "computed(a, b) := edge(a, b), a.age + 1 > 3, bank(b)",
    "ring": "ring(a, b, c) := edge(a, b), edge(b, c), edge(c, a), a.age > 0, b.age > 0, c.age > 0",
}
UNIQUE = {"ring"}
DEFINITIONS = {
    "labels": ("ab", [("edge", "ab", False), ("person", "a", False), ("bank", "b", True)], []),
    "alone": ("a", [("person", "a", False)], [(("property", "a", "age"), ">", ("const", 1))]),
    "compared": (
        "abc",
        [("edge", "ab", False), ("edge", "bc", False)],
        [(("property", "a", "age"), "<", ("property", "c", "age"))],
    ),
    "shown": ("ab", [("edge", "ab", False)], [(("property", "b", "age"), ">=", ("const", 2))]),
    "amounts": (
        "abe",
        [("edge", "abe", False)],
        [(("property", "e", "amount"), ">", ("const", 5)), (("property", "a", "age"), ">", ("const", 1))],
    ),
    "typed": ("abc", [("pays", "ab", False), ("owns", "bc", False)], []),
    "rows": ("abe", [("pays", "abe", False)], [(("property", "b", "name"), "=", ("const", "x"))]),
    "computed": ("ab", [("edge", "ab", False), ("bank", "b", False)], [(("property", "a", "age"), ">", ("const", 2))]),
    "ring": (
        "abc",
        [("edge", "ab", False), ("edge", "bc", False), ("edge", "ca", False)],
        [(("property", v, "age"), ">", ("const", 0)) for v in "abc"],
    ),
}
"""The same queries for the oracle: names, atoms and filters."""
SHOWN = {"shown": ("a", "name"), "amounts": ("e", "amount"), "rows": ("e", "pid")}
"""The property that a query shows in place of its last name, or after its names."""


@dataclass
class Model:
    """A graph with vertices and typed payments, in plain Python."""

    key: bool
    vertices: dict = field(default_factory=dict)
    edges: dict = field(default_factory=dict)
    numbers: count = field(default_factory=count)

    def apply(self, updates, *, ordered):
        """Apply the updates of an epoch, in their order or deletions first and replacements last.

        Edges come first: a vertex that comes with one of them is known to all rows about it.
        """
        rows = updates if ordered else sorted(updates, key=lambda row: "-+=".index(row["op"]))
        for row in (row for row in rows if row["relation"] != "vertex"):
            self.edge(dict(row))
        for id_ in (id_ for edge in self.edges.values() for id_ in edge[:2]):
            self.vertices.setdefault(id_, dict.fromkeys(("label", "age", "name")))
        for row in (row for row in rows if row["relation"] == "vertex"):
            self.vertex(row)

    def vertex(self, row):
        values = {name: row[name] for name in ("label", "age", "name")}
        if row["op"] == "-":
            if row["id"] in self.vertices:
                self.vertices[row["id"]] = dict.fromkeys(values)
        elif row["op"] == "+" or row["id"] in self.vertices:
            self.vertices[row["id"]] = values

    def edge(self, row):
        if row["relation"] == "pays":
            row["kind"] = "pays"
        ends, values = (row["src"], row["dst"]), {name: row[name] for name in ("pid", "amount", "kind")}
        wanted = {"pid": values["pid"]} if self.key and values["pid"] is not None else values
        if row["op"] != "-" and not (self.key and values["pid"] is not None):
            wanted = {}
        wanted = {name: value for name, value in wanted.items() if value is not None}
        found = [
            number
            for number, (*pair, known) in self.edges.items()
            if tuple(pair) == ends and all(known[name] == value for name, value in wanted.items())
        ]
        if row["op"] == "+":
            if not (self.key and values["pid"] is not None and found):
                self.edges[next(self.numbers)] = (*ends, values)
        elif row["op"] == "-":
            for number in found:
                del self.edges[number]
        elif len(found) == 1:
            self.edges[found[0]] = (*ends, values)
        assert row["op"] != "=" or len(found) < 2, "the case was not to be drawn"

    def result(self, name):
        """The rows of a query, by definition."""
        names, atoms, filters = DEFINITIONS[name]
        relations = {"edge": {(a, b) for a, b, _ in self.edges.values()} | {(a, b, n) for n, (a, b, _) in self.edges.items()}}
        for kind in ("pays", "owns"):
            mine = {n: e for n, e in self.edges.items() if e[2]["kind"] == kind}
            relations[kind] = {(a, b) for a, b, _ in mine.values()} | {(a, b, n) for n, (a, b, _) in mine.items()}
        for label in ("person", "bank"):
            relations[label] = {(v,) for v, row in self.vertices.items() if row["label"] == label}
        properties = {
            "v": {p: {v: row[p] for v, row in self.vertices.items()} for p in ("label", "age", "name")},
            "e": {p: {n: e[2][p] for n, e in self.edges.items()} for p in ("pid", "amount", "kind")},
        }
        domains = {n: "e" if n == "e" else "v" for n in names}
        atoms = [(relation, tuple(of), negated) for relation, of, negated in atoms]
        found = naive.matches(relations, tuple(names), atoms, filters, domains=domains, properties=properties)
        rows = Counter()
        for match in found:
            at = dict(zip(names, match, strict=True))
            if name in UNIQUE and len(set(match)) < len(match):
                continue
            row = tuple(at[n] for n in names if n != "e")
            if name in SHOWN:
                of, shown = SHOWN[name]
                row += (properties["e" if of == "e" else "v"][shown][at[of]],)
            rows[canonical(name, row)] += 1
        return Counter(dict.fromkeys(rows, 1)) if name in UNIQUE else rows


def canonical(name, row):
    """A ring is the same from wherever it begins."""
    return min(row[i:] + row[:i] for i in range(len(row))) if name in UNIQUE else row


def changes_of(name, table):
    found = Counter()
    for row in table.drop_columns(["epoch", "change"]).to_pylist():
        found[canonical(name, tuple(row.values()))] += 0
    for row in table.drop_columns(["epoch"]).to_pylist():
        sign = row.pop("change")
        found[canonical(name, tuple(row.values()))] += sign
    return {row: change for row, change in found.items() if change}


some_id, pid = st.sampled_from(IDS), st.sampled_from([1, 2, 3, None])
age, amount = st.sampled_from([0, 1, 2, 3, None]), st.sampled_from([1, 6, 9, None])
kind, label = st.sampled_from(["pays", "owns", "lends", None]), st.sampled_from(["person", "bank", "ghost", None])
COLUMNS = ("relation", "src", "dst", "id", "op", "label", "age", "name", "pid", "amount", "kind")
NOTHING = dict.fromkeys(COLUMNS)
vertex_rows = st.builds(
    lambda **row: {**NOTHING, "relation": "vertex", **row},
    id=some_id,
    op=st.sampled_from("-++="),
    label=label,
    age=age,
    name=st.sampled_from(["x", "y", None]),
)
edge_rows = st.builds(
    lambda **row: {**NOTHING, **row, "kind": row["kind"] if row["relation"] == "edge" else None},
    relation=st.sampled_from(["edge", "edge", "pays"]),
    src=some_id,
    dst=some_id,
    op=st.sampled_from("-+++="),
    pid=pid,
    amount=amount,
    kind=kind,
)
epochs_of = st.lists(st.lists(st.one_of(vertex_rows, edge_rows), max_size=7), min_size=1, max_size=4)


def drawn_without_doubt(model, updates, *, ordered):
    """The updates but for replacements that would be about one of several edges."""
    kept = []
    for row in updates:
        trial = Model(model.key, {v: dict(r) for v, r in model.vertices.items()}, dict(model.edges), count(1000))
        try:
            trial.apply([*kept, row], ordered=ordered)
        except AssertionError:
            continue
        kept.append(row)
    return kept


SCHEMA = pa.schema(
    [(name, pa.string() if name in ("relation", "op", "label", "name", "kind") else pa.int64()) for name in COLUMNS]
)


def began(model, first, folder, *, key):
    """An index of a model after its first updates, built from tables."""
    model.apply(drawn_without_doubt(model, [r for r in first if r["op"] == "+"], ordered=True), ordered=True)
    rows = [(a, b, *values.values()) for a, b, values in model.edges.values()]
    names = ("src", "dst", "pid", "amount", "kind")
    edges = pa.table({n: pa.array([row[i] for row in rows], SCHEMA.field(n).type) for i, n in enumerate(names)})
    table = [{"id": v, **row} for v, row in model.vertices.items()]
    # Labels and types that no vertex and no edge has yet need to be known: one of each is there, and goes with the first epoch.
    table += [{"id": -1, "label": "person", "age": None, "name": None}, {"id": -2, "label": "bank", "age": None, "name": None}]
    extra = pa.table({"src": [-1, -1], "dst": [-2, -2], "pid": [-1, -2], "amount": [None, None], "kind": ["pays", "owns"]})
    vertices = pa.Table.from_pylist(
        table, pa.schema([("id", pa.int64()), ("label", pa.string()), ("age", pa.int64()), ("name", pa.string())])
    )
    bj.build_index(pa.concat_tables([edges, extra.cast(edges.schema)]), folder, vertices=vertices, types="kind")
    graph = bj.Graph.open(folder)
    gone = [{**NOTHING, "relation": "edge", "src": -1, "dst": -2, "op": "-", "pid": p} for p in (-1, -2)]
    gone += [{**NOTHING, "relation": "vertex", "id": v, "op": "-"} for v in (-1, -2)]
    graph.apply(pa.Table.from_pylist(gone, SCHEMA), key=key)
    return graph


def check(first, epochs, folder, *, ordered, with_key, listing, spy=None, reopen=()):
    model, key = Model(with_key), "pid" if with_key else None
    graph = began(model, first, folder, key=key)
    queries = {name: parse(text, unique=name in UNIQUE) for name, text in QUERIES.items()}
    for number, drawn in enumerate(epochs):
        updates = drawn_without_doubt(model, drawn, ordered=ordered)
        table = pa.Table.from_pylist(updates, SCHEMA)
        if ordered:
            table = table.append_column("at", pa.array(range(len(updates)), pa.int64()))
        before = {name: model.result(name) for name in queries}
        model.apply(updates, ordered=ordered)
        if number in reopen:
            graph = bj.Graph.open(folder)
        options = {"order": "at"} if ordered else {}
        if spy is not None:
            spy.clear()
        epoch = graph.apply(table, queries, listing=listing, key=key, strategy="local", **options)
        for name in queries:
            after = model.result(name)
            wanted = Counter(after)
            wanted.subtract(before[name])
            wanted = {row: change for row, change in wanted.items() if change}
            found = epoch.queries[name]
            assert found.count == sum(after.values()), name
            assert found.created - found.destroyed == sum(wanted.values()), name
            if listing:
                assert changes_of(name, found.table) == wanted, name
                assert found.created == sum(c for c in wanted.values() if c > 0), name
                if spy is not None and name in spy:
                    assert all(each == wanted for each in spy[name]), (name, spy[name], wanted)
    again = bj.Graph.open(folder)
    for name in queries:
        assert again.count(queries[name], strategy="local") == sum(model.result(name).values()), name
    return graph


def every_execution(found):
    """Run the delta queries of every listing along every path of execution too, and keep what each finds."""

    def spying(plans, phases, schema, folder, options, **more):
        name = plans[0].query.name
        for run in (on_batches, by_loops, spread, balanced):
            rows = Counter()
            for plan in plans:
                for insert, phase in enumerate(phases):
                    for signed in (Signed(plan, dq, bool(insert)) for dq in plan.queries):
                        for bindings in run(signed.dq, phase, 3, listing=True):
                            columns = result_columns(plan.query, signed.dq.plan.attributes, phase)
                            for matches in changed(plan, signed.dq, bindings):
                                for row in zip(*(c.decode(matches).to_pylist() for c in columns), strict=True):
                                    rows[canonical(name, row)] += signed.sign
            found.setdefault(name, []).append({row: change for row, change in rows.items() if change})
        return find.find_changes(plans, phases, schema, folder, options, **more)

    return mock.patch.object(monitor, "find_changes", spying)


brief = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


@brief
@given(st.lists(st.one_of(vertex_rows, edge_rows), max_size=10), epochs_of, st.booleans(), st.booleans(), st.booleans())
def test_epochs_report_the_difference(tmp_path_factory, first, epochs, ordered, with_key, listing):
    folder = tmp_path_factory.mktemp("changes") / "index"
    check(first, epochs, folder, ordered=ordered, with_key=with_key, listing=listing, reopen=(1,))


@brief
@given(st.lists(st.one_of(vertex_rows, edge_rows), max_size=10), epochs_of, st.booleans(), st.booleans())
def test_every_execution_finds_the_same(tmp_path_factory, first, epochs, ordered, with_key):
    found = {}
    with every_execution(found):
        folder = tmp_path_factory.mktemp("changes") / "index"
        check(first, epochs, folder, ordered=ordered, with_key=with_key, listing=True, spy=found)


@pytest.mark.slow
@settings(brief, max_examples=3000)
@given(st.lists(st.one_of(vertex_rows, edge_rows), max_size=10), epochs_of, st.booleans(), st.booleans(), st.booleans())
def test_thousands_of_histories(tmp_path_factory, first, epochs, ordered, with_key, listing):
    folder = tmp_path_factory.mktemp("changes") / "index"
    check(first, epochs, folder, ordered=ordered, with_key=with_key, listing=listing, reopen=(1, 2))
    shutil.rmtree(folder)


@pytest.mark.slow
@settings(brief, max_examples=500)
@given(st.lists(st.one_of(vertex_rows, edge_rows), max_size=10), epochs_of, st.booleans(), st.booleans())
def test_every_execution_of_hundreds_of_histories(tmp_path_factory, first, epochs, ordered, with_key):
    found = {}
    with every_execution(found):
        folder = tmp_path_factory.mktemp("changes") / "index"
        check(first, epochs, folder, ordered=ordered, with_key=with_key, listing=True, spy=found)
    shutil.rmtree(folder)


ACCOUNTS = pa.table({"id": [1, 2, 3, 4], "label": ["person", "bank", "person", "bank"], "age": [10, 20, 30, 40]})
PAYMENTS = [
    {"src": 1, "dst": 2, "pid": 1, "amount": 10, "kind": "pays"},
    {"src": 2, "dst": 3, "pid": 2, "amount": 20, "kind": "owns"},
    {"src": 3, "dst": 1, "pid": 3, "amount": 30, "kind": "pays"},
    {"src": 1, "dst": 2, "pid": 4, "amount": 40, "kind": "owns"},
]


@pytest.fixture
def graph(tmp_path):
    bj.build_index(PAYMENTS, tmp_path / "index", vertices=ACCOUNTS, types="kind")
    return bj.Graph.open(tmp_path / "index")


def rows_of(epoch):
    return sorted(tuple(row.values())[1:] for row in epoch.table.to_pylist())


@pytest.mark.parametrize("strategy", ["shared", "partitioned", "heavy-light", "balanced"])
def test_every_strategy_follows_properties(graph, spark, strategy):
    query = "q(a, b) := edge(a, b), person(a), b.age > 15"
    with graph.on(spark) as shared:
        one = shared.apply([{"id": 2, "op": "=", "label": "bank", "age": 5}], query, strategy=strategy)
        assert rows_of(one) == [(-1, 1, 2)]
        two = shared.apply(
            [
                {"relation": "vertex", "id": 2, "op": "=", "label": "bank", "age": 50},
                {"relation": "vertex", "id": 3, "op": "-"},
                {"relation": "edge", "src": 1, "dst": 4, "op": "+", "pid": 9, "amount": 1, "kind": "pays"},
            ],
            query,
            strategy=strategy,
        )
        assert rows_of(two) == [(1, 1, 2), (1, 1, 4)]
        assert two.fate.replaced == 1
        assert two.fate.deleted == 1


def test_what_becomes_of_updates_of_vertices(graph):
    updates = [
        {"id": 1, "op": "+", "label": "person", "age": 10},  # as it is
        {"id": 2, "op": "+", "label": "bank", "age": 21},
        {"id": 7, "op": "=", "label": "bank", "age": 1},  # nobody knows it
        {"id": 8, "op": "+", "label": "person", "age": None},
        {"id": 3, "op": "-", "label": None, "age": None},
        {"id": 4, "op": "-", "label": None, "age": None},
        {"id": 4, "op": "=", "label": "bank", "age": 41},
    ]
    fate = graph.apply(updates).fate
    assert (fate.present, fate.replaced, fate.absent, fate.inserted, fate.deleted, fate.cancelled) == (1, 2, 1, 1, 1, 1)
    assert fate.vertices == 1
    banks = graph.arrow("q(a, a.age) := bank(a)").read_all().sort_by("a").to_pylist()
    assert banks == [{"a": 2, "a_age": 21}, {"a": 4, "a_age": 41}]
    assert graph.count("q(a) := person(a)") == 2


def test_a_correction_keeps_what_it_does_not_name(graph):
    query = "q(a, b, e.amount, e.kind) := edge(a, b, e), e.pid = 4"
    epoch = graph.apply([{"src": 1, "dst": 2, "op": "=", "pid": 4, "amount": 41}], query, key="pid")
    assert rows_of(epoch) == [(-1, 1, 2, 40, "owns"), (1, 1, 2, 41, "owns")]


def test_a_correction_of_one_of_several_edges_needs_a_key(graph):
    with pytest.raises(SourceError, match=r"one of 2 parallel edges: name the column that tells them apart \(key=, --key\)"):
        graph.apply([{"src": 1, "dst": 2, "op": "=", "amount": 41}])
    assert graph.index.epoch == 0


def test_an_insertion_with_a_known_key_is_present(graph):
    fate = graph.apply([{"src": 1, "dst": 2, "op": "+", "pid": 4, "amount": 99}], key="pid").fate
    assert (fate.present, fate.inserted) == (1, 0)


def test_a_key_has_to_be_a_column(graph):
    with pytest.raises(BigjoinError, match=r"'edge' has no column 'payment' to tell parallel edges apart: it has pid, amount"):
        graph.apply([{"src": 1, "dst": 2, "op": "+", "pid": 4, "amount": 99}], key="payment")


def test_a_typed_update_says_its_type_once(graph):
    with pytest.raises(SourceError, match="names the relation 'pays', and its 'kind' is 'owns': both say the type"):
        graph.apply([{"relation": "pays", "src": 1, "dst": 2, "op": "+", "kind": "owns"}])
    graph.apply([{"relation": "pays", "src": 4, "dst": 2, "op": "+"}])
    assert graph.count("q(a, b) := edge(a, b, e), e.kind = 'pays'") == graph.count("q(a, b) := pays(a, b)") == 3


def test_vertices_arrive_in_files(graph, tmp_path):
    folder = tmp_path / "updates"
    folder.mkdir()
    (folder / "1.csv").write_text("relation,src,dst,id,op,label,age\nvertex,,,2,=,person,20\nedge,4,2,,+,,\n")
    (folder / "2.json").write_text('{"id": 3, "op": "-"}\n')
    query = "q(a, b) := edge(a, b), person(b)"
    options = ["--updates", str(folder), "--once", "--strategy", "local", "--quiet"]
    done = CliRunner().invoke(cli, ["watch", query, str(graph.index.path), *options])
    assert done.exit_code == 0, done.output
    assert "2 epochs, 3 updates, +2 -1 matches; q 3" in done.output


@pytest.mark.parametrize("compacted", [False, True])
def test_a_new_index_says_the_same(graph, tmp_path, compacted):
    graph.apply(
        [
            {"relation": "vertex", "id": 2, "op": "=", "label": "person", "age": 7},
            {"relation": "vertex", "id": 9, "op": "+", "label": "bank", "age": 90},
            {"relation": "edge", "src": 9, "dst": 1, "op": "+", "pid": 5, "amount": 50, "kind": "owns"},
        ]
    )
    if compacted:
        assert not bj.Graph.open(graph.index.path)._without_runs().runs
    again = bj.Graph.open(graph.index.path)
    assert again.arrow("q(a, a.age) := person(a)").read_all().sort_by("a").to_pydict() == {"a": [1, 2, 3], "a_age": [10, 7, 30]}
    assert again.arrow("q(a, b, a.age) := owns(a, b)").read_all().sort_by("a").to_pydict() == {
        "a": [1, 2, 9],
        "b": [2, 3, 1],
        "a_age": [10, 7, 90],
    }


POWER_QUERY = "q(a, b) := edge(a, b), person(b), b.age > 15"


def powered(number):
    """The updates of an epoch: an edge, a label and an age, which come and go."""
    vertex = {"relation": "vertex", "id": 1 + number % 4, "op": "=-+="[number % 4], "label": "person", "age": 10 + 3 * number}
    edge = {"relation": "edge", "src": 1 + number % 3, "dst": 2 + number % 3, "op": "+", "pid": 10 + number, "kind": "owns"}
    gone = {"relation": "edge", "src": 1 + (number - 2) % 3, "dst": 2 + (number - 2) % 3, "op": "-", "pid": 8 + number}
    return [{**NOTHING, **row} for row in (vertex, edge, gone)]


def powered_model():
    model = Model(key=True)
    for row in ACCOUNTS.to_pylist():
        model.vertex({**NOTHING, **row, "op": "+"})
    for row in PAYMENTS:
        model.edge({**NOTHING, **row, "relation": "edge", "op": "+"})
    return model


def seen_in(path):
    """What an index holds: vertices with ages and labels, rows of edges, and a stored result."""
    with bj.Graph.open(path) as graph:
        ages = {(r["a"], r["a_age"]) for r in graph.arrow("q(a, a.age) := person(a)", strategy="local").read_all().to_pylist()}
        edges = graph.arrow("q(a, b, e.pid) := edge(a, b, e)", strategy="local").read_all().to_pylist()
        stored = graph.arrow("q(a, b) := stored(a, b)", strategy="local").read_all().to_pylist()
    return ages, sorted(tuple(row.values()) for row in edges), sorted(tuple(row.values()) for row in stored)


def seen_by(model):
    ages = {(v, row["age"]) for v, row in model.vertices.items() if row["label"] == "person"}
    edges = sorted((a, b, values["pid"]) for a, b, values in model.edges.values())
    age_of = dict(ages)
    return ages, edges, sorted({(a, b) for a, b, _ in edges if (age_of.get(b) or 0) > 15})


@pytest.mark.parametrize("limit", ["MAX_LOG_RECORDS", "MAX_LOGGED_BYTES"])
def test_a_power_failure_leaves_a_whole_epoch(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(commit, limit, {"MAX_LOG_RECORDS": 2, "MAX_LOGGED_BYTES": 0}[limit])
    path = tmp_path / "index"
    bj.build_index(PAYMENTS, path, vertices=ACCOUNTS.append_column("name", pa.nulls(4, pa.string())), types="kind")
    graph = bj.Graph.open(path)
    graph.materialize("stored", POWER_QUERY.replace("q(", "stored("))
    model, disk, random = powered_model(), Disk(path), Random(3)
    known, tried = [seen_by(model)], []

    def fail():
        left = tmp_path / "left"
        disk.failed(left, random)
        if len(tried) % 3 == 0:
            epoch = bj.Graph.open(left).index.epoch
            assert len(known) - 2 <= epoch < len(known)
            assert seen_in(left) == known[epoch]
        tried.append(left)
        shutil.rmtree(left)

    with monkeypatch.context() as patched:
        listen(disk, patched, fail)
        for number in range(8):
            updates = powered(number)
            model.apply(updates, ordered=False)
            known.append(seen_by(model))
            graph.apply(pa.Table.from_pylist(updates, SCHEMA), POWER_QUERY, key="pid", strategy="local")
    assert len(tried) > 12
    assert seen_in(path) == known[-1]


KILLED = """
import os, signal, sys
at, seen = int(sys.argv[1]), 0
def counted(name):
    real = getattr(os, name)
    def call(*given, **named):
        global seen
        seen += 1
        if seen == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*given, **named)
    setattr(os, name, call)
for name in ("fsync", "fdatasync", "replace", "rename", "unlink", "mkdir"):
    counted(name)
from bigjoin.cli.main import main
sys.argv = ["bigjoin", *sys.argv[2:]]
main()
"""
"""The command, killed when it touches the disk for the at-th time."""


def everything(folder):
    """An index with a stored result, and six files of updates, each with a row that nobody can read."""
    bj.build_index(PAYMENTS, folder / "index", vertices=ACCOUNTS.append_column("name", pa.nulls(4, pa.string())), types="kind")
    bj.Graph.open(folder / "index").materialize("stored", POWER_QUERY.replace("q(", "stored("))
    (folder / "updates").mkdir()
    model, results = powered_model(), []
    for number in range(6):
        updates = powered(number)
        results.append(watched_by(model))
        model.apply(updates, ordered=False)
        bad = {**NOTHING, "relation": "edge", "src": 1, "op": "+", "pid": number}
        table = pa.Table.from_pylist([*updates, bad], SCHEMA)
        pq.write_table(table, folder / "updates" / f"{number}.parquet")
    return [*results, watched_by(model)], seen_by(model)


def watched_by(model):
    """What the queries of the command find, by definition."""
    _, edges, stored = seen_by(model)
    fans = {b: [pid for _, other, pid in edges if other == b] for _, b, _ in edges}
    return {"kept": set(stored), "fanin": {(b, len(pids)) for b, pids in fans.items() if len(pids) >= 2}}


@pytest.mark.slow
def test_killed_with_everything_at_once(tmp_path):
    """Stored results, groups and bad rows: whatever step a process is killed at, the next one makes the same of it."""
    results, last = everything(tmp_path / "place")
    place, kept = tmp_path / "place", tmp_path / "kept"
    queries = ["kept=kept(a, b) := stored(a, b)", "fanin=fanin(b, count(e) as n) := edge(a, b, e) having n >= 2"]
    options = ["--updates", "updates", "--output", "found", "--once", "--key", "pid", "--on-bad-row", "quarantine", "--quiet"]
    command = ["watch", *queries, "index", *options, "--strategy", "local"]

    def run(at):
        done = subprocess.run([sys.executable, "-c", KILLED, str(at), *command], cwd=place, capture_output=True, text=True)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        return done.returncode == 0

    shutil.copytree(place, kept)
    kills, at = 0, 3
    while not run(at):
        kills += 1
        assert run(0)
        for name, shown in (("kept", None), ("fanin", 1)):
            inside = set(results[0][name]) if shown is None else {row[:shown] for row in results[0][name]}
            for number in range(1, 7):
                rows = pq.read_table(place / "found" / name / f"epoch={number}", partitioning=None).to_pylist()
                signed = [(row.pop("change"), tuple(row.values())[:shown]) for row in rows]
                assert len(signed) == len(set(signed))
                inside = inside - {row for sign, row in signed if sign < 0} | {row for sign, row in signed if sign > 0}
                wanted = results[number][name]
                assert inside == (wanted if shown is None else {row[:shown] for row in wanted}), (at, name, number)
        bad = ds.dataset(place / "found" / "_quarantine", format="parquet").to_table().to_pylist()
        assert sorted(row["source"] for row in bad) == sorted(f"updates/{number}.parquet" for number in range(6))
        assert seen_in(place / "index") == last
        shutil.rmtree(place)
        shutil.copytree(kept, place)
        at += 9
    assert kills > 5


def test_a_label_that_all_vertices_have_is_not_taken_for_granted(tmp_path):
    everybody = pa.table({"id": [1, 2, 3], "label": ["person"] * 3})
    bj.build_index([(1, 2), (2, 1), (2, 3)], tmp_path / "index", vertices=everybody)
    graph = bj.Graph.open(tmp_path / "index")
    graph.materialize("stored", "stored(a, b) := edge(a, b), person(b)")
    query = "q(a, b) := edge(a, b), person(b)"
    epoch = graph.apply([{"id": 2, "op": "=", "label": "ghost"}], query)
    assert rows_of(epoch) == [(-1, 1, 2)]
    assert rows_of(graph.apply([{"src": 1, "dst": 9, "op": "+"}], query)) == []  # of whom nothing is known
    assert graph.count(query) == graph.count("q(a, b) := stored(a, b)") == 2


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
def test_relations_are_named_in_any_kind_of_text(graph, kind):
    rows = pa.table(
        {
            "relation": pa.array(["pays", "vertex", "edge"]).cast(kind),
            "src": [4, None, 4],
            "dst": [2, None, 3],
            "id": [None, 3, None],
            "op": ["+", "-", "+"],
            "kind": [None, None, "owns"],
        }
    )
    fate = graph.apply(rows).fate
    assert (fate.inserted, fate.deleted) == (2, 1)
    assert graph.count("q(a, b) := edge(a, b)") == 5
    assert (graph.count("q(a, b) := pays(a, b)"), graph.count("q(a, b) := owns(a, b)")) == (3, 3)
    graph.apply([{"src": 4, "dst": 2, "op": "-"}])
    assert graph.count("q(a, b) := pays(a, b)") == 2


def test_typed_edges_become_double_together(graph):
    with pytest.warns(UserWarning, match="is double from now on"):
        graph.apply([{"src": 4, "dst": 2, "op": "+", "pid": 9, "amount": 0.5, "kind": "pays"}])
    graph.apply([{"src": 4, "dst": 3, "op": "+", "pid": 10, "amount": 1, "kind": "owns"}])
    again = bj.Graph.open(graph.index.path)
    found = again.arrow("q(a, b, e.amount) := pays(a, b, e)").read_all().sort_by("e_amount").to_pylist()
    assert [row["e_amount"] for row in found] == [0.5, 10.0, 30.0]
    assert again.count("q(a, b) := owns(a, b)") == 3


def test_a_key_that_leaves_the_window_can_come_again(tmp_path):
    bj.build_index([{"src": 1, "dst": 2, "pid": 1, "at": 0}], tmp_path / "index")
    (tmp_path / "updates").mkdir()
    (tmp_path / "updates" / "1.csv").write_text("src,dst,pid,at,op\n1,2,1,12,+\n")
    options = ["--window", "10", "--time", "at", "--key", "pid", "--once", "--strategy", "local", "--json", "--quiet"]
    command = ["watch", "q(a, b, e.at) := edge(a, b, e)", str(tmp_path / "index"), "--updates", str(tmp_path / "updates")]
    done = CliRunner().invoke(cli, [*command, *options])
    line = json.loads(done.stdout)
    assert (line["inserted"], line["expired"], line["count"]) == (1, 1, 1)


def test_a_row_that_says_two_types_is_bad(graph):
    rows = [
        {"relation": "pays", "src": 1, "dst": 2, "op": "+", "kind": "owns"},
        {"relation": "pays", "src": 4, "dst": 2, "op": "+"},
    ]
    fate = graph.apply(rows, on_bad_row="skip").fate
    assert (fate.bad, fate.inserted) == (1, 1)
