"""bigjoin itself through Spark, with its index built."""

from __future__ import annotations

from typing import Any

from bigjoin import __version__
from bigjoin.graph import Graph
from bigjoin.spark.session import get_session
from bigjoin_bench.question import Answer, Input, Question


class Bigjoin:
    """Counts in a local session with as many cores as asked for; `kernel_time` takes the slowest task's time alone."""

    def __init__(self, *, threads: int, kernel_time: bool = False, **how: Any) -> None:
        self.spark = get_session(f"local[{threads}]")
        self.kernel_time, self.how = kernel_time, how
        self.graph: Graph | None = None

    def version(self) -> str:
        return __version__

    def load(self, graph: Input) -> None:
        """Build the index."""
        if self.graph is not None:
            self.graph.close()
        self.graph = Graph(graph.path, directed=not graph.undirected, properties=False, spark=self.spark)

    def run(self, question: Question) -> Answer:
        """Count."""
        assert self.graph is not None
        found = self.graph.count(question.query, **self.how, **question.flags)  # type: ignore[call-overload]
        stats = found.stats
        tasks = stats["tasks"]["seconds"]["max"]
        figures = {name: stats[name] for name in ("rounds", "bytes", "load", "index_tuples", "peak_memory")}
        figures |= {name: stats[name] for name in ("tuples", "waiting") if name in stats}
        return Answer(int(found), tasks if self.kernel_time else None, {"tasks": tasks, **figures})
