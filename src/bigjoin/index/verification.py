"""Whether arrays make sense, by themselves and compared with the manifest: from then on kernels trust them blindly.

Checksums tell that a file is what was written. These checks tell that what was written can be read safely, whoever wrote it: no
offset leads outside its values, lists rise, codes exist, ranks are a permutation in the order of the ids. They also compare the
manifest's figures with the arrays and, by a sample, the column orders of a relation with each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import pairwise
from math import isclose
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bigjoin.index.manifest_entries import ColumnOrder, DomainEntry, RelationEntry
from bigjoin.index.replaced_columns import CODE
from bigjoin.index.stage_runner import in_threads
from bigjoin.index.trie import Level, Trie, list_statistics
from bigjoin.index.values import take
from bigjoin.kernels.sound import count_loops, falls_at_starts, is_permutation
from bigjoin.query.statistics import ListStatistics

VALUES_PER_PIECE = 1 << 20
"""About how many values one thread checks at a time."""
VALUES_PER_COMPARISON = 1 << 18
"""How many values are compared with their neighbours at once, so that they stay in the processor's cache."""
COMPARED_TUPLES = 1 << 10
"""How many tuples are looked up in all column orders."""


class UnsoundError(Exception):
    """Arrays that make no sense, or contradict the manifest."""


def check_relation(entry: RelationEntry, orders: Mapping[ColumnOrder, Trie], sizes: Mapping[str, int]) -> None:
    """Raise UnsoundError unless a relation's tries are sound and, as far as a sample tells, hold the same tuples."""
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
    """Raise UnsoundError unless a trie is sound; return the statistics of its last level."""
    nodes = domains[0] if trie.keyed else 1
    for level, domain in zip(trie.levels, domains[1:] if trie.keyed else domains, strict=True):
        if len(level.offsets) != nodes + 1:
            raise UnsoundError(f"its offsets in column order {_listed(columns)} are {len(level.offsets)}, not {nodes + 1}")
        try:
            statistics = list_statistics(level.offsets, len(level.values))
        except ValueError:
            raise UnsoundError(f"its offsets in column order {_listed(columns)} lead outside its values") from None
        if not all(in_threads(partial(_lists_rise, level, domain), _pieces(level.offsets))):
            raise UnsoundError(f"its lists in column order {_listed(columns)} do not rise, or hold codes that do not exist")
        nodes = len(level.values)
    return statistics


def _lists_rise(level: Level, domain: int, nodes: tuple[int, int]) -> bool:
    """Tell whether the lists of nodes [first, last) rise strictly, and stay below the size of a domain."""
    expected = falls_at_starts(level.offsets, level.values, *nodes, domain)
    first, last = (int(level.offsets[node]) for node in nodes)
    falls = 0
    for start in range(first, last, VALUES_PER_COMPARISON):
        part = level.values[start : min(start + VALUES_PER_COMPARISON + 1, last)]
        falls += int(np.count_nonzero(part[1:] <= part[:-1]))
    return bool(falls == expected)


