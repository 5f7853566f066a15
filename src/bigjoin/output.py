"""Join the parts that tasks have written into one result file, which appears only when it is complete."""

from __future__ import annotations

import csv
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from bigjoin.errors import OutputError, reason
from bigjoin.paths import check_parent
from bigjoin.quota import quota
from bigjoin.storage import Place, is_on_store, remove_folder, storage_at
from bigjoin.storage.scratch import scratch_directory
from bigjoin.storage.store_scratch import scratch_on_store

SUFFIXES = (".parquet", ".csv", ".json", ".jsonl", ".ndjson")
"""The formats of results: Parquet, CSV, and JSON lines under any of their names."""


def check_target(target: Place, source: str | None = None, *, lists: bool = False) -> None:
    """Raise OutputError if a result should not or cannot be written there, before a long run finds out."""
    if target.suffix.lower() not in SUFFIXES:
        raise OutputError(f"cannot tell the format of {target}: end its name in .parquet, .csv, .json or .jsonl")
    if lists and target.suffix.lower() == ".csv":
        raise OutputError("CSV has no lists, which factorized matches are made of; write to a .parquet or .jsonl file")
    if is_on_store(target):
        return
    if target.is_dir():
        raise OutputError(f"{target} is a directory; name a file in it")
    if target.exists() and not target.is_file():
        raise OutputError(f"{target} is a pipe or a device, and results are files: name another, or print them to a pipe")
    if source is not None and target.exists() and Path(source).exists() and target.samefile(source):
        raise OutputError(f"{target} is the source itself; write to another file")
    check_parent(target)


@contextmanager
def staging(target: Place, *, far: bool = False) -> Iterator[Place]:
    """Give a folder for the parts, next to the target if it is a file of this machine; remove it afterwards, whatever happens.

    For an object on a store, it is scratch of this machine or, if tasks that are `far` away write parts, of the store.
    """
    if is_on_store(target):
        folder = scratch_on_store(target.parent, "parts") if far else scratch_directory("parts")
        try:
            yield folder
        finally:
            remove_folder(folder)
        return
    storage, name = storage_at(target.absolute().parent), f".{target.name}.{uuid.uuid4().hex[:12]}"
    try:
        yield storage.create_folder(name)
    finally:
        storage.remove(name)


def assemble(parts: list[Place], schema: pa.Schema, target: Place, folder: Place) -> None:
    """Join part files into the target, which is replaced atomically."""
    if is_on_store(target):
        _assemble_on_store(parts, schema, target)
        return
    _joined(parts, schema, target, folder)
    storage_at(folder.parent).move(f"{folder.name}/{target.name}", target.name)


def _assemble_on_store(parts: list[Place], schema: pa.Schema, target: Place) -> None:
    """Join part files here, and put them on the store as one object, which exists once all of it has arrived."""
    here = scratch_directory("joined")
    try:
        copies = [here / part.name if is_on_store(part) else part for part in parts]
        for part, copy in zip(parts, copies, strict=True):
            if copy is not part:
                storage_at(part.parent).copy_to(part.name, copy)
        whole = _joined(copies, schema, target, here)
        storage_at(target.parent).put(target.name, whole)
    except OSError as error:
        raise OutputError(f"{target} cannot be written: {reason(error)}") from error
    finally:
        remove_folder(here)


def _joined(parts: list[Path], schema: pa.Schema, target: Place, folder: Path) -> Path:
    """Return a file in a folder with the rows of all parts."""
    whole = folder / target.name
    if target.suffix.lower() == ".parquet":
        _join_parquet(parts, schema, whole)
    else:
        _join_text(parts, schema.names if target.suffix.lower() == ".csv" else None, whole)
    quota().check()
    return whole


def _join_text(parts: list[Path], header: Sequence[str] | None, whole: Path) -> None:
    with whole.open("w", newline="", encoding="utf-8") as sink:
        if header is not None:
            csv.writer(sink, lineterminator="\n").writerow(header)
    with whole.open("ab") as sink:
        for part in parts:
            quota().check()
            with part.open("rb") as source:
                shutil.copyfileobj(source, sink, 1 << 22)


def _join_parquet(parts: list[Path], schema: pa.Schema, whole: Path) -> None:
    if not parts:
        import pyarrow.parquet as pq

        pq.write_table(schema.empty_table(), whole)
    elif len(parts) == 1:
        parts[0].replace(whole)
    else:
        from bigjoin.joined_parquet import join_parquet

        join_parquet(parts, whole)
