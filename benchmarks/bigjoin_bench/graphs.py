"""Graphs for benchmarks: found in a folder, bundled, or generated, and prepared so that every contender reads the same edges.

A prepared graph is one Parquet file of 64-bit src and dst: distinct edges without loops, or, undirected, each pair once. A
suite may also ask for the rows as they are, or for the first lines as text.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bigjoin.errors import BigjoinError
from bigjoin_bench.question import Input

DIRECTED, UNDIRECTED, RAW, TEXT, TABLES = "directed", "undirected", "raw", "text", "tables"
"""Forms of a graph: distinct edges, distinct pairs, the rows as they are, the first lines of them, or edges and vertices."""

LINES = 100_000
"""Edges of a graph as text."""

BUNDLED = "soc-Epinions1"
GENERATED = {
    "R-MAT 4 M": ["rmat", "--scale", "18", "--edges", "4500000"],
    "R-MAT 16 M": ["rmat", "--scale", "20", "--edges", "16000000"],
    "R-MAT 16 M, text ids": ["rmat", "--scale", "20", "--edges", "16000000", "--ids", "string"],
    "Theory 28.7 M": ["theory", "--stars", "5-9-16-25-81"],
}
"""Name -> what `bigjoin generate` takes."""

FRACTIONS = {"R-MAT 4 M, a quarter": ("R-MAT 4 M", 0.25), "R-MAT 4 M, a half": ("R-MAT 4 M", 0.5)}
"""Name -> a graph, and the share of its rows that is kept."""

ATTRIBUTED = {"wiki-Vote, 58 attributes": "wiki-Vote"}
"""Name -> the graph whose vertices get attributes."""

ATTRIBUTES = {"int": 28, "double": 20, "string": 10}
"""How many attributes of each type such a vertex has."""

MULTIGRAPH, LABELLED = "a multigraph", "a labelled graph"
"""Small graphs with what published ones lack: parallel edges, loops and missing ends; text ids, labels and NULL."""

HUB = "a hub of 100,000"
LEAVES, SPARSE = 100_000, 200_000
"""The neighbours of a hub, and the vertices and edges of the random graph that it stands in."""

_GENERATE = (sys.executable, "-c", "from bigjoin.cli.main import main; main()", "generate")


class AbsentError(BigjoinError):
    """A graph that is neither bundled nor in the folder."""


@dataclass
class Library:
    """Graphs by name; what it prepares lies in a scratch folder until `close`."""

    folder: Path | None = None

    def __post_init__(self) -> None:
        self._scratch = Path(tempfile.mkdtemp(prefix="bigjoin-bench-"))

    def get(self, name: str, form: str) -> Input:
        """Return a graph in a form; raise AbsentError if there is none of that name."""
        if form == TABLES:
            return self._tables(name)
        source = self._source(name)
        if form == RAW:
            return Input(name, str(source))
        file = self._scratch / f"{name}-{form}{'.txt' if form == TEXT else '.parquet'}"
        if not file.exists():
            _prepare(source, file, form)
        return Input(name, str(file), undirected=form == UNDIRECTED)

    def close(self) -> None:
        """Remove what was prepared."""
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _tables(self, name: str) -> Input:
        files = [self._scratch / f"{name}-{part}.parquet" for part in ("edges", "vertices")]
        if not files[0].exists():
            if name in (MULTIGRAPH, LABELLED):
                tables = _multigraph() if name == MULTIGRAPH else _labelled()
            else:
                edges = pq.read_table(self.get(ATTRIBUTED.get(name, name), DIRECTED).path)
                tables = edges, _vertices(edges, attributed=name in ATTRIBUTED)
            for table, file in zip(tables, files, strict=True):
                pq.write_table(table, file)
        return Input(name, str(files[0]), vertices=str(files[1]))

    def _source(self, name: str) -> Path:
        if name in GENERATED:
            return self._generated(name)
        if name in FRACTIONS:
            return self._fraction(name)
        if name == HUB:
            return self._with_hub()
        found = sorted(self.folder.glob(f"{name}.*")) if self.folder is not None else []
        if found:
            return found[0]
        if name == BUNDLED:
            with as_file(files("bigjoin") / "data" / f"{BUNDLED}.txt.gz") as file:
                return Path(file)
        where = f"not in {self.folder}" if self.folder is not None else "give its folder with --data"
        raise AbsentError(f"{name} is skipped: {where}")

    def _fraction(self, name: str) -> Path:
        target = self._scratch / f"{name}.parquet"
        whole, share = FRACTIONS[name]
        if not target.exists():
            src, dst = _edges(self._source(whole))
            kept = np.random.default_rng(1).random(len(src)) < share
            pq.write_table(pa.table({"src": src[kept], "dst": dst[kept]}), target)
        return target

    def _with_hub(self) -> Path:
        target = self._scratch / "hub.parquet"
        if not target.exists():
            src, dst = np.random.default_rng(1).integers(1, SPARSE + 1, (2, SPARSE))
            leaves = np.arange(1, LEAVES + 1)
            ends = np.concatenate([src, np.zeros_like(leaves)]), np.concatenate([dst, leaves])
            pq.write_table(pa.table(dict(zip(("src", "dst"), ends, strict=True))), target)
        return target

    def _generated(self, name: str) -> Path:
        target = self._scratch / name.replace(" ", "-").replace(",", "")
        if not target.exists():
            family, *options = GENERATED[name]
            subprocess.run([*_GENERATE, family, str(target), *options, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        return target


def _prepare(source: Path, file: Path, form: str) -> None:
    src, dst = _edges(source)
    if form == TEXT:
        pd.DataFrame({"src": src[:LINES], "dst": dst[:LINES]}).to_csv(file, sep="\t", header=False, index=False)
        return
    proper = src != dst
    src, dst = src[proper], dst[proper]
    if form == UNDIRECTED:
        src, dst = np.minimum(src, dst), np.maximum(src, dst)
    pairs = np.unique(src.astype(np.uint64) << np.uint64(32) | dst.astype(np.uint64))
    halves = pairs >> np.uint64(32), pairs & np.uint64(2**32 - 1)
    pq.write_table(pa.table({name: half.astype(np.int64) for name, half in zip(("src", "dst"), halves, strict=True)}), file)


def _edges(source: Path) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the two columns of a file; ids are integers below 2^32, as those of all these graphs are."""
    if source.is_dir() or source.suffix == ".parquet":
        table = pq.read_table(source)
        src, dst = (table.column(c).to_numpy() for c in (0, 1))
    else:
        frame = pd.read_csv(source, sep=r"\s+", comment="#", header=None, usecols=[0, 1])
        src, dst = (frame[c].to_numpy() for c in (0, 1))
    return src.astype(np.int64), dst.astype(np.int64)


