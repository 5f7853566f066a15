"""The vertex table: its columns by code, and its labels as unary relations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from bigjoin.errors import SourceError
from bigjoin.index.directory import VERTEX
from bigjoin.index.manifest_entries import LevelEntry, OrderEntry, RelationEntry
from bigjoin.index.trie import list_statistics
from bigjoin.ingest.assembly import Assembly
from bigjoin.ingest.scan import MAX_RELATIONS_OF_VALUES, ScannedChunk
from bigjoin.ingest.table import Table, warn_left_out
from bigjoin.ingest.tries import TupleChunk
from bigjoin.storage.arrays import map_array, map_table, new_file, save_new, write_table


@dataclass(frozen=True)
class SortVertices:
    """Stage: sort the rows of a chunk by code; return the files of the codes and of the properties."""

    folder: str

    def __call__(self, item: tuple[TupleChunk, str]) -> tuple[str, str]:
        keys, properties = item
        (codes,) = keys.columns()
        order = np.argsort(codes, kind="stable")
        file = new_file(self.folder, "properties", ".arrow")
        write_table(map_table(properties).take(pa.array(order)).combine_chunks(), file)
        return save_new(codes[order], self.folder, "vertices"), file


@dataclass(frozen=True)
class PlaceVertices:
    """Stage: write the properties of a range of codes to a file, NULL where the table has no such vertex.

    Return how many ids come more than once, and the code of the first of them.
    """

    chunks: Sequence[tuple[str, str]]

    def __call__(self, item: tuple[int, int, str]) -> tuple[int, int]:
        first, last, file = item
        codes, tables = [], []
        for sorted_codes, properties in ((map_array(codes), map_table(properties)) for codes, properties in self.chunks):
            low, high = np.searchsorted(sorted_codes, [first, last])
            codes.append(sorted_codes[low:high].copy())
            tables.append(properties.slice(low, high - low))
        places = np.concatenate(codes).astype(np.int64) - first
        rows = np.full(last - first, -1, np.int64)
        rows[places] = np.arange(len(places))
        write_table(pa.concat_tables(tables).take(pa.array(rows, mask=rows < 0)).combine_chunks(), file)
        distinct, counts = np.unique(places, return_counts=True)
        twice = distinct[counts > 1] + first
        return len(twice), int(twice.min(initial=last))


def write_vertices(
    assembly: Assembly, table: Table, chunks: Sequence[ScannedChunk], codes: str, kind: np.dtype[Any], labels: str | None
) -> None:
    """Write the columns of the vertex table by code, and a list of vertices for each value of its column of labels."""
    names = table.schema.names[1:]
    column = next((n for n in names if n == labels or (labels is None and n.lower() == "label")), None)
    items = [(c.tuples((VERTEX,), {VERTEX: codes}), c.properties) for c in chunks if c.rows and c.properties]
    placed = assembly.run(SortVertices(assembly.exchange), items)
    if not placed:
        return
    size = assembly.domains[VERTEX].size
    starts = range(0, size, assembly.part)
    files = [assembly.folder / f"{VERTEX}.properties{number}.arrow" for number in range(len(starts))]
    ranges = [(n, min(n + assembly.part, size), str(file)) for n, file in zip(starts, files, strict=True)]
    repeated = [found for found in assembly.run(PlaceVertices(placed), ranges) if found[0]]
    if repeated:
        times, shown = (
            sum(ids for ids, _ in repeated),
            map_table(files[0].with_name(f"{VERTEX}.ids.arrow"))["id"][repeated[0][1]],
        )
        raise SourceError(
            f"{times} ids of {table.source} come more than once, for example {shown.as_py()!r}: a vertex is one row"
        )
    assembly.add_properties(VERTEX, files)
    if column is not None:
        values = pa.chunked_array([chunk for file in files for chunk in map_table(file)[column].chunks])
        _write_labels(assembly, table.source, column, values, kind)
        assembly.domains[VERTEX] = replace(assembly.domains[VERTEX], labels=column)


def _write_labels(assembly: Assembly, source: str, column_name: str, column: pa.ChunkedArray, kind: np.dtype[Any]) -> None:
    """Write the codes of each label, one list after another, and enter a relation for each label that rules can name."""
    file = assembly.folder / f"{VERTEX}.labels.npy"
    encoded = column.combine_chunks().dictionary_encode()
    if len(encoded.dictionary) > MAX_RELATIONS_OF_VALUES:
        warn_left_out(
            source, [column_name], f"it has more than {MAX_RELATIONS_OF_VALUES} values, and each would be a relation", "column"
        )
        return
    numbers = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    codes = np.argsort(numbers, kind="stable")
    np.save(file, codes.astype(kind))
    starts = np.searchsorted(numbers[codes], np.arange(len(encoded.dictionary) + 1)).tolist()
    unnamed: list[str] = []
    for number, value in enumerate(encoded.dictionary.to_pylist()):
        label, (first, last) = str(value), starts[number : number + 2]
        if not label.isidentifier() or not label.isascii() or label.lower() == "not":
            unnamed.append(label)
            continue
        if label in assembly.relations:
            raise SourceError(f"the label {label!r} has the name of a relation: rename one of them")
        count = last - first
        level = LevelEntry(assembly.name(file), range=(first, last))
        order = OrderEntry((level,), list_statistics(np.array([0, count])))
        assembly.relations[label] = RelationEntry((VERTEX,), count, symmetric=False, loops=count, orders={(0,): order})
    if unnamed and not all(label.lstrip("-").isdigit() for label in unnamed):
        warn_left_out(source, unnamed[:5], "no relation can have that name; a filter on the column still selects it", "label")
