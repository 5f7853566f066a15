"""Reading edges in every form, building an index with Spark, and Graph over them."""

from __future__ import annotations

import bz2
import gzip
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bigjoin as bj
from bigjoin import indexing
from bigjoin.errors import OutputError
from bigjoin.index.manifest_entries import SourceEntry
from bigjoin.index.writer import verify
from bigjoin.indexing import build_index
from bigjoin.ingest import parquet, text
from bigjoin.languages import parse
from bigjoin.spark.session import can_name_sockets
from bigjoin.spark.tasks import run_tasks
from tests.oracles import naive
from tests.test_index import edges_of

pytestmark = pytest.mark.spark

EDGES = [(1, 2), (2, 3), (3, 1), (3, 3), (2, 3), (-4, 1)]
PLAIN = [(-4, 1), (1, 2), (2, 3), (3, 1), (3, 3)]


def graph_of(spark, file, content, **options):
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return bj.Graph(file, spark=spark, **options)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("edges.txt", "# comment\n% another\n1 2\n2\t3\n\n3   1\n3,3\n2 3\n-4 1\n"),
        ("edges.txt", "\ufeff1 2\r\n2 3\r\n3 1\r\n3 3\r\n2 3\r\n-4 1\r\n"),
        ("edges.csv", "1,2,x\n2,3,y\n3,1,z\n3,3,\n2,3,v\n-4,1,u\n"),
        ("edges.csv", "weight,dst,src\n0.5,2,1\n1,3,2\n2,1,3\n3,3,3\n4,3,2\n5,1,-4\n"),
        ("edges.csv", '"1","2"\n"2",3\n3,1\n3,3\n2,3\n-4, 1\n'),
        ("edges.tsv", "source\ttarget\n1\t2\n2\t3\n3\t1\n3\t3\n2\t3\n-4\t1\n"),
        ("edges.txt", "\t1\t2 \n 2 3\n3 1\n3 3\n2 3\n-4 1"),
        ("edges.txt.gz", gzip.compress(b"1 2\n2 3\n3 1\n3 3\n2 3\n-4 1\n", mtime=0)),
        ("edges.csv.bz2", bz2.compress(b"1,2\n2,3\n3,1\n3,3\n2,3\n-4,1\n")),
    ],
)
def test_edge_lists_in_every_form(spark, tmp_path, name, content):
    graph = graph_of(spark, tmp_path / name, content)
    assert edges_of(graph.index) == PLAIN
    assert graph.index.manifest.relations["edge"].source == SourceEntry(rows=6, nulls=0, loops=1, duplicates=1)


@pytest.mark.parametrize("name", ["sp ace #1.txt", "bäd [1]*.txt", "co:lon.txt", "_hidden.txt", "100%25{a}.csv"])
def test_odd_paths(spark, tmp_path, name):
    folder = tmp_path / "sp ace [x]"
    folder.mkdir()
    graph = graph_of(spark, folder / name, "1 2\n2 3\n")
    assert edges_of(graph.index) == [(1, 2), (2, 3)]
    build_index(str(folder / name), folder / "in dex", directed=True, spark=spark)
    copied = build_index(str(folder / "in dex"), folder / "copy", directed=False, spark=spark)
    assert edges_of(copied) == [(1, 2), (2, 1), (2, 3), (3, 2)]


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("edges.txt", "1 2\nalice bob\n", [("1", "2"), ("alice", "bob")]),
        ("edges.txt", "1.5 2.5\n1 2\n", [("1", "2"), ("1.5", "2.5")]),
        ("edges.txt", "007 7\n1 2\n", [("007", "7"), ("1", "2")]),
        ("edges.csv", '"say ""hi""",b\n"c,d","a\\"\n', [("c,d", "a\\"), ('say "hi"', "b")]),
    ],
)
def test_ids_come_back_as_they_were(spark, tmp_path, name, content, wanted):
    assert edges_of(graph_of(spark, tmp_path / name, content, header=False).index) == wanted


