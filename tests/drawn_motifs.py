"""Motifs drawn at random, compared with the oracle: without Spark, or (as a program) in a session of a process of its own."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from bigjoin.errors import QueryError
from tests.oracles.motifs import MotifError, interpret
from tests.oracles.random_motifs import draw_motif, draw_property_graph

Find = Callable[[str], tuple[list[str], list[tuple]]]
"""What is tested: a motif gives the columns and the bag of rows."""


@dataclass
class Report:
    """How many motifs were compared, and which of them differ."""

    compared: int = 0
    refused: int = 0
    skipped: Counter = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        skipped = ", ".join(f"{count} {why}" for why, count in self.skipped.items()) or "none"
        lines = [
            f"{self.compared} compared, {self.refused} refused by both, {len(self.differences)} differ; skipped: {skipped}"
        ]
        return "\n".join([*lines, *self.differences[:20]])


def expected(pattern: str, graph) -> tuple[list[str], list[tuple]] | None:
    """What the oracle finds; None if it refuses the motif for more than its white space."""
    for text in (pattern, re.sub(r"\s+", "", pattern)):
        try:
            return interpret(text, *graph)
        except MotifError:
            continue
    return None


def check(pattern: str, graph, find: Find, report: Report) -> None:
    """Compare one motif on one graph."""
    wanted = expected(pattern, graph)
    try:
        columns, rows = find(pattern)
    except QueryError as error:
        if wanted is None:
            report.refused += 1
        elif "a negated edge needs one direction" in str(error):
            report.skipped["negated without a direction"] += 1
        else:
            report.differences.append(f"{pattern!r} on {graph}: {error}")
        return
    except Exception as error:
        report.differences.append(f"{pattern!r} on {graph}: {error!r}")
        return
    if wanted is None:
        report.differences.append(f"{pattern!r} is not refused")
        return
    report.compared += 1
    if list(columns) != wanted[0]:
        report.differences.append(f"{pattern!r} has the columns {columns}, not {wanted[0]}")
    elif Counter(rows) != Counter(wanted[1]):
        more, less = Counter(rows) - Counter(wanted[1]), Counter(wanted[1]) - Counter(rows)
        few = f"more: {more.most_common(3)}, less: {less.most_common(3)}"
        report.differences.append(f"{pattern!r} on {graph}: {len(rows)} rows, not {len(wanted[1])}; {few}")
    elif "_hop" in columns:
        places = [columns.index(name) for name in ("_hop", "_direction")]
        keys = [tuple(row[place] for place in places) for row in rows]
        if keys != sorted(keys):
            report.differences.append(f"{pattern!r} is not sorted")


def drawn(seed: int, motifs: int) -> tuple[tuple[list[dict], list[dict]], list[str]]:
    """A graph, and motifs to look for."""
    random = Random(seed)
    return draw_property_graph(random), [draw_motif(random) for _ in range(motifs)]


# In Spark


def frames(spark, graph):
    """The tables of a graph as DataFrames."""
    vertices, edges = graph
    kind = "string" if any(isinstance(v["id"], str) for v in vertices) else "long"
    return (
        spark.createDataFrame([tuple(v.values()) for v in vertices], f"id {kind}, name string"),
        spark.createDataFrame([tuple(e.values()) for e in edges], f"src {kind}, dst {kind}, weight int"),
    )


def collected(frame) -> tuple[list[str], list[tuple]]:
    """The columns and rows of a DataFrame, with structs as the oracle writes them."""
    rows = [tuple(tuple(c.asDict().items()) if hasattr(c, "asDict") else c for c in row) for row in frame.collect()]
    return frame.columns, rows


def in_spark(spark, seeds, motifs: int, report: Report) -> None:
    """Look for drawn motifs with GraphFrame.find."""
    from bigjoin.graphframes import GraphFrame

    for seed in seeds:
        graph, patterns = drawn(seed, motifs)
        frame = GraphFrame(*frames(spark, graph))
        for pattern in patterns:
            check(pattern, graph, lambda text, frame=frame: collected(frame.find(text)), report)


def main(first: int, last: int, motifs: int) -> int:
    from bigjoin.spark.session import get_session

    spark = get_session("local[1]")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    report = Report()
    in_spark(spark, range(first, last), motifs, report)
    sys.stdout.write(f"{report}\n")
    return len(report.differences)


if __name__ == "__main__":
    sys.exit(min(1, main(*map(int, sys.argv[1:]))))
