"""The benchmark harness: turns, cut-offs, counts, lines of results, and the page that is made of them."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from bigjoin.cli.main import cli
from bigjoin.errors import BigjoinError
from bigjoin_bench import graphs
from bigjoin_bench.contenders import CONTENDERS, DATAFLOW_JOIN, PAPER_SIZES, SYNCS, Adapter, Contender
from bigjoin_bench.feeds import Feed
from bigjoin_bench.graphs import ATTRIBUTES, BUNDLED, DIRECTED, HUB, LEAVES, TABLES, TEXT, UNDIRECTED, AbsentError, Library
from bigjoin_bench.motifs import COUNTED, READ, TIMED
from bigjoin_bench.peers import changes
from bigjoin_bench.peers.dataflow_join import outcome
from bigjoin_bench.peers.one_thread import Alone, Steps
from bigjoin_bench.peers.sql import as_join, by_hand, restricted
from bigjoin_bench.process import CutOff, Failed, Process, Reply
from bigjoin_bench.question import DISTINCT, UNIQUE, Input, Question
from bigjoin_bench.report import cells, tables
from bigjoin_bench.report.page import fill, write_report
from bigjoin_bench.results import Line, append, geometric_mean, newest, ratio, read
from bigjoin_bench.rounds import CountsDiffer, Limits, compare
from bigjoin_bench.run import Bench, quick
from bigjoin_bench.suites import PAPER, SUITES, Suite
from bigjoin_bench.worker import serve

TRIANGLE = Question("triangle")


@dataclass
class Scripted:
    """A contender that takes as long, and finds as much, as it is told."""

    name: str
    seconds: list[float]
    count: int | None = 7
    turns: list[str] = field(default_factory=list)

    def run(self, question: Question, *, patience: float) -> Reply:
        self.turns.append(self.name)
        taken = self.seconds.pop(0)
        if taken > patience:
            raise CutOff
        return Reply({"count": None if self.count is None else str(self.count), "seconds": taken, "figures": {}}, 1000)


def test_contenders_take_turns_and_the_first_run_is_cold():
    turns: list[str] = []
    seats = [Scripted("a", [9.0, 1.0, 2.0], turns=turns), Scripted("b", [8.0, 3.0, 4.0], turns=turns)]
    times = compare(seats, TRIANGLE, Limits(rounds=2))
    assert turns == ["a", "b", "b", "a", "a", "b"]
    assert (times["a"].cold, times["a"].warm) == (9.0, [1.0, 2.0])
    assert (times["b"].cold, times["b"].warm, times["b"].count) == (8.0, [3.0, 4.0], 7)


def test_what_is_slow_runs_once_and_what_is_too_slow_is_cut_off():
    seats = [Scripted("fast", [1.0] * 6), Scripted("slow", [21.0]), Scripted("endless", [121.0])]
    times = compare(seats, TRIANGLE, Limits())
    assert len(times["fast"].warm) == 5
    assert (times["slow"].cold, times["slow"].warm, times["slow"].over) == (21.0, [], None)
    assert (times["endless"].cold, times["endless"].over) == (None, 120.0)


def test_different_counts_are_refused():
    with pytest.raises(CountsDiffer, match=r"triangle: the counts differ: a 7, b 8"):
        compare([Scripted("a", [1.0] * 6), Scripted("b", [1.0] * 6, count=8)], TRIANGLE, Limits())
    times = compare([Scripted("a", [1.0] * 6), Scripted("b", [1.0] * 6, count=None)], TRIANGLE, Limits())
    assert len(times["b"].warm) == 5  # nothing to compare


def test_a_deadline_ends_everything():
    assert compare([Scripted("a", [1.0])], TRIANGLE, Limits(deadline=0.0))["a"].cold is None


SAYS = 'print(\'{"version": "1"}\', flush=True)\n'


def process(program: str) -> Process:
    return Process("test", threads=1, patience=20.0, command=[sys.executable, "-c", program])


def test_a_process_is_killed_at_the_cut_off():
    endless = process(f"import time\n{SAYS}time.sleep(60)")
    with pytest.raises(CutOff):
        endless.run(TRIANGLE, patience=0.3)
    assert not endless.alive


def test_a_process_leaves_nothing_behind():
    program = "import json, tempfile, time\nprint(json.dumps({'version': tempfile.mkdtemp()}), flush=True)\ntime.sleep(60)"
    endless = process(program)
    assert Path(endless.version).is_dir()
    endless.close()
    assert not Path(endless.version).exists()


def test_a_process_that_ends_says_why():
    with pytest.raises(Failed, match="out of luck"):
        process(f"import sys\n{SAYS}sys.stdin.readline()\nsys.exit('out of luck')").run(TRIANGLE, patience=20.0)


def test_a_process_answers_and_its_memory_is_seen():
    program = f"import json, sys\n{SAYS}keep = bytearray(50_000_000)\nfor line in sys.stdin:\n    print(line, flush=True)"
    echo = process(program)
    try:
        reply = echo.run(TRIANGLE, patience=20.0)
    finally:
        echo.close()
    assert reply.said == {"run": {"query": "triangle", "meaning": "join"}}
    assert reply.memory > 50_000_000


def line(contender: str = "bigjoin", **fields) -> Line:
    known = {
        "run": "2026-01-01T00:00:00+00:00",
        "suite": "directed",
        "graph": BUNDLED,
        "query": "triangle",
        "meaning": "join",
        "contender": contender,
        "version": "1.0",
        "count": "7",
        "cold": 2.0,
        "warm": [1.0, 3.0, 2.0],
        "load": 0.5,
        "memory": {"load": 1 << 20, "run": 2 << 20},
        "commit": "abc1234",
        "versions": {"bigjoin": "0.1.0"},
        "machine": {"cpu": "a cpu", "cores": 2},
    }
    return Line(**(known | fields))


CUT_OFF = {"cold": None, "warm": [], "over": 120.0, "count": None}


def test_cut_off_cells_are_left_out_of_means():
    lines = [
        line(),
        line("duckdb", warm=[8.0]),
        line("kuzu", **CUT_OFF),
        line(query="house"),
        line("duckdb", query="house", **CUT_OFF),
        line("kuzu", query="house", **CUT_OFF),
    ]
    shown = tables.warm(SUITES["directed"], lines)
    assert "| 2.00 s (1.00 to 3.00) | 8.00 s (8.00 to 8.00) | > 120 s | 4.0 |" in shown
    assert shown.endswith("| > 120 s | > 120 s | > 60.0 |")
    assert "at least 4.00, geometric mean 4.00 (of 1; without 1 that did not finish)" in tables.summary(
        SUITES["directed"], lines
    )
    assert ratio(lines[2], lines[0]) is None
    assert geometric_mean([2.0, None, 8.0]) == pytest.approx(4.0)


def test_what_stands_beside_is_no_peer():
    lines = [line(), line("duckdb", warm=[8.0]), line("duckdb-by-hand", warm=[1.0])]
    assert tables.warm(SUITES["directed"], lines).endswith("| 4.0 |")
    assert "Ratio to DuckDB by hand: at least 0.50" in tables.summary(SUITES["directed"], lines)


def test_our_time_is_over_that_of_a_limit():
    """A limit is less than anybody needs: the other way round, ratios would be close to zero."""
    lines = [line(), line("duckdb", warm=[8.0]), line("reading", warm=[0.0005, 0.0006, 0.0007])]
    lines += [line(query="house", warm=[0.9]), line("reading", query="house", warm=[0.0006])]
    shown = tables.warm(SUITES["directed"], lines)
    assert "| 0.60 ms (0.50 to 0.70) |" in shown
    said = tables.summary(SUITES["directed"], lines)
    assert said.startswith("Ratio to the best peer: at least 4.00, ")
    assert said.endswith("bigjoin / limit: reading the lists once: at most 3,333, geometric mean 2,236 (of 2).")
    assert "Ratio to limit" not in said


def test_graphs_are_in_the_order_of_their_suite(tmp_path):
    known = SUITES["directed"].graphs
    lines = [line(graph=graph, run=f"2026-01-0{9 - place}T00:00:00+00:00") for place, graph in enumerate(known)]
    page = write_report(lines[::-1], tmp_path).read_text()
    shown = re.findall(r"^\| (\S+) \| triangle \| [\d,]+ \|", page, re.MULTILINE)
    assert shown == list(known)


def test_results_are_lines_of_json(tmp_path):
    file = tmp_path / "results.jsonl"
    append(file, [line(), line("duckdb", figures={"rows": 3})])
    with file.open("a") as out:
        out.write(json.dumps({**json.loads(file.read_text().splitlines()[0]), "later": 1}) + "\n")
    assert read(file) == [line(), line("duckdb", figures={"rows": 3}), line()]
    assert read(tmp_path / "none.jsonl") == []


def test_the_newest_run_of_a_graph_counts():
    old, new = line(count="1"), line(run="2026-02-01T00:00:00+00:00", count="2")
    elsewhere = line(graph="amazon0601")
    assert newest([new, old, elsewhere]) == [new, elsewhere]


def test_a_page_is_made_of_lines(tmp_path):
    lines = [line(), line("duckdb", warm=[8.0]), line("kuzu", **CUT_OFF)]
    lines += [
        line("vertex-at-a-time", suite="foil", meaning=meaning, figures={"intermediate": 10}) for meaning in (DISTINCT, UNIQUE)
    ]
    lines += [line("edge-at-a-time", suite="foil", meaning=DISTINCT, figures={"intermediate": 300})]
    lines += [line("factorized", suite="foil", meaning=DISTINCT, figures={"intermediate": 7})]
    lines += [line(name, suite="cost", warm=[s]) for name, s in (("one-thread", 9.0), ("spark-one", 9.5), ("spark-two", 5.0))]
    lines += [line(name, suite="index", query="build", figures={"rows": 4}) for name in ("bigjoin-build", "duckdb-build")]
    page = write_report(lines, tmp_path).read_text()
    assert "> 120 s" in page
    assert "| LJ, in the paper | triangle | EmptyHeaded | 150 s | 1.20 s | 125.25 |" in page
    assert f"| {BUNDLED} | triangle | bigjoin | 0.50 s | 2.00 s | 0.25 |" in page
    assert "| triangle, plain | soc-Epinions1 | 10 | 300 | 7 |" in page
    assert f"| {BUNDLED} | triangle | 9.00 s | 1.06 | 0.56 | 2 |" in page
    assert "| triangle, BiGJoinT and Arabesque | LJ, in the paper | 38,000,000 | 1,460,000,000 |" in page
    assert "abc1234; a cpu, 2 cores" in page


def test_plots_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    lines = [line(), line("duckdb", warm=[8.0]), line("kuzu", **CUT_OFF)]
    assert "![The paper's five queries, directed](benchmarks/directed.svg)" in write_report(lines, tmp_path).read_text()
    first = (tmp_path / "benchmarks" / "directed.svg").read_bytes()
    write_report(lines, tmp_path)
    assert (tmp_path / "benchmarks" / "directed.svg").read_bytes() == first


def test_blocks_of_a_page_are_filled(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- x -->\nold\n<!-- /x -->\nb\n")
    fill(page, "x", r"new \1")
    assert page.read_text() == "a\n<!-- x -->\nnew \\1\n<!-- /x -->\nb\n"
    shown = {0.0123: "0.012 s", 0.0099: "9.9 ms", 0.000612: "0.61 ms", 0.0: "0 ms", 0.1: "0.10 s", 123.4: "123 s"}
    assert {value: cells.seconds(value) for value in shown} == shown


def test_suites_name_contenders_that_exist():
    for suite in SUITES.values():
        assert set(suite.contenders) <= CONTENDERS.keys()
        assert set(suite.beside) <= set(suite.contenders)
    kept, limits = quick(SUITES.values())
    assert all(suite.graphs == (BUNDLED,) for suite in kept)
    assert limits.deadline is not None


def test_a_missing_peer_says_what_to_install():
    assert CONTENDERS["bigjoin"].missing is None
    gone = Contender("Gone", "gone:Gone", "no_such_package", "gone-py")
    assert gone.missing == "Gone is left out: pip install gone-py"


def test_a_missing_program_says_where_to_name_it(monkeypatch, tmp_path):
    monkeypatch.delenv(DATAFLOW_JOIN, raising=False)
    peer = CONTENDERS["dataflow-join-1000"]
    said = "give the path of its program with --dataflow-join, or in BIGJOIN_BENCH_DATAFLOW_JOIN"
    assert peer.missing == f"dataflow-join, 1,000 updates is left out: {said}"
    monkeypatch.setenv(DATAFLOW_JOIN, "motif")
    assert peer.missing is None
    monkeypatch.setenv(DATAFLOW_JOIN, "another")  # so that what the command sets is put back
    done = CliRunner().invoke(cli, ["bench", "--report", "-o", str(tmp_path), "--dataflow-join", __file__])
    assert done.exit_code == 0
    assert os.environ[DATAFLOW_JOIN] == __file__


def test_contenders_read_the_same_edges(tmp_path):
    (tmp_path / "small.txt").write_text("# a comment\n1\t2\n2\t1\n2\t2\n1\t2\n3\t1\n")
    library = Library(tmp_path)
    try:
        directed, undirected = (pq.read_table(library.get("small", form).path).to_pylist() for form in (DIRECTED, UNDIRECTED))
        assert [tuple(edge.values()) for edge in directed] == [(1, 2), (2, 1), (3, 1)]
        assert [tuple(edge.values()) for edge in undirected] == [(1, 2), (1, 3)]
        assert Path(library.get("small", TEXT).path).read_text().startswith("1\t2\n")
        with pytest.raises(AbsentError, match="twitter_combined is skipped"):
            library.get("twitter_combined", DIRECTED)
    finally:
        library.close()


def test_vertices_have_the_same_attributes_each_time(tmp_path, monkeypatch):
    monkeypatch.setitem(graphs.ATTRIBUTED, "small, wide", "small")
    (tmp_path / "small.txt").write_text("1 2\n2 2\n3 1\n")
    library, again = Library(tmp_path), Library(tmp_path)
    try:
        narrow, wide, same = (
            pq.read_table(where.get(name, TABLES).vertices or "")
            for where, name in ((library, "small"), (library, "small, wide"), (again, "small, wide"))
        )
        assert narrow.to_pydict() == {"id": [1, 2, 3]}
        assert wide.column("id").to_pylist() == [1, 2, 3]
        assert wide.num_columns == 1 + sum(ATTRIBUTES.values()) == 59
        assert wide == same
    finally:
        library.close()
        again.close()


def random_graph(folder: Path, *, undirected: bool) -> Input:
    rng = np.random.default_rng(1)
    pairs = rng.integers(0, 30, size=(260, 2))
    np.savetxt(folder / "random.txt", pairs, fmt="%d")
    library = Library(folder)
    file = folder / "random.parquet"
    Path(library.get("random", UNDIRECTED if undirected else DIRECTED).path).rename(file)
    library.close()
    return Input("random", str(file), undirected=undirected)


@pytest.mark.parametrize("undirected", [False, True])
def test_sql_by_hand_counts_the_same(tmp_path, undirected):
    pytest.importorskip("duckdb")
    from bigjoin_bench.peers.duckdb import DuckDB

    graph = random_graph(tmp_path, undirected=undirected)
    ours, peer = Steps(threads=1), DuckDB(threads=1, by_hand=True)
    ours.load(graph)
    peer.load(graph)
    for query in PAPER:
        question = Question(query, UNIQUE if undirected else "join")
        expected = ours.run(question).count
        assert peer.run(question).count == expected
        (found,) = peer.connection.execute(restricted(query) if undirected else as_join(query)).fetchone()
        assert found == expected
    with pytest.raises(ValueError, match="no SQL by hand"):
        by_hand("5-cycle", undirected=True)


def test_kuzu_counts_the_same(tmp_path):
    pytest.importorskip("kuzu")
    from bigjoin_bench.peers.kuzu import Kuzu

    graph = random_graph(tmp_path, undirected=False)
    ours, peer = Steps(threads=1), Kuzu(threads=1)
    ours.load(graph)
    peer.load(graph)
    for query in PAPER:
        assert peer.run(Question(query)).count == ours.run(Question(query)).count


@pytest.mark.parametrize("name", ["networkit", "graphblas", "igraph"])
def test_libraries_count_the_same_triangles(tmp_path, name):
    if said := CONTENDERS[name].missing:
        pytest.skip(said)
    graph = random_graph(tmp_path, undirected=True)
    ours, peer = Steps(threads=1), CONTENDERS[name].make(2)
    ours.load(graph)
    peer.load(graph)
    assert peer.run(Question("triangle", UNIQUE)).count == ours.run(Question("triangle", UNIQUE)).count


def test_a_thread_alone_counts_the_same(tmp_path):
    graph = random_graph(tmp_path, undirected=False)
    alone, steps = Alone(threads=1), Steps(threads=1)
    alone.load(graph)
    steps.load(graph)
    for query in PAPER:
        assert alone.run(Question(query)).count == steps.run(Question(query)).count


def test_an_edge_at_a_time_builds_more(tmp_path):
    graph = random_graph(tmp_path, undirected=True)
    by_vertex, by_edge = Steps(threads=1), Steps(threads=1, edge_at_a_time=True)
    by_vertex.load(graph)
    by_edge.load(graph)
    for question in (Question("triangle", UNIQUE), Question("4-clique", DISTINCT), Question("house", UNIQUE)):
        vertex, edge = by_vertex.run(question), by_edge.run(question)
        assert edge.count == vertex.count
        assert edge.figures["intermediate"] > vertex.figures["intermediate"]
    steps = by_edge.plan(Question("4-clique")).steps
    assert all(len(step.extenders) == 1 for step in steps)


def test_command_line_names_the_suites(tmp_path):
    said = CliRunner().invoke(cli, ["bench", "--help"]).output
    assert all(name in said for name in SUITES)
    done = CliRunner().invoke(cli, ["bench", "--report", "-o", str(tmp_path)])
    assert done.exit_code == 0
    assert "Nothing has been measured yet" in (tmp_path / "benchmarks.md").read_text()


def test_command_line_without_benchmarks_says_where_they_are(monkeypatch):
    monkeypatch.setattr("bigjoin.cli.bench.find_spec", lambda name: None)
    done = CliRunner().invoke(cli, ["bench", "--quick"])
    assert isinstance(done.exception, BigjoinError)  # which main turns into exit code 2
    assert "the benchmarks are not part of the installed package" in str(done.exception)


@pytest.mark.slow
@pytest.mark.spark
def test_a_tiny_bench(tmp_path):
    graph = random_graph(tmp_path, undirected=False)
    suite: Suite = replace(
        SUITES["directed"],
        graphs=("random", "absent"),
        questions=(TRIANGLE,),
        contenders=("bigjoin", "one-thread", "left-deep"),
        beside=(),
    )
    said: list[str] = []
    Path(graph.path).rename(tmp_path / "random.parquet")
    (tmp_path / "random.txt").unlink()
    library = Library(tmp_path)
    try:
        bench = Bench(tmp_path / "results.jsonl", library, Limits(rounds=1), 2, said.append)
        lines = bench.run([suite])
    finally:
        library.close()
    assert bench.wrong == []
    assert any("absent is skipped" in text for text in said)
    assert [found.contender for found in lines] == list(suite.contenders)
    assert len({found.count for found in lines}) == 1
    assert read(tmp_path / "results.jsonl") == lines
    for found in lines:
        assert found.cold is not None
        assert len(found.warm) == 1
        assert found.load is not None
        assert min(found.memory.values()) > 0
        assert found.machine["cores"]


def test_a_hub_has_its_leaves():
    library = Library()
    try:
        graph = library.get(HUB, UNDIRECTED)
    finally:
        table = pq.read_table(graph.path)
        library.close()
    assert int((table["src"].to_numpy() == 0).sum()) == LEAVES


def test_a_fraction_of_a_graph_is_a_graph(monkeypatch):
    monkeypatch.setitem(graphs.FRACTIONS, "some", (BUNDLED, 0.5))
    library = Library()
    try:
        some, again, whole = (len(pq.read_table(library.get(name, DIRECTED).path)) for name in ("some", "some", BUNDLED))
    finally:
        library.close()
    assert some == again
    assert 0.4 * whole < some < 0.6 * whole


def test_updates_are_edges_that_were_held_back(tmp_path):
    graph = random_graph(tmp_path, undirected=True)
    edges = {tuple(edge.values()) for edge in pq.read_table(graph.path).to_pylist()}
    first, later = Feed(10, 3).split(graph)
    assert (len(first), len(later)) == (len(edges) - 30, 30)
    assert {tuple(edge.values()) for part in (first, later) for edge in part.to_pylist()} == edges
    assert Feed(10, 3).split(graph) == (first, later)
    assert Feed(20, 3).write(later, tmp_path / "updates") == 2
    assert [len(pq.read_table(file)) for file in sorted((tmp_path / "updates").iterdir())] == [20, 10]
    assert list(map(len, Feed(10).split(graph))) == [0, len(edges)]
    assert list(map(len, Feed(10, 2, 0.5).split(graph))) == [len(edges) // 2, 20]
    with pytest.raises(BigjoinError, match="too few for 1,000 updates"):
        Feed(100, 10).split(graph)


@dataclass
class Here:
    """A contender in this process, with a graph."""

    name: str
    adapter: Adapter
    graph: Input

    def __post_init__(self) -> None:
        serve(self.adapter, {"load": self.graph.as_json()})

    def run(self, question: Question, *, patience: float) -> Reply:
        return Reply(json.loads(json.dumps(serve(self.adapter, {"run": question.as_json()}))), 1000)


def tiny(name: str, graph: Input, **options) -> Here:
    """Seat a contender with options of a small size, and nothing else changed."""
    known = CONTENDERS[name]
    return Here(name, replace(known, options={**known.options, **options}).make(2), graph)


def tiny_run(suite: str, seats: Sequence[Here], folder: Path) -> list[Line]:
    """Ask a suite's first question, keep the results, and return them as they are read."""
    question = SUITES[suite].questions[0]
    times = compare(seats, question, Limits(rounds=0))
    common = {"suite": suite, "query": question.query, "meaning": question.meaning}
    found = [
        line(
            name,
            **common,
            graph=SUITES[suite].graphs[0],
            cold=t.cold,
            warm=t.warm,
            count=None if t.count is None else str(t.count),
            figures=t.figures,
        )
        for name, t in times.items()
    ]
    append(folder / "results.jsonl", found)
    return found


