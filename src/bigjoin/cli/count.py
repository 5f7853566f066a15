"""bigjoin count: how many matches a query has."""

from __future__ import annotations

import click

from bigjoin.cli.options import Options, answer, query_options
from bigjoin.cli.source import asking
from bigjoin.languages import parse


@click.command()
@click.argument("query")
@click.argument("source", required=False)
@click.option("--exists", is_flag=True, help="Only tell whether there is a match: true or false.")
@query_options
def count(query: str, source: str | None, exists: bool, options: Options) -> None:
    """Count the matches of QUERY in SOURCE, or in the relations of --relation: one integer on stdout.

    With --json, an object with count, seconds (of the query alone), strategy, workers and stats.
    """
    parsed = parse(query, **options.flags)  # before Spark starts: a typo should not take seconds
    with asking(parsed, source, options) as (graph, report):
        if exists:
            report.stage(f"looking for {parsed.name}")
            there = graph.exists(parsed, **options.run)
            answer(options, {"exists": there}, [str(there).lower()])
            return
        report.stage(f"counting {parsed.name}")
        found = graph.count(parsed, progress=report.share, **options.run)
    facts = {name: getattr(found, name) for name in ("seconds", "strategy", "workers", "stats")}
    answer(options, {"count": int(found), **facts}, [str(int(found))])
