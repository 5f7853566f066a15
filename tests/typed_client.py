"""A program as a user would write it, with types: mypy checks it strictly, and a test runs it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

import bigjoin as bj

EDGES = "1 2\n2 3\n1 3\n3 4\n"


def count_triangles(graph: bj.Graph, strategy: bj.StrategyName = "auto") -> bj.Count:
    return graph.count("triangle", unique=True, strategy=strategy, workers=2)


def triangles_at(graph: bj.Graph, vertex: int) -> int:
    groups: DataFrame = graph.count("triangle", unique=True, by="a1")
    pairs: DataFrame = graph.count("triangle", unique=True, by=("a1", "a2"))
    found = groups.where(groups.a1 == vertex).collect()
    return int(found[0]["count"]) if pairs.count() else 0


def explain(graph: bj.Graph | bj.Relations) -> str:
    explanation: bj.Explanation = graph.explain("q(a, b) := edge(a, b)")
    return explanation


def watch_once(graph: bj.Graph, updates: pa.Table, queries: Mapping[str, str]) -> bj.Epoch:
    return graph.apply(updates=updates, queries=queries, unique=True)


def two_steps(edges: pa.Table) -> DataFrame:
    return bj.join("q(a, c) := r(a, b), s(b, c)", r=edges, s=edges, limit=10)


def misspelled(graph: bj.Graph) -> str:
    try:
        graph.count("traingle")
    except bj.UnknownQueryError as error:
        return error.hint or ""
    except bj.BigjoinError:
        return "something else"
    return "nothing"


def main(folder: Path) -> list[str]:
    """Return a line for each thing that a user may do."""
    source = folder / "edges.txt"
    source.write_text(EDGES)
    lines: list[str] = []
    with bj.Graph(source, directed=False) as graph:
        lines.append(f"{graph.vertex_count} vertices, {graph.edge_count} edges, directed: {graph.directed}")
        found = count_triangles(graph)
        lines.append(f"{found + 0} triangles by {found.strategy}, in {found.stats['rounds']} round")
        lines.append(str(graph.find("triangle", unique=True).count()))
        lines.append(f"{triangles_at(graph, 3)} at vertex 3")
        lines.append(explain(graph).splitlines()[0])
        changed = pa.table({"src": [2], "dst": [4], "op": ["+"]})
        epoch = watch_once(graph, changed, {"triangles": "triangle"})
        lines.append(f"epoch {epoch.number}: +{epoch.created} -{epoch.destroyed}, now {epoch.count}")
        lines.append(misspelled(graph))
    index = bj.build_index(source, folder / "graph.index")
    with bj.Graph.open(index.path) as again, bj.Relations({"r": source}) as relations:
        lines.append(f"{again.count('2-path')} {relations.count('q(a, c) := r(a, b), r(b, c)')}")
    lines.append(str(two_steps(pa.table({"a": [1, 2], "b": [2, 3]})).collect()[0].c))
    return lines
