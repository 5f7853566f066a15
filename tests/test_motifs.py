"""Motifs: the table of what they mean, random ones against the oracle, and the drop-in for GraphFrames."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from functools import reduce
from itertools import combinations, takewhile
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import bigjoin as bj
from bigjoin.compiled import source_text
from bigjoin.errors import BigjoinError, QueryError, SourceError
from bigjoin.graphframes import GraphFrame
from bigjoin.indexing import build_index
from bigjoin.languages import motif, read
from bigjoin.languages.motif_terms import is_motif
from tests.drawn_motifs import Report, check, collected, drawn, drawn_walks, expected, frames, in_spark
from tests.oracles.motif_table import EDGES, EMPTY, ERRORS, SAME, TABLE, VERTICES, written
from tests.oracles.motifs import interpret
from tests.statements import WAYS, MotifTables, counted

GOLDEN = Path(__file__).parent / "golden" / "motif_errors.txt"
LENIENT = {"(a)-[*1..2]->(b);", " (a)-[*1..2]->(b)", "(a) <-[e]- (b)", "(a)<- [e]->(b)", "(a)-[ e*2]->(b)", "(a)-[]- >(b)"}
"""Motifs that GraphFrames refuses for a space, or a semicolon at the end, that nobody would miss."""
FREER = {"(a)<-[*1..2]-(b)", "(a)-[*1..2]->(b);(c)", "(a)-[*2]-(b);(b)"}
"""Motifs with edges of several lengths that GraphFrames does not know."""
JIT = os.environ.get("NUMBA_DISABLE_JIT") != "1"


@pytest.fixture
def batches(monkeypatch):
    """Nothing is compiled: motifs of many shapes are asked of small tables."""
    monkeypatch.setattr(source_text, "MAX_SOURCE_LINES", 0)


def vertex_frame(spark, rows=VERTICES):
    return spark.createDataFrame([(v["id"], v["attr"]) for v in rows], "id long, attr string")


def edge_frame(spark, rows=EDGES):
    return spark.createDataFrame(
        [(e["src"], e["dst"], e["relationship"]) for e in rows], "src long, dst long, relationship string"
    )


@pytest.fixture(scope="module")
def frame(spark):
    return GraphFrame(vertex_frame(spark), edge_frame(spark))


@pytest.fixture(scope="module")
def graph(spark):
    with bj.Graph(pa.Table.from_pylist(EDGES), vertices=pa.Table.from_pylist(VERTICES), parallel=True, spark=spark) as found:
        yield found


# The table


def all_rows(found):
    """The rows of many DataFrames, found by one job: as dictionaries in which missing values are missing."""
    parts = [one.select(F.lit(i).alias("i"), F.to_json(F.struct("*")).alias("row")) for i, one in enumerate(found)]
    rows = [[] for _ in found]
    for row in reduce(lambda one, other: one.union(other), parts).collect():
        rows[row.i].append(json.loads(row.row))
    return rows


def check_table(find, with_more):
    """Compare the table with what a function finds, or another on the table's edges and more."""
    found = [(with_more(wanted.more_edges) if wanted.more_edges else find)(wanted.pattern) for wanted in TABLE]
    for wanted, frame, rows in zip(TABLE, found, all_rows(found), strict=True):
        columns = wanted.columns.split()
        assert frame.columns == columns, wanted.pattern
        if wanted.only:
            rows = [row for row in rows if row[wanted.only[0]]["id"] == wanted.only[1]]
        if wanted.rows is None:
            assert len(rows) == wanted.count, wanted.pattern
        else:
            shown = sorted(written([row.get(column) for column in columns]) for row in rows)
            assert shown == sorted(wanted.rows.split()), wanted.pattern


@pytest.mark.spark
@pytest.mark.usefixtures("batches")
def test_the_table(spark, frame):
    """Through the drop-in: columns, their order, and the bag of rows."""
    check_table(frame.find, lambda more: GraphFrame(vertex_frame(spark), edge_frame(spark, EDGES + more)).find)


