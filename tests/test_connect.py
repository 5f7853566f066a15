"""Spark Connect: the same code in a process of its own, where there is no SparkContext to fall back on."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest


@pytest.mark.spark
def test_the_same_code_runs_on_spark_connect(tmp_path):
    (tmp_path / "edges.txt").write_text("1 2\n2 3\n3 1\n3 3\n3 4\n4 5\n5 3\n")
    program = textwrap.dedent(
        """
        import os, sys
        os.environ["PYSPARK_PYTHON"] = sys.executable
        from pyspark.sql import SparkSession
        spark = SparkSession.builder.remote("local[2]").getOrCreate()
        assert "connect" in type(spark).__module__
        import bigjoin as bj
        rows = [(1, 2), (2, 3), (3, 1), (3, 4), (4, 5), (5, 3)]
        for edges in ("edges.txt", spark.createDataFrame(rows, "src long, dst long")):
            graph = bj.Graph(edges, directed=False)
            assert graph.count("triangle", unique=True) == 2
            assert sorted(map(sorted, graph.find("triangle", unique=True).collect())) == [[1, 2, 3], [3, 4, 5]]
            assert graph.count("triangle", unique=True, strategy="partitioned", workers=3) == 2
            assert graph.find("triangle", unique=True, strategy="partitioned").count() == 2
            for strategy in ("shared", "partitioned"):
                groups = graph.count("triangle", unique=True, by="a1", strategy=strategy).collect()
                assert sum(row["count"] for row in groups) == 6
            assert graph.count("triangle", unique=True, by=("a1", "a2")).agg({"count": "sum"}).collect()[0][0] == 12
            assert graph.count("triangle", unique=True, strategy="balanced", workers=3) == 2
            assert graph.write("triangle", "out.parquet", unique=True) == 2
            seeds = spark.createDataFrame([(1, 2), (3, 4), (4, 1)], "a1 long, a2 long")
            assert graph.count("triangle", seeds=seeds) == graph.find("triangle", seeds=seeds).count() == 2
            assert graph.count("triangle", seeds={"a1": range(300_000)}, strategy="partitioned") == 12
        frame = spark.createDataFrame(rows, ["a.b", "A"])
        found = bj.join("q(x, y, z) := r(x, y), r(y, z), r(z, x)", r=frame).collect()
        assert sorted(tuple(row) for row in found)[0] == (1, 2, 3) and len(found) == 6
        assert graph.materialize("tri", "triangle") == 12
        assert graph.count("q(a, b) := edge(a, b), not tri(a, b, _)", unique=True) == 0
        import pathlib, json
        pathlib.Path("updates").mkdir()
        for number, lines in enumerate(("4,1,+", "1,2,-\\n2,4,+")):
            pathlib.Path(f"updates/{number}.csv").write_text(f"src,dst,op\\n{lines}\\n")
        frame = spark.readStream.schema("src long, dst long, op string").option("header", True)
        stream = frame.option("maxFilesPerTrigger", 1).csv(str(pathlib.Path("updates").absolute()))
        watching = graph.watch("triangle", stream, output="out", unique=True, trigger={"availableNow": True})
        assert repr(watching).startswith("Watch of triangle: running, epoch "), watching
        watching.awaitTermination()
        assert repr(watching) == "Watch of triangle: stopped, epoch 2; triangle 3; output in out", watching
        assert (watching.epoch, watching.counts, watching.isActive) == (2, {"triangle": 3}, False)
        assert "<table" in watching._repr_html_() and watching.id and watching.exception() is None
        counts = [json.loads(line)["count"] for line in pathlib.Path("out/_counts.jsonl").read_text().splitlines()]
        assert sorted(counts) == sorted([3, 3]), counts
        rows = spark.read.parquet(str(pathlib.Path("out").absolute())).orderBy("epoch", "change").collect()
        assert [(row.epoch, row.change) for row in rows] == [(1, 1), (2, -1), (2, 1)], rows
        from types import SimpleNamespace
        import bigjoin.notebook as notebook
        shown, notebook.DELAY_SECONDS = [], 0.0
        publish = lambda data, transient, update: shown.append(data["text/plain"])
        shell = SimpleNamespace(kernel=1, execution_count=1, display_pub=SimpleNamespace(publish=publish))
        sys.modules["IPython"] = SimpleNamespace(get_ipython=lambda: shell, __file__="IPython/__init__.py")
        for strategy in ("shared", "partitioned"):
            shown.clear()
            assert graph.count("triangle", unique=True, strategy=strategy) == 3
            assert shown[0].startswith("counting: ") and shown[-1] == "", shown
        print("connected")
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert "connected" in done.stdout, done.stderr[-3000:]
