"""bigjoin and DuckDB side by side: the paper's five queries, directed, plain join semantics, on one graph.

Both are warm: session started and index built here, table loaded there. The contenders alternate, a count is checked before its
time is kept, medians are compared. A peer is cut off at 120 s (shown as '>'), and what takes more than 20 s runs no more.

    .venv/bin/python benchmarks/against_duckdb.py [EDGES.txt] [--write]

Results go to benchmarks/results.jsonl; --write also puts the table into docs/benchmarks.md and README.md.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from record import ROOT, THREADS, append, put, timed

import bigjoin as bj
from bigjoin.languages import parse

BUNDLED = ROOT / "src" / "bigjoin" / "data" / "soc-Epinions1.txt.gz"
QUERIES = ("triangle", "4-clique", "diamond", "house", "5-clique")
CUT_OFF, ONCE, REPEATS = 120.0, 20.0, 5


class Bigjoin:
    """This engine, through Spark local[2]."""

    name = "bigjoin"

    def __init__(self, graph: bj.Graph) -> None:
        self.graph = graph

    def count(self, query: str) -> int:
        return int(self.graph.count(query))


class DuckDB:
    """DuckDB over the same edges, joined as its optimizer likes."""

    name = "DuckDB"

    def __init__(self, edges: pa.Table) -> None:
        self.connection = duckdb.connect()
        self.connection.execute(f"SET threads = {THREADS}")
        self.connection.execute(f"SET temp_directory = '{tempfile.mkdtemp(prefix='duckdb-')}'")
        self.connection.register("edges", edges)
        self.connection.execute("CREATE TABLE edge AS SELECT DISTINCT src, dst FROM edges ORDER BY ALL")

    def count(self, query: str) -> int | None:
        timer = threading.Timer(CUT_OFF, self.connection.interrupt)
        timer.start()
        try:
            return int(self.connection.execute(sql(query)).fetchone()[0])
        except duckdb.InterruptException:
            return None
        finally:
            timer.cancel()


def sql(name: str) -> str:
    """The query as a self join."""
    at: dict[str, str] = {}
    where = []
    atoms = parse(name).atoms
    for i, atom in enumerate(atoms):
        for attribute, column in zip(atom.attributes, ("src", "dst"), strict=True):
            place = f"t{i}.{column}"
            where += [f"{place} = {at[attribute]}"] if attribute in at else []
            at.setdefault(attribute, place)
    return f"SELECT count(*) FROM {', '.join(f'edge t{i}' for i in range(len(atoms)))} WHERE {' AND '.join(where)}"


def compare(query: str, contenders: list[Bigjoin | DuckDB]) -> dict[str, list[float]]:
    """Time each contender in turn, several times; raise if two finished counts differ."""
    times: dict[str, list[float]] = {c.name: [] for c in contenders}
    counts: set[int] = set()
    over: set[str] = set()
    for _ in range(REPEATS + 1):  # the first round warms up, unless it is all there is
        for contender in contenders:
            mine = times[contender.name]
            if contender.name in over or (mine and max(mine) > ONCE):
                continue
            count, seconds = timed(lambda contender=contender: contender.count(query))
            if count is None:
                over.add(contender.name)
                continue
            counts.add(count)
            if len(counts) > 1:
                raise SystemExit(f"{query}: the counts differ: {counts}")
            mine.append(seconds)
    print(
        f"{query}: {counts.pop():,}",
        {n: [round(s, 3) for s in t] or ">" for n, t in times.items()},
        file=sys.stderr,
        flush=True,
    )
    return {name: seconds[1:] or seconds for name, seconds in times.items()}


def table(results: dict[str, dict[str, list[float]]]) -> str:
    rows = ["| query | bigjoin | DuckDB | DuckDB / bigjoin |", "|---|---:|---:|---:|"]
    for query, times in results.items():
        ours, peer = (statistics.median(times[n]) if times[n] else None for n in ("bigjoin", "DuckDB"))
        shown = f"{peer:.2f} s" if peer else f"> {CUT_OFF:.0f} s"
        ratio = f"{peer / ours:.1f}" if peer else f"> {CUT_OFF / ours:.1f}"
        rows.append(f"| {query} | {ours:.2f} s | {shown} | {ratio} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("edges", nargs="?", default=str(BUNDLED))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    from bigjoin.spark.session import get_session

    graph = bj.Graph(options.edges, spark=get_session(f"local[{THREADS}]"))
    forward = graph.index.extensions("edge", (0, 1))
    src, dst = forward.tuples(np.arange(len(forward)))
    ids = graph.index.dictionaries["vertex"]
    contenders = [Bigjoin(graph), DuckDB(pa.table({"src": ids.decode(src), "dst": ids.decode(dst)}))]
    results = {query: compare(query, contenders) for query in QUERIES}
    append("queries", graph=Path(options.edges).name, seconds=results)
    print(table(results))
    if options.write:
        put("benchmark", table(results), "README.md", "docs/benchmarks.md")


if __name__ == "__main__":
    main()
