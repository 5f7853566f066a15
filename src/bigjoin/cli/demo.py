"""bigjoin demo: the paper's five queries on a bundled graph, beside the published counts."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import as_file, files

import click
from rich.console import Console
from rich.table import Table

from bigjoin.cli.find import show
from bigjoin.cli.options import Options, demo_options
from bigjoin.cli.progress import Reporter
from bigjoin.cli.source import open_graph, start_spark

GRAPH = "soc-Epinions1.txt.gz"

PUBLISHED = {
    "triangle": 1_624_481,
    "4-clique": 5_803_397,
    "diamond": 166_635_817,
    "house": 2_578_196_450,
    "5-clique": 17_417_432,
}
"""Undirected subgraphs of soc-Epinions1, each counted once, as published."""


@click.command()
@demo_options
def demo(options: Options) -> None:
    """Count the paper's five queries on the bundled soc-Epinions1 graph, and show a plan and some triangles."""
    console = Console()
    options = replace(options, undirected=True)
    with as_file(files("bigjoin") / "data" / GRAPH) as file, Reporter(quiet=options.quiet) as report:
        graph = open_graph(str(file), options, report)
        graph = graph.on(start_spark(options, report))
        console.print(
            f"soc-Epinions1, who trusts whom: {graph.vertex_count:,} vertices, {graph.edge_count:,} undirected edges\n"
        )
        table = Table("query", "subgraphs", "published", "seconds", title="The paper's five queries, each subgraph once")
        for column in table.columns[1:]:
            column.justify = "right"
        wrong = []
        for name, published in PUBLISHED.items():
            report.stage(f"counting {name}")
            found = graph.count(name, unique=True, progress=report.share)
            verdict = "" if found == published else "  differs!"
            wrong += [name] if found != published else []
            table.add_row(name, f"{found:,}", f"{published:,}{verdict}", f"{found.seconds:.2f}")
        report.stage("finding triangles")
        triangles = graph.find("triangle", unique=True, limit=3).toArrow()
    console.print(table)
    console.print("\nThe first triangles, by the ids of the file:")
    show(triangles)
    console.print("\nHow a triangle is found:\n")
    console.print(graph.explain("triangle", unique=True), markup=False, highlight=False)
    console.print(
        "\nTry next:\n"
        "  bigjoin count triangle YOUR-EDGES.txt --undirected --unique\n"
        "  bigjoin find 'q(a,b,c) := edge(a,b), edge(b,c), edge(c,a), a < b' YOUR-EDGES.csv -o cycles.parquet\n"
        "  bigjoin explain house --undirected --unique\n"
        "  bigjoin --help",
        markup=False,
        highlight=False,
    )
    if wrong:
        raise click.ClickException(f"the count of {', '.join(wrong)} differs from the published one")
