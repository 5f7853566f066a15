"""Edges from tables of Delta, Iceberg, Hive and databases, and matches into them, by their own packages (`make test-lake`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import duckdb
import numpy as np
import pytest

import bigjoin as bj
from tests.lake import DERBY, PACKAGES, of_installed_spark, settings

pytestmark = [pytest.mark.lake, pytest.mark.spark]

BUNDLED = Path(bj.__file__).parent / "data" / "soc-Epinions1.txt.gz"
UNDER = 500
"""The vertices whose edges a test takes from the bundled graph: those with the smallest ids."""


@dataclass(frozen=True)
class Store:
    """A place for tables: how one is written and read."""

    name: str
    write: Callable[[Any, str], None]
    read: Callable[[Any, str], Any]


def _database(name: str) -> dict[str, str]:
    return {"url": DERBY.format("records"), "driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver", "dbtable": name}


def _to_database(frame, name):
    frame.write.format("jdbc").options(**_database(name)).mode("overwrite").save()


def _by_parts(session, name):
    parts = {"partitionColumn": session.read.format("jdbc").options(**_database(name)).load().columns[0]}
    parts |= {"lowerBound": "0", "upperBound": str(UNDER), "numPartitions": "4"}
    return session.read.format("jdbc").options(**_database(name), **parts).load()


def _to_folders(frame, name):
    parts = frame.withColumn("part", frame[frame.columns[0]] % 4)
    parts.write.partitionBy("part").mode("overwrite").saveAsTable(name)


def _path(session, name) -> str:
    return f"{session.conf.get('spark.sql.warehouse.dir').removeprefix('file:')}/by-path/{name}"


def _saved(form):
    return lambda frame, name: frame.write.format(form).mode("overwrite").saveAsTable(name)


STORES = [
    Store("parquet", _saved("parquet"), lambda session, name: session.table(name)),
    Store("orc", _saved("orc"), lambda session, name: session.table(name)),
    Store("folders", _to_folders, lambda session, name: session.table(name).drop("part")),
    Store("hive", _saved("hive"), lambda session, name: session.table(name)),
    Store("database", _to_database, lambda session, name: session.read.format("jdbc").options(**_database(name)).load()),
    Store("database-by-parts", _to_database, _by_parts),
    Store(
        "database-catalog",
        lambda frame, name: frame.writeTo(f"shop.app.{name}").create(),
        lambda session, name: session.table(f"shop.app.{name}"),
    ),
    Store("delta", _saved("delta"), lambda session, name: session.table(name)),
    Store(
        "delta-by-path",
        lambda frame, name: frame.write.format("delta").save(_path(frame.sparkSession, name)),
        lambda session, name: session.table(f"delta.`{_path(session, name)}`"),
    ),
    Store(
        "iceberg",
        lambda frame, name: frame.writeTo(f"ice.db.{name}").create(),
        lambda session, name: session.table(f"ice.db.{name}"),
    ),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="module")
def lake(home):
    session = bj.session("local[2]", settings(home))
    yield session
    session.stop()


@pytest.fixture(scope="module")
def edges() -> list[tuple[int, int]]:
    rows = np.loadtxt(BUNDLED, dtype=np.int64, comments="#")
    return [(int(a), int(b)) for a, b in rows[(rows < UNDER).all(axis=1)]]


@pytest.fixture(scope="module")
def triangles(edges) -> set[frozenset[int]]:
    """The triangles of the edges without their directions, by DuckDB."""
    with duckdb.connect() as database:
        database.execute("CREATE TABLE given (src BIGINT, dst BIGINT)")
        database.executemany("INSERT INTO given VALUES (?, ?)", edges)
        database.execute(
            "CREATE TABLE e AS SELECT DISTINCT least(src, dst) a, greatest(src, dst) b FROM given WHERE src <> dst"
        )
        found = database.sql("SELECT x.a, x.b, y.b FROM e x, e y, e z WHERE x.b = y.a AND z.a = x.a AND z.b = y.b").fetchall()
    return set(map(frozenset, found))


def the_stores() -> list[Any]:
    version = of_installed_spark()
    return [
        pytest.param(
            store,
            id=store.name,
            marks=pytest.mark.skipif(
                store.name.split("-")[0] in {"delta", "iceberg"} - PACKAGES[version].keys(),
                reason=f"{store.name} has no package for Spark {version}",
            ),
        )
        for store in STORES
    ]


@pytest.mark.parametrize("store", the_stores())
def test_edges_come_from_a_table_and_matches_go_to_one(lake, edges, triangles, store):
    prefix = store.name.replace("-", "_")
    store.write(lake.createDataFrame(edges, "src bigint, dst bigint").repartition(3), f"{prefix}_edges")
    with bj.Graph(store.read(lake, f"{prefix}_edges"), directed=False, spark=lake) as graph:
        assert graph.count("triangle", unique=True) == len(triangles)
        for strategy in ("shared", "partitioned"):
            target = f"{prefix}_{strategy}"
            store.write(graph.find("triangle", unique=True, strategy=strategy), target)
            rows = store.read(lake, target).collect()
            assert len(rows) == len(triangles)
            assert {frozenset(row) for row in rows} == triangles


@pytest.mark.parametrize(
    ("kind", "write", "name"),
    [
        ("delta", "edges.write.format('delta').save(sys.argv[3])", "delta.`{}`"),
        ("iceberg", "edges.writeTo('ice.db.command').create()", "ice.db.command"),
    ],
)
def test_a_table_is_named_on_the_command_line(home, kind, write, name, edges, triangles):
    """A process of its own writes the table; the command fetches the packages, and reads it."""
    if kind not in PACKAGES[of_installed_spark()]:
        pytest.skip(f"{kind} has no package for Spark {of_installed_spark()}")
    given = settings(home)
    program = f"""
        import json, sys, bigjoin as bj
        session = bj.session("local[2]", json.loads(sys.argv[1]))
        edges = session.createDataFrame(json.loads(sys.argv[2]), "src bigint, dst bigint")
        {write}
    """
    folder = str(home / "command" / kind)
    run([sys.executable, "-c", dedent(program), json.dumps(given), json.dumps(edges), folder])
    packages = given.pop("spark.jars.packages")
    options = [f"--conf={key}={value}" for key, value in given.items()]

    def count(table: str, code: int = 0):
        asked = [f"table:{table}", "--undirected", "--unique", "--packages", packages, *options]
        return run([sys.executable, "-m", "bigjoin", "count", "triangle", *asked], code=code)

    assert count(name.format(folder)).stdout == f"{len(triangles):,}\n"
    missing = count("default.nowhere", code=2).stderr
    assert "Traceback" not in missing
    assert "table:default.nowhere cannot be read: " in missing


def run(command: list[str], code: int = 0) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert done.returncode == code, done.stderr[-2000:]
    return done
