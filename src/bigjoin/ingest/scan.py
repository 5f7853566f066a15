"""Stage: read rows, drop those with NULL keys, replace values by numbers, and sort edges.

Where ids are integers that lie close together, the distance from the smallest stands for the rank. Otherwise a chunk has a
dictionary for each domain, and values are places in it. As it is sorted, places are in the order of the ranks to come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bigjoin.errors import SourceError
from bigjoin.index.dictionary import code_type
from bigjoin.index.stage_runner import StageRunner, in_threads
from bigjoin.ingest.columns import cast
from bigjoin.ingest.held import HeldKeys
from bigjoin.ingest.ids import MergedIds, merge_ids, sorted_unique, write_ids
from bigjoin.ingest.radix import MIN_KEYS_BY_DIGIT
from bigjoin.ingest.sorting import PACKED_KEY, PairKeys, SortedKeys, key_type, pack, pairs_of, write_sorted
from bigjoin.ingest.table import Split, is_here
from bigjoin.ingest.tries import TupleChunk
from bigjoin.kernels.edges import distances, pack_edges, pack_undirected
from bigjoin.storage.arrays import map_array, new_file, save_new, write_table

CHUNK_BYTES = 1 << 27
"""Bytes read before they are written out, however few rows they are."""
MAX_RELATIONS_OF_VALUES = 1000
"""Values of a column of types, or of labels: each is a relation."""


@dataclass(frozen=True)
class IdSpace:
    """The values of a domain: the type that they all get, and how they are numbered in a scan.

    Where ids are close together, `base` is the smallest and `size` how many integers lie between it and the largest;
    otherwise a dictionary is needed.
    """

    type: pa.DataType
    base: int | None = None
    size: int = 0


@dataclass(frozen=True)
class ScannedTable:
    """What a scan must know of a table.

    `domains` are those of its key columns, which come first among the `columns` to read (all, if they are None). `directed`
    says whether rows are edges with a direction; None if they are not edges, and need not be sorted. With `keeps_rows`, rows
    are written down in their order, with the columns behind the keys. With `counted`, dictionaries say how often each value
    occurs. `parts` are tables that have some of its rows: the number of each, a column, and its value in these rows. With
    `numbered`, the last key is the number of the row.
    """

    number: int
    source: str
    domains: tuple[str, ...]
    columns: tuple[str, ...] | None = None
    directed: bool | None = None
    keeps_rows: bool = True
    counted: bool = False
    parts: tuple[tuple[int, str, Any], ...] = ()
    numbered: bool = False


@dataclass(frozen=True)
class ScannedChunk:
    """What a scan has written of some rows of a table.

    Of those that were `read`, `rows` have no NULL among their keys, and `loops` of these have the same value in all key
    columns. `keys` is a file with a row for each key column: ranks, or places in the dictionary of the column's domain. By
    domain there are the files of the chunk's sorted dictionary and, once these are merged, of the rank of each place in it.
    Edges are in a file, or `held` in memory.
    """

    table: int
    read: int
    rows: int
    loops: int = 0
    edges: SortedKeys | None = None
    keys: str | None = None
    properties: str | None = None
    dictionaries: Mapping[str, str] = field(default_factory=dict)
    rankings: Mapping[str, str] = field(default_factory=dict)
    held: HeldKeys | None = None

    @property
    def files(self) -> list[str]:
        """The paths of all files that it has."""
        edges = () if self.edges is None else (self.edges.file, self.edges.ranking)
        named = (*edges, self.keys, self.properties, *self.dictionaries.values(), *self.rankings.values())
        return list(dict.fromkeys(file for file in named if file is not None))

    def tuples(self, domains: Sequence[str], codes: Mapping[str, str] | None = None) -> TupleChunk:
        """Return the keys as tuples of ranks, or of codes if for each domain there is a file with the code of each rank."""
        assert self.keys is not None
        lookups = [[files[d] for files in (self.rankings, codes or {}) if d in files] for d in domains]
        return TupleChunk(self.keys, tuple(map(tuple, lookups)))


@dataclass(frozen=True)
class Scan:
    """Stage: read rows in chunks of about `part`, and write each to files in a folder; `ids` is by domain.

    With `holds`, edges stay in memory, in any order.
    """

    folder: str
    ids: Mapping[str, IdSpace]
    part: int
    holds: bool = False

    def __call__(self, item: tuple[ScannedTable, Split]) -> tuple[ScannedChunk, ...]:
        table, split = item
        return tuple(self.chunks(table, split.read()))

    def chunks(self, table: ScannedTable, batches: Iterable[pa.RecordBatch]) -> Iterator[ScannedChunk]:
        """Write chunks of some of a table's rows."""
        for rows in gathered(batches, self.part):
            yield self._chunk(table, rows)
            for number, column, value in table.parts:
                part = rows.filter(pc.equal(rows[column], pa.scalar(value, rows.schema.field(column).type)))
                if part.num_rows:
                    yield replace(self._chunk(table, part), table=number)

    def _chunk(self, table: ScannedTable, given: pa.Table) -> ScannedChunk:
        width = len(table.domains)
        rows = _without_nulls(given if table.columns is None else given.select(table.columns), width)
        dictionaries: dict[str, str] = {}
        keys: list[Any] = [None] * width
        for domain in dict.fromkeys(table.domains):
            mine = [place for place, name in enumerate(table.domains) if name == domain]
            columns = [_values(rows, place, self.ids[domain].type, table.source) for place in mine]
            if self.ids[domain].base is not None:
                numbers = [self._distances(column, self.ids[domain]) for column in columns]
                size = self.ids[domain].size
            else:
                ids, places = sorted_unique(pa.concat_arrays(columns))
                counts = np.bincount(places, minlength=len(ids)) if table.counted else None
                dictionaries[domain] = write_ids(ids, self.folder, counts)
                numbers, size = np.split(places, len(mine)), len(ids)
            for place, column in zip(mine, numbers, strict=True):
                keys[place] = column
        values = width - table.numbered
        alike = len(set(table.domains[:values])) == 1
        loops = int(np.count_nonzero(reduce(np.logical_and, (column == keys[0] for column in keys[:values])))) if alike else 0
        edges = held = None
        if table.directed is not None:
            packed = edge_keys(keys[0], keys[1], directed=table.directed, size=size)
            edges, held = (None, HeldKeys(packed)) if self.holds else (write_sorted(packed, self.folder), None)
        file = properties = None
        if table.keeps_rows:
            file = save_new(np.asarray(keys), self.folder, "keys")
        if table.keeps_rows and rows.num_columns > width:
            properties = new_file(self.folder, "properties", ".arrow")
            write_table(rows.drop_columns(rows.column_names[:width]).combine_chunks(), properties)
        return ScannedChunk(
            table.number, given.num_rows, rows.num_rows, loops, edges, file, properties, dictionaries, held=held
        )

    def _distances(self, column: pa.Array, ids: IdSpace) -> NDArray[Any]:
        """Return how far each id lies from the smallest."""
        assert ids.base is not None
        values = np.asarray(column.to_numpy(), np.int64)
        values.setflags(write=False)  # so that there is one kernel for all types
        found = np.empty(len(values), code_type(ids.size))
        if not distances(values, ids.base, ids.base + ids.size - 1, found):
            raise SourceError("the file's statistics are wrong: it has ids beyond the smallest or largest that they name")
        return found