def test_text_ids_stay_text(spark, tmp_path):
    graph = graph_of(spark, tmp_path / "edges.csv", "src,dst\nann,bob\nbob,7\n7,ann\n")
    assert edges_of(graph.index) == [("7", "ann"), ("ann", "bob"), ("bob", "7")]
    assert graph.find("3-cycle", unique=True).collect()[0].a1 in ("ann", "bob", "7")


def test_undirected_graphs_lose_loops_and_gain_directions(spark, tmp_path):
    graph = graph_of(spark, tmp_path / "edges.txt", "1 2\n2 1\n2 3\n3 3\n1 3\n1 3\n", directed=False)
    assert edges_of(graph.index) == sorted(naive.undirected([(1, 2), (2, 3), (1, 3)]))
    assert (graph.vertex_count, graph.edge_count, graph.directed) == (3, 3, False)
    assert graph.index.manifest.relations["edge"].source == SourceEntry(rows=6, nulls=0, loops=1, duplicates=2)
    assert graph.count("triangle", unique=True) == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("edges.txt", "# nothing\n\n", "has no edges: it is empty, or holds only comments"),
        ("edges.csv", "src,dst\n", "has no edges: nothing follows its header"),
        ("edges.txt", "1 2\n3\n4 5\n", r"1 of 3 lines .* do not have two columns, for example '3'"),
        ("edges.csv", "1,2\n3,\n4,5\n", r"1 of 3 lines .* do not have two columns, for example '3,'"),
        ("edges.txt", "é a\nü a\n".encode("latin-1"), "2 lines of .* are not UTF-8 text"),
        (
            "edges.csv",
            "src,dst\n1,2\n\n3,4,5\n",
            r"line 4 of .* has more fields than there are names in the header \(2\): '3,4,5'",
        ),
        ("edges.csv", 'src,dst,n\n1,2,"a\n3,4,b"\n', r"does not close in its line, .*, '1,2,\"a' \(line 2"),
        ("edges.txt", "1 2\n1 3\0\n", "has a zero byte in line 2"),
        ("edges.txt.gz", gzip.compress(b"1 2\n" * 50_000)[:-20], "cannot be read: Unexpected end of input"),
        ("edges.txt.xz", b"\xfd7zXZ", r"bigjoin does not read \.xz; use \.gz"),
        ("edges.parquet", b"PAR1 this is no parquet", "cannot be read: .* is not a Parquet file"),
    ],
)
def test_bad_files_are_refused(spark, tmp_path, name, content, message):
    with pytest.raises(bj.SourceError, match=message):
        graph_of(spark, tmp_path / name, content)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("edges.txt", "# nothing\n\n", "has no edges: it is empty, or holds only comments"),
        ("edges.csv", "src,dst\n", "has no edges: nothing follows its header"),
        ("edges.txt", "1 2\n3\n4 5\n", r"1 of 3 lines .* do not have two columns, for example '3' \(line 2 of edges.txt\)"),
        (
            "edges.csv",
            "src,dst\n1,2\n\n3,4,5\n",
            r"line 4 of edges.csv of .* than there are names in the header \(2\): '3,4,5'",
        ),
        ("edges.txt", "1 2\n" * 9 + "1 2 3", r"line 10 of .* fields in its first line \(2\): '1 2 3'"),
        ("edges.csv", 'src,dst,n\n1,2,"a\n3,4,b"\n', r"does not close in its line, .*, '1,2,\"a' \(line 2"),
        ("edges.txt", "1 2\n1 3\0\n", "has a zero byte in line 2"),
        ("edges.txt", "a é\nü a\n".encode("latin-1"), "2 lines of .* are not UTF-8 text, the first is line 1"),
    ],
)
def test_text_that_spark_reads_is_refused_alike(spark, tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(bj.SourceError, match=message):
        bj.Graph(f"file://{tmp_path}/{name}", spark=spark)


@pytest.mark.parametrize(
    ("name", "content", "edges"),
    [
        ("edges.csv", '\ufeffw,Source,TARGET\r\n"a,b",1,2\r\n,3,4,\r\n', [(1, 2), (3, 4)]),
        ("edges.txt", "# x\n007 a\n1\t2\n", [("007", "a"), ("1", "2")]),
        ("edges.tsv", 'src\tdst\n"a\tb"\t"say ""hi"""\n', [("a\tb", 'say "hi"')]),
    ],
)
def test_text_that_spark_reads_is_read_as_files_are(spark, tmp_path, name, content, edges):
    (tmp_path / name).write_bytes(content.encode())
    for source in (tmp_path / name, f"file://{tmp_path}/{name}"):
        assert sorted(edges_of(bj.Graph(source, spark=spark).index)) == edges


def test_missing_files_and_foreign_folders_are_refused(spark, tmp_path):
    with pytest.raises(bj.SourceError, match="there is no file"):
        bj.Graph(tmp_path / "nowhere.txt", spark=spark)
    with pytest.raises(bj.SourceError, match=r"neither an index \(it has no manifest.json\) nor a folder of Parquet"):
        bj.Graph(tmp_path, spark=spark)


def test_parquet_files_and_folders(spark, tmp_path):
    table = pa.table({"id1": [s for s, _ in EDGES], "id2": pa.array([d for _, d in EDGES], pa.int32())})
    pq.write_table(table, tmp_path / "edges.parquet")
    assert edges_of(bj.Graph(tmp_path / "edges.parquet", spark=spark).index) == PLAIN
    assert edges_of(bj.Graph(tmp_path, spark=spark).index) == PLAIN


def test_frames_and_tables(spark):
    frame = pd.DataFrame(EDGES, columns=["src", "dst"])
    for edges in (spark.createDataFrame(frame), frame, pa.Table.from_pandas(frame)):
        with bj.Graph(edges) as graph:
            assert edges_of(graph.index) == PLAIN


def test_columns_are_found_by_their_names_wherever_they_come_from(spark):
    frame = pd.DataFrame({"amount": [5, 5, 5], "Source": [1, 2, 3], "target": [2, 3, 1]})
    for edges in (spark.createDataFrame(frame), frame):
        assert edges_of(bj.Graph(edges, spark=spark).index) == [(1, 2), (2, 3), (3, 1)]


@pytest.mark.parametrize(("name", "separator"), [("edges.txt", " "), ("edges.csv", ",")])
def test_titles_that_are_guessed_are_told(spark, tmp_path, name, separator):
    with pytest.warns(UserWarning, match="the first line, .*, is the header"):
        graph = graph_of(spark, tmp_path / name, f"FromNodeId{separator}ToNodeId\n1{separator}2\n")
    assert edges_of(graph.index) == [(1, 2)]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"src": [1.5], "dst": [2.5]}, "is double; ids are integers, text, .*: cast it"),
        ({"src": [1], "dst": ["x"]}, "differ in type"),
        ({"only": [1]}, "edges need two, src and dst"),
        ({"src": pa.array([1, None]), "dst": [1, 2]}, "NULL"),
    ],
)
def test_frames_that_hold_no_edges_are_refused(spark, columns, message):
    table = pa.table(columns)
    with pytest.raises(bj.SourceError, match=message):
        bj.Graph(table)
    with pytest.raises(bj.SourceError, match=message):
        bj.Graph(spark.createDataFrame(table))


