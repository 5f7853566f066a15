"""Tables and views of Spark's catalogs: as DataFrames, and by their names."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

import bigjoin as bj
from bigjoin.cli.main import cli
from bigjoin.cli.options import PACKAGES, Options
from bigjoin.errors import NeedsSparkError, SourceError

VERTICES, EDGES = 60, 900


@pytest.fixture(scope="module")
def table(spark):
    """A table that is partitioned on disk, and its edges."""
    drawn = np.random.default_rng(7).integers(0, VERTICES, (EDGES, 2))
    rows = [(a, b, a % 3) for a, b in drawn.tolist()]
    frame = spark.createDataFrame(rows, "src bigint, dst bigint, part int")
    frame.write.partitionBy("part").mode("overwrite").saveAsTable("bigjoin_edges")
    yield "bigjoin_edges", [row[:2] for row in rows]
    spark.sql("DROP TABLE bigjoin_edges")


def cycles(edges) -> int:
    return sum((b, c) in edges and (c, a) in edges for a, b in edges for c in range(VERTICES))


@pytest.mark.spark
def test_edges_of_a_table_do_not_come_to_the_driver(spark, table, monkeypatch):
    name, rows = table
    frame, brought = spark.table(name), []
    arrow = type(frame).toArrow

    def counted(self):
        found = arrow(self)
        brought.append(found.num_rows)
        return found

    def refused(self, *_, **__):
        raise AssertionError("rows come to the driver")

    monkeypatch.setattr(type(frame), "toArrow", counted)
    for method in ("collect", "toPandas", "toLocalIterator", "take", "head"):
        monkeypatch.setattr(type(frame), method, refused)
    with bj.Graph(frame, spark=spark) as graph:
        assert graph.index.manifest.relations["edge"].tuples == len(set(rows))
    assert 0 < sum(brought) < len(rows) / 10


@pytest.mark.spark
def test_a_table_is_named(spark, table):
    name, rows = table
    edges = set(rows)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW bigjoin_view AS SELECT src, dst FROM {name} WHERE src < dst")
    query = "q(a, b, c) := edge(a, b), edge(b, c), edge(c, a)"
    with bj.Graph(f"table:{name}", spark=spark) as graph:
        assert graph.count(query) == cycles(edges)
        assert graph.count("q(a, b, e) := edge(a, b, e), e.part = 1", where="a < 3") == sum(a == 1 for a, _ in rows)
    with bj.Graph("table:bigjoin_view", spark=spark) as graph:
        assert graph.count("q(a, b) := edge(a, b)") == sum(a < b for a, b in edges)
    related = bj.Relations({"r": f"table:{name}"}, spark=spark)
    assert related.count("q(a, b) := r(a, b, _), r(b, a, _)") == sum((b, a) in edges for a, b in edges)


@pytest.mark.spark
def test_what_is_wrong_with_a_name_is_said(spark):
    with pytest.raises(SourceError, match=r"^table:bigjoin_nowhere cannot be read: .*bigjoin_nowhere"):
        bj.Graph("table:bigjoin_nowhere", spark=spark)
    with pytest.raises(SourceError, match="table:x is no text, and --header"):
        bj.Graph("table:x", header=True, spark=spark)


def test_a_table_needs_spark():
    asked = CliRunner().invoke(cli, ["count", "triangle", "table:edges", "--strategy", "local"])
    assert isinstance(asked.exception, NeedsSparkError)


@pytest.mark.parametrize("given", ["delta", "io.delta:delta", "a:b:c,", "a:b c:1"])
def test_packages_have_coordinates(given):
    asked = CliRunner().invoke(cli, ["count", "triangle", "edges.txt", "--packages", given])
    assert asked.exit_code == 2
    assert "is no package: write GROUP:ARTIFACT:VERSION" in asked.output


def test_packages_are_a_setting_of_the_session(monkeypatch):
    seen = []
    monkeypatch.setattr("bigjoin.cli.count.question", lambda _, options: seen.append(options))
    given = ["--packages", "a:b:1,c:d:2", "--conf", f"{PACKAGES}=e:f:3", "--packages", "g:h:4"]
    CliRunner().invoke(cli, ["count", "triangle", "edges.txt", *given])
    assert seen[0].conf == {PACKAGES: "e:f:3,a:b:1,c:d:2,g:h:4"}
    assert seen[0].about_spark == "--packages"
    assert Options(conf={"spark.executor.memory": "1g", PACKAGES: "a:b:1"}).about_spark == "--conf"
