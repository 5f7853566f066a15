"""Builds that are killed at any moment leave the index that was there, or none; never one that opens and is wrong."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from bigjoin.errors import IndexFormatError
from bigjoin.index.directory import Index
from bigjoin.index.writer import verify
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
    indexing.ALONE = 0


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
        rows = index.extensions("edge", (0, 1, 2))
        assert sorted(rows.tuples(np.arange(len(rows)))[2].tolist()) == list(range(len(edges_of(index))))
    assert opened > kills // 3
