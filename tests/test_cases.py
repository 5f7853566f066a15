"""Every case under every treatment: one expected result, many ways to get it."""

from __future__ import annotations

import pytest

from bigjoin.graph import Graph
from bigjoin.planner import plan
from tests import treatments
from tests.case_file import read_cases

CASES = [(question, spelling) for question in read_cases() for spelling in question.spellings]


def cases(wanted=lambda question: True):
    chosen = [(question, spelling) for question, spelling in CASES if wanted(question)]
    return pytest.mark.parametrize(("question", "spelling"), chosen, ids=[f"{q.name}-{s[:20]}" for q, s in chosen])


EVERY_CASE = cases()
SQL_HAS_NO_CLASSES = cases(lambda question: not question.flags.get("unique"))
PLAN_IS_FIXED = cases(lambda question: question.plan is not None)


def check(question, spelling, rows):
    if question.count is not None:
        assert len(rows) == question.count
    if question.rows is not None:
        wanted = treatments.canonical(question, question.rows, spelling)
        assert treatments.canonical(question, rows, spelling) == wanted


def test_there_are_cases():
    assert len(CASES) > 40


@EVERY_CASE
def test_naive(question, spelling):
    check(question, spelling, treatments.by_naive(question, spelling))


@SQL_HAS_NO_CLASSES
def test_duckdb(question, spelling):
    check(question, spelling, treatments.by_duckdb(question, spelling))


@EVERY_CASE
@pytest.mark.parametrize(("batch_size", "parts"), [(1 << 18, 1), (1, 1), (3, 4)])
def test_local(question, spelling, batch_size, parts, tmp_path):
    index = treatments.index_of(question, tmp_path)
    check(question, spelling, treatments.local(question, spelling, index, batch_size=batch_size, parts=parts))


@PLAN_IS_FIXED
def test_plan(question, spelling, tmp_path):
    index = treatments.index_of(question, tmp_path)
    assert str(plan(treatments.parsed(question, spelling), index.statistics)) + "\n" == question.plan


@pytest.mark.spark
@EVERY_CASE
def test_shared(question, spelling, tmp_path, spark):
    graph = Graph.open(treatments.index_of(question, tmp_path).path, spark=spark)
    rows = [tuple(row) for row in graph.find(spelling, where=question.where, **question.flags).collect()]
    check(question, spelling, rows)
    assert graph.count(spelling, where=question.where, workers=3, **question.flags) == len(rows)