@pytest.mark.slow
@pytest.mark.spark
def test_tiny_updates(tmp_path, spark):
    graph = random_graph(tmp_path, undirected=True)
    feed = {"updates": 20, "epochs": 3}
    seats = [tiny("watching", graph, **feed), tiny("no-op", graph, **feed), tiny("bigjoin", graph)]
    watching, bare, anew = tiny_run("updates", seats, tmp_path)
    assert watching.count == anew.count
    assert 0 < watching.figures["changed"] < int(watching.count or 0)
    assert len(watching.figures["epochs"]) == len(bare.figures["epochs"]) == 3
    assert watching.seconds == pytest.approx(sum(watching.figures["epochs"][1:]) / 2)
    assert watching.figures["process"] > 1 << 20
    tiny_run("updates-capacity", [tiny("capacity-4", graph, updates=40, epochs=2)], tmp_path)
    page = write_report(read(tmp_path / "results.jsonl"), tmp_path).read_text()
    for title in ("updates per second", "most received in a round"):
        assert title in page


@pytest.mark.spark
def test_tiny_changes_written(tmp_path, spark, monkeypatch):
    monkeypatch.setattr(changes, "ProcessPoolExecutor", lambda many, **_: ThreadPoolExecutor(many))  # one JVM is enough
    graph = random_graph(tmp_path, undirected=True)
    ours, peer = tiny_run(
        "updates-written",
        [tiny(name, graph, updates=20, epochs=2) for name in ("changes-written", "pyarrow-changes")],
        tmp_path,
    )
    assert int(ours.count or 0) == peer.figures["changed"] > 0
    assert "time / pyarrow's" in write_report(read(tmp_path / "results.jsonl"), tmp_path).read_text()


