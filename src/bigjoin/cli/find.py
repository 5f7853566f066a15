"""bigjoin find: the matches of a query, to a file, a terminal or a pipe."""

from __future__ import annotations

from contextlib import closing

import click

from bigjoin.cli.options import PLACE, Options, query_options
from bigjoin.cli.printing import check_reader, form_of_rows, print_files, print_table, rows_shown, until_reader_leaves
from bigjoin.cli.question import question
from bigjoin.cli.source import asking
from bigjoin.defaults import check_strategy, listing
from bigjoin.storage.place import Place


@click.command()
@click.option("-o", "--output", metavar="PATH", type=PLACE, help="Write to a .parquet, .csv, .json or .jsonl file.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Stop after N matches (with --factorized: N rows).")
@click.option("--sample", type=click.IntRange(min=0), metavar="N", help="Choose N matches uniformly, without replacement.")
@click.option("--random-state", type=click.IntRange(min=0), metavar="N", help="The same N chooses the same sample again.")
@click.option("--max-rows", type=click.IntRange(min=0), metavar="N", help="Refuse to find more than N rows.")
@click.option("--factorized", is_flag=True, help="Return independent attributes as lists instead of all combinations.")
@query_options
def find(
    query: str,
    source: str | None,
    output: Place | None,
    limit: int | None,
    sample: int | None,
    random_state: int | None,
    max_rows: int | None,
    factorized: bool,
    options: Options,
) -> None:
    """Find the matches of QUERY in SOURCE, or in the relations of --relation: one column for each attribute of the head.

    Without -o, print a table on a terminal, CSV on a pipe, and JSON lines with --json. Rows are printed as they are found. If
    the reader of a pipe stops, as in find ... | head, the search ends as well, with exit code 0.
    """
    parsed = question(query, options)
    check_strategy(options.run["strategy"], factorized=factorized)
    if output is not None:
        from bigjoin.output import check_target

        for path in options.paths(source):
            check_target(output, path, lists=factorized)
    from bigjoin.quota import Quota, within

    drawn = {"sample": sample, "random_state": random_state}
    how = listing(options.run, limit=limit, factorized=factorized, max_rows=max_rows, **drawn)
    row, rows = ("row of lists", "rows of lists") if factorized else ("match", "matches")
    form = form_of_rows(options, lists=factorized)
    most = rows_shown(options, form) if limit is None and sample is None else None
    with asking(parsed, source, options, doing="finding") as (graph, report):
        if output is not None:
            written = graph.write(parsed, output, progress=report.share, **how, **options.limits)
        elif form == "table" or most is not None:
            how["limit"] = limit if most is None else most + 1  # one more tells whether there are more
            table = graph.arrow(parsed, progress=report.share, **how, **options.limits).read_all()
        else:
            with until_reader_leaves(options):
                suffix = ".csv" if form == "csv" else ".arrow"
                found = graph.pieces(parsed, suffix, progress=report.share, look=check_reader, **how, **options.limits)
                with closing(found) as pieces:
                    print_files(pieces, form, graph.flat_columns(parsed) if form == "csv" else ())
            return
    if output is not None:
        click.echo(f"{written:,} {row if written == 1 else rows} in {output}", err=True)
        return
    with within(Quota(memory=options.limits.get("memory"), cancel=options.limits.get("cancel"))):
        print_table(table.slice(0, most), form)
    if most is not None and table.num_rows > most:
        click.echo(f"the first {most} {rows}; {options.more}", err=True)
