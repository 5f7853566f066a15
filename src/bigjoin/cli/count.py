"""bigjoin count: how many matches a query has."""

from __future__ import annotations

import json

import click

from bigjoin.cli.options import Options, query_options
from bigjoin.cli.progress import Reporter
from bigjoin.cli.source import open_graph, start_spark
from bigjoin.languages import parse


@click.command()
@click.argument("query")
@click.argument("source")
@query_options
def count(query: str, source: str, options: Options) -> None:
    """Count the matches of QUERY in SOURCE: one integer on stdout.

    With --json, an object with count, seconds (of the query alone), strategy, workers and stats.
    """
    parsed = parse(query, **options.flags)  # before Spark starts: a typo should not take seconds
    with Reporter(quiet=options.quiet) as report:
        graph = open_graph(source, options, report)
        graph.plan(parsed)
        graph = graph.on(start_spark(options, report))
        report.stage(f"counting {parsed.name}")
        found = graph.count(parsed, progress=report.share, **options.run)
    if not options.as_json:
        click.echo(int(found))
        return
    click.echo(
        json.dumps(
            {
                "count": int(found),
                "seconds": found.seconds,
                "strategy": found.strategy,
                "workers": found.workers,
                "stats": found.stats,
            }
        )
    )