@pytest.mark.slow
@pytest.mark.spark
def test_tiny_motifs(tmp_path, spark):
    (tmp_path / "small.txt").write_text("\n".join(f"{src} {dst}" for src in range(9) for dst in range(9) if (src * dst) % 3))
    library = Library(tmp_path)
    try:
        graph = library.get("small", TABLES)
        ours, peer = (tiny(name, graph) for name in ("motifs", "left-deep-joins"))
        for question in (Question("4-cycle", READ), Question("triangle", COUNTED)):
            times = compare([ours, peer], question, Limits(rounds=0))
            assert times["motifs"].count == times["left-deep-joins"].count > 0
            assert times["motifs"].figures["shuffled"] >= 0
        lines = tiny_run("motifs", [ours, peer], tmp_path)
    finally:
        library.close()
    assert f"| triangle | `{TIMED['triangle']}` |" in write_report(lines, tmp_path).read_text()


def test_rows_that_differ_are_told(tmp_path):
    common = {"contender": "same-rows", "suite": "motifs-rows", "graph": "citeseer", "warm": []}
    lines = [line(**common, query="(a)", count="3312"), line(**common, query="(b)", count=None, failure="AssertionError")]
    page = write_report(lines, tmp_path).read_text()
    assert "The rows are the same for 1 of 2 questions." in page
    assert "| `(a)` | 3,312 |\n| `(b)` | differ |" in page


