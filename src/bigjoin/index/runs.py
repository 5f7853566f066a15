"""Runs: the updates of one or more epochs as a file, their combined effect, and when two runs become one.

A run is kept until it is compacted into the tries. Runs are merged so that each is at least twice as large as the next: their
number, and how often each update is written, are logarithmic in the number of updates.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bigjoin.index.directory import Index
from bigjoin.index.epoch_files import EpochFiles
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


def write_deltas(sink: IO[bytes], deltas: Mapping[Reading, Delta]) -> None:
    """Write the deltas of relations as one NumPy archive."""
    arrays = {
        f"{relation}/{width}/{name}": tuples
        for (relation, width), delta in deltas.items()
        for name, tuples in vars(delta).items()
    }
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
    if array.dtype.name != index.manifest.codes or not array.dtype.isnative:
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


class UntrueRunsError(Exception):
    """Runs of which one inserts what is there already, or deletes what is not."""


def combined(runs: Sequence[Mapping[Reading, Delta]]) -> dict[Reading, Delta]:
    """Return the effect of runs in turn: insertions and deletions of a tuple cancel out.

    Each run is a true difference, so that these take turns. Whatever their order, what is left is their sum: one or none.
    """
    readings = dict.fromkeys(read for deltas in runs for read in deltas)
    return {read: _sum([deltas[read] for deltas in runs if read in deltas]) for read in readings}


def _sum(deltas: Sequence[Delta]) -> Delta:
    if len(deltas) == 1:
        return deltas[0]
    inserted, deleted = ([getattr(delta, what) for delta in deltas] for what in ("inserted", "deleted"))
    tuples = np.concatenate([*inserted, *deleted], axis=1)
    is_deleted = np.ones(tuples.shape[1], np.bool_)
    is_deleted[: sum(part.shape[1] for part in inserted)] = False
    tuples, is_deleted = _in_order(tuples, is_deleted)
    signs = np.where(is_deleted, -1, 1)
    is_first = np.append(True, (tuples[:, 1:] != tuples[:, :-1]).any(axis=0))[: tuples.shape[1]]
    starts = np.flatnonzero(is_first)
    left = np.add.reduceat(signs, starts) if len(starts) else signs
    if len(left) and abs(left).max() > 1:
        raise UntrueRunsError
    return Delta(*(np.take(tuples, starts[left == sign], axis=1) for sign in (-1, 1)))


def _in_order(tuples: Codes, flags: NDArray[np.bool_]) -> tuple[Codes, NDArray[np.bool_]]:
    """Return tuples, each with a flag, sorted column by column."""
    if len(tuples) == 2 and tuples.dtype == np.uint32 and not (tuples[0] >> np.uint32(31)).any():
        packed = tuples[0].astype(np.uint64) << np.uint64(33) | tuples[1].astype(np.uint64) << np.uint64(1) | flags
        packed.sort()  # several times as fast as to find the order
        pairs = packed >> np.uint64(1)
        return np.stack([pairs >> np.uint64(32), pairs]).astype(np.uint32), (packed & np.uint64(1)).astype(np.bool_)
    order = np.lexsort(tuples[::-1])
    return np.take(tuples, order, axis=1), flags[order]


def read_combined(index: Index, runs: Sequence[RunEntry]) -> dict[Reading, Delta]:
    """Return the effect of some runs of an index."""
    try:
        return combined([read_deltas(index, run) for run in runs])
    except UntrueRunsError:
        raise index.damaged("its runs of updates do not follow each other") from None


def merge_runs(index: Index, files: EpochFiles, *, count: int) -> Manifest:
    """Return the manifest of an index with the last runs merged into one, in new files."""
    manifest = index.manifest
    runs = manifest.runs
    if not count:
        return manifest
    kept, last = runs[:-count], runs[-count:]
    deltas = read_combined(index, last)
    with files.open("merged.npz") as sink:
        write_deltas(sink, deltas)
    parts, domains = {}, dict(manifest.domains)
    for place in dict.fromkeys(place for run in last for place in run.parts):
        merged_parts = [run.parts[place] for run in last if place in run.parts]
        name, _, part = place.rpartition("/")
        file = f"{name.replace(' ', '-')}.{part}.merged.arrow"
        parts[place] = files.name(file)
        verify_files(index, merged_parts)
        tables = [table_in(index.file(name).content) for name in merged_parts]
        with files.open(file) as sink:
            write_table(pa.concat_tables(tables).combine_chunks(), sink)
        listed = (*domains[name].part(part)[: -len(merged_parts)], parts[place])
        domains[name] = domains[name].with_part(part, listed)
    epochs, tuples = (last[0].epochs[0], last[-1].epochs[1]), sum(map(len, deltas.values()))
    merged = RunEntry(epochs, tuples, files.name("merged.npz"), parts)
    return replace(manifest, runs=(*kept, merged), domains=domains)


def to_merge(sizes: Sequence[int], *, least: int = 1) -> int:
    """Return how many of the last runs, but at least some, become one, given the tuples of each; 1 leaves them as they are."""
    if not sizes:
        return 1
    count, total = least, sum(sizes[-least:])
    while count < len(sizes) and sizes[-count - 1] < MERGE_RATIO * total:
        total += sizes[-count - 1]
        count += 1
    return count
