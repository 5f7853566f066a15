"""igraph: triangles from its transitivity, which it finds much faster than it lists them; it has one thread."""

from __future__ import annotations

import igraph
import numpy as np
import pyarrow.parquet as pq

from bigjoin_bench.question import Answer, Input, Question


class Igraph:
    """Closed triples over all triples, with the triples known beforehand."""

    def __init__(self, *, threads: int) -> None:
        del threads

    def version(self) -> str:
        return str(igraph.__version__)

    def load(self, graph: Input) -> None:
        """Make the graph, and count its triples."""
        edges = pq.read_table(graph.path)
        pairs = np.stack([edges["src"].to_numpy(), edges["dst"].to_numpy()], axis=1)
        self.graph = igraph.Graph(n=int(pairs.max()) + 1, edges=pairs)
        degrees = np.bincount(pairs.ravel())
        self.triples = int((degrees * (degrees - 1) // 2).sum())

    def run(self, question: Question) -> Answer:
        """Count triangles."""
        assert question.query == "triangle"
        return Answer(round(self.graph.transitivity_undirected() * self.triples / 3))
