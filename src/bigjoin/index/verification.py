"""Whether arrays make sense, alone and beside what the manifest says of them: kernels trust them blindly from then on.

Checksums tell that a file is what was written. This tells that what was written can be read safely, whoever wrote it: no list
leads outside another, lists rise, codes exist, ranks are a permutation in the order of the ids. And it tells whether the
manifest's figures are those of the arrays, and whether all column orders of a relation hold the same tuples.
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

from bigjoin.index.dictionary import code_type
from bigjoin.index.entries import Columns, DegreesEntry, DomainEntry, OrderEntry, RelationEntry
from bigjoin.index.run import in_threads
from bigjoin.index.trie import Level, Trie, list_statistics
from bigjoin.index.values import take
from bigjoin.kernels.sound import FIRST, SECOND, falls_at_starts, fingerprint, is_permutation, longest_list

PIECE = 1 << 22
"""Values that are looked at together."""
BLOCK = 1 << 18
"""Values that are compared with their neighbours at once: they stay in the processor's cache."""


class UnsoundError(Exception):
    """Arrays that make no sense, or not the sense that the manifest says."""


def check_relation(entry: RelationEntry, orders: Mapping[Columns, Trie], sizes: Mapping[str, int]) -> None:
    """Raise UnsoundError unless a relation's tries are sound, and hold the same tuples."""
    domains = [sizes[domain] for domain in entry.domains]
    checked: dict[int, Columns] = {}
    for columns, trie in orders.items():
        if id(trie) not in checked:
            _check_trie(columns, trie, [domains[c] for c in columns])
            checked[id(trie)] = columns
        _check_statistics(columns, entry.orders[columns], trie)
    counts = {len(trie) for trie in orders.values()}
    if len(counts) > 1:
        raise UnsoundError(f"its column orders hold {_listed(sorted(counts))} tuples")
    if len(entry.domains) == 2 and not entry.is_stored_result:
        _check_pairs(entry, orders)
    elif len({_sum_of_tuples(columns, trie) for columns, trie in orders.items()}) > 1:
        raise UnsoundError("its column orders hold different tuples")


def _check_trie(columns: Columns, trie: Trie, domains: Sequence[int]) -> None:
    nodes = domains[0] if trie.keyed else 1
    for level, domain in zip(trie.levels, domains[1:] if trie.keyed else domains, strict=True):
        if len(level.offsets) != nodes + 1 or longest_list(level.offsets, len(level.values)) < 0:
            raise UnsoundError(f"its offsets in column order {_listed(columns)} lead outside its values")
        if not all(in_threads(_Lists(level, domain), _pieces(level.offsets))):
            raise UnsoundError(f"its lists in column order {_listed(columns)} do not rise, or hold codes that there are not")
        nodes = len(level.values)


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
        for start in range(first, last, BLOCK):
            part = values[start : min(start + BLOCK + 1, last)]
            falls += int(np.count_nonzero(part[1:] <= part[:-1]))
        return bool(falls == expected)


