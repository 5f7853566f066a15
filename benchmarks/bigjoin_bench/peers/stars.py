"""Stars at a hub that gains and loses edges, counted exactly, and lookups of edges at the same hub to compare them with."""

from __future__ import annotations

import time
from collections import Counter
from math import comb
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bigjoin.defaults import LOCAL, SyncName
from bigjoin.graph import Graph
from bigjoin.index.directory import EDGE, VERTEX
from bigjoin_bench.feeds import after_first
from bigjoin_bench.peers.applied import Changing
from bigjoin_bench.question import UNIQUE, Answer, Input, Question


class AtHub(Changing):
    """An index, its hub, and some neighbours of the hub."""

    def __init__(self, *, threads: int, leaves: int, sync: SyncName = "epoch") -> None:
        super().__init__(threads=threads, sync=sync)
        self.leaves = leaves

    def load(self, graph: Input) -> None:
        """Build the index, and draw the neighbours."""
        assert graph.undirected
        self.undirected = True
        edges = pq.read_table(graph.path, columns=["src", "dst"])
        self.index = self.build(edges, "index")
        src, dst = (edges[end].to_numpy() for end in ("src", "dst"))
        self.degrees: NDArray[np.int64] = np.bincount(np.concatenate([src, dst]))
        self.hub = int(self.degrees.argmax())
        neighbours = np.concatenate([dst[src == self.hub], src[dst == self.hub]])
        self.drawn = [int(leaf) for leaf in np.random.default_rng(1).choice(neighbours, self.leaves)]


class Stars(AtHub):
    """Each epoch is one edge at the hub, which is deleted and then inserted again."""

    def run(self, question: Question) -> Answer:
        """Apply the epochs; the count after each is that of a formula, or this is an error."""
        k = int(question.query.partition("-")[0])
        is_unique = question.meaning == UNIQUE
        every = sum(many * _stars(degree, k, is_unique) for degree, many in Counter(self.degrees.tolist()).items())
        tables = [self._table(leaf, op) for leaf in self.drawn for op in ("-", "+")]
        times = []
        with self.copied() as graph:
            ((before, _),) = self.epochs(graph, question, [tables[0].slice(0, 0)])
            self.check(question, before, every)
            for number, (count, seconds) in enumerate(self.epochs(graph, question, tables)):
                ends = [int(self.degrees[end]) for end in (self.hub, self.drawn[number // 2])]
                lost = sum(_stars(degree, k, is_unique) - _stars(degree - 1, k, is_unique) for degree in ends)
                self.check(question, count, every if number % 2 else every - lost)
                times.append(seconds)
        return Answer(every, fmean(after_first(times)), {"updates": 1, "epochs": times})

    def _table(self, leaf: int, op: str) -> pa.Table:
        return pa.table({"src": [self.hub], "dst": [leaf], "op": [op]})


class Lookups(AtHub):
    """Asks for each of some neighbours whether it is one; `bare` does so without the language and the planner."""

    def __init__(self, *, bare: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.bare = bare

    def load(self, graph: Input) -> None:
        """Keep the graph open: lookups change nothing."""
        super().load(graph)
        self.graph = Graph.open(self.index)
        self.lists, self.ids = self.graph.index.trie(EDGE, (0, 1)), self.graph.index.dictionaries[VERTEX]

    def run(self, question: Question) -> Answer:
        """Look all edges up, one after another."""
        del question
        asked = self._contains if self.bare else self._exists
        started = time.perf_counter()
        assert all(asked(leaf) for leaf in self.drawn)
        return Answer(None, time.perf_counter() - started)

    def _exists(self, leaf: int) -> bool:
        return bool(self.graph.exists(f"has() := edge({self.hub}, {leaf})", strategy=LOCAL))

    def _contains(self, leaf: int) -> bool:
        hub, other = (self.ids.code(end) for end in (self.hub, leaf))
        return bool(self.lists.contains([np.array([hub]), np.array([other])])[0])


def _stars(degree: int, k: int, is_unique: bool) -> int:
    """Return how many stars of `k` edges have their centre at a vertex: sets of neighbours, or sequences with repetitions."""
    return comb(degree, k) if is_unique else degree**k
