"""The Shares, or Hypercube, algorithm: one round in which every tuple goes to all workers that could need it.

Attributes are the axes of a cube, and a worker is a cell: it gets the tuples whose values, hashed, agree with its place on the
axes of their attributes, whatever its place on the others. Then it joins what it got, alone. The paper's appendix compares this
with BiGJoin: one round against many, but tuples are copied, the more so the more workers there are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from math import inf, prod

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bigjoin.compiled.loops import Counting
from bigjoin.index.dictionary import RowNumbers
from bigjoin.index.directory import VERTEX, Index
from bigjoin.index.trie import Codes, Trie, build_trie
from bigjoin.index.values import Column
from bigjoin.languages import parse
from bigjoin.planner import count_plan
from bigjoin.query.nest import CountPlan
from bigjoin.query.query import Query
from bigjoin.query.read import Read
from bigjoin.query.statistics import RelationStatistics, Statistics
from bigjoin.spark.exchange import RECEIPT, ROW, exchange, exchanging
from bigjoin_bench.peers.bigjoin import Bigjoin
from bigjoin_bench.question import Answer, Question

_HASHES = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1, 0xD3A2646D)
"""A multiplier for each axis."""


class Shares(Bigjoin):
    """Joins edges in one exchange, over the same codes and with the same local join as ours."""

    def __init__(self, *, threads: int, workers: int) -> None:
        super().__init__(threads=threads)
        self.threads, self.workers = threads, workers

    def run(self, question: Question) -> Answer:
        """Count, and say what travelled and what each worker held."""
        assert self.graph is not None
        cube = Cube.of(parse(question.query), self.workers, self.graph.index, self.threads)
        with exchanging(self.spark) as session:
            rows = exchange(session, self.threads, cube.deal, [cube.join]).toArrow()
        said = [json.loads(row) for row in rows["payload"].to_pylist()]
        held = [tuples for task in said for tuples in task["held"]]
        held += [0] * (self.workers - len(held))
        sent = sum(held)
        spread = {"max": max(held), "mean": sent / self.workers}
        figures = {"tuples": sent, "bytes": 12 * sent, "load": spread, "index_tuples": spread, "rounds": 1}
        return Answer(sum(int(task["count"]) for task in said), figures={**figures, "shares": list(cube.shares)})


@dataclass(frozen=True)
class Cube:
    """A query whose atoms each have a relation of their own, and how many places each axis has."""

    query: Query
    shares: tuple[int, ...]
    index: Index
    tasks: int

    @classmethod
    def of(cls, query: Query, workers: int, index: Index, tasks: int) -> Cube:
        """Return the cube of a query with the least load: the tuples that a worker gets, if values are spread evenly."""
        apart = replace(query, atoms=tuple(replace(atom, relation=f"r{i}") for i, atom in enumerate(query.atoms)))
        axes = apart.attributes

        def load(shares: tuple[int, ...]) -> float:
            places = dict(zip(axes, shares, strict=True))
            return sum(1 / prod(places[a] for a in atom.attributes) for atom in apart.atoms)

        best, least = (1,) * len(axes), inf
        for shares in _factors(workers, len(axes)):
            if (found := load(shares)) < least:
                best, least = shares, found
        return cls(apart, best, index, tasks)

    @cached_property
    def plan(self) -> CountPlan:
        edges = self.index.statistics.relations["edge"].tuples
        relation = RelationStatistics((VERTEX, VERTEX), edges)
        known = Statistics({atom.relation: relation for atom in self.query.atoms}, self.index.statistics.domains)
        return count_plan(self.query, known)

    def deal(self, task: int) -> Iterator[pa.RecordBatch]:
        """Give the copies of a task's part of the edges, each with the cell that it goes to."""
        trie = self.index.trie("edge", (0, 1))
        bounds = np.linspace(0, len(trie), self.tasks + 1).astype(np.int64)
        ends = trie.tuples(np.arange(bounds[task], bounds[task + 1]))
        sequence = 0
        for number, atom in enumerate(self.query.atoms):
            near = {a: self._places(codes, a) for a, codes in zip(atom.attributes, ends, strict=True)}
            far = [range(1) if a in near else range(n) for a, n in zip(self.query.attributes, self.shares, strict=True)]
            for cell in product(*far):
                worker = np.zeros(len(ends[0]), np.int64)
                for a, place, n in zip(self.query.attributes, cell, self.shares, strict=True):
                    worker = worker * n + near.get(a, place)
                for target in range(self.tasks):
                    mine = worker % self.tasks == target
                    data = np.stack([worker[mine], *(codes[mine] for codes in ends)]).astype(np.uint32).tobytes()
                    yield _row(target, task, sequence, number, data)
                    sequence += 1

    def _places(self, codes: Codes, attribute: str) -> NDArray[np.int64]:
        """Return where values are on the axis of an attribute."""
        axis = self.query.attributes.index(attribute)
        mixed = codes.astype(np.uint64) * np.uint64(_HASHES[axis % len(_HASHES)]) & np.uint64(0xFFFFFFFF)
        return ((mixed >> np.uint64(8)) % np.uint64(self.shares[axis])).astype(np.int64)

    def join(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Join what each worker of a task got, and say how many matches there are and how many tuples it held."""
        arrived: dict[int, list[NDArray[np.uint32]]] = {}
        task = 0
        for batch in batches:
            for target, atom, data in zip(*(batch.column(c).to_pylist() for c in ("task", "visit", "payload")), strict=True):
                task = target
                arrived.setdefault(atom, []).append(np.frombuffer(data, np.uint32).reshape(3, -1))
        relations = {f"r{atom}": np.concatenate(parts, axis=1) for atom, parts in arrived.items()}
        total, held = 0, []
        for worker in range(task, prod(self.shares), self.tasks):
            mine = {name: rows[1:, rows[0] == worker] for name, rows in relations.items()}
            held.append(sum(rows.shape[1] for rows in mine.values()))
            if all(rows.shape[1] for rows in mine.values()):
                total += self._count(Fragments(mine, self.index.statistics.domains[VERTEX]))
        said = {"count": str(total), "held": held}
        yield _row(task, task, 0, RECEIPT, json.dumps(said).encode())

    def _count(self, fragments: Fragments) -> int:
        total = 0
        for term in self.plan.terms:
            counting = Counting(term, self.query, fragments)
            total += term.times * counting.count(counting.ranges(1))
        return total // self.plan.divisor


@dataclass
class Fragments:
    """What one worker got: relations in its memory, sorted by whatever column order the join asks for."""

    columns: Mapping[str, NDArray[np.uint32]]
    size: int
    _tries: dict[tuple[str, tuple[int, ...]], Trie] = field(default_factory=dict)

    @property
    def statistics(self) -> Statistics:
        relations = {name: RelationStatistics((VERTEX, VERTEX), rows.shape[1]) for name, rows in self.columns.items()}
        return Statistics(relations, {VERTEX: self.size})

    @property
    def dictionaries(self) -> Mapping[str, RowNumbers]:
        return {VERTEX: RowNumbers(self.size)}

    def extensions(self, read: Read, columns: tuple[int, ...]) -> Trie:
        """Return the trie of a relation in a column order."""
        relation = read.relation
        if (relation, columns) not in self._tries:
            rows = self.columns[relation]
            self._tries[relation, columns] = build_trie([rows[c] for c in columns], self.size)
        return self._tries[relation, columns]

    def properties(self, domain: str) -> Mapping[str, Column]:
        """Return nothing: there are edges alone."""
        del domain
        return {}


def _factors(most: int, axes: int) -> Iterator[tuple[int, ...]]:
    """Give the numbers of places whose product is at most the number of workers."""
    if axes == 0:
        yield ()
        return
    for first in range(1, most + 1):
        for rest in _factors(most // first, axes - 1):
            yield (first, *rest)


def _row(task: int, source: int, sequence: int, visit: int, payload: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"task": [task], "source": [source], "sequence": [sequence], "visit": [visit], "payload": [payload]}, schema=ROW
    )
