"""bigjoin demo: the paper's five queries on a bundled graph, next to the published counts."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import as_file, files

import click
from rich.console import Console
from rich.table import Table

from bigjoin.cli.options import Options, demo_options
from bigjoin.cli.printing import show
from bigjoin.cli.progress import Reporter
from bigjoin.cli.source import open_graph, start_spark

BUNDLED_GRAPH = "soc-Epinions1.txt.gz"

PUBLISHED_COUNTS = {
    "triangle": 1_624_481,
    "4-clique": 5_803_397,
    "diamond": 166_635_817,
    "house": 2_578_196_450,
    "5-clique": 17_417_432,
}
"""Published counts of undirected subgraphs of soc-Epinions1, each counted once."""

SUGGESTIONS = """
Try next:
  bigjoin count triangle YOUR-EDGES.txt --undirected --unique
  bigjoin find 'q(a,b,c) := edge(a,b), edge(b,c), edge(c,a), a < b' YOUR-EDGES.csv -o cycles.parquet
  bigjoin explain house --undirected --unique
  bigjoin --help"""


@click.command()
@demo_options
def demo(options: Options) -> None:
    """Count the paper's five queries on the bundled soc-Epinions1 graph, and show a plan and some triangles."""
    options = replace(options, undirected=True)
    table = Table("query", "subgraphs", "published", "seconds", title="The paper's five queries, each subgraph once")
    for column in table.columns[1:]:
        column.justify = "right"
    wrong = []
    with as_file(files("bigjoin") / "data" / BUNDLED_GRAPH) as file, Reporter(quiet=options.quiet) as report:
        graph = open_graph(str(file), options, report).on(start_spark(options, report))
        for name, published in PUBLISHED_COUNTS.items():
            report.stage(f"counting {name}")
            found = graph.count(name, unique=True, progress=report.share)
            if found != published:
                wrong.append(name)
            differs = "  differs!" if found != published else ""
            table.add_row(name, f"{found:,}", f"{published:,}{differs}", f"{found.seconds:.2f}")
        report.stage("finding triangles")
        triangles = graph.find("triangle", unique=True, limit=3).toArrow()
        edges = f"{graph.vertex_count:,} vertices, {graph.edge_count:,} undirected edges"
    click.echo(f"soc-Epinions1, who trusts whom: {edges}\n")
    Console().print(table)
    click.echo("\nThe first triangles, by the ids of the file:")
    show(triangles)
    click.echo(f"\nHow a triangle is found:\n\n{graph.explain('triangle', unique=True)}\n{SUGGESTIONS}")
    if wrong:
        raise click.ClickException(f"the count of {', '.join(wrong)} differs from the published one")
