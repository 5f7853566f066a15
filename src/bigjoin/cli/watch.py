"""bigjoin watch: the matches that updates create and destroy, epoch by epoch."""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from bigjoin.cli.completion import query_names_or_files
from bigjoin.cli.options import PLACE, Options, watch_options
from bigjoin.cli.progress import Reporter
from bigjoin.cli.source import start_spark
from bigjoin.defaults import BadRowName, SyncName, check_on_bad_row
from bigjoin.errors import BigjoinError, SourceError, bounded
from bigjoin.index.contents import number_of
from bigjoin.languages import read
from bigjoin.paths import check_local
from bigjoin.storage.place import Place

if TYPE_CHECKING:
    from bigjoin.streaming.epoch import Epoch
    from bigjoin.streaming.update_columns import UpdateColumns
    from bigjoin.streaming.watched import Watched

_PATH_TYPE = click.Path(path_type=Path)
_UPDATES_HELP = "A folder of CSV, JSON or Parquet files, one for each epoch."
_OUTPUT_HELP = "A folder for the signed matches: epoch=N/*.parquet, and _counts.jsonl."

_BAD_ROW_HELP = (
    "What to do with rows that cannot be read. fail: stop, and apply nothing of the file; skip: leave them out, and count "
    "them; quarantine: also write them to _quarantine in --output."
)
_SYNC_HELP = (
    "When an epoch survives a power failure, and its output appears. epoch: before it is reported; group: within a tenth of a "
    "second, together with others, which is quicker for small files; none: when no file is left. Whatever is lost is applied "
    "again by the same command."
)
_KEEP_HELP = (
    "Keep the last K epochs readable, for --epoch and 'bigjoin replay'. The index remembers K; 0 ends it [default: as before]."
)


@click.command()
@click.argument("query", nargs=-1, required=True, shell_complete=query_names_or_files)
@click.argument("directory", metavar="DIR", type=PLACE)
@click.option("--updates", required=True, metavar="PATH", type=_PATH_TYPE, help=_UPDATES_HELP)
@click.option("--output", metavar="PATH", type=PLACE, help=_OUTPUT_HELP)
@click.option("--by", metavar="LIST", help="Count for each value of attributes, properties or expressions, as 'count' does.")
@click.option("--once", is_flag=True, help="Stop when all files that exist are applied.")
@click.option(
    "--order", metavar="COLUMN", help="The column whose order updates follow [default: deletions first, replacements last]."
)
@click.option("--key", metavar="COLUMN", help="The column that tells parallel edges apart.")
@click.option("--src", "src_column", metavar="COLUMN", help="The column with the source of an edge, if it has another name.")
@click.option("--dst", "dst_column", metavar="COLUMN", help="The column with the target of an edge, if it has another name.")
@click.option("--op", "op_column", metavar="COLUMN", help="The column that says what an update does, if it has another name.")
@click.option("--on-bad-row", type=click.Choice(get_args(BadRowName)), default="fail", show_default=True, help=_BAD_ROW_HELP)
@click.option("--window", metavar="LENGTH", help="How long edges live: a number in the unit of --time, or such as '7 days'.")
@click.option("--time", metavar="COLUMN", help="The column with the times of edges, for --window.")
@click.option("--sync", type=click.Choice(get_args(SyncName)), default="epoch", show_default=True, help=_SYNC_HELP)
@click.option("--keep-epochs", type=click.IntRange(min=0), metavar="K", help=_KEEP_HELP)
@click.option("--adopt", is_flag=True, help="Accept these updates even if the index followed others before.")
@watch_options
def watch(
    query: tuple[str, ...],
    directory: Place,
    updates: Path,
    output: Place | None,
    by: str | None,
    once: bool,
    order: str | None,
    key: str | None,
    src_column: str | None,
    dst_column: str | None,
    op_column: str | None,
    on_bad_row: BadRowName,
    window: str | None,
    time: str | None,
    sync: SyncName,
    adopt: bool,
    keep_epochs: int | None,
    options: Options,
) -> None:
    """Watch QUERY in the index DIR, and report the matches that updates create and destroy.

    Each file in the folder --updates is an epoch: its updates take effect together. Files are applied in the order of their
    names, and have columns src, dst and op (+ or -, or = to replace properties; without it, every row is an insertion). You can
    give several queries, and name them: NAME=QUERY. Each epoch is committed with its output, so after an interrupt or a crash,
    the same command continues where it stopped. If DIR does not exist, the graph begins empty, with the columns of the first
    file.
    """
    from bigjoin.changing_verbs import monitor_of
    from bigjoin.graph import Graph
    from bigjoin.index.manifest_file import is_vacant
    from bigjoin.streaming.update_columns import UpdateColumns
    from bigjoin.streaming.update_files import watch_folder
    from bigjoin.streaming.window import Window

    watched = watched_queries(query, options, listing=output is not None, by=by)
    if (window is None) != (time is None):
        raise click.UsageError("a window is a length and the column it is about: give both --window and --time")
    check_on_bad_row(on_bad_row, has_output=output is not None)
    columns = UpdateColumns(src_column, dst_column, op_column)
    check_local(updates, "the files of --updates are read", SourceError)
    if not updates.is_dir():
        raise SourceError(f"there is no folder {updates} of updates")
    with Reporter(quiet=options.quiet) as report:
        if is_vacant(directory):
            _begin_empty(directory, updates, options, columns, on_bad_row, left_out=order if order != time else None)
        graph = Graph.open(directory, verify=not options.no_verify)
        if options.undirected and graph.directed:
            raise BigjoinError(f"{directory} is directed: build it with 'bigjoin index SOURCE DIR --undirected'")
        monitor = monitor_of(
            graph,
            watched,
            options.run,
            output=output,
            order=order,
            key=key,
            window=None if window is None or time is None else Window(time, window),
            sync=sync,
            columns=columns,
            on_bad_row=on_bad_row,
            keep_epochs=keep_epochs,
            spark=lambda: start_spark(options, report),
        )
        monitor.note = partial(_note, quiet=options.quiet)
        log = EpochReport(report, options)
        report.stage("reading the index")
        try:
            watch_folder(monitor, updates, once=once, adopt=adopt, report=log.add)
        finally:
            with suppress(BigjoinError):  # the next watch finishes what this one cannot
                monitor.finish()
    log.close()


