"""What a strategy is, what it is asked, and what it answers: it decides where the steps of a plan run.

Each strategy is one file, with an entry in the table `defaults.STRATEGIES`. Nothing here needs Spark: `spark/strategy.py` adds
what strategies with a session have in common.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bigjoin.defaults import STRATEGIES
from bigjoin.index.overlay import AskedIndex, Overlay
from bigjoin.joins.bind import ReadableIndex
from bigjoin.local.matches import PartFile
from bigjoin.planner.draft import Draft
from bigjoin.query.nest import CountPlan, PlanTree
from bigjoin.query.query import Query

Progress: TypeAlias = Callable[[float], None]
"""Called with the share of the work that is done."""


@dataclass(frozen=True)
class Ask:
    """A question to an index: what a query means there, and how much of the answer is wanted."""

    meaning: Draft
    index: AskedIndex
    workers: int | None = None
    batch_size: int | None = None
    limit: int | None = None
    factorized: bool = False
    max_rows: int | None = None
    """How many rows there may be; more are an error."""
    tree: PlanTree | None = None
    """If set, the question is about all queries of a tree of plans, the first of which is its own."""
    counted: CountPlan | None = field(default=None, compare=False)
    """The plan that counts its matches, if somebody has made it already."""

    @property
    def query(self) -> Query:
        """The query with its relations resolved, and without optional atoms."""
        return self.meaning.query

    @property
    def queries(self) -> tuple[Query, ...]:
        """All queries that it is about."""
        return (self.query,) if self.tree is None else self.tree.queries

    @property
    def seeds(self) -> list[dict[str, Any]]:
        """The relations of the question's seeds: how many tuples there are, and how many of them the index has."""
        held = self.index.relations if isinstance(self.index, Overlay) else {}
        given = [(one.relation, one.seeds) for one in self.meaning.given if one.rows_of is None]
        return [{"relation": name, "tuples": seeds.tuples, "held": len(held[name][0])} for name, seeds in given]


@dataclass(frozen=True)
class Outcome:
    """What a run has found, and its stats."""

    matches: int
    workers: int
    stats: dict[str, Any]
    index_tuples: Callable[[], NDArray[np.int64]]
    """Returns how many tuples of the indices each worker has. It is slow, as it reads all of them."""
    parts: list[PartFile] = field(default_factory=list)
    plan_seconds: float = 0.0


def task_stats(seconds: Sequence[float], *, peak_memory: int, compiled: int) -> dict[str, Any]:
    """Return the stats of a run's tasks: the seconds of each, how evenly these are spread, memory, and compiled kernels."""
    most, mean = max(seconds, default=0.0), sum(seconds) / max(1, len(seconds))
    return {
        "tasks": {"count": len(seconds), "seconds": {"max": most, "mean": mean}},
        "busy": mean / max(most, 1e-9),
        "peak_memory": peak_memory,
        "kernels_compiled": compiled,
    }


def whole_index(index: ReadableIndex) -> NDArray[np.int64]:
    """Return how many tuples a worker has that maps all of an index."""
    return np.array([sum(relation.tuples for relation in index.statistics.relations.values())])


class Strategy(ABC):
    """Answers questions."""

    def together(self, asks: Sequence[Ask], *, counting: bool) -> Sequence[Ask]:
        """Return questions whose answers are added up, with those as one that are answered faster together."""
        del counting
        return asks

    @abstractmethod
    def count(self, ask: Ask, progress: Progress | None = None) -> Outcome:
        """Count the matches of a query."""

    @abstractmethod
    def sample(self, asks: Sequence[Ask], size: int, random_state: int) -> list[pa.Table]:
        """Return `size` matches of several questions, or all if there are no more: a table for each question.

        They are chosen uniformly from the matches of all questions together, none of them twice. Times are in microseconds.
        """

    @abstractmethod
    def write(
        self, ask: Ask, folder: Path, suffix: str, progress: Progress | None = None, *, in_pieces: bool = False
    ) -> tuple[list[PartFile], pa.Schema]:
        """Write the matches to files in a folder, from the tasks; return the files with their rows, and the columns.

        With `in_pieces`, files are published in the folder as matches are found, for a reader that has already started.
        """


def strategy_named(name: str) -> type[Strategy]:
    """Return the class of a strategy, which is imported when it is first used."""
    entry = STRATEGIES[name]
    return cast("type[Strategy]", getattr(import_module(entry.module), entry.class_name))
