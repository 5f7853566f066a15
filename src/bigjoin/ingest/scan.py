"""Stage: read rows, drop those with NULL ids, replace ids by ranks, or by places in a dictionary of the chunk's own, and sort.

Where ids are integers that lie close together, the distance from the smallest stands for the rank. Otherwise a chunk has a
dictionary. As that is sorted, a run of places is in the order of the ranks that they will turn out to be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bigjoin.errors import SourceError
from bigjoin.index.dictionary import code_type
from bigjoin.ingest.files import read
from bigjoin.ingest.ids import sorted_unique, write_ids
from bigjoin.ingest.runs import key_type, pack, write_run
from bigjoin.storage.arrays import map_array, new_file, save_new, write_table

CHUNK_BYTES = 1 << 27
"""Bytes read before they are written out, however few rows they are."""
MANY = 1000
"""Types of edges that an index may have at most."""


@dataclass(frozen=True)
class Scan:
    """Read rows in chunks. `keys` is how many columns are ids: two for edges, one for vertices."""

    folder: str
    base: int | None
    """The smallest id, where ids are close together; None where a dictionary is needed."""
    size: int
    """How many ids lie between the smallest and the largest."""
    kind: pa.DataType
    """The type that all ids get."""
    part: int
    """Rows read before they are written out."""

    def __call__(self, item: dict[str, Any]) -> list[dict[str, Any]]:
        return list(self.chunks(read(item["split"]), item))

    def chunks(self, batches: Iterable[pa.RecordBatch], item: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Give a description of each chunk that was written."""
        for table in _gathered(batches, self.part):
            yield {"table": item["table"], **self._chunk(table, item)}
            for number, column, value in item["parts"]:
                part = table.filter(pc.equal(table[column], pa.scalar(value, table.schema.field(column).type)))
                if part.num_rows:
                    yield {"table": number, **self._chunk(part, item)}

    def _chunk(self, table: pa.Table, item: dict[str, Any]) -> dict[str, Any]:
        columns = table.columns[: item["keys"]]
        read_rows = table.num_rows
        if any(column.null_count for column in columns):
            known = pc.is_valid(columns[0])
            for column in columns[1:]:
                known = pc.and_(known, pc.is_valid(column))
            table = table.filter(known)
            columns = table.columns[: item["keys"]]
        chunk: dict[str, Any] = {"read": read_rows, "rows": table.num_rows}
        if self.base is not None:
            ranks = [self._distances(column) for column in columns]
        else:
            ids, places = sorted_unique(pa.concat_arrays([column.cast(self.kind).combine_chunks() for column in columns]))
            chunk["ids"] = write_ids(ids, self.folder)
            ranks = np.split(places, len(columns))
        if len(ranks) == 2:
            size = self.size if self.base is not None else len(ids)
            chunk["run"] = write_run(edge_keys(ranks[0], ranks[1], directed=item["directed"], size=size), self.folder)
            chunk["loops"] = int(np.count_nonzero(ranks[0] == ranks[1]))
        if item["rowwise"]:
            chunk["ranks"] = write_ranks(ranks, self.folder)
        if item["rowwise"] and table.num_columns > item["keys"]:
            chunk["properties"] = new_file(self.folder, "properties", ".arrow")
            write_table(table.drop_columns(table.column_names[: item["keys"]]).combine_chunks(), chunk["properties"])
        return chunk

    def _distances(self, column: pa.ChunkedArray) -> NDArray[Any]:
        """Return how far each id lies from the smallest."""
        assert self.base is not None
        distances = np.asarray(column.to_numpy(), np.int64) - self.base
        if len(distances) and (int(distances.min()) < 0 or int(distances.max()) >= self.size):
            raise SourceError("the file's statistics are wrong: it has ids beyond the smallest or largest that they name")
        return distances.astype(code_type(self.size))


@dataclass(frozen=True)
class Values:
    """Stage: list the values of a column."""

    column: str

    def __call__(self, split: dict[str, Any]) -> list[Any]:
        return distinct_values(read(split), self.column)


def distinct_values(batches: Iterable[pa.RecordBatch], column: str) -> list[Any]:
    """Return the values that a column has, without NULL."""
    found: set[Any] = set()
    for batch in batches:
        found.update(batch.column(column).unique().drop_null().to_pylist())
        if len(found) > MANY:
            raise SourceError(f"column {column!r} has more than {MANY} values: they are not types of edges")
    return list(found)


@dataclass(frozen=True)
class Encode:
    """Stage: turn a chunk's own places, in the order of its rows, into ranks among all ids."""

    folder: str

    def __call__(self, item: dict[str, Any]) -> str:
        return write_ranks(map_array(item["ranking"])[map_array(item["ranks"])], self.folder)


def edge_keys(src: NDArray[Any], dst: NDArray[Any], *, directed: bool, size: int) -> NDArray[Any]:
    """Return edges as keys; undirected ones without loops, the smaller end first."""
    if not directed:
        proper = src != dst
        if not proper.all():
            src, dst = src[proper], dst[proper]
        src, dst = np.minimum(src, dst), np.maximum(src, dst)
    return pack(src, dst, key_type(size))


def write_ranks(ranks: Sequence[NDArray[Any]] | NDArray[Any], folder: str) -> str:
    """Write the columns of a chunk, in the order of its rows."""
    return save_new(np.asarray(ranks), folder, "ranks")


def _gathered(batches: Iterable[pa.RecordBatch], part: int) -> Iterator[pa.Table]:
    """Give tables of `part` rows or CHUNK_BYTES, or a little more."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= part or size >= CHUNK_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(waiting)
