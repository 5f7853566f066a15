"""Samples of matches: exactly as many as asked for, none twice, all sets equally likely, under every strategy."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from math import comb
from random import Random
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chi2

from bigjoin import BigjoinError, Graph, QueryError
from bigjoin.compiled import loops, picking
from bigjoin.compiled.picking import NumberedBySeed, PickProgram, picked
from bigjoin.indexing import build_index
from bigjoin.joins.bind import result_columns
from bigjoin.languages import read
from bigjoin.local.pick_job import choose, dealt
from bigjoin.planner import meaning, numbered_plan
from bigjoin.spark.smallest import Smallest, hashes_of
from tests.executions import decoded, interpreted
from tests.questions import Question
from tests.strategies import STRATEGIES

EDGES = [(a, b) for a in range(7) for b in range(7) if a != b and (a * b) % 3 != 1] + [(5, 99)]


def is_uniform(times: Counter, cells: int) -> bool:
    """Whether counts that should be equal are, up to chance in one of 10,000 cases."""
    expected = times.total() / cells
    statistic = sum((n - expected) ** 2 / expected for n in times.values()) + expected * (cells - len(times))
    return statistic < chi2.ppf(0.9999, cells - 1)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("on_batches", [False, True])
def test_numbered_matches_are_the_matches(seed, on_batches, tmp_path):
    question = Question(2000 + seed)
    index = build_index(question.table(), tmp_path / "index", directed=question.directed)
    (part,) = meaning(read(question.text, **question.flags).query, index.statistics)
    counted, plan = numbered_plan(part)
    with mock.patch.object(loops, "load", interpreted), mock.patch.object(picking, "DIVISION", 2):
        matches = PickProgram(counted, plan, on_batches=on_batches).bind(index)
        cuts = matches.cuts(3)
        counts = [matches.count(first, last) for first, last in pairwise(cuts)]
        assert sum(counts) == question.wanted.total()
        found = Counter()
        for (first, last), count in zip(pairwise(cuts), counts, strict=True):
            for ranks in (list(range(0, count, 2)), list(range(1, count, 2))):
                for block in picked(matches, first, last, ranks) if ranks else ():
                    found.update(map(question.canonical, decoded(result_columns(plan.query, plan.attributes, index), block)))
    assert found == question.wanted


def test_numbers_are_chosen_uniformly_without_replacement():
    random, times = Random(1), Counter()
    for _ in range(3000):
        times[tuple(choose(6, 3, random))] += 1
    assert all(list(one) == sorted(set(one)) for one in times)
    assert is_uniform(times, comb(6, 3))
    assert choose(4, 9, random) == [0, 1, 2, 3]
    assert choose(5, 0, random) == []
    huge = choose(10**30, 5, random)
    assert len(set(huge)) == 5
    assert huge == sorted(huge)
    assert max(huge) > 10**25


def test_numbers_fall_into_stretches():
    assert dealt([0, 4, 5, 9], [1, 0, 4, 3, 2]) == [(0, (0,)), (2, (3,)), (3, (0,)), (4, (1,))]
    assert dealt([], [1, 2]) == []


def test_the_smallest_hashes_are_a_uniform_sample_whatever_the_batches():
    matches = np.array([(a, b) for a in range(4) for b in range(3)], np.uint32).T
    times: Counter = Counter()
    for salt in range(2000):
        sample = Smallest(3, salt, ["x", "y"])
        for batch in np.array_split(np.arange(12), 1 + salt % 4):
            sample.put(matches[:, batch])
        found, hashes = sample.matches()
        assert (hashes == hashes_of(found, salt)).all()
        other = Smallest(3, salt, ["y", "x"])
        other.put(matches[::-1])
        assert {tuple(row) for row in other.matches()[0][::-1].T} == {tuple(row) for row in found.T}
        times.update(tuple(row) for row in found.T.tolist())
    assert is_uniform(times, 12)


def test_a_large_sample_keeps_few_matches_at_a_time():
    sample = Smallest(10, 5, ["x"])
    for first in range(0, 100_000, 1000):
        sample.put(np.arange(first, first + 1000, dtype=np.uint32)[None])
        assert sum(len(hashes) for _, hashes in sample._kept) <= 4 * 10 + (1 << 12) + 1000
    _, hashes = sample.matches()
    everything = hashes_of(np.arange(100_000, dtype=np.uint32)[None], 5)
    assert sorted(hashes) == sorted(everything)[:10]


@pytest.fixture(scope="module")
def graph(spark, tmp_path_factory):
    with Graph(EDGES, spark=spark) as made:
        yield made


@pytest.mark.spark
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_samples_are_matches_chosen_uniformly(graph, strategy):
    everything = Counter(tuple(row) for row in graph.find("triangle").collect())
    times: Counter = Counter()
    for state in range(3):
        rows = [tuple(row) for row in graph.find("triangle", sample=20, random_state=state, strategy=strategy).collect()]
        assert len(rows) == len(set(rows)) == 20
        assert not Counter(rows) - everything
        times.update(rows)
    assert is_uniform(times, len(everything))
    again = graph.find("triangle", sample=20, random_state=2, strategy=strategy)
    assert {tuple(row) for row in again.collect()} == set(rows)
    few = graph.find("triangle", sample=10**6, strategy=strategy)
    assert Counter(tuple(row) for row in few.collect()) == everything


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_all_matches_are_equally_likely(graph, strategy):
    everything = graph.count("triangle", unique=True)
    times: Counter = Counter()
    for state in range(40):
        frame = graph.find("triangle", unique=True, sample=5, random_state=state, strategy=strategy)
        times.update(tuple(row) for row in frame.collect())
    assert times.total() == 200
    assert is_uniform(times, everything)


@pytest.mark.spark
@pytest.mark.parametrize("strategy", ["shared", "partitioned"])
def test_samples_of_sums_and_of_distinct_rows(graph, strategy):
    paths = graph.count("(a)-[*1..2]->(b)")
    frame = graph.find("(a)-[*1..2]->(b)", sample=30, random_state=1, strategy=strategy)
    assert frame.columns == graph.find("(a)-[*1..2]->(b)", limit=1).columns
    assert frame.count() == 30
    assert graph.find("(a)-[*1..2]->(b)", sample=10**6, strategy=strategy).count() == paths
    optional = graph.find("q(a,b,c) := edge(a,b), optional edge(b,c)", sample=10**6, strategy=strategy).collect()
    assert [row.b for row in optional if row.c is None] == [99]
    assert len(optional) == sum(max(1, sum(a == end for a, _ in EDGES)) for _, end in EDGES)
    first = graph.find("q(a) := edge(a,b)", deduplicate=True, sample=3, random_state=4, strategy=strategy).collect()
    assert len({row.a for row in first}) == 3
    assert graph.find("q(a) := edge(a,b)", deduplicate=True, sample=3, random_state=4).collect() == first
    assert graph.find("triangle", sample=9, limit=4, strategy=strategy).count() == 4
    assert graph.find("MATCH (a)-[]->(b) RETURN b LIMIT 2", sample=9, strategy=strategy).count() == 2
    assert graph.find("triangle", seeds={"a1": [3]}, sample=10**6, strategy=strategy).count() == graph.count(
        "triangle", seeds={"a1": [3]}
    )


@pytest.mark.spark
def test_samples_are_written_and_streamed(graph, tmp_path):
    for suffix in (".parquet", ".csv", ".json"):
        assert graph.write("triangle", tmp_path / f"rows{suffix}", sample=11) == 11
    (piece,) = (pa.ipc.open_file(str(file)).read_all() for file in graph.pieces("triangle", ".arrow", sample=6))
    assert piece.num_rows == 6


@pytest.mark.spark
@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("triangle", {"factorized": True}, "factorized rows stand for many"),
        ("MATCH (a)-[]->(b) RETURN a ORDER BY a", {}, "ORDER BY cannot be combined"),
        ("MATCH (a)-[]->(b) RETURN a SKIP 2", {}, "SKIP cannot be combined"),
        ("MATCH (a)-[]->(b) RETURN count(*)", {}, r"count\(\*\) cannot be combined"),
        ("triangle", {"sample": -1}, "sample is -1; it must be at least 0"),
        ("triangle", {"sample": 10**9}, "sample is 1000000000; it must be at most"),
        ("triangle", {"random_state": "x"}, "random_state is 'x'"),
    ],
)
def test_what_cannot_be_sampled_is_refused(graph, text, options, message, tmp_path):
    for ask in (graph.find, lambda query, **how: graph.write(query, tmp_path / "x.parquet", **how)):
        with pytest.raises((BigjoinError, QueryError), match=message):
            ask(text, **{"sample": 5, **options})


def test_batches_pick_too(tmp_path):
    index = build_index(pa.table({"src": [a for a, _ in EDGES], "dst": [b for _, b in EDGES]}), tmp_path / "index")
    (part,) = meaning(read("triangle").query, index.statistics)
    _, plan = numbered_plan(part)
    matches = NumberedBySeed(plan, index)
    assert matches.cuts(1)[0] == 0
    assert sum(matches.count(n, n + 1) for n in range(matches.cuts(1)[-1])) == matches.count(0, matches.cuts(1)[-1])
