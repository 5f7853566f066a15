"""What a strategy is: it decides where the steps of a plan run, and gives the same three things as every other.

Each strategy is one file, with an entry in the table `defaults.STRATEGIES`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
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
"""Takes the share of the work that is done."""

PartFile: TypeAlias = tuple[Path, int]
"""A file of matches, and its rows."""


@dataclass(frozen=True)
class Ask:
    """What is asked of an index: what a query means there, and how much of an answer is wanted."""

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
class Ran:
    """A run that is over."""

    matches: int
    workers: int
    stats: dict[str, Any]
    index_tuples: Callable[[], NDArray[np.int64]]
    """Finds how many tuples of the indices each worker has: it takes a look at all of them."""
    parts: list[PartFile] = field(default_factory=list)
    plan_seconds: float = 0.0


class Strategy(ABC):
    """Where the steps of a plan run, in a session."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    @abstractmethod
    def count(self, ask: Ask, progress: Progress | None = None) -> Ran:
        """Count the matches of a query."""

    @abstractmethod
    def find(self, ask: Ask, held: Held) -> DataFrame:
        """Return the matches as a DataFrame; files that it reads are held."""

    @abstractmethod
    def write(
        self, ask: Ask, folder: Path, suffix: str, progress: Progress | None = None, *, in_pieces: bool = False
    ) -> tuple[list[PartFile], pa.Schema]:
        """Write the matches to files in a folder, from the tasks; return the files, their rows, and the columns.

        In pieces, files are published in the folder as they are found, for a reader that has already begun.
        """


def strategy_named(name: str) -> type[Strategy]:
    """Return the class of a strategy, which is imported when it is first used."""
    entry = STRATEGIES[name]
    return cast("type[Strategy]", getattr(import_module(entry.module), entry.class_name))
