"""Updates: tables of edges with a sign, and their effect on a set of pairs.

Inserting a pair that is there and deleting one that is not change nothing, and several updates of one pair follow their order.
What remains is a true delta: pairs that go, and pairs that come.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bigjoin.errors import SourceError
from bigjoin.ingest.columns import cast, common_type, id_type
from bigjoin.ingest.table import edge_columns

OP_COLUMN = "op"
RELATION_COLUMN = "relation"
_INSERT_SIGNS = ("+", "insert", "1", "+1")
_DELETE_SIGNS = ("-", "delete", "-1")


@dataclass(frozen=True)
class Updates:
    """Updates in the order in which they apply."""

    src: pa.ChunkedArray
    dst: pa.ChunkedArray
    insert: NDArray[np.bool_]
    properties: pa.Table
    """The further columns. If there are none, Arrow loses the number of rows: use `len` of the updates."""
    ordered: bool
    """Whether a column gave the order; otherwise deletions come first."""

    def __len__(self) -> int:
        return len(self.insert)


@dataclass
class Fate:
    """What became of an epoch's updates."""

    updates: int = 0
    inserted: int = 0
    deleted: int = 0
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

    def add(self, other: Fate) -> None:
        """Add the figures of other updates."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


def read_updates(
    table: pa.Table, ids: pa.DataType, source: str, *, order: str | None = None, kept: Collection[str] = ()
) -> Updates:
    """Return the updates of a table with columns src, dst and op; raise SourceError if it is malformed.

    The column that orders them counts as a property of edges only if it is among `kept`.
    """
    names = table.column_names
    if len(set(names)) < len(names):
        raise SourceError(f"{source} has two columns of one name: {', '.join(names)}")
    ends = edge_columns(names)
    op = next((name for name in names if name.lower() == OP_COLUMN), None)
    if ends is None or op is None:
        missing = "columns src and dst" if ends is None else f"column {OP_COLUMN!r}, + for an insertion and - for a deletion"
        raise SourceError(f"{source} has no {missing}; its columns are: {', '.join(names) or 'none'}")
    if order is not None and order not in names:
        raise SourceError(f"{source} has no column {order!r} to order updates by; its columns are: {', '.join(names)}")
    src, dst = (_as_ids(table[name], ids, name, source) for name in ends)
    insert = _are_insertions(table[op], op, source)
    further = table.select([name for name in names if name not in (*ends, op) and (name != order or name in kept)])
    ranks: NDArray[Any] = insert
    if order is not None and len(table):
        if table[order].null_count:
            raise SourceError(f"column {order!r} of {source}, which orders updates, is NULL in some rows")
        ranks = pc.rank(table[order].combine_chunks(), tiebreaker="dense").to_numpy()
    sequence = np.argsort(ranks, kind="stable")
    if (np.diff(sequence) != 1).any():
        src, dst, further = (columns.take(pa.array(sequence)) for columns in (src, dst, further))
    return Updates(src, dst, insert[sequence], further, order is not None)


def _as_ids(column: pa.ChunkedArray, ids: pa.DataType, name: str, source: str) -> pa.ChunkedArray:
    """Return ids with the type that the graph's have: the same kind, text that spells them, or integers for text."""
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise SourceError(f"column {name!r} of {source} is NULL in row {row + 1}: an edge has two ends")
    kind = id_type(column.type, name, source) if column.type != pa.null() else ids
    spelled = pa.types.is_string(kind) and not pa.types.is_integer(ids)
    both_text = pa.types.is_string(ids) and pa.types.is_integer(kind)
    if not (spelled or both_text or common_type(kind, ids) is not None):
        raise SourceError(f"column {name!r} of {source} is {column.type}, and the ids of the graph are {ids}: cast it")
    chunks = [cast(chunk, kind, column=name, source=source) for chunk in column.chunks]  # like the ids of a new graph
    return pa.chunked_array([cast(chunk, ids, column=name, source=source) for chunk in chunks], ids)


def _are_insertions(column: pa.ChunkedArray, name: str, source: str) -> NDArray[np.bool_]:
    """Tell for each update whether it is an insertion."""
    expected = "it says + or -, insert or delete, 1 or -1"
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_integer(column.type) or pa.types.is_null(column.type):  # a file with no rows has columns of no type
        column = column.cast(pa.string())
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise SourceError(f"column {name!r} of {source} is {column.type}; {expected}")
    spelled = pc.utf8_lower(pc.utf8_trim_whitespace(column))
    inserts, deletes = (
        pc.is_in(spelled, value_set=pa.array(signs, column.type)).to_numpy() for signs in (_INSERT_SIGNS, _DELETE_SIGNS)
    )
    if not (inserts | deletes).all():
        row = int(np.flatnonzero(~(inserts | deletes))[0])
        raise SourceError(f"column {name!r} of {source} is {column[row].as_py()!r} in row {row + 1}; {expected}")
    return np.asarray(inserts)


def normalise_pairs(
    keys: NDArray[Any], insert: NDArray[np.bool_], present: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64], Fate]:
    """Return the numbers of the updates that delete a pair, and of those that insert one, and what became of them all.

    `keys` has the key of each update's pair, and `present` whether that pair is there before.
    """
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
