"""bigjoin count: how many matches a query has, in all or by groups."""

from __future__ import annotations

from pathlib import Path

import click

from bigjoin.cli.groups import print_groups
from bigjoin.cli.options import Options, answer, query_options
from bigjoin.cli.question import question
from bigjoin.cli.source import asking


@click.command()
@click.option("--exists", is_flag=True, help="Print only whether there is a match: true or false.")
@click.option(
    "--by", metavar="LIST", help="Count for each value of attributes, properties or expressions, for example 'a1, a2.city'."
)
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="With --by: write to a .parquet, .csv, .json or .jsonl file.",
)
@click.option(
    "--loads", metavar="FILE", type=click.Path(path_type=Path), help="Draw what tasks or workers got, as .svg or .html."
)
@query_options
def count(
    query: str,
    source: str | None,
    exists: bool,
    by: str | None,
    output: Path | None,
    loads: Path | None,
    options: Options,
) -> None:
    """Count the matches of QUERY in SOURCE, or in the relations of --relation, and print the number.

    With --json, print an object with count, seconds (of the query alone), strategy, why it was chosen, workers and stats.

    With --by, print a row for each group that has matches, the largest groups first: a table of the first rows on a terminal,
    CSV on a pipe, JSON lines with --json.
    """
    parsed = question(query, options)
    if loads is not None:
        if exists or by is not None:
            raise click.UsageError(f"--loads is for a whole count: leave out {'--exists' if exists else '--by'}")
        from bigjoin.drawing.saving import check_picture

        check_picture(loads, sources=options.paths(source))
    if by is not None:
        if exists:
            raise click.UsageError("give either --by or --exists, not both")
        print_groups(parsed, source, by, output, options)
        return
    if output is not None:
        raise click.UsageError("-o is for groups: add --by, or redirect the number")
    with asking(parsed, source, options, doing="looking for" if exists else "counting") as (graph, report):
        if exists:
            found = graph.exists(parsed, **options.run, **options.limits)
        else:
            counted = graph.count(parsed, progress=report.share, **options.run, **options.limits)
            if loads is not None:
                counted.draw_loads().save(loads)
    if exists:
        answer(options, {"exists": found}, [str(found).lower()])
    else:
        names = ("seconds", "strategy", "why", "workers", "stats") if options.as_json else ()  # stats take a moment
        facts = {name: getattr(counted, name) for name in names}
        answer(options, {"count": int(counted), **facts}, [str(int(counted))])