def checksums(index):
    return {Path(name).name: entry.blocks for name, entry in index.manifest.files.items()}


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("ids", ["close", "far", "text"])
def test_sparks_tasks_write_the_bytes_that_this_process_writes(spark, tmp_path, monkeypatch, ids, directed):
    rng = np.random.default_rng(7)
    ends = rng.integers(0, 300, (2, 5000)) * (10**12 if ids == "far" else 1)
    columns = dict(zip(("src", "dst"), ends if ids != "text" else ends.astype(str), strict=True))
    edges = pa.table(columns | {"weight": rng.random(5000)})
    pq.write_table(edges, tmp_path / "edges.parquet", row_group_size=700)
    pq.write_table(pa.table({"id": edges["src"].unique(), "label": ["odd", "even"] * 150}), tmp_path / "vertices.parquet")
    monkeypatch.setattr(parquet, "SPLIT_ROWS", 1000)
    found = []
    for alone in (10**9, 0):
        monkeypatch.setattr(indexing, "MAX_ROWS_INDEXED_HERE", alone)
        options = {"directed": directed, "spark": spark, "vertices": tmp_path / "vertices.parquet", "part_size": 1000}
        index = build_index(tmp_path / "edges.parquet", tmp_path / f"index{alone}", **options)
        again = build_index(index.path, tmp_path / f"again{alone}", shards=3, spark=spark, part_size=1000)
        verify(index)
        verify(again)
        found.append((checksums(index), checksums(again)))
    assert found[0] == found[1]
    assert len(found[0][0]) > 8
    wanted = set(zip(columns["src"].tolist(), columns["dst"].tolist(), strict=True))
    assert set(edges_of(index)) == (wanted if directed else naive.undirected(wanted))


