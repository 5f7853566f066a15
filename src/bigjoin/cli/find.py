"""bigjoin find: the matches of a query, to a file, a terminal or a pipe."""

from __future__ import annotations

import csv
import os
import select
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bigjoin.cli.options import Options, query_options
from bigjoin.cli.question import question
from bigjoin.cli.source import asking
from bigjoin.defaults import check_strategy, listing

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_SHOWN = 20
"""Rows shown on a terminal unless --limit asks for another number."""
ROWS_AT_ONCE = 1 << 10
"""Rows of a table that become Python's values at a time."""
COPY_BYTES = 1 << 20
"""Bytes of a result that are copied to standard output at a time."""


@click.command()
@click.option(
    "-o", "--output", metavar="PATH", type=click.Path(path_type=Path), help="Write to a .parquet, .csv, .json or .jsonl file."
)
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Stop after N matches (with --factorized: N rows).")
@click.option("--sample", type=click.IntRange(min=0), metavar="N", help="Choose N matches uniformly, without replacement.")
@click.option("--random-state", type=click.IntRange(min=0), metavar="N", help="Choose the same sample as before with this N.")
@click.option("--max-rows", type=click.IntRange(min=0), metavar="N", help="Refuse to find more than N rows.")
@click.option("--factorized", is_flag=True, help="Return independent attributes as lists instead of all combinations.")
@query_options
def find(
    query: str,
    source: str | None,
    output: Path | None,
    limit: int | None,
    sample: int | None,
    random_state: int | None,
    max_rows: int | None,
    factorized: bool,
    options: Options,
) -> None:
    """Find the matches of QUERY in SOURCE, or in the relations of --relation: one column for each attribute of the head.

    Without -o: a table on a terminal, CSV on a pipe, JSON lines with --json. Rows are printed as they are found. When the
    reader of a pipe stops (find ... | head), the search ends with exit code 0.
    """
    parsed = question(query, options)
    check_strategy(options.run["strategy"], factorized=factorized)
    if output is not None:
        from bigjoin.output import check_target

        for path in (source, *options.relations.values()):
            check_target(output, path, lists=factorized)
    from bigjoin.quota import Quota, within

    drawn = {"sample": sample, "random_state": random_state}
    how = listing(options.run, limit=limit, factorized=factorized, max_rows=max_rows, **drawn)
    row, rows = ("row of lists", "rows of lists") if factorized else ("match", "matches")
    with asking(parsed, source, options, doing="finding") as (graph, report):
        if output is not None:
            written = graph.write(parsed, output, progress=report.share, **how, **options.limits)
        elif sys.stdout.isatty() and not options.as_json:
            how["limit"] = ROWS_SHOWN if limit is None and sample is None else limit
            table = graph.arrow(parsed, **how, **options.limits).read_all()
        else:
            is_json = options.as_json or factorized  # CSV has no lists
            suffix = ".arrow" if is_json else ".csv"
            try:
                found = graph.pieces(parsed, suffix, progress=report.share, look=_check_reader, **how, **options.limits)
                with closing(found) as pieces:
                    print_json(pieces) if is_json else print_csv(pieces, graph.flat_columns(parsed))
                sys.stdout.flush()
            except BrokenPipeError:  # the reader has seen enough
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return
    if output is not None:
        click.echo(f"{written:,} {row if written == 1 else rows} in {output}", err=True)
        return
    with within(Quota(memory=options.limits.get("memory"))):
        show(table)
    if limit is None and sample is None and table.num_rows == ROWS_SHOWN:
        click.echo(f"the first {ROWS_SHOWN} {rows}; --limit N shows more, -o FILE writes all", err=True)


def show(table: pa.Table) -> None:
    """Print rows as a table."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from bigjoin.quota import quota

    shown = Table(*table.column_names)
    for row in chain.from_iterable(batch.to_pylist() for batch in table.to_batches(max_chunksize=ROWS_AT_ONCE)):
        quota().check()
        shown.add_row(*(Text("" if value is None else str(value)) for value in row.values()))
    Console().print(shown)


def print_csv(pieces: Iterator[Path], columns: Sequence[str]) -> None:
    """Print CSV files as they come, below a header."""
    first = next(pieces, None)  # before the header, so that a search that fails here prints nothing
    csv.writer(sys.stdout, lineterminator="\n").writerow(columns)
    sys.stdout.flush()
    for piece in chain([] if first is None else [first], pieces):
        with piece.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer, COPY_BYTES)
        sys.stdout.buffer.flush()


def print_json(pieces: Iterator[Path]) -> None:
    """Print files of Arrow batches as they come, as JSON lines."""
    import pyarrow as pa

    from bigjoin.local.matches import json_line

    for piece in pieces:
        with pa.ipc.open_file(str(piece)) as reader:
            for number in range(reader.num_record_batches):
                sys.stdout.writelines(json_line(row) for row in reader.get_batch(number).to_pylist())
        sys.stdout.flush()


def _check_reader() -> None:
    """Raise BrokenPipeError if the reader of standard output is gone, which no write may notice for a long time."""
    poll = select.poll()
    with suppress(OSError, ValueError):  # standard output may not be a file
        poll.register(sys.stdout.fileno(), 0)
    if any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0)):
        raise BrokenPipeError
