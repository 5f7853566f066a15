"""Expressions in rules: drawn at random and compared with DuckDB, on batches, as compiled loops and under every strategy."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from bigjoin.compiled.loops import Listing
from bigjoin.errors import QueryError
from bigjoin.index.directory import Index
from bigjoin.indexing import build_index
from bigjoin.joins.bind import bind
from bigjoin.joins.evaluate import Evaluation
from bigjoin.languages import parse
from bigjoin.planner import meaning, plan
from bigjoin.planner.draft import Draft
from bigjoin.planner.type_expressions import type_expressions
from bigjoin.query.nest import nest_of
from tests.drawn_expressions import Draw, edges
from tests.executions import listed, on_batches, spread

SHAPES = {
    "edge(a, b, e)": "from e",
    "edge(a, b, e), edge(b, c, f)": "from e join e f on e.dst = f.src",
    "edge(a, b, e), edge(b, c, f), edge(c, a, g)": (
        "from e join e f on e.dst = f.src join e g on f.dst = g.src and g.dst = e.src"
    ),
}


def indexed(table: pa.Table) -> Index:
    return build_index(table, Path(tempfile.mkdtemp()) / "index")


@pytest.fixture(scope="module")
def sources():
    """Some tables, each with its index and a connection of DuckDB that has it."""
    found = []
    for seed in range(3):
        table = edges(random.Random(seed))
        connection = duckdb.connect()
        connection.register("e", table)
        found.append((indexed(table), connection))
    return found


def plain_row(row):
    """A row in a form in which NaN equals itself, and numbers of all types are compared by value."""

    def value_of(value):
        if isinstance(value, float) and value != value:
            return "NaN"
        if isinstance(value, datetime) and value.tzinfo is not None:
            return value.astimezone(UTC).replace(tzinfo=None)
        return Fraction(value) if isinstance(value, int | float | Decimal) and abs(value) != float("inf") else value

    return tuple(map(value_of, row))


def drawn(seed: int) -> tuple[str, str]:
    """A rule with drawn conditions and a drawn column, and the same in SQL."""
    chance = random.Random(seed)
    body, tables = chance.choice(list(SHAPES.items()))
    names = tuple("efg"[: body.count("edge")])
    draw = Draw(chance, names, depth=chance.choice([1, 2, 3]))
    conditions = [draw.condition() for _ in range(chance.choice([1, 1, 2]))]
    value = chance.choice([draw.integer, draw.text, draw.boolean, draw.double])(2)
    rows = ", ".join(f"{name}.n" for name in names)
    rule = f"q({rows}, {value.ours} as value) := {body}, {', '.join(c.ours for c in conditions)}"
    where = " and ".join(f"({c.duckdb})" for c in conditions)
    return rule, f"select {rows}, {value.duckdb} as value {tables} where {where}"


def agrees(seed: int, sources, *, every: bool = False) -> bool:
    """Whether DuckDB could answer; that we give the same rows is asserted."""
    index, connection = sources[seed % len(sources)]
    rule, sql = drawn(seed)
    expected = Counter(map(plain_row, connection.execute(sql).fetchall()))
    try:
        query = parse(rule)
    except QueryError as error:
        if "constants" not in str(error):  # a condition about nothing
            raise
        return False
    found: Counter = Counter()
    for part in meaning(query, index.statistics):
        chosen = plan(part)
        bound = bind(chosen, index)
        rows = on_batches(bound, batch_size=64, parts=2)
        found.update(map(plain_row, rows))
        if (every or seed % 3 == 0) and not Listing(nest_of(chosen), chosen.query, index).is_too_large:
            assert Counter(map(plain_row, listed(chosen, index, size=50, parts=2))) == Counter(map(plain_row, rows)), seed
        if every or seed % 4 == 0:
            spread(bound, index, len(rows), batch_size=64, every=every)
    assert found == expected, (seed, rule, sql)
    return True


@pytest.mark.parametrize("start", range(0, 200, 50))
def test_drawn_expressions_mean_what_duckdb_says(sources, start):
    assert sum(agrees(seed, sources) for seed in range(start, start + 50)) > 25


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 7000, 250))
def test_many_drawn_expressions_mean_what_duckdb_says(sources, start):
    assert sum(agrees(seed, sources, every=seed % 10 == 0) for seed in range(start, start + 250)) > 130


@pytest.mark.spark
@pytest.mark.parametrize(("zone", "column"), [("America/New_York", "z"), ("UTC", "t")])
def test_drawn_expressions_mean_what_spark_says(spark, zone, column):
    """Each expression as a column of its own, so that one job of Spark tells what a hundred of them mean."""
    table = edges(random.Random(5), rows=60)
    table = table.append_column("z", table["t"].cast(pa.timestamp("us", "UTC")))
    texts = [text for seed in range(100) if (text := drawn_value(seed, column)) is not None]
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = spark.createDataFrame(table).alias("e")
        expected = frame.selectExpr("e.n", *(f"{text} as c{i}" for i, text in enumerate(texts))).toArrow().sort_by("n")
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    statistics = replace(indexed(table).statistics)
    draft = Draft(parse("q(a) := edge(a, b, e)"), statistics, (), ())
    for number, text in enumerate(texts):
        query = replace(parse(f"q({text} as value) := edge(a, b, e)"), zone=zone)
        (term,) = type_expressions(replace(draft, query=query, atoms=query.atoms)).query.head
        values = Evaluation(lambda part: table[part.name].combine_chunks(), table.num_rows, "sql").of(term)
        theirs = expected[f"c{number}"].to_pylist()
        assert [plain_row([v]) for v in values.to_pylist()] == [plain_row([v]) for v in theirs], (text, values.type)


HARD = pa.table(
    {
        "src": [1, 2, 3],
        "dst": [2, 3, 1],
        "n": [0, 1, 2],
        "i": [1, -7, None],
        "l": [9007199254740993, -(2**63), None],
        "x": [-0.0, float("nan"), 1.005],
        "d": pa.array([Decimal("2.50"), Decimal("-99999999.99"), None], pa.decimal128(10, 2)),
        "w": pa.array([Decimal("2.5"), Decimal("-0.0000000001"), Decimal("9" * 28 + "." + "9" * 10)], pa.decimal128(38, 10)),
        "s": ["  sp  ", "100%_x\\y", "Line1\nline2"],
        "t": pa.array([0, 1_700_000_000_500_000, None], pa.timestamp("us", "UTC")),
    }
)
"""Values at the edges of what types can hold."""

HARD_VALUES = [
    "e.i in (0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5)",
    "e.x in (0, 2, 3, 4, 5, 6, 7, 8, 9, 10)",
    "e.i not in (1, null)",
    "e.d / 0.3",
    "e.d % 0.3",
    "e.d / 3",
    "e.d * 3",
    "e.w = 9999999999999999999999999999.9999999999",
    "e.l = 9007199254740993.0",
    "e.l % -1",
    "e.w + 0.00000000001",
    "e.x * 1e3",
    "round(e.w, 2)",
    "round(e.d)",
    "round(e.d, -3)",
    "round(e.x, 2)",
    "ceil(e.w)",
    "floor(e.d)",
    "ceil(e.x)",
    "ln(e.x)",
    "cast(e.l as double)",
    "cast(e.x as decimal(5, 2))",
    "cast(e.w as string)",
    "cast(e.s as string)",
    "cast(e.t as bigint)",
    "cast(e.t as double)",
    "cast(e.d as boolean)",
    "cast(' Yes ' as boolean)",
    "cast(e.x as decimal(5))",
    "cast(e.i as decimal)",
    "cast('+12' as bigint)",
    "cast(' 1.005 ' as decimal(5, 2))",
    "cast(e.i as timestamp)",
    r"e.s like '%\%%'",
    r"e.s like '%\\\\y'",
    r"e.s like '%\_x%'",
    r"e.s = '100\%_x\\y'",
    r"e.s = 'Line1\nline2'",
    "e.s rlike '(?is)LINE1.LINE2'",
    "e.s rlike '(?im)LINE1$'",
    r"e.s rlike '\\v'",
]
HARD_ERRORS = [
    "cast(1e300 + e.x as decimal(10, 2))",
    "cast(e.w as decimal(5, 1))",
    "cast('0x10' as bigint)",
    "cast('2' as boolean)",
    "cast(e.i + 300 as tinyint)",
    "e.l - 1",
]


@pytest.mark.spark
def test_hard_expressions_mean_what_spark_says(spark):
    frame = spark.createDataFrame(HARD).alias("e")
    expected = frame.selectExpr("e.n", *(f"{text} as c{i}" for i, text in enumerate(HARD_VALUES))).toArrow().sort_by("n")
    draft = Draft(parse("q(a) := edge(a, b, e)"), indexed(HARD).statistics, (), ())

    def ours(text):
        query = parse(f"q({text} as value) := edge(a, b, e)")
        (term,) = type_expressions(replace(draft, query=query, atoms=query.atoms)).query.head
        return Evaluation(lambda part: HARD[part.name].combine_chunks(), HARD.num_rows, "sql").of(term)

    for number, text in enumerate(HARD_VALUES):
        theirs = expected[f"c{number}"].to_pylist()
        assert [plain_row([v]) for v in ours(text).to_pylist()] == [plain_row([v]) for v in theirs], text
    for text in HARD_ERRORS:
        with pytest.raises(QueryError):
            ours(text)
        with pytest.raises(Exception, match=r"CAST|OVERFLOW|OUT_OF_RANGE"):
            frame.selectExpr(text).collect()


def drawn_value(seed: int, column: str) -> str | None:
    """An expression that Spark can read as it is, or None if there is nothing to look up in it."""
    chance = random.Random(seed)
    draw = Draw(chance, ("e",), depth=2, time_column=column)
    value = chance.choice([draw.condition, draw.integer, draw.text, draw.double, draw.time, draw.decimal])(2)
    return value.ours if draw.used else None


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("10 / e.i > 1", "'10 / e.i' divides by zero in some row"),
        ("e.i % (e.j - e.j) = 0", "divides by zero in some row"),
        ("e.i + 9223372036854775807 > 0", "overflows in some row"),
        ("e.i * 9223372036854775807 > e.j", "overflows in some row"),
        ("cast(e.s as bigint) = 1", "is about text that is no such value in some row"),
        ("e.s + 1 = 2", "'e.s + 1' has no meaning: e.s is text and 1 is a number"),
        ("e.s > 1", "1 is a number, but e.s is string"),
        ("e.t + e.t > e.t", "has no meaning"),
        ("e.t > 'soon' or e.i > 1", "'soon' is no ISO date or time"),
        ("lower(e.i) = 'x'", "'lower(e.i)' has no meaning: e.i is a number"),
        ("e.i or e.ok", "e.i is a number, and no condition"),
        ("e.s rlike e.s", "the pattern of 'e.s rlike e.s' is no constant"),
        (r"e.s rlike '(?=a)b'", "a look ahead or behind in a regular expression is not supported"),
        (r"e.s rlike '(a'", "fails: Invalid regular expression"),
        ("cast(e.i as blob) = 1", "there is no type 'blob' to cast to"),
        ("lowr(e.s) = 'x'", "there is no function 'lowr'"),
        ("substring(e.s) = 'x'", "substring takes 2 or more arguments, not 1"),
        ("case when e.i then 1 else 2 end = 1", "e.i is a number, and no condition"),
    ],
)
def test_what_has_no_value_is_an_error(sources, condition, message):
    index, _ = sources[0]
    with pytest.raises(QueryError) as error:
        found(f"q(e) := edge(a, b, e), {condition}", index)
    assert message in str(error.value)


def found(rule: str, index: Index) -> list[tuple]:
    (part,) = meaning(parse(rule), index.statistics)
    return on_batches(bind(plan(part), index), batch_size=64, parts=1)


def test_what_nobody_asks_for_is_no_error(sources):
    index, connection = sources[0]
    for condition in ("e.i != 0, 10 / e.i > 1", "e.i != 0 and 10 / e.i > 1", "case when e.i != 0 then 10 / e.i > 1 end"):
        (expected,) = connection.execute("select count(*) from e where i != 0 and 10 / i > 1").fetchone()
        assert len(found(f"q(e) := edge(a, b, e), {condition}", index)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "q(a, e.i + 1 as k) := edge(a, b, e), e.i > 1 or not e.s like 'a%'",
        "q(a) := edge(a, b, e), case when e.i > 1 then true else false end, e.i in (1, 2, null)",
        "q(a) := edge(a, b, e), (e.i + 1) * 2 - -e.j > 3, e.t < e.t + interval '1 day', cast(e.i as double) / 2 >= 0.5",
        "q(a) := edge(a, b, e), (e.i > 1) = e.ok, e.i is not null, e.s || 'x' != lower(e.s)",
    ],
)
def test_a_printed_query_reads_as_itself(text):
    query = parse(text)
    again = parse(str(query).replace(f"{query.head[-1]}", f"{query.head[-1]} as {query.columns[-1]}", 1))
    assert again.filters == query.filters
    assert again.head == query.head
