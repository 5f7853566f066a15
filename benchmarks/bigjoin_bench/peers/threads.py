"""bigjoin in threads of this process, with sets as bits where that should be faster, or as lists alone."""

from __future__ import annotations

from math import inf
from typing import Any
from unittest import mock

from bigjoin import __version__
from bigjoin.graph import Graph
from bigjoin_bench.question import Answer, Input, Question


class Threads:
    """Counts without Spark."""

    def __init__(self, *, threads: int, lists: bool = False) -> None:
        self.threads = threads
        self.graph: Graph | None = None
        if lists:  # no lists share enough
            mock.patch("bigjoin.query.statistics.MIN_SHARED_VALUES", inf).start()

    def version(self) -> str:
        return __version__

    def load(self, graph: Input) -> None:
        """Build the index."""
        if self.graph is not None:
            self.graph.close()
        self.graph = Graph(graph.path, directed=not graph.undirected, properties=False)

    def run(self, question: Question) -> Answer:
        """Count."""
        assert self.graph is not None
        how: dict[str, Any] = {"strategy": "local", "workers": self.threads, **question.flags}
        return Answer(int(self.graph.count(question.query, **how)))
