"""Updates from the files of a folder: every file is an epoch, in the order of their names."""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bigjoin.defaults import BadRowName
from bigjoin.errors import SourceError
from bigjoin.index.directory import EDGE, VERTEX, Index
from bigjoin.index.manifest_entries import LedgerEntry
from bigjoin.ingest.columns import id_type
from bigjoin.ingest.delimited import read_delimited
from bigjoin.ingest.json_lines import JSON_SUFFIXES, line_of_row, read_json
from bigjoin.ingest.table import vertex_column
from bigjoin.paths import check_regular
from bigjoin.streaming.bad_rows import sort_rows
from bigjoin.streaming.epoch import Epoch
from bigjoin.streaming.monitor import Monitor
from bigjoin.streaming.update_columns import BY_NAME, UpdateColumns
from bigjoin.streaming.update_schema import ExpectedUpdates

TEXT_SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
UPDATE_SUFFIXES = (".parquet", *JSON_SUFFIXES, *TEXT_SEPARATORS)
LEAST_ROUNDED_NUMBER = 2.0**53
"""From here on, doubles are not equal to every whole number."""
POLL_SECONDS = 0.5
"""How often a folder is searched for new files."""


def read_file(file: Path, index: Index | None = None, columns: UpdateColumns = BY_NAME) -> pa.Table:
    """Return the updates of a file; raise SourceError if it cannot be read.

    Columns that are text in the index are read as text, even if they look like numbers (007) or missing values (NA). `columns`
    may name those of the ends.
    """
    check_regular(file)
    suffix = _suffix(file)
    try:
        if suffix == ".parquet":
            return pq.read_table(file, partitioning=None)
        if suffix in JSON_SUFFIXES:
            return _exact(_flat(read_json(file, mixed_as_text=True), file, index, columns), file, index)
        if not file.stat().st_size:
            raise SourceError(f"{file} is empty: it needs at least the titles of its columns")
        separator = TEXT_SEPARATORS.get(suffix, ",")
        texts = _text_columns(file, separator, index, columns)
        return _exact(read_delimited(file, separator, texts=texts, nulls=[""]), file, index)
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{file} cannot be read as updates: {str(error).splitlines()[0]}") from None


def _flat(table: pa.Table, file: Path, index: Index | None, columns: UpdateColumns) -> pa.Table:
    """Return a table if the columns that the index has are flat; others do not matter."""
    known = set() if index is None else {name for names in index.statistics.properties.values() for name in names}
    found = columns.find_all(table.column_names, known)
    known |= set() if found is None else {*found.ends, found.op or found.src}
    for field in table.schema:
        if field.name in known and pa.types.is_nested(field.type):
            row = int(np.argmax(table[field.name].is_valid().to_numpy()))
            what = "a list" if pa.types.is_list(field.type) else "an object"
            raise SourceError(
                f"line {line_of_row(file, row):,} of {file} has {what} for {field.name!r}: give a number, text or true"
            )
    return table


def _exact(table: pa.Table, file: Path, index: Index | None) -> pa.Table:
    """Return a table of text whose numbers are those that are written, where the index has whole numbers.

    A fraction makes doubles of a whole column, and rounds its largest numbers.
    """
    properties = () if index is None else index.statistics.properties.values()
    whole = {name for known in properties for name, kind in known.items() if kind.startswith("int")}
    for name in whole.intersection(table.column_names):
        column = table[name]
        if pa.types.is_floating(column.type) and (pc.max(pc.abs(column)).as_py() or 0) >= LEAST_ROUNDED_NUMBER:
            raise SourceError(
                f"column {name!r} of {file} has numbers with a fraction and others from 2^53 on, which would be rounded beside "
                "them: give them as Parquet, or in two files"
            )
    return table


def _text_columns(file: Path, separator: str, index: Index | None, columns: UpdateColumns) -> list[str]:
    """Return the columns of a text file that are text in the index."""
    if index is None:
        return []
    with pa.input_stream(str(file), compression="detect") as source:
        titles = re.split(r"[\r\n]", source.read(1 << 16).decode("utf-8-sig", errors="replace"), maxsplit=1)[:1]
    properties = {name for known in index.statistics.properties.values() for name in known}
    titles_read = next(csv.reader(titles, delimiter=separator), [])
    found = columns.find_all(titles_read, properties)
    ids = (*(() if found is None else found.ends), *(vertex_column(titles_read) or ()))
    names = [name for known in index.statistics.properties.values() for name, kind in known.items() if kind == "string"]
    return [*names, *(ids if pa.types.is_string(index.dictionaries[VERTEX].type) else ())]


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


def empty_like(
    file: Path, left_out: str | None = None, columns: UpdateColumns = BY_NAME, on_bad_row: BadRowName = "fail"
) -> pa.Table:
    """Return a table of no edges with the columns of a file of updates, but for `op` and one that may order updates."""
    table = read_file(file, columns=columns)
    found = columns.find(table.column_names, str(file))
    ids = id_type(table[found.src].type, found.src, str(file))
    rows = sort_rows(table, ExpectedUpdates(ids, {EDGE: {}}, columns=columns), str(file))
    if rows.faults and on_bad_row == "fail":  # before an index is built
        raise rows.refusal(1)
    further = [name for name in table.column_names if name not in (*found.ends, found.op, left_out)]
    return table.select([*found.ends, *further]).slice(0, 0)


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
    done, first = 0, _checked_first(monitor, folder)
    while True:
        with monitor.writing() as live:
            index, waiting = live.index, list(new_files(folder, live.index.manifest.ledger))
        for number, (file, entry) in enumerate(waiting, 1):
            table = first.pop(file) if file in first else _read_next(file, index, monitor)
            epoch = monitor.apply(table, str(file), ledger=entry, adopt=adopt)
            adopt = False
            if epoch is not None:
                report(epoch, file, len(waiting) - number)
                done += 1
        monitor.flush()
        if once and not waiting:
            return done
        if not waiting:
            time.sleep(POLL_SECONDS)


def _checked_first(monitor: Monitor, folder: Path) -> dict[Path, pa.Table]:
    """Refuse the first file at once if its columns do not fit; return its rows if they had to be read for that."""
    index = Index.open(monitor.path, verify=monitor.verify)
    for file, _ in new_files(folder, index.manifest.ledger):
        rows = {} if _suffix(file) == ".parquet" else {file: _read_next(file, index, monitor)}
        monitor.check(rows[file].schema if rows else _parquet_schema(file), str(file))
        return rows
    return {}


def _read_next(file: Path, index: Index, monitor: Monitor) -> pa.Table:
    """Return the updates of the next file, or say what to do if it is malformed."""
    try:
        return read_file(file, index, monitor.columns)
    except SourceError as error:
        raise SourceError(f"{error}; nothing of it is applied: replace it, and watch again") from None


def _parquet_schema(file: Path) -> pa.Schema:
    check_regular(file)
    try:
        return pq.read_schema(file)
    except (pa.ArrowException, OSError) as error:
        what = str(error).splitlines()[0]
        raise SourceError(
            f"{file} cannot be read as updates: {what}; nothing of it is applied: replace it, and watch again"
        ) from None