def test_bytes_of_shuffles_are_shown(tmp_path):
    common = {"suite": "motifs-shuffled", "meaning": READ, "graph": "p2p-Gnutella08"}
    lines = [line("motifs", **common, figures={"shuffled": 0}), line("left-deep-shuffled", **common, **CUT_OFF)]
    assert "| p2p-Gnutella08 | triangle, rows | 0.0 MB | - |" in write_report(lines, tmp_path).read_text()


def test_decades_of_a_stream(tmp_path):
    times = [9.0, *[1.0] * 9, *[2.0] * 90, *[4.0] * 900]
    many = line("watching-many", suite="updates-many", figures={"epochs": times, "updates": 1000, "changed": 5})
    page = write_report([many], tmp_path).read_text()
    assert "| bigjoin, an epoch | 1,000 µs | 2,000 µs | 4,000 µs | 4.00 | 4.00 s |" in page


def test_epochs_in_this_process(tmp_path):
    graph = random_graph(tmp_path, undirected=True)
    tiny_run("updates-size", [tiny("epoch-10", graph, updates=10, epochs=3), tiny("epoch-1", graph, epochs=5)], tmp_path)
    everything, anew = tiny_run("updates-all", [tiny("watching-all", graph, updates=50), tiny("anew", graph)], tmp_path)
    assert everything.count == anew.count
    assert everything.figures["changed"] == int(anew.count or 0)
    assert everything.seconds >= sum(everything.figures["epochs"])
    (large,) = tiny_run("updates-diamonds", [tiny("applied-large", graph, updates=10, epochs=3)], tmp_path)
    assert large.seconds == pytest.approx(sum(large.figures["epochs"][1:]) / 2)
    page = write_report(read(tmp_path / "results.jsonl"), tmp_path).read_text()
    for shown in ("| triangle | 10 updates | ", "| diamond | 10 updates | ", "peak of the process", "epochs / both"):
        assert shown in page


