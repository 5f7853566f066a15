"""Estimates: without bias on any question, with intervals that hold the truth, within their time, and without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from math import comb, sqrt

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from bigjoin import BigjoinError, Graph, QueryError, Relations
from bigjoin.estimates import SAMPLES, Estimating, asked_drafts, bound_plans, estimate, interval
from bigjoin.index.directory import Index
from bigjoin.indexing import build_index
from bigjoin.joins.blocks import Counts
from bigjoin.joins.sampled_join import Sample, SampledJoin, drawn
from bigjoin.languages import read
from tests.questions import Question


@pytest.fixture(scope="module")
def skewed(tmp_path_factory) -> tuple[Index, duckdb.DuckDBPyConnection]:
    """A graph with some hubs, and its edges in DuckDB."""
    random = np.random.default_rng(5)
    edges = pa.table({"src": random.zipf(1.4, 9000) % 900, "dst": random.integers(0, 900, 9000)})
    connection = duckdb.connect()
    connection.sql("create table e as select distinct src as s, dst as d from edges")
    return build_index(edges, tmp_path_factory.mktemp("skewed") / "index"), connection


def test_numbers_are_drawn_evenly_one_from_each_stretch():
    random = np.random.default_rng(1)
    assert drawn(random, 3, 4)[0].tolist() == [0, 1, 2]
    assert drawn(random, 0, 4)[0].tolist() == []
    times = np.zeros(10)
    for _ in range(4000):
        numbers, each = drawn(random, 10, 4)
        assert each == 2.5
        assert (np.diff(numbers) >= 0).all()
        times += np.bincount(numbers, minlength=10)
    assert abs(times - 1600).max() < 5 * 40


def test_runs_of_proposals_are_cut_where_lists_end():
    prefixes = np.array([[10, 11, 12]], np.uint32)
    block = Counts(prefixes, np.array([3, 1, 4]), np.array([0, 1, 0], np.uint8), np.array([0, 5, 0]))
    found = block.runs(np.array([0, 2, 6]), 3)
    pieces = list(zip(found.prefixes[0].tolist(), found.starts.tolist(), found.counts.tolist(), strict=True))
    assert pieces == [(10, 0, 3), (10, 2, 1), (11, 5, 1), (12, 0, 1), (12, 2, 2)]
    assert found.proposers.tolist() == [0, 0, 1, 0, 0]


@pytest.mark.parametrize("seed", range(30))
def test_a_sample_has_no_bias(seed, tmp_path):
    question = Question(1000 + seed)
    index = build_index(question.table(), tmp_path / "index", directed=question.directed)
    plans = bound_plans(asked_drafts(read(question.text, **question.flags), lambda _: index))
    joins, random = [SampledJoin(plan) for plan in plans], np.random.default_rng(seed)
    values = np.array([sum(join.draw(random, 1 + i % 3).matches for join in joins) for i in range(300)])
    assert abs(values.mean() - question.wanted.total()) <= 5 * values.std() / sqrt(len(values)) + 1e-9


@pytest.mark.parametrize(
    ("text", "flags", "sql"),
    [
        ("triangle", {}, "e x, e y, e z where x.d = y.s and x.s = z.s and y.d = z.d"),
        (
            "q(a,b,c,d) := edge(a,b), edge(b,c), edge(c,d), not edge(a,d), a != c",
            {},
            "e x, e y, e z where x.d = y.s and y.d = z.s and x.s != y.d and (x.s, z.d) not in (select (s, d) from e)",
        ),
        (
            "q(a,b,c) := edge(a,b), edge(a,c)",
            {"unique": True},
            "e x, e y where x.s = y.s and x.d < y.d and x.s not in (x.d, y.d)",
        ),
        ("q(a,b,c) := edge(a,b), edge(b,c), a < c", {}, "e x, e y where x.d = y.s and x.s < y.d"),
        ("q(a,b) := edge(a,b), a < b", {}, "e where s < d"),
    ],
)
def test_the_interval_holds_the_truth_on_a_skewed_graph(skewed, text, flags, sql):
    index, edges = skewed
    [(truth,)] = edges.sql(f"select count(*) from {sql}").fetchall()
    statement = read(text, **flags)
    found = [estimate(statement, lambda _: index, random_state=i, max_exact=0, precision=0.2) for i in range(20)]
    assert sum(one.low <= truth <= one.high for one in found) >= 16
    assert all(one.low <= one.count <= one.high and not one.exact for one in found)
    mean, error = np.mean([one.count for one in found]), np.std([one.count for one in found])
    assert abs(mean - truth) <= 5 * error / sqrt(20) + 1
    exact = estimate(statement, lambda _: index, max_exact=1 << 40)
    assert (exact.count, exact.low, exact.high, exact.exact) == (truth, truth, truth, True)


def test_the_same_random_state_gives_the_same_samples(skewed):
    index, _ = skewed

    def asked(random_state=None):
        return estimate(read("diamond"), lambda _: index, seconds=60, random_state=random_state, max_exact=0)

    assert asked(7) == asked(7)
    assert asked(7) != asked(8)
    assert asked() != asked()


def test_matches_that_lie_together_are_found(tmp_path):
    """A clique of 40 hides among 60,000 random edges: uniform seeds would meet few of its 780 edges."""
    random = np.random.default_rng(3)
    src, dst = random.integers(0, 20_000, 60_000), random.integers(0, 20_000, 60_000)
    clique = np.array([(a, b) for a in range(100, 140) for b in range(a + 1, 140)])
    table = pa.table({"src": np.concatenate([src, clique[:, 0]]), "dst": np.concatenate([dst, clique[:, 1]])})
    index = build_index(table, tmp_path / "index", directed=False)
    found = [
        estimate(read("5-clique", unique=True), lambda _: index, random_state=i, max_exact=0, precision=0.2) for i in range(8)
    ]
    assert sum(one.low <= comb(40, 5) <= one.high for one in found) >= 6
    assert all(one.high < 1.5 * one.low for one in found)


def test_rare_matches_have_a_wide_interval_and_none_is_not_zero_for_sure():
    def draws(values):
        return [(Sample(value, int(value > 0), 50.0, 1.0, 1.0, 1.0),) for value in values]

    assert interval(draws([0.0] * 32)) == (0, 0, 6)
    count, low, high = interval(draws([0.0] * 30 + [50.0] * 2))
    assert (count, low, high) == (3, 1, 12)
    assert interval(draws([10.0] * 32)) == (10, 10, 10)


def test_time_is_kept(tmp_path):
    random = np.random.default_rng(3)
    table = pa.table({"src": random.integers(0, 50_000, 200_000), "dst": random.integers(0, 50_000, 200_000)})
    index = build_index(table, tmp_path / "index", directed=False)
    statement = read("4-clique", unique=True)
    estimate(statement, lambda _: index)
    started = time.perf_counter()
    found = estimate(statement, lambda _: index, seconds=0.3, precision=1e-9)
    assert found.seconds <= time.perf_counter() - started < 5
    assert (
        Estimating(bound_plans(asked_drafts(statement, lambda _: index)), np.random.SeedSequence(1)).draws(SAMPLES, 16, 0.0)
        == []
    )


def test_sums_of_queries_are_estimated_together(tmp_path):
    graph = Graph(pa.table({"src": [1, 2, 3, 1, 4], "dst": [2, 3, 1, 3, 1]}))
    assert graph.estimate("(a)-[*1..2]->(b)").count == 5 + 7
    assert graph.estimate("q(a,b,c) := edge(a,b), optional edge(b,c)").count == 7
    assert graph.estimate("MATCH (a)-[]->(b) RETURN count(*)").count == 5
    assert graph.estimate("MATCH (a)-[]->(b) RETURN a SKIP 1 LIMIT 3").count == 3
    assert graph.estimate("triangle", seeds={"a1": [4]}).count == 0
    assert graph.estimate("q(a,b) := edge(a,b)", where="a > 1").count == 3
    relations = Relations({"r": pa.table({"x": [1, 1, 2], "y": ["u", "v", "u"]}), "s": pa.table({"y": ["u"], "z": [9]})})
    assert relations.estimate("q(x,y,z) := r(x,y), s(y,z)").count == 2


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("q(a) := edge(a,b)", {"deduplicate": True}, "distinct rows cannot be estimated"),
        ("MATCH (a)-[]->(b) WHERE EXISTS { (b)-[]->(c)-[]->(d) } RETURN a", {}, "cannot be estimated"),
        ("triangle", {"seconds": 0}, "seconds is 0; it must be a number above 0"),
        ("triangle", {"precision": "fine"}, "precision is 'fine'"),
        ("triangle", {"random_state": -1}, "random_state is -1"),
        ("triangle", {"seed": 1}, "no argument 'seed'"),
    ],
)
def test_what_cannot_be_estimated_is_refused(text, options, message):
    graph = Graph(pa.table({"src": [1, 2], "dst": [2, 3]}))
    with pytest.raises((BigjoinError, QueryError), match=message.replace("(", r"\(")):
        graph.estimate(text, **options)


def test_the_command_needs_no_spark(tmp_path):
    source = tmp_path / "edges.txt"
    source.write_text("1 2\n2 3\n1 3\n3 4\n")
    code = "import sys; sys.argv[0] = 'bigjoin'; from bigjoin.cli.main import main; main()"

    def run(*arguments):
        return subprocess.run([sys.executable, "-c", code, "estimate", *arguments], capture_output=True, text=True, check=False)

    spark = "import bigjoin.spark.session as s; s.get_session = None; "
    code = spark + code
    found = run("triangle", str(source), "--quiet")
    assert (found.returncode, found.stdout, found.stderr) == (0, "1\n", "")
    facts = json.loads(run("triangle", str(source), "--json", "--seconds", "1", "--random-state", "3").stdout)
    assert {name: facts[name] for name in ("count", "low", "high", "exact")} == {"count": 1, "low": 1, "high": 1, "exact": True}
    wrong = run("triangle", str(source), "--seconds", "0", "--quiet")
    assert (wrong.returncode, wrong.stderr) == (2, "bigjoin: seconds is 0.0; it must be a number above 0\n")