def _pieces(offsets: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return ranges of nodes with about VALUES_PER_PIECE values each; a longer list is a range of its own."""
    bounds = np.searchsorted(offsets, np.arange(0, int(offsets[-1]), VALUES_PER_PIECE), side="left")
    cuts = np.unique(np.concatenate([[0], bounds, [len(offsets) - 1]])).tolist()
    return [(first, last) for first, last in pairwise(cuts) if first < last]


def _check_statistics(columns: ColumnOrder, said: ListStatistics, found: ListStatistics) -> None:
    """Compare the manifest's figures with the lists: plans are chosen by them, and buffers are sized by them."""
    stated = asdict(said)
    for name, figure in asdict(found).items():
        if not isclose(figure, stated[name], rel_tol=1e-9):
            where = f"orders.{','.join(map(str, columns))}.lists.{name}"
            raise UnsoundError(f"{where} is {stated[name]}, and {figure} by its lists")


def _check_same(orders: Mapping[ColumnOrder, Trie]) -> None:
    """Look up some tuples of one column order, or all if they are few, in the others, which hold as many.

    Checksums tell damage. This finds files of another index, or with another number of shards. Orders that differ in a few
    tuples give inconsistent answers, but do no harm: each is sound by itself.
    """
    (columns, trie), *others = orders.items()
    drawn = np.random.default_rng().integers(0, max(1, len(trie)), COMPARED_TUPLES)
    positions = np.arange(len(trie)) if len(trie) <= COMPARED_TUPLES else np.sort(drawn)
    tuples = dict(zip(columns, trie.tuples(positions), strict=True))
    for other, held in others:
        if not held.contains([tuples[c] for c in other]).all():
            raise UnsoundError("its column orders hold different tuples")


def _check_loops(entry: RelationEntry, trie: Trie) -> None:
    """Count the pairs of a value with itself; a relation with named columns counts rows, of which some may be equal."""
    level, shards = trie.levels[0], trie.shards

    def count(piece: tuple[int, int]) -> int:
        shard, first = piece
        start, stop = shards.first(shard), shards.first(shard + 1)
        code = shard + shards.count * (first - start)
        return int(count_loops(level.offsets, level.values, first, min(first + VALUES_PER_PIECE, stop), code, shards.count))

    shard_starts = ((shard, shards.first(shard), shards.first(shard + 1)) for shard in range(min(shards.count, shards.size)))
    pieces = [(shard, first) for shard, start, stop in shard_starts for first in range(start, stop, VALUES_PER_PIECE)]
    loops = sum(in_threads(count, pieces))
    if (loops == 0) != (entry.loops == 0) or (not entry.columns and loops != entry.loops):
        raise UnsoundError(f"loops is {entry.loops}, and {loops} by its lists")


def check_ids(ids: pa.ChunkedArray, ranks: NDArray[Any]) -> None:
    """Raise UnsoundError unless ids are distinct and `ranks` are their ranks."""
    if len(ranks) != len(ids) or ids.null_count:
        raise UnsoundError(f"it has {len(ids) - ids.null_count} ids and {len(ranks)} ranks for {len(ids)} codes")
    if not is_permutation(ranks, np.zeros(len(ranks), np.uint8)):
        raise UnsoundError("its ranks are not a permutation")
    by_rank: NDArray[Any] = np.empty(len(ids), ids.type.to_pandas_dtype() if pa.types.is_integer(ids.type) else np.int64)
    if pa.types.is_integer(ids.type):
        by_rank[ranks] = np.asarray(ids)
        rises = bool((by_rank[1:] > by_rank[:-1]).all())
    else:
        by_rank[ranks] = np.arange(len(ids))
        rises = all(in_threads(partial(_ids_rise, ids, by_rank), range(0, len(ids), VALUES_PER_COMPARISON)))
    if not rises:
        raise UnsoundError("its ranks are not in the order of its ids")


def _ids_rise(ids: pa.ChunkedArray, codes: NDArray[np.int64], first: int) -> bool:
    """Tell whether no id is as large as the next one, from a position on; NaN, which compares with nothing, may be last."""
    ordered = take(ids, codes[first : first + VALUES_PER_COMPARISON + 1])
    return len(ordered) < 2 or not pc.any(pc.greater_equal(ordered[:-1], ordered[1:])).as_py()


def check_distinct_ids(ids: pa.ChunkedArray) -> None:
    """Raise UnsoundError unless ids are distinct; those that runs have added have no stored ranks."""
    if ids.null_count or pc.count_distinct(ids).as_py() != len(ids):
        raise UnsoundError("its ids are not distinct")


def check_column(name: str, column: pa.ChunkedArray, kind: str, length: int) -> None:
    """Raise UnsoundError unless a column has a type and a length, and Arrow finds it valid and can take values from it."""
    try:
        column.validate(full=True)
        some = pa.chunked_array([*column.slice(0, 1).chunks, pa.nulls(1, column.type)]).take(np.zeros(1, np.int64))
        some.combine_chunks()
    except pa.ArrowException as error:
        raise UnsoundError(f"{name} cannot be read ({str(error)[:200]})") from None
    if str(column.type) != kind or len(column) != length:
        raise UnsoundError(f"{name} has {len(column)} values of type {column.type} instead of {length} of type {kind}")


def check_replaced(table: pa.Table, entry: DomainEntry) -> None:
    """Raise UnsoundError unless replaced properties have the columns of their domain, and codes that it has."""
    check_column(CODE, table[CODE], "int64", len(table))
    for name, kind in entry.properties.items():
        check_column(f"changes.{name}", table[name], kind, len(table))
    codes = table[CODE]
    if codes.null_count or (len(codes) and not 0 <= pc.min(codes).as_py() <= pc.max(codes).as_py() < entry.size):
        raise UnsoundError(f"it replaces properties of codes that are not among its {entry.size}")


def _listed(values: Iterable[int]) -> str:
    return ", ".join(map(str, values))
