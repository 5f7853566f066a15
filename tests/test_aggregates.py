"""Groups in rules: aggregates, having, order and limit, drawn at random and compared with DuckDB."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal

import duckdb
import pytest

import bigjoin as bj
from bigjoin.errors import QueryError
from bigjoin.languages import read
from tests.drawn_expressions import Draw, Text, edges
from tests.strategies import IN_ROUNDS
from tests.test_expressions import SHAPES

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def source(spark):
    table = edges(random.Random(3), rows=60)
    connection = duckdb.connect()
    connection.register("e", table)
    return bj.Graph(table, spark=spark), connection


def drawn(seed: int) -> tuple[str, str, bool]:
    """A rule with groups, the same in SQL, and whether the rows are in an order."""
    chance = random.Random(seed)
    body, tables = chance.choice(list(SHAPES.items()))
    names = tuple("efg"[: body.count("edge")])
    draw = Draw(chance, names, depth=1)
    choices = [Text("a", "e.src"), draw.column("s"), draw.column("i"), draw.column("ok"), draw.integer(1), draw.text(1)]
    keys = {key.ours: key for key in chance.sample(choices, chance.choice([0, 1, 1, 2]))}
    keys = [key for key in keys.values() if "." in key.ours or key.ours == "a"]
    aggregates = [aggregate(chance, draw) for _ in range(chance.choice([1, 2, 3]))]
    columns = [Text(f"{key.ours} as k{i}", f"{key.duckdb} as k{i}") for i, key in enumerate(keys)]
    columns += [Text(f"{one.ours} as v{i}", f"{one.duckdb} as v{i}") for i, one in enumerate(aggregates)]
    condition = draw.condition()
    having, theirs = "", ""
    if chance.random() < 0.5:
        least = chance.choice([0, 1, 3])
        having, theirs = f" having count(*) > {least}", f" having count(*) > {least}"
    order, limit, is_ordered = "", "", bool(keys) and chance.random() < 0.5
    if is_ordered:
        words = [f"k{i}{chance.choice(['', ' desc'])}" for i in range(len(keys))]
        order = f" order by {', '.join(words)}"
        limit = f" limit {chance.choice([1, 3, 100])}"
        nulls = ", ".join(f"{word} nulls {'last' if 'desc' in word else 'first'}" for word in words)
        theirs_order = f" order by {nulls}{limit}"
    rule = f"q({', '.join(c.ours for c in columns)}) := {body}, {condition.ours}{having}{order}{limit}"
    groups = f" group by {', '.join(f'k{i}' for i in range(len(keys)))}" if keys else ""
    sql = f"select {', '.join(c.duckdb for c in columns)} {tables} where {condition.duckdb}{groups}{theirs}"
    return rule, sql + (theirs_order if is_ordered else ""), is_ordered


def aggregate(chance: random.Random, draw: Draw) -> Text:
    function = chance.choice(["count(*)", "count", "count(distinct", "sum", "min", "max", "avg"])
    if function == "count(*)":
        return Text("count(*)")
    argument = draw.integer(1) if function in ("sum", "avg") else chance.choice([draw.integer, draw.text, draw.time])(1)
    if function == "count(distinct":
        return Text(f"count(distinct {argument.ours})", f"count(distinct {argument.duckdb})")
    return Text(f"{function}({argument.ours})", f"{function}({argument.duckdb})")


def plain_value(value):
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return value
    return round(float(value), 9)


def agrees(seed, source) -> bool:
    graph, connection = source
    rule, sql, is_ordered = drawn(seed)
    expected = [tuple(map(plain_value, row)) for row in connection.execute(sql).fetchall()]
    try:
        found = [tuple(map(plain_value, row)) for row in graph.find(rule).collect()]
    except QueryError as error:
        if "constants" in str(error) or "two columns" in str(error):
            return False
        raise AssertionError((seed, rule)) from error
    if is_ordered:
        assert found == expected, (seed, rule, sql)
    assert Counter(found) == Counter(expected), (seed, rule, sql)
    return True


def test_drawn_groups_are_those_of_duckdb(source):
    assert sum(agrees(seed, source) for seed in range(12)) > 7


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 1600, 100))
def test_many_drawn_groups_are_those_of_duckdb(source, start):
    assert sum(agrees(seed, source) for seed in range(start, start + 100)) > 60


@pytest.mark.parametrize("strategy", IN_ROUNDS)
def test_groups_are_the_same_under_every_strategy(source, strategy):
    graph, connection = source
    rule = "q(a, count(*) as n, sum(e.i + f.i) as s) := edge(a,b,e), edge(b,c,f), e.i > 0 or f.s is null having count(*) > 1"
    sql = """select e.src, count(*), sum(e.i + f.i) from e e join e f on e.dst = f.src where e.i > 0 or f.s is null
             group by 1 having count(*) > 1"""
    found = Counter(map(tuple, graph.find(rule, strategy=strategy).collect()))
    assert found == Counter(connection.execute(sql).fetchall())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "q(a, count(*)) := edge(a,b) having b > 3",
            "'b' is neither a column of the head nor an aggregate\n"
            "hint: list it in the head, so that rows are grouped by it, or aggregate it, as in max(...)",
        ),
        (
            "q(a, sum(*)) := edge(a,b)",
            "sum(*) has no meaning\n  q(a, sum(*)) := edge(a,b)\n       ^^^^^^\nhint: write sum(e.amount)",
        ),
        (
            "q(a) := edge(a,b), count(b) > 3",
            "an aggregate stands in the head, or in having\n"
            "  q(a) := edge(a,b), count(b) > 3\n"
            "                     ^^^^^^^^\n"
            "hint: write q(a, count(*)) := ...",
        ),
        (
            "q(count(a), count(a)) := edge(a,b)",
            "two columns are called 'count_a'\nhint: give one of them another name with 'as'",
        ),
    ],
)
def test_mistakes_in_groups_are_shown(text, message):
    with pytest.raises(QueryError) as error:
        read(text)
    assert str(error.value) == message
