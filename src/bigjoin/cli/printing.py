"""How rows are printed: as a table on a terminal, as CSV on a pipe, or as JSON lines, whichever command has found them."""

from __future__ import annotations

import csv
import os
import select
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from bigjoin.cli.options import Form, Options

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_AT_ONCE = 1 << 10
"""Rows of a table that become Python's values at a time."""
LINES_OF_A_CELL = 2
"""How many times wider than the terminal a table may be, whose cells are then broken at spaces."""
WIDEST = 1 << 16
"""Characters that no row of a table is wider than."""
COPY_BYTES = 1 << 16
"""Bytes of a result that are copied to standard output at a time, after which the query may have been cancelled."""


def form_of_rows(options: Options, *, lists: bool = False) -> Form:
    """Return the form in which rows are printed: the one asked for, or the one that fits who reads them."""
    if options.as_json or options.form == "json":
        return "json"
    if options.form == "table" or (options.form is None and sys.stdout.isatty()):
        return "table"
    return "json" if lists else "csv"  # CSV has no lists


def rows_shown(options: Options, form: Form) -> int | None:
    """Return how many rows are printed if nobody says how many: None for all of them, as in what another program reads."""
    is_read_by_people = form == "table" or (options.warm is not None and sys.stdout.isatty())
    return options.rows_shown if is_read_by_people else None


def print_table(table: pa.Table, form: Form) -> None:
    """Print the rows of a table."""
    if form == "table":
        show(table)
        return
    from bigjoin.local.matches import write_table
    from bigjoin.storage.scratch import scratch_directory

    folder = scratch_directory("printed")
    try:
        flat = table.flatten() if form == "csv" else table
        files = (file for file, _ in write_table(flat, folder, ".csv" if form == "csv" else ".arrow"))
        print_files(files, form, flat.column_names)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def print_files(files: Iterator[Path], form: Form, columns: Sequence[str]) -> None:
    """Print the rows of files as they come: CSV without a header, which gets one, or Arrow batches, as JSON lines."""
    print_json(files) if form == "json" else print_csv(files, columns)
    sys.stdout.flush()


def show(table: pa.Table) -> None:
    """Print rows as a table; if the terminal is too narrow for that, each row as a block with a line for each column."""
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    from bigjoin.quota import quota

    names, console = table.column_names, Console()
    shown, rows = Table(*names), []
    for row in chain.from_iterable(batch.to_pylist() for batch in table.to_batches(max_chunksize=ROWS_AT_ONCE)):
        quota().check()
        rows.append([Text(printable(value)) for value in row.values()])
        shown.add_row(*rows[-1])
    wanted = Measurement.get(console, console.options.update(width=WIDEST), shown)
    if len(names) > 1 and (wanted.minimum > console.width or wanted.maximum > LINES_OF_A_CELL * console.width):
        shown = Table("row", "column", "value")
        for number, values in enumerate(rows, 1):
            quota().check()
            for place, (name, value) in enumerate(zip(names, values, strict=True)):
                shown.add_row("" if place else f"{number:,}", Text(name), value, end_section=place == len(names) - 1)
    console.print(shown)


def printable(value: object) -> str:
    """Return a value as text for a terminal, without characters that would move its cursor or change its colours."""
    text = "" if value is None else str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def print_csv(pieces: Iterator[Path], columns: Sequence[str]) -> None:
    """Print CSV files as they come, below a header."""
    from bigjoin.quota import quota

    first = next(pieces, None)  # before the header, so that a search that fails here prints nothing
    csv.writer(sys.stdout, lineterminator="\n").writerow(columns)
    sys.stdout.flush()
    for piece in chain([] if first is None else [first], pieces):
        with piece.open("rb") as file:
            while block := file.read(COPY_BYTES):
                quota().check()
                sys.stdout.buffer.write(block)
        sys.stdout.buffer.flush()


def print_json(pieces: Iterator[Path]) -> None:
    """Print files of Arrow batches as they come, as JSON lines."""
    import pyarrow as pa

    from bigjoin.local.matches import json_line
    from bigjoin.quota import quota

    for piece in pieces:
        with pa.ipc.open_file(str(piece)) as reader:
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                for start in range(0, batch.num_rows, ROWS_AT_ONCE):
                    quota().check()
                    sys.stdout.writelines(json_line(row) for row in batch.slice(start, ROWS_AT_ONCE).to_pylist())
        sys.stdout.flush()


@contextmanager
def until_reader_leaves(options: Options) -> Iterator[None]:
    """End the block, and nothing else, when the reader of a pipe has seen enough; a shell has to know, and gets the error."""
    try:
        yield
    except BrokenPipeError:
        if options.warm is not None:
            raise
        leave_reader()


def leave_reader() -> None:
    """Print to nobody from now on, so that what Python still holds of the output is no error when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def check_reader() -> None:
    """Raise BrokenPipeError if the reader of standard output is gone, which no write may notice for a long time."""
    poll = select.poll()
    with suppress(OSError, ValueError):  # standard output may not be a file
        poll.register(sys.stdout.fileno(), 0)
    if any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0)):
        raise BrokenPipeError
