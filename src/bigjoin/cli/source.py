"""SOURCE or --relation -> the graph or relations to query: an index is opened, any other source is indexed, or cached."""

from __future__ import annotations

import codecs
import shutil
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from bigjoin.cli.cache import cached, writable_cache
from bigjoin.cli.options import Options
from bigjoin.cli.progress import Reporter
from bigjoin.defaults import LOCAL
from bigjoin.errors import RowsWarning, SourceError, bounded
from bigjoin.paths import NamedPath, check_regular, is_remote, shown_name
from bigjoin.reading import JUDGED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bigjoin.graph import Graph
    from bigjoin.index.directory import Index
    from bigjoin.index.manifest_entries import ReadingEntry
    from bigjoin.query.statement import Statement
    from bigjoin.relations import Relations

STDIN = "-"
STDIN_NAME = "the standard input"


@contextmanager
def asking(
    query: Statement, source: str | None, options: Options, *, doing: str, runs: bool = True
) -> Iterator[tuple[Graph | Relations, Reporter]]:
    """Give the graph or relations that a query is about, with a Spark session if it runs, and a reporter of progress."""
    if options.warm is not None:
        with options.warm.asking(query, options, doing=doing, runs=runs) as asked:
            yield asked
        return
    from bigjoin.spark.sources import no_session

    if options.quiet:
        warnings.simplefilter("ignore", RowsWarning)
    with Reporter(quiet=options.quiet) as report:
        graph = open_source(source, options, report)

        def start() -> SparkSession:
            if not options.relations:  # which are looked at already
                graph.plan(query)  # report a query that does not fit before Spark takes seconds to start
            session = session_for(options, report)()
            report.stage(f"{doing} {query.name}")
            return session

        stays = may_stay(options)
        if stays:
            graph.stay_here(no_session if options.run["strategy"] == LOCAL else start)
        _note_relations(graph, query, options)
        if runs and not stays:
            graph = graph.on(start())
        graph.why_spark = why_spark(options)
        report.stage(f"{doing} {query.name}")
        yield graph, report


def may_stay(options: Options) -> bool:
    """Tell whether a question may be answered without Spark: as asked for, or because nobody says where Spark is."""
    if options.run["strategy"] == LOCAL:
        if options.about_spark is not None:
            raise click.UsageError(f"--strategy local has no Spark: leave out {options.about_spark}, or use another strategy")
        return True
    return options.run["strategy"] == "auto" and why_spark(options) is None


def why_spark(options: Options) -> str | None:
    """Return what says where Spark is, if anything does: then questions are for that, and not for this process."""
    from bigjoin.spark.session import who_names_a_master

    if options.about_spark is not None:
        return f"{options.about_spark} is given"
    named_by = who_names_a_master()
    return None if named_by is None else f"{named_by} names a master"


def open_source(source: str | None, options: Options, report: Reporter) -> Graph | Relations:
    """Return the graph of SOURCE, and say how it was read if that was judged; or the relations of --relation."""
    if source is not None:
        if options.relations:
            raise click.UsageError("give either SOURCE or --relation, not both")
        from bigjoin.spark.store_options import index_at

        graph = open_graph(source, options, report)
        if index_at(source) is None:
            note_readings(graph.index, options, None if source == STDIN else source)
        return graph
    if not options.relations:
        raise click.UsageError(
            "Missing argument 'SOURCE': name an edge list or an index, or give relations with --relation NAME=PATH"
        )
    if options.epoch is not None:
        raise click.UsageError("--epoch is for an index that keeps epochs, and relations are none")
    if options.undirected:
        raise click.UsageError("--undirected is for graphs: relations have no direction")
    from bigjoin.relations import Relations

    relations = spooled(options.relations)
    for path in relations.values():
        check_exists(path)
    spark = start_spark(options, report) if options.about_spark is not None else None  # Spark reads large relations
    said = {name: given for name, given in vars(options.reading).items() if name != "id"}
    return Relations(relations, drop_nulls=options.drop_nulls, spark=spark, **said)


