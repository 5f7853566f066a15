"""Edges as updates: a graph to begin with, and tables or files of insertions, each an epoch, the same for every contender."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bigjoin.errors import BigjoinError
from bigjoin_bench.question import Input

SCHEMA = "src long, dst long, op string"
"""The columns of the files, as Spark writes it."""


@dataclass(frozen=True)
class Feed:
    """How many of a graph's edges come as updates, and in which portions; those before them are there from the beginning."""

    updates: int
    """Insertions an epoch."""
    epochs: int | None = None
    """Without a number, as many as the edges give."""
    base: float | None = None
    """The share of the edges that is there first; without one, all that are not updates."""

    def split(self, graph: Input) -> tuple[pa.Table, pa.Table]:
        """Return the edges that are there first, and those that are updates, shuffled always the same way."""
        edges = pq.read_table(graph.path, columns=["src", "dst"])
        shuffled = edges.take(pa.array(np.random.default_rng(1).permutation(len(edges))))
        first = int(len(edges) * (self.base or 0.0))
        many = len(edges) - first if self.epochs is None else self.updates * self.epochs
        if self.base is None and self.epochs is not None:
            first = len(edges) - many
        if first < 0 or first + many > len(edges):
            raise BigjoinError(f"{graph.name} has {len(edges):,} edges: too few for {many:,} updates")
        return shuffled.slice(0, first), shuffled.slice(first, many)

    def tables(self, edges: pa.Table) -> list[pa.Table]:
        """Return edges as insertions, a table an epoch."""
        table = edges.append_column("op", pa.array(["+"] * len(edges), pa.string()))
        return [table.slice(start, self.updates) for start in range(0, len(table), self.updates)]

    def write(self, edges: pa.Table, folder: Path) -> int:
        """Write updates into a folder, a file an epoch, and return how many files these are."""
        folder.mkdir(parents=True)
        tables = self.tables(edges)
        for number, table in enumerate(tables):
            pq.write_table(table, folder / f"{number:06d}.parquet")
        return len(tables)


def after_first(times: list[float]) -> list[float]:
    """Leave out the first epoch, which opens, compiles and warms up, unless it is the only one."""
    return times[1:] or times
