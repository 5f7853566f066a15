"""Every path of execution by its name: the same random questions and histories, along each of them, against brute force.

Which path is taken depends on the size of the data or of the query; here it is asked for, so that small data go along all.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import bigjoin as bj
from bigjoin.compiled import loops, source_text
from bigjoin.explain import explain
from bigjoin.index.directory import Index
from bigjoin.indexing import build_index
from bigjoin.ingest import compact
from bigjoin.languages import parse
from bigjoin.local.strategy import Ask
from bigjoin.planner import count_plan, delta_plan, factorized_plan, meaning, plan
from bigjoin.query.statistics import assumed_graph
from bigjoin.spark import shared
from bigjoin.streaming import compaction as compaction_module
from bigjoin.streaming import count_changes, find
from bigjoin.streaming.find import Execution
from bigjoin.streaming.monitor import Monitor
from bigjoin.streaming.watched import Watched
from bigjoin.streaming.window import Window
from tests.executions import interpreted, total
from tests.questions import Question, flattened
from tests.test_updates import LENGTH, Model

QUESTIONS = range(12)
"""Of each static path. The loops are run as plain Python, the kernels that they call are compiled."""
HISTORIES = range(19)
"""Of each way to run delta queries, with compaction after every epoch and without."""
WITHOUT_JIT = range(100, 104)
"""Questions and histories of each path in a process without the JIT."""
JIT = os.environ.get("NUMBA_DISABLE_JIT") != "1"


def on_batches(monkeypatch):
    """Have everything be too large to be compiled."""
    monkeypatch.setattr(source_text, "MAX_SOURCE_LINES", 0)


def counted(question, index):
    job = shared.count_job(Ask(meaning(question.query, index.statistics)[0], index), 2)
    parts = [zip(job.program.bind(index), ranges, strict=True) for ranges in job.ranges]
    total = sum(times * found.count(mine) for part in parts for (times, found), mine in part)
    assert total % job.program.divisor == 0
    assert total // job.program.divisor == sum(question.wanted.values()), question.text


def listed(question, index, *, factorized=False):
    job = shared.list_job(Ask(meaning(question.query, index.statistics)[0], index, batch_size=3, factorized=factorized), 2)
    batches = [batch for task in range(len(job.ranges)) for batch in shared.match_batches(job, task, None)]
    lists = {
        name
        for name in question.query.columns
        if factorized and name in factorized_plan(question.query, index.statistics).tails
    }
    for batch in batches:
        assert {field.name for field in batch.schema if pa.types.is_list(field.type)} == lists
    found = Counter(question.canonical(row) for batch in batches for row in flattened(batch))
    assert found == question.wanted, question.text


STATIC = {"count": counted, "list": listed, "factorized": partial(listed, factorized=True)}


@pytest.mark.usefixtures("loops_as_python")
@pytest.mark.parametrize("seed", QUESTIONS if JIT else WITHOUT_JIT)
@pytest.mark.parametrize("execution", ["compiled", "batched"])
@pytest.mark.parametrize("path", STATIC)
def test_questions_are_answered_along_every_path(path, execution, seed, tmp_path, monkeypatch):
    question = Question(seed)
    index = build_index(question.table(), tmp_path / "index", directed=question.directed)
    if execution == "batched":
        on_batches(monkeypatch)
    STATIC[path](question, index)


EXECUTIONS = {
    "batched": Execution.BATCHED,
    "compiled": Execution.COMPILED,
    "compiled, too large": Execution.COMPILED,
    "tasks": Execution.TASKS,
    "all matches": Execution.ALL_MATCHES,
}
COMPACTION = {"compacted": 1 << 60, "in runs": 1}
"""By how much the number of tuples is divided to say how large runs may be: after every epoch they are too large, or never."""


def follow(seed, execution, compaction, folder, monkeypatch, spark=None):
    """Run a history that is drawn, listing and counting what its epochs change, and compare each with the model."""
    monkeypatch.setattr(compact, "MIN_FORGOTTEN_VERTICES", 0)
    monkeypatch.setattr(compaction_module, "MIN_COMPACTED_TUPLES", 0 if compaction == "compacted" else 1 << 60)
    monkeypatch.setattr(compaction_module, "COMPACTION_RATIO", COMPACTION[compaction])
    if execution == "compiled, too large":
        on_batches(monkeypatch)
    random = Random(seed)
    model = Model(random, drawn=True)
    index = build_index(model.source(), folder / "index", directed=model.directed, shards=random.choice([1, 3]))
    before = model.result()
    watching = Monitor(
        index.path,
        {"listed": Watched(model.query), "counted": Watched(model.query, listing=False)},
        spark=lambda: spark,
        initial=lambda *_: sum(before.values()),
        order="s" if model.ordered else None,
        window=Window("t", LENGTH) if model.window else None,
        execution=EXECUTIONS[execution],
    )
    for epoch in range(random.randint(2, 4)):
        table = model.updates(epoch)
        after = model.result()
        wanted = Counter(after)
        wanted.subtract(before)
        done = watching.apply(table)
        listed, counted = done.queries["listed"], done.queries["counted"]
        found: Counter = Counter()
        for row in listed.table.drop_columns("epoch").to_pylist():
            found[model.canonical(tuple(row.values())[1:])] += row["change"]
        case = (seed, epoch, model.text, model.flags, table)
        assert {k: v for k, v in found.items() if v} == {k: v for k, v in wanted.items() if v}, case
        assert listed.count == counted.count == sum(after.values()), case
        if not (model.query.induced or any(atom.negated for atom in model.query.atoms)):  # else a count knows the net alone
            assert (listed.created, listed.destroyed) == (counted.created, counted.destroyed), case
        assert bool(Index.open(index.path).runs) <= (compaction == "in runs"), case
        before = after


@pytest.mark.usefixtures("loops_as_python")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", HISTORIES if JIT else WITHOUT_JIT)
@pytest.mark.parametrize("compaction", COMPACTION)
@pytest.mark.parametrize("execution", ["batched", "compiled", "compiled, too large"])
def test_histories_are_followed_along_every_path(execution, compaction, seed, tmp_path, monkeypatch):
    follow(seed, execution, compaction, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.usefixtures("loops_as_python")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_thousand_questions_and_histories_along_every_path(tmp_path):
    """1,000 questions along six paths, and as many histories, each by one of the executions and one kind of compaction."""
    ways = list(product(["batched", "compiled", "compiled, too large"], COMPACTION))
    for seed in range(1000, 2000):
        question = Question(seed)
        index = build_index(question.table(), tmp_path / f"{seed}", directed=question.directed)
        for execution in ("compiled", "batched"):
            with pytest.MonkeyPatch.context() as patch:
                if execution == "batched":
                    on_batches(patch)
                for path in STATIC.values():
                    path(question, index)
        with pytest.MonkeyPatch.context() as patch:
            folder = tmp_path / f"history-{seed}"
            folder.mkdir()
            follow(seed, *ways[seed % len(ways)], folder, patch)


@pytest.mark.slow
@pytest.mark.skipif(not JIT, reason="is the process without")
def test_every_path_without_the_jit(tmp_path):
    """In a process of its own: 4 questions along each static path, and 4 histories of each execution and kind of compaction."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", "-k", "along_every_path"]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [*command, __file__], env=environment, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert f"{len(WITHOUT_JIT) * (2 * len(STATIC) + 3 * len(COMPACTION))} passed" in done.stdout


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("compaction", COMPACTION)
def test_histories_are_followed_in_tasks(compaction, spark, tmp_path, monkeypatch):
    """Two histories; loops are compiled there."""
    for seed in (18, 120):
        (tmp_path / str(seed)).mkdir()
        follow(seed, "tasks", compaction, tmp_path / str(seed), monkeypatch, spark)


