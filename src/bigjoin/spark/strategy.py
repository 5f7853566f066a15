"""What strategies that run in Spark's tasks have in common: a session, and answers that are DataFrames."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from bigjoin.local.strategy import Ask, Progress, Strategy
from bigjoin.spark.held import Held
from bigjoin.spark.read import quoted


@dataclass(frozen=True)
class Grouped:
    """Groups, as a DataFrame with a column for each term of the head, and `count`."""

    frame: DataFrame
    matches: int = 0
    """The sum of the counts, if it may exceed 64 bits."""
    adds_up: bool = False
    """Whether several rows of the frame may have the same values, and their counts have to be added up."""


class SparkStrategy(Strategy):
    """Answers questions in a session."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    @abstractmethod
    def find(self, ask: Ask, held: Held, progress: Progress | None = None) -> DataFrame:
        """Return the matches as a DataFrame; the files that it reads are added to `held`.

        `progress` is for strategies that find the matches now.
        """

    def count_by(self, ask: Ask, held: Held, progress: Progress | None = None) -> Grouped:
        """Count the matches of each group: those that agree on the keys of the question's meaning. Its head lists their values.

        A strategy that has no other way finds the matches, and Spark groups them.
        """
        frame = self.find(ask, held, progress)
        return Grouped(frame.groupBy(*map(quoted, frame.columns)).count())
