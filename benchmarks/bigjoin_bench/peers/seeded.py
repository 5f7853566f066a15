"""bigjoin with seeds: counts of what a few vertices reach, through Spark and in one thread of this process."""

from __future__ import annotations

import time
from statistics import median

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bigjoin.index.directory import EDGE, VERTEX
from bigjoin.languages import read
from bigjoin.planner import count_plan, meaning
from bigjoin.seeds import overlaid, seeded
from bigjoin_bench.bare import count_alone
from bigjoin_bench.peers.bigjoin import Bigjoin
from bigjoin_bench.question import Answer, Input, Question

SEEDED = "a1"
"""The attribute that is restricted."""
ALONE = 5
"""How often a count runs in one thread; the median is kept."""


class Seeded(Bigjoin):
    """Restricts the first attribute to vertices that are drawn anew for each run, as many as the meaning of a question says."""

    def __init__(self, *, threads: int) -> None:
        super().__init__(threads=threads)
        self.chance = np.random.default_rng(1)

    def load(self, graph: Input) -> None:
        """Build the index, and count once: how long Spark takes to start its workers is not the question."""
        super().load(graph)
        assert self.graph is not None
        self.ids = self.graph.index.dictionaries[VERTEX].ids
        self.lists = self.graph.index.trie(EDGE, (0, 1))
        self.graph.count("triangle", seeds={SEEDED: self.ids.slice(0, 1)})

    def run(self, question: Question) -> Answer:
        """Count what the seeds reach, and say how much that is."""
        assert self.graph is not None
        many = int(question.meaning.split()[0].replace(",", ""))
        codes = self.chance.choice(len(self.ids), min(many, len(self.ids)), replace=False)
        ids = self.ids.take(codes)
        found = self.graph.count(question.query, seeds={SEEDED: ids})
        alone, seconds, joins = zip(*(self.alone(question, ids) for _ in range(ALONE)), strict=True)
        assert set(alone) == {found}, f"{alone[0]:,} matches in one thread, and {int(found):,} through Spark"
        candidates = sum(step["candidates"] for step in found.stats["steps"])
        figures = {"seeds": len(codes), "reached": self.reached(codes), "candidates": candidates, "matches": int(found)}
        return Answer(None, found.seconds, {**figures, "alone": median(seconds), "join": median(joins)})

    def alone(self, question: Question, ids: pa.Array) -> tuple[int, float, float]:
        """Do the same in this thread; return the count, and its CPU time from the text and the ids on, and from the plan on."""
        assert self.graph is not None
        started = time.thread_time()
        statement, index = seeded(read(question.query), {SEEDED: ids}), self.graph.index
        (part,) = meaning(statement.query, index.statistics)
        plan, over = count_plan(part), overlaid(index, part)
        planned = time.thread_time()
        count, _ = count_alone(plan, over)
        done = time.thread_time()
        return count, done - started, done - planned

    def reached(self, codes: NDArray[np.int64]) -> int:
        """Return how many edges leave the seeds, and leave those that these lead to, each as often as it is reached."""
        near, edges = codes, 0
        for _ in range(2):
            nodes = self.lists.nodes([near], len(near)).astype(np.int64)
            starts, lengths = self.lists.offsets[nodes], self.lists.offsets[nodes + 1] - self.lists.offsets[nodes]
            edges += int(lengths.sum())
            near = self.lists.values[np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())]
        return edges