def scan_splits(scan: Scan, items: Sequence[tuple[ScannedTable, Split]], run: StageRunner) -> list[ScannedChunk]:
    """Scan pieces of tables, those in memory in this process."""
    here = [item for item in items if is_here(item[1])]
    elsewhere = [item for item in items if not is_here(item[1])]
    found = (*run(scan, elsewhere), *in_threads(scan, here))
    return [chunk for chunks in found for chunk in chunks]


def rank_chunks(
    chunks: Sequence[ScannedChunk], domain: str, folder: str, run: StageRunner
) -> tuple[list[ScannedChunk], list[MergedIds]]:
    """Merge the dictionaries of a domain; return the chunks with their ranks, and the merged ids."""
    having = [number for number, chunk in enumerate(chunks) if domain in chunk.dictionaries]
    merged, rankings = merge_ids([chunks[number].dictionaries[domain] for number in having], folder, run)
    ranked = list(chunks)
    for number, ranking in zip(having, rankings, strict=True):
        chunk = chunks[number]
        edges = chunk.edges
        if edges is not None and edges.rows:
            edges = replace(edges, sample=pairs_of(*map_array(ranking)[np.array(edges.sample).T]), ranking=ranking)
        held = None if chunk.held is None else replace(chunk.held, ranking=ranking)
        ranked[number] = replace(chunk, edges=edges, held=held, rankings={**chunk.rankings, domain: ranking})
    return ranked, merged


@dataclass(frozen=True)
class DistinctValues:
    """Stage: list the values of a column, without NULL."""

    column: str

    def __call__(self, split: Split) -> tuple[Any, ...]:
        found: set[Any] = set()
        for batch in split.read():
            found.update(batch.column(self.column).unique().drop_null().to_pylist())
            if len(found) > MAX_RELATIONS_OF_VALUES:
                raise SourceError(
                    f"column {self.column!r} has more than {MAX_RELATIONS_OF_VALUES} values: they are not types of edges"
                )
        return tuple(found)


def edge_keys(src: NDArray[Any], dst: NDArray[Any], *, directed: bool, size: int) -> PairKeys:
    """Return edges as keys; undirected ones without loops, the smaller end first."""
    if len(src) >= MIN_KEYS_BY_DIGIT and key_type(size) == PACKED_KEY:
        keys = np.empty(len(src), PACKED_KEY)
        return keys[: (pack_edges if directed else pack_undirected)(src, dst, keys)]
    if not directed:
        proper = src != dst
        if not proper.all():
            src, dst = src[proper], dst[proper]
        src, dst = np.minimum(src, dst), np.maximum(src, dst)
    return pack(src, dst, key_type(size))


def _without_nulls(rows: pa.Table, width: int) -> pa.Table:
    """Return the rows without NULL in their first columns."""
    keys = rows.columns[:width]
    if not any(column.null_count for column in keys):
        return rows
    return rows.filter(reduce(pc.and_, map(pc.is_valid, keys)))


def _values(rows: pa.Table, place: int, kind: pa.DataType, source: str) -> pa.Array:
    """Return a column as one array of a type; -0.0 is 0.0."""
    column, name = rows.column(place), rows.column_names[place]
    empty = pa.types.is_null(column.type)
    chunks = [chunk.cast(kind) if empty else cast(chunk, kind, column=name, source=source) for chunk in column.chunks]
    values = pa.concat_arrays(chunks) if chunks else pa.array([], kind)
    return pc.add(values, pa.scalar(0.0, kind)) if pa.types.is_floating(kind) else values


def gathered(batches: Iterable[pa.RecordBatch], part: int) -> Iterator[pa.Table]:
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
