"""Stages that store tuples of codes, of any width and from any number of files, as the tries of a relation.

A trie is written level by level. Each tuple finds the place of its first columns in the levels above, and a level is the sorted
distinct pairs of (place, next column): the external sort of edges serves for these as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bigjoin.index.entries import LevelEntry, OrderEntry
from bigjoin.index.shards import Shards
from bigjoin.index.stage_runner import StageRunner
from bigjoin.index.trie import Level, Trie, list_statistics
from bigjoin.ingest.levels import level_parts, write_part
from bigjoin.ingest.runs import Pair, cut, key_type, merge, pack, unique, write_run
from bigjoin.storage.arrays import map_array


@dataclass(frozen=True)
class Tries:
    """Where the tries of a relation are written, and how."""

    folder: Path
    exchange: str
    run: StageRunner
    kind: np.dtype[Any]
    """Of codes."""
    shards: int
    part: int

    def write(self, name: str, chunks: Sequence[str], order: tuple[int, ...], sizes: Sequence[int]) -> tuple[OrderEntry, int]:
        """Write a column order of the tuples in some files; return its entry, and how many tuples there are.

        `sizes` are those of the domains.
        """
        if len(order) == 1:
            return self._list(name, chunks, order[0])
        shards = Shards(self.shards, sizes[order[0]])
        levels: list[tuple[Path, Path]] = []
        nodes = shards.size
        for depth, column in enumerate(order[1:]):
            above = tuple((str(offsets), str(values)) for offsets, values in levels)
            place = PlaceTuples(self.exchange, shards, above, order[: depth + 2], max(nodes, sizes[column]))
            runs = [found for found in self.run(place, list(chunks)) if found["rows"]]
            merging = MergeRuns(self.exchange, tuple(found["file"] for found in runs))
            merged = self.run(merging, cut(runs, self.part) if runs else [])
            stem = self.folder / f"{name}.{'-'.join(map(str, order))}.{depth}"
            files, parts = level_parts(merged, stem, nodes=nodes, kind=self.kind, part=self.part)
            self.run(write_part, parts)
            for found in (*runs, *merged):
                Path(found["file"]).unlink()
            levels.append(files)
            nodes = sum(found["rows"] for found in merged)
        entries = tuple(LevelEntry(offsets=self._name(offsets), values=self._name(values)) for offsets, values in levels)
        return OrderEntry(entries, list_statistics(np.asarray(map_array(levels[-1][0])))), nodes

    def _list(self, name: str, chunks: Sequence[str], column: int) -> tuple[OrderEntry, int]:
        values = np.unique(np.concatenate([np.empty(0, self.kind), *(np.unique(map_array(file)[column]) for file in chunks)]))
        file = self.folder / f"{name}.{column}.values.npy"
        np.save(file, values.astype(self.kind))
        lists = list_statistics(np.array([0, len(values)], np.int64))
        return OrderEntry((LevelEntry(self._name(file)),), lists), len(values)

    def _name(self, file: Path) -> str:
        return f"{self.folder.name}/{file.name}"


@dataclass(frozen=True)
class PlaceTuples:
    """Stage: find the places of a chunk's tuples in the levels above, and sort the distinct (place, next column)."""

    folder: str
    shards: Shards
    above: tuple[tuple[str, str], ...]
    order: tuple[int, ...]
    largest: int

    def __call__(self, chunk: str) -> dict[str, Any]:
        tuples = map_array(chunk)
        *columns, last = (tuples[c] for c in self.order)
        trie = Trie(tuple(Level(map_array(offsets), map_array(values)) for offsets, values in self.above), shards=self.shards)
        nodes = trie.nodes(columns, len(last))
        return write_run(pack(nodes, last, key_type(self.largest)), self.folder)


@dataclass(frozen=True)
class MergeRuns:
    """Stage: merge what lies between two cuts of some runs into a run without repetitions."""

    folder: str
    files: tuple[str, ...]

    def __call__(self, bounds: tuple[Pair, Pair]) -> dict[str, Any]:
        return write_run(unique(merge(self.files, *bounds)), self.folder)
