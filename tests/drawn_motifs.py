"""Motifs drawn at random, compared with the oracle: without Spark, or (as a program) in a session of a process of its own."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
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
    try:
        return beside_others(re.sub(r"\s+", "", pattern), graph)
    except MotifError:
        return None


WALK = re.compile(r"(\(\w*\))(<?)-\[(\w*)\*(\d+)(?:\.\.(\d+))?\]-(>?)(\(\w*\))")


def beside_others(pattern: str, graph) -> tuple[list[str], list[tuple]] | None:
    """Edges of several lengths, or of several hops without a direction, beside other terms: each way by itself, added up."""
    terms = pattern.rstrip(";").split(";")
    ways = [list(ways_of(term)) for term in terms]
    if all(len(each) == 1 and not each[0][1] for each in ways):
        return None
    columns, found = dict[str, None](), []
    for chosen in product(*ways):
        names, rows = interpret(";".join(text for text, _ in chosen), *graph)
        told = {name: value for _, constants in chosen for name, value in constants.items()}
        last = max(place for place, (_, constants) in enumerate(chosen) if constants)
        if "_direction" in names and any(re.fullmatch(r"\(\w*\)-\[\w*\]-\(\w*\)", t) for t in terms[last + 1 :]):
            told = {"_hop": told["_hop"]}  # an undirected term that follows is the last to tell
        columns |= dict.fromkeys([*names, "_hop", "_pattern", "_direction"])
        found += [{**dict(zip(names, row, strict=True)), **told} for row in rows]
    return list(columns), [tuple(row.get(name) for name in columns) for row in found]


def ways_of(term: str):
    """The terms of one length and direction that a term stands for, and what tells them apart."""
    walk = WALK.fullmatch(term)
    if walk is None or (walk[2] and walk[6]) or not (walk[5] or walk[2] == walk[6]):
        yield term, {}
        return
    low = int(walk[4])
    high = int(walk[5] or low)
    if not 1 <= low <= high:
        raise MotifError(term)
    for direction in ("out", "in") if walk[2] == walk[6] else ("in",) if walk[2] else ("out",):
        for hops in range(high, low - 1, -1):
            left, right = ("-", "->") if direction == "out" else ("<-", "-")
            text = f"{walk[1]}{left}[{walk[3]}*{hops}]{right}{walk[7]}"
            yield text, {"_hop": hops, "_pattern": text, "_direction": direction}


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
        elif "several edges without a direction" in str(error):
            report.skipped["several without a direction before a negated one"] += 1
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
    elif "_hop" in columns and ";" not in pattern.rstrip("; "):
        places = [columns.index(name) for name in ("_hop", "_direction")]
        keys = [tuple(row[place] for place in places) for row in rows]
        if keys != sorted(keys):
            report.differences.append(f"{pattern!r} is not sorted")


def drawn(seed: int, motifs: int) -> tuple[tuple[list[dict], list[dict]], list[str]]:
    """A graph, and motifs to look for."""
    random = Random(seed)
    return draw_property_graph(random), [draw_motif(random) for _ in range(motifs)]


def drawn_walks(seed: int, motifs: int) -> tuple[tuple[list[dict], list[dict]], list[str]]:
    """A graph, and motifs in which some edge has several lengths."""
    random = Random(seed)
    graph, found = draw_property_graph(random), []
    while len(found) < motifs:
        terms = re.sub(r"\s+", "", draw_motif(random)).split(";")
        edges = [i for i, term in enumerate(terms) if re.fullmatch(r"\(\w*\)(<-|-)\[\w*\](->|-)\(\w*\)", term)]
        if len(terms) > 1 and edges and expected(";".join(terms), graph) is not None:
            place = random.choice(edges)
            terms[place] = terms[place].replace("]", random.choice(["*1..2]", "*2..3]", "*2]", "*1..1]"]))
            found.append(";".join(terms))
    return graph, found


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
