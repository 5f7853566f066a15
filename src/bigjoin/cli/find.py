"""bigjoin find: the matches of a query, to a file, a terminal or a pipe."""

from __future__ import annotations

import csv
import json
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
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bigjoin.cli.options import Options, query_options
from bigjoin.cli.source import asking
from bigjoin.defaults import ListOptions, check_strategy
from bigjoin.languages import parse

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_SHOWN = 20
"""Rows shown on a terminal unless --limit asks for another number."""


@click.command()
@click.argument("query")
@click.argument("source", required=False)
@click.option("-o", "--output", metavar="PATH", type=click.Path(path_type=Path), help="Write to a .parquet or .csv file.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Stop after N matches; factorized: rows.")
@click.option("--factorized", is_flag=True, help="Give lists where attributes are independent, not their products.")
@query_options
def find(query: str, source: str | None, output: Path | None, limit: int | None, factorized: bool, options: Options) -> None:
    """Find the matches of QUERY in SOURCE, or in the relations of --relation: a column for each attribute of the head.

    Without -o: a table on a terminal, CSV on a pipe, and JSON lines with --json. Rows are printed as they are found, and
    when nobody reads them any more (find ... | head), the search ends, with exit code 0.
    """
    parsed = parse(query, **options.flags)
    check_strategy(options.run["strategy"], factorized=factorized)
    if output is not None:
        from bigjoin.output import check_target

        for path in (source, *options.relations.values()):
            check_target(output, path, lists=factorized)
    how = ListOptions(limit=limit, factorized=factorized, **options.run)
    with asking(parsed, source, options) as (graph, report):
        report.stage(f"finding {parsed.name}")
        if output is not None:
            rows = graph.write(parsed, output, progress=report.share, **how)
        elif sys.stdout.isatty() and not options.as_json:
            how["limit"] = ROWS_SHOWN if limit is None else limit
            table = graph.find(parsed, **how).toArrow()
        else:
            is_json = options.as_json or factorized  # CSV has no lists
            suffix = ".arrow" if is_json else ".csv"
            try:
                with closing(graph.pieces(parsed, suffix, progress=report.share, look=_Pipe().look, **how)) as pieces:
                    _print_json(pieces) if is_json else _print_csv(pieces, parsed.columns)
                sys.stdout.flush()
            except BrokenPipeError:  # whoever reads our output has seen enough
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return
    if output is not None:
        click.echo(f"{rows:,} {_kind(factorized, one=rows == 1)} in {output}", err=True)
        return
    show(table)
    if limit is None and table.num_rows == ROWS_SHOWN:
        click.echo(f"the first {ROWS_SHOWN} {_kind(factorized)}; --limit N shows more, -o FILE writes all", err=True)


def _kind(factorized: bool, *, one: bool = False) -> str:
    """Return what a row is: a match, or a product of lists."""
    return f"row{'s' * (not one)} of lists" if factorized else "match" if one else "matches"


def show(table: pa.Table) -> None:
    """Print rows as a table."""
    shown = Table(*table.column_names)
    for row in table.to_pylist():
        shown.add_row(*(Text("" if value is None else str(value)) for value in row.values()))
    Console().print(shown)


def _print_csv(pieces: Iterator[Path], columns: Sequence[str]) -> None:
    """Print files of CSV as they come, below a line of titles; bytes are copied where standard output takes them."""
    for number, piece in enumerate(chain(pieces, [None])):
        if number == 0:
            csv.writer(sys.stdout, lineterminator="\n").writerow(columns)
        sys.stdout.flush()
        if piece is None:
            break
        if (binary := getattr(sys.stdout, "buffer", None)) is None:
            sys.stdout.write(piece.read_bytes().decode())
            continue
        with piece.open("rb") as source:
            shutil.copyfileobj(source, binary, 1 << 20)
        binary.flush()


def _print_json(pieces: Iterator[Path]) -> None:
    """Print files of Arrow batches as they come, as JSON lines."""
    import pyarrow as pa

    for piece in pieces:
        with pa.ipc.open_file(str(piece)) as reader:
            for number in range(reader.num_record_batches):
                for row in reader.get_batch(number).to_pylist():
                    sys.stdout.write(json.dumps(row, default=str) + "\n")
        sys.stdout.flush()


class _Pipe:
    """The reader of our output, if it is a pipe."""

    def __init__(self) -> None:
        self._poll = select.poll()
        with suppress(OSError, ValueError):  # standard output may not be a file
            self._poll.register(sys.stdout.fileno(), 0)

    def look(self) -> None:
        """Raise BrokenPipeError if nobody reads any more: there may be nothing to write for a while, which would tell."""
        if any(event & (select.POLLERR | select.POLLHUP) for _, event in self._poll.poll(0)):
            raise BrokenPipeError
