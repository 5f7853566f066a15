"""The cache of the command line: the index of a source, under a name made from the source's path and the state of its files.

A changed file gets another name, so it is indexed again; the entry of its earlier state is then removed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bigjoin.errors import IndexFormatError
from bigjoin.private import user_cache
from bigjoin.reading import JUDGED, ReadingOptions
from bigjoin.storage.scratch import remove_abandoned, scratch_folder

if TYPE_CHECKING:
    from bigjoin.graph import Graph

READING_RULES = 2
"""Counts the rules by which columns and headers are judged: an index that was built by earlier rules is not used again."""
BLOCK_BYTES, SAMPLED_BLOCKS = 1 << 12, 16
"""How much of each file is read to detect a change."""
MAX_BUILD_SECONDS = 86400.0
"""Age at which an unfinished index is removed, if an earlier version of bigjoin, which recorded no owner, left it."""


def writable_cache() -> Path | None:
    """Return the cache folder: BIGJOIN_CACHE, or bigjoin in the user's cache folder; None if it cannot be written."""
    chosen = os.environ.get("BIGJOIN_CACHE")
    cache = Path(chosen) if chosen else user_cache()
    if cache is not None:
        with suppress(OSError):
            cache.mkdir(parents=True, exist_ok=True)
            return cache if os.access(cache, os.W_OK | os.X_OK) else None
    return None


def cached(
    source: Path, cache: Path, *, directed: bool, reading: ReadingOptions = JUDGED, build: Callable[[Path], object]
) -> Graph:
    """Return the graph of a source from the cache; if its index is missing or damaged, `build` makes it first."""
    from bigjoin.graph import Graph

    entry = cache / _entry_name(source, directed=directed, reading=reading)
    remove_abandoned(cache)
    try:
        return Graph.open(entry)
    except IndexFormatError:
        shutil.rmtree(entry, ignore_errors=True)
    folder = scratch_folder("building", cache)  # if this process is killed, the next one removes it
    try:
        build(folder / entry.name)
        with suppress(OSError):  # another process was faster, and its index is as good
            (folder / entry.name).rename(entry)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _remove_older(entry)
    return Graph.open(entry)


def _entry_name(source: Path, *, directed: bool, reading: ReadingOptions = JUDGED) -> str:
    """Return the name of a source's entry: its path and how it is read, and the state of its files."""
    path = source.resolve()
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    how = repr((READING_RULES, sorted(vars(reading).items()))).encode()
    return f"{_digest(os.fsencode(path), how)}-{'directed' if directed else 'undirected'}-{_digest(*map(_state, files))}"


def _state(file: Path) -> bytes:
    """Return the state of a file, which differs after a change even if its time was set back: inode, ctime and sampled content.

    The sample costs the same for a file of any size: its first and last blocks, and some in between.
    """
    with file.open("rb") as source:
        found = os.fstat(source.fileno())
        parts = [repr((os.fsencode(file), found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)).encode()]
        for place in range(SAMPLED_BLOCKS if found.st_size > BLOCK_BYTES else 1):
            source.seek(max(0, found.st_size - BLOCK_BYTES) * place // (SAMPLED_BLOCKS - 1))
            parts.append(source.read(BLOCK_BYTES))
    return b"".join(parts)


def _remove_older(entry: Path) -> None:
    """Remove the indices of the same source in earlier states, and what earlier versions of bigjoin left unfinished."""
    same_source = entry.name.rsplit("-", 1)[0]
    older = {other for other in entry.parent.glob(f"{same_source}-*") if not other.suffix} - {entry}
    unfinished = entry.parent.glob("*directed-*.????????")
    older.update(other for other in unfinished if time.time() - other.stat().st_mtime > MAX_BUILD_SECONDS)
    for other in older:
        shutil.rmtree(other, ignore_errors=True)


def _digest(*parts: bytes) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "big") + part)
    return found.hexdigest()[:16]
