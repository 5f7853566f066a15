"""Builds that are killed at any moment leave the index that was there, or none; never one that opens and is wrong."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import bigjoin as bj
from bigjoin.errors import IndexFormatError
from bigjoin.index.directory import Index
from bigjoin.index.writer import vacuum, verify
from bigjoin.indexing import build_index
from bigjoin.streaming.compaction import without_runs
from tests.test_index import edges_of

GRAPHS = 5

BUILDER = """
import sys
from itertools import count
import pyarrow as pa
import pyarrow.parquet as pq
from bigjoin import indexing
from tests.test_kills import GRAPHS, graph
spark = None
if sys.argv[2] == "spark":
    from bigjoin.spark.session import get_session
    spark = get_session("local[2]")
    indexing.MAX_ROWS_INDEXED_HERE = 0


def build(number, path):
    src, dst = zip(*graph(number % GRAPHS))
    pq.write_table(pa.table({"src": src, "dst": dst, "weight": src}), sys.argv[1] + ".parquet")
    indexing.build_index(sys.argv[1] + ".parquet", path, shards=1 + number % 3, part_size=700, spark=spark)


build(0, sys.argv[1] + ".warm")
print("ready", flush=True)
for number in count():
    build(number, sys.argv[1])
"""


def graph(number: int) -> list[tuple[int, int]]:
    return sorted({(i, (i * (number + 3) + number) % 997) for i in range(3000)})


@pytest.mark.parametrize(
    ("kills", "where", "longest"),
    [
        (8, "here", 0.4),
        pytest.param(50, "here", 0.4, marks=pytest.mark.slow),
        pytest.param(50, "spark", 4.0, marks=[pytest.mark.slow, pytest.mark.spark]),
    ],
)
def test_a_killed_build_leaves_a_whole_index_or_none(tmp_path, kills, where, longest):
    rng = random.Random(kills)
    known = [graph(number) for number in range(GRAPHS)]
    opened = 0
    for _ in range(kills):
        path = tmp_path / "index"
        builder = subprocess.Popen(
            [sys.executable, "-c", BUILDER, str(path), where],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
        )
        assert builder.stdout.readline() == "ready\n"
        time.sleep(rng.uniform(0, longest))
        assert builder.poll() is None
        builder.kill()
        builder.wait()
        try:
            index = Index.open(path)
        except IndexFormatError as error:
            assert "no manifest.json" in str(error) or "there is no index" in str(error)  # noqa: PT017
            assert not opened  # what was committed once stays
            continue
        opened += 1
        verify(index)
        assert edges_of(index) in known
        rows = index.trie("edge", (0, 1, 2))
        assert sorted(rows.tuples(np.arange(len(rows)))[2].tolist()) == list(range(len(edges_of(index))))
    assert opened > kills // 3


COMPACTOR = """
import sys
import bigjoin as bj
from bigjoin.index.directory import Index
from bigjoin.streaming.compaction import compact_in_place
index = Index.open(sys.argv[1])
print("ready", flush=True)
compact_in_place(index)
print("done", flush=True)
"""

UPDATES = pa.table({"src": [0, 1, 5], "dst": [5, 0, 3], "op": ["+", "-", "+"]})

WRITERS = {
    "a query": lambda path: without_runs(Index.open(path)),
    "an update": lambda path: bj.Graph.open(path).apply(UPDATES),
    "a stored relation": lambda path: bj.Graph.open(path).materialize("wedge", "q(a,b,c) := edge(a,b), edge(b,c), a < 9"),
    "other shards": lambda path: build_index(path, path, shards=2),
    "a vacuum": vacuum,
}


def unnamed(path: Path) -> list[str]:
    """What lies in an index and its manifest does not speak of."""
    manifest = json.loads((path / "manifest.json").read_text())
    named = {Path(name).parts[0] for name in manifest["files"]} | {entry["folder"] for entry in manifest.get("superseded", ())}
    return sorted({entry.name for entry in path.iterdir()} - named - {"manifest.json", ".lock"})


@pytest.mark.parametrize(("kills", "least"), [(5, 1), pytest.param(60, 20, marks=pytest.mark.slow)])
def test_what_a_killed_compaction_leaves_is_removed_by_whoever_writes_next(tmp_path, kills, least):
    rng = random.Random(kills)
    src = np.arange(300_000) % 9973
    build_index(pa.table({"src": src, "dst": (src * 7 + np.arange(300_000) // 9973) % 9973}), tmp_path / "whole")
    graph = bj.Graph.open(tmp_path / "whole")
    for first in range(0, 3000, 1000):
        ends = np.arange(first, first + 1000)
        graph.apply(pa.table({"src": ends, "dst": ends + 1, "op": ["+"] * 1000}))
    assert Index.open(tmp_path / "whole").runs
    wanted = edges_of(without_runs(Index.open(shutil.copytree(tmp_path / "whole", tmp_path / "compacted"))))
    left = 0
    for number in range(kills):
        path = shutil.copytree(tmp_path / "whole", tmp_path / f"copy{number}")
        process = subprocess.Popen(
            [sys.executable, "-c", COMPACTOR, str(path)], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]
        )
        assert process.stdout.readline() == "ready\n"
        while process.poll() is None and not unnamed(path):  # it reads for a while, before it writes
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.1))
        process.kill()
        process.wait()
        left += bool(unnamed(path))
        assert edges_of(without_runs(Index.open(shutil.copytree(path, tmp_path / f"read{number}")))) == wanted
        name = sorted(WRITERS)[number % len(WRITERS)]
        WRITERS[name](path)
        assert unnamed(path) == [], name
    assert left >= least  # or nothing was tested
