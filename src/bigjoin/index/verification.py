"""Whether arrays make sense, alone and beside what the manifest says of them: kernels trust them blindly from then on.

Checksums tell that a file is what was written. This tells that what was written can be read safely, whoever wrote it: no list
leads outside another, lists rise, codes exist, ranks are a permutation in the order of the ids. And it tells whether the
manifest's figures are those of the arrays, and, by a sample, whether all column orders of a relation hold the same tuples.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from math import isclose
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bigjoin.index.entries import ColumnOrder, DegreesEntry, DomainEntry, RelationEntry
from bigjoin.index.stage_runner import in_threads
from bigjoin.index.trie import Level, Trie
from bigjoin.index.values import take
from bigjoin.kernels.sound import count_loops, falls_at_starts, is_permutation, measured_lists
from bigjoin.query.statistics import ListStatistics

VALUES_PER_PIECE = 1 << 20
"""Values that are looked at together."""
VALUES_PER_COMPARISON = 1 << 18
"""Values that are compared with their neighbours at once: they stay in the processor's cache."""
COMPARED_TUPLES = 1 << 10
"""Tuples that are looked up in all column orders."""


class UnsoundError(Exception):
    """Arrays that make no sense, or not the sense that the manifest says."""


def check_relation(entry: RelationEntry, orders: Mapping[ColumnOrder, Trie], sizes: Mapping[str, int]) -> None:
    """Raise UnsoundError unless a relation's tries are sound, and hold as many tuples: the same, as far as a sample tells."""
    means = {columns: (id(trie), tuple(entry.domains[c] for c in columns)) for columns, trie in orders.items()}
    once = {meaning: columns for columns, meaning in means.items()}  # one trie may serve several orders

    def measure(columns: ColumnOrder) -> ListStatistics:
        return _check_trie(columns, orders[columns], [sizes[entry.domains[c]] for c in columns])

    found = dict(zip(once, in_threads(measure, list(once.values())), strict=True))
    for columns, meaning in means.items():
        _check_statistics(columns, entry.orders[columns].lists, found[meaning])
    counts = {len(trie) for trie in orders.values()}
    if len(counts) > 1:
        raise UnsoundError(f"its column orders hold {_listed(sorted(counts))} tuples")
    _check_same(orders)
    if len(entry.domains) == 2 and entry.domains[0] == entry.domains[1] and not entry.is_stored_result:
        _check_loops(entry, orders[0, 1])


def _check_trie(columns: ColumnOrder, trie: Trie, domains: Sequence[int]) -> ListStatistics:
    """Raise UnsoundError unless a trie is sound; return the figures of its last lists."""
    nodes = domains[0] if trie.keyed else 1
    for level, domain in zip(trie.levels, domains[1:] if trie.keyed else domains, strict=True):
        if len(level.offsets) != nodes + 1:
            raise UnsoundError(f"its offsets in column order {_listed(columns)} are {len(level.offsets)}, not {nodes + 1}")
        keys, squares, longest = measured_lists(level.offsets, len(level.values))
        if longest < 0:
            raise UnsoundError(f"its offsets in column order {_listed(columns)} lead outside its values")
        if not all(in_threads(_Lists(level, domain), _pieces(level.offsets))):
            raise UnsoundError(f"its lists in column order {_listed(columns)} do not rise, or hold codes that there are not")
        nodes = len(level.values)
    if not nodes:
        return ListStatistics(keys=0, mean=0.0, typical=0.0, longest=0)
    return ListStatistics(keys=keys, mean=nodes / keys, typical=squares / nodes, longest=longest)


class _Lists:
    """Whether the lists of some nodes rise strictly, and stay below the size of a domain."""

    def __init__(self, level: Level, domain: int) -> None:
        self.level, self.domain = level, domain

    def __call__(self, nodes: tuple[int, int]) -> bool:
        offsets, values = self.level.offsets, self.level.values
        expected = falls_at_starts(offsets, values, *nodes, self.domain)
        if expected < 0:
            return False
        first, last = (int(offsets[node]) for node in nodes)
        falls = 0
        for start in range(first, last, VALUES_PER_COMPARISON):
            part = values[start : min(start + VALUES_PER_COMPARISON + 1, last)]
            falls += int(np.count_nonzero(part[1:] <= part[:-1]))
        return bool(falls == expected)


