"""What the skew study joins: inputs made to be lopsided, and real graphs; each with a count that is known beforehand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from bigjoin.generators import Family, Funnel, Theory
from bigjoin.graph import Graph
from bigjoin.relations import Relations
from bigjoin_bench.graphs import BUNDLED, DIRECTED, GENERATED, RAW, UNDIRECTED, Library
from bigjoin_bench.question import JOIN, UNIQUE, Question
from bigjoin_bench.skew.relations import QUERY, Tables, one_key, one_worker, same_keys

WORKERS = (16, 64, 224)
THEOREM, DEFAULT = "theorem", "default"
"""Batch sizes: four times what theorem 3.4 asks for, or what a user gets who says nothing."""

Setting = tuple[int, str]
"""Workers, and a batch size."""

BY_THEOREM: tuple[Setting, ...] = tuple((workers, THEOREM) for workers in WORKERS)
BY_DEFAULT: tuple[Setting, ...] = tuple((workers, DEFAULT) for workers in WORKERS)


@dataclass(frozen=True)
class Asked:
    """A question, the settings in which it is asked, and its answer, unless that comes with relations."""

    question: Question
    settings: tuple[Setting, ...]
    count: int = 0


@dataclass(frozen=True)
class Input:
    """Relations or a graph, and what is asked about it."""

    name: str
    title: str
    asked: tuple[Asked, ...]
    form: str = ""
    """How a graph is read; empty for relations."""
    make: Callable[[], Tables] | None = field(default=None, compare=False)
    family: Family | None = None
    """A graph that is made here; else it comes from the library."""
    skewed: bool = True
    """Whether it was made to be lopsided."""
    draws: int = 1
    """Runs of the balanced strategy at least: each draws its hashes anew."""
    long: bool = False
    """Whether it is measured only where it is named."""

    def open(self, library: Library, spark: SparkSession) -> tuple[Graph | Relations, list[int]]:
        """Return what can be asked, and the answer to each question; raise AbsentError if a graph is not there."""
        if self.make is not None:
            tables = self.make()
            return Relations(tables.relations, spark=spark), [tables.count for _ in self.asked]
        edges = library.get(self.name, self.form).path if self.family is None else _edges(self.family)
        graph = Graph(edges, directed=self.form == DIRECTED, properties=False, spark=spark)
        return graph, [asked.count for asked in self.asked]


def _edges(family: Family) -> pa.Table:
    chunks = [family.edges(chunk) for chunk in range(family.chunks)]
    src, dst = (np.concatenate(column) for column in zip(*chunks, strict=True))
    return pa.table({"src": src, "dst": dst})


def _relations(name: str, title: str, make: Callable[[], Tables], *settings: Setting, draws: int = 1) -> Input:
    return Input(name, title, (Asked(Question(QUERY), settings or BY_THEOREM),), make=make, draws=draws)


def _theory(name: str, graph: Theory, *settings: Setting, plain: tuple[Setting, ...] = (), long: bool = False) -> Input:
    stars = graph.stars
    triangles = (prod(3 * m + 1 for m in stars) - 3 * prod(m + 1 for m in stars) + 2) // 6
    title = f"stars {'-'.join(map(str, stars))}: a hub next to all others, and more of them below it"
    made: dict[str, Any] = {"form": RAW} if name in GENERATED else {"form": UNDIRECTED, "family": graph}
    asked = _triangles(triangles, *settings)
    return Input(name, title, (asked, *_all_triangles(triangles, *plain)), long=long, **made)


def _real(name: str, *asked: Asked) -> Input:
    return Input(name, "a real graph", asked, UNDIRECTED, skewed=False)


def _triangles(count: int, *settings: Setting) -> Asked:
    return Asked(Question("triangle", UNIQUE), settings, count)


def _all_triangles(count: int, *settings: Setting) -> tuple[Asked, ...]:
    """Ask for every match of as many triangles, six each: then no order of degrees keeps hubs out of lookups."""
    return (Asked(Question("triangle", JOIN), settings, 6 * count),) if settings else ()


def _cliques(count: int, *settings: Setting) -> Asked:
    return Asked(Question("4-clique", UNIQUE), settings, count)


_FUNNEL = Funnel(600_000, 1_200_000)

INPUTS: dict[str, Input] = {
    given.name: given
    for given in (
        Input(
            "Funnel 1.2 M",
            "the paper's v*: every triangle goes through one vertex",
            (Asked(Question("triangle", JOIN), BY_THEOREM, _FUNNEL.edge_count - (_FUNNEL.vertices - 1)),),
            DIRECTED,
            family=_FUNNEL,
        ),
        _relations("One key", "all of r has the same b", one_key),
        _relations("One owner", "every b of r is a multiple of 448: all fall to one worker", one_worker),
        *(
            _relations(
                f"Same keys, {many}",
                f"each of {many} workers asks for the same keys in a batch: the worst case of the proof",
                partial(same_keys, many),
                (many, THEOREM),
                draws=10 if many < max(WORKERS) else 1,
            )
            for many in WORKERS
        ),
        _theory("Theory 175 K", Theory((5, 9, 16, 25)), *BY_THEOREM, plain=BY_DEFAULT),
        _theory("Theory 2.6 M", Theory((9, 16, 25, 81)), (64, DEFAULT), (224, THEOREM)),
        _theory("Theory 28.7 M", Theory((5, 9, 16, 25, 81)), (64, DEFAULT), long=True),
        _real(
            BUNDLED,
            _triangles(1_624_481, *BY_DEFAULT, (64, THEOREM)),
            *_all_triangles(1_624_481, *BY_DEFAULT),
            _cliques(5_803_397, *BY_DEFAULT),
        ),
        _real("amazon0601", _triangles(3_986_507, *BY_DEFAULT, (64, THEOREM)), _cliques(4_420_994, *BY_DEFAULT)),
        _real("twitter_combined", _triangles(13_082_506, *BY_DEFAULT), _cliques(104_929_938, (64, DEFAULT), (224, THEOREM))),
    )
}
"""Name -> input, in the order in which they are measured and shown."""
