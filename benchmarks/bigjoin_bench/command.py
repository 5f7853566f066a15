"""bigjoin bench: this engine and its peers side by side, tables and plots."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import click

from bigjoin.cli.options import conf_option
from bigjoin.defaults import CONF_VARIABLE
from bigjoin.errors import BigjoinError

_CHECKOUT = Path(__file__).parents[2]
_OUTPUT = "Folder for results.jsonl, benchmarks.md and plots [default: that of the checkout, or ./bigjoin-bench]."


@click.command()
@click.argument("names", metavar="[NAME ...]", nargs=-1)
@click.option("--quick", is_flag=True, help="Only the bundled graph, with few queries and runs: less than three minutes.")
@click.option("--report", is_flag=True, help="Measure nothing; write tables and plots from existing results.")
@click.option("--graph", "graphs", multiple=True, metavar="NAME", help="Only this graph; may be repeated.")
@click.option("--rounds", type=click.IntRange(min=0), metavar="N", help="Warm runs of each contender [default: 5; quick: 2].")
@click.option(
    "--cut-off", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="End runs after this [default: 120]."
)
@click.option("--threads", type=click.IntRange(min=1), metavar="N", default=2, show_default=True, help="Threads of each.")
@click.option(
    "--data", type=click.Path(path_type=Path), metavar="DIR", help="Folder of graphs [default: ../shared/data/static]."
)
@click.option(
    "--dataflow-join",
    type=click.Path(path_type=Path, exists=True, dir_okay=False, resolve_path=True),
    metavar="PATH",
    help="The paper's own program, for updates-paper: the example `motif` of dataflow-join, compiled.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="DIR", help=_OUTPUT)
@conf_option
@click.option("--json", "as_json", is_flag=True, help="Print the new results as JSON lines.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def bench(
    names: tuple[str, ...],
    quick: bool,
    report: bool,
    graphs: tuple[str, ...],
    rounds: int | None,
    cut_off: float | None,
    threads: int,
    data: Path | None,
    dataflow_join: Path | None,
    output: Path | None,
    conf: dict[str, str],
    as_json: bool,
    quiet: bool,
) -> None:
    """Measure bigjoin and other systems side by side, print tables, and write a page with plots.

    \b
    NAME is a suite (default: all of them):
      directed     the paper's five queries, compared with DuckDB and Kuzu
      undirected   the same, each subgraph once, compared with DuckDB and hand-written SQL
      rmat         triangles of 16 M edges, compared with networkit, SuiteSparse and igraph
      index        building an index, compared with DuckDB
      foil         a vertex at a time, compared with an edge at a time
      spark        triangles, compared with Spark SQL and a left-deep motif
      motifs       motifs, compared with left-deep joins as GraphFrames plans them (a stand-in)
      motifs-wide       the same with 58 attributes of each vertex
      motifs-shuffled   the same in p2p-Gnutella08, where joins may not broadcast tables
      motifs-rows       all rows of many motifs, compared with those of left-deep joins
      partitioned  each worker owns a part of the index, compared with Spark SQL and moving its bytes
      batches      memory under the partitioned strategy, by B'
      batches-cliques   the same for 4-cliques
      workers      what each of 1 to 224 workers holds and receives
      groups       triangles by vertex and by edge, compared with networkit and Spark SQL
      groups-cycles     4-cycles by edge, compared with Spark SQL
      seeds        what 1 to 100,000 vertices reach: candidates and times
      estimates    how often intervals hold the count, how wide they are, and what they cost
      shares       copies in one round (Shares, Hypercube), compared with prefixes in rounds
      cliques      cliques of 4 to 7 vertices and houses: sets as bits, compared with lists
      cliques-directed  the same for directed cliques
      planning     processor seconds from a query to its plan, of small and of very large queries
      triangles-stored  cliques and houses with symmetries, without, and with stored triangles
      cold         a whole command, compared with starting Spark
      shell        questions from a shell, compared with DuckDB and Kuzu
      cost         one thread without Spark, compared with Spark
      write        writing matches to Parquet, compared with pyarrow
      updates      counts maintained over epochs of 100,000 updates, compared with a no-op
      updates-single    the same with one update per epoch
      updates-written   writing the matches that updates create, compared with pyarrow
      updates-many      a thousand epochs, one after another
      updates-size      1 to 1,000,000 updates per epoch without Spark, and memory
      updates-latency   epochs of one edge without Spark, compared with one fsync
      updates-paper     a whole graph as updates, compared with the paper's own program
      updates-all       a whole graph as updates, compared with building and counting
      updates-stars     stars at a hub of 100,000 leaves, compared with lookups
      updates-diamonds  diamonds and houses, 100,000 updates per epoch
      updates-window    two thousand epochs with a sliding window: time, memory and files
      updates-capacity  updates under the partitioned strategy, by workers
      skew         what 16, 64 and 224 workers receive, by strategy, on skewed inputs and real graphs

    The other systems are optional; make bench installs them. A time is kept only if the counts agree.
    """  # noqa: D301 - click reads the backspace: what follows is not wrapped
    from bigjoin_bench.contenders import DATAFLOW_JOIN
    from bigjoin_bench.graphs import BUNDLED, Library
    from bigjoin_bench.report.beside import fill_paper
    from bigjoin_bench.report.extras import EXTRAS
    from bigjoin_bench.report.page import fill_readme, write_report
    from bigjoin_bench.report.skew import write_skew
    from bigjoin_bench.report.tables import summary, warm
    from bigjoin_bench.results import read
    from bigjoin_bench.rounds import Limits
    from bigjoin_bench.run import Bench
    from bigjoin_bench.run import quick as quickly
    from bigjoin_bench.skew.study import NAME, Study, inputs
    from bigjoin_bench.suites import SUITES, get

    suites = [get(name) for name in names if name != NAME] if names else list(SUITES.values())
    studied = inputs(graphs) if (NAME in names or not names) and not quick else []
    limits = Limits()
    if quick:
        suites, limits = quickly(suites)
    if rounds is not None:
        limits = replace(limits, rounds=rounds)
    if cut_off is not None:
        limits = replace(limits, cut_off=cut_off)
    file, pages = _targets(output, quick=quick)
    wrong: list[str] = []
    if conf:
        os.environ[CONF_VARIABLE] = json.dumps(conf)  # for the contenders' processes
    if dataflow_join is not None:
        os.environ[DATAFLOW_JOIN] = str(dataflow_join)
    if not report:
        beside = _CHECKOUT.parent / "shared" / "data" / "static"
        library = Library(data or (beside if beside.is_dir() else None))
        say = (lambda _: None) if quiet else (lambda text: click.echo(text, err=True))
        running = Bench(file, library, limits, threads, say)
        study = Study(file, library, 1 if rounds is None else rounds, threads, say)
        try:
            lines = running.run(suites, graphs)
            lines += study.run(studied)
        finally:
            library.close()
        wrong = running.wrong + study.wrong
        for suite in suites:
            mine = [line for line in lines if line.suite == suite.name]
            if as_json:
                for line in mine:
                    click.echo(json.dumps(asdict(line)))
            elif mine:
                shown = [warm(suite, mine), summary(suite, mine)] if suite.timed else [EXTRAS[suite.name](mine)]
                click.echo("\n\n".join([suite.title, *shown]) + "\n")
        for line in lines if as_json else ():
            if line.suite == NAME:
                click.echo(json.dumps(asdict(line)))
    measured = read(file)
    page = write_report(measured, pages)
    write_skew(measured, pages)
    if pages == _CHECKOUT / "docs":
        fill_readme(_CHECKOUT / "README.md", measured, BUNDLED)
        fill_paper(pages / "paper.md", measured)
    if not quiet:
        click.echo(f"{page} has all tables and plots", err=True)
    if wrong:
        raise BigjoinError("counts differed, and those times were not kept:\n" + "\n".join(wrong))


def _targets(output: Path | None, *, quick: bool) -> tuple[Path, Path]:
    """Return the file of results and the folder of the page; a quick run does not touch those of the checkout."""
    if output is None and not quick and (_CHECKOUT / "benchmarks" / "results.jsonl").exists():
        return _CHECKOUT / "benchmarks" / "results.jsonl", _CHECKOUT / "docs"
    folder = output or Path("bigjoin-bench")
    return folder / "results.jsonl", folder
