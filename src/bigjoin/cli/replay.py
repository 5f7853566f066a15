"""bigjoin replay: find again the matches that the last epochs created and destroyed."""

from __future__ import annotations

import json
from functools import partial

import click

from bigjoin.cli.completion import query_names_or_files
from bigjoin.cli.options import PLACE, Options, replay_options
from bigjoin.cli.progress import Reporter
from bigjoin.cli.source import start_spark
from bigjoin.cli.watch import watched_queries
from bigjoin.index.contents import number_of
from bigjoin.storage.place import Place

_OUTPUT_HELP = "A new folder for the signed matches, as 'bigjoin watch' writes them."


@click.command()
@click.argument("query", nargs=-1, required=True, shell_complete=query_names_or_files)
@click.argument("directory", metavar="DIR", type=PLACE)
@click.option("--output", required=True, metavar="PATH", type=PLACE, help=_OUTPUT_HELP)
@click.option("--first", required=True, type=click.IntRange(min=1), metavar="N", help="The first epoch to replay.")
@replay_options
def replay(query: tuple[str, ...], directory: Place, output: Place, first: int, options: Options) -> None:
    """Find again which matches of QUERY the last epochs of the index DIR created and destroyed.

    QUERY may be new. The index has to keep the epochs (bigjoin watch --keep-epochs K); it is not changed. You can give several
    queries, and name them: NAME=QUERY. After an interrupt, the same command continues where it stopped.
    """
    from bigjoin.graph import Graph
    from bigjoin.streaming.replay import Replay

    watched = watched_queries(query, options, listing=True)
    with Reporter(quiet=options.quiet) as report:
        graph = Graph.open(directory, verify=not options.no_verify)
        initial = partial(graph._counted, spark=lambda: start_spark(options, report))
        report.stage("reading the index")
        replaying = Replay(directory.absolute(), watched, output.absolute(), first, initial, not options.no_verify)
        epochs = replaying.run(lambda epoch: report.stage(f"epoch {epoch.number}"))
    if options.as_json:
        for epoch in epochs:
            click.echo(json.dumps(epoch.line))
        return
    changes = [change for epoch in epochs for change in epoch.queries.values()]
    created, destroyed = sum(change.created for change in changes), sum(change.destroyed for change in changes)
    counts = ", ".join(f"{name} {change.count:,}" for name, change in epochs[-1].queries.items()) if epochs else "nothing new"
    click.echo(f"{number_of(len(epochs), 'epoch', 'epochs')}, +{created:,} -{destroyed:,} matches; {counts}")
