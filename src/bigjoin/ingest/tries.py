"""Stages that store tuples of codes, of any width and from any number of files, as tries.

Tries are written level by level. Each tuple finds the place of its first columns in the levels above, and a level is the sorted
distinct pairs of (place, next column). So one external sort of pairs stores edges, rows with a number, and results of queries.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.manifest_entries import ColumnOrder, LevelEntry, OrderEntry
from bigjoin.index.shards import Shards
from bigjoin.index.stage_runner import StageRunner, in_threads
from bigjoin.index.trie import Level, Trie, list_statistics
from bigjoin.ingest.radix import BLOCK_KEYS, MIN_KEYS_BY_DIGIT, Keys
from bigjoin.ingest.sorting import Cut, KeyPart, SortedKeys, cut, key_type, pack, position, run_in_groups, unpack, write_sorted
from bigjoin.kernels.edges import write_lists
from bigjoin.kernels.gather import gather
from bigjoin.storage.arrays import create_array, map_array, write_slice

LISTS_PER_BLOCK = 1 << 20
"""Lists whose offsets are computed at once."""


@contextmanager
def exchange_in(folder: Path) -> Iterator[str]:
    """Create a folder for files that travel between stages, and remove it afterwards."""
    exchange = folder / "exchange"
    exchange.mkdir()
    try:
        yield str(exchange)
    finally:
        shutil.rmtree(exchange, ignore_errors=True)


@dataclass(frozen=True)
class TupleChunk:
    """Some tuples, in a file with a row for each of their columns.

    `lookups` names, by column, the files in which its values are looked up, one after the other, to get codes. With
    `first_row`, which is the number of the first tuple, the number of each tuple is a further column. With `both_ways`, the
    first two columns are an undirected edge, which stands for both of its directions, and a loop for none.
    """

    file: str
    lookups: tuple[tuple[str, ...], ...] = ()
    first_row: int | None = None
    both_ways: bool = False

    def columns(self) -> list[NDArray[Any]]:
        """Return the codes, column by column."""
        columns = list(map_array(self.file))
        for place, files in enumerate(self.lookups):
            found = [map_array(file) for file in files]
            if found:
                columns[place] = _looked_up(reduce(lambda places, next_: next_[places], found), columns[place])
        if self.first_row is not None:
            columns.append(np.arange(self.first_row, self.first_row + len(columns[0])))
        if not self.both_ways:
            return columns
        proper = columns[0] != columns[1]
        src, dst, *further = columns if proper.all() else [column[proper] for column in columns]
        return [np.concatenate(pair) for pair in ((src, dst), (dst, src), *((column, column) for column in further))]


def _looked_up(values: NDArray[Any], places: NDArray[Any]) -> NDArray[Any]:
    """Return the values at some places."""
    found = np.empty(len(places), values.dtype)
    if len(places) < MIN_KEYS_BY_DIGIT:
        np.take(values, places, out=found)
    else:
        gather(values, places, found)
    return found


@dataclass(frozen=True)
class TrieToWrite:
    """A column order of a relation's tuples that is to be stored.

    `sizes` says, by column of the relation, how many codes its domain has; `above` are the first levels, if they are stored
    already. Where tuples are `distinct`, the last level has nothing to drop.
    """

    relation: str
    order: ColumnOrder
    sizes: tuple[int, ...]
    chunks: tuple[TupleChunk, ...]
    distinct: bool = False
    above: tuple[LevelEntry, ...] = ()


@dataclass(frozen=True)
class NextLevel:
    """A level that is to be written: `nodes` lists of codes below `size`, one for each place in the levels above.

    `columns` are those from the first level to this one, and `above` the files of the levels above: offsets and values.
    """

    columns: ColumnOrder
    above: tuple[tuple[str, str], ...]
    shards: Shards
    nodes: int
    size: int
    distinct: bool
    offsets: str
    values: str
    kind: np.dtype[Any]


@dataclass(frozen=True)
class TrieWriter:
    """Where tries are written, and how: by `run`, codes of one type, dealt to shards, about `part` tuples at a time."""

    folder: Path
    exchange: str
    run: StageRunner
    kind: np.dtype[Any]
    shards: int
    part: int

    def write(self, tries: Sequence[TrieToWrite]) -> list[tuple[OrderEntry, int]]:
        """Write tries, one level of all of them at a time; return the entry of each, and how many tuples it has."""
        levels = [(self._only_list(trie),) if len(trie.order) == 1 else trie.above for trie in tries]
        for depth in range(max((len(trie.order) for trie in tries), default=0) - 1):
            deep = [n for n, trie in enumerate(tries) if len(levels[n]) == depth < len(trie.order) - 1]
            below = [self._next_level(tries[n], levels[n]) for n in deep]
            self._write_levels(below, [tries[n].chunks for n in deep])
            for n, level in zip(deep, below, strict=True):
                levels[n] = (*levels[n], LevelEntry(self._name(level.values), self._name(level.offsets)))
        return [self._entry(entries) for entries in levels]

    def write_sorted(self, relation: str, order: ColumnOrder, size: int, keys: Keys) -> tuple[OrderEntry, int]:
        """Write the trie of pairs, given as distinct sorted keys of (node, code), in this process; return what `write` does."""
        level = self._next_level(TrieToWrite(relation, order, (size, size), ()), ())
        offsets = np.empty(level.nodes + 1, np.int64)
        create_array(level.offsets, offsets.dtype, len(offsets))
        create_array(level.values, self.kind, len(keys))

        def write(first: int) -> None:
            last = min(first + BLOCK_KEYS, len(keys))
            values = np.empty(last - first, self.kind)
            write_lists(keys, first, last, offsets, values)
            write_slice(level.values, first, values)

        in_threads(write, range(0, max(1, len(keys)), BLOCK_KEYS))
        write_slice(level.offsets, 0, offsets)
        return self._entry((LevelEntry(self._name(level.values), self._name(level.offsets)),))

    def _next_level(self, trie: TrieToWrite, above: tuple[LevelEntry, ...]) -> NextLevel:
        depth = len(above)
        stem = f"{self.folder}/{trie.relation}.{'-'.join(map(str, trie.order))}"
        if depth < len(trie.order) - 2:
            stem += f".{depth}"
        files = tuple((str(self._path(level.offsets)), str(self._path(level.values))) for level in above)
        shards = Shards(self.shards, trie.sizes[trie.order[0]])
        nodes = len(map_array(files[-1][1])) if above else shards.size
        distinct = trie.distinct and depth == len(trie.order) - 2
        size = trie.sizes[trie.order[depth + 1]]
        columns = trie.order[: depth + 2]
        written = f"{stem}.offsets.npy", f"{stem}.values.npy"
        return NextLevel(columns, files, shards, nodes, size, distinct, *written, self.kind)

    def _write_levels(self, levels: Sequence[NextLevel], chunks: Sequence[Sequence[TupleChunk]]) -> None:
        """Write levels of as many tries, whose tuples are in chunks."""
        placing = [[(level, chunk) for chunk in mine] for level, mine in zip(levels, chunks, strict=True)]
        placed = run_in_groups(self.run, PlaceTuples(self.exchange), placing)
        merging = [[] if level.distinct else cut(files, self.part) for level, files in zip(levels, placed, strict=True)]
        merged = run_in_groups(self.run, MergeSorted(self.exchange), merging)
        distinct = (files if level.distinct else fewer for level, files, fewer in zip(levels, placed, merged, strict=True))
        parts = [self._level_parts(level, files) for level, files in zip(levels, distinct, strict=True)]
        run_in_groups(self.run, write_part, parts)
        for file in (file for files in (*placed, *merged) for file in files):
            Path(file.file).unlink()

    def _level_parts(self, level: NextLevel, files: Sequence[SortedKeys]) -> list[tuple[NextLevel, KeyPart, int]]:
        """Create the files of a level; return the parts of its distinct keys, and where each begins among all."""
        create_array(level.offsets, np.dtype(np.int64), level.nodes + 1)
        create_array(level.values, self.kind, sum(file.rows for file in files))
        parts = cut(files, self.part)
        firsts = np.zeros(len(parts), np.int64)
        for file, _ in parts[0].files if parts else ():
            keys = map_array(file)
            firsts += [position(keys, part.low) for part in parts]
        return [(level, part, int(first)) for part, first in zip(parts, firsts, strict=True)]

    def _only_list(self, trie: TrieToWrite) -> LevelEntry:
        """Write the values of a relation with one column."""
        found = [np.unique(chunk.columns()[trie.order[0]]) for chunk in trie.chunks]
        file = self.folder / f"{trie.relation}.{trie.order[0]}.values.npy"
        np.save(file, np.unique(np.concatenate([np.empty(0, self.kind), *found])).astype(self.kind))
        return LevelEntry(self._name(file))

    def _entry(self, levels: tuple[LevelEntry, ...]) -> tuple[OrderEntry, int]:
        tuples = len(map_array(self._path(levels[-1].values)))
        offsets = levels[-1].offsets
        lists = np.array([0, tuples], np.int64) if offsets is None else map_array(self._path(offsets))
        return OrderEntry(levels, list_statistics(lists)), tuples

    def _name(self, file: str | Path) -> str:
        return f"{self.folder.name}/{Path(file).name}"

    def _path(self, name: str | None) -> Path:
        assert name is not None
        return self.folder.parent / name

    def open(self, order: OrderEntry, size: int) -> Trie:
        """Return a trie that was written, whose first column has a domain of `size` codes."""
        levels = (Level(map_array(self._path(level.offsets)), map_array(self._path(level.values))) for level in order.levels)
        return Trie(tuple(levels), shards=Shards(self.shards, size))


@dataclass(frozen=True)
class PlaceTuples:
    """Stage: find the places of a chunk's tuples in the levels above, and sort the distinct (place, next column)."""

    folder: str

    def __call__(self, item: tuple[NextLevel, TupleChunk]) -> SortedKeys:
        level, chunk = item
        columns = chunk.columns()
        *first, last = (columns[c] for c in level.columns)
        above = (Level(map_array(offsets), map_array(values)) for offsets, values in level.above)
        places = Trie(tuple(above), shards=level.shards).nodes(first, len(last))
        return write_sorted(pack(places, last, key_type(level.nodes, level.size)), self.folder, distinct=level.distinct)


@dataclass(frozen=True)
class MergeSorted:
    """Stage: merge a part of sorted files into one file without repetitions."""

    folder: str

    def __call__(self, part: KeyPart) -> SortedKeys:
        return write_sorted(part.merged(), self.folder)


def write_part(item: tuple[NextLevel, KeyPart, int]) -> None:
    """Stage: write the values between two cuts at their place in the file, and the offsets of the lists that begin there."""
    level, part, first = item
    major, minor = unpack(part.merged())
    write_slice(level.values, first, minor.astype(level.kind, copy=False))
    last_node = _first_node(part.high, level.nodes + 1)
    for begin in range(_first_node(part.low, 0), last_node, LISTS_PER_BLOCK):
        end = min(begin + LISTS_PER_BLOCK, last_node)
        low, high = np.searchsorted(major, np.array([begin, min(end, level.nodes)], major.dtype)) if len(major) else (0, 0)
        lengths = np.bincount(major[low:high].astype(np.int64) - begin, minlength=end - begin)
        write_slice(level.offsets, begin, np.cumsum(lengths) - lengths + (first + low))


def _first_node(bound: Cut, default: int) -> int:
    """Return the first node whose list begins at a cut or after it."""
    return default if bound is None else bound[0] + (bound[1] > 0)
