"""What a build cannot do without, measured on this machine: read the rows, sort a key for each, write the index's bytes."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from bigjoin import __version__
from bigjoin.index.stage_runner import in_threads
from bigjoin.indexing import build_index
from bigjoin.ingest.files import open_edges, read_whole
from bigjoin.ingest.radix import blocks_of, sorted_keys
from bigjoin_bench.question import Answer, Input, Question


class BuildLimit:
    """Measures the parts one after another; their sum is the limit."""

    def __init__(self, *, threads: int) -> None:
        del threads  # Arrow, and threads of ours, use all cores

    def version(self) -> str:
        return __version__

    def load(self, graph: Input) -> None:
        """Learn how many bytes the index has, and draw as many keys as there are rows, below the number of vertices."""
        self.path = graph.path
        with tempfile.TemporaryDirectory(prefix="bigjoin-bench-") as folder:
            index = build_index(self.path, Path(folder) / "index", properties=False)
            self.bytes, vertices = index.bytes, index.statistics.domains["vertex"]
        table = open_edges(self.path, properties=False)
        self.columns, self.rows = list(table.keys), table.rows or 0
        src, dst = np.random.default_rng(1).integers(0, max(1, vertices), (2, self.rows), dtype=np.uint64)
        self.keys = src << np.uint64(32) | dst

    def run(self, question: Question) -> Answer:
        """Return the sum as the time, and its parts as figures; `copy` is the time to copy the keys once in memory."""
        del question
        figures = {
            "read": _seconds(self._read),
            "sort": _seconds(lambda: sorted_keys(blocks_of(self.keys), in_threads)),
            "write": _seconds(self._write),
        }
        return Answer(
            None, sum(figures.values()), {**figures, "copy": _seconds(self.keys.copy), "bytes": self.bytes, "rows": self.rows}
        )

    def _read(self) -> None:
        if Path(self.path).is_dir() or self.path.endswith(".parquet"):
            pq.read_table(self.path, columns=self.columns)
        else:
            read_whole(self.path)

    def _write(self) -> None:
        with tempfile.NamedTemporaryFile(prefix="bigjoin-bench-") as file:
            content, left = memoryview(self.keys).cast("B"), self.bytes
            while left:
                left -= file.write(content[:left])
            file.flush()
            os.fsync(file.fileno())


def _seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
