"""What a strategy is: it decides where the steps of a plan run, and has the same three methods as every other strategy.

Each strategy is one file, with an entry in the table `defaults.STRATEGIES`.
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
from pyspark.sql import DataFrame, SparkSession

from bigjoin.defaults import STRATEGIES
from bigjoin.index.directory import Index
from bigjoin.planner.draft import Draft
from bigjoin.query.query import Query
from bigjoin.spark.held import Held

Progress: TypeAlias = Callable[[float], None]
"""Called with the share of the work that is done."""

PartFile: TypeAlias = tuple[Path, int]
"""A file of matches, and how many rows it has."""


@dataclass(frozen=True)
class Ask:
    """A question to an index: what a query means there, and how much of the answer is wanted."""

    meaning: Draft
    index: Index
    workers: int | None = None
    batch_size: int | None = None
    limit: int | None = None
    factorized: bool = False

    @property
    def query(self) -> Query:
        """The query with its relations resolved, and without optional atoms."""
        return self.meaning.query


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


class Strategy(ABC):
    """Answers questions in a session."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    @abstractmethod
    def count(self, ask: Ask, progress: Progress | None = None) -> Outcome:
        """Count the matches of a query."""

    @abstractmethod
    def find(self, ask: Ask, held: Held) -> DataFrame:
        """Return the matches as a DataFrame; the files that it reads are added to `held`."""

    @abstractmethod
    def write(
        self, ask: Ask, folder: Path, suffix: str, progress: Progress | None = None, *, in_pieces: bool = False
    ) -> tuple[list[PartFile], pa.Schema]:
        """Write the matches to files in a folder, from the tasks; return the files with their rows, and the columns.

        With `in_pieces`, files are published in the folder as matches are found, for a reader that has already started.
        """


def whole_index(index: Index) -> NDArray[np.int64]:
    """Return how many tuples a worker has that maps all of an index."""
    return np.array([sum(relation.tuples for relation in index.statistics.relations.values())])


def strategy_named(name: str) -> type[Strategy]:
    """Return the class of a strategy, which is imported when it is first used."""
    entry = STRATEGIES[name]
    return cast("type[Strategy]", getattr(import_module(entry.module), entry.class_name))