def _pieces(offsets: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return ranges of nodes with about as many values each; a long list is one of its own."""
    bounds = np.searchsorted(offsets, np.arange(0, int(offsets[-1]), PIECE), side="left")
    cuts = np.unique(np.concatenate([[0], bounds, [len(offsets) - 1]])).tolist()
    return [(first, last) for first, last in pairwise(cuts) if first < last]


def _check_statistics(columns: Columns, order: OrderEntry, trie: Trie) -> None:
    """Compare the manifest's figures about lists with the lists: plans are chosen, and buffers cut, by them."""
    found, said = asdict(list_statistics(trie.offsets)), asdict(order.lists)
    for name, figure in found.items():
        if not isclose(figure, said[name], rel_tol=1e-9):
            raise UnsoundError(f"orders.{','.join(map(str, columns))}.lists.{name} is {said[name]}, and {figure} by its lists")


def _check_pairs(entry: RelationEntry, orders: Mapping[Columns, Trie]) -> None:
    """Compare what all orders of pairs add up to, and the number of loops."""
    trie, reverse = orders.get((0, 1)), orders.get((1, 0))
    if trie is None:
        return
    if reverse is not None and _fingerprint(trie, (FIRST, SECOND)) != _fingerprint(reverse, (SECOND, FIRST)):
        raise UnsoundError("its column orders hold different pairs")
    if entry.domains[0] != entry.domains[1]:
        return
    codes = np.arange(trie.nodes_stored, dtype=trie.values.dtype)
    loops = int(trie.contains([codes, codes]).sum())
    if (loops == 0) != (entry.loops == 0) or (not entry.columns and loops != entry.loops):
        raise UnsoundError(f"loops is {entry.loops}, and {loops} by its lists")


def _fingerprint(trie: Trie, factors: tuple[int, int]) -> int:
    """Return what the pairs of a trie add up to, whatever the order that they are in."""
    level, shards = trie.levels[0], trie.shards
    ends = np.array([last for _, last in _pieces(level.offsets)], np.int64)
    work = []
    for shard in range(min(shards.count, shards.size)):
        start, stop = shards.first(shard), shards.first(shard + 1)
        cuts = [start, *ends[(ends > start) & (ends < stop)].tolist(), stop]
        work += [(first, last, shard + shards.count * (first - start)) for first, last in pairwise(cuts)]

    def add_up(piece: tuple[int, int, int]) -> int:
        first, last, code = piece
        return int(fingerprint(level.offsets, level.values, first, last, code, shards.count, factors))

    return int(sum(in_threads(add_up, work))) % 2**64


def _sum_of_tuples(columns: Columns, trie: Trie) -> int:
    """Return what the tuples of a trie of any width add up to, whatever the order that they are in."""

    def add_up(first: int) -> int:
        found = trie.tuples(np.arange(first, min(first + PIECE, len(trie))))
        product = np.ones(len(found[0]), np.uint64)
        for column, codes in zip(columns, found, strict=True):
            numbers = codes.astype(np.uint64) * np.uint64(FIRST + 2 * column)
            product *= numbers ^ (numbers >> np.uint64(15))
        return int(product.sum())

    return int(sum(in_threads(add_up, range(0, len(trie), PIECE)))) % 2**64


def check_degrees(said: DegreesEntry, found: DegreesEntry) -> None:
    """Raise UnsoundError unless the manifest's figures are those of the lists."""
    for name in ("histogram", "hubs"):
        one, other = getattr(said, name), getattr(found, name)
        if one != other:
            raise UnsoundError(f"degrees.{name} is {str(one)[:100]}, and {str(other)[:100]} by the lists")


def check_ids(entry: DomainEntry, ids: pa.ChunkedArray, ranks: NDArray[Any]) -> None:
    """Raise UnsoundError unless the ids that an index was built with are distinct, and ranks say their order."""
    check_column("ids", ids, str(ids.type), len(ids))
    if str(ids.type) != entry.type:
        raise UnsoundError(f"type is {entry.type!r}, and its ids are {ids.type}")
    if len(ids) != entry.stored_size or len(ranks) != len(ids) or ids.null_count:
        raise UnsoundError(f"it has {len(ids)} ids and {len(ranks)} ranks for {entry.stored_size} codes")
    if ranks.dtype not in (np.dtype(np.uint32), np.dtype(np.uint64), np.dtype(code_type(len(ids)))):
        raise UnsoundError(f"its ranks are {ranks.dtype}")
    if not is_permutation(ranks, np.zeros(len(ranks), np.uint8)):
        raise UnsoundError("its ranks are no permutation")
    codes = np.empty(len(ranks), np.int64)
    codes[ranks] = np.arange(len(ranks))
    if not all(in_threads(_Rising(ids, codes), range(0, len(ids), BLOCK))):
        raise UnsoundError("its ranks are not in the order of its ids")


class _Rising:
    """Whether ids rise in an order, from one of them on; values that do not compare, as NaN, are their own matter."""

    def __init__(self, ids: pa.ChunkedArray, codes: NDArray[np.int64]) -> None:
        self.ids, self.codes = ids, codes

    def __call__(self, first: int) -> bool:
        ordered = take(self.ids, self.codes[first : first + BLOCK + 1])
        return len(ordered) < 2 or not pc.any(pc.greater_equal(ordered[:-1], ordered[1:])).as_py()


def check_column(name: str, column: pa.ChunkedArray, kind: str, length: int) -> None:
    """Raise UnsoundError unless Arrow finds a column whole, and it has a type and a length."""
    try:
        column.validate(full=True)
    except pa.ArrowException as error:
        raise UnsoundError(f"{name} cannot be read ({str(error)[:200]})") from None
    if str(column.type) != kind or len(column) != length:
        raise UnsoundError(f"{name} has {len(column)} values of type {column.type} instead of {length} of type {kind}")


def _listed(values: Iterable[int]) -> str:
    return ", ".join(map(str, values))
