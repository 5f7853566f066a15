"""Counts by group, undirected and each subgraph once: bigjoin, with the time of a count of everything beside it, and Spark SQL.

What contenders agree on is the sum of the counts over all groups, and how many groups there are.
"""

from __future__ import annotations

import time
from dataclasses import replace
from statistics import median

import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bigjoin.languages import parse
from bigjoin.local.strategy import Ask
from bigjoin.local.threads import Local
from bigjoin.planner import meaning
from bigjoin_bench.peers.bigjoin import Bigjoin
from bigjoin_bench.peers.spark_joins import OrientedSparkSQL, cached
from bigjoin_bench.question import BY_EDGE, BY_VERTEX, Answer, Input, Question

KEYS = {BY_VERTEX: ("a1",), BY_EDGE: ("a1", "a2")}


class Groups(Bigjoin):
    """Counts by groups and reads all rows; and counts everything in the same process, in turn."""

    def __init__(self, *, threads: int) -> None:
        super().__init__(threads=threads)
        self.times: dict[Question, list[tuple[float, float, float]]] = {}
        """For each question: the seconds of a count of everything, of the groups, and of reading them, run by run."""

    def run(self, question: Question) -> Answer:
        """Count everything, then the groups."""
        assert self.graph is not None
        started = time.perf_counter()
        total = self.graph.count(question.query, unique=True)
        counted = time.perf_counter()
        frame = self.graph.count(question.query, unique=True, by=KEYS[question.meaning])
        grouped = time.perf_counter()
        _read(frame)
        ended = time.perf_counter()
        times = self.times.setdefault(question, [])
        times.append((counted - started, grouped - counted, ended - grouped))
        warm = times[1:] or times
        figures = dict(zip(("total", "grouped", "read"), map(median, zip(*warm, strict=True)), strict=True))
        figures["ratio"] = median(by / all_ for all_, by, _ in warm)
        rows, matches = _sums(frame)
        self.graph._results.free()  # the files of the frame
        assert matches % total == 0
        return Answer(matches, ended - counted, {**figures, "groups": rows, "matches": int(total)})


class GroupsHere(Bigjoin):
    """Counts by groups in threads of this process, into a table: what the kernels take, without Spark."""

    def run(self, question: Question) -> Answer:
        """Count the groups."""
        assert self.graph is not None
        index, keys = self.graph.index, KEYS[question.meaning]
        (part,) = meaning(replace(parse(question.query, unique=True), head=keys), index.statistics)
        started = time.perf_counter()
        found = Local().count_by(Ask(replace(part, keys=keys), index))
        seconds = time.perf_counter() - started
        assert found is not None
        table, _ = found
        return Answer(pc.sum(table["count"]).as_py(), seconds, {"groups": table.num_rows})


class SparkGroups(OrientedSparkSQL):
    """Triangles by two joins of edges that point from low to high degree, each then grouped by its corners or its edges."""

    def load(self, graph: Input) -> None:
        """Cache the edges, oriented and in both directions."""
        super().load(graph)
        both = self.edges.union(self.edges.select(F.col("dst").alias("src"), F.col("src").alias("dst")))
        cached(both).createOrReplaceTempView("both_ways")

    def run(self, question: Question) -> Answer:
        """Group, and read all rows."""
        frame = self.spark.sql(_SQL[question.query, question.meaning])
        started = time.perf_counter()
        _read(frame)
        seconds = time.perf_counter() - started
        rows, matches = _sums(frame)
        return Answer(matches, seconds, {"groups": rows})


_TRIANGLES = "oriented x, oriented y, oriented z WHERE x.src = y.src AND x.dst = z.src AND y.dst = z.dst"
_CORNERS = ("x.src", "x.dst", "y.dst")
_ENDS = [(a, b) for a in _CORNERS for b in _CORNERS if a != b]
_SQL = {
    ("triangle", BY_VERTEX): f"""SELECT a1, count(*) AS count FROM (
        SELECT explode(array({", ".join(_CORNERS)})) AS a1 FROM {_TRIANGLES}) GROUP BY a1""",
    ("triangle", BY_EDGE): f"""SELECT e.a1, e.a2, count(*) AS count FROM (
        SELECT explode(array(
            {", ".join(f"named_struct('a1', {a}, 'a2', {b})" for a, b in _ENDS)})) AS e
        FROM {_TRIANGLES}) GROUP BY e.a1, e.a2""",
    # For an edge (a, b) and a further neighbour c of b: the paths of two steps from a to c, but for the one through b.
    ("4-cycle", BY_EDGE): """SELECT a1, a2, sum(n - 1) AS count FROM (
        SELECT e.src AS a1, e.dst AS a2, w.n FROM both_ways e, both_ways f, (
            SELECT x.src AS a, y.dst AS c, count(*) AS n FROM both_ways x, both_ways y
            WHERE x.dst = y.src AND x.src <> y.dst GROUP BY x.src, y.dst) w
        WHERE e.dst = f.src AND w.a = e.src AND w.c = f.dst AND f.dst <> e.src AND w.n > 1) GROUP BY a1, a2""",
}


def _read(frame: DataFrame) -> None:
    """Read every row and column."""
    frame.write.format("noop").mode("overwrite").save()


def _sums(frame: DataFrame) -> tuple[int, int]:
    """Return how many groups there are, and how many matches."""
    (row,) = frame.agg(F.count(F.lit(1)), F.sum("count")).collect()
    return int(row[0]), int(row[1])