def open_graph(source: str, options: Options, report: Reporter) -> Graph:
    """Return the graph of a source: from its own index, from the cache, or from an index built now."""
    from bigjoin.graph import Graph
    from bigjoin.spark.store_options import index_at

    from_stdin = source == STDIN
    source = spooled({"": source})[""]
    check_exists(source)
    path, is_local = Path(source), not is_remote(source)
    if (known := index_at(source)) is not None:
        if options.reading != JUDGED:
            raise click.UsageError(f"{source} is an index: options about columns and text are for other sources")
        graph = Graph.open(known, epoch=options.epoch, verify=not options.no_verify)
        if not options.undirected or not graph.directed:
            return graph
        report.stage("deriving the undirected graph")
        return graph.undirected()
    if options.epoch is not None:
        raise click.UsageError(f"--epoch is for an index that keeps epochs, and {shown_name(source)} is none")
    if is_local and path.is_file() and path.stat().st_size == 0:
        raise SourceError(f"{shown_name(source)} has no edges: it is empty")
    directed, spark = not options.undirected, session_for(options, report)

    def build(folder: Path) -> Index:
        from bigjoin.indexing import build_index

        said = vars(options.reading)
        return build_index(source, folder, directed=directed, spark=spark, progress=report.stage, share=report.share, **said)

    if is_local and not from_stdin and not options.no_cache and (cache := writable_cache()) is not None:
        return cached(path, cache, directed=directed, reading=options.reading, build=build)
    from bigjoin.storage.scratch import scratch_directory

    scratch = scratch_directory("graph")
    return Graph.over(build(scratch / "index"), scratch=scratch)


def session_for(options: Options, report: Reporter) -> Callable[[], SparkSession]:
    """Return what starts Spark to read a large source; under the strategy local, this process reads it."""
    from bigjoin.spark.sources import no_session

    return no_session if options.run["strategy"] == LOCAL else partial(start_spark, options, report)


def note_readings(index: Index, options: Options, source: str | None = None) -> None:
    """Say on stderr which columns and which header the sources of an index were read with, unless --quiet.

    The index may be older than the name by which its only `source` goes now.
    """
    from bigjoin.index.directory import VERTEX

    edges = dict.fromkeys(entry.reading for entry in index.manifest.relations.values())
    ends: Sequence[str]
    for reading, ends in (*((one, ("src", "dst")) for one in edges), (index.manifest.domains[VERTEX].reading, ("id",))):
        if reading is not None:
            as_text = reading.header is not None and index.manifest.domains[VERTEX].type == "string"
            note_reading(options, source or reading.source, reading, ends, more="; ids are text" * as_text)


def _note_relations(graph: Graph | Relations, query: Statement, options: Options) -> None:
    """Say how the relations that a query reads were read."""
    if options.relations:
        graph.plan(query)
        for reading in cast("Relations", graph).readings.values():
            note_reading(options, reading.source, reading, ())


def note_reading(options: Options, source: str, reading: ReadingEntry, ends: Sequence[str], more: str = "") -> None:
    """Say on stderr how one source was read, unless --quiet."""
    if not options.quiet:
        click.echo(f"bigjoin: note: {bounded(f'{shown_name(source)}: {reading.sentence(ends)}{more}')}", err=True)


def spooled(sources: Mapping[str, str]) -> dict[str, str]:
    """Return sources with standard input, which can be read only once, as a file of scratch; refuse it for two of them."""
    if sum(source == STDIN for source in sources.values()) > 1:
        raise click.UsageError("- is the standard input, which can be read once: save it as a file to read it twice")
    return {name: _spool() if source == STDIN else source for name, source in sources.items()}


def _spool() -> str:
    from bigjoin.storage.scratch import scratch_directory

    if sys.stdin is None or sys.stdin.isatty():
        raise SourceError("- is the standard input, and there is none: send edges through a pipe, or name a file")
    file = scratch_directory("stdin") / "rows"
    with file.open("wb") as sink:
        shutil.copyfileobj(sys.stdin.buffer, sink, 1 << 20)
    with file.open("rb") as content:
        start = content.read(1 << 12)
    if not start:
        raise SourceError(f"{STDIN_NAME} is empty: it holds no edges")
    packed = ".gz" if start.startswith(b"\x1f\x8b") else ""
    if packed:
        start = zlib.decompressobj(wbits=31).decompress(start, 1 << 10)
    text = start.removeprefix(codecs.BOM_UTF8).lstrip()
    suffix = ".parquet" if start.startswith(b"PAR1") else ".json" if text.startswith((b"{", b"[")) else ".txt"
    return NamedPath(str(file.rename(file.with_suffix(suffix + packed))), STDIN_NAME)


def check_exists(source: str) -> None:
    """Refuse a local source that does not exist or cannot be read twice."""
    check_regular(source)
    if not is_remote(source) and not Path(source).exists():
        raise SourceError(f"there is no file or directory {source}")


def start_spark(options: Options, report: Reporter) -> SparkSession:
    """Return the session; starting one takes some seconds."""
    from bigjoin.spark.session import get_session

    report.stage("starting Spark")
    if options.warm is not None:
        return options.warm.session(quiet=options.quiet)
    return get_session(options.master, options.conf)
