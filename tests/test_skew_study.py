"""The skew study: relations made to be lopsided, with the counts that they say, and the page that is made of lines."""

from __future__ import annotations

import re
from itertools import product
from math import log2

import numpy as np
import pyarrow as pa
import pytest

from bigjoin.defaults import STRATEGIES
from bigjoin_bench.graphs import Library
from bigjoin_bench.question import Question
from bigjoin_bench.report.skew import write_skew
from bigjoin_bench.report.skew_cells import cells_of, imbalance
from bigjoin_bench.report.skew_targets import targets
from bigjoin_bench.results import Line, read
from bigjoin_bench.skew import study
from bigjoin_bench.skew.inputs import INPUTS, THEOREM, Asked, Input
from bigjoin_bench.skew.relations import QUERY, Tables, one_key, one_worker, same_keys, theorem_batch


def pairs(table: pa.Table) -> list[tuple[int, int]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def matches(tables: Tables) -> int:
    """Count matches in the plainest way, from sets."""
    r, s, t = (pairs(tables.relations[name]) for name in "rst")
    of_b: dict[int, set[int]] = {}
    of_a: dict[int, set[int]] = {}
    for known, rows in ((of_b, s), (of_a, t)):
        for key, value in rows:
            known.setdefault(key, set()).add(value)
    return sum(len(of_b.get(b, set()) & of_a.get(a, set())) for a, b in r)


@pytest.mark.parametrize(
    "tables", [one_key(50, 24, 6), one_worker(12, 5, 4), same_keys(2), same_keys(5)], ids=["key", "worker", "same 2", "same 5"]
)
def test_relations_have_the_matches_that_they_say(tables):
    assert matches(tables) == tables.count > 0
    for table in tables.relations.values():
        assert len(set(pairs(table))) == table.num_rows


def test_one_key_is_in_all_of_r():
    assert set(one_key(50, 24, 6).relations["r"]["b"].to_pylist()) == {0}


def test_keys_of_one_worker_are_as_frequent_as_others():
    relations = one_worker(12, 5, 4).relations
    values = np.concatenate([relations[name]["b"].to_numpy() for name in ("r", "s")])
    assert set(np.bincount(values)) == {8}  # so codes, which go by frequency and then by value, are the values
    assert set(relations["r"]["b"].to_numpy() % 12) == {0}


def test_every_worker_has_the_same_keys():
    workers = 5
    tables = same_keys(workers)
    b, c = ({a: sorted(v for k, v in pairs(tables.relations[name]) if k == a) for a in range(workers)} for name in ("r", "t"))
    asked = [len(set(product(b[a], c[a]))) for a in range(workers)]
    assert len({tuple(x) for x in b.values()}) == len({tuple(x) for x in c.values()}) == 1
    tuples = sum(table.num_rows for table in tables.relations.values())
    most = np.prod([float(table.num_rows) for table in tables.relations.values()]) ** 0.5
    assert min(asked) >= theorem_batch(workers, tuples, float(most))


def test_the_batch_of_the_theorem():
    assert theorem_batch(64, 1e6, 1e9) == 4 * 64 * 64
    assert theorem_batch(16, 2.0**20, 2.0**30) == 4 * 16 * 50
    assert theorem_batch(1, 0, 0) == 4 * log2(2)


def test_contenders_are_strategies_that_exist():
    assert set(study.CONTENDERS) <= set(STRATEGIES)
    assert not any(given.long for given in study.inputs())
    assert [given.name for given in study.inputs(["Theory 28.7 M"])] == ["Theory 28.7 M"]
    for name, given in INPUTS.items():
        assert name == given.name
        assert all(asked.settings for asked in given.asked)


def test_loads_by_what_travels():
    loads = [{"of": what, "max": 3, "mean": 1.0} for what in ("deal", "count", "intersect", "intersect answers")]
    assert study.kinds_of(loads) == {"deal": [3, 1.0], "requests": [6, 2.0], "answers": [3, 1.0]}
    assert study.kinds_of([{"max": 3, "mean": 1.0}]) == {}


def line(strategy: str, graph: str = "One key", workers: int = 64, batch: str = THEOREM, **figures) -> Line:
    known = {
        "strategy": strategy,
        "workers": workers,
        "batch": batch,
        "batch_size": 16384,
        "input": 1000,
        "skewed": graph == "One key",
        "rounds": 2,
        "tuples": 640,
        "bytes": 5000,
        "critical_path": 640 if strategy == "partitioned" else 20,
        "index_tuples": {"max": 9, "mean": 8.0},
        "explored": 320,
        "busy": 1.0,
        "loads": [[10, 2.5], [0, 0.0]],
    }
    if strategy == "balanced":
        known["kinds"] = {"requests": [11, 10.0], "answers": [15, 10.0], "deal": [8, 2.0]}
        known["balance"] = {"batch": 1 << 20, "dealt": 1, "lookups": 1.1, "new": 0.5, "waiting": 1.5, "draws": [1.0, 1.1]}
    asked = {"query": QUERY if graph == "One key" else "triangle", "meaning": "join"}
    return Line(
        "2026-01-01T00:00:00+00:00", "skew", graph, **asked, contender=f"{strategy}-{workers}-{batch}", version="1",
        count="7", cold=2.0, warm=[1.0], figures=known | figures, commit="abc1234", machine={"cpu": "a cpu", "cores": 2},
    )  # fmt: skip


def lines() -> list[Line]:
    made = [line(strategy, workers=many) for strategy in ("partitioned", "balanced") for many in (16, 64, 224)]
    busy = {"partitioned": 1.0, "balanced": 3.0}
    return made + [line(name, "soc-Epinions1", batch="default", busy=work) for name, work in busy.items()]


def test_aims_are_met_or_missed_by_the_lines():
    said = targets(cells_of(lines()))
    assert "| balanced: work dealt within | 1 | 1 | met |" in said
    assert "| at most 1.2 | 1.00 to 1.10 | met |" in said
    assert "| at least 5 | 32.0 to 32.0 | met |" in said
    assert "| balanced: busy seconds, real graphs, over partitioned's | at most 2 | 3.00 to 3.00 | missed in 1 of 1 |" in said
    worse = [*lines()[:4], line("balanced", critical_path=320), *lines()[5:]]
    assert re.search(r"missed on .* One key \([0-9.]+\) 2\.0", targets(cells_of(worse)))
    unlucky = {"dealt": 2, "lookups": 1.3, "new": 1.0, "waiting": 1.0, "draws": [1.1, 1.3]}
    assert "| at most 1.2 | 1.10 to 1.30 | missed on One key 1.30 |" in targets(cells_of([line("balanced", balance=unlucky)]))


def test_a_page_is_made_of_lines(tmp_path):
    assert write_skew([], tmp_path) is None
    page = write_skew(lines(), tmp_path)
    assert page is not None
    said = page.read_text()
    assert "| One key | 64 | 640 | 20 | 64.00 | 2.00 | 32.0 |" in said
    assert "at most 1.00 times the tuples of `partitioned`" in said
    assert "| One key | 64 | 16,384 | 2 | 1 | 1.10 | 1.05, 2 | 0.50 | 1.50 |" in said
    assert "| One key | 64 | 1.10 | 1.50 | 4.00 | 32% | 44% | 24% |" in said
    assert imbalance(line("partitioned")) == 64.0
    for picture in (tmp_path / "skew").glob("*.svg"):
        assert f"(skew/{picture.name})" in said
    write_skew([*lines(), line("heavy-light")], tmp_path)  # a strategy that this version may not have
    assert page.read_text().startswith("# Skew")


@pytest.mark.spark
def test_a_small_study(tmp_path, spark):
    small = Input("small", "", (Asked(Question(QUERY), ((3, THEOREM),)),), make=lambda: one_key(60, 24, 6))
    wrong = Input("wrong", "", small.asked, make=lambda: Tables(one_key(60, 24, 6).relations, 1))
    library = Library()
    try:
        running = study.Study(tmp_path / "results.jsonl", library, rounds=0, spark=spark)
        found = running.run([small, wrong])
    finally:
        library.close()
    assert len(running.wrong) == 1
    assert read(tmp_path / "results.jsonl") == found
    assert [line.figures["strategy"] for line in found] == list(study.CONTENDERS)
    assert {line.count for line in found} == {"180"}
    for line in found:
        assert line.figures["critical_path"] <= line.figures["tuples"] <= 3 * line.figures["critical_path"]
        assert line.figures["busy"] > 0
    assert found[list(study.CONTENDERS).index("balanced")].figures["balance"]["dealt"] <= 1
