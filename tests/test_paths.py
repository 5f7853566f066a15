"""Every path of execution by its name: the same random questions and histories, along each of them, against brute force.

Which path is taken depends on the size of the data or of the query; here it is asked for, so that small data go along all.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import bigjoin as bj
from bigjoin.explain import explain
from bigjoin.index.directory import Index
from bigjoin.indexing import build_index
from bigjoin.ingest import compact
from bigjoin.joins import compiled, source_text
from bigjoin.languages import parse
from bigjoin.planner import count_plan, delta_plan, factorized_plan, plan
from bigjoin.query.nest import Term, nest_of
from bigjoin.query.statistics import assumed_graph
from bigjoin.spark import shared
from bigjoin.streaming import monitor
from bigjoin.streaming.find import Execution
from bigjoin.streaming.monitor import Monitor, Watched
from bigjoin.streaming.window import Window
from tests.oracles import naive
from tests.questions import Question, flattened
from tests.test_updates import LENGTH, Model
from tests.treatments import interpreted
from tests.treatments import balanced as by_balanced
from tests.treatments import heavy_light as by_heavy_light
from tests.treatments import partitioned as by_partitioned

QUESTIONS = range(40)
"""Of each static path, in a process with the JIT; the loops themselves are run as plain Python, which need not be compiled."""
HISTORIES = range(12)
"""Of each way to run delta queries, with and without compaction after every epoch."""
WITHOUT_JIT = range(100, 104)
"""Of each path, in a process without the JIT."""


@pytest.fixture
def loops_as_python(monkeypatch):
    monkeypatch.setattr(compiled, "load", interpreted)


def on_batches(monkeypatch):
    """Have everything be too large to be compiled."""
    monkeypatch.setattr(source_text, "LONGEST", 0)


def counted(question, index):
    steps = partial(plan, question.query, index.statistics)
    job = shared.prepare_count(count_plan(question.query, index.statistics), index, tasks=2, plan=steps)
    parts = [zip(job.terms(), ranges, strict=True) for ranges in job.ranges]
    total = sum(times * term.count(mine) for part in parts for (times, term), mine in part)
    assert total % job.divisor == 0
    assert total // job.divisor == sum(question.wanted.values()), question.text


def listed(question, index, *, factorized=False):
    def steps(order=None):
        return plan(question.query, index.statistics, order=order)

    term = Term(1, nest_of(steps()), steps().attributes)
    if factorized:
        term = factorized_plan(question.query, index.statistics)
    options = {"tasks": 2, "batch_size": 3, "factorized": factorized, "plan": steps}
    job = shared.prepare(term, question.query, index, **options)
    batches = [batch for task in range(len(job.ranges)) for batch in shared._decoded(job, task, None)]
    lists = {name for name in question.query.columns if factorized and name in term.tails}
    for batch in batches:
        assert {field.name for field in batch.schema if pa.types.is_list(field.type)} == lists
    found = Counter(question.canonical(row) for batch in batches for row in flattened(batch))
    assert found == question.wanted, question.text


STATIC = {"count": counted, "list": listed, "factorized": partial(listed, factorized=True)}


@pytest.mark.usefixtures("loops_as_python")
@pytest.mark.parametrize("seed", [*QUESTIONS, *WITHOUT_JIT])
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
}
COMPACTION = {"compacted": 1 << 60, "in runs": 1}
"""By how much the number of tuples is divided to say how large runs may be: after every epoch they are too large, or never."""


def follow(seed, execution, compaction, folder, monkeypatch, spark=None):
    """Run a history that is drawn, listing and counting what its epochs change, and compare each with the model."""
    monkeypatch.setattr(compact, "ALONE", 0)
    monkeypatch.setattr(monitor, "FEW", 0 if compaction == "compacted" else 1 << 60)
    monkeypatch.setattr(monitor, "SHARE", COMPACTION[compaction])
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
@pytest.mark.parametrize("seed", [*HISTORIES, *WITHOUT_JIT])
@pytest.mark.parametrize("compaction", COMPACTION)
@pytest.mark.parametrize("execution", ["batched", "compiled", "compiled, too large"])
def test_histories_are_followed_along_every_path(execution, compaction, seed, tmp_path, monkeypatch):
    follow(seed, execution, compaction, tmp_path, monkeypatch)
