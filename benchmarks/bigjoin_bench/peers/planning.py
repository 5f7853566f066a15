"""Planning alone: the processor time that it takes to turn a query into a plan, without running it."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bigjoin import __version__
from bigjoin.indexing import build_index
from bigjoin.languages import parse
from bigjoin.planner import count_plan, delta_branches, delta_plan, meaning, plan
from bigjoin.query.query import Query
from bigjoin.query.statistics import Statistics
from bigjoin_bench.question import Answer, Input, Question

KINDS: dict[str, Callable[[Query, Statistics], list[object]]] = {
    "static": lambda query, known: [plan(part) for part in meaning(query, known)],
    "count": lambda query, known: [count_plan(part) for part in meaning(query, known)],
    "delta": lambda query, known: [delta_plan(branch, known) for branch in delta_branches(query, known)],
}
"""Kind of plan -> how it is made."""


class Planning:
    """The planner, which sees the statistics of an index and nothing else."""

    def __init__(self, *, threads: int, kind: str) -> None:
        del threads
        self.make = KINDS[kind]
        self._folder = tempfile.TemporaryDirectory(prefix="bigjoin-bench-")

    def version(self) -> str:
        return __version__

    def load(self, graph: Input) -> None:
        """Build the index."""
        target = Path(self._folder.name) / graph.name
        self.statistics = build_index(graph.path, target, directed=not graph.undirected, properties=False).statistics

    def run(self, question: Question) -> Answer:
        """Plan, and say how many queries were planned."""
        query = parse(spelled(question.query), **question.flags)  # type: ignore[arg-type]
        start = time.process_time()
        made = self.make(query, self.statistics)
        return Answer(None, time.process_time() - start, figures={"queries": len(made)})


def spelled(name: str) -> str:
    """Return a query's name, or the rule of a member of a family that is too large to have one."""
    match = re.fullmatch(r"(\d+)-(cycle|path|star)", name)
    if match is None or int(match[1]) <= 12:
        return name
    size = int(match[1])
    pairs = {
        "cycle": [(i, (i + 1) % size) for i in range(size)],
        "path": [(i, i + 1) for i in range(size)],
        "star": [(0, i + 1) for i in range(size)],
    }[match[2]]
    return f"q(a0) := {', '.join(f'edge(a{a}, a{b})' for a, b in pairs)}"
