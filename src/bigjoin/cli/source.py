"""SOURCE -> Graph: an index directory is opened; any other source is indexed once, and the index is kept in a cache.

An entry of the cache is named by the source's path, and by what changes when its files do, so that a changed file is
indexed again; the entry of the file as it was before is then removed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from contextlib import suppress
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
    from bigjoin.graph import Graph
    from bigjoin.relations import Relations

BLOCK, SAMPLED = 1 << 12, 16
"""Bytes of a block, and how many blocks of each file are looked at to tell whether it has changed."""
FORGOTTEN = 86400.0
"""Seconds after which an unfinished index is rubbish that has no owner, as earlier versions left it."""


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
        check_exists(path)
        named[name] = path
    spark = start_spark(options, report) if options.master or options.conf else None  # large relations are read by Spark
    return Relations(named, drop_nulls=options.relation_nulls, spark=spark)


def open_graph(source: str, options: Options, report: Reporter) -> Graph:
    """Return the graph of a source, building its index if need be."""
    from bigjoin.graph import Graph
    from bigjoin.index.manifest import is_index

    remote = is_remote(source)
    path = Path(source)
    check_exists(source)
    if not remote and path.is_dir() and is_index(path):
        return _opened(path, options, report)
    if not remote and path.is_file() and path.stat().st_size == 0:
        raise SourceError(f"{source} has no edges: it is empty")
    if remote or options.no_cache:
        spark = start_spark(options, report)
        report.stage(f"indexing {source}")
        return Graph(source, directed=not options.undirected, spark=spark)
    return _cached(path, options, report)


def check_exists(source: str) -> None:
    """Refuse a source of this machine that does not exist, or that cannot be read twice."""
    check_regular(source)
    if not is_remote(source) and not Path(source).exists():
        raise SourceError(f"there is no file or directory {source}")


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

    cache = cache_directory()
    if cache is None or not _can_write(cache):
        spark = start_spark(options, report)
        return Graph(path, directed=not options.undirected, spark=spark)
    entry = cache / _entry_name(path, undirected=options.undirected)
    remove_abandoned(cache)
    try:
        return Graph.open(entry)
    except IndexFormatError:  # there is none yet, or a damaged one
        shutil.rmtree(entry, ignore_errors=True)
    folder = scratch_folder("building", cache)  # a process that is killed leaves no more than the next one removes
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
    _forget_older(entry)
    return Graph.open(entry)


def _can_write(folder: Path) -> bool:
    """Make a folder if it is not there, and tell whether it can be written to."""
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        return os.access(folder, os.W_OK | os.X_OK)
    return False


def _entry_name(path: Path, *, undirected: bool) -> str:
    """Return the name of a source's entry: where it is, and what tells that its files are still the same."""
    path = path.resolve()
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    kind = "undirected" if undirected else "directed"
    return f"{_digest(os.fsencode(path))}-{kind}-{_digest(*map(_stamp, files))}"


def _stamp(file: Path) -> bytes:
    """Return what changes when a file does, whoever puts its time back: its inode and ctime, and a sample of what is in it.

    The sample costs the same for a file of any size: its first and last blocks, and some between.
    """
    with file.open("rb") as source:
        found = os.fstat(source.fileno())
        parts = [repr((os.fsencode(file), found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)).encode()]
        for place in range(SAMPLED if found.st_size > BLOCK else 1):
            source.seek(max(0, found.st_size - BLOCK) * place // (SAMPLED - 1))
            parts.append(source.read(BLOCK))
    return b"".join(parts)


def _forget_older(entry: Path) -> None:
    """Remove the indices of the same source as it was before it changed, and what builds of earlier versions have left."""
    same_source = entry.name.rsplit("-", 1)[0]
    for other in entry.parent.glob(f"{same_source}-*"):
        if other.name != entry.name and not other.suffix:
            shutil.rmtree(other, ignore_errors=True)
    for unfinished in entry.parent.glob("*directed-*.????????"):
        if time.time() - unfinished.stat().st_mtime > FORGOTTEN:
            shutil.rmtree(unfinished, ignore_errors=True)


def _digest(*parts: bytes) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "big") + part)
    return found.hexdigest()[:16]
