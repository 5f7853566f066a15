"""Motifs in a graph of two DataFrames: bigjoin's drop-in, the stand-in for GraphFrames, and the rows of both compared."""

from __future__ import annotations

import time

import pyspark
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from bigjoin import __version__
from bigjoin.graphframes import GraphFrame
from bigjoin.spark.session import get_session
from bigjoin_bench.motifs import COUNTED, TIMED
from bigjoin_bench.peers.left_deep import LeftDeep
from bigjoin_bench.peers.spark_joins import cached
from bigjoin_bench.question import Answer, Input, Question


class Motifs:
    """bigjoin: `bigjoin.graphframes.GraphFrame`, with its index built."""

    def __init__(self, *, threads: int) -> None:
        self.spark, self.threads = get_session(f"local[{threads}]"), threads

    def version(self) -> str:
        return __version__

    def load(self, graph: Input) -> None:
        """Build the index, which the first motif asks for."""
        self.graph: GraphFrame | LeftDeep = GraphFrame(*read(self.spark, graph))
        self.graph.find("(a)-[]->(b)")

    def run(self, question: Question) -> Answer:
        """Find a motif, and count its rows or read all their columns."""
        before, started = shuffled(self.spark), time.perf_counter()
        found = self.graph.find(TIMED[question.query])
        rows = found.count() if question.meaning == COUNTED else read_all(found)
        seconds = time.perf_counter() - started
        written = sum(size for stage, size in shuffled(self.spark).items() if stage not in before)
        return Answer(rows, seconds, {"shuffled": written})


class LeftDeepJoins(Motifs):
    """The stand-in for GraphFrames, over cached tables; without `broadcasts`, both sides of every join are shuffled."""

    def __init__(self, *, threads: int, broadcasts: bool = True) -> None:
        super().__init__(threads=threads)
        if not broadcasts:
            self.spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
            self.spark.conf.set("spark.sql.adaptive.autoBroadcastJoinThreshold", "-1")

    def version(self) -> str:
        return str(pyspark.__version__)

    def load(self, graph: Input) -> None:
        """Cache both tables, in parts for all threads."""
        vertices, edges = (cached(frame.repartition(2 * self.threads)) for frame in read(self.spark, graph))
        self.graph = LeftDeep(vertices, edges)


class SameRows:
    """Both of them on the same tables: the time means nothing, and an answer is that all rows are the same."""

    def __init__(self, *, threads: int) -> None:
        self.spark = get_session(f"local[{threads}]")

    def version(self) -> str:
        return __version__

    def load(self, graph: Input) -> None:
        """Cache both tables, and build the index."""
        vertices, edges = map(cached, read(self.spark, graph))
        self.ours, self.theirs = GraphFrame(vertices, edges), LeftDeep(vertices, edges)

    def run(self, question: Question) -> Answer:
        """Count the rows of a motif; fail if any is found more often on one side."""
        ours, theirs = (side.find(question.query) for side in (self.ours, self.theirs))
        assert ours.schema.simpleString() == theirs.schema.simpleString(), "the columns differ"
        return Answer(same_rows(ours, theirs))


def read(spark: SparkSession, graph: Input) -> tuple[DataFrame, DataFrame]:
    """Return the vertices and the edges of a graph."""
    assert graph.vertices is not None
    return spark.read.parquet(graph.vertices), spark.read.parquet(graph.path)


def read_all(frame: DataFrame) -> int:
    """Have Spark compute every column of every row, keep nothing of it, and return how many rows there were."""
    seen = Observation()
    frame.observe(seen, F.count(F.lit(1)).alias("rows")).write.format("noop").mode("overwrite").save()
    return int(seen.get["rows"])


def same_rows(ours: DataFrame, theirs: DataFrame) -> int:
    """Return how many rows both frames have; raise an AssertionError with a row that one has more often."""
    one, other = (frame.withColumn("_side", F.lit(side)) for side, frame in ((1, ours), (-1, theirs)))
    more = one.unionByName(other).groupBy(*ours.columns).agg(F.sum("_side").alias("_more"), F.count("*").alias("_rows"))
    example = F.max(F.when(F.col("_more") != 0, F.to_json(F.struct("*"))))
    (found,) = more.agg(F.coalesce(F.sum("_rows"), F.lit(0)), example).collect()
    assert found[1] is None, f"bigjoin has a row more (or, below 0, less) often than the stand-in: {found[1]}"
    return int(found[0]) // 2


def shuffled(spark: SparkSession) -> dict[int, int]:
    """Return the bytes that every stage so far has written for a shuffle, from Spark's own records."""
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    store = context.statusStore()
    quantiles = getattr(store, "stageList$default$4")()
    stages = store.stageList(None, False, False, quantiles, None)
    listed = (stages.apply(i) for i in range(stages.size()))
    return {stage.stageId(): stage.shuffleWriteBytes() for stage in listed}
