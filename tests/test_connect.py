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
            assert graph.write("triangle", "out.parquet", unique=True) == 2
        frame = spark.createDataFrame(rows, ["a.b", "A"])
        found = bj.join("q(x, y, z) := r(x, y), r(y, z), r(z, x)", r=frame).collect()
        assert sorted(tuple(row) for row in found)[0] == (1, 2, 3) and len(found) == 6
        assert graph.materialize("tri", "triangle") == 12
        assert graph.count("q(a, b) := edge(a, b), not tri(a, b, _)", unique=True) == 0
        print("connected")
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert "connected" in done.stdout, done.stderr[-3000:]
