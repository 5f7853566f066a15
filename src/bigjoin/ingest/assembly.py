"""What building and copying an index share: from runs of edges to the files of its relations, and the manifest's entries."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from bigjoin.index.catalogue import sample
from bigjoin.index.degrees import degree_files, degrees_entry, degrees_of
from bigjoin.index.directory import VERTEX
from bigjoin.index.entries import (
    DomainEntry,
    LevelEntry,
    Manifest,
    OrderEntry,
    RelationEntry,
    SourceEntry,
)
from bigjoin.index.shards import Shards
from bigjoin.index.stage_runner import StageRunner
from bigjoin.index.trie import Level, Trie, list_statistics
from bigjoin.ingest.edges import Code, Dedupe
from bigjoin.ingest.levels import LevelPart, PlaceRows, level_parts, write_part
from bigjoin.ingest.runs import cut
from bigjoin.storage.arrays import map_array, map_table

Chunks: TypeAlias = list[dict[str, Any]]
"""Descriptions of pieces of work, one for each file or group of files that a stage has written."""


class Assembly:
    """The files of an index in the making: its folder, the exchange between stages below it, and how stages run."""

    def __init__(
        self, folder: Path, run: StageRunner, progress: Callable[[str], None], *, directed: bool, shards: int, part: int
    ) -> None:
        self.folder, self.run, self.progress = folder.absolute(), run, progress
        self.directed, self.shards, self.part = directed, shards, part
        self.exchange = str(self.folder / "exchange")
        self.relations: dict[str, RelationEntry] = {}
        self.domains: dict[str, DomainEntry] = {}

    @contextmanager
    def exchanging(self) -> Iterator[None]:
        """Have the folder for files that travel between stages."""
        Path(self.exchange).mkdir()
        try:
            yield
        finally:
            shutil.rmtree(self.exchange, ignore_errors=True)

    def name(self, file: Path) -> str:
        """Return a file as the manifest names it."""
        return f"{self.folder.name}/{file.name}"

    def dedupe(self, chunks: dict[str, Chunks], stage: Dedupe) -> dict[str, Chunks]:
        """Return the parts of distinct edges of each relation."""
        items: list[dict[str, Any]] = []
        for name, mine in chunks.items():
            runs = [chunk["run"] for chunk in mine if chunk["run"]["rows"]]
            sources = [{part: run[part] for part in ("file", "ranking") if part in run} for run in runs]
            items += [
                {"relation": name, "runs": sources, "bounds": bounds} for bounds in (cut(runs, self.part) if runs else ())
            ]
        done = self.run(stage, items)
        parts: dict[str, Chunks] = {name: [] for name in chunks}
        for item, part in zip(items, done, strict=True):
            parts[item["relation"]].append(part)
        for file in {run["file"] for item in items for run in item["runs"]}:
            Path(file).unlink()
        return parts

    def write_tries(self, parts: dict[str, Chunks], code: Code, kind: np.dtype[Any]) -> None:
        """Write the column orders of each relation: two, or one that serves for both if edges have no direction."""
        directed = self.directed
        self.progress("giving edges their codes")
        items = [{"relation": name, "edges": p["edges"], "directed": directed} for name, mine in parts.items() for p in mine]
        coded = self.run(code, items)
        self.progress("sorting edges")
        files: dict[tuple[str, int], tuple[Path, Path]] = {}
        work: list[LevelPart] = []
        for name in parts:
            runs = [run for item, run in zip(items, coded, strict=True) if item["relation"] == name]
            for order in range(2 if directed else 1):
                stem = self.folder / f"{name}.{'0-1' if order == 0 else '1-0'}"
                files[name, order], level = level_parts(
                    [r[order] for r in runs], stem, nodes=code.shards.size, kind=kind, part=self.part
                )
                work += level
        self.run(write_part, work)
        for name, mine in parts.items():
            tuples = sum(part["rows"] for part in mine) * (1 if directed else 2)
            orders = [self._order([files[name, order]]) for order in range(2 if directed else 1)]
            self.relations[name] = RelationEntry(
                domains=(VERTEX, VERTEX),
                tuples=tuples,
                symmetric=not directed,
                loops=sum(part["loops"] for part in mine),
                orders={(0, 1): orders[0], (1, 0): orders[-1]},
                catalogue=sample([_trie(files[name, order], code.shards) for order in range(2 if directed else 1)]),
            )

    def _order(self, levels: Sequence[tuple[Path, Path]]) -> OrderEntry:
        offsets = map_array(levels[-1][0])
        return OrderEntry(
            tuple(LevelEntry(offsets=self.name(o), values=self.name(v)) for o, v in levels),
            list_statistics(np.asarray(offsets)),
        )

    def write_rows(self, name: str, chunks: Chunks, code: Code, kind: np.dtype[Any], size: int) -> None:
        """Write the rows of each pair: a further level below the pairs in column order (0, 1)."""
        upper = tuple(self.folder / f"{name}.0-1.{part}.npy" for part in ("offsets", "values"))
        pairs = self.relations[name].tuples
        directed = self.directed
        place = PlaceRows(self.exchange, code, str(upper[0]), str(upper[1]), pairs, size)
        runs = self.run(place, [{**chunk, "directed": directed} for chunk in chunks if chunk["rows"]])
        files, parts = level_parts(runs, self.folder / f"{name}.0-1-2", nodes=pairs, kind=kind, part=self.part)
        self.run(write_part, parts)
        domain = f"{name} edge"
        rows = RelationEntry(
            domains=(VERTEX, VERTEX, domain),
            tuples=sum(run["rows"] for run in runs),
            symmetric=not directed,
            loops=0,
            orders={(0, 1, 2): self._order([(upper[0], upper[1]), files])},
        )
        self.relations[name] = replace(self.relations[name], rows=rows)
        self.domains.setdefault(domain, DomainEntry(size, "int64"))

    def add_properties(self, domain: str, files: Sequence[Path]) -> None:
        """Enter the columns that a domain's values have: Arrow files by code, one after another."""
        if files:
            properties = {field.name: str(field.type) for field in map_table(files[0]).schema}
            names = tuple(self.name(file) for file in files)
            self.domains[domain] = replace(self.domains[domain], properties=properties, files=names)

    def enter_fate(self, name: str, *, rows: int, nulls: int, loops: int) -> None:
        """Enter what became of a relation's rows: how many were read, and how many of them added nothing to the set."""
        relation = self.relations[name]
        kept = relation.tuples if self.directed else relation.tuples // 2
        dropped = nulls + (0 if self.directed else loops)
        source = SourceEntry(rows, nulls, loops, duplicates=rows - dropped - kept)
        self.relations[name] = replace(relation, source=source)

    def manifest(self, kind: np.dtype[Any]) -> Manifest:
        """Return what a build decides of the manifest."""
        offsets = (map_array(self.folder.parent / file) for file in degree_files(self.relations))
        degrees = degrees_of(offsets, Shards(self.shards, self.domains[VERTEX].size))
        return Manifest(kind.name, self.shards, self.domains, self.relations, degrees_entry(degrees))


def _trie(files: tuple[Path, Path], shards: Shards) -> Trie:
    return Trie((Level(*(map_array(file) for file in files)),), shards=shards)
