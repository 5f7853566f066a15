"""Stored results follow updates: after each epoch they are what their queries find, and queries over them are watched."""

from __future__ import annotations

import pyarrow as pa
import pytest

import bigjoin as bj
from bigjoin.streaming import commit, stored_results


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


def stored(graph, name, *head):
    shown = ", ".join(head)
    return sorted(tuple(row.values()) for row in graph.arrow(f"q({shown}) := {name}({shown})").read_all().to_pylist())


def test_a_tuple_goes_with_its_last_match(tmp_path, monkeypatch):
    """Many are looked up in pieces, and each of them may have several matches."""
    monkeypatch.setattr(stored_results, "LOOKED_UP_AT_ONCE", 2)
    bj.build_index([(1, 2), (2, 3), (1, 4), (4, 3), (2, 5), (2, 6)], tmp_path / "index")
    graph = bj.Graph.open(tmp_path / "index")
    assert graph.materialize("far", "far(a, c) := edge(a, b), edge(b, c)") == 3
    epoch = graph.apply([{"src": 1, "dst": 2, "op": "-"}], "q(a, c) := far(a, c)")
    assert sorted(tuple(row.values())[1:] for row in epoch.table.to_pylist()) == [(-1, 1, 5), (-1, 1, 6)]
    assert stored(graph, "far", "a", "c") == [(1, 3)]
    epoch = graph.apply([{"src": 4, "dst": 3, "op": "-"}, {"src": 9, "dst": 3, "op": "+"}, {"src": 1, "dst": 9, "op": "+"}])
    assert stored(bj.Graph.open(tmp_path / "index"), "far", "a", "c") == [(1, 3)]


def test_induced_and_distinct_results_with_fewer_columns_follow(tmp_path):
    bj.build_index([(1, 2), (2, 3), (3, 1), (4, 4)], tmp_path / "index")
    graph = bj.Graph.open(tmp_path / "index")
    graph.materialize("open", "open(a, c) := edge(a, b), edge(b, c)", induced=True)
    graph.materialize("corner", "corner(a) := edge(a, b), edge(b, c), a.id < 3", unique=True)
    assert stored(graph, "open", "a", "c") == []
    graph.apply([{"src": 3, "dst": 1, "op": "-"}, {"src": 4, "dst": 1, "op": "+"}])
    again = bj.Graph.open(tmp_path / "index")
    assert stored(again, "open", "a", "c") == [(1, 3)]  # of 4, which has a loop, nothing is induced
    assert stored(again, "corner", "a") == [(1,)]


def test_what_cannot_follow_is_dropped_and_told(tmp_path):
    bj.build_index([(1, 2), (2, 3), (3, 1)], tmp_path / "index")
    graph = bj.Graph.open(tmp_path / "index")
    graph.materialize("corner", "corner(a) := edge(a, b), edge(b, c), edge(c, a)", unique=True)
    with pytest.warns(UserWarning, match="stored results are dropped: corner: any form of their `unique` matches"):
        graph.apply([{"src": 3, "dst": 4, "op": "+"}])
    assert "corner" not in graph.index.statistics.relations
