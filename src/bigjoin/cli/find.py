"""bigjoin find: the matches of a query, to a file, a terminal or a pipe."""

from __future__ import annotations

import csv
import json
import os
import select
import shutil
import sys
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bigjoin.cli.options import Options, query_options
from bigjoin.cli.progress import Reporter
from bigjoin.cli.source import open_source, start_spark
from bigjoin.defaults import check_strategy
from bigjoin.languages import parse

if TYPE_CHECKING:
    import pyarrow as pa

    from bigjoin.query.query import Query
    from bigjoin.verbs import Verbs

SCREENFUL = 20
"""Rows shown on a terminal unless --limit asks for another number."""


@click.command()
@click.argument("query")
@click.argument("source", required=False)
@click.option("-o", "--output", metavar="PATH", type=click.Path(path_type=Path), help="Write to a .parquet or .csv file.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Stop after N matches; factorized: rows.")
@click.option("--factorized", is_flag=True, help="Give lists of values of attributes that are independent, not their products.")
@query_options
def find(query: str, source: str | None, output: Path | None, limit: int | None, factorized: bool, options: Options) -> None:
    """Find the matches of QUERY in SOURCE, or in relations that --relation names: a column for each attribute of the head.

    Without -o: a table on a terminal, CSV on a pipe, and JSON lines with --json. Rows are printed as they are found, and
    when nobody reads them any more (find ... | head), the search ends, with exit code 0.
    """
    parsed = parse(query, **options.flags)
    check_strategy(options.strategy, factorized=factorized)
    if output is not None:
        from bigjoin.output import check_target

        for path in (source, *(given.partition("=")[2] for given in options.relation_paths)):
            check_target(output, path, lists=factorized)
    asked: dict[str, Any] = {"factorized": factorized, **options.run}
    with Reporter(quiet=options.quiet) as report:
        graph = open_source(source, options, report)
        graph.plan(parsed)
        graph = graph.on(start_spark(options, report))
        report.stage(f"finding {parsed.name}")
        if output is not None:
            rows = graph.write(parsed, output, limit=limit, progress=report.share, **asked)
        elif sys.stdout.isatty() and not options.as_json:
            table = graph.find(parsed, limit=SCREENFUL if limit is None else limit, **asked).toArrow()
        else:
            try:
                _stream(graph, parsed, limit, asked, report, as_json=options.as_json)
                sys.stdout.flush()
            except BrokenPipeError:  # whoever reads our output has seen enough
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return
    if output is not None:
        click.echo(f"{rows:,} {_kind(factorized, one=rows == 1)} in {output}", err=True)
        return
    show(table)
    if limit is None and table.num_rows == SCREENFUL:
        click.echo(f"the first {SCREENFUL} {_kind(factorized)}; --limit N shows more, -o FILE writes all", err=True)


def _kind(factorized: bool, *, one: bool = False) -> str:
    """Return what a row is: a match, or a product of lists."""
    return f"row{'s' * (not one)} of lists" if factorized else "match" if one else "matches"


def show(table: pa.Table) -> None:
    """Print rows as a table."""
    shown = Table(*table.column_names)
    for row in table.to_pylist():
        shown.add_row(*(Text("" if value is None else str(value)) for value in row.values()))
    Console().print(shown)


def _stream(graph: Verbs, query: Query, limit: int | None, asked: dict[str, Any], report: Reporter, *, as_json: bool) -> None:
    """Print every match as it is found, as CSV or as JSON lines, by way of files: rows through the JVM would cost more."""
    as_json = as_json or asked["factorized"]  # CSV has no lists
    suffix, printed = (".arrow", _print_json) if as_json else (".csv", _print_csv)
    look = _Pipe().look
    with closing(graph.pieces(query, suffix, limit=limit, progress=report.share, look=look, **asked)) as pieces:
        titled = as_json
        for piece in chain(pieces, [None]):
            if not titled:
                csv.writer(sys.stdout, lineterminator="\n").writerow(query.columns)
                titled = True
            if piece is not None:
                printed(piece)


def _print_csv(piece: Path) -> None:
    sys.stdout.flush()
    binary = getattr(sys.stdout, "buffer", None)
    if binary is None:
        sys.stdout.write(piece.read_bytes().decode())
        return
    with piece.open("rb") as source:
        shutil.copyfileobj(source, binary, 1 << 20)
    binary.flush()


def _print_json(piece: Path) -> None:
    import pyarrow as pa

    with pa.ipc.open_file(str(piece)) as reader:
        for number in range(reader.num_record_batches):
            for row in reader.get_batch(number).to_pylist():
                sys.stdout.write(json.dumps(row, default=str) + "\n")
    sys.stdout.flush()


class _Pipe:
    """Whoever reads our output, if anybody does."""

    def __init__(self) -> None:
        self._poll = select.poll()
        with suppress(OSError, ValueError):  # of a stream that is no file
            self._poll.register(sys.stdout.fileno(), 0)

    def look(self) -> None:
        """Raise BrokenPipeError if nobody reads any more, though there may be nothing to write for a while."""
        if any(event & (select.POLLERR | select.POLLHUP) for _, event in self._poll.poll(0)):
            raise BrokenPipeError
