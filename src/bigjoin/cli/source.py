"""SOURCE or --relation -> the graph or relations to query: an index is opened, any other source is indexed, or cached."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bigjoin.cli.cache import cached, writable_cache
from bigjoin.cli.options import Options
from bigjoin.cli.progress import Reporter
from bigjoin.errors import SourceError
from bigjoin.paths import check_regular, is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bigjoin.graph import Graph
    from bigjoin.query.statement import Statement
    from bigjoin.relations import Relations


@contextmanager
def asking(
    query: Statement, source: str | None, options: Options, *, doing: str, runs: bool = True
) -> Iterator[tuple[Graph | Relations, Reporter]]:
    """Give the graph or relations that a query is about, with a Spark session if it runs, and a reporter of progress."""
    with Reporter(quiet=options.quiet) as report:
        graph = _open_source(source, options, report)
        if runs:
            graph.plan(query)  # report a query that does not fit before Spark takes seconds to start
            graph = graph.on(start_spark(options, report))
        report.stage(f"{doing} {query.name}")
        yield graph, report


def _open_source(source: str | None, options: Options, report: Reporter) -> Graph | Relations:
    if source is not None:
        if options.relations:
            raise click.UsageError("give either SOURCE or --relation, not both")
        return open_graph(source, options, report)
    if not options.relations:
        raise click.UsageError(
            "Missing argument 'SOURCE': name an edge list or an index, or give relations with --relation NAME=PATH"
        )
    if options.undirected:
        raise click.UsageError("--undirected is for graphs: relations have no direction")
    from bigjoin.relations import Relations

    for path in options.relations.values():
        check_exists(path)
    spark = start_spark(options, report) if options.master or options.conf else None  # Spark reads large relations
    return Relations(options.relations, drop_nulls=options.drop_nulls, spark=spark)


def open_graph(source: str, options: Options, report: Reporter) -> Graph:
    """Return the graph of a source: from its own index, from the cache, or from an index built now."""
    from bigjoin.graph import Graph
    from bigjoin.index.manifest_file import is_index
    from bigjoin.indexing import build_index

    check_exists(source)
    path, is_local = Path(source), not is_remote(source)
    if is_local and is_index(path):
        graph = Graph.open(path, verify=not options.no_verify)
        if not options.undirected or not graph.directed:
            return graph
        report.stage("deriving the undirected graph")
        return graph.undirected()
    if is_local and path.is_file() and path.stat().st_size == 0:
        raise SourceError(f"{source} has no edges: it is empty")
    directed, spark = not options.undirected, partial(start_spark, options, report)
    if is_local and not options.no_cache and (cache := writable_cache()) is not None:
        build = partial(build_index, source, directed=directed, spark=spark, progress=report.stage, share=report.share)
        return cached(path, cache, directed=directed, build=build)
    session = spark()
    report.stage(f"indexing {source}")
    return Graph(source, directed=directed, spark=session)


def check_exists(source: str) -> None:
    """Refuse a local source that does not exist or cannot be read twice."""
    check_regular(source)
    if not is_remote(source) and not Path(source).exists():
        raise SourceError(f"there is no file or directory {source}")


def start_spark(options: Options, report: Reporter) -> SparkSession:
    """Return the session; starting one takes some seconds."""
    from bigjoin.spark.session import get_session

    report.stage("starting Spark")
    return get_session(options.master, options.conf)
