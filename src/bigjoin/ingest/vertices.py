"""The vertices: their dictionary, the columns of their table as arrays by code, and their labels as unary relations."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bigjoin.errors import SourceError
from bigjoin.index.directory import VERTEX
from bigjoin.index.entries import DomainEntry, LevelEntry, OrderEntry, RelationEntry
from bigjoin.index.trie import list_statistics
from bigjoin.index.values import take
from bigjoin.ingest.assembly import Assembly, Chunks
from bigjoin.ingest.edges import Code, Numbering
from bigjoin.ingest.scan import MANY
from bigjoin.ingest.table import Table, warn_left_out
from bigjoin.storage.arrays import map_array, map_table, write_table

IDS = 1 << 20
"""Ids written together."""


@dataclass(frozen=True)
class SortVertices:
    """Stage: sort the rows of a chunk by code."""

    folder: str
    code: Code

    def __call__(self, item: dict[str, Any]) -> dict[str, str]:
        (codes,) = self.code.coded(list(map_array(item["ranks"])))
        order = np.argsort(codes, kind="stable")
        stem = f"{self.folder}/vertices-{uuid.uuid4().hex}"
        np.save(f"{stem}.npy", codes[order])
        write_table(map_table(item["properties"]).take(pa.array(order)).combine_chunks(), Path(f"{stem}.arrow"))
        return {"codes": f"{stem}.npy", "properties": f"{stem}.arrow"}


@dataclass(frozen=True)
class PlaceVertices:
    """Stage: write the properties of a range of codes, NULL where the table has no such vertex; report ids that come twice."""

    chunks: Sequence[dict[str, str]]

    def __call__(self, item: dict[str, Any]) -> dict[str, Any]:
        first, last = item["range"]
        codes, tables = [], []
        for chunk in self.chunks:
            sorted_codes = map_array(chunk["codes"])
            low, high = np.searchsorted(sorted_codes, [first, last])
            codes.append(sorted_codes[low:high].copy())
            tables.append(map_table(chunk["properties"]).slice(low, high - low))
        places = np.concatenate(codes).astype(np.int64) - first
        rows = np.full(last - first, -1, np.int64)
        rows[places] = np.arange(len(places))
        write_table(pa.concat_tables(tables).take(pa.array(rows, mask=rows < 0)).combine_chunks(), Path(item["file"]))
        distinct, counts = np.unique(places, return_counts=True)
        twice = distinct[counts > 1] + first
        return {"twice": len(twice), "example": int(twice[0]) if len(twice) else None}


def write_dictionary(
    assembly: Assembly, numbering: Numbering, base: int | None, ids: Sequence[dict[str, Any]], kind: pa.DataType
) -> None:
    """Write the ids by code, some at a time, and their ranks. `ids` are merged dictionaries, or ids lie close above `base`."""
    file, ranks = assembly.folder / f"{VERTEX}.ids.arrow", assembly.folder / f"{VERTEX}.ranks.npy"
    merged = [piece for entry in ids for piece in map_table(entry["ids"])["id"].chunks]
    by_rank = None if base is not None else pa.chunked_array(merged, kind)
    schema = pa.schema([("id", kind)])
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for first in range(0, max(1, numbering.size), IDS):
            order = numbering.order[first : first + IDS]
            part = pa.array(order + base).cast(kind) if by_rank is None else take(by_rank, order)
            writer.write_table(pa.table({"id": part}).cast(schema).combine_chunks())
    np.save(ranks, numbering.ranks)
    assembly.domains[VERTEX] = DomainEntry(numbering.size, str(kind), ids=(assembly.name(file),), ranks=assembly.name(ranks))


def write_vertices(
    assembly: Assembly, table: Table, chunks: Chunks, code: Code, kind: np.dtype[Any], labels: str | None
) -> None:
    """Write the columns of the vertex table by code, and the lists of its labels, which are in a column of theirs."""
    names = table.schema.names[1:]
    column = next((n for n in names if n == labels or (labels is None and n.lower() == "label")), None)
    placed = assembly.run(SortVertices(assembly.exchange, code), [c for c in chunks if c["rows"]]) if names else []
    if not placed:
        return
    size = code.shards.size
    pieces = [(first, min(first + assembly.part, size)) for first in range(0, size, assembly.part)]
    files = [assembly.folder / f"{VERTEX}.properties{number}.arrow" for number in range(len(pieces))]
    items = [{"range": piece, "file": str(file)} for piece, file in zip(pieces, files, strict=True)]
    done = assembly.run(PlaceVertices(placed), items)
    if twice := sum(entry["twice"] for entry in done):
        example = next(entry["example"] for entry in done if entry["twice"])
        shown = map_table(assembly.folder / f"{VERTEX}.ids.arrow")["id"][example].as_py()
        raise SourceError(f"{twice} ids of {table.source} come more than once, for example {shown!r}: a vertex is one row")
    assembly.add_properties(VERTEX, files)
    if column is not None:
        values = pa.chunked_array([chunk for file in files for chunk in map_table(file)[column].chunks])
        _write_labels(assembly, table.source, column, values, kind)


def _write_labels(assembly: Assembly, source: str, column_name: str, column: pa.ChunkedArray, kind: np.dtype[Any]) -> None:
    """Write the codes of each label, one list after another, and enter a relation for each label that a rule can name."""
    file = assembly.folder / f"{VERTEX}.labels.npy"
    encoded = column.combine_chunks().dictionary_encode()
    if len(encoded.dictionary) > MANY:
        warn_left_out(source, [column_name], f"it has more than {MANY} values, and each would be a relation", "column")
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