def test_epochs_of_one_edge_and_the_disk(tmp_path):
    graph = random_graph(tmp_path, undirected=False)
    seats = [tiny(f"latency-{sync}", graph, epochs=5) for sync in SYNCS]
    lines = tiny_run("updates-latency", [*seats, tiny("synced", graph, epochs=5)], tmp_path)
    assert len({line.count for line in lines[:-1]}) == 1
    assert all(len(line.figures["epochs"]) == 5 for line in lines)
    assert "| one fsync | 4 | " in write_report(lines, tmp_path).read_text()


MOTIF = r"""#!{python}
import sys
edges, updates = sys.argv[-5], sys.argv[-3]
assert sys.argv[1:8] == ["3", "0", "1", "0", "2", "1", "2"] and updates == "100", sys.argv
many = sum(1 for _ in open(edges))
print("motif:\t[(0, 1), (0, 2), (1, 2)]\n1ms\t[worker 0]\tdata loaded\n1ms\t[worker 0]\tindices merged")
print(f"elapsed: 1.35s\ttotal motifs at this process: {{many}}")
"""
"""Says what dataflow-join's program says, and counts lines."""


def test_the_program_of_the_paper(tmp_path, monkeypatch):
    graph = random_graph(tmp_path, undirected=False)
    program = tmp_path / "motif"
    program.write_text(MOTIF.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv(DATAFLOW_JOIN, str(program))
    names = ("paper-group-1000", "paper-epoch-1000", "dataflow-join-1000")
    group, epoch, theirs = tiny_run("updates-paper", [tiny(name, graph, updates=100) for name in names], tmp_path)
    assert group.count == epoch.count
    assert theirs.count is None
    assert (theirs.seconds, theirs.figures["counted"]) == (1.35, len(pq.read_table(graph.path)))
    assert f"| {BUNDLED} | triangle | 1,000 | 1.35 s | " in write_report([group, epoch, theirs], tmp_path).read_text()
    assert outcome("elapsed: 120.5ms\ttotal motifs at this process: -7\n") == (0.1205, -7)
    with pytest.raises(BigjoinError, match="did not say what it counted"):
        outcome("motif:\t[(0, 1)]")


def test_ratios_to_the_program_of_the_paper(tmp_path):
    common = {"suite": "updates-paper", "query": "4-clique"}
    lines = [line("paper-group-1000", warm=[4.0], **common), line("paper-epoch-1000", warm=[6.0], **common)]
    assert f"| {BUNDLED} | 4-clique | 1,000 | - | 4.00 s | 6.00 s | - | - | - |" in write_report(lines, tmp_path).read_text()
    lines.append(line("dataflow-join-1000", warm=[8.0], count=None, figures={"counted": 5}, **common))
    page = write_report(lines, tmp_path).read_text()
    assert f"| {BUNDLED} | 4-clique | 1,000 | 8.00 s | 4.00 s | 6.00 s | 0.50 | 0.75 | 5 |" in page
    assert PAPER_SIZES[0] == 1_000


def test_stars_at_a_hub(tmp_path):
    (tmp_path / "hub.txt").write_text("".join(f"0 {leaf}\n{leaf} {leaf % 7 + 1}\n" for leaf in range(1, 400)))
    library = Library(tmp_path)
    try:
        graph = library.get("hub", UNDIRECTED)
        stars, *lookups = (tiny(name, graph, leaves=2) for name in ("stars", "lookups", "lookups-bare"))
        for question in SUITES["updates-stars"].questions:
            found = compare([stars], question, Limits(rounds=0))["stars"]
            assert len(found.figures["epochs"]) == 4
        assert found.count is not None
        assert found.count > 2**53
        assert compare([stars], Question("8-star"), Limits(rounds=0))["stars"].count > 2**64
        lines = tiny_run("updates-stars", [stars, *lookups], tmp_path)
    finally:
        library.close()
    assert "epoch / bare lookups" in write_report(lines, tmp_path).read_text()


def test_a_sliding_window(tmp_path):
    graph = random_graph(tmp_path, undirected=True)
    (slid,) = tiny_run("updates-window", [tiny("sliding", graph, updates=10, epochs=20, window=12)], tmp_path)
    assert int(slid.count or 0) > 0
    assert len(slid.figures["samples"]) == len(slid.figures["epochs"]) == 20
    assert slid.figures["rebuilt"] == 10
    assert slid.figures["samples"][-1]["files"] > 0
    page = write_report([slid], tmp_path).read_text()
    assert "the count was that of a new index at 10 of 10 points" in page
    for shown in ("time of an epoch", "memory of the process", "files of the index", "bytes of the index"):
        assert f"| {shown} | " in page


def test_first_and_last_fifth(tmp_path):
    samples = [{"epoch": n, "memory": 2**20 * n, "files": 10, "bytes": 2**20} for n in range(1, 11)]
    figures = {"updates": 5, "epochs": [0.001] * 8 + [0.002] * 2, "samples": samples, "compactions": 3, "rebuilt": 10}
    page = write_report([line("sliding", suite="updates-window", figures=figures)], tmp_path).read_text()
    assert "10 epochs, 3 compactions; " in page
    assert "| time of an epoch | 1.00 ms | 2.00 ms | 2.00 |" in page
    assert "| memory of the process | 2 MB | 10 MB | 6.33 |" in page
