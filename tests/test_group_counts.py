"""`count(..., by=...)` through Spark: every strategy, and every kind of query, against counters of Python."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from itertools import permutations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bigjoin as bj
from bigjoin.errors import QueryError
from bigjoin.languages import parse
from tests.grouped import by_definition
from tests.oracles import naive
from tests.strategies import STRATEGIES
from tests.test_cli import refused, run_here


def table(pairs, **more) -> pa.Table:
    return pa.table({"src": [a for a, _ in pairs], "dst": [b for _, b in pairs], **more})


@pytest.fixture(scope="module")
def pairs() -> list[tuple[int, int]]:
    rng = np.random.default_rng(11)
    return [tuple(pair) for pair in rng.integers(0, 24, (80, 2)).tolist()]


@pytest.fixture(scope="module")
def undirected(spark, pairs):
    with bj.Graph(table(pairs), directed=False, spark=spark) as graph:
        yield graph


@pytest.fixture(scope="module")
def directed(spark, pairs):
    with bj.Graph(table(pairs), spark=spark) as graph:
        yield graph


def groups(frame) -> Counter:
    """The rows of a frame as a counter; a group with two rows is an error."""
    assert frame.columns[-1] == "count"
    rows = [tuple(row) for row in frame.collect()]
    assert len({row[:-1] for row in rows}) == len(rows)
    assert all(row[-1] > 0 for row in rows)
    return Counter({row[:-1]: row[-1] for row in rows})


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("text", "by", "flags"),
    [
        ("triangle", "a1", {"unique": True}),
        ("triangle", ("a1", "a2"), {"unique": True}),
        ("diamond", "a1,a2", {"distinct": True}),
        ("2-path", ("a1", "a3"), {}),
        ("3-star", "a2", {"unique": True}),
    ],
)
def test_every_strategy_counts_what_the_definition_does(undirected, pairs, strategy, text, by, flags):
    frame = undirected.count(text, by=by, strategy=strategy, **flags)
    keys = tuple(by.split(",")) if isinstance(by, str) else by
    assert frame.columns == [*keys, "count"]
    assert dict(frame.dtypes)["count"] == "bigint"
    query = parse(text, **flags)
    assert groups(frame) == by_definition(query, keys, {"edge": naive.undirected(pairs)}, directed=False)


def test_triangles_by_vertex_add_up_to_three_times_their_number_and_by_edge_to_six_times(undirected):
    total = undirected.count("triangle", unique=True)
    assert undirected.count("triangle", unique=True, by="a1").agg({"count": "sum"}).collect()[0][0] == 3 * total
    both = groups(undirected.count("triangle", unique=True, by=("a1", "a2")))
    assert sum(both.values()) == 6 * total
    assert all(both[b, a] == count for (a, b), count in both.items())


def test_a_query_about_rules_constants_and_seeds(directed, pairs):
    edges = set(pairs)
    heads = Counter((a,) for a, b in edges)
    assert groups(directed.count("q(a) := edge(a, _)", by="a")) == heads
    assert groups(directed.count("q(a, b) := edge(a, b), a = 3", by="b")) == Counter((b,) for a, b in edges if a == 3)
    assert groups(directed.count("q(a, b) := edge(a, b)", by="a", seeds={"a": [3, 5]})) == Counter(
        {(a,): n for (a,), n in heads.items() if a in (3, 5)}
    )
    assert groups(directed.count("q(a, b) := edge(a, b), a = 1000", by="b")) == Counter()


def people(spark):
    rows = [(1, 2, 10), (1, 2, 20), (2, 3, 30), (3, 1, 40), (3, 3, 50), (4, 1, 60)]
    edges = pa.table({name: [row[i] for row in rows] for i, name in enumerate(("src", "dst", "amount"))})
    cities = {1: "Ghent", 2: None, 3: "Ghent", 4: "Lyon", 5: "Lyon"}
    vertices = pa.table({"id": list(cities), "city": list(cities.values()), "label": ["person"] * 5})
    return rows, cities, bj.Graph(edges, vertices=vertices, spark=spark)


@pytest.mark.parametrize("strategy", ["shared", "partitioned"])
def test_properties_and_edge_ids_are_keys_and_null_is_a_group(spark, strategy):
    rows, cities, graph = people(spark)
    with graph:
        run = {"strategy": strategy}
        by_city = groups(graph.count("q(a, b) := edge(a, b, e)", by="a.city", **run))
        assert by_city == Counter((cities[a],) for a, _, _ in rows)
        both = groups(graph.count("q(a, b) := edge(a, b)", by=["a.city", "b.city"], **run))
        assert both == Counter((cities[a], cities[b]) for a, b in {row[:2] for row in rows})
        mixed = groups(graph.count("q(a, b) := edge(a, b)", by="b, a.city", **run))
        assert mixed == Counter((b, cities[a]) for a, b in {row[:2] for row in rows})
        assert graph.count("q(a, b) := edge(a, b)", by="a.city").columns == ["a_city", "count"]
        computed = groups(graph.count("q(a, b) := edge(a, b)", by="a % 2 as odd, a < b as up", **run))
        assert computed == Counter((a % 2, a < b) for a, b in {row[:2] for row in rows})
        payments = groups(graph.count("q(a) := edge(a, b, e), edge(b, c)", by="e", **run))
        edges = {row[:2] for row in rows}
        assert payments == Counter({(i,): n for i, (_, b, _) in enumerate(rows) if (n := sum(x == b for x, _ in edges))})
        assert groups(graph.count("q(a) := edge(a, b, e)", by="e.amount", **run)) == Counter((row[2],) for row in rows)


def test_languages_and_sums_of_queries(spark):
    rows, cities, graph = people(spark)
    edges = {row[:2] for row in rows}
    with graph:
        optional = groups(graph.count("q(a, b, c) := edge(a, b), optional edge(c, a)", by="c"))
        wanted = Counter()
        for a, _ in edges:
            wanted.update([(c,) for c, d in edges if d == a] or [(None,)])
        assert optional == wanted
        motif = groups(graph.count("(a)-[e]->(b); (b)-[]->(c)", by="a"))
        assert motif == Counter((a,) for a, b, _ in rows for s, _, _ in rows if s == b)  # every row counts
        either = groups(graph.count("MATCH (a)-[e]-(b) RETURN a, b", by="a"))
        assert either == Counter([(a,) for a, _, _ in rows] + [(b,) for a, b, _ in rows if a != b])
        match = "MATCH (a)-[e]->(b) WHERE a.city = 'Ghent' RETURN e"
        assert groups(graph.count(match, by="b")) == Counter((b,) for a, b, _ in rows if cities[a] == "Ghent")
        exists = "MATCH (a)-[e]->(b) WHERE EXISTS { (b)-[]->(x)-[]->(y) } RETURN a"
        assert groups(graph.count(exists, by="b")) == Counter((b,) for _, b, _ in rows)
        maybe = "MATCH (a:person) OPTIONAL MATCH (a)-[e]->(b)-[f]->(c) RETURN a, c"
        steps = {(i, j) for i, x in enumerate(rows) for j, y in enumerate(rows) if x[1] == y[0] and i != j}
        wanted = Counter((rows[i][0],) for i, _ in steps)
        wanted.update([(person,) for person in cities if (person,) not in wanted])
        assert groups(graph.count(maybe, by="a")) == wanted
        distinct = groups(graph.count("q(b) := edge(a, b, e)", by="b.city", deduplicate=True))
        assert distinct == Counter((cities[b],) for b in {b for _, b in edges})


def test_relations_are_grouped_too(spark):
    lives, knows = [("ann", "Ghent"), ("bob", "Ghent"), ("eve", "Lyon")], [("ann", "bob"), ("bob", "ann"), ("eve", "ann")]
    with bj.Relations(
        {
            "lives": pa.table(dict(zip("pc", zip(*lives, strict=True), strict=True))),
            "knows": pa.table(dict(zip("ab", zip(*knows, strict=True), strict=True))),
        },
        spark=spark,
    ) as relations:
        found = groups(relations.count("q(p, c) := lives(p, c), knows(p, _)", by="c"))
        assert found == Counter({("Ghent",): 2, ("Lyon",): 1})
        found = groups(relations.count("q(c, d) := lives(p, c), knows(p, o), lives(o, d)", by=("d", "c")))
        assert found == Counter({("Ghent", "Ghent"): 2, ("Ghent", "Lyon"): 1})


def test_counts_of_any_size_are_exact(spark):
    """A hub of 300 leaves: it has more choices of 12 of them than 64 bits hold."""
    leaves = 300
    vertices = pa.table({"id": list(range(leaves + 1)), "kind": ["hub", *["leaf"] * leaves]})
    with bj.Graph(table([(0, i + 1) for i in range(leaves)]), vertices=vertices, spark=spark) as graph:
        assert groups(graph.count("12-star", by="a1")) == Counter({(0,): leaves**12})
        by_leaf = graph.count("9-star", by="a2")
        assert dict(by_leaf.dtypes)["count"] == "decimal(38,0)"
        assert groups(by_leaf) == Counter({(i + 1,): Decimal(leaves**8) for i in range(leaves)})
        assert groups(graph.count("9-star", by="a2.kind")) == Counter({("leaf",): leaves**9})
        assert groups(graph.count("9-star", by="a1, a2")) == Counter({(0, i + 1): leaves**8 for i in range(leaves)})
        few = graph.count("3-star", by="a2")
        assert dict(few.dtypes)["count"] == "bigint"
        with pytest.raises(bj.BigjoinError, match="more than a column of counts can hold"):
            graph.count("q(a) := " + ", ".join(f"edge(a, b{i})" for i in range(17)), by="a")


def test_small_counts_are_integers_also_where_the_bound_is_large(spark):
    """The bound does not know that a constant leaves one choice of nine."""
    with bj.Graph(table([(0, i + 1) for i in range(300)]), spark=spark) as graph:
        frame = graph.count("9-star", by="a1", where=" and ".join(f"a{i} = 7" for i in range(2, 11)))
        assert dict(frame.dtypes)["count"] == "bigint"
        assert groups(frame) == Counter({(0,): 1})


def test_patterns_too_large_to_compile_are_grouped_by_spark(undirected, monkeypatch):
    wanted = groups(undirected.count("triangle", unique=True, by="a1"))
    monkeypatch.setattr("bigjoin.compiled.source_text.MAX_SOURCE_LINES", 3)
    assert groups(undirected.count("triangle", unique=True, by="a1", workers=5)) == wanted


def test_many_groups_stay_readable_until_the_graph_is_closed(spark):
    pairs = list(permutations(range(220), 2))
    graph = bj.Graph(table(pairs), spark=spark)
    frame = graph.count("2-path", by=("a1", "a3"))
    assert graph.scratch_bytes > 0
    assert frame.count() == 220 * 220
    assert {row["count"] for row in frame.collect()} == {218, 219}
    graph.close()
    with pytest.raises(Exception, match="the files of this result are gone"):
        frame.count()


@pytest.mark.parametrize(
    ("text", "by", "said"),
    [
        ("triangle", "b1", "the query has no attribute 'b1' to group by.*the query has a1, a2, a3"),
        ("triangle", "", "by is empty"),
        ("triangle", (), "by is empty"),
        ("triangle", "a1 a2", "the query cannot be read: unexpected 'a2'"),
        ("triangle", "1 + 1 as two", "about constants alone"),
        ("triangle", "a1, a1", "by lists 'a1' twice"),
        ("triangle", 5, "by is 5"),
        ("triangle", "a1.city", "'a1' has no propert"),
        ("q(count) := edge(count, b)", "count", "the counts are in the column 'count'"),
        ("MATCH (a)-[]->(b) RETURN a LIMIT 5", "a", "leave SKIP and LIMIT out"),
        ("q(a, count(*)) := edge(a, b)", "a", "the query has groups of its own"),
    ],
)
def test_mistakes_are_told(directed, text, by, said):
    with pytest.raises(QueryError, match=f"(?s){said}"):
        directed.count(text, by=by)


def test_the_shell_prints_groups_the_largest_first(spark, tmp_path):
    del spark  # the commands use its session
    (tmp_path / "edges.txt").write_text("1 2\n2 3\n1 3\n3 4\n4 1\n")
    asked = ("count", "triangle", "edges.txt", "--undirected", "--unique", "--quiet", "--by")
    printed = run_here(*asked, "a1", cwd=tmp_path)
    assert (printed.returncode, printed.stdout) == (0, "a1,count\n1,2\n3,2\n2,1\n4,1\n")
    assert run_here(*asked, "a1 % 2 as odd", "--json", cwd=tmp_path).stdout == (
        '{"odd": 1, "count": 4}\n{"odd": 0, "count": 2}\n'
    )
    for name in ("out.csv", "out.parquet", "out.jsonl"):
        assert run_here(*asked, "a1,a2", "-o", name, cwd=tmp_path).stderr == f"10 groups in {name}\n"
    assert (tmp_path / "out.csv").read_text().splitlines()[:3] == ["a1,a2,count", "1,3,2", "3,1,2"]
    assert pq.read_table(tmp_path / "out.parquet")["count"].to_pylist() == [2, 2, 1, 1, 1, 1, 1, 1, 1, 1]
    assert json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0]) == {"a1": 1, "a2": 3, "count": 2}


def test_mistakes_in_the_shell_are_told_before_spark_starts(tmp_path):
    (tmp_path / "edges.txt").write_text("1 2\n")
    count = ("count", "triangle", "edges.txt", "--quiet")
    assert refused(run_here(*count, "--by", "b1", cwd=tmp_path), "the query has no attribute 'b1' to group by")
    assert refused(run_here(*count, "--by", "a1", "--exists", cwd=tmp_path), "give either --by or --exists, not both")
    assert refused(run_here(*count, "-o", "out.csv", cwd=tmp_path), "-o is for groups: add --by")
    assert refused(run_here(*count, "--by", "a1", "-o", "out.xls", cwd=tmp_path), "cannot tell the format of out.xls")
