"""bigjoin with symmetries left in, with each subgraph found once, and with triangles stored beside: what each way explores."""

from __future__ import annotations

from itertools import permutations

from bigjoin.languages import parse
from bigjoin.planner import plan
from bigjoin.query.query import Query
from bigjoin_bench.bare import explored
from bigjoin_bench.peers.bigjoin import Bigjoin
from bigjoin_bench.question import Answer, Input, Question


class Variant(Bigjoin):
    """Counts through Spark; what the plan's steps explore is found by batches, once for each question."""

    def __init__(self, *, threads: int, each_once: bool = False, materialized: str | None = None) -> None:
        super().__init__(threads=threads)
        self.each_once, self.materialized = each_once, materialized
        self.figures: dict[Question, dict[str, int]] = {}

    def load(self, graph: Input) -> None:
        """Build the index, and store the relation."""
        super().load(graph)
        if self.materialized is not None:
            assert self.graph is not None
            self.graph.materialize("tri", self.materialized)

    def run(self, question: Question) -> Answer:
        """Count; the count of a plain join is divided by the query's symmetries."""
        assert self.graph is not None
        query = parse(question.query, unique=self.each_once, distinct=not self.each_once)
        found = self.graph.count(query)
        if question not in self.figures:
            index = self.graph.index
            prefixes, candidates = explored(plan(query, index.statistics), index)
            self.figures[question] = {"prefixes": prefixes, "candidates": candidates}
        count = int(found) if self.each_once else int(found) // _automorphisms(query)
        return Answer(count, found.seconds, self.figures[question])


def _automorphisms(query: Query) -> int:
    """Return how many permutations of the attributes leave an undirected query as it is."""
    edges = {frozenset(atom.attributes) for atom in query.atoms}
    names = query.attributes
    images = (dict(zip(names, order, strict=True)) for order in permutations(names))
    return sum({frozenset(image[a] for a in edge) for edge in edges} == edges for image in images)
