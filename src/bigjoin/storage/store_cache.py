"""The local cache of what this machine has read from stores: whole files, which all processes of a user map.

A file is found by where it lies on its store and by its checksums, so another version of it is another file. What was not used
for longest makes room for what is fetched; a process that still maps it can go on reading.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

from bigjoin.errors import OutputError, SourceError
from bigjoin.private import made_private, private_folder
from bigjoin.storage.interface import StoredFile
from bigjoin.storage.local import LocalStorage, take_lock

CACHE_VARIABLE = "BIGJOIN_CACHE"
"""The folder of the cache, which only its user may be able to write to."""
BYTES_VARIABLE = "BIGJOIN_CACHE_BYTES"
"""How many bytes the cache may have."""
USE_SECONDS = 3600.0
"""How exactly the cache knows when a file was used."""
ASIDE = ".fetched-"
SHARE_OF_DISK = 4
"""Without a limit, the cache has at most the size of its disk, divided by this."""


_T = TypeVar("_T")


class StoreCache:
    """A folder with copies of files."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder, self.limit, self.fetched = folder, limit, 0
        """`fetched` is how many bytes this process has copied from stores."""

    def map(self, key: str, fetch: Callable[[Path], None]) -> StoredFile:
        """Return the file of a key, mapped; `fetch` copies it to a path if it is not here."""
        return self._used(key, fetch, LocalStorage(self.folder).map)

    def link(self, key: str, fetch: Callable[[Path], None], target: Path) -> None:
        """Give the file of a key another name."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            self._used(key, fetch, lambda name: _link(self.folder / name, target))

    def _used(self, key: str, fetch: Callable[[Path], None], use: Callable[[str], _T]) -> _T:
        """Return what becomes of the file of a key, used by its name in the folder; others may make room at any moment."""
        name = _name(key)
        with suppress(FileNotFoundError):
            found = use(name)
            self._note_use(name)
            return found
        with (self.folder / f".lock-{name[:2]}").open("wb") as lock:
            while not take_lock(lock.fileno(), waits=True):
                pass
            aside = self.folder / f"{ASIDE}{name[:2]}"  # the same for whoever has the lock, so that a kill leaves few
            while True:
                with suppress(FileNotFoundError):
                    return use(name)
                try:
                    fetch(aside)
                    self.fetched += aside.stat().st_size
                    self._make_room(aside.stat().st_size)
                    aside.replace(self.folder / name)
                finally:
                    aside.unlink(missing_ok=True)

    def _note_use(self, name: str) -> None:
        """Note that a file is in use; not each time, as what changes its status makes others verify it again."""
        with suppress(OSError):
            if time.time() - (self.folder / name).stat().st_mtime > USE_SECONDS:
                os.utime(self.folder / name)

    def adopt(self, key: str, file: Path) -> None:
        """Take over a file that this process has written, so that it need not be fetched."""
        with suppress(OSError):
            self._make_room(file.stat().st_size)
            aside = self.folder / f".{uuid.uuid4().hex}"
            try:
                _link(file, aside)
                aside.replace(self.folder / _name(key))
            finally:
                aside.unlink(missing_ok=True)

    @property
    def bytes(self) -> int:
        """How many bytes are here."""
        return sum(size for _, size, _ in self._files())

    def _files(self) -> list[tuple[float, int, str]]:
        """Return the time of the last use, the size and the name of every file."""
        found = []
        for entry in os.scandir(self.folder):
            with suppress(FileNotFoundError):
                if not entry.name.startswith("."):
                    status = entry.stat(follow_symlinks=False)
                    found.append((status.st_mtime, status.st_size, entry.name))
        return found

    def _make_room(self, size: int) -> None:
        """Remove what was not used for longest until a file of some size fits."""
        files = self._files()
        left = sum(found for _, found, _ in files) + size - self.limit
        for _, found, name in sorted(files) if left > 0 else ():
            (self.folder / name).unlink(missing_ok=True)
            left -= found
            if left <= 0:
                return


def store_cache() -> StoreCache:
    """Return the cache of this user, in the folder and with the limit that the environment says."""
    return _cache(os.environ.get(CACHE_VARIABLE, ""), os.environ.get(BYTES_VARIABLE, ""))


@cache
def _cache(place: str, limit: str) -> StoreCache:
    folder = private_folder("store")
    if place:
        Path(place).mkdir(parents=True, exist_ok=True)
        folder = made_private(Path(place) / "bigjoin-store")
    if folder is None:
        where = f"{CACHE_VARIABLE}={place}" if place else "the user's cache folder"
        raise OutputError(f"files of stores are kept in {where}, which cannot be written or is not this user's alone")
    if limit and not limit.isdecimal():
        raise SourceError(f"{BYTES_VARIABLE} is {limit!r}: it has to be a number of bytes")
    return StoreCache(folder, int(limit) if limit else shutil.disk_usage(folder).total // SHARE_OF_DISK)


def _link(file: Path, target: Path) -> None:
    """Give a file another name, or copy it to another file system."""
    try:
        os.link(file, target)
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError:
        shutil.copyfile(file, target)


def _name(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
