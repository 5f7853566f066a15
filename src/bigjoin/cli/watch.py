"""bigjoin watch: the matches that updates create and destroy, epoch by epoch."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bigjoin.cli.options import Options, watch_options
from bigjoin.cli.progress import Reporter
from bigjoin.cli.source import start_spark
from bigjoin.errors import BigjoinError, SourceError
from bigjoin.languages import parse

if TYPE_CHECKING:
    from bigjoin.streaming.monitor import Epoch


@click.command()
@click.argument("query", nargs=-1, required=True)
@click.argument("directory", metavar="DIR")
@click.option("--updates", required=True, metavar="PATH", help="A folder of CSV, JSON or Parquet files, one an epoch.")
@click.option("--output", metavar="PATH", help="A folder for the signed matches: epoch=N/*.parquet, and _counts.jsonl.")
@click.option("--once", is_flag=True, help="Stop when all files that are there are applied.")
@click.option("--order", metavar="COLUMN", help="What orders the updates of a file [default: deletions come first].")
@click.option("--window", metavar="LENGTH", help="Let edges expire: a number, or a length such as '7 days' ...")
@click.option("--time", metavar="COLUMN", help="... of this column of theirs.")
@click.option("--adopt", is_flag=True, help="Go on with these updates, though the index followed others before.")
@watch_options
def watch(
    query: tuple[str, ...],
    directory: str,
    updates: str,
    output: str | None,
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
    from bigjoin.index.manifest import is_vacant
    from bigjoin.streaming.watch import watch_folder
    from bigjoin.streaming.window import Window

    watched = _watched(query, options, listing=output is not None)
    if (window is None) != (time is None):
        raise click.UsageError("a window is a length and the column it is about: give both --window and --time")
    folder, path = Path(updates), Path(directory)
    if not folder.is_dir():
        raise SourceError(f"there is no folder {updates} of updates")
    with Reporter(quiet=options.quiet) as report:
        if is_vacant(path):
            _begin_empty(path, folder, options, left_out=order if order != time else None)
        graph = Graph.open(path, verify=not options.no_verify)
        if options.undirected and graph.directed:
            raise BigjoinError(f"{directory} is directed: build it with 'bigjoin index SOURCE DIR --undirected'")
        monitor = monitor_of(
            graph,
            watched,
            options.run,
            output=None if output is None else Path(output),
            order=order,
            window=None if window is None or time is None else Window(time, window),
            spark=lambda: start_spark(options, report),
        )
        live = _Line(report, options)
        report.stage("reading the index")
        try:
            watch_folder(monitor, folder, once=once, adopt=adopt, report=live.show)
        finally:
            with suppress(BigjoinError):  # what is not taken off the list now is done by the next watch
                monitor.finish()
    live.close()


class _Line:
    """The live line on stderr, and with --json an object for each epoch on stdout."""

    def __init__(self, report: Reporter, options: Options) -> None:
        self.report, self.options = report, options
        self.epochs = self.updates = self.created = self.destroyed = 0
        self.seconds = 0.0
        self.last: Epoch | None = None

    def show(self, epoch: Epoch, file: Path, lag: int) -> None:
        """Tell what an epoch did, and how many files wait."""
        self.epochs, self.updates, self.last = self.epochs + 1, self.updates + epoch.fate.updates, epoch
        self.seconds += epoch.seconds
        created = sum(changes.created for changes in epoch.queries.values())
        destroyed = sum(changes.destroyed for changes in epoch.queries.values())
        self.created, self.destroyed = self.created + created, self.destroyed + destroyed
        rate = epoch.fate.updates / max(epoch.seconds, 1e-9)
        behind = f"{lag} files and {max(0.0, time.time() - file.stat().st_mtime):,.1f} s behind"
        done = f"{epoch.fate.updates:,} updates, +{created:,} -{destroyed:,} matches, {rate:,.0f} updates/s"
        self.report.stage(f"epoch {epoch.number}: {done}, {behind}")
        if self.options.as_json:
            click.echo(json.dumps(epoch.line | {"seconds": epoch.seconds, "file": file.name}))

    def close(self) -> None:
        """Tell what all epochs came to."""
        if self.options.as_json:
            return
        counts: dict[str, Any] = {} if self.last is None else {n: c.count for n, c in self.last.queries.items()}
        shown = ", ".join(f"{name} {count:,}" for name, count in counts.items())
        done = f"{self.epochs} epochs, {self.updates:,} updates, +{self.created:,} -{self.destroyed:,} matches"
        click.echo(f"{done}; {shown or 'nothing new'}")


def _watched(queries: tuple[str, ...], options: Options, *, listing: bool) -> dict[str, Any]:
    """Return the queries by name: their own, or what stands before = if that is a name."""
    from bigjoin.graph import watchable

    named = {}
    for given in queries:
        name, equals, rest = given.partition("=")
        chosen, text = (
            (name.strip(), rest) if equals and name.strip().isidentifier() and not rest.startswith("=") else ("", given)
        )
        asked = parse(text, **options.flags)
        if (chosen or asked.name) in named:
            raise click.UsageError(f"two queries are called {chosen or asked.name!r}: write NAME=QUERY")
        named[chosen or asked.name] = asked
    return watchable(named, {}, listing=listing)


def _begin_empty(path: Path, folder: Path, options: Options, *, left_out: str | None) -> None:
    """Build the index of an empty graph, with the columns of the first file of updates but for one that orders them."""
    from bigjoin.indexing import build_index
    from bigjoin.streaming.watch import empty_like, updates_in

    files = updates_in(folder)
    if not files:
        raise SourceError(f"there is no index {path}, and no file in {folder} to tell what its edges are like")
    build_index(empty_like(files[0], left_out), path, directed=not options.undirected)
