"""Stages that write a trie's levels: each task merges its part of the runs and writes it at its place in the final files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bigjoin.index.trie import Level, Trie
from bigjoin.ingest.edges import Code
from bigjoin.ingest.runs import Pair, cut, key_type, merge, open_run, pack, position, unpack, write_run
from bigjoin.storage.arrays import create_array, map_array, write_slice

LISTS_PER_BLOCK = 1 << 20
"""Lists whose offsets are computed at once."""


def level_parts(
    runs: Sequence[dict[str, Any]], stem: Path, *, nodes: int, kind: np.dtype[Any], part: int
) -> tuple[tuple[Path, Path], list[LevelPart]]:
    """Create the files of a level, offsets and values; return them, and the parts that fill them from runs of (node, value)."""
    offsets, values = stem.with_name(f"{stem.name}.offsets.npy"), stem.with_name(f"{stem.name}.values.npy")
    runs = [entry for entry in runs if entry["rows"]]
    create_array(offsets, np.dtype(np.int64), nodes + 1)
    create_array(values, kind, sum(entry["rows"] for entry in runs))
    files = tuple(entry["file"] for entry in runs)
    bounds = cut(runs, part) if runs else []
    firsts = np.zeros(len(bounds), np.int64)
    for file in files:
        keys = open_run(file)
        firsts += [position(keys, low) for low, _ in bounds]
    parts = [
        LevelPart(files, low, high, int(first), str(offsets), str(values), nodes, kind.name)
        for (low, high), first in zip(bounds, firsts, strict=True)
    ]
    return (offsets, values), parts


@dataclass(frozen=True)
class LevelPart:
    """The keys between two cuts, which begin at `first` among all, and the files that they go to."""

    files: tuple[str, ...]
    low: Pair
    high: Pair
    first: int
    offsets: str
    values: str
    nodes: int
    kind: str

    def node(self, bound: Pair, default: int) -> int:
        """Return the first node whose list begins at a cut or after it."""
        return default if bound is None else bound[0] + (bound[1] > 0)


def write_part(part: LevelPart) -> None:
    """Stage: write the values between two cuts, and the offsets of the lists that begin there."""
    major, minor = unpack(merge(part.files, part.low, part.high))
    write_slice(part.values, part.first, minor.astype(part.kind, copy=False))
    first, last = part.node(part.low, 0), part.node(part.high, part.nodes + 1)
    for begin in range(first, last, LISTS_PER_BLOCK):
        end = min(begin + LISTS_PER_BLOCK, last)
        low, high = np.searchsorted(major, np.array([begin, min(end, part.nodes)], major.dtype)) if len(major) else (0, 0)
        lengths = np.bincount(major[low:high].astype(np.int64) - begin, minlength=end - begin)
        write_slice(part.offsets, begin, np.cumsum(lengths) - lengths + (part.first + low))


@dataclass(frozen=True)
class PlaceRows:
    """Stage: find the pair that each row of a chunk belongs to, and sort rows by (place of the pair, row)."""

    folder: str
    code: Code
    offsets: str
    values: str
    pairs: int
    rows: int

    def __call__(self, item: dict[str, Any]) -> dict[str, Any]:
        level = Level(*(map_array(file) for file in (self.offsets, self.values)))
        trie = Trie((level,), shards=self.code.shards)
        ranks = map_array(item["ranks"])
        src, dst = self.code.coded(list(ranks[:2]))
        rows = ranks[2] if len(ranks) > 2 else np.arange(item["first"], item["first"] + len(src))
        if not item["directed"]:
            proper = src != dst
            src, dst, rows = (array[proper] for array in (src, dst, rows))
            src, dst, rows = np.concatenate([src, dst]), np.concatenate([dst, src]), np.concatenate([rows, rows])
        places = trie.nodes([src, dst], len(src))
        return write_run(pack(places, rows, key_type(self.pairs, self.rows)), self.folder, distinct=False)