def test_large_text_is_looked_through_by_sparks_tasks(spark, tmp_path, monkeypatch):
    lines = [f"v{i % 700},v{i * 7 % 500},{i / 4},2024-05-{i % 30 + 1:02d}" for i in range(5000)]
    (tmp_path / "edges.csv").write_text("src,dst,weight,day\n" + "\n".join(lines) + "\n")
    here = build_index(tmp_path / "edges.csv", tmp_path / "here")
    for name, value in (("MAX_ROWS_INDEXED_HERE", 0), ("MAX_BYTES_READ_HERE", 0)):
        monkeypatch.setattr(indexing, name, value)
    monkeypatch.setattr(text, "SPLIT_BYTES", 10_000)
    there = build_index(tmp_path / "edges.csv", tmp_path / "there", spark=spark)
    assert edges_of(there) == edges_of(here)
    wanted = {"weight": "double", "day": "date32[day]"}
    assert there.statistics.properties["edge edge"] == here.statistics.properties["edge edge"] == wanted
    assert there.properties("edge edge")["day"].equals(here.properties("edge edge")["day"])


def test_frames_of_any_kind_of_id_with_properties(spark):
    one, two = Decimal("1.50"), Decimal("2.25")
    rows = [(one, two, "x"), (two, one, None), (one, two, "y")]
    graph = bj.Graph(spark.createDataFrame(rows, "src decimal(6,2), dst decimal(8,2), note string"))
    assert graph.count("q(a,b) := edge(a,b)") == 2
    found = graph.find("q(a,b,e,e.note) := edge(a,b,e), e.note != 'x'").collect()
    assert [(row.a, row.b, row.e_note) for row in found] == [(one, two, "y")]


def test_times_of_a_frame_keep_their_instant_in_any_zone(spark):
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        rows = (
            "SELECT timestamp'2024-05-01 12:00:00' AS src, timestamp'2024-05-01 13:00:00' AS dst, timestamp'2024-06-01' AS day"
        )
        graph = bj.Graph(spark.sql(rows))
        assert graph.count("q(a,b,e) := edge(a,b,e), e.day = '2024-05-31T22:00:00Z'") == 1
        assert graph.count("q(a,b,e) := edge(a,b,e), e.day = '2024-06-01', hour(e.day) = 0") == 1
        assert graph.find("q(a,b) := edge(a,b)").selectExpr("date_format(a, 'HH:mm') AS a").collect()[0].a == "12:00"
    finally:
        spark.conf.unset("spark.sql.session.timeZone")


def test_null_ids_of_a_frame_are_counted_and_dropped_on_request(spark):
    frame = spark.createDataFrame([(1, 2), (None, 3), (4, None)], "src int, dst int")
    with pytest.raises(bj.SourceError, match="2 of the 3 edges of the DataFrame have a NULL id"):
        bj.Graph(frame)
    graph = bj.Graph(frame, drop_nulls=True)
    assert edges_of(graph.index) == [(1, 2)]
    assert graph.find("q(a,b) := edge(a,b)").schema["a"].dataType.simpleString() == "int"


