"""What Spark users have without us: binary joins in SQL, and a motif found the way GraphFrames finds it."""

from __future__ import annotations

import time
from math import inf
from threading import Timer

import pyspark
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bigjoin.languages import parse
from bigjoin.spark.session import get_session
from bigjoin_bench.peers.left_deep import LeftDeep
from bigjoin_bench.peers.sql import as_join, restricted
from bigjoin_bench.question import Answer, Input, Question


class SparkSQL:
    """The self join that Catalyst plans over the cached edges, in the session that bigjoin would start."""

    def __init__(self, *, threads: int) -> None:
        self.spark = get_session(f"local[{threads}]")

    def version(self) -> str:
        return str(pyspark.__version__)

    def load(self, graph: Input) -> None:
        """Cache the edges in memory."""
        self.edges = cached(self.spark.read.parquet(graph.path).select("src", "dst"))
        self.edges.createOrReplaceTempView("edge")

    def run(self, question: Question) -> Answer:
        """Count."""
        (row,) = self.spark.sql(as_join(question.query)).collect()
        return Answer(int(row[0]))


class OrientedSparkSQL(SparkSQL):
    """Cliques over edges that point from low to high degree, each once; the best of some settings, tried while loading."""

    SETTINGS = (("4", "10MB"), ("16", "10MB"), ("4", "512MB"))
    """Partitions of a shuffle, and how large a side may be that is sent to all tasks instead."""
    LONG = 60.0
    """Seconds after which a trial is given up."""

    def load(self, graph: Input) -> None:
        """Cache the oriented edges in memory."""
        edges = self.spark.read.parquet(graph.path).select("src", "dst")
        ends = edges.select(F.col("src").alias("v")).union(edges.select("dst"))
        degrees = ends.groupBy("v").agg(F.struct(F.count("*"), "v").alias("rank"))
        low = degrees.select(F.col("v").alias("src"), F.col("rank").alias("low"))
        high = degrees.select(F.col("v").alias("dst"), F.col("rank").alias("high"))
        ranked = edges.join(low, "src").join(high, "dst")
        src, dst = (
            F.when(F.col("low") < F.col("high"), F.col(a)).otherwise(F.col(b)) for a, b in (("src", "dst"), ("dst", "src"))
        )
        self.edges = cached(ranked.select(src.alias("src"), dst.alias("dst")))
        self.edges.createOrReplaceTempView("oriented")
        self._set(min(self.SETTINGS, key=self._timed))

    def run(self, question: Question) -> Answer:
        """Count, with the settings that were fastest."""
        (row,) = self.spark.sql(restricted(question.query)).collect()
        return Answer(int(row[0]))

    def _timed(self, settings: tuple[str, str]) -> float:
        self._set(settings)
        context, started = self.spark.sparkContext, time.perf_counter()
        context.setJobGroup("trial", "a trial of settings", interruptOnCancel=True)
        giving_up = Timer(self.LONG, context.cancelJobGroup, ["trial"])
        giving_up.start()
        try:
            self.spark.sql(restricted("triangle")).collect()
        except Exception:
            return inf
        finally:
            giving_up.cancel()
        return time.perf_counter() - started

    def _set(self, settings: tuple[str, str]) -> None:
        self.spark.conf.set("spark.sql.shuffle.partitions", settings[0])
        self.spark.conf.set("spark.sql.autoBroadcastJoinThreshold", settings[1])


class LeftDeepMotif(SparkSQL):
    """The stand-in for GraphFrames: edge by edge from left to right, every vertex a struct that is joined in."""

    def load(self, graph: Input) -> None:
        """Cache the edges and the vertices in memory."""
        super().load(graph)
        ends = self.edges.select(F.col("src").alias("id")).union(self.edges.select(F.col("dst").alias("id")))
        self.vertices = cached(ends.distinct())

    def run(self, question: Question) -> Answer:
        """Count the rows of the motif."""
        return Answer(self.find(question.query).count())

    def find(self, query: str) -> DataFrame:
        """Return the matches of a query as those of a motif with anonymous edges: a struct for each vertex."""
        motif = "; ".join(f"({src})-[]->({dst})" for src, dst in (atom.attributes for atom in parse(query).atoms))
        return LeftDeep(self.vertices, self.edges).find(motif)


def cached(frame: DataFrame) -> DataFrame:
    """Return a frame that lies in memory."""
    kept = frame.persist(StorageLevel.MEMORY_ONLY)
    kept.count()
    return kept
