"""Runs: the updates of one or more epochs as a file, their combined effect, and when two runs become one.

A run is kept until it is compacted into the tries. Runs are merged so that each is at least twice as large as the next: their
number, and how often each update is written, are logarithmic in the number of updates.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bigjoin.index.directory import Index
from bigjoin.index.manifest_entries import Manifest, RunEntry
from bigjoin.index.trie import Codes
from bigjoin.index.trust import verify_files
from bigjoin.storage.arrays import table_in, write_table

MERGE_RATIO = 2
"""How many times the tuples of the next run a run must hold to stay on its own."""

Reading: TypeAlias = tuple[str, int]
"""A relation and how many columns of it are read: its pairs, or its rows, which have an id as well."""


@dataclass(frozen=True)
class Delta:
    """The tuples that a relation loses and gains, each as an array with a row for each column."""

    deleted: Codes
    inserted: Codes

    def __len__(self) -> int:
        return len(self.deleted[0]) + len(self.inserted[0])


def write_deltas(file: Path, deltas: Mapping[Reading, Delta]) -> None:
    """Write the deltas of relations as one NumPy archive."""
    arrays = {
        f"{relation}/{width}/{name}": tuples
        for (relation, width), delta in deltas.items()
        for name, tuples in vars(delta).items()
    }
    with file.open("wb") as sink:
        np.savez(sink, **arrays)


def read_deltas(index: Index, run: RunEntry) -> dict[Reading, Delta]:
    """Return the deltas of a run; `Versions.begin` checks that they fit the relations."""
    verify_files(index, [run.deltas])
    found: dict[Reading, dict[str, Codes]] = {}
    try:
        for name, array in _arrays(index.file(run.deltas).content):
            relation, columns, what = name.split("/")
            read = (relation, int(columns))
            if what not in ("deleted", "inserted") or not _fits(index, read, array):
                raise ValueError(name)
            found.setdefault(read, {})[what] = array
        deltas = {read: Delta(**tuples) for read, tuples in found.items()}
    except Exception:  # anything may come of an archive that we did not write
        raise index.damaged(f"{run.deltas} is no run of updates that makes sense") from None
    if sum(map(len, deltas.values())) != run.tuples:
        raise index.damaged(f"{run.deltas} does not hold {run.tuples} updates")
    return deltas


def _fits(index: Index, read: Reading, array: NDArray[Any]) -> bool:
    """Tell whether an array holds tuples of a relation: the right number of columns, and codes within their domains."""
    entry = index.manifest.relations.get(read[0])
    reading = None if entry is None else entry.rows if read[1] > len(entry.domains) else entry
    if reading is None or array.ndim != 2 or not array.shape[0] == len(reading.domains) == read[1]:
        return False
    if array.dtype.name != index.manifest.codes or not array.dtype.isnative or reading.is_stored_result or read[1] < 2:
        return False
    sizes = (index.manifest.domains[domain].size for domain in reading.domains)
    return all(not len(codes) or int(codes.max()) < size for codes, size in zip(array, sizes, strict=True))


def _arrays(content: NDArray[np.uint8]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Give the arrays of a NumPy archive; none can be longer than the archive, which is not compressed."""
    with zipfile.ZipFile(io.BytesIO(content.tobytes())) as archive:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED or member.file_size > len(content):
                raise ValueError(member.filename)
            with archive.open(member) as source:
                yield member.filename.removesuffix(".npy"), np.lib.format.read_array(source, allow_pickle=False)


def combined(first: Mapping[Reading, Delta], second: Mapping[Reading, Delta]) -> dict[Reading, Delta]:
    """Return the effect of two runs in turn: tuples that one inserts and the other deletes cancel out."""
    deltas = {**first, **second}
    for read in first.keys() & second.keys():
        earlier, later = first[read], second[read]
        deleted = _without(earlier.deleted, later.inserted), _without(later.deleted, earlier.inserted)
        inserted = _without(earlier.inserted, later.deleted), _without(later.inserted, earlier.deleted)
        deltas[read] = Delta(np.concatenate(deleted, axis=1), np.concatenate(inserted, axis=1))
    return deltas


def merge_runs(index: Index, folder: Path, manifest: Manifest) -> Manifest:
    """Return a manifest whose last runs are merged where MERGE_RATIO says so; the merged files are written to `folder`.

    `index` reads the files of the manifest, including those that are not committed yet.
    """
    runs = manifest.runs
    count = to_merge([run.tuples for run in runs]) if runs else 1
    if count == 1:
        return manifest
    kept, last = runs[:-count], runs[-count:]
    deltas = reduce(combined, (read_deltas(index, run) for run in last))
    write_deltas(folder / "merged.npz", deltas)
    parts, domains = {}, dict(manifest.domains)
    for place in dict.fromkeys(place for run in last for place in run.parts):
        files = [run.parts[place] for run in last if place in run.parts]
        name, _, part = place.rpartition("/")
        parts[place] = f"{folder.name}/{name.replace(' ', '-')}.{part}.merged.arrow"
        verify_files(index, files)
        tables = [table_in(index.file(file).content) for file in files]
        write_table(pa.concat_tables(tables).combine_chunks(), folder.parent / parts[place])
        listed = (*(f for f in domains[name].part(part) if f not in files), parts[place])
        domains[name] = domains[name].with_part(part, listed)
    epochs, tuples = (last[0].epochs[0], last[-1].epochs[1]), sum(map(len, deltas.values()))
    merged = RunEntry(epochs, tuples, f"{folder.name}/merged.npz", parts)
    return replace(manifest, runs=(*kept, merged), domains=domains)


def drop_unused(folder: Path, manifest: Manifest) -> None:
    """Remove the files of a folder that a manifest does not name, since they were merged into others."""
    files = {f"{folder.name}/{file.name}": file for file in folder.iterdir()}
    for name in files.keys() - set(manifest.named_files()):
        files[name].unlink()


def to_merge(sizes: Sequence[int]) -> int:
    """Return how many of the last runs are to become one, given the number of tuples of each; 1 leaves them as they are."""
    count, total = 1, sizes[-1]
    while count < len(sizes) and sizes[-count - 1] < MERGE_RATIO * total:
        total += sizes[-count - 1]
        count += 1
    return count


def _without(tuples: Codes, others: Codes) -> Codes:
    """Return tuples without those that are among others."""
    gone = np.isin(tuples[-1], others[-1])  # decides most cases: a row's number occurs once
    if gone.any():
        theirs = np.compress(np.isin(others[-1], tuples[-1]), others, axis=1)
        gone[gone] = np.isin(_packed(np.compress(gone, tuples, axis=1)), _packed(theirs))
    return np.compress(~gone, tuples, axis=1)


def _packed(tuples: Codes) -> NDArray[Any]:
    """Return tuples as single values that can be compared."""
    if len(tuples) == 2 and tuples.dtype == np.uint32:
        return np.asarray(tuples[0].astype(np.uint64) << np.uint64(32) | tuples[1])
    rows = np.ascontiguousarray(tuples.T)
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
