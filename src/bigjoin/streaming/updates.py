"""Updates: tables of edges with a sign, and what they come to for a graph in the state that it is in.

Inserting what is there and deleting what is not change nothing; several updates of one pair follow their order. What remains
is a true delta: tuples that go, and tuples that come.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bigjoin.errors import SourceError
from bigjoin.ingest.columns import cast, common_type, id_type
from bigjoin.ingest.table import edge_columns

OP = "op"
RELATION = "relation"
_INSERTS = ("+", "insert", "1", "+1")
_DELETES = ("-", "delete", "-1")


@dataclass(frozen=True)
class Updates:
    """Updates of one relation, in the order in which they are meant."""

    src: pa.ChunkedArray
    dst: pa.ChunkedArray
    insert: NDArray[np.bool_]
    properties: pa.Table
    """The further columns. Without any, Arrow forgets how many rows there were: `len` of the updates knows."""
    ordered: bool
    """Whether the order was given; else deletions come first."""

    def __len__(self) -> int:
        return len(self.insert)

    def take(self, chosen: NDArray[Any]) -> Updates:
        """Return some of the updates, by their numbers or by a mask."""
        at = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
        rows = pa.array(at)
        return Updates(self.src.take(rows), self.dst.take(rows), self.insert[at], self.properties.take(rows), self.ordered)


@dataclass
class Fate:
    """What became of an epoch's updates."""

    updates: int = 0
    inserted: int = 0
    deleted: int = 0
    present: int = 0
    """Insertions of what was there already."""
    absent: int = 0
    """Deletions of what was not there."""
    cancelled: int = 0
    """Updates that later ones of the same epoch took back."""
    loops: int = 0
    """Loops, which an undirected graph does not have."""
    late: int = 0
    """Insertions of what had already left the window."""
    expired: int = 0
    """Events that left the window."""
    vertices: int = 0
    """Ids that came for the first time."""

    def add(self, other: Fate) -> None:
        """Add what became of others."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


def read_updates(
    table: pa.Table, ids: pa.DataType, source: str, *, order: str | None = None, kept: Collection[str] = ()
) -> Updates:
    """Return the updates of a table with columns src, dst and op; raise SourceError that says what is wrong with it.

    The column that orders them is a property of edges only if it is one of those that are kept.
    """
    if len(set(table.column_names)) < len(table.column_names):
        raise SourceError(f"{source} has two columns of one name: {', '.join(table.column_names)}")
    ends = edge_columns(table.column_names)
    op = next((name for name in table.column_names if name.lower() == OP), None)
    if ends is None or op is None:
        missing = "columns src and dst" if ends is None else f"column {OP!r}, + for an insertion and - for a deletion"
        raise SourceError(f"{source} has no {missing}; its columns are: {', '.join(table.column_names) or 'none'}")
    if order is not None and order not in table.column_names:
        raise SourceError(
            f"{source} has no column {order!r} to order updates by; its columns are: {', '.join(table.column_names)}"
        )
    columns = []
    for name in ends:
        column = table[name]
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise SourceError(f"column {name!r} of {source} is NULL in row {row + 1}: an edge has two ends")
        columns.append(_as_ids(column, ids, name, source))
    insert = _signs(table[op], op, source)
    if order is not None and len(table):
        given = table[order].combine_chunks()
        if given.null_count:
            raise SourceError(f"column {order!r} of {source}, which orders updates, is NULL in some rows")
        sequence = np.argsort(pc.rank(given, tiebreaker="dense").to_numpy(), kind="stable")
    else:
        sequence = np.argsort(insert, kind="stable")
    further = table.select([name for name in table.column_names if name not in (*ends, op) and (name != order or name in kept)])
    everything = Updates(columns[0], columns[1], insert, further, order is not None)
    return everything.take(sequence) if (np.diff(sequence) != 1).any() else everything


def _as_ids(column: pa.ChunkedArray, ids: pa.DataType, name: str, source: str) -> pa.ChunkedArray:
    """Return ids as the graph has them: of the same sort, or text that spells them, or integers where they are text."""
    kind = id_type(column.type, name, source) if column.type != pa.null() else ids
    spelled = pa.types.is_string(kind) and not pa.types.is_integer(ids)
    both_text = pa.types.is_string(ids) and pa.types.is_integer(kind)
    if not (spelled or both_text or common_type(kind, ids) is not None):
        raise SourceError(f"column {name!r} of {source} is {column.type}, and the ids of the graph are {ids}: cast it")
    chunks = [cast(chunk, kind, column=name, source=source) for chunk in column.chunks]  # as ids of a new graph would be
    return pa.chunked_array([cast(chunk, ids, column=name, source=source) for chunk in chunks], ids)


def _signs(column: pa.ChunkedArray, name: str, source: str) -> NDArray[np.bool_]:
    """Tell for each update whether it is an insertion."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_integer(column.type) or pa.types.is_null(column.type):  # a file of titles alone says no type
        column = column.cast(pa.string())
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise SourceError(f"column {name!r} of {source} is {column.type}; it says + or -, insert or delete, 1 or -1")
    spelled = pc.utf8_lower(pc.utf8_trim_whitespace(column))
    inserts = pc.is_in(spelled, value_set=pa.array(_INSERTS, column.type)).to_numpy()
    deletes = pc.is_in(spelled, value_set=pa.array(_DELETES, column.type)).to_numpy()
    if not (inserts | deletes).all():
        row = int(np.flatnonzero(~(inserts | deletes))[0])
        given = column[row].as_py()
        raise SourceError(
            f"column {name!r} of {source} is {given!r} in row {row + 1}; it says + or -, insert or delete, 1 or -1"
        )
    return np.asarray(inserts)


@dataclass
class PairDelta:
    """What updates come to for a set of pairs: the numbers of the updates that delete one, and of those that insert one."""

    deleted: NDArray[np.int64]
    inserted: NDArray[np.int64]
    fate: Fate = field(default_factory=Fate)


def normalise_pairs(keys: NDArray[Any], insert: NDArray[np.bool_], present: NDArray[np.bool_]) -> PairDelta:
    """Return the true delta of updates of pairs, given a key of each pair and whether it is there before."""
    order = np.argsort(keys, kind="stable")
    keys, insert, present = keys[order], insert[order], present[order]
    first = np.append(True, keys[1:] != keys[:-1])[: len(keys)]
    last = np.append(keys[1:] != keys[:-1], True)[-len(keys) :] if len(keys) else first
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
    return PairDelta(np.sort(order[deleted]), np.sort(order[inserted]), fate)
