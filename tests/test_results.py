"""Results: frames can be read for as long as there are any, and rows are printed while they are found; nothing piles up."""

from __future__ import annotations

import csv
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pytest

import bigjoin as bj
from bigjoin.spark import arrow_files, balanced, partitioned
from bigjoin.storage import scratch
from tests.oracles import naive
from tests.strategies import IN_ROUNDS, STRATEGIES
from tests.test_cli import BIGJOIN, run_here

pytestmark = pytest.mark.spark

EDGES = sorted({(i, (i * k + k) % 40) for i in range(40) for k in (1, 3, 7, 11)})
WEDGE = "q(a,b,c) := edge(a,b), edge(b,c)"


def wedges(edges=EDGES) -> list[tuple]:
    atoms = [("edge", ("a", "b"), False), ("edge", ("b", "c"), False)]
    return sorted(naive.matches({"edge": set(edges)}, ("a", "b", "c"), atoms))


def graph_of(spark, edges=EDGES) -> bj.Graph:
    src, dst = zip(*edges, strict=True)
    return bj.Graph(pa.table({"src": src, "dst": dst}), spark=spark)


def folders(purpose: str = "matches") -> set[Path]:
    """What this process has in its scratch folders; those of other processes come and go."""
    own = [folder for (process, _), folder in scratch._owned.items() if process == os.getpid()]
    return {found for folder in own for found in folder.glob(f"{purpose}-*")}


def rows(frame) -> list[tuple]:
    return sorted(tuple(row) for row in frame.collect())


# Frames


@pytest.mark.parametrize("strategy", IN_ROUNDS)
def test_small_results_leave_nothing_behind(spark, strategy):
    graph, before, wanted = graph_of(spark), folders(), wedges()
    frames = [graph.find(WEDGE, strategy=strategy, limit=limit) for limit in (None, 5, 0, None)]
    assert folders() == before
    assert graph.scratch_bytes == 0
    assert rows(frames[0]) == rows(frames[3]) == wanted
    assert frames[1].count() == 5
    assert set(rows(frames[1])) <= set(wanted)
    assert frames[2].count() == 0


@pytest.mark.parametrize("strategy", IN_ROUNDS)
def test_frames_that_are_derived_cached_or_views_outlive_the_result(spark, monkeypatch, strategy):
    monkeypatch.setattr(arrow_files, "MAX_BYTES_IN_FRAME", 0)
    graph, before, wanted = graph_of(spark), folders(), wedges()
    found = graph.find(WEDGE, strategy=strategy)
    few = found.filter("a < 10").select("c", "a")
    cached = found.filter("b < 20").cache()
    found.createOrReplaceTempView("wedges")
    del found
    gc.collect()
    for _ in range(3):
        graph.find(WEDGE, strategy=strategy)  # others come and go
    gc.collect()
    assert rows(few) == sorted((c, a) for a, _, c in wanted if a < 10)
    assert rows(cached) == [row for row in wanted if row[1] < 20]
    assert rows(spark.sql("select * from wedges")) == wanted
    assert len(folders() - before) == 4
    assert graph.scratch_bytes == sum(f.stat().st_size for folder in folders() - before for f in folder.iterdir()) > 0
    graph.close()
    assert folders() == before
    assert graph.scratch_bytes == 0
    assert rows(cached) == [row for row in wanted if row[1] < 20]  # which Spark has
    with pytest.raises(Exception, match="the files of this result are gone, as its graph was closed: find it again"):
        few.collect()
    spark.catalog.dropTempView("wedges")
    cached.unpersist()


def test_a_result_whose_files_somebody_removed_is_in_nobodys_way(spark, monkeypatch):
    monkeypatch.setattr(arrow_files, "MAX_BYTES_IN_FRAME", 0)
    graph, before = graph_of(spark), folders()
    graph.find(WEDGE, strategy="partitioned")
    for folder in folders() - before:
        shutil.rmtree(folder)
    assert graph.scratch_bytes > 0
    assert rows(graph.find(WEDGE, strategy="partitioned")) == wedges()
    graph.close()
    assert graph.scratch_bytes == 0