@pytest.mark.spark
@pytest.mark.usefixtures("batches")
def test_the_table_of_a_graph(spark, graph):
    """Through a graph, all of whose edges have vertices."""

    def with_more(edges):
        table, vertices = pa.Table.from_pylist(EDGES + edges), pa.Table.from_pylist(VERTICES)
        return bj.Graph(table, vertices=vertices, parallel=True, spark=spark).find

    check_table(graph.find, with_more)
    for pattern in ("(a)-[]->(b);!(b)-[]->()", "(a)-[]-(b)", "(u)-[e*1..3]->(v)"):
        assert graph.count(pattern) == len(interpret(pattern, VERTICES, EDGES)[1])
    assert graph.exists("(a)-[]->(b);!(b)-[]->()")
    assert not graph.exists("(a)-[]->(a)")


def test_counts_of_the_table(tmp_path):
    """Without Spark, along every path of execution."""
    index = build_index(pa.Table.from_pylist(EDGES), tmp_path / "index", vertices=pa.Table.from_pylist(VERTICES), parallel=True)
    for pattern in [wanted.pattern for wanted in TABLE] + [pattern for both in SAME for pattern in both]:
        number = len(interpret(pattern, VERTICES, EDGES)[1])
        assert [counted(read(pattern), index, way) for way in WAYS] == [number] * len(WAYS), pattern


@pytest.mark.spark
@pytest.mark.usefixtures("batches")
def test_rewrites(frame):
    found = [(frame.find(left), frame.find(right)) for left, right in SAME]
    rows = iter(all_rows([one for both in found for one in both]))
    for (left, _), (one, other) in zip(SAME, found, strict=True):
        columns, wanted = interpret(left, VERTICES, EDGES)
        assert one.columns == other.columns == columns
        first, second = (sorted(json.dumps(row, sort_keys=True) for row in next(rows)) for _ in range(2))
        assert first == second, left
        assert len(first) == len(wanted), left


@pytest.mark.spark
@pytest.mark.parametrize("pattern", [*EMPTY, " \n;"])
def test_nothing_is_asked(pattern, frame):
    found = frame.find(pattern)
    assert (found.columns, found.count()) == ([], 0)


@pytest.mark.parametrize("pattern", ERRORS)
def test_errors(pattern):
    if pattern in LENIENT | FREER:
        assert motif.parse(pattern).blocks
        return
    with pytest.raises(QueryError) as refused:
        motif.parse(pattern)
    assert "hint: " in str(refused.value)


# Random motifs


def without_spark(seeds, motifs, report, folder, ways=WAYS, draw=drawn):
    """Look for drawn motifs on each path of execution in turn, and count what each of them finds."""
    for seed in seeds:
        graph, patterns = draw(seed, motifs)
        tables = MotifTables(*graph, folder / str(seed))
        for number, pattern in enumerate(patterns):
            way = ways[(seed + number) % len(ways)]

            def find(text, tables=tables, way=way, graph=graph):
                if not text.strip("; "):
                    return [], []
                statement = motif.parse(text, members="member", distinct_rows="distinct_row")
                rows = tables.rows(statement, way)
                if len(set(tables.keys)) == len(tables.keys):
                    assert counted(statement, tables.index, way) == len(rows), text
                return list(statement.columns), rows

            check(pattern, graph, find, report)


def test_random_motifs_along_every_path(tmp_path):
    """Without Spark: 25 graphs, four motifs each."""
    report = Report()
    without_spark(range(25), 4, report, tmp_path)
    assert not report.differences, str(report)
    assert report.compared > 80