def _vertices(edges: pa.Table, *, attributed: bool) -> pa.Table:
    """Return the vertices of edges, with the same attributes each time."""
    ids = np.unique(np.concatenate([edges.column(end).to_numpy() for end in ("src", "dst")]))
    rng, columns = np.random.default_rng(1), {"id": pa.array(ids)}
    for kind, many in ATTRIBUTES.items() if attributed else ():
        for number in range(many):
            whole = rng.integers(0, 1_000_000, len(ids), dtype=np.int32)
            drawn = {"int": whole, "double": whole / 7, "string": [f"attribute {value:06}" for value in whole]}
            columns[f"{kind}_{number}"] = pa.array(drawn[kind])
    return pa.table(columns)


def _multigraph() -> tuple[pa.Table, pa.Table]:
    """Return edges and vertices: equal rows, parallel edges that differ, loops, and edges whose ends are no vertices."""
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, 14, (2, 40))
    weight = rng.integers(0, 3, 40)
    src, dst, weight = (np.concatenate([part, part[:8]]) for part in (src, dst, weight))
    return (
        pa.table({"src": src, "dst": dst, "weight": weight.astype(np.float64)}),
        pa.table({"id": np.arange(2, 16), "born": np.arange(2, 16, dtype=np.int32) % 5 + 1980}),
    )


def _labelled() -> tuple[pa.Table, pa.Table]:
    """Return edges and vertices with text ids, labels and types, of which some are NULL."""
    rng = np.random.default_rng(2)
    names = [f"{'pq'[number % 2]}{number}" for number in range(12)]
    ends = rng.choice(names, (2, 36))
    types = [("knows", "pays", None)[kind] for kind in rng.integers(0, 3, 36)]
    since = [None if year == 0 else 2000 + int(year) for year in rng.integers(0, 20, 36)]
    labels = [("person", "firm", None)[kind] for kind in rng.integers(0, 3, 12)]
    return (
        pa.table({"src": ends[0].tolist(), "dst": ends[1].tolist(), "type": types, "since": pa.array(since, pa.int32())}),
        pa.table({"id": names, "label": labels, "score": rng.random(12)}),
    )
