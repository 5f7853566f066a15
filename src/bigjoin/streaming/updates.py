"""Updates: tables of edges with a sign, and their effect on a set of pairs.

Inserting a pair that is there and deleting one that is not change nothing, and several updates of one pair follow their order.
What remains is a true delta: pairs that go, and pairs that come.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bigjoin.errors import SourceError
from bigjoin.ingest.columns import cast, common_type, id_type
from bigjoin.streaming.update_columns import BY_NAME, UpdateColumns

RELATION_COLUMN = "relation"
DELETE, INSERT, REPLACE = 0, 1, 2
"""What an update does. Where no column orders updates, deletions apply first and replacements last."""
SIGNS = (("-", "delete", "-1"), ("+", "insert", "1", "+1"), ("=", "replace", "update"))
"""How each of these is written."""
_MEANT = {sign: op for op, signs in enumerate(SIGNS) for sign in signs}
SIGNS_EXPECTED = "it says + or -, insert or delete, 1 or -1, or = to replace properties"

WHOLE_NUMBER = r"^(0|-?[1-9][0-9]*)$"
"""How integers print: 7 and 007 stay two ids."""


class DoubtfulRowsError(SourceError):
    """Rows of updates could mean several edges and have to mean one; they are bad rows, which other rows decide."""

    def __init__(self, source: str, rows: Mapping[int, str]) -> None:
        self.rows = rows
        """What is wrong with each, by its number in the table."""
        row = min(rows)
        super().__init__(f"row {row + 1:,} of {source} {rows[row]}")


@dataclass(frozen=True)
class Updates:
    """Updates in the order in which they apply."""

    src: pa.ChunkedArray
    dst: pa.ChunkedArray
    ops: NDArray[np.int8]
    properties: pa.Table
    """The further columns. If there are none, Arrow loses the number of rows: use `len` of the updates."""
    ordered: bool
    """Whether a column gave the order; otherwise deletions come first."""
    rows: NDArray[np.int64]
    """Which rows of their table they are."""

    def __len__(self) -> int:
        return len(self.ops)


@dataclass
class Fate:
    """What became of an epoch's updates."""

    updates: int = 0
    inserted: int = 0
    deleted: int = 0
    replaced: int = 0
    """Edges and vertices whose properties were replaced."""
    present: int = 0
    """Insertions of something that was there already."""
    absent: int = 0
    """Deletions of something that was not there."""
    cancelled: int = 0
    """Updates that later updates of the same epoch undid."""
    loops: int = 0
    """Self loops, which an undirected graph cannot have."""
    late: int = 0
    """Insertions that were already older than the window."""
    expired: int = 0
    """Events that left the window."""
    vertices: int = 0
    """Ids that appeared for the first time."""
    bad: int = 0
    """Rows that could not be read, and were left out."""

    def add(self, other: Fate) -> None:
        """Add the figures of other updates."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


def read_updates(
    table: pa.Table,
    ids: pa.DataType,
    source: str,
    *,
    order: str | None = None,
    kept: Collection[str] = (),
    columns: UpdateColumns = BY_NAME,
) -> Updates:
    """Return the updates of a table with columns src, dst and perhaps op; raise SourceError if it is malformed.

    The column that orders them counts as a property of edges only if it is among `kept`. `columns` may name the others.
    """
    names = table.column_names
    found = columns.find(names, source, kept)
    ends, op = found.ends, found.op
    if order is not None and order not in names:
        raise SourceError(f"{source} has no column {order!r} to order updates by; its columns are: {', '.join(names)}")
    src, dst = (_as_ids(table[name], ids, name, source) for name in ends)
    ops = np.full(len(table), INSERT, np.int8) if op is None else _operations(table[op], op, source)
    further = table.select([name for name in names if name not in (*ends, op) and (name != order or name in kept)])
    ranks: NDArray[Any] = ops
    if order is not None and len(table):
        if table[order].null_count:
            raise SourceError(f"column {order!r} of {source}, which orders updates, is NULL in some rows")
        if pa.types.is_nested(table.schema.field(order).type):
            raise SourceError(f"column {order!r} of {source} is {table.schema.field(order).type}, which has no order")
        places = table[order].combine_chunks()
        places = places.dictionary_decode() if pa.types.is_dictionary(places.type) else places
        ranks = pc.rank(places, tiebreaker="dense").to_numpy()
    sequence = np.argsort(ranks, kind="stable")
    if (np.diff(sequence) != 1).any():
        src, dst, further = (columns.take(pa.array(sequence)) for columns in (src, dst, further))
    return Updates(src, dst, ops[sequence], further, order is not None, sequence)


def _as_ids(column: pa.ChunkedArray, ids: pa.DataType, name: str, source: str) -> pa.ChunkedArray:
    """Return ids with the type that the graph's have: the same kind, text that spells them, or integers for text."""
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise SourceError(f"column {name!r} of {source} is NULL in row {row + 1}: an edge has two ends")
    kind = id_kind(column.type, ids, name, source)
    return pa.chunked_array([read_ids(chunk, kind, ids, name, source) for chunk in column.chunks], ids)


