"""From Parquet to a verified index, beside DuckDB making sorted tables of the same edges in both directions.

bigjoin runs in a warm Spark session with two cores, DuckDB with two threads into a database file. Both end with files that are
on disk. The contenders alternate, the number of distinct edges is compared before a time is kept, medians are compared.

    .venv/bin/python benchmarks/index_build.py [SOURCE ...] [--rounds N] [--write]

Without a source: amazon0601 (if the published graphs are beside this checkout), and an R-MAT graph of 16 million edges with
integer ids and with text ids, generated first. Results go to benchmarks/results.jsonl; --write also puts the table into
README.md and docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

import duckdb
from record import ROOT, THREADS, append, put, timed, watching_memory

import bigjoin as bj
from bigjoin.generators.rmat import Rmat
from bigjoin.index.writer import verify
from bigjoin.ingest.files import open_edges
from bigjoin.spark.generate import generate
from bigjoin.spark.session import get_session

AMAZON = ROOT.parent / "shared" / "data" / "static" / "amazon0601.parquet"


def by_bigjoin(source: str, folder: Path) -> int:
    index = bj.build_index(source, folder / "index", properties=False)
    verify(index)
    return index.statistics.relations["edge"].tuples


def by_duckdb(source: str, folder: Path) -> int:
    src, dst = open_edges(source, properties=False).keys
    files = f"{source}/*.parquet" if Path(source).is_dir() else source
    with duckdb.connect(folder / "edges.db") as connection:
        connection.execute(f"SET threads = {THREADS}")
        connection.execute(f"SET temp_directory = '{folder / 'spill'}'")
        for name, key, value in (("forward", src, dst), ("reverse", dst, src)):
            connection.execute(f"CREATE TABLE {name} AS SELECT DISTINCT {key}, {value} FROM '{files}' ORDER BY {key}, {value}")
        connection.execute("CHECKPOINT")
        return connection.execute("SELECT count(*) FROM forward").fetchone()[0]


CONTENDERS = {"bigjoin": by_bigjoin, "DuckDB": by_duckdb}


def compare(source: str, rounds: int) -> dict[str, list[float]]:
    """Time each contender in turn; the first round warms up."""
    times: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for number in range(rounds + 1):
        counts = set()
        for name, build in CONTENDERS.items():
            folder = Path(tempfile.mkdtemp(prefix="bigjoin-bench-"))
            try:
                edges, seconds = timed(lambda build=build, folder=folder: build(source, folder))
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            counts.add(edges)
            times[name] += [seconds] if number else []
        if len(counts) > 1:
            raise SystemExit(f"{source}: the numbers of edges differ: {counts}")
    return times


def measure(name: str, source: str, rounds: int) -> dict[str, object]:
    rows = open_edges(source, properties=False).rows or 0
    with watching_memory() as memory:
        times = compare(source, rounds)
    result = {"graph": name, "rows": rows, "seconds": times, "memory": memory}
    print(result, file=sys.stderr, flush=True)
    return result


def table(results: list[dict]) -> str:
    lines = ["| graph | rows | bigjoin | rows a second | DuckDB | DuckDB / bigjoin |", "|---|---:|---:|---:|---:|---:|"]
    for result in results:
        ours, peer = (statistics.median(result["seconds"][name]) for name in CONTENDERS)
        speed = f"{result['rows'] / ours / 1e6:.1f} M"
        lines.append(f"| {result['graph']} | {result['rows']:,} | {ours:.2f} s | {speed} | {peer:.2f} s | {peer / ours:.1f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    spark = get_session(f"local[{THREADS}]")
    scratch = Path(tempfile.mkdtemp(prefix="bigjoin-bench-"))
    try:
        sources = {Path(source).name: source for source in options.sources}
        if not sources:
            sources = {"amazon0601": str(AMAZON)} if AMAZON.exists() else {}
            for ids in ("int", "string"):
                name = f"R-MAT, {'integer' if ids == 'int' else 'text'} ids"
                generate(spark, Rmat(scale=20, edge_count=16_000_000, seed=1), scratch / ids, ids=ids)
                sources[name] = str(scratch / ids)
        results = [measure(name, source, options.rounds) for name, source in sources.items()]
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    append("index_build", results=results)
    print(table(results))
    if options.write:
        put("index build", table(results), "README.md", "docs/benchmarks.md")


if __name__ == "__main__":
    main()
