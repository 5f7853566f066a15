"""Updates from the files of a folder: every file is an epoch, in the order of their names."""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bigjoin.errors import SourceError
from bigjoin.index.directory import VERTEX, Index
from bigjoin.index.manifest_entries import LedgerEntry
from bigjoin.ingest.columns import id_type
from bigjoin.ingest.delimited import read_delimited
from bigjoin.ingest.json_lines import JSON_SUFFIXES, line_of_row, read_json
from bigjoin.ingest.table import edge_columns
from bigjoin.paths import check_regular
from bigjoin.streaming.epoch import Epoch
from bigjoin.streaming.monitor import Monitor
from bigjoin.streaming.updates import OP_COLUMN, read_updates

TEXT_SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
UPDATE_SUFFIXES = (".parquet", *JSON_SUFFIXES, *TEXT_SEPARATORS)
POLL_SECONDS = 0.5
"""How often a folder is searched for new files."""


def read_file(file: Path, index: Index | None = None) -> pa.Table:
    """Return the updates of a file; raise SourceError if it cannot be read.

    Columns that are text in the index are read as text, even if they look like numbers (007) or missing values (NA).
    """
    check_regular(file)
    suffix = _suffix(file)
    try:
        if suffix == ".parquet":
            return pq.read_table(file, partitioning=None)
        if suffix in JSON_SUFFIXES:
            return _flat(read_json(file), file, index)
        if not file.stat().st_size:
            raise SourceError(f"{file} is empty: it needs at least the titles of its columns")
        separator = TEXT_SEPARATORS.get(suffix, ",")
        return read_delimited(file, separator, texts=_text_columns(file, separator, index), nulls=[""])
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{file} cannot be read as updates: {str(error).splitlines()[0]}") from None


def _flat(table: pa.Table, file: Path, index: Index | None) -> pa.Table:
    """Return a table if the columns that the index has are flat; others do not matter."""
    known = {name for columns in index.statistics.properties.values() for name in columns} if index is not None else set()
    known |= {*(edge_columns(table.column_names) or ()), *(name for name in table.column_names if name.lower() == OP_COLUMN)}
    for field in table.schema:
        if field.name in known and pa.types.is_nested(field.type):
            row = int(np.argmax(table[field.name].is_valid().to_numpy()))
            what = "a list" if pa.types.is_list(field.type) else "an object"
            raise SourceError(
                f"line {line_of_row(file, row):,} of {file} has {what} for {field.name!r}: give a number, text or true"
            )
    return table


def _text_columns(file: Path, separator: str, index: Index | None) -> list[str]:
    """Return the columns of a text file that are text in the index."""
    if index is None:
        return []
    with pa.input_stream(str(file), compression="detect") as source:
        titles = re.split(r"[\r\n]", source.read(1 << 16).decode("utf-8-sig", errors="replace"), maxsplit=1)[:1]
    ends = edge_columns(next(csv.reader(titles, delimiter=separator), []))
    names = [name for known in index.statistics.properties.values() for name, kind in known.items() if kind == "string"]
    return [*names, *((ends or ()) if pa.types.is_string(index.dictionaries[VERTEX].type) else ())]


def _suffix(file: Path) -> str:
    """Return the suffix of a file, without that of its compression."""
    return Path(file.name.lower().removesuffix(".gz")).suffix


def new_files(folder: Path, ledger: LedgerEntry | None) -> Iterator[tuple[Path, LedgerEntry]]:
    """Give the files of a folder that come after those that were applied, in the order of their names, with their entries."""
    source = f"the files of {folder.absolute()}"
    later, first = updates_in(folder), 0
    if ledger is not None and ledger.source == source and ledger.name is not None:
        files, first = later, ledger.batch + 1
        later = [file for file in files if file.name > ledger.name]
        if len(files) - len(later) > first:
            raise SourceError(
                f"{folder} has files that came late: {len(files) - len(later)} have names up to {ledger.name!r}, and "
                f"{first} of these were applied; give the others later names"
            )
    for number, file in enumerate(later, first):
        yield file, LedgerEntry(source, number, file.name)


def updates_in(folder: Path) -> list[Path]:
    """Return the files of updates in a folder, in the order of their names; refuse anything else that has such a name."""
    named = [file for file in folder.iterdir() if _suffix(file) in UPDATE_SUFFIXES and not file.name.startswith((".", "_"))]
    for other in (file for file in named if not (file.is_file() or file.is_dir())):
        check_regular(other)
    return sorted((file for file in named if file.is_file()), key=lambda file: file.name)


def empty_like(file: Path, left_out: str | None = None) -> pa.Table:
    """Return a table of no edges with the columns of a file of updates, but for `op` and one that may order updates."""
    table = read_file(file)
    ends = edge_columns(table.column_names)
    if ends is None:
        raise SourceError(f"{file} has no columns src and dst; its columns are: {', '.join(table.column_names) or 'none'}")
    read_updates(table, id_type(table[ends[0]].type, ends[0], str(file)), str(file))  # fails before an index is built
    further = [name for name in table.column_names if name not in (*ends, left_out) and name.lower() != OP_COLUMN]
    return table.select([*ends, *further]).slice(0, 0)


def watch_folder(
    monitor: Monitor,
    folder: Path,
    *,
    once: bool,
    adopt: bool = False,
    report: Callable[[Epoch, Path, int], None] = lambda *_: None,
) -> int:
    """Apply the files of a folder, and those that arrive, until interrupted; with `once`, only until none is left.

    Return how many were applied. `report` gets each epoch with its file and the number of files that wait.
    """
    done = 0
    while True:
        with monitor.writing() as live:
            index, waiting = live.index, list(new_files(folder, live.index.manifest.ledger))
        for number, (file, entry) in enumerate(waiting, 1):
            epoch = monitor.apply(read_file(file, index), str(file), ledger=entry, adopt=adopt)
            adopt = False
            if epoch is not None:
                report(epoch, file, len(waiting) - number)
                done += 1
        if once and not waiting:
            return done
        if not waiting:
            time.sleep(POLL_SECONDS)