def test_random_walks_beside_other_terms(tmp_path):
    """Without Spark: edges of several lengths are what each length finds by itself."""
    report = Report()
    without_spark(range(5000, 5020), 3, report, tmp_path, draw=drawn_walks)
    assert not report.differences, str(report)
    assert report.compared > 45


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("batches")
def test_random_motifs(spark):
    """In Spark: three graphs, four motifs each."""
    report = Report()
    in_spark(spark, range(100, 103), 4, report)
    assert not report.differences, str(report)
    assert report.compared > 8


@pytest.mark.slow
def test_thousands_of_random_motifs_along_every_path(tmp_path):
    """Without Spark: 3,000 motifs on 500 graphs."""
    program = "from pathlib import Path; from tests.test_motifs import *; r = Report(); "
    program += f"without_spark(range(1000, 1500), 6, r, Path({str(tmp_path)!r})); print(r)"
    assert ", 0 differ" in in_a_process(tmp_path, "-W", "ignore", "-c", program)


@pytest.mark.slow
@pytest.mark.spark
def test_thousands_of_random_motifs(tmp_path):
    """In Spark: 1,600 motifs on 160 graphs."""
    assert ", 0 differ" in in_a_process(tmp_path, "-m", "tests.drawn_motifs", "2000", "2160", "10")


