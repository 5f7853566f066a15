"""Stored results follow updates: after each epoch they are what their queries find, and queries over them are watched."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bigjoin as bj
from bigjoin.streaming import commit

brief = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
IDS = range(1, 6)
edges = st.lists(st.tuples(st.sampled_from(IDS), st.sampled_from(IDS)), max_size=6)
epochs_of = st.lists(st.tuples(edges, edges), min_size=1, max_size=4)

STORED = {
    "tri": ("tri(a, b, c) := edge(a, b), edge(b, c), edge(c, a)", {}),
    "ring": ("ring(a, b, c) := edge(a, b), edge(b, c), edge(c, a)", {"unique": True}),
    "open": ("open(a, b, c) := edge(a, b), edge(b, c), not edge(a, c)", {}),
    "back": ("back(a, b) := edge(a, b), edge(b, a)", {}),
    "loop": ("loop(a) := edge(a, a)", {}),
}


def results(pairs):
    """What is stored, by definition; rings as sets of vertices, each with how often it is there."""
    every = [(a, b, c) for a, b in pairs for x, c in pairs if x == b]
    tri = {(a, b, c) for a, b, c in every if (c, a) in pairs}
    return {
        "tri": tri,
        "ring": {min((a, b, c), (b, c, a), (c, a, b)) for a, b, c in tri if len({a, b, c}) == 3},
        "open": {(a, b, c) for a, b, c in every if (a, c) not in pairs},
        "back": {(a, b) for a, b in pairs if (b, a) in pairs},
        "loop": {(a,) for a, b in pairs if a == b},
    }


def watched_result(pairs):
    return {(*match, d) for match in results(pairs)["tri"] for x, d in pairs if x == match[2] and (match[0], d) not in pairs}


def check(first, epochs, folder, *, flushes):
    pairs = set(first)
    table = pa.table({"src": [a for a, _ in sorted(pairs)], "dst": [b for _, b in sorted(pairs)]})
    bj.build_index(table.cast(pa.schema([("src", pa.int64()), ("dst", pa.int64())])), folder)
    graph = bj.Graph.open(folder)
    for name, (text, flags) in STORED.items():
        graph.materialize(name, text, **flags)
    query = "q(a, b, c, d) := tri(a, b, c), edge(c, d), not edge(a, d)"
    for number, (deleted, inserted) in enumerate(epochs):
        before = watched_result(pairs)
        pairs = pairs - set(deleted) | set(inserted)
        rows = [{"src": a, "dst": b, "op": "-"} for a, b in deleted] + [{"src": a, "dst": b, "op": "+"} for a, b in inserted]
        schema = pa.schema([("src", pa.int64()), ("dst", pa.int64()), ("op", pa.string())])
        epoch = graph.apply(pa.Table.from_pylist(rows, schema), query, strategy="local")
        after = watched_result(pairs)
        found = [tuple(row.values())[1:] for row in epoch.table.to_pylist()]
        assert sorted(found) == sorted([*((-1, *row) for row in before - after), *((1, *row) for row in after - before)])
        if flushes and number % 2:
            graph = bj.Graph.open(folder)
    again = bj.Graph.open(folder)
    for name, wanted in results(pairs).items():
        width = len(STORED[name][0].partition("(")[2].partition(")")[0].split(","))
        head = ", ".join("abc"[:width])
        rows = [
            tuple(row.values()) for row in again.arrow(f"q({head}) := {name}({head})", strategy="local").read_all().to_pylist()
        ]
        assert len(rows) == len(set(rows))
        known = {min(row[i:] + row[:i] for i in range(3)) for row in rows} if name == "ring" else set(rows)
        assert (known, len(rows)) == (wanted, len(wanted)), name


@brief
@given(edges, epochs_of, st.booleans())
def test_stored_results_are_what_their_queries_find(tmp_path_factory, first, epochs, flushes):
    check(first, epochs, tmp_path_factory.mktemp("stored") / "index", flushes=flushes)


@pytest.mark.slow
@settings(brief, max_examples=1000)
@given(edges, epochs_of, st.booleans())
def test_stored_results_of_a_thousand_histories(tmp_path_factory, first, epochs, flushes):
    check(first, epochs, tmp_path_factory.mktemp("stored") / "index", flushes=flushes)


def test_a_stored_result_follows_properties_and_a_folded_log(tmp_path, monkeypatch):
    monkeypatch.setattr(commit, "MAX_LOG_RECORDS", 2)
    accounts = pa.table({"id": [1, 2, 3], "age": [10, 20, 30]})
    bj.build_index([(1, 2), (2, 3), (3, 1)], tmp_path / "index", vertices=accounts)
    graph = bj.Graph.open(tmp_path / "index")
    graph.materialize("older", "older(a, b) := edge(a, b), b.age > a.age")
    graph.materialize("adults", "adults(a, b) := edge(a, b), b.age >= 18")
    for id_, age in ((1, 40), (2, 17), (3, 5), (1, 10), (3, 50)):
        graph.apply([{"id": id_, "op": "=", "age": age}])
    again = bj.Graph.open(tmp_path / "index")
    assert again.arrow("q(a, b) := older(a, b)").read_all().sort_by("a").to_pylist() == [{"a": 1, "b": 2}, {"a": 2, "b": 3}]
    assert again.arrow("q(a, b) := adults(a, b)").read_all().to_pylist() == [{"a": 2, "b": 3}]


def test_what_cannot_follow_is_dropped_and_told(tmp_path):
    bj.build_index([(1, 2), (2, 3)], tmp_path / "index")
    graph = bj.Graph.open(tmp_path / "index")
    graph.materialize("far", "far(a, c) := edge(a, b), edge(b, c)")
    with pytest.warns(UserWarning, match="stored results are dropped: far: their heads leave attributes out"):
        graph.apply([{"src": 3, "dst": 1, "op": "+"}])
    assert "far" not in graph.index.statistics.relations
