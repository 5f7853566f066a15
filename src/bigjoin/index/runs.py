"""Runs: the updates of one or more epochs as files, what they come to together, and when two become one.

A run is kept until it is compacted into the tries. Runs are merged so that each is at least twice as large as the next: there
are as many as a logarithm of the updates says, and each update is written that often.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bigjoin.index.manifest import in_use
from bigjoin.index.trie import Codes

RATIO = 2

Reading: TypeAlias = tuple[str, int]
"""A relation, and how many columns are read of it: its pairs, or its rows, which have an id more."""


@dataclass(frozen=True)
class Delta:
    """How a relation differs from what it was: tuples, column by column, that it has lost and that it has gained."""

    deleted: Sequence[Codes]
    inserted: Sequence[Codes]

    def __len__(self) -> int:
        return len(self.deleted[0]) + len(self.inserted[0])


def write_deltas(file: Path, deltas: Mapping[Reading, Delta]) -> None:
    """Write the deltas of relations as one NumPy archive."""
    arrays = {}
    for (relation, width), delta in deltas.items():
        for name, tuples in (("deleted", delta.deleted), ("inserted", delta.inserted)):
            arrays[f"{relation}/{width}/{name}"] = np.stack(tuples)
    with file.open("wb") as sink:
        np.savez(sink, **arrays)  # type: ignore[arg-type]


def read_deltas(file: Path) -> dict[Reading, Delta]:
    """Return the deltas of relations."""
    found: dict[Reading, dict[str, list[Codes]]] = {}
    with np.load(file, allow_pickle=False) as archive:
        for name in archive.files:
            relation, width, what = name.split("/")
            found.setdefault((relation, int(width)), {})[what] = list(archive[name])
    return {read: Delta(**tuples) for read, tuples in found.items()}


def combined(first: Mapping[Reading, Delta], second: Mapping[Reading, Delta]) -> dict[Reading, Delta]:
    """Return what two runs come to, one after the other: what the first inserts and the second deletes was never there."""
    deltas = dict(first)
    for read, later in second.items():
        earlier = deltas.get(read)
        if earlier is None:
            deltas[read] = later
            continue
        deleted = [*_without(earlier.deleted, later.inserted)], [*_without(later.deleted, earlier.inserted)]
        inserted = [*_without(earlier.inserted, later.deleted)], [*_without(later.inserted, earlier.deleted)]
        deltas[read] = Delta(_joined(*deleted), _joined(*inserted))
    return deltas


def merge_runs(path: Path, folder: Path, content: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a manifest in which the last runs are one, if they are to be; its files go to a folder."""
    runs = content.get("runs", [])
    count = to_merge([run["tuples"] for run in runs]) if runs else 1
    if count == 1:
        return content
    kept, last = runs[:-count], runs[-count:]
    deltas = reduce(combined, (read_deltas(path / run["deltas"]) for run in last))
    write_deltas(folder / "merged.npz", deltas)
    merged: dict[str, Any] = {
        "epochs": [last[0]["epochs"][0], last[-1]["epochs"][1]],
        "tuples": sum(map(len, deltas.values())),
        "deltas": f"{folder.name}/merged.npz",
        "parts": {},
    }
    domains = {name: dict(domain) for name, domain in content["domains"].items()}
    for place in dict.fromkeys(place for run in last for place in run["parts"]):
        files = [run["parts"][place] for run in last if place in run["parts"]]
        name, _, part = place.rpartition("/")
        file = f"{folder.name}/{name.replace(' ', '-')}.{part}.merged.arrow"
        _concatenate([path / earlier for earlier in files], folder.parent / file)
        domains[name][part] = [*(f for f in domains[name][part] if f not in files), file]
        merged["parts"][place] = file
    return {**content, "runs": [*kept, merged], "domains": domains}


def drop_unused(folder: Path, content: dict[str, Any]) -> None:
    """Remove the files of a folder that a manifest's content does not name: what became part of others."""
    files = {f"{folder.name}/{file.name}": file for file in folder.iterdir()}
    for name in files.keys() - in_use(content, files).keys():
        files[name].unlink()


def _concatenate(files: Sequence[Path], target: Path) -> None:
    """Write the tables of Arrow files as one."""
    with pa.OSFile(str(target), "wb") as sink:
        tables = [pa.ipc.open_file(pa.memory_map(str(file))).read_all() for file in files]
        whole = pa.concat_tables(tables).combine_chunks()
        with pa.ipc.new_file(sink, whole.schema) as writer:
            writer.write_table(whole)


def to_merge(sizes: Sequence[int]) -> int:
    """Return how many of the last runs are to become one, given how many tuples each has; one stays as it is."""
    count, total = 1, sizes[-1]
    while count < len(sizes) and sizes[-count - 1] < RATIO * total:
        total += sizes[-count - 1]
        count += 1
    return count


def _joined(one: Sequence[Codes], other: Sequence[Codes]) -> list[Codes]:
    return [np.concatenate(pair) for pair in zip(one, other, strict=True)]


def _without(tuples: Sequence[Codes], others: Sequence[Codes]) -> Iterator[Codes]:
    gone = np.isin(tuples[-1], others[-1])  # most often all that tells: numbers of rows come once
    if gone.any():
        some, theirs = [column[gone] for column in tuples], np.isin(others[-1], tuples[-1])
        gone[gone] = np.isin(_packed(some), _packed([column[theirs] for column in others]))
    return (column[~gone] for column in tuples)


def _packed(tuples: Sequence[Codes]) -> NDArray[Any]:
    """Return tuples as single values that can be compared."""
    if len(tuples) == 2 and tuples[0].dtype == np.uint32:
        return np.asarray(tuples[0].astype(np.uint64) << np.uint64(32) | tuples[1])
    rows = np.ascontiguousarray(np.stack(tuples, axis=1))
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
