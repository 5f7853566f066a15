"""The tables of operators, flags and strategies: a new one is one entry, and nothing else spells them."""

from __future__ import annotations

import ast
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import bigjoin
from bigjoin import counting_verbs, defaults
from bigjoin.cli.count import count
from bigjoin.errors import BigjoinError
from bigjoin.indexing import build_index
from bigjoin.joins.bind import bind
from bigjoin.joins.generic_join import GenericJoin
from bigjoin.joins.properties import compared
from bigjoin.kernels import compare
from bigjoin.languages import Flags, datalog, parse
from bigjoin.local.strategy import Outcome, Strategy, strategy_named
from bigjoin.planner import count_plan, plan
from bigjoin.query.flags import FLAGS
from bigjoin.query.operators import BY_CODE, OPERATORS
from bigjoin.query.query import Query
from bigjoin.spark.strategy import SparkStrategy
from tests.treatments import total

SOURCES = Path(bigjoin.__file__).parent


def test_the_kernels_number_operators_as_the_table_does():
    codes = {operator.function.upper(): operator.code for operator in OPERATORS.values()}
    assert codes == {name: getattr(compare, name) for name in codes}
    for operator in OPERATORS.values():
        for left, right in [(1, 2), (2, 2), (3, 2)]:
            holds = bool(eval(f"{left} {operator.source} {right}"))
            assert bool(compare._holds(operator.code, left, right)) == holds
            assert compared(operator, left, right) == holds
            assert compared(OPERATORS[operator.flipped], right, left) == holds
            assert left != right or holds == operator.reflexive
            assert left == right or holds == compared(OPERATORS[operator.strict], left, right)


@pytest.mark.parametrize("where", ["a ~ b", "a ~ 2", "a.w ~ b.w", "a.name ~ 'x'", "a ~ a"])
def test_an_operator_is_one_entry(where, tmp_path, monkeypatch):
    """A second `!=`: parsed, planned, and carried out on batches and by loops."""
    monkeypatch.setitem(OPERATORS, "~", replace(OPERATORS["!="], text="~", flipped="~", strict="~", synonyms=("~~",)))
    datalog._grammar.cache_clear()
    edges = pa.table({"src": [1, 2, 3, 1, 2], "dst": [2, 3, 1, 1, 2]})
    vertices = pa.table({"id": [1, 2, 3], "w": [5, 5, None], "name": ["x", "y", None]})
    index = build_index(edges, tmp_path / "index", vertices=vertices)
    try:
        query, spelled_twice, known = (
            parse("q(a, b) := edge(a, b)", where=where.replace("~", text)) for text in ("~", "~~", "!=")
        )
    finally:
        datalog._grammar.cache_clear()
    assert query == spelled_twice
    assert query != known
    found = []
    for asked in (query, known):
        bound = bind(plan(asked, index.statistics), index)
        rows = sum(batch.shape[1] for batch in GenericJoin(bound, counting=False).matches([bound.seed.positions]))
        assert total(count_plan(asked, index.statistics), index) == rows
        found.append(rows)
    assert found[0] == found[1]


def test_only_the_table_spells_operators():
    """Other modules name an operator, or ask the table what it is like; `compiled/stages.py` speaks of bounds on codes."""
    spelled = []
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare) and path.name not in ("operators.py", "stages.py", "set_source.py"):
                texts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
                spelled += [f"{path.name}:{node.lineno}" for text in texts if text in ("<", "<=", ">", ">=", "!=")]
    assert not spelled
    assert len(BY_CODE) == len(OPERATORS)


def test_flags_are_fields_of_a_query_keys_of_the_api_and_options_of_commands():
    names = [flag.name for flag in FLAGS]
    assert [field.name for field in fields(Query) if field.type == "bool"] == names
    assert [name for name in Flags.__annotations__ if name not in ("where", "select", "parameters", "seeds")] == names
    options = {option for parameter in count.params for option in parameter.opts}
    assert {flag.option for flag in FLAGS} <= options


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.name)
def test_a_flag_is_set_printed_and_means_something(flag):
    query = parse("triangle", **{flag.name: True})
    assert getattr(query, flag.name)
    assert query.injective == flag.injective
    assert (flag.name in str(query)) == flag.printed


def test_a_flag_that_does_not_exist_is_a_mistake_of_the_caller():
    with pytest.raises(TypeError, match="no flag 'uniqe'"):
        parse("triangle", uniqe=True)


class Alone(SparkStrategy):
    """Counts in this process: a strategy that somebody might add."""

    def count(self, ask, progress=None):
        bound = bind(plan(ask.meaning), ask.index)
        found = GenericJoin(bound, counting=True).count([bound.seed.positions])
        return Outcome(found, 1, {"steps": []}, lambda: np.array([1]))

    def find(self, ask, held):
        raise NotImplementedError

    def sample(self, asks, size, random_state):
        raise NotImplementedError

    def write(self, ask, folder, suffix, progress=None, *, in_pieces=False):
        raise NotImplementedError


def test_a_strategy_is_one_entry(monkeypatch):
    monkeypatch.setitem(defaults.STRATEGIES, "alone", defaults.StrategyEntry("in this process", __name__, "Alone"))
    monkeypatch.setattr(counting_verbs, "parallelism", lambda spark: 1)
    edges = pa.table({"src": [1, 2, 3, 3], "dst": [2, 3, 1, 4]})
    with bigjoin.Graph(edges, spark=object()) as graph:
        found = graph.count("3-cycle", strategy="alone")
    assert (int(found), found.strategy) == (3, "alone")
    with pytest.raises(BigjoinError, match="found by the local and shared strategies only"):
        defaults.check_strategy("alone", factorized=True)


def test_every_strategy_can_be_found():
    for name in defaults.STRATEGIES:
        assert issubclass(strategy_named(name), Strategy)
