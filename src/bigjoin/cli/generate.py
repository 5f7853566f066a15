"""bigjoin generate: graphs for tests and benchmarks, one subcommand a family."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bigjoin.cli.options import Options, answer, generate_options
from bigjoin.cli.progress import Reporter
from bigjoin.cli.source import start_spark
from bigjoin.errors import GeneratorError

if TYPE_CHECKING:
    from bigjoin.generators import Family

_OUT = click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
_IDS = click.option(
    "--ids", type=click.Choice(["int", "string"]), default="int", show_default=True, help="Integers, or text such as v000123."
)
_SEED = click.option("--seed", type=int, metavar="N", default=1, show_default=True, help="The same seed gives the same edges.")
_VERTICES = click.option("--vertices", type=int, metavar="N", required=True, help="Number of vertices.")


@click.group()
def generate() -> None:
    """Generate a graph for tests and benchmarks: a folder of Parquet files, which you can use as a SOURCE.

    The same options give the same edges, on any machine and with any number of tasks.
    """


@generate.command()
@_OUT
@click.option("--scale", type=int, metavar="N", required=True, help="2^N vertices.")
@click.option("--edge-factor", type=int, metavar="N", help="Edges per vertex [default: 16].")
@click.option("--edges", type=int, metavar="N", help="Number of edges, instead of --edge-factor.")
@click.option(
    "--probabilities",
    metavar="A,B,C,D",
    help="Probabilities of the four quadrants [default: 0.57,0.19,0.19,0.05, as in Graph500].",
)
@click.option("--no-scramble", is_flag=True, help="Do not shuffle ids: the smallest ids are the hubs.")
@_SEED
@_IDS
@generate_options
def rmat(
    target: Path,
    scale: int,
    edge_factor: int | None,
    edges: int | None,
    probabilities: str | None,
    no_scramble: bool,
    seed: int,
    ids: str,
    options: Options,
) -> None:
    """R-MAT, as in Graph500: a graph with hubs, like social networks and the web.

    Edges are kept as they are drawn, including loops and duplicates.
    """
    from bigjoin.generators.rmat import GRAPH500, Rmat

    if edges is not None and edge_factor is not None:
        raise click.UsageError("--edges and --edge-factor both say how many edges there are: give one of them")
    if edges is None:
        edges = (16 if edge_factor is None else edge_factor) << max(0, min(scale, 62))
    chosen = GRAPH500 if probabilities is None else _probabilities(probabilities)
    _write(Rmat(scale, edges, seed, chosen, not no_scramble), target, ids, options)


@generate.command()
@_OUT
@_VERTICES
@click.option("--edges", type=int, metavar="M", required=True, help="Number of distinct edges, without loops.")
@_SEED
@_IDS
@generate_options
def uniform(target: Path, vertices: int, edges: int, seed: int, ids: str, options: Options) -> None:
    """G(n, m): all edges are equally likely, so there is no skew, and few triangles."""
    from bigjoin.generators.pairs import Uniform

    _write(Uniform(vertices, edges, seed), target, ids, options)


@generate.command()
@_OUT
@click.option("--stars", metavar="M-M-...", required=True, help="Leaves of each star, for example 3-4-5-9-16-25.")
@_IDS
@generate_options
def theory(target: Path, stars: str, ids: str, options: Options) -> None:
    """Kronecker product of stars: a graph with hubs, whose number of triangles is known.

    These are the GraphChallenge's Theory graphs, kind B1k. Each undirected edge appears once, so read them with --undirected.
    """
    from bigjoin.generators.theory import Theory

    _write(Theory.parse(stars), target, ids, options)


@generate.command()
@_OUT
@click.option("--kind", type=click.Choice(["funnel", "hubs"]), default="funnel", show_default=True, help="The kind of skew.")
@_VERTICES
@click.option("--edges", type=int, metavar="M", required=True, help="Number of distinct edges, with those of the hubs.")
@click.option("--hubs", type=int, metavar="H", help="Number of hubs, for --kind hubs [default: 4].")
@_SEED
@_IDS
@generate_options
def skew(target: Path, kind: str, vertices: int, edges: int, hubs: int | None, seed: int, ids: str, options: Options) -> None:
    """Skew: most of the work goes to one worker of a join that hashes keys.

    funnel: every triangle goes through vertex 0, and each edge that neither begins nor ends there closes one. hubs: the H
    smallest ids have an edge to every other vertex, and all other edges are random.
    """
    from bigjoin.generators.pairs import Funnel, Hubs

    if kind == "hubs":
        _write(Hubs(vertices, edges, 4 if hubs is None else hubs, seed), target, ids, options)
    elif hubs is None:
        _write(Funnel(vertices, edges, seed), target, ids, options)
    else:
        raise click.UsageError("--hubs goes with --kind hubs; a funnel has one, vertex 0")


def _write(family: Family, target: Path, ids: str, options: Options) -> None:
    """Write a graph, and print what was written."""
    from bigjoin.spark.generate import check_target
    from bigjoin.spark.generate import generate as generate_graph

    check_target(target)  # before Spark starts: a mistake should not take seconds
    with Reporter(quiet=options.quiet) as report:
        spark = start_spark(options, report)
        report.stage(f"generating {target}")
        done = generate_graph(spark, family, target, ids=ids, progress=report.share)
    files = "1 file" if done.files == 1 else f"{done.files:,} files"
    line = (
        f"{done.edges:,} edges over {done.vertices:,} vertices in {done.seconds:.1f} s: "
        f"{files}, {done.bytes / 2**20:,.1f} MB in {target}, which is now a SOURCE"
    )
    answer(options, {"graph": family.describe(), **vars(done)}, [line])


def _probabilities(text: str) -> tuple[float, float, float, float]:
    try:
        a, b, c, d = (float(part) for part in text.split(","))
    except ValueError:
        raise GeneratorError(f"--probabilities takes four numbers such as 0.57,0.19,0.19,0.05, not {text!r}") from None
    return a, b, c, d