def test_errors_of_tasks_arrive_as_they_were(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(indexing, "MAX_ROWS_INDEXED_HERE", 0)
    pq.write_table(pa.table({"src": pa.array([1, None, 3]), "dst": [2, 3, 4]}), tmp_path / "edges.parquet")
    with pytest.raises(bj.SourceError, match=r"1 of the 3 edges of .* have a NULL id"):
        build_index(tmp_path / "edges.parquet", tmp_path / "index", spark=spark)
    assert not (tmp_path / "index").exists()

    def fail(item):
        raise OSError(28, "No space left on device", "somewhere")

    with pytest.raises(bj.BigjoinError, match="No space left on device: somewhere"):
        run_tasks(spark, fail, [1, 2, 3])


def test_a_query_reads_the_version_that_it_was_planned_for(spark, tmp_path):
    build_index(pa.table({"src": [1, 2, 3], "dst": [2, 3, 1]}), tmp_path / "index")
    graph = bj.Graph.open(tmp_path / "index", spark=spark)
    lazy = graph.find("3-cycle")
    build_index(pa.table({"src": [7], "dst": [8]}), tmp_path / "index")
    assert lazy.count() == 3
    assert graph.count("3-cycle") == 3
    assert bj.Graph.open(tmp_path / "index", spark=spark).count("3-cycle") == 0


def test_an_empty_graph_has_no_matches(spark):
    graph = bj.Graph(spark.createDataFrame([], "src long, dst long"))
    assert graph.count("triangle") == 0
    assert graph.find("triangle").collect() == []


def test_count_is_an_int_with_stats(spark):
    graph = bj.Graph(pa.table({"src": [1, 2, 3, 1], "dst": [2, 3, 1, 3]}), spark=spark)
    count = graph.count("triangle")
    assert (count, isinstance(count, int), count.strategy) == (1, True, "shared")
    steps = count.stats["steps"]
    assert [step["prefixes"] for step in steps] == [4, 4, 1]
    assert count.stats["agm"] == pytest.approx(4**1.5)
    assert {"rounds", "bytes", "load", "index_tuples", "peak_memory", "seconds"} <= count.stats.keys()


def test_a_limit_stops_early(spark, tmp_path):
    n = 60
    clique = pa.table(
        {"src": [i for i in range(n) for j in range(n) if i != j], "dst": [j for i in range(n) for j in range(n) if i != j]}
    )
    graph = bj.Graph(clique, spark=spark)
    assert graph.find("4-clique", limit=7).count() == 7
    assert graph.find("4-clique", limit=0).count() == 0
    assert graph.write("4-clique", tmp_path / "some.csv", limit=5) == 5
    assert graph.find("triangle", limit=10**7).count() == n * (n - 1) * (n - 2)
    # Early: 12-cliques of a 60-clique are more than anybody could wait for.
    assert graph.find("12-clique", limit=3).count() == 3
    assert graph.write("12-clique", tmp_path / "some.parquet", limit=3) == 3


def test_written_files_hold_every_match_once(spark, tmp_path):
    graph = bj.Graph(pd.DataFrame(EDGES, columns=["src", "dst"]), spark=spark)
    wanted = sorted(tuple(row) for row in graph.find("2-path").collect())
    assert graph.write("2-path", tmp_path / "out.parquet", workers=3) == len(wanted)
    assert sorted(pq.read_table(tmp_path / "out.parquet").to_pandas().itertuples(index=False, name=None)) == wanted
    assert graph.write("2-path", tmp_path / "out.csv", workers=3) == len(wanted)
    assert sorted(pd.read_csv(tmp_path / "out.csv").itertuples(index=False, name=None)) == wanted
    assert graph.write("4-clique", tmp_path / "none.parquet", distinct=True) == 0
    assert pq.read_schema(tmp_path / "none.parquet").names == ["a1", "a2", "a3", "a4"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["none.parquet", "out.csv", "out.parquet"]


def test_the_undirected_graph_of_a_directed_index(spark):
    graph = bj.Graph(pd.DataFrame(EDGES, columns=["src", "dst"]), spark=spark)
    undirected = graph.undirected()
    assert (graph.directed, undirected.directed, undirected.edge_count) == (True, False, 4)
    assert undirected.count("triangle", unique=True) == 1


def test_mistakes_in_calls_are_refused(spark):
    graph = bj.Graph(pa.table({"src": [1], "dst": [2]}), spark=spark)
    for options, message in [
        ({"strategy": "shraed"}, "did you mean 'shared'"),
        ({"workers": 0}, "workers is 0"),
        ({"batch_size": -1}, "batch_size is -1"),
        ({"where": "a1 < 'x'"}, "'x' is text, but the ids of 'a1' are int64"),
    ]:
        with pytest.raises(bj.BigjoinError, match=message):
            graph.count("triangle", **options)
    for verb in (graph.find, lambda *a, **k: graph.write("triangle", "never.csv", limit=-1)):
        with pytest.raises(bj.BigjoinError, match="limit is -1; it must be at least 0"):
            verb("triangle", limit=-1)
    graph.close()
    with pytest.raises(bj.BigjoinError, match="this graph is closed"):
        graph.count("triangle")


def test_flags_refine_a_query_that_is_parsed_already(spark):
    graph = bj.Graph(pa.table({"src": [1, 2, 3], "dst": [2, 3, 1]}), directed=False, spark=spark)
    parsed = parse("triangle")
    assert graph.count(parsed) == 6
    assert graph.count(parsed, unique=True) == 1
    assert graph.count(parsed, where="a1 < a2") == 3


def test_factorized_rows_stand_for_products_of_lists(spark, tmp_path):
    star = pa.table({"src": [0] * 5 + [7], "dst": [1, 2, 3, 4, 5, 8]})
    graph = bj.Graph(star, spark=spark)
    rows = graph.find("3-star", factorized=True).collect()
    assert {(row["a1"], *(len(row[name]) for name in ("a2", "a3", "a4"))) for row in rows} == {(0, 5, 5, 5), (7, 1, 1, 1)}
    assert graph.write("3-star", tmp_path / "stars.parquet", factorized=True) == 2
    written = pq.read_table(tmp_path / "stars.parquet")
    assert (
        sum(len(a) * len(b) * len(c) for a, b, c in zip(*(written[n].to_pylist() for n in ("a2", "a3", "a4")), strict=True))
        == 126
    )
    with pytest.raises(OutputError, match="CSV has no lists"):
        graph.write("3-star", tmp_path / "stars.csv", factorized=True)
    assert graph.find("triangle", factorized=True, limit=0).collect() == []


def test_a_count_may_have_more_than_64_bits(spark):
    graph = bj.Graph(pa.table({"src": [0] * 300, "dst": list(range(1, 301))}), spark=spark)
    assert graph.count("12-star") == 300**12
    assert graph.count("12-star") == 300**12


def test_constants_of_two_types_are_two_questions(spark):
    graph = bj.Graph(pa.table({"src": [1, 2], "dst": [2, 3], "w": [1, 2]}), spark=spark)
    assert graph.count("q(a,b,e) := edge(a,b,e), e.w = 1") == 1
    with pytest.raises(bj.QueryError):
        graph.count("q(a,b,e) := edge(a,b,e), e.w = true")


def test_explain_tells_what_happened(spark):
    graph = bj.Graph(pa.table({"src": [1, 2, 3], "dst": [2, 3, 1]}), directed=False, spark=spark)
    text = graph.explain("triangle", unique=True, analyze=True)
    assert "1. p1(a1, a2) := edge(a1, a2), code(a2) < code(a1)" in text
    assert "AGM bound: 15 matches at most" in text
    assert "strategy: shared" in text
    assert "candidates" in text


def test_sockets_have_names_only_where_a_system_allows_them(tmp_path):
    assert can_name_sockets(tmp_path if len(str(tmp_path)) < 60 else Path("/tmp"))
    deep = tmp_path / ("long" * 30)
    deep.mkdir()
    assert not can_name_sockets(deep)
    assert not can_name_sockets(tmp_path / "nowhere")
    assert list(deep.iterdir()) == []


def test_workers_do_not_look_at_modules_again(spark):
    def frozen(batches):
        import gc

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"frozen": [gc.get_freeze_count()], "seen": [len(gc.get_objects())]})

    bj.Graph(pa.table({"src": [1, 2, 3], "dst": [2, 3, 1]}), spark=spark).count("triangle")
    bj.Graph(pa.table({"src": [1, 2, 3], "dst": [2, 3, 1]}), spark=spark).count("triangle")
    told = spark.range(0, 2, 1, 2).mapInArrow(frozen, "frozen long, seen long").toArrow().to_pylist()
    assert any(row["frozen"] > 5 * row["seen"] for row in told)
