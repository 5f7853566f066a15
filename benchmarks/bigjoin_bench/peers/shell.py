"""A question from a shell: the wall time of a whole process, from its start to its answer, with the graph kept on disk."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tempfile

from bigjoin import __version__
from bigjoin.languages import parse
from bigjoin_bench.peers.sql import as_join
from bigjoin_bench.peers.starting import COMMAND
from bigjoin_bench.question import FIRST_ROWS, ROWS_ASKED, Answer, Input, Question

_DUCKDB = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1])
connection.execute("SET threads = " + sys.argv[2] + "; SET enable_progress_bar = false")
print(len(connection.execute(sys.argv[3]).fetchall()) if sys.argv[4:] else connection.execute(sys.argv[3]).fetchone()[0])
"""

_KUZU = """
import sys, kuzu
connection = kuzu.Connection(kuzu.Database(sys.argv[1]), num_threads=int(sys.argv[2]))
found = connection.execute(sys.argv[3])
print(found.get_num_tuples() if sys.argv[4:] else found.get_next()[0])
"""


class ShellBigjoin:
    """`bigjoin count QUERY FILE --strategy ...`, or `find --limit`; the first time keeps the file's index in a cache."""

    def __init__(self, *, threads: int, strategy: str) -> None:
        self.threads, self.strategy = threads, strategy
        self._cache = tempfile.TemporaryDirectory(prefix="bigjoin-bench-")

    def version(self) -> str:
        return __version__

    def load(self, graph: Input) -> None:
        """Count once, so that there is an index."""
        self.path = graph.path
        self.run(Question("triangle"))

    def run(self, question: Question) -> Answer:
        """Ask in a new process."""
        where = ["--master", f"local[{self.threads}]"] if self.strategy == "shared" else ["--workers", str(self.threads)]
        options = [self.path, "--strategy", self.strategy, *where, "--quiet"]
        is_listed = question.meaning == FIRST_ROWS
        verb = ["find", question.query, "--limit", str(ROWS_ASKED)] if is_listed else ["count", question.query]
        said = _said([*COMMAND, *verb, *options], BIGJOIN_CACHE=self._cache.name)
        return Answer(len(said.splitlines()) - 1 if is_listed else int(said))


class ShellDuckDB:
    """Python with DuckDB, over a database file with the edges sorted."""

    def __init__(self, *, threads: int) -> None:
        self.threads = threads

    def version(self) -> str:
        return importlib.metadata.version("duckdb")

    def load(self, graph: Input) -> None:
        """Make the table."""
        import duckdb

        self._folder = tempfile.TemporaryDirectory(prefix="bigjoin-bench-duckdb-")
        self.path = f"{self._folder.name}/graph.duckdb"
        with duckdb.connect(self.path) as connection:
            connection.execute(f"CREATE TABLE edge AS SELECT DISTINCT src, dst FROM '{graph.path}' ORDER BY ALL")

    def run(self, question: Question) -> Answer:
        """Ask in a new process."""
        sql, more = as_join(question.query), ["rows"] if question.meaning == FIRST_ROWS else []
        if more:
            sql = sql.replace("count(*)", "*", 1) + f" LIMIT {ROWS_ASKED}"
        return Answer(int(_said([sys.executable, "-c", _DUCKDB, self.path, str(self.threads), sql, *more])))


class ShellKuzu:
    """Python with Kuzu, over a database with the edges in its own lists."""

    def __init__(self, *, threads: int) -> None:
        self.threads = threads

    def version(self) -> str:
        return importlib.metadata.version("kuzu")

    def load(self, graph: Input) -> None:
        """Copy vertices and edges from the file."""
        from bigjoin_bench.peers.kuzu import Kuzu

        self._loaded = Kuzu(threads=self.threads)
        self._loaded.load(graph)
        self.path = f"{self._loaded._folder.name}/graph"
        self._loaded.connection.close()
        self._loaded._database.close()

    def run(self, question: Question) -> Answer:
        """Ask in a new process."""
        from bigjoin_bench.peers.kuzu import cypher

        text, more = cypher(question.query), ["rows"] if question.meaning == FIRST_ROWS else []
        if more:
            names = ", ".join(f"{attribute}.id" for attribute in parse(question.query).attributes)
            text = text.replace("count(*)", f"{names} LIMIT {ROWS_ASKED}")
        return Answer(int(_said([sys.executable, "-c", _KUZU, self.path, str(self.threads), text, *more])))


class ShellImports:
    """A process that imports what bigjoin is made of, and ends: no command of ours can be faster."""

    def __init__(self, *, threads: int) -> None:
        del threads

    def version(self) -> str:
        return sys.version.split()[0]

    def load(self, graph: Input) -> None:
        """Read nothing."""

    def run(self, question: Question) -> Answer:
        """Import, and end."""
        del question
        _said([sys.executable, "-c", "import numpy, numba, pyarrow"])
        return Answer(None)


def _said(command: list[str], **environment: str) -> str:
    """Return what a process prints."""
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=True).stdout
