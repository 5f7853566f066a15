"""bigjoin estimate: about how many matches a query has, in seconds."""

from __future__ import annotations

from dataclasses import asdict

import click

from bigjoin.cli.options import Options, answer, estimate_options
from bigjoin.cli.question import question
from bigjoin.cli.source import asking


@click.command()
@click.option("--seconds", type=float, default=2.0, show_default=True, metavar="S", help="Roughly how long it may take.")
@click.option(
    "--precision",
    type=float,
    default=0.05,
    show_default=True,
    metavar="SHARE",
    help="The half-width of the interval to aim for, as a share of the count.",
)
@click.option("--random-state", type=click.IntRange(min=0), metavar="N", help="The same N draws the same samples again.")
@estimate_options
def estimate(
    query: str, source: str | None, seconds: float, precision: float, random_state: int | None, options: Options
) -> None:
    """Estimate how many matches QUERY has in SOURCE, or in the relations of --relation, from samples of the join.

    Print the estimate, and an interval that holds the true count in 95 of 100 cases. If the join is small enough to run
    completely, print only the count, which is then exact. Spark is not started unless the source needs it. With --json, print
    an object with count, low, high, exact, samples (how many), proposals (of each sample at each step) and seconds.
    """
    parsed = question(query, options)
    with asking(parsed, source, options, doing="estimating", runs=False) as (graph, _):
        found = graph.estimate(parsed, seconds=seconds, precision=precision, random_state=random_state, **options.limits)
    answer(options, asdict(found), [str(found)])
