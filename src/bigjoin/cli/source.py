"""SOURCE -> Graph: an index directory is opened; any other source is indexed once, and the index is kept in a cache.

An entry of the cache is named by the source's path, and by the size and time of its files, so that a changed file is
indexed again; the entry of the file as it was before is then removed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bigjoin.cli.options import Options
from bigjoin.cli.progress import Reporter
from bigjoin.errors import IndexFormatError, SourceError
from bigjoin.paths import is_remote
from bigjoin.private import user_cache

if TYPE_CHECKING:
    from bigjoin.graph import Graph
    from bigjoin.relations import Relations


def open_source(source: str | None, options: Options, report: Reporter) -> Graph | Relations:
    """Return the graph of a source, or the relations that options name."""
    if options.relation_paths:
        if source is not None:
            raise click.UsageError("give either SOURCE or --relation, not both")
        return _relations(options, report)
    if source is None:
        raise click.UsageError(
            "Missing argument 'SOURCE': name an edge list or an index, or give relations with --relation NAME=PATH"
        )
    return open_graph(source, options, report)


def _relations(options: Options, report: Reporter) -> Relations:
    from bigjoin.relations import Relations

    if options.undirected:
        raise click.UsageError("--undirected is for graphs, and relations have no directions")
    named: dict[str, str] = {}
    for given in options.relation_paths:
        name, equals, path = given.partition("=")
        if not equals or not path:
            raise click.UsageError(f"--relation {given}: write NAME=PATH")
        if name in named:
            raise click.UsageError(f"--relation {given}: there are two relations {name!r}")
        if not is_remote(path) and not Path(path).exists():
            raise SourceError(f"there is no file or directory {path}")
        named[name] = path
    spark = start_spark(options, report) if options.master or options.conf else None  # large relations are read by Spark
    return Relations(named, drop_nulls=options.relation_nulls, spark=spark)


def open_graph(source: str, options: Options, report: Reporter) -> Graph:
    """Return the graph of a source, building its index if need be."""
    from bigjoin.graph import Graph
    from bigjoin.index.manifest import is_index

    remote = is_remote(source)
    path = Path(source)
    if not remote and not path.exists():
        raise SourceError(f"there is no file or directory {source}")
    if not remote and path.is_dir() and is_index(path):
        return _opened(path, options, report)
    if not remote and path.is_file() and path.stat().st_size == 0:
        raise SourceError(f"{source} has no edges: it is empty")
    if remote or options.no_cache:
        spark = start_spark(options, report)
        report.stage(f"indexing {source}")
        return Graph(source, directed=not options.undirected, spark=spark)
    return _cached(path, options, report)


def start_spark(options: Options, report: Reporter):  # type: ignore[no-untyped-def]
    """Return the session, which takes some seconds to start."""
    from bigjoin.spark.session import get_session

    report.stage("starting Spark")
    return get_session(options.master, options.conf)


def cache_directory() -> Path | None:
    """Return the folder of the cache: BIGJOIN_CACHE, or bigjoin in the user's cache folder; None for a user without a home."""
    chosen = os.environ.get("BIGJOIN_CACHE")
    return Path(chosen) if chosen else user_cache()


def _opened(path: Path, options: Options, report: Reporter) -> Graph:
    from bigjoin.graph import Graph

    graph = Graph.open(path, verify=not options.no_verify)
    if options.undirected and graph.directed:
        report.stage("deriving the undirected graph")
        return graph.undirected()
    return graph


def _cached(path: Path, options: Options, report: Reporter) -> Graph:
    from bigjoin.graph import Graph
    from bigjoin.indexing import build_index

    kept = cache_directory()
    entry = None if kept is None else kept / _entry_name(path, undirected=options.undirected)
    if entry is not None:
        try:
            return Graph.open(entry)
        except IndexFormatError:  # there is none yet, or a damaged one
            shutil.rmtree(entry, ignore_errors=True)
    if entry is None or not _can_write(entry.parent):
        spark = start_spark(options, report)
        return Graph(path, directed=not options.undirected, spark=spark)
    fresh = entry.with_name(f"{entry.name}.{uuid.uuid4().hex[:8]}")
    try:
        build_index(
            str(path),
            fresh,
            directed=not options.undirected,
            spark=lambda: start_spark(options, report),
            progress=report.stage,
            share=report.share,
        )
        try:
            fresh.rename(entry)
        except OSError:  # another process was faster, and its index is as good
            shutil.rmtree(fresh, ignore_errors=True)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    _forget_older(entry)
    return Graph.open(entry)


def _can_write(folder: Path) -> bool:
    """Make a folder if it is not there, and tell whether it can be written to."""
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        return os.access(folder, os.W_OK | os.X_OK)
    return False


def _entry_name(path: Path, *, undirected: bool) -> str:
    path = path.resolve()
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    stamps = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    kind = "undirected" if undirected else "directed"
    return f"{_digest(str(path))}-{kind}-{_digest(repr(stamps))}"


def _forget_older(entry: Path) -> None:
    """Remove the indices of the same source as it was before it changed."""
    same_source = entry.name.rsplit("-", 1)[0]
    for other in entry.parent.glob(f"{same_source}-*"):
        if other.name.split(".")[0] != entry.name:
            shutil.rmtree(other, ignore_errors=True)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
