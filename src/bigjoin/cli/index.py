"""bigjoin index: build a durable index, which is then a SOURCE."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from bigjoin.cli.options import Options, index_options
from bigjoin.cli.progress import Reporter
from bigjoin.cli.source import start_spark
from bigjoin.errors import SourceError
from bigjoin.paths import is_remote


@click.command()
@click.argument("source")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@index_options
def index(source: str, directory: Path, options: Options) -> None:
    """Build the index of SOURCE in DIR, for many queries; DIR is then a SOURCE.

    An index that is already there is replaced when the new one is complete.
    """
    from bigjoin.graph import Graph, build_index
    from bigjoin.index.directory import check_target

    check_target(directory)
    if not is_remote(source) and not Path(source).exists():
        raise SourceError(f"there is no file or directory {source}")
    with Reporter(quiet=options.quiet) as report:
        spark = start_spark(options, report)
        started = time.perf_counter()
        built = build_index(source, directory, directed=not options.undirected, spark=spark, progress=report.stage)
        seconds = time.perf_counter() - started
    graph = Graph.open(directory, spark=spark)
    found = built.manifest["source"]  # empty, if the source was an index
    summary = {"vertices": graph.vertices, "edges": graph.edges, "directed": graph.directed, **found}
    summary |= {"bytes": built.bytes, "seconds": seconds}
    if options.as_json:
        click.echo(json.dumps(summary))
        return
    kind = "directed" if graph.directed else "undirected"
    loops = "kept" if graph.directed else "dropped"
    click.echo(f"{graph.vertices:,} vertices, {graph.edges:,} {kind} edges in {seconds:.1f} s")
    if found:
        click.echo(f"{found['rows']:,} rows read, {found['duplicates']:,} duplicates dropped, {found['loops']:,} loops {loops}")
    click.echo(f"{built.bytes / 2**20:,.1f} MB in {directory}, which is now a SOURCE")
