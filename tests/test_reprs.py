"""What values look like at a prompt and in a notebook: one quiet line, and HTML that is well formed and escaped."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pyarrow as pa
import pytest

import bigjoin as bj
from bigjoin.drawing.stats import stats_html
from bigjoin.html_tables import MAX_CELL_CHARACTERS, bar, table, titled
from bigjoin.index.contents import MAX_NAMES
from bigjoin.index.directory import Index
from bigjoin.storage.scratch import scratch_directory
from bigjoin.streaming.watch_facts import WatchBeginning, WatchFacts

PAYS = pa.table({"src": [1, 2, 3, 1], "dst": [2, 3, 1, 2], "amount": [5.0, 6.0, 7.0, 8.0], "day": [1, 2, 3, 4]})
KNOWS = pa.table({"src": [1, 4], "dst": [2, 1]})
PEOPLE = pa.table({"id": [1, 2, 3, 4, 5], "label": ["person", "person", "person", "firm", "firm"], "name": list("abcde")})
RING = "ring(a, b, c) := pays(a, b), pays(b, c), pays(c, a)"


@pytest.fixture(scope="module")
def bank():
    with bj.Graph({"pays": PAYS, "knows": KNOWS}, vertices=PEOPLE) as graph:
        yield graph


def cells(shown) -> list[list[str]]:
    """The rows of the tables in HTML that a notebook shows, which has to be well formed."""
    root = ElementTree.fromstring(shown._repr_html_())
    return [["".join(cell.itertext()) for cell in row] for row in root.iter("tr")]


def text(shown) -> str:
    """All text of what a notebook shows."""
    return " ".join("".join(ElementTree.fromstring(shown._repr_html_()).itertext()).split())


def test_a_graph_is_one_line(bank):
    pairs = bj.Graph(pa.table({"src": [1, 2, 2], "dst": [2, 1, 3]}), directed=False)
    assert repr(pairs) == "Graph: 3 vertices, 2 edges, undirected; edge(src, dst)"
    assert repr(bank) == (
        "Graph: 5 vertices, 5 edges, directed; pays(src, dst, amount, day), knows(src, dst), person(id), firm(id); "
        "vertices(id, label, name)"
    )
    pairs.close()
    assert repr(pairs).endswith("; closed")


def test_a_graph_in_a_notebook_is_a_small_table(bank):
    assert text(bank).startswith("Graph 5 vertices, 5 edges, directed")
    assert cells(bank) == [
        ["relation", "what", "tuples", "rows", "columns"],
        ["pays", "edges", "3", "4", "src, dst, amount, day"],
        ["knows", "edges", "2", "", "src, dst"],
        ["person", "label", "3", "", "id"],
        ["firm", "label", "2", "", "id"],
        ["", "vertices", "5", "", "id, label, name"],
    ]


def test_a_graph_says_what_it_has_stored_and_its_epoch():
    with bj.Graph(pa.table({"src": [1, 2, 3], "dst": [2, 3, 1]})) as graph:
        graph.materialize("tri", "3-cycle")
        graph.apply(pa.table({"src": [3], "dst": [4], "op": ["+"]}), "2-path")
        assert repr(graph) == "Graph: 4 vertices, 4 edges, directed; edge(src, dst), tri(a1, a2, a3); epoch 1"
        assert cells(graph)[2] == ["tri", "stored result", "3", "a1, a2, a3"]


def test_many_relations_are_cut_short():
    row = pa.table({"src": [1], "dst": [2]})
    with bj.Graph({f"r{i}": row for i in range(MAX_NAMES + 3)}) as graph:
        assert repr(graph).endswith(f"r{MAX_NAMES - 1}(src, dst) and 3 more")
        assert len(cells(graph)) == 1 + MAX_NAMES + 3 + 1


def test_an_index_is_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    index = bj.build_index(PAYS, "bank.index")
    assert repr(index) == "Index bank.index: 3 vertices, 3 edges, directed; edge(src, dst, amount, day)"
    assert repr(Index.open(tmp_path / "bank.index")) == repr(index)
    assert text(index).startswith("Index bank.index, 0.0 MB, epoch 0")
    monkeypatch.chdir("/")
    assert repr(Index.open(tmp_path / "bank.index")).startswith(f"Index {tmp_path / 'bank.index'}".replace(" /", " ", 1))


def test_an_index_of_relations_has_no_vertices():
    with bj.Relations({"r": pa.table({"a": [1, 2], "b": [2, 3], "c": [3, 4]})}) as relations:
        index = relations._index_for(bj.Relations.plan(relations, "q(x, y, z) := r(x, y, z)").query)
        assert repr(index).endswith(": r(a, b, c)")
        assert cells(index)[1] == ["r", "relation", "2", "a, b, c"]


def test_relations_say_what_they_are_without_reading(tmp_path):
    (tmp_path / "t.csv").write_text("c,a\n3,1\n")
    given = {
        "r": pa.table({"a": [1], "b": [2]}),
        "s": pd.DataFrame({"b": [2, 2], "c": [3, 4]}),
        "t": str(tmp_path / "t.csv"),
        "u": [(1, 2), (2, 3), (3, 4)],
        "v": [{"x": 1, "y": 2}],
    }
    with bj.Relations(given) as relations:
        assert repr(relations) == (
            f"Relations: r(a, b), 1 row; s(b, c), 2 rows; t, from {tmp_path / 't.csv'}; u, 3 rows; v(x, y), 1 row"
        )
        assert relations.count("q(x, y) := t(x, y)") == 1
        assert f"t(c, a), 1 row, from {tmp_path / 't.csv'}" in repr(relations)
        assert cells(relations)[1] == ["r(a, b)", "1 row", ""]
    with bj.Relations({"r": given["r"]}) as relations:
        assert cells(relations) == [["relation", "rows"], ["r(a, b)", "1 row"]]


def test_a_count_is_digits(bank):
    count = bank.count(RING, strategy="local")
    assert (repr(count), str(count), f"{count:,}") == ("3", "3", "3")
    assert text(count).startswith("3 matches, local, 0.")
    assert text(bank.count(RING, where="a = 1", strategy="local")).startswith("1 match, local")
    assert bj.Count(7)._repr_html_() is None


def test_stats_are_a_dictionary(bank):
    stats = bank.count(RING, strategy="local", seeds={"a": [1, 2, 99]}).stats
    assert isinstance(stats, bj.Stats)
    assert isinstance(stats, dict)
    assert json.loads(json.dumps(stats)) == stats
    assert cells(stats)[0] == ["step", "candidates", "prefixes", ""]
    assert ["seeds", "3", "2"] in cells(stats), cells(stats)
    assert ["AGM bound: matches at most", f"{stats['agm']:,.3g}"] in cells(stats)
    assert "of planning" in text(stats)


def test_every_figure_of_a_run_is_shown():
    stats = bj.Stats(
        workers=4,
        rounds=3,
        exchanges=2,
        bytes=1234,
        tuples=567,
        load={"max": 90, "mean": 45.0},
        exchange_loads=[{"max": 50, "mean": 25.0}, {"max": 40, "mean": 20.0}],
        critical_path=88,
        steps=[{"attribute": "a,b", "prefixes": 10, "candidates": 20}, {"attribute": "c", "prefixes": 3, "candidates": 40}],
        tasks={"count": 2, "seconds": {"max": 1.5, "mean": 1.25}},
        busy=0.83,
        peak_memory=3 << 20,
        kernels_compiled=0,
        waiting={"prefixes": 7, "bytes": 4321},
        seconds={"plan": 0.25, "run": 1.75},
        index_tuples={"max": 30, "mean": 28.0},
        agm=99.0,
    )
    rows = cells(stats)
    assert ["1: a,b", "20", "10", ""] in rows
    assert ["2: c", "40", "3", ""] in rows
    assert ["seconds of a task", "1.5", "1.25", ""] in rows
    assert ["tuples that a worker received in a round", "90", "45", ""] in rows
    assert ["tuples of the index that a worker has", "30", "28", ""] in rows
    plain = {row[0]: row[1] for row in rows if len(row) == 2}
    assert plain == {
        "workers": "4",
        "rounds": "3",
        "exchanges": "2",
        "tuples sent": "567",
        "bytes sent": "1,234",
        "tuples on the critical path": "88",
        "AGM bound: matches at most": "99",
        "tasks": "2",
        "memory of a task, at most": "3.0 MB",
        "waiting": "prefixes 7, bytes 4,321",
    }
    assert ["2", "40", "20", ""] in rows
    assert text(stats).startswith("Stats 1.75 s, after 0.25 s of planning")


def test_stats_without_figures_are_shown_too():
    assert ElementTree.fromstring(stats_html({})) is not None
    assert ElementTree.fromstring(stats_html({"steps": [], "<b>": "<i>"})) is not None


def test_an_estimate_has_its_interval():
    exact = bj.Estimate(1234, 1234, 1234, exact=True, seconds=0.5)
    rough = bj.Estimate(1234, 1000, 1500, exact=False, samples=32, proposals=2048, seconds=0.25)
    assert repr(exact) == "Estimate: 1,234, exactly"
    assert repr(rough) == "Estimate: 1,234, between 1,000 and 1,500 in 95 % of cases"
    assert (str(exact), str(rough)) == ("1234", "1234 (95 %: 1000 to 1500)")
    assert text(exact) == "1,234 matches, exactly, 0.50 s"
    assert cells(rough) == [["low", "1,000", ""], ["count", "1,234", ""], ["high", "1,500", ""]]


def test_an_epoch_says_what_it_did():
    with bj.Graph(pa.table({"src": [1, 2, 5], "dst": [2, 3, 6]})) as graph:
        updates = pa.table({"src": [3, 5, 1], "dst": [1, 6, 2], "op": ["+", "-", "+"]})
        epoch = graph.apply(updates, {"cycles": "3-cycle", "edges": "q(a, b) := edge(a, b)"})
    assert repr(epoch) == "Epoch 1: 1 inserted, 1 deleted, 1 present already; cycles +3 -0, now 3; edges +1 -1, now 3"
    assert cells(epoch) == [
        ["query", "created", "destroyed", "matches now"],
        ["cycles", "3", "0", "3"],
        ["edges", "1", "1", "3"],
    ]
    assert text(epoch).startswith("Epoch 1 1 inserted, 1 deleted, 1 present already, 0.")
    changes = epoch.queries["edges"]
    assert repr(changes) == "QueryChanges of epoch 1: +1 -1, now 3"
    assert cells(changes) == [["created", "destroyed", "matches now"], ["1", "1", "3"]]
    assert text(bj.Epoch(3, epoch.fate)).startswith("Epoch 3 1 inserted")


def test_text_of_users_is_escaped():
    bad = "<script>alert('&')</script>"
    for shown in (table([(bad, 1, None)], (bad,)), titled(bad, bad), bar(0.5, mark=0.7)):
        root = ElementTree.fromstring(shown)
        assert "script" not in {element.tag for element in root.iter()}
    assert len("".join(ElementTree.fromstring(table([("x" * 1000,)])).itertext())) == MAX_CELL_CHARACTERS
    with bj.Relations({"r": pa.table({bad: [1], "b": [2]})}) as relations:
        assert "<script>" not in relations._repr_html_()
        assert bad in text(relations)


class Stream:
    """Stands for a streaming query of Spark."""

    def __init__(self, *, active=True, failure=None):
        self.isActive, self.failure = active, failure

    def exception(self):
        return self.failure


class WatchedStream(WatchFacts, Stream):
    """What `Graph.watch` makes of it."""


def test_a_watch_looks_at_its_index(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bj.build_index(pa.table({"src": [1, 2], "dst": [2, 3]}), "g.index")
    graph = bj.Graph.open("g.index")
    texts = {"cycles": str(graph.plan("3-cycle").query)}
    watch = WatchedStream()
    watch._beginning = WatchBeginning(graph.index.path, texts, tmp_path / "out", 0, {"cycles": 0})
    assert repr(watch) == "Watch of cycles: running, epoch 0; cycles 0; output in out"
    graph.apply(pa.table({"src": [3], "dst": [1], "op": ["+"]}), {"cycles": "3-cycle"})
    assert (watch.epoch, watch.counts, watch.output, dict(watch.queries)) == (1, {"cycles": 3}, tmp_path / "out", texts)
    assert repr(watch) == "Watch of cycles: running, epoch 1; cycles 3; output in out"
    assert cells(watch)[1][::2] == ["cycles", "3"]
    graph.apply(pa.table({"src": [3], "dst": [1], "op": ["-"]}), {"edges": "q(a, b) := edge(a, b)"})
    assert (watch.epoch, watch.counts) == (2, {})  # what is watched was not counted in that epoch
    watch.isActive = False
    assert repr(watch) == "Watch of cycles: stopped, epoch 2; output in out"
    watch.failure = ValueError("no such column")
    assert repr(watch) == "Watch of cycles: stopped: no such column, epoch 2; output in out"
    monkeypatch.setattr(WatchedStream, "exception", lambda self: 1 / 0)
    assert repr(watch) == "Watch of cycles: stopped: its session has ended, epoch 2; output in out"
    watch._beginning = WatchBeginning(scratch_directory("empty"), texts, None, 0, {"cycles": 0})
    assert repr(watch).endswith("; its index is gone")
    assert cells(watch)[1][::2] == ["cycles", ""]


@pytest.mark.spark
def test_a_watch_is_still_a_streaming_query(spark, tmp_path):
    from pyspark.sql.streaming.query import StreamingQuery

    folder = tmp_path / "updates"
    folder.mkdir()
    (folder / "1.json").write_text(json.dumps({"src": 3, "dst": 1, "op": "+"}))
    stream = spark.readStream.schema("src long, dst long, op string").json(str(folder))
    with bj.Graph(pa.table({"src": [1, 2], "dst": [2, 3]}), spark=spark) as graph:
        watch = graph.watch("3-cycle", stream, output=tmp_path / "out", trigger={"availableNow": True})
        assert isinstance(watch, StreamingQuery)
        assert repr(watch).startswith("Watch of 3-cycle: ")
        watch.awaitTermination()
        assert repr(watch) == f"Watch of 3-cycle: stopped, epoch 1; 3-cycle 3; output in {tmp_path / 'out'}"
        assert (watch.epoch, watch.counts, watch.isActive) == (1, {"3-cycle": 3}, False)
        assert watch.id != watch.runId
        assert watch.lastProgress is not None
        assert watch.exception() is None
        assert cells(watch)[1][::2] == ["3-cycle", "3"]


@pytest.mark.spark
def test_frames_of_a_session_are_told_by_their_columns(spark):
    frame = spark.createDataFrame([(1, 2)], "a long, b long")
    with bj.Relations({"r": frame}, spark=spark) as relations:
        assert repr(relations) == "Relations: r(a, b)"


def test_paths_below_the_current_folder_are_relative(tmp_path, monkeypatch):
    from bigjoin.paths import shown_path

    monkeypatch.chdir(tmp_path)
    assert shown_path(tmp_path / "a" / "b") == "a/b"
    assert shown_path(Path("a")) == "a"
    assert shown_path(Path("/elsewhere")) == "/elsewhere"
