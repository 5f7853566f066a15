"""The wall time of a whole command, from the shell to the answer, and of a Spark session that does next to nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import pyspark

from bigjoin import __version__
from bigjoin_bench.question import Answer, Input, Question

COMMAND = (sys.executable, "-c", "from bigjoin.cli.main import main; main()")
"""What the shell runs as `bigjoin`."""

_BARE = """
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[{threads}]").config("spark.ui.enabled", "false")
print(builder.config("spark.log.level", "ERROR").getOrCreate().range(1).count())
"""


class BigjoinStart:
    """`bigjoin count QUERY FILE`; loading is the first time, which keeps the file's index in a cache."""

    def __init__(self, *, threads: int) -> None:
        self.threads = threads
        self._cache = tempfile.TemporaryDirectory(prefix="bigjoin-bench-")

    def version(self) -> str:
        return __version__

    def load(self, graph: Input) -> None:
        """Count once, so that there is an index."""
        self.path = graph.path
        self.run(Question("triangle"))

    def run(self, question: Question) -> Answer:
        """Count in a new process."""
        command = [*COMMAND, "count", question.query, self.path, "--master", f"local[{self.threads}]", "--quiet"]
        environment = {**os.environ, "BIGJOIN_CACHE": self._cache.name}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        int(done.stdout)
        return Answer(None)


class SparkStart:
    """A process that starts a session, counts one row, and ends: no Spark program can be faster."""

    def __init__(self, *, threads: int) -> None:
        self.program = _BARE.format(threads=threads)

    def version(self) -> str:
        return str(pyspark.__version__)

    def load(self, graph: Input) -> None:
        """Read nothing."""

    def run(self, question: Question) -> Answer:
        """Start, count one row, end."""
        del question
        subprocess.run([sys.executable, "-c", self.program], capture_output=True, check=True)
        return Answer(None)