LOOPED = "q(a,b,c) := edge(a,a), edge(a,b), edge(a,c)"


@pytest.mark.parametrize(("listing", "flags"), [(True, {}), (False, {"distinct": True}), (False, {"unique": True})])
def test_a_large_epoch_with_a_loop_atom(listing, flags):
    """Compiled, and chosen by size: 300 vertices, two thirds of all pairs, and 1,500 insertions."""
    random = np.random.default_rng(0)
    there = random.random((300, 300)) < 2 / 3
    src, dst = (ends[:1500] for ends in np.nonzero(~there & (random.random((300, 300)) < 0.3)))
    graph = bj.Graph(pa.table(dict(zip(("src", "dst"), np.nonzero(there), strict=True))))
    after = there.copy()
    after[src, dst] = True

    def matches(held):
        degrees = held.sum(axis=1) - (1 if flags else 0)  # distinct: b and c are not a, which has a loop
        pairs = {(): degrees**2, ("distinct",): degrees * (degrees - 1), ("unique",): degrees * (degrees - 1) // 2}
        return int(pairs[tuple(flags)][held.diagonal()].sum())

    epoch = graph.apply(pa.table({"src": src, "dst": dst, "op": ["+"] * len(src)}), LOOPED, listing=listing, **flags)
    assert (epoch.created, epoch.destroyed, epoch.count) == (matches(after) - matches(there), 0, matches(after))


def test_what_there_is_to_look_at_decides_how_delta_queries_are_run(monkeypatch):
    original, chosen = find._list_by_sharing, []

    def list_by_sharing(execution, *options):
        chosen.append(execution)
        original(Execution.BATCHED, *options)

    monkeypatch.setattr(find, "_list_by_sharing", list_by_sharing)
    for few, alone in [(100, 100), (-1, 100), (-1, -1)]:
        monkeypatch.setattr(find, "MAX_REACH_ON_BATCHES", few)
        monkeypatch.setattr(find, "MAX_REACH_HERE", alone)
        graph = bj.Graph(pa.table({"src": [1], "dst": [1]}))
        epoch = graph.apply(pa.table({"src": [1, 2], "dst": [2, 1], "op": ["+", "+"]}), LOOPED)
        assert (epoch.created, epoch.count) == (3, 4)
    assert chosen == [Execution.BATCHED, Execution.COMPILED, Execution.TASKS]


def test_a_count_that_is_too_much_for_batches_goes_on_as_loops(monkeypatch):
    monkeypatch.setattr(loops, "load", interpreted)
    monkeypatch.setattr(count_changes, "MAX_PREFIXES_ON_BATCHES", 10)
    graph = bj.Graph(pa.table({"src": [0] * 20, "dst": list(range(1, 21))}))
    epoch = graph.apply(pa.table({"src": [0], "dst": [21], "op": ["+"]}), "4-star", listing=False)
    assert (epoch.created, epoch.count) == (21**4 - 20**4, 21**4)


SHARED_IDS = [
    "q(a,b,c,e) := edge(a,b,e), edge(b,c), edge(a,c,e)",
    "q(a,b,c,e) := edge(a,b,e), edge(c,b,e), edge(c,a)",
    "q(a,b,c,d,e) := edge(a,b,e), edge(c,d,e), edge(b,c), edge(d,a), edge(a,c)",
    "q(a,b,c,d,e,f) := edge(a,b,e), edge(b,c,f), edge(c,d,e), edge(d,a,f), edge(b,d)",
]
FORGOTTEN = 20
"""Questions whose catalogue is gone, or has lost names."""


@pytest.mark.usefixtures("loops_as_python")
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("text", SHARED_IDS)
def test_two_atoms_may_share_an_edge_id(text, directed, tmp_path):
    """The catalogue of pairs says nothing of lists that an edge id leads to."""
    question = Question(0)
    random = Random(text)
    question.ids, question.directed, question.has_rows, question.flags = [1, 2, 3], directed, True, {}
    question.rows, question.text, question.query = question.draw_rows(random, 9), text, parse(text)
    question.wanted = question.result()
    index = build_index(question.table(), tmp_path / "index", directed=directed)
    for path in STATIC.values():
        path(question, index)
    assert "seeded with the delta of edge(a, b, e)" in explain(question.query, index.statistics, delta=True)
    graph = bj.Graph(question.table(), directed=directed)
    question.rows.append((1, 1, 5))
    epoch = graph.apply(pa.table({"src": [1], "dst": [1], "w": [5], "op": ["+"]}), text)
    assert epoch.count == sum(question.result().values())


@pytest.mark.usefixtures("loops_as_python")
@pytest.mark.parametrize("seed", range(200, 200 + FORGOTTEN))
def test_a_catalogue_may_say_nothing(seed, tmp_path):
    """Of an index that has none, or not all its names, estimates are assumed; every way to count gives the same number."""
    question, random = Question(seed), Random(seed)
    index = build_index(question.table(), tmp_path / "index", directed=question.directed)
    edge = index.statistics.relations["edge"]
    some = {name: value for name, value in edge.catalogue.items() if random.random() < 0.5}
    for catalogue in ({}, some):
        known = replace(index.statistics, relations={"edge": replace(edge, catalogue=catalogue)})
        assert total(count_plan(question.query, known), index) == sum(question.wanted.values())
        assert plan(question.query, known).attributes
        assert delta_plan(question.query, known).queries
        assert factorized_plan(question.query, known).tails == factorized_plan(question.query, index.statistics).tails


@pytest.mark.parametrize("seed", range(300, 330))
def test_columns_that_are_lists_follow_from_the_query_alone(seed, tmp_path):
    """30 questions, each of graphs of three sizes and of one that is assumed: explain says of all of them the same."""
    question, random, found = Question(seed), Random(seed), set()
    many = [*question.ids, *(f"{i}" if isinstance(question.ids[0], str) else i for i in range(200, 250))]
    for size in (1, 6, 300):
        question.ids = many if size == 300 else question.ids
        table = question.table(question.draw_rows(random, size))
        known = build_index(table, tmp_path / str(size), directed=question.directed).statistics
        found.add(factorized_plan(question.query, known).tails)
        shown = [line for line in explain(question.query, known).splitlines() if line.startswith("factorized, a row has ")]
        columns = shown[0].removeprefix("factorized, a row has ").split(", ")
        lists = {name.removeprefix("list of ") for name in columns if name.startswith("list of ")}
        assert lists == set(factorized_plan(question.query, known).tails) & set(question.query.columns)
    if question.has_rows:
        assumed = assumed_graph(symmetric=not question.directed, properties=["w"])
        found.add(factorized_plan(question.query, assumed).tails)
    assert len(found) == 1, (question.text, found)


@pytest.mark.spark
def test_three_stars_have_one_schema(spark):
    """Of three edges and of six, which made different columns when estimates chose them."""
    schemas = []
    for edges in ([(1, 2), (1, 3), (2, 3)], [(1, 2), (1, 3), (1, 4), (2, 3), (3, 4), (4, 1)]):
        table = pa.table({"src": [a for a, _ in edges], "dst": [b for _, b in edges]})
        with bj.Graph(table, spark=spark) as graph:
            frame = graph.find("3-star", factorized=True)
            degrees = Counter(a for a, _ in edges)
            found = sum(len(row.a2) * len(row.a3) * len(row.a4) for row in frame.collect())
            assert found == sum(degree**3 for degree in degrees.values())
            schemas.append(frame.schema.simpleString())
    assert schemas == ["struct<a1:bigint,a2:array<bigint>,a3:array<bigint>,a4:array<bigint>>"] * 2
