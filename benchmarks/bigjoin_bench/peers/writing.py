"""Matches to a Parquet file: found and written by our tasks, and the same table written by pyarrow, which has it in memory."""

from __future__ import annotations

import tempfile
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bigjoin_bench.peers.bigjoin import Bigjoin
from bigjoin_bench.question import Answer, Input, Question

TRIANGLES = Question("triangle")


class BigjoinWrite(Bigjoin):
    """graph.write: the join, and one file."""

    def run(self, question: Question) -> Answer:
        """Write the matches."""
        assert self.graph is not None
        with tempfile.TemporaryDirectory(prefix="bigjoin-bench-") as folder:
            file = Path(folder) / "matches.parquet"
            rows = self.graph.write(question.query, file, **question.flags)  # type: ignore[arg-type]
            return Answer(rows, figures={"bytes": file.stat().st_size})


class PyarrowWrite:
    """As many threads as asked for, each with its part of the table of triangles and a file of its own."""

    def __init__(self, *, threads: int) -> None:
        self.threads = threads

    def version(self) -> str:
        return str(pa.__version__)

    def load(self, graph: Input) -> None:
        """Have the triangles found in another process, whose memory is not this one's, and read them."""
        with tempfile.TemporaryDirectory(prefix="bigjoin-bench-") as folder:
            file = Path(folder) / "matches.parquet"
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                pool.submit(_find, graph, file, self.threads).result()
            self.table = pq.read_table(file)

    def run(self, question: Question) -> Answer:
        """Write the table."""
        assert question == TRIANGLES
        share = -(-self.table.num_rows // self.threads)
        with tempfile.TemporaryDirectory(prefix="bigjoin-bench-") as folder:

            def write(part: int) -> int:
                file = Path(folder) / f"{part}.parquet"
                pq.write_table(self.table.slice(part * share, share), file)
                return file.stat().st_size

            with ThreadPoolExecutor(self.threads) as pool:
                size = sum(pool.map(write, range(self.threads)))
        return Answer(self.table.num_rows, figures={"bytes": size})


def _find(graph: Input, file: Path, threads: int) -> None:
    finder = Bigjoin(threads=threads)
    finder.load(graph)
    assert finder.graph is not None
    finder.graph.write(TRIANGLES.query, file)
