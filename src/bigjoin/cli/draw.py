"""bigjoin draw: the pattern of a query, its first matches, or the degrees of a graph, as a picture."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from bigjoin.cli.options import Options, query_options
from bigjoin.cli.question import question
from bigjoin.cli.source import asking
from bigjoin.languages import read

if TYPE_CHECKING:
    from bigjoin.drawing.drawing import Drawing
    from bigjoin.graph import Graph

ALL_VERTICES = "q(a) := vertex(a)"
"""A query that any graph can answer, which stands for none."""


@click.command()
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Write to a .svg or .html file; without it, SVG goes to a pipe.",
)
@click.option("--matches", type=click.IntRange(min=1), metavar="N", help="Draw the first N matches in SOURCE as small graphs.")
@click.option("--degrees", is_flag=True, help="Draw how many vertices of SOURCE have which degree; QUERY may be left out.")
@query_options
def draw(query: str, source: str | None, output: Path | None, matches: int | None, degrees: bool, options: Options) -> None:
    """Draw the pattern of QUERY as SVG: attributes as vertices, atoms as edges, other conditions below.

    With SOURCE (or --relation), edges have the names and the direction that they have there; a SELECT needs it. The picture
    needs no script, and follows light and dark surroundings.
    """
    if degrees and matches is not None:
        raise click.UsageError("give either --matches or --degrees, not both")
    if degrees and not options.has_source(source):
        query, source = ALL_VERTICES, query
    has_source = options.has_source(source)
    if matches is not None and not has_source:
        raise click.UsageError("--matches needs a SOURCE to find them in")
    if degrees and options.relations:
        raise click.UsageError("--degrees are those of a graph: name a SOURCE")
    if output is None and sys.stdout.isatty():
        raise click.UsageError("name a file with -o FILE.svg, or redirect the picture")
    if output is not None:
        from bigjoin.drawing.saving import check_picture

        check_picture(output, sources=options.paths(source))
    drawing = _drawing(query, source if has_source else None, matches, options, degrees=degrees)
    if output is None:
        click.echo(drawing.svg)
    else:
        drawing.save(output)


def _drawing(query: str, source: str | None, matches: int | None, options: Options, *, degrees: bool) -> Drawing:
    from bigjoin.drawing.draw import drawn

    parsed = read(ALL_VERTICES) if degrees else question(query, options)
    if not options.has_source(source):
        return drawn(parsed, undirected=options.undirected)
    with asking(parsed, source, options, doing="drawing", runs=matches is not None) as (graph, _):
        if degrees:
            return cast("Graph", graph).draw_degrees()
        if matches is not None:
            return graph.show(parsed, matches, **options.run, **options.limits)
        graph.plan(parsed)  # which refuses a query that does not fit the source
        return drawn(graph.completed(parsed), graph.statistics_for(parsed))
