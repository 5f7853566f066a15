"""Join the parts that tasks have written into one result file, which appears only when it is complete."""

from __future__ import annotations

import csv
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from bigjoin.errors import OutputError
from bigjoin.paths import check_local, check_parent
from bigjoin.quota import quota
from bigjoin.storage import storage_at

SUFFIXES = (".parquet", ".csv", ".json", ".jsonl", ".ndjson")
"""The formats of results: Parquet, CSV, and JSON lines under any of their names."""


def check_target(target: Path, source: str | None = None, *, lists: bool = False) -> None:
    """Raise OutputError if a result should not or cannot be written there, before a long run finds out."""
    check_local(target, "results are written")
    if target.suffix.lower() not in SUFFIXES:
        raise OutputError(f"cannot tell the format of {target}: end its name in .parquet, .csv, .json or .jsonl")
    if lists and target.suffix.lower() == ".csv":
        raise OutputError("CSV has no lists, which factorized matches are made of; write to a .parquet or .jsonl file")
    if target.is_dir():
        raise OutputError(f"{target} is a directory; name a file in it")
    if target.exists() and not target.is_file():
        raise OutputError(f"{target} is a pipe or a device, and results are files: name another, or print them to a pipe")
    if source is not None and target.exists() and Path(source).exists() and target.samefile(source):
        raise OutputError(f"{target} is the source itself; write to another file")
    check_parent(target)


@contextmanager
def staging(target: Path) -> Iterator[Path]:
    """Give a folder for the parts next to the target, and remove it afterwards, whatever happens."""
    storage, name = storage_at(target.absolute().parent), f".{target.name}.{uuid.uuid4().hex[:12]}"
    try:
        yield storage.create_folder(name)
    finally:
        storage.remove(name)


def assemble(parts: list[Path], schema: pa.Schema, target: Path, folder: Path) -> None:
    """Join part files into the target, which is replaced atomically."""
    whole = folder / target.name
    if target.suffix.lower() == ".parquet":
        _join_parquet(parts, schema, whole)
    else:
        _join_text(parts, schema.names if target.suffix.lower() == ".csv" else None, whole)
    quota().check()
    storage_at(folder.parent).move(f"{folder.name}/{target.name}", target.name)


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
