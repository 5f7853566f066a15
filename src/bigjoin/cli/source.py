"""SOURCE -> Graph: an index directory is opened; any other source is indexed once, and the index is kept in a cache.

An entry of the cache is named by the source's path and by the state of its files, so that a changed file is indexed again; the
entry of the file as it was before is then removed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bigjoin.cli.options import Options
from bigjoin.cli.progress import Reporter
from bigjoin.errors import IndexFormatError, SourceError
from bigjoin.paths import check_regular, is_remote
from bigjoin.private import user_cache
from bigjoin.storage.scratch import remove_abandoned, scratch_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bigjoin.graph import Graph
    from bigjoin.query.query import Query
    from bigjoin.relations import Relations

BLOCK_BYTES, SAMPLED_BLOCKS = 1 << 12, 16
"""How much of each file is read to tell whether it has changed."""
MAX_BUILD_SECONDS = 86400.0
"""Age at which an unfinished index of an earlier version, which noted no owner, is removed."""


@contextmanager
def asking(
    query: Query, source: str | None, options: Options, *, runs: bool = True
) -> Iterator[tuple[Graph | Relations, Reporter]]:
    """Give the graph or the relations that a query is about, in a session if it runs, and what reports progress."""
    with Reporter(quiet=options.quiet) as report:
        graph = _open_source(source, options, report)
        if runs:
            graph.plan(query)  # before Spark starts: a query that does not fit should not take seconds
            graph = graph.on(start_spark(options, report))
        yield graph, report


def _open_source(source: str | None, options: Options, report: Reporter) -> Graph | Relations:
    if not options.relations and source is None:
        raise click.UsageError(
            "Missing argument 'SOURCE': name an edge list or an index, or give relations with --relation NAME=PATH"
        )
    if source is not None:
        if options.relations:
            raise click.UsageError("give either SOURCE or --relation, not both")
        return open_graph(source, options, report)
    if options.undirected:
        raise click.UsageError("--undirected is for graphs, and relations have no directions")
    from bigjoin.relations import Relations

    for path in options.relations.values():
        check_exists(path)
    spark = start_spark(options, report) if options.master or options.conf else None  # large relations are read by Spark
    return Relations(options.relations, drop_nulls=options.drop_nulls, spark=spark)


def open_graph(source: str, options: Options, report: Reporter) -> Graph:
    """Return the graph of a source: of the index that it is, of the cache's, or of one that is built now."""
    from bigjoin.graph import Graph
    from bigjoin.index.manifest import is_index

    path = Path(source)
    check_exists(source)
    if not is_remote(source) and is_index(path):
        graph = Graph.open(path, verify=not options.no_verify)
        if not options.undirected or not graph.directed:
            return graph
        report.stage("deriving the undirected graph")
        return graph.undirected()
    if not is_remote(source) and path.is_file() and path.stat().st_size == 0:
        raise SourceError(f"{source} has no edges: it is empty")
    cache = None if is_remote(source) or options.no_cache else _writable_cache()
    if cache is not None:
        return _cached(path, cache, options, report)
    spark = start_spark(options, report)
    report.stage(f"indexing {source}")
    return Graph(source, directed=not options.undirected, spark=spark)


def check_exists(source: str) -> None:
    """Refuse a source of this machine that does not exist, or that cannot be read twice."""
    check_regular(source)
    if not is_remote(source) and not Path(source).exists():
        raise SourceError(f"there is no file or directory {source}")


def start_spark(options: Options, report: Reporter) -> SparkSession:
    """Return the session, which takes some seconds to start."""
    from bigjoin.spark.session import get_session

    report.stage("starting Spark")
    return get_session(options.master, options.conf)


def _writable_cache() -> Path | None:
    """Return the folder of the cache: BIGJOIN_CACHE, or bigjoin in the user's cache folder; None if it cannot be written."""
    chosen = os.environ.get("BIGJOIN_CACHE")
    cache = Path(chosen) if chosen else user_cache()
    if cache is not None:
        with suppress(OSError):
            cache.mkdir(parents=True, exist_ok=True)
            return cache if os.access(cache, os.W_OK | os.X_OK) else None
    return None


def _cached(path: Path, cache: Path, options: Options, report: Reporter) -> Graph:
    """Return the graph of a file from the cache, after building its index there if need be."""
    from bigjoin.graph import Graph
    from bigjoin.indexing import build_index

    entry = cache / _entry_name(path, undirected=options.undirected)
    remove_abandoned(cache)
    try:
        return Graph.open(entry)
    except IndexFormatError:  # there is none yet, or a damaged one
        shutil.rmtree(entry, ignore_errors=True)
    folder = scratch_folder("building", cache)  # if this process is killed, the next one removes it
    fresh = folder / entry.name
    try:
        build_index(
            str(path),
            fresh,
            directed=not options.undirected,
            spark=lambda: start_spark(options, report),
            progress=report.stage,
            share=report.share,
        )
        with suppress(OSError):  # another process was faster, and its index is as good
            fresh.rename(entry)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _remove_older(entry)
    return Graph.open(entry)


def _entry_name(path: Path, *, undirected: bool) -> str:
    """Return the name of a source's entry: its path, and the state of its files."""
    path = path.resolve()
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    kind = "undirected" if undirected else "directed"
    return f"{_digest(os.fsencode(path))}-{kind}-{_digest(*map(_stamp, files))}"


def _stamp(file: Path) -> bytes:
    """Return what tells a file's state, though its time may have been put back: inode, ctime and a sample of its content.

    The sample costs the same for a file of any size: its first and last blocks, and some between.
    """
    with file.open("rb") as source:
        found = os.fstat(source.fileno())
        parts = [repr((os.fsencode(file), found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)).encode()]
        for place in range(SAMPLED_BLOCKS if found.st_size > BLOCK_BYTES else 1):
            source.seek(max(0, found.st_size - BLOCK_BYTES) * place // (SAMPLED_BLOCKS - 1))
            parts.append(source.read(BLOCK_BYTES))
    return b"".join(parts)


def _remove_older(entry: Path) -> None:
    """Remove the indices of the same source before it changed, and what earlier versions of bigjoin left unfinished."""
    same_source = entry.name.rsplit("-", 1)[0]
    for other in entry.parent.glob(f"{same_source}-*"):
        if other.name != entry.name and not other.suffix:
            shutil.rmtree(other, ignore_errors=True)
    for unfinished in entry.parent.glob("*directed-*.????????"):
        if time.time() - unfinished.stat().st_mtime > MAX_BUILD_SECONDS:
            shutil.rmtree(unfinished, ignore_errors=True)


def _digest(*parts: bytes) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "big") + part)
    return found.hexdigest()[:16]
