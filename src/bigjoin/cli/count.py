"""bigjoin count: how many matches a query has."""

from __future__ import annotations

import json

import click

from bigjoin.cli.options import Options, query_options
from bigjoin.cli.progress import Reporter
from bigjoin.cli.source import open_source, start_spark
from bigjoin.languages import parse


@click.command()
@click.argument("query")
@click.argument("source", required=False)
@click.option("--exists", is_flag=True, help="Only tell whether there is a match: true or false.")
@query_options
def count(query: str, source: str | None, exists: bool, options: Options) -> None:
    """Count the matches of QUERY in SOURCE, or in relations that --relation names: one integer on stdout.

    With --json, an object with count, seconds (of the query alone), strategy, workers and stats.
    """
    parsed = parse(query, **options.flags)  # before Spark starts: a typo should not take seconds
    with Reporter(quiet=options.quiet) as report:
        graph = open_source(source, options, report)
        graph.plan(parsed)
        graph = graph.on(start_spark(options, report))
        report.stage(f"counting {parsed.name}" if not exists else f"looking for {parsed.name}")
        found = graph.count(parsed, progress=report.share, **options.run) if not exists else None
        there = graph.exists(parsed, **options.run) if exists else None
    if found is None:
        click.echo(json.dumps({"exists": there}) if options.as_json else str(there).lower())
        return
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