def _note(text: str, *, quiet: bool) -> None:
    if not quiet:
        click.echo(f"bigjoin: note: {bounded(text)}", err=True)


class EpochReport:
    """What epochs did: a live line on stderr; on stdout an object for each with --json, otherwise the totals at the end."""

    def __init__(self, report: Reporter, options: Options) -> None:
        self.report, self.options = report, options
        self.totals: Counter[str] = Counter()
        self.counts: dict[str, int] = {}

    def add(self, epoch: Epoch, file: Path, files_left: int) -> None:
        """Report an epoch with its file, and how many files are left."""
        changes = epoch.queries.values()
        created, destroyed = sum(change.created for change in changes), sum(change.destroyed for change in changes)
        self.totals.update(epochs=1, updates=epoch.fate.updates, created=created, destroyed=destroyed, bad=epoch.fate.bad)
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
            totals = self.totals
            done = f"{number_of(totals['epochs'], 'epoch', 'epochs')}, {number_of(totals['updates'], 'update', 'updates')}"
            done += f" ({totals['bad']:,} bad)" if totals["bad"] else ""
            click.echo(f"{done}, +{totals['created']:,} -{totals['destroyed']:,} matches; {counts}")


def watched_queries(queries: tuple[str, ...], options: Options, *, listing: bool, by: str | None = None) -> dict[str, Watched]:
    """Return the queries by name: their own, or the one before the equals sign."""
    from bigjoin.streaming.watched import watchable

    named, unnamed = {}, set()
    for given in queries:
        name, equals, text = given.partition("=")
        is_named = equals and name.strip().isidentifier() and not text.startswith("=")
        query = read(text if is_named else given, **options.flags)
        chosen = name.strip() if is_named else query.name
        if chosen in named:
            raise click.UsageError(f"two queries are called {chosen!r}: write NAME=QUERY")
        named[chosen] = query
        if not is_named:
            unnamed.add(chosen)
    return watchable(named, {}, listing=listing, by=by, unnamed=unnamed)


def _begin_empty(
    path: Place, folder: Path, options: Options, columns: UpdateColumns, on_bad_row: BadRowName, *, left_out: str | None
) -> None:
    """Build the index of an empty graph with the columns of the first file of updates, without the one that orders them."""
    from bigjoin.indexing import build_index
    from bigjoin.streaming.update_files import empty_like, updates_in

    files = updates_in(folder)
    if not files:
        raise SourceError(f"there is no index {path}, and no file in {folder} to tell what its edges are like")
    table = empty_like(files[0], left_out, columns, on_bad_row)
    src, dst = table.column_names[:2]
    build_index(table, path, directed=not options.undirected, src=src, dst=dst)
