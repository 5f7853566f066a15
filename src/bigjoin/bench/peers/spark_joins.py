"""What Spark users have without us: binary joins in SQL, and a motif found the way GraphFrames finds it."""

from __future__ import annotations

import pyspark
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bigjoin.bench.peers.sql import as_join
from bigjoin.bench.question import Answer, Input, Question
from bigjoin.languages import parse
from bigjoin.spark.session import get_session


class SparkSQL:
    """The self join that Catalyst plans over the cached edges, in the session that bigjoin would start."""

    def __init__(self, *, threads: int) -> None:
        self.spark = get_session(f"local[{threads}]")

    def version(self) -> str:
        return str(pyspark.__version__)

    def load(self, graph: Input) -> None:
        """Cache the edges in memory."""
        self.edges = _cached(self.spark.read.parquet(graph.path).select("src", "dst"))
        self.edges.createOrReplaceTempView("edge")

    def run(self, question: Question) -> Answer:
        """Count."""
        (row,) = self.spark.sql(as_join(question.query)).collect()
        return Answer(int(row[0]))


class LeftDeepMotif(SparkSQL):
    """Edge by edge from left to right, every vertex of the motif a struct that is joined in, as GraphFrames' find does."""

    def load(self, graph: Input) -> None:
        """Cache the edges and the vertices in memory."""
        super().load(graph)
        ends = self.edges.select(F.col("src").alias("id")).union(self.edges.select(F.col("dst").alias("id")))
        self.vertices = _cached(ends.distinct())

    def run(self, question: Question) -> Answer:
        """Count the rows of the motif."""
        return Answer(self.find(question.query).count())

    def find(self, query: str) -> DataFrame:
        """Return the motif as GraphFrames does for anonymous edges: a struct for each vertex."""
        found: DataFrame | None = None
        seen: set[str] = set()
        for number, atom in enumerate(parse(query).atoms):
            edge, ends = f"_e{number}", dict(zip(("src", "dst"), atom.attributes, strict=True))
            edges = self._nested(self.edges, edge)
            bound = [_meets(edge, end, vertex) for end, vertex in ends.items() if vertex in seen]
            found = edges if found is None else found.join(edges, _all(bound)) if bound else found.crossJoin(edges)
            for end, vertex in ends.items():
                if vertex not in seen:
                    found = found.join(self._nested(self.vertices, vertex), _meets(edge, end, vertex))
                    seen.add(vertex)
            found = found.drop(edge)
        assert found is not None
        return found

    def _nested(self, frame: DataFrame, name: str) -> DataFrame:
        return frame.select(F.struct(*frame.columns).alias(name))


def _cached(frame: DataFrame) -> DataFrame:
    kept = frame.persist(StorageLevel.MEMORY_ONLY)
    kept.count()
    return kept


def _meets(edge: str, end: str, vertex: str) -> Column:
    return F.col(f"{edge}.{end}") == F.col(f"{vertex}.id")


def _all(conditions: list[Column]) -> Column:
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = whole & condition
    return whole