@pytest.mark.parametrize("strategy", IN_ROUNDS)
def test_results_that_nobody_gets_are_freed_at_once(spark, monkeypatch, tmp_path, strategy):
    monkeypatch.setattr(arrow_files, "MAX_BYTES_IN_FRAME", 0)
    graph, before, wanted = graph_of(spark), folders(), wedges()
    ends = {(a, c) for a, _, c in wanted}
    assert graph.exists(WEDGE, strategy=strategy)
    assert graph.count("q(a,c) := edge(a,b), edge(b,c)", deduplicate=True, strategy=strategy) == len(ends)
    query = "q(a,c) := edge(a,b), edge(b,c)"
    assert graph.write(query, tmp_path / "out.csv", deduplicate=True, strategy=strategy) == len(ends)
    assert folders() == before
    assert graph.scratch_bytes == 0


def test_many_results_of_relations_are_freed_on_close(spark, monkeypatch):
    monkeypatch.setattr(arrow_files, "MAX_BYTES_IN_FRAME", 0)
    before = folders()
    src, dst = zip(*EDGES, strict=True)
    with bj.Relations({"r": pa.table({"x": src, "y": dst})}, spark=spark) as relations:
        for _ in range(5):
            found = relations.find("q(a,b,c) := r(a,b), r(b,c)", strategy="partitioned")
            assert rows(found) == wedges()
    assert len(folders() - before) == 5
    assert rows(found) == wedges()  # frames outlive the block
    relations.close()
    assert folders() == before


def test_a_frame_outlives_the_block_of_its_graph(spark):
    src, dst = zip(*EDGES, strict=True)
    with bj.Graph(pa.table({"src": src, "dst": dst}), spark=spark) as graph:
        found = graph.find(WEDGE)
    assert rows(found) == wedges()
    graph.close()
    with pytest.raises(bj.BigjoinError, match="this graph is closed, and its index is gone; make it again"):
        graph.find(WEDGE)
    with bj.Graph(pa.table({"src": src, "dst": dst}), spark=spark) as unasked:
        folder = unasked.index.path
    assert not folder.exists()


def test_much_that_is_held_is_told_once(spark, monkeypatch):
    monkeypatch.setattr(arrow_files, "MAX_BYTES_IN_FRAME", 0)
    monkeypatch.setattr("bigjoin.spark.held.MAX_UNNOTED_BYTES", 10)
    with graph_of(spark) as graph:
        with pytest.warns(UserWarning, match=r"results of find hold .* until the graph is closed: close\(\) it"):
            graph.find(WEDGE, strategy="partitioned")
        graph.find(WEDGE, strategy="partitioned")