def _pieces(offsets: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return ranges of nodes with about as many values each; a long list is one of its own."""
    bounds = np.searchsorted(offsets, np.arange(0, int(offsets[-1]), VALUES_PER_PIECE), side="left")
    cuts = np.unique(np.concatenate([[0], bounds, [len(offsets) - 1]])).tolist()
    return [(first, last) for first, last in pairwise(cuts) if first < last]


def _check_statistics(columns: ColumnOrder, said: ListStatistics, found: ListStatistics) -> None:
    """Compare the manifest's figures about lists with the lists: plans are chosen, and buffers cut, by them."""
    for name, figure in asdict(found).items():
        if not isclose(figure, getattr(said, name), rel_tol=1e-9):
            where = f"orders.{','.join(map(str, columns))}.lists.{name}"
            raise UnsoundError(f"{where} is {getattr(said, name)}, and {figure} by its lists")


def _check_same(orders: Mapping[ColumnOrder, Trie]) -> None:
    """Look some tuples of one column order up in the others, which hold as many: all of them, if there are few.

    Damage is told by checksums. This tells files that belong to something else, or that are dealt to another number of shards.
    Orders that differ in a few tuples give answers that differ, and do no harm: each is sound by itself.
    """
    (columns, trie), *others = orders.items()
    drawn = np.random.default_rng().integers(0, max(1, len(trie)), COMPARED_TUPLES)
    positions = np.arange(len(trie)) if len(trie) <= COMPARED_TUPLES else np.sort(drawn)
    tuples = dict(zip(columns, trie.tuples(positions), strict=True))
    for other, held in others:
        if not held.contains([tuples[c] for c in other]).all():
            raise UnsoundError("its column orders hold different tuples")


def _check_loops(entry: RelationEntry, trie: Trie) -> None:
    """Count the pairs of a value with itself; a relation with names for its columns counts rows, of which some may be equal."""
    level, shards = trie.levels[0], trie.shards
    starts = [(shards.first(shard), shards.first(shard + 1), shard) for shard in range(min(shards.count, shards.size))]

    def count(piece: tuple[int, int, int]) -> int:
        return int(count_loops(level.offsets, level.values, *piece, shards.count))

    pieces = [
        (first, min(first + VALUES_PER_PIECE, stop), shard + shards.count * (first - start))
        for start, stop, shard in starts
        for first in range(start, stop, VALUES_PER_PIECE)
    ]
    loops = sum(in_threads(count, pieces))
    if (loops == 0) != (entry.loops == 0) or (not entry.columns and loops != entry.loops):
        raise UnsoundError(f"loops is {entry.loops}, and {loops} by its lists")


def check_degrees(said: DegreesEntry, found: DegreesEntry) -> None:
    """Raise UnsoundError unless the manifest's figures are those of the lists."""
    for name in ("histogram", "hubs"):
        one, other = getattr(said, name), getattr(found, name)
        if one != other:
            raise UnsoundError(f"degrees.{name} is {str(one)[:100]}, and {str(other)[:100]} by the lists")


def check_ids(entry: DomainEntry, ids: pa.ChunkedArray, ranks: NDArray[Any]) -> None:
    """Raise UnsoundError unless the ids that an index was built with are distinct, and ranks say their order."""
    check_column("ids", ids, entry.type, entry.stored_size)
    if len(ranks) != len(ids) or ids.null_count:
        raise UnsoundError(f"it has {len(ids) - ids.null_count} ids and {len(ranks)} ranks for {entry.stored_size} codes")
    if not is_permutation(ranks, np.zeros(len(ranks), np.uint8)):
        raise UnsoundError("its ranks are no permutation")
    if not _follow(ids, ranks):
        raise UnsoundError("its ranks are not in the order of its ids")


def _follow(ids: pa.ChunkedArray, ranks: NDArray[Any]) -> bool:
    """Tell whether ids rise with their ranks."""
    if pa.types.is_integer(ids.type):
        numbers = np.concatenate([np.empty(0, ids.type.to_pandas_dtype()), *(chunk.to_numpy() for chunk in ids.chunks)])
        ordered = np.empty_like(numbers)
        ordered[ranks] = numbers
        return bool((ordered[1:] > ordered[:-1]).all())
    codes = np.empty(len(ranks), np.int64)
    codes[ranks] = np.arange(len(ranks))
    return all(in_threads(_Rising(ids, codes), range(0, len(ids), VALUES_PER_COMPARISON)))


class _Rising:
    """Whether no id is as large as the next one, from one of them on: NaN, which compares with nothing, may be last."""

    def __init__(self, ids: pa.ChunkedArray, codes: NDArray[np.int64]) -> None:
        self.ids, self.codes = ids, codes

    def __call__(self, first: int) -> bool:
        ordered = take(self.ids, self.codes[first : first + VALUES_PER_COMPARISON + 1])
        return len(ordered) < 2 or not pc.any(pc.greater_equal(ordered[:-1], ordered[1:])).as_py()


def check_late_ids(ids: pa.ChunkedArray, kind: str, size: int) -> None:
    """Raise UnsoundError unless ids with those that came later are as many as codes, and distinct."""
    check_column("ids", ids, kind, size)
    if ids.null_count or pc.count_distinct(ids).as_py() != size:
        raise UnsoundError("its ids are not distinct")


def check_column(name: str, column: pa.ChunkedArray, kind: str, length: int) -> None:
    """Raise UnsoundError unless Arrow finds a column whole and can take values from it, and it has a type and a length."""
    try:
        column.validate(full=True)
        some = pa.chunked_array([*column.slice(0, 1).chunks, pa.nulls(1, column.type)]).take(pa.array([0]))
        some.combine_chunks()
    except pa.ArrowException as error:
        raise UnsoundError(f"{name} cannot be read ({str(error)[:200]})") from None
    if str(column.type) != kind or len(column) != length:
        raise UnsoundError(f"{name} has {len(column)} values of type {column.type} instead of {length} of type {kind}")


def _listed(values: Iterable[int]) -> str:
    return ", ".join(map(str, values))
