"""bigjoin count: how many matches a query has."""

from __future__ import annotations

import click

from bigjoin.cli.options import Options, answer, query_options
from bigjoin.cli.source import asking
from bigjoin.languages import read


@click.command()
@click.option("--exists", is_flag=True, help="Print only whether there is a match: true or false.")
@query_options
def count(query: str, source: str | None, exists: bool, options: Options) -> None:
    """Count the matches of QUERY in SOURCE, or in the relations of --relation: one integer on stdout.

    With --json, an object with count, seconds (of the query alone), strategy, workers and stats.
    """
    parsed = read(query, **options.flags)  # report a typo before Spark takes seconds to start
    with asking(parsed, source, options, doing="looking for" if exists else "counting") as (graph, report):
        if exists:
            found = graph.exists(parsed, **options.run)
        else:
            counted = graph.count(parsed, progress=report.share, **options.run)
    if exists:
        answer(options, {"exists": found}, [str(found).lower()])
    else:
        facts = {name: getattr(counted, name) for name in ("seconds", "strategy", "workers", "stats")}
        answer(options, {"count": int(counted), **facts}, [str(int(counted))])
