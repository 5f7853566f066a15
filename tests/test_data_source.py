"""Spark's data source: a view of a pattern has the rows that `find` has, and its mistakes end in a sentence."""

from __future__ import annotations

import datetime as dt
import random
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructType

import bigjoin as bj
from bigjoin.data_source import PatternSource, question
from tests.oracles import naive

TRIANGLE = "q(a,b,c) := edge(a,b), edge(b,c), edge(c,a)"
ATOMS = [("edge", pair, False) for pair in (("a", "b"), ("b", "c"), ("c", "a"))]


def drawn_edges(seed: int = 1) -> list[tuple[int, int]]:
    draw = random.Random(seed)
    return sorted({(draw.randrange(30), draw.randrange(30)) for _ in range(200)})


EDGES = drawn_edges()
TRIANGLES = sorted(naive.matches({"edge": set(EDGES)}, ("a", "b", "c"), ATOMS))


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Path:
    src, dst = zip(*EDGES, strict=True)
    return bj.build_index(pa.table({"src": src, "dst": dst}), tmp_path_factory.mktemp("plain") / "index").path


@pytest.fixture(scope="module")
def payments(tmp_path_factory) -> Path:
    """Edges with properties of several types, some of them NULL, between people with names."""
    day = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    edges = pa.table(
        {
            "src": ["ann", "bob", "bob", "cyd"],
            "dst": ["bob", "cyd", "cyd", "ann"],
            "amount": [5, None, 70, 8],
            "time": [day, day + dt.timedelta(1), None, day],
        }
    )
    people = pa.table({"id": ["ann", "bob", "cyd"], "age": [30, 40, None]})
    return bj.build_index(edges, tmp_path_factory.mktemp("payments") / "index", vertices=people).path


def rows(path: Path, query: str, **options: str) -> list[dict]:
    """Read a table as Spark does, without Spark."""
    source = PatternSource({"path": str(path), "query": query, **options})
    reader = source.reader(source.schema())
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def read(path: Path, query: str, **options: str) -> list[tuple]:
    """Return the rows in order, NULLs last."""
    found = (tuple(row.values()) for row in rows(path, query, **options))
    return sorted(found, key=lambda row: [(value is None, value) for value in row])


# Without Spark


@pytest.mark.parametrize("workers", ["1", "3", "64"])
def test_rows_are_those_of_brute_force(index, workers):
    assert read(index, TRIANGLE, workers=workers) == TRIANGLES
    assert read(index, TRIANGLE, where="a < b", workers=workers) == [row for row in TRIANGLES if row[0] < row[1]]


def test_a_limit_is_for_the_whole_table(index):
    assert len(read(index, TRIANGLE, limit="5", workers="3")) == 5
    assert set(read(index, TRIANGLE, limit="5")) <= set(TRIANGLES)
    assert read(index, TRIANGLE, limit="0") == []


def test_properties_times_and_nulls(payments):
    day = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    assert read(payments, "q(a, b, e.amount, e.time) := edge(a, b, e)") == [
        ("ann", "bob", 5, day),
        ("bob", "cyd", 70, None),
        ("bob", "cyd", None, day + dt.timedelta(1)),
        ("cyd", "ann", 8, day),
    ]


def test_the_columns_of_a_motif_are_structs(payments):
    found = rows(payments, "(x)-[e]->(y)", where="x = 'ann'")
    day = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    assert found == [
        {
            "x": {"id": "ann", "age": 30},
            "e": {"src": "ann", "dst": "bob", "amount": 5, "time": day},
            "y": {"id": "bob", "age": 40},
        }
    ]


def test_cypher_with_parameters(payments):
    text = "MATCH (x)-[e]->(y) WHERE e.amount > $least RETURN x, y, e.amount AS paid"
    found = rows(payments, text, **{"param.least": "6"})
    assert sorted((row["x"], row["y"], row["paid"]) for row in found) == [("bob", "cyd", 70), ("cyd", "ann", 8)]


