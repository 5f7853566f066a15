"""What a count cannot do without: every list of the index is read from memory once."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from bigjoin import __version__
from bigjoin.index.stage_runner import in_threads
from bigjoin.indexing import build_index
from bigjoin_bench.question import Answer, Input, Question


class Reading:
    """Adds up the values of all lists, those of both directions if there are two, in threads."""

    def __init__(self, *, threads: int) -> None:
        self.threads = threads
        self._folder = tempfile.TemporaryDirectory(prefix="bigjoin-bench-")

    def version(self) -> str:
        return __version__

    def load(self, graph: Input) -> None:
        """Build the index, and bring its lists into memory."""
        target = Path(self._folder.name) / graph.name
        index = build_index(graph.path, target, directed=not graph.undirected, properties=False)
        orders = [(0, 1)] if graph.undirected else [(0, 1), (1, 0)]
        self.lists = [index.trie("edge", order).values.copy() for order in orders]

    def run(self, question: Question) -> Answer:
        """Read."""
        del question
        pieces = [piece for values in self.lists for piece in np.array_split(values, self.threads)]
        started = time.perf_counter()
        in_threads(lambda piece: int(piece.sum()), pieces)
        return Answer(None, time.perf_counter() - started, {"bytes": sum(values.nbytes for values in self.lists)})