def in_a_process(folder, *arguments):
    """The output of a program without the JIT: kernels run as Python, so that no new shape has to be compiled."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "NUMBA_CACHE_DIR": str(folder), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, *arguments]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=False)
    sys.stdout.write(done.stdout[-3000:])
    return done.stdout + done.stderr[-3000:]


# The drop-in


def brute_triangles(vertices, edges):
    """How many triangles each vertex has, whatever the directions of edges."""
    known = {v["id"] for v in vertices} - {None}
    pairs = {frozenset((e["src"], e["dst"])) for e in edges if {e["src"], e["dst"]} <= known and e["src"] != e["dst"]}
    counts = Counter()
    for corners in combinations(sorted(known), 3):
        if all(frozenset(pair) in pairs for pair in combinations(corners, 2)):
            counts.update(corners)
    return counts


def drawn_frame(spark, seed):
    graph, _ = drawn(seed, 0)
    return graph, GraphFrame(*frames(spark, graph))


@pytest.mark.spark
@pytest.mark.parametrize("seed", [3, 8, 11])
def test_triangles_are_counted(seed, spark):
    (vertices, edges), frame = drawn_frame(spark, seed)
    wanted = brute_triangles(vertices, edges)
    found = frame.triangleCount()
    assert found.columns == ["id", "name", "count"]
    assert Counter(map(tuple, found.collect())) == Counter((v["id"], v["name"], wanted[v["id"]]) for v in vertices)


@pytest.mark.spark
@pytest.mark.parametrize("seed", [3, 8, 11])
def test_degrees(seed, spark):
    (_, edges), frame = drawn_frame(spark, seed)
    starts, ends = Counter(e["src"] for e in edges), Counter(e["dst"] for e in edges)
    for found, name, wanted in (
        (frame.outDegrees, "outDegree", starts),
        (frame.inDegrees, "inDegree", ends),
        (frame.degrees, "degree", starts + ends),
    ):
        assert found.columns == ["id", name]
        assert {row[0]: row[1] for row in found.collect()} == dict(wanted)
        assert dict(found.dtypes)[name] == "bigint"


@pytest.mark.spark
def test_parts_of_a_graph(spark, frame):
    friends = frame.filterEdges("relationship = 'friend'")
    assert sorted((e.src, e.dst) for e in friends.edges.collect()) == [(0, 1), (1, 2)]
    assert friends.vertices.count() == 4
    assert [v.id for v in friends.dropIsolatedVertices().vertices.orderBy("id").collect()] == [0, 1, 2]
    few = frame.filterVertices(frame.vertices["id"] < 3)
    assert sorted((e.src, e.dst) for e in few.edges.collect()) == [(0, 1), (1, 0), (1, 2), (2, 0)]
    assert few.find("(a)-[]->(b)").count() == 4
    assert friends.filterVertices("attr != 'a'").edges.count() == 1
    triplets = frame.triplets
    assert triplets.columns == ["src", "edge", "dst"]
    assert sorted((row.src.id, row.edge.relationship, row.dst.id) for row in triplets.collect()) == sorted(
        (e["src"], e["relationship"], e["dst"]) for e in EDGES
    )


@pytest.mark.spark
def test_results_are_frames(spark, frame):
    """They can be filtered by fields, joined and cached."""
    found = frame.find("(a)-[e]->(b); (b)-[]->(c)")
    wanted = interpret("(a)-[e]->(b);(b)-[]->(c)", VERTICES, EDGES)[1]
    less = [row for row in wanted if dict(row[0])["attr"] > dict(row[3])["attr"]]
    assert Counter(collected(found.filter("a.attr > c.attr"))[1]) == Counter(less)
    assert found.filter("e.relationship = 'friend'").select("a.id", "e.*").columns == ["id", "src", "dst", "relationship"]
    other = spark.createDataFrame([(0, "zero")], "number long, word string")
    joined = found.join(other, found["c.id"] == other["number"])
    assert joined.count() == sum(dict(row[3])["id"] == 0 for row in wanted)
    kept = found.cache()
    assert kept.count() == kept.count() == len(wanted)
    kept.unpersist()
    assert frame.cache() is frame
    assert frame.find("(a)").count() == 4
    assert frame.unpersist() is frame


class Adapter:
    """What else holds a graph."""

    def __init__(self, vertices, edges):
        self.vertices, self.edges = vertices, edges


class Further(Adapter):
    def pageRank(self, resetProbability):  # noqa: N802, N803
        return resetProbability, self.vertices.count()


@pytest.mark.spark
def test_anything_with_vertices_and_edges_will_do(spark):
    tables = vertex_frame(spark), edge_frame(spark)
    plain, further = GraphFrame(Adapter(*tables)), GraphFrame(Further(*tables))
    assert plain.find("(a)-[]->(b)").count() == further.find("(a)-[]->(b)").count() == 5
    assert further.pageRank(0.15) == (0.15, 4)
    assert further.pageRank(resetProbability=0.5) == (0.5, 4)
    with pytest.raises(AttributeError, match="bigjoin's GraphFrame has no 'pageRank'"):
        GraphFrame(*tables).pageRank()
    with pytest.raises(AttributeError, match="pageRank"):
        plain.pageRank()
    assert repr(plain) == "GraphFrame(v:[id, attr], e:[src, dst, relationship])"


@pytest.mark.spark
def test_the_class_of_graphframes(spark):
    """It needs a jar to be made, so it is made without its __init__; what it would say of itself is what counts."""
    theirs = pytest.importorskip("graphframes").GraphFrame
    other = object.__new__(theirs)
    vertices, edges = vertex_frame(spark), edge_frame(spark)
    try:
        other._vertices, other._edges = vertices, edges
        assert other.vertices.columns
    except Exception:
        other.__class__ = type("GraphFrame", (theirs,), {"vertices": vertices, "edges": edges})
    frame = GraphFrame(other)
    assert frame.find("(a)-[]->(b); !(b)-[]->(a)").count() == 3
    ours = {name for name in dir(GraphFrame) if not name.startswith("_")}
    for name in (
        "find",
        "triangleCount",
        "filterVertices",
        "filterEdges",
        "dropIsolatedVertices",
        "degrees",
        "cache",
        "persist",
    ):
        assert name in ours & set(dir(theirs))


@pytest.mark.spark
def test_wrong_tables_are_named(spark, frame):
    v, e = vertex_frame(spark), edge_frame(spark)
    for arguments, message in [
        ((v,), "give vertices and edges, GraphFrame(v, e), or an existing GraphFrame"),
        ((v.withColumnRenamed("id", "ID2"), e), "the vertices have no column 'id'"),
        ((v, e.drop("dst")), "the edges have no column 'dst'"),
        ((v.toPandas(), e), "the vertices are a DataFrame; give a Spark DataFrame"),
        ((v.selectExpr("id", "attr", "1 AS ATTR"), e), "the vertices have two columns called"),
    ]:
        with pytest.raises(SourceError, match=re.escape(message)):
            GraphFrame(*arguments)
    with pytest.raises(BigjoinError, match="the ids of vertices and edges differ in type"):
        GraphFrame(v.selectExpr("CAST(id AS DOUBLE) AS id"), e).find("(a)-[]->(b)")
    with pytest.raises(QueryError, match="a vertex cannot be negated"):
        frame.find("(a); !(b)")
    with pytest.raises(BigjoinError, match="rename it"):
        GraphFrame(v.selectExpr("id", "1 AS count"), e).triangleCount()


@pytest.mark.spark
def test_ids_of_two_types_are_compared_as_numbers(spark):
    vertices = spark.createDataFrame([("1",), ("2",)], "id string")
    edges = spark.createDataFrame([(1, 2), (2, 3)], "src int, dst int")
    found = GraphFrame(vertices, edges).find("(a)-[e]->(b)")
    assert [row.asDict(recursive=True) for row in found.collect()] == [
        {"a": {"id": "1"}, "e": {"src": 1, "dst": 2}, "b": {"id": "2"}}
    ]
    assert found.schema["a"].dataType["id"].dataType.simpleString() == "string"
    assert found.schema["e"].dataType["src"].dataType.simpleString() == "int"


@pytest.mark.spark
def test_columns_that_no_index_holds(spark):
    """Nested columns are joined to the result, also where a negated term makes equal rows one."""
    vertices = spark.createDataFrame([(1, [1, 2]), (2, [])], "id long, tags array<int>")
    edges = spark.createDataFrame([(1, 2, [3]), (1, 2, [3]), (1, 2, [4])], "src long, dst long, more array<int>")
    frame = GraphFrame(vertices, edges)
    rows = [(row.a.tags, row.e.more, row.b.tags) for row in frame.find("(a)-[e]->(b)").collect()]
    assert sorted(rows) == [([1, 2], [3], []), ([1, 2], [3], []), ([1, 2], [4], [])]
    once = [row.e.more for row in frame.find("(a)-[e]->(b); !(b)-[]->(a)").collect()]
    assert sorted(once) == [[3], [4]]


# Messages


def errors():
    """Each text of the golden file, indented by four spaces, and the message that follows it."""
    for block in GOLDEN.read_text().split("\n\n"):
        lines = block.strip("\n").split("\n")
        text = list(takewhile(lambda line: line.startswith("    "), lines))
        yield "\n".join(line[4:] for line in text), "\n".join(lines[len(text) :])


@pytest.mark.parametrize(("text", "message"), errors())
def test_messages(text, message):
    with pytest.raises(QueryError) as refused:
        read(text)
    assert str(refused.value) == message


def test_random_mistakes_have_a_message():
    """A character is lost, doubled or replaced: what cannot be read is shown with a caret and a hint."""
    for seed in range(300):
        random = Random(seed)
        _, (text,) = drawn(seed, 1)
        place = random.randrange(len(text)) if text else 0
        slip = random.choice(["", text[place : place + 1] * 2, random.choice(";:,{}-<>[]()!*. x")])
        wrong = text[:place] + slip + text[place + 1 :]
        if not is_motif(wrong):
            continue
        message = refusal(wrong)
        if message is None:
            assert expected(re.sub(r"[\s;]+$", "", wrong), ([], [])) is not None, wrong
        else:
            assert "^" in message, wrong
            assert "hint: " in message or "at most" in message, wrong


def refusal(text):
    """What is said of a text that is refused."""
    try:
        read(text)
    except QueryError as error:
        return str(error)
    return None