def test_optional_atoms_are_null(index):
    query = "q(a,b,c) := edge(a,b), optional edge(b,c)"
    ends = {src: [dst for s, dst in EDGES if s == src] for src, _ in EDGES}
    wanted = [(a, b, c) for a, b in EDGES for c in ends.get(b) or [None]]
    assert read(index, query) == sorted(wanted, key=lambda row: [(value is None, value) for value in row])


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "the data source bigjoin needs a query: option('query', 'triangle'), or OPTIONS (query 'triangle')"),
        ({"query": " "}, "the data source bigjoin needs a query: option('query', 'triangle'), or OPTIONS (query 'triangle')"),
        (
            {"query": "triangle"},
            "the data source bigjoin needs an index: load('graph.index'), or OPTIONS (path 'graph.index')",
        ),
        ({"uniqe": "true"}, "the data source bigjoin has no option 'uniqe'; did you mean 'unique'?"),
        ({"unique": "maybe"}, "the option unique is 'maybe'; it is true or false"),
        ({"limit": "ten"}, "the option limit is 'ten'; it must be a number"),
        ({"limit": "1.5"}, "the option limit is '1.5'; it must be a whole number"),
        (
            {"query": "triangle", "path": "x", "strategy": "balanced"},
            "the data source bigjoin is always read by the strategy shared, not 'balanced': leave it out",
        ),
        ({"query": "triangle", "path": "x", "timeout": "0"}, "timeout is 0.0; it must be a number of seconds, more than 0"),
        (
            {"query": "triangle", "path": "x", "memory": "much"},
            "memory is 'much'; it must be a number of bytes, more than 0, or a size such as '512MB' or '2GB'",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused(given, sentence):
    with pytest.raises(bj.BigjoinError) as raised:
        question(given, "UTC", 1)
    assert str(raised.value) == sentence


@pytest.mark.parametrize(
    ("query", "options", "sentence"),
    [
        ("traingle", {}, "there is no query named 'traingle'"),
        (TRIANGLE, {"deduplicate": "true"}, "DISTINCT is for SQL to do, over the table of matches"),
        ("MATCH (a)-[]->(b) RETURN a ORDER BY a", {}, "ORDER BY is for SQL to do"),
        ("MATCH (a)-[]->(b) RETURN a SKIP 2", {}, "SKIP is for SQL to do"),
        ("MATCH (a)-[]->(b) RETURN count(*)", {}, "count"),
        ("q(a, count(b)) := edge(a, b)", {}, "an aggregate is for SQL to do"),
        ("SELECT a.src FROM edge a", {}, "the query of a table is no SELECT"),
        ("MATCH (a)-[]->(b) OPTIONAL MATCH (b)-[]->(c)-[]->(d) RETURN a, d", {}, "is joined by Spark"),
        ("q(a,b,c) := edge(a,b), optional edge(b,c)", {"limit": "3"}, "a limit is for one query"),
    ],
)
def test_what_a_table_cannot_be_is_refused(index, query, options, sentence):
    with pytest.raises(bj.BigjoinError) as raised:
        PatternSource({"path": str(index), "query": query, **options}).schema()
    assert sentence in str(raised.value)


def test_columns_that_a_query_does_not_have_are_refused(index):
    source = PatternSource({"path": str(index), "query": "triangle"})
    with pytest.raises(bj.OptionError, match="the query has no column 'x'; its columns are a1, a2, a3"):
        source.reader(StructType().add("a1", LongType()).add("x", LongType()))


def test_a_path_that_is_no_index_is_refused(tmp_path):
    with pytest.raises(bj.OptionError, match="is a URL"):
        PatternSource({"path": "hdfs://host/graph.index", "query": "triangle"}).schema()
    with pytest.raises(bj.IndexFormatError, match="is not an index"):
        PatternSource({"path": str(tmp_path), "query": "triangle"}).schema()


def test_spark_finds_the_source_by_the_name_of_a_package():
    program = "import sys, pyspark_bigjoin; assert 'numba' not in sys.modules; print(pyspark_bigjoin.DefaultSource.name())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "bigjoin\n", done.stderr


# With Spark


@pytest.mark.spark
def test_a_view_of_a_pattern_is_joined_with_another_table(spark, index):
    bj.register(spark)
    spark.createDataFrame([(v, f"name {v}") for v in range(10)], "id long, name string").createOrReplaceTempView("named")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW found USING bigjoin OPTIONS (query '{TRIANGLE}', path '{index}')")
    found = spark.sql("SELECT name, b, c FROM found JOIN named ON a = id WHERE c IN (1, 5, 9) ORDER BY name, b, c").collect()
    assert [tuple(row) for row in found] == sorted((f"name {a}", b, c) for a, b, c in TRIANGLES if a < 10 and c in (1, 5, 9))
    assert spark.table("found").count() == len(TRIANGLES)
    twice = spark.sql("SELECT x.a, y.b FROM found x JOIN found y ON x.b = y.a WHERE x.c = 1 AND y.c = 5").collect()
    assert sorted(map(tuple, twice)) == sorted(
        (x[0], y[1]) for x in TRIANGLES for y in TRIANGLES if x[1] == y[0] and x[2] == 1 and y[2] == 5
    )
    with pytest.raises(Exception, match=r"OptionError: the data source bigjoin has no option 'uniqe'") as raised:
        spark.read.format("bigjoin").option("query", "triangle").option("uniqe", True).load(str(index))
    assert "Traceback" not in str(raised.value)


@pytest.mark.spark
def test_a_view_reads_one_version_of_the_index(spark, tmp_path):
    bj.register(spark)
    path = bj.build_index(pa.table({"src": [1, 2], "dst": [2, 3]}), tmp_path / "index").path
    frame = spark.read.format("bigjoin").option("query", "3-cycle").load(str(path))
    assert frame.count() == 0
    bj.Graph.open(path, spark=spark).apply(pa.table({"src": [3], "dst": [1], "op": ["+"]}))
    assert frame.count() in (0, 3)  # newer Sparks keep what they have planned, and Spark 4.0 plans anew
    assert spark.read.format("bigjoin").option("query", "3-cycle").load(str(path)).count() == 3


@pytest.mark.spark
@pytest.mark.slow
def test_spark_connect_finds_the_source_without_being_told(index):
    program = textwrap.dedent(
        f"""
        import os, sys
        os.environ["PYSPARK_PYTHON"] = sys.executable
        from pyspark.sql import SparkSession
        spark = SparkSession.builder.remote("local[2]").getOrCreate()
        spark.sql("CREATE TEMPORARY VIEW found USING bigjoin OPTIONS (query '{TRIANGLE}', path '{index}')")
        assert spark.sql("SELECT * FROM found WHERE a < 5").count() == {sum(row[0] < 5 for row in TRIANGLES)}
        import bigjoin
        bigjoin.register(spark)
        frame = spark.read.format("bigjoin").option("query", "{TRIANGLE}").load("{index}")
        assert frame.where("a < 5").count() == {sum(row[0] < 5 for row in TRIANGLES)}
        print("connected")
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300)
    assert "connected" in done.stdout, done.stderr[-3000:]
