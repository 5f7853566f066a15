"""bigjoin watch: the matches that updates create and destroy, epoch by epoch."""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bigjoin.cli.options import Options, watch_options
from bigjoin.cli.progress import Reporter
from bigjoin.cli.source import start_spark
from bigjoin.errors import BigjoinError, SourceError
from bigjoin.languages import read
from bigjoin.paths import check_local

if TYPE_CHECKING:
    from bigjoin.streaming.epoch import Epoch
    from bigjoin.streaming.watched import Watched

_PATH_TYPE = click.Path(path_type=Path)
_UPDATES_HELP = "A folder of CSV, JSON or Parquet files, one for each epoch."
_OUTPUT_HELP = "A folder for the signed matches: epoch=N/*.parquet, and _counts.jsonl."


@click.command()
@click.argument("query", nargs=-1, required=True)
@click.argument("directory", metavar="DIR", type=_PATH_TYPE)
@click.option("--updates", required=True, metavar="PATH", type=_PATH_TYPE, help=_UPDATES_HELP)
@click.option("--output", metavar="PATH", type=_PATH_TYPE, help=_OUTPUT_HELP)
@click.option("--once", is_flag=True, help="Stop when all files that are there are applied.")
@click.option("--order", metavar="COLUMN", help="The order of the updates of a file [default: deletions come first].")
@click.option("--window", metavar="LENGTH", help="Let edges expire: a number, or a length such as '7 days' ...")
@click.option("--time", metavar="COLUMN", help="... of this column of theirs.")
@click.option("--adopt", is_flag=True, help="Go on with these updates, though the index followed others before.")
@watch_options
def watch(
    query: tuple[str, ...],
    directory: Path,
    updates: Path,
    output: Path | None,
    once: bool,
    order: str | None,
    window: str | None,
    time: str | None,
    adopt: bool,
    options: Options,
) -> None:
    """Watch QUERY in the index DIR while the files of --updates change it, each an epoch, in the order of their names.

    The files have columns src, dst and op (+ or -, insert or delete, 1 or -1). Several queries may be given; one may be
    NAME=QUERY. Each epoch is committed with its output: after an interrupt or a crash, the same command goes on where it was. A
    DIR that does not exist begins as an empty graph, with the columns of the first file.
    """
    from bigjoin.graph import Graph, monitor_of
    from bigjoin.index.manifest_file import is_vacant
    from bigjoin.streaming.update_files import watch_folder
    from bigjoin.streaming.window import Window

    watched = _watched(query, options, listing=output is not None)
    if (window is None) != (time is None):
        raise click.UsageError("a window is a length and the column it is about: give both --window and --time")
    check_local(updates, "the files of --updates are read", SourceError)
    check_local(directory, "an index is kept")
    if output is not None:
        check_local(output, "matches are written")
    if not updates.is_dir():
        raise SourceError(f"there is no folder {updates} of updates")
    with Reporter(quiet=options.quiet) as report:
        if is_vacant(directory):
            _begin_empty(directory, updates, options, left_out=order if order != time else None)
        graph = Graph.open(directory, verify=not options.no_verify)
        if options.undirected and graph.directed:
            raise BigjoinError(f"{directory} is directed: build it with 'bigjoin index SOURCE DIR --undirected'")
        monitor = monitor_of(
            graph,
            watched,
            options.run,
            output=output,
            order=order,
            window=None if window is None or time is None else Window(time, window),
            spark=lambda: start_spark(options, report),
        )
        log = _Log(report, options)
        report.stage("reading the index")
        try:
            watch_folder(monitor, updates, once=once, adopt=adopt, report=log.add)
        finally:
            with suppress(BigjoinError):  # the next watch finishes what this one cannot
                monitor.finish()
    log.close()


class _Log:
    """What epochs did: a live line on stderr; on stdout an object for each with --json, otherwise the totals at the end."""

    def __init__(self, report: Reporter, options: Options) -> None:
        self.report, self.options = report, options
        self.totals: Counter[str] = Counter()
        self.counts: dict[str, int] = {}

    def add(self, epoch: Epoch, file: Path, files_left: int) -> None:
        """Report an epoch, and how many files are left."""
        changes = epoch.queries.values()
        created, destroyed = sum(change.created for change in changes), sum(change.destroyed for change in changes)
        self.totals.update(epochs=1, updates=epoch.fate.updates, created=created, destroyed=destroyed)
        self.counts = {name: change.count for name, change in epoch.queries.items()}
        rate = epoch.fate.updates / max(epoch.seconds, 1e-9)
        behind = f"{files_left} files and {max(0.0, time.time() - file.stat().st_mtime):,.1f} s behind"
        done = f"{epoch.fate.updates:,} updates, +{created:,} -{destroyed:,} matches, {rate:,.0f} updates/s"
        self.report.stage(f"epoch {epoch.number}: {done}, {behind}")
        if self.options.as_json:
            click.echo(json.dumps({**epoch.line, "seconds": epoch.seconds, "file": file.name}))

    def close(self) -> None:
        """Report the totals."""
        if not self.options.as_json:
            counts = ", ".join(f"{name} {count:,}" for name, count in self.counts.items()) or "nothing new"
            totals = "{epochs} epochs, {updates:,} updates, +{created:,} -{destroyed:,} matches"
            click.echo(f"{totals.format_map(self.totals)}; {counts}")


def _watched(queries: tuple[str, ...], options: Options, *, listing: bool) -> dict[str, Watched]:
    """Return the queries by name: their own, or the one before the equals sign."""
    from bigjoin.streaming.watched import watchable

    named = {}
    for given in queries:
        name, equals, text = given.partition("=")
        is_named = equals and name.strip().isidentifier() and not text.startswith("=")
        query = read(text if is_named else given, **options.flags)
        chosen = name.strip() if is_named else query.name
        if chosen in named:
            raise click.UsageError(f"two queries are called {chosen!r}: write NAME=QUERY")
        named[chosen] = query
    return watchable(named, {}, listing=listing)


def _begin_empty(path: Path, folder: Path, options: Options, *, left_out: str | None) -> None:
    """Build the index of an empty graph with the columns of the first file of updates, without the one that orders them."""
    from bigjoin.indexing import build_index
    from bigjoin.streaming.update_files import empty_like, updates_in

    files = updates_in(folder)
    if not files:
        raise SourceError(f"there is no index {path}, and no file in {folder} to tell what its edges are like")
    build_index(empty_like(files[0], left_out), path, directed=not options.undirected)
