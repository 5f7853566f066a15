"""The join without Spark, in one thread: as a task of Spark runs it, and step by step, a vertex or an edge at a time.

An edge at a time is what systems of binary joins do: each step extends a prefix along one edge, and the other edges that the
new vertex closes are checked afterwards. So every extension along that edge is an intermediate result, where a vertex
at a time only has the extensions that all edges agree on.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from bigjoin import __version__
from bigjoin.indexing import build_index
from bigjoin.languages import parse
from bigjoin.planner import count_plan, plan
from bigjoin.query.nest import CountPlan
from bigjoin.query.plan import Plan
from bigjoin.query.query import Query
from bigjoin_bench.bare import count_alone, count_in_batches
from bigjoin_bench.question import Answer, Input, Question


class Alone:
    """The same kernels as through Spark, called from here; plans are kept, as a graph keeps them."""

    def __init__(self, *, threads: int) -> None:
        assert threads == 1
        self._folder = tempfile.TemporaryDirectory(prefix="bigjoin-bench-")
        self._plans: dict[Question, CountPlan] = {}

    def version(self) -> str:
        return __version__

    def load(self, graph: Input) -> None:
        """Build the index."""
        target = Path(self._folder.name) / graph.name
        self.index = build_index(graph.path, target, directed=not graph.undirected, properties=False)

    def run(self, question: Question) -> Answer:
        """Count."""
        if question not in self._plans:
            self._plans[question] = count_plan(self.query(question), self.index.statistics)
        count, built = count_alone(self._plans[question], self.index)
        return Answer(count, figures={"intermediate": built})

    def query(self, question: Question) -> Query:
        """Return the query that a question is about."""
        return parse(question.query, **question.flags)  # type: ignore[arg-type]


class Steps(Alone):
    """Batches of prefixes, and how many there are."""

    def __init__(self, *, threads: int, edge_at_a_time: bool = False) -> None:
        super().__init__(threads=threads)
        self.edge_at_a_time = edge_at_a_time

    def run(self, question: Question) -> Answer:
        """Count, and say how many prefixes were built."""
        count, built = count_in_batches(self.plan(question), self.index)
        return Answer(count, figures={"intermediate": built})

    def plan(self, question: Question) -> Plan:
        """Return the plan that is run."""
        chosen = plan(self.query(question), self.index.statistics)
        return edge_at_a_time(chosen) if self.edge_at_a_time else chosen


def edge_at_a_time(plan: Plan) -> Plan:
    """Return a plan in which each step follows one edge, and checks the others."""
    return replace(
        plan,
        steps=tuple(
            replace(step, extenders=step.extenders[:1], checks=(*step.checks, *step.extenders[1:])) for step in plan.steps
        ),
    )