def id_kind(kind: pa.DataType, ids: pa.DataType, name: str, source: str) -> pa.DataType:
    """Return the type that a column's values have as ids of a new graph; refuse one whose values cannot be `ids`."""
    becomes = id_type(kind, name, source) if kind != pa.null() else ids
    as_text = pa.types.is_string(ids) and pa.types.is_integer(becomes)
    if not (pa.types.is_string(becomes) or as_text or common_type(becomes, ids) is not None):
        raise SourceError(f"column {name!r} of {source} is {kind}, and the ids of the graph are {ids}: cast it")
    return becomes


def read_ids(values: pa.Array, kind: pa.DataType, ids: pa.DataType, name: str, source: str) -> pa.Array:
    """Return values as ids, by way of the type that they have as ids of a new graph."""
    values = cast(values, kind, column=name, source=source)
    spelled = pa.types.is_string(kind) and pa.types.is_integer(ids)
    if spelled and pc.all(pc.match_substring_regex(values, WHOLE_NUMBER)).as_py() is False:
        raise SourceError(f"column {name!r} of {source} is {kind}, and the ids of the graph are {ids}: cast it")
    return cast(values, ids, column=name, source=source)


def _operations(column: pa.ChunkedArray, name: str, source: str) -> NDArray[np.int8]:
    """Return what each update does."""
    check_sign_type(column.type, name, source)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not pa.types.is_large_string(column.type):
        column = column.cast(pa.string())
    written = pc.unique(column)
    spelled = ("" if text is None else text.strip().lower() for text in written.to_pylist())
    meant = np.array([_MEANT.get(text, -1) for text in spelled], np.int8)
    if len(meant) == 1 and meant[0] >= 0:
        return np.full(len(column), meant[0])
    ops = meant[pc.index_in(column, value_set=written).to_numpy()]
    if (ops < 0).any():
        row = int(np.flatnonzero(ops < 0)[0])
        raise SourceError(f"column {name!r} of {source} is {column[row].as_py()!r} in row {row + 1}; {SIGNS_EXPECTED}")
    return np.asarray(ops, np.int8)


def check_sign_type(kind: pa.DataType, name: str, source: str) -> None:
    """Refuse a column of operations of a type that cannot say them; one of no type is that of a file without rows."""
    said = kind.value_type if pa.types.is_dictionary(kind) else kind
    is_text = pa.types.is_string(said) or pa.types.is_large_string(said)
    if not (is_text or pa.types.is_integer(said) or pa.types.is_null(said)):
        raise SourceError(f"column {name!r} of {source} is {kind}; {SIGNS_EXPECTED}")


def normalise_pairs(
    keys: NDArray[Any], insert: NDArray[np.bool_], present: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64], Fate]:
    """Return the numbers of the updates that delete a pair, and of those that insert one, and what became of them all.

    `keys` has the key of each update's pair, and `present` whether that pair is there before.
    """
    in_order = np.sort(keys)
    if (in_order[1:] != in_order[:-1]).all():  # each pair has one update, and its order is that of the updates
        inserted, deleted = insert & ~present, present & ~insert
        many = {"inserted": int(inserted.sum()), "deleted": int(deleted.sum())}
        already = int(np.count_nonzero(present)) - many["deleted"]
        absent = len(keys) - many["inserted"] - many["deleted"] - already
        return np.flatnonzero(deleted), np.flatnonzero(inserted), Fate(len(keys), **many, present=already, absent=absent)
    order = np.argsort(keys, kind="stable")
    keys, insert, present = keys[order], insert[order], present[order]
    differs = keys[1:] != keys[:-1]
    first, last = np.append(True, differs)[: len(keys)], np.append(differs, True)[: len(keys)]
    before = np.where(first, present, np.append(False, insert[:-1])[: len(keys)])
    inserted, deleted = last & insert & ~present, last & ~insert & present
    fate = Fate(
        updates=len(keys),
        inserted=int(inserted.sum()),
        deleted=int(deleted.sum()),
        present=int((insert & before).sum()),
        absent=int((~insert & ~before).sum()),
    )
    fate.cancelled = fate.updates - fate.inserted - fate.deleted - fate.present - fate.absent
    return np.sort(order[deleted]), np.sort(order[inserted]), fate
