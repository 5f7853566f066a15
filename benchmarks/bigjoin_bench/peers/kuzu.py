"""Kuzu, a graph database with worst-case optimal joins of its own: the query as a Cypher pattern."""

from __future__ import annotations

import tempfile

import kuzu

from bigjoin.languages import parse
from bigjoin_bench.memory import half_of_memory
from bigjoin_bench.question import Answer, Input, Question


class Kuzu:
    """A database in a scratch folder, with the edges copied into its own lists in both directions."""

    def __init__(self, *, threads: int) -> None:
        self.threads = threads

    def version(self) -> str:
        return str(kuzu.__version__)

    def load(self, graph: Input) -> None:
        """Copy vertices and edges from the file."""
        self._folder = tempfile.TemporaryDirectory(prefix="bigjoin-bench-kuzu-")
        self._database = kuzu.Database(f"{self._folder.name}/graph", buffer_pool_size=half_of_memory() << 20)
        self.connection = kuzu.Connection(self._database, num_threads=self.threads)
        for statement in (
            "CREATE NODE TABLE V(id INT64, PRIMARY KEY(id))",
            "CREATE REL TABLE E(FROM V TO V)",
            f"COPY V FROM (LOAD FROM '{graph.path}' UNWIND [src, dst] AS id RETURN DISTINCT id)",
            f"COPY E FROM '{graph.path}'",
        ):
            self.connection.execute(statement)

    def run(self, question: Question) -> Answer:
        """Count."""
        return Answer(int(self.connection.execute(cypher(question.query)).get_next()[0]))


def cypher(query: str) -> str:
    """Return the query as a pattern of directed edges."""
    edges = [f"({a}:V)-[:E]->({b}:V)" for a, b in (atom.attributes for atom in parse(query).atoms)]
    return f"MATCH {', '.join(edges)} RETURN count(*)"
