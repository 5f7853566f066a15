"""Vertices, labels, properties and typed edges change: an epoch reports the difference of two results, by definition."""

from __future__ import annotations

import json
import math
import shutil
import signal
import subprocess
import sys
from random import Random

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import bigjoin as bj
from bigjoin.cli.main import cli
from bigjoin.errors import BigjoinError, SourceError
from bigjoin.streaming import commit
from tests.oracles.property_graph import PropertyGraph
from tests.power import Disk, listen

COLUMNS = ("relation", "src", "dst", "id", "op", "label", "age", "name", "pid", "amount", "kind")
NOTHING = dict.fromkeys(COLUMNS)
SCHEMA = pa.schema(
    [(name, pa.string() if name in ("relation", "op", "label", "name", "kind") else pa.int64()) for name in COLUMNS]
)


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
        graph.apply([{"src": 4, "dst": 1, "op": "+"}, {"src": 1, "dst": 2, "op": "=", "amount": 41}])
    assert graph.index.epoch == 0


def test_a_correction_that_could_mean_several_edges_is_a_bad_row(graph, tmp_path):
    (tmp_path / "updates").mkdir()
    (tmp_path / "updates" / "1.csv").write_text("src,dst,op,amount\n4,1,+,7\n1,2,=,41\n2,3,=,22\n")
    options = ["--updates", str(tmp_path / "updates"), "--once", "--strategy", "local", "--quiet"]
    command = ["watch", "q(a, b, e.amount) := edge(a, b, e)", str(graph.index.path), *options]
    refused = CliRunner().invoke(cli, command)
    assert str(refused.exception).startswith("row 2 of ")
    assert "parallel edges: name the column that tells them apart (key=, --key); nothing of epoch 1" in str(refused.exception)
    output = tmp_path / "found"
    done = CliRunner().invoke(cli, [*command, "--on-bad-row", "quarantine", "--output", str(output)])
    assert done.exit_code == 0, done.output
    (bad,) = ds.dataset(output / "_quarantine" / "epoch=1", format="parquet").to_table().to_pylist()
    assert bad["reason"].startswith("the row replaces the properties of one of 2 parallel edges")
    assert bad["number"] == 2
    assert json.loads((output / "_counts.jsonl").read_text())["replaced"] == 1


def test_a_typed_relation_is_about_its_own_edges(graph):
    """1 pays 2, and owns it."""
    query = "q(e.pid, e.amount, e.kind) := edge(a, b, e), e.amount < 50"
    epoch = graph.apply([{"relation": "pays", "src": 1, "dst": 2, "op": "=", "amount": 11}], query)
    assert rows_of(epoch) == [(-1, 1, 10, "pays"), (1, 1, 11, "pays")]
    epoch = graph.apply([{"relation": "owns", "src": 1, "dst": 2, "op": "=", "pid": 1, "amount": 12}], query, key="pid")
    assert epoch.fate.absent == 1
    epoch = graph.apply([{"relation": "owns", "src": 1, "dst": 2, "op": "-", "pid": 1}], query, key="pid")
    assert epoch.fate.absent == 1


def test_another_row_that_names_its_type_gives_no_column(graph):
    """The table has no column of types, so that of what is corrected stays."""
    owned = {"relation": "owns", "src": 4, "dst": 2, "op": "+", "pid": 9}
    corrected = {"relation": "edge", "src": 3, "dst": 1, "op": "=", "pid": 7}
    assert graph.apply([owned, corrected]).fate.replaced == 1
    assert graph.count("q(a, b) := pays(a, b)") == 2


def test_nan_is_a_value_like_any_other(tmp_path):
    nan = math.nan
    bj.build_index([{"src": 1, "dst": 2, "rate": nan}, {"src": 1, "dst": 2, "rate": 0.5}], tmp_path / "index")
    graph = bj.Graph.open(tmp_path / "index")
    fate = graph.apply([{"src": 1, "dst": 2, "rate": nan, "op": op} for op in "+="], key="rate").fate
    assert (fate.present, fate.replaced) == (2, 0)
    assert graph.apply([{"src": 1, "dst": 2, "rate": nan, "op": "-"}]).fate.deleted == 1
    updates = [{"src": 3, "dst": 4, "rate": nan, "op": "+", "at": 1}, {"src": 3, "dst": 4, "rate": nan, "op": "-", "at": 2}]
    assert graph.apply(updates, order="at").fate.cancelled == 2
    assert graph.apply([{"src": 1, "dst": 2, "rate": nan, "op": "-"}], key="rate").fate.absent == 1
    assert graph.edge_count == 1


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
    model = PropertyGraph(key="pid")
    rows = [{**NOTHING, **row, "relation": "vertex", "op": "+"} for row in ACCOUNTS.to_pylist()]
    model.apply([*rows, *({**NOTHING, **row, "relation": "edge", "op": "+"} for row in PAYMENTS)], COLUMNS, ordered=False)
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
    edges = sorted((*edge.ends, edge.values["pid"]) for edge in model.edges.values())
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
            model.apply(updates, COLUMNS, ordered=False)
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
        model.apply(updates, COLUMNS, ordered=False)
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
