"""bigjoin itself through Spark, with its index built."""

from __future__ import annotations

from bigjoin import __version__
from bigjoin.bench.question import Answer, Input, Question
from bigjoin.graph import Graph
from bigjoin.spark.session import get_session


class Bigjoin:
    """Counts in a local session with as many cores as asked for; `kernel_time` takes the slowest task's time alone."""

    def __init__(self, *, threads: int, kernel_time: bool = False) -> None:
        self.spark = get_session(f"local[{threads}]")
        self.kernel_time = kernel_time
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
        found = self.graph.count(question.query, **question.flags)  # type: ignore[arg-type]
        tasks = found.stats["tasks"]["seconds"]["max"]
        return Answer(int(found), tasks if self.kernel_time else None, {"tasks": tasks})
