"""From a table of edges to an index: ours, verified, and DuckDB's sorted tables of the same edges in both directions."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bigjoin import __version__
from bigjoin.index.writer import verify
from bigjoin.indexing import build_index
from bigjoin.ingest.files import open_edges
from bigjoin.spark.session import get_session
from bigjoin_bench.question import Answer, Input, Question


class BigjoinBuild:
    """Builds in a warm session; both end with files that are on disk."""

    def __init__(self, *, threads: int) -> None:
        self.spark = get_session(f"local[{threads}]")

    def version(self) -> str:
        return __version__

    def load(self, graph: Input) -> None:
        """Remember the file: building is what is measured."""
        self.path = graph.path

    def run(self, question: Question) -> Answer:
        """Build, and count the distinct edges."""
        del question
        with tempfile.TemporaryDirectory(prefix="bigjoin-bench-") as folder:
            index = build_index(self.path, Path(folder) / "index", properties=False, spark=self.spark)
            verify(index)
            return Answer(index.statistics.relations["edge"].tuples, figures={"rows": _rows(self.path)})


class DuckDBBuild:
    """Makes two sorted tables in a database file, with a checkpoint."""

    def __init__(self, *, threads: int) -> None:
        import duckdb

        self.duckdb, self.threads = duckdb, threads

    def version(self) -> str:
        return str(self.duckdb.__version__)

    def load(self, graph: Input) -> None:
        """Remember the file."""
        self.path = graph.path

    def run(self, question: Question) -> Answer:
        """Make the tables, and count the distinct edges."""
        del question
        src, dst = open_edges(self.path, properties=False).keys
        files = f"{self.path}/*.parquet" if Path(self.path).is_dir() else self.path
        with (
            tempfile.TemporaryDirectory(prefix="bigjoin-bench-") as folder,
            self.duckdb.connect(f"{folder}/edges.db") as connection,
        ):
            connection.execute(f"SET threads = {self.threads}")
            connection.execute(f"SET temp_directory = '{folder}/spill'")
            for name, key, value in (("forward", src, dst), ("reverse", dst, src)):
                sql = f"SELECT DISTINCT {key}, {value} FROM '{files}' ORDER BY {key}, {value}"
                connection.execute(f"CREATE TABLE {name} AS {sql}")
            connection.execute("CHECKPOINT")
            return Answer(
                int(connection.execute("SELECT count(*) FROM forward").fetchone()[0]), figures={"rows": _rows(self.path)}
            )


def _rows(path: str) -> int:
    return open_edges(path, properties=False).rows or 0
