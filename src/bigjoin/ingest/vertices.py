"""Stages for the table of vertices: its columns become arrays by code, and its labels become unary relations."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bigjoin.ingest.edges import Code
from bigjoin.ingest.ids import read_table, write_table


@dataclass(frozen=True)
class SortVertices:
    """Stage: sort the rows of a chunk by code."""

    folder: str
    code: Code

    def __call__(self, item: dict[str, Any]) -> dict[str, str]:
        (codes,) = self.code.coded(np.load(item["ranks"]))
        order = np.argsort(codes, kind="stable")
        stem = f"{self.folder}/vertices-{uuid.uuid4().hex}"
        np.save(f"{stem}.npy", codes[order])
        write_table(read_table(item["properties"]).take(pa.array(order)).combine_chunks(), Path(f"{stem}.arrow"))
        return {"codes": f"{stem}.npy", "properties": f"{stem}.arrow"}


@dataclass(frozen=True)
class PlaceVertices:
    """Stage: write the properties of a range of codes, NULL where the table has no such vertex; report ids that come twice."""

    chunks: Sequence[dict[str, str]]

    def __call__(self, item: dict[str, Any]) -> dict[str, Any]:
        first, last = item["range"]
        codes, tables = [], []
        for chunk in self.chunks:
            sorted_codes = np.load(chunk["codes"], mmap_mode="r")
            low, high = np.searchsorted(sorted_codes, [first, last])
            codes.append(np.asarray(sorted_codes[low:high]))
            tables.append(read_table(chunk["properties"]).slice(low, high - low))
        places = np.concatenate(codes).astype(np.int64) - first
        rows = np.full(last - first, -1, np.int64)
        rows[places] = np.arange(len(places))
        write_table(pa.concat_tables(tables).take(pa.array(rows, mask=rows < 0)).combine_chunks(), Path(item["file"]))
        distinct, counts = np.unique(places, return_counts=True)
        twice = distinct[counts > 1] + first
        return {"twice": len(twice), "example": int(twice[0]) if len(twice) else None}


def write_labels(column: pa.ChunkedArray, file: Path, kind: np.dtype[Any]) -> dict[str, tuple[int, int]]:
    """Write the codes of each label, one list after another, and return where each label's list lies."""
    encoded = column.combine_chunks().dictionary_encode()
    labels = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    codes = np.argsort(labels, kind="stable")
    np.save(file, codes.astype(kind))
    starts = np.searchsorted(labels[codes], np.arange(len(encoded.dictionary) + 1))
    return {str(name.as_py()): (int(starts[i]), int(starts[i + 1])) for i, name in enumerate(encoded.dictionary)}