@pytest.mark.slow
def test_frames_on_spark_connect_outlive_the_result_and_go_with_the_session(tmp_path):
    program = textwrap.dedent(
        """
        import gc, os, sys
        os.environ["PYSPARK_PYTHON"] = sys.executable
        from pyspark.sql import SparkSession
        spark = SparkSession.builder.remote("local[2]").getOrCreate()
        import pyarrow as pa
        import bigjoin as bj
        from bigjoin.spark import arrow_files
        from tests.test_results import EDGES, WEDGE, folders, rows, wedges
        src, dst = zip(*EDGES)
        graph, wanted = bj.Graph(pa.table({"src": src, "dst": dst}), spark=spark), wedges()
        for small in (arrow_files.MAX_BYTES_IN_FRAME, 0):
            arrow_files.MAX_BYTES_IN_FRAME = small
            for strategy in ["partitioned", "heavy-light", "balanced"]:
                found = graph.find(WEDGE, strategy=strategy)
                few, cached = found.filter("a < 10").select("c", "a"), found.filter("b < 20").cache()
                found.createOrReplaceTempView("wedges")
                del found
                gc.collect()
                assert rows(few) == sorted((c, a) for a, _, c in wanted if a < 10)
                assert rows(cached) == [row for row in wanted if row[1] < 20]
                assert rows(spark.sql("select * from wedges")) == wanted
            assert len(folders()) == (0 if small else 3)
        pieces = graph.pieces(WEDGE, ".csv")
        assert sum(len(piece.read_text().splitlines()) for piece in pieces) == len(wanted)
        spark.stop()
        spark = SparkSession.builder.remote("local[2]").getOrCreate()
        other = bj.Graph(pa.table({"src": src, "dst": dst}), spark=spark)
        assert rows(other.find(WEDGE, strategy="partitioned")) == wanted
        assert len(folders()) == 1  # those of the session that has ended are gone
        print("connected")
        """
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert "connected" in done.stdout, done.stderr[-3000:]
    assert not list(tmp_path.glob("bigjoin-*"))


# Rows while they are found


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("options", [[], ["--json"], ["--limit", "7"], ["--where", "a > 1000"]], ids=str)
def test_all_rows_are_printed(spark, tmp_path, strategy, options):
    (tmp_path / "edges.txt").write_text("".join(f"{a} {b}\n" for a, b in EDGES))
    done = run_here("find", WEDGE, "edges.txt", "--strategy", strategy, "--quiet", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines, wanted = done.stdout.splitlines(), wedges()
    if "--json" in options:
        found = [tuple(json.loads(line).values()) for line in lines]
    else:
        assert lines[0] == "a,b,c"
        found = [tuple(map(int, row)) for row in csv.reader(lines[1:])]
    if "--limit" in options:
        assert len(found) == 7
        assert set(found) <= set(wanted)
    else:
        assert sorted(found) == ([] if "--where" in options else wanted)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("query", "options"),
    [("q(a,c) := edge(a,b), edge(b,c)", ["--deduplicate"]), ("q(a,b,c) := edge(a,b), optional edge(b,c)", [])],
)
def test_rows_that_are_brought_together_are_printed_too(spark, tmp_path, strategy, query, options):
    (tmp_path / "edges.txt").write_text("1 2\n2 3\n3 4\n1 5\n5 3\n")
    done = run_here("find", query, "edges.txt", "--strategy", strategy, "--quiet", *options, cwd=tmp_path)
    wanted = ["1,3", "2,4", "5,4"] if options else ["1,2,3", "1,5,3", "2,3,4", "3,4,", "5,3,4"]
    assert sorted(done.stdout.splitlines()[1:]) == wanted, done.stderr


def test_rows_are_printed_as_they_are(spark, tmp_path):
    (tmp_path / "edges.csv").write_text('src,dst\n"a, b","say ""hi"""\né,日本\n')
    done = run_here("find", "q(a,b) := edge(a,b)", "edges.csv", "--quiet", cwd=tmp_path)
    assert sorted(csv.reader(done.stdout.splitlines()[1:])) == [["a, b", 'say "hi"'], ["é", "日本"]]


HUB = 3000
"""Leaves on a hub: nine million pairs of them."""
PAIRS = "q(a,b,c) := edge(a,b), edge(c,b)"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_work_stops_when_nobody_reads_on(spark, monkeypatch, strategy):
    """Neither all rows are found first, nor after the reader has gone."""
    monkeypatch.setattr("bigjoin.local.pieces.MAX_PIECES", 4)
    monkeypatch.setattr(partitioned, "STREAMED_PROPOSALS", 1 << 16)
    monkeypatch.setattr(balanced, "STREAMED_PROPOSALS", 1 << 16)
    graph = graph_of(spark, [(i, 0) for i in range(1, HUB + 1)])
    before = folders("found")
    pieces = graph.pieces(PAIRS, ".csv", strategy=strategy)
    first = next(pieces)
    (folder,) = folders("found") - before
    rows_seen = len(first.read_text().splitlines())
    time.sleep(3)
    waiting = sum(file.read_bytes().count(b"\n") for file in folder.iterdir())
    assert 0 < rows_seen <= waiting < HUB * HUB / 2
    pieces.close()
    assert folders("found") == before
    assert graph.count("q(a,b) := edge(a,b)", strategy="shared") == HUB  # the cores are free again


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_all_of_a_large_result_comes_through(spark, monkeypatch, strategy):
    monkeypatch.setattr("bigjoin.local.pieces.MAX_PIECES", 4)
    monkeypatch.setattr(partitioned, "STREAMED_PROPOSALS", 1 << 14)
    monkeypatch.setattr(balanced, "STREAMED_PROPOSALS", 1 << 14)
    graph = graph_of(spark, [(i, 0) for i in range(1, 601)])
    found = [line for piece in graph.pieces(PAIRS, ".csv", strategy=strategy) for line in piece.read_text().splitlines()]
    assert len(found) == len(set(found)) == 600 * 600


def test_what_goes_wrong_in_the_work_is_raised_where_it_is_read(spark, tmp_path):
    graph = graph_of(spark)
    shutil.rmtree(next(graph.index.path.glob("build-*")))
    with pytest.raises(Exception, match=r"gone|No such file"):
        list(graph.pieces(WEDGE, ".csv", strategy="shared"))


def bigjoin(*arguments, cwd, scratch: Path, **options) -> subprocess.Popen:
    scratch.mkdir(exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(scratch), "BIGJOIN_CACHE": str(cwd / "cache")}
    environment.pop("BIGJOIN_SCRATCH", None)
    return subprocess.Popen([str(BIGJOIN), *arguments], cwd=cwd, env=environment, stdout=subprocess.PIPE, **options)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_head_ends_the_search_quietly(tmp_path, strategy):
    """The result has 400 million rows, some eight gigabytes of text: nobody could wait for all of them."""
    (tmp_path / "hub.txt").write_text("".join(f"{i} 0\n" for i in range(1, 20_001)))
    process = bigjoin(
        "find",
        PAIRS,
        "hub.txt",
        "--quiet",
        "--strategy",
        strategy,
        cwd=tmp_path,
        scratch=tmp_path / "tmp",
        stderr=subprocess.PIPE,
    )
    lines = [line.decode().strip() for line in islice(process.stdout, 3)]
    assert lines[0] == "a,b,c"
    assert all(line.split(",")[1] == "0" for line in lines[1:])
    held = sum(file.stat().st_size for file in (tmp_path / "tmp").glob("bigjoin-*/found-*/*"))
    assert held < 2 << 30
    process.stdout.close()
    assert process.wait(timeout=120) == 0
    assert process.stderr.read() == b""
    assert not list((tmp_path / "tmp").glob("bigjoin-*"))


@pytest.mark.slow
def test_an_interrupt_ends_a_search_whose_rows_are_being_printed(tmp_path):
    (tmp_path / "hub.txt").write_text("".join(f"{i} 0\n" for i in range(1, 20_001)))
    process = bigjoin("find", PAIRS, "hub.txt", "--quiet", cwd=tmp_path, scratch=tmp_path / "tmp", stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"a,b,c\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert (process.returncode, said.decode().strip()) == (130, "bigjoin: interrupted")
    assert not list((tmp_path / "tmp").glob("bigjoin-*"))


@pytest.mark.slow
def test_a_reader_that_goes_before_there_is_a_row_ends_the_search_too(tmp_path):
    """No row is ever found, so no write tells."""
    (tmp_path / "hub.txt").write_text("".join(f"{i} 0\n" for i in range(1, 3001)))
    query = "q(a,b,c,d) := edge(a,b), edge(c,b), edge(d,b), a < 0, c < d"
    process = bigjoin("find", query, "hub.txt", "--quiet", cwd=tmp_path, scratch=tmp_path / "tmp", stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.wait(timeout=200) == 0
    assert process.stderr.read() == b""


@pytest.mark.slow
def test_scratch_of_a_killed_search_is_removed_by_the_next_command(tmp_path):
    (tmp_path / "hub.txt").write_text("".join(f"{i} 0\n" for i in range(1, 20_001)))
    process = bigjoin("find", PAIRS, "hub.txt", "--strategy", "partitioned", cwd=tmp_path, scratch=tmp_path / "tmp")
    assert process.stdout.readline() == b"a,b,c\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    left = list((tmp_path / "tmp").glob("bigjoin-*"))
    assert len(left) == 1
    (tmp_path / "edges.txt").write_text("1 2\n")
    process = bigjoin("count", "2-path", "edges.txt", "--quiet", cwd=tmp_path, scratch=tmp_path / "tmp")
    assert process.communicate(timeout=300)[0] == b"0\n"
    assert not [folder for folder in left if (folder / ".owner").exists()]
