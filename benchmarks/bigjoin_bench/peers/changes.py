"""Signed matches to Parquet: written by a watch, an epoch a folder, and the same tables written by pyarrow from memory."""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bigjoin_bench.feeds import after_first
from bigjoin_bench.peers.watching import Watching
from bigjoin_bench.question import UNIQUE, Answer, Input, Question

TRIANGLES = Question("triangle", UNIQUE)


class ChangesWritten(Watching):
    """graph.watch with an output folder: the join, the files, and the commit."""

    folder: Path | None = None
    """Where the output goes, if somebody wants to read it."""

    def options(self, place: Path) -> dict[str, Any]:
        """Have the matches written."""
        return {"output": self.folder or place / "output"}

    def answer(self, before: int, after: int) -> int:
        """Return how many rows were written: updates insert, so no match ever goes."""
        return after - before


class PyarrowChanges:
    """The tables of all epochs in memory, each written to one file."""

    def __init__(self, *, threads: int, **feed: Any) -> None:
        self.threads, self.feed = threads, feed

    def version(self) -> str:
        return str(pa.__version__)

    def load(self, graph: Input) -> None:
        """Have the changes found in another process, whose memory is not this one's, and read them."""
        with tempfile.TemporaryDirectory(prefix="bigjoin-bench-") as folder:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                pool.submit(_find, graph, folder, {"threads": self.threads, **self.feed}).result()
            epochs = sorted(Path(folder).glob("output/epoch=*"), key=lambda path: int(path.name.partition("=")[2]))
            self.tables = [pq.read_table(epoch, partitioning=None) for epoch in epochs]

    def run(self, question: Question) -> Answer:
        """Write the tables, one after another."""
        assert question == TRIANGLES
        times = []
        with tempfile.TemporaryDirectory(prefix="bigjoin-bench-") as folder:
            for number, table in enumerate(self.tables):
                started = time.perf_counter()
                pq.write_table(table, Path(folder) / f"{number}.parquet")
                times.append(time.perf_counter() - started)
        rows = sum(table.num_rows for table in self.tables)
        return Answer(rows, fmean(after_first(times)), {"epochs": times, "changed": rows})


def _find(graph: Input, folder: str, options: dict[str, Any]) -> None:
    finder = ChangesWritten(**options)
    finder.folder = Path(folder) / "output"
    finder.load(graph)
    finder.run(TRIANGLES)
