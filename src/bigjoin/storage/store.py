"""Storage on a store of objects, such as S3, which fsspec opens. Objects have no names to change and cannot grow.

So a commit creates the next number of a name exclusively (`manifest-00000000000000000007.json`), and the highest number is the
current one: of two writers, one is refused. What is written lies in a draft, a local folder, until `sync` puts it on the store.
What is read is mapped from a copy in the local cache (`store_cache.py`). No lock is held: nobody could release it for a machine
that is gone.
"""

from __future__ import annotations

import errno
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import xxhash

from bigjoin.errors import OutputError, first_line
from bigjoin.storage.interface import Current, FileStatus, Storage, StoredFile, TakenError
from bigjoin.storage.local import LocalStorage
from bigjoin.storage.place import Place
from bigjoin.storage.scratch import scratch_directory
from bigjoin.storage.store_cache import store_cache

NUMBER_DIGITS = 20
"""The digits of a number in a name: with leading zeros, so that names sort like numbers."""
EARLIER_KEPT = 64
"""How many earlier contents of a name are kept, for readers who have just found out which is the last."""
_CREATES_EXCLUSIVELY = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "memory")
"""Stores that create an object only if there is none of that name."""
_RENAMES_EXCLUSIVELY = ("hdfs_native",)
"""Clients that refuse to rename onto a name that is taken; those of other file systems replace what is there, or do nothing."""
_TIMES = ("LastModified", "last_modified", "mtime", "created", "modification_time")
"""What clients call the time at which a file was written: a datetime, or seconds since 1970, or for HDFS milliseconds."""
_MILLISECONDS = "modification_time"
PIECE_BYTES = 1 << 22
"""Large objects are fetched in pieces of this size, which is several times as fast as one after another."""
PIECES_AT_ONCE = 16

_T = TypeVar("_T")


@dataclass(frozen=True)
class StoreStorage:
    """Everything below a URL."""

    root: Place
    _drafts: dict[str, Path] = field(default_factory=dict, compare=False, repr=False)
    """By name: folders of this process, which are local until they are synced."""
    _put: set[str] = field(default_factory=set, compare=False, repr=False)
    """The files of drafts that are on the store."""

    @property
    def is_store(self) -> bool:
        return True

    @property
    def _opened(self) -> Any:
        """The root as what it is, a UPath."""
        return self.root

    def address(self, name: str) -> str:
        return str(self.root / name)

    def exists(self, name: str) -> bool:
        if (draft := self._draft(name)) is not None:
            return draft.exists(name)
        return bool(self._asked(name, lambda fs, path: fs.exists(path))) or self._newest(name) is not None

    def is_folder(self, name: str = "") -> bool:
        return name in self._drafts or bool(self._asked(name, lambda fs, path: fs.isdir(path)))

    def status(self, name: str) -> FileStatus:
        if (draft := self._draft(name)) is not None:
            return draft.status(name)
        try:
            return _status(self._asked(name, lambda fs, path: fs.info(path)))
        except FileNotFoundError:
            if (newest := self._newest(name)) is None:
                raise
            return self.status(newest[1])

    def list(self, folder: str = "") -> dict[str, FileStatus]:
        found = {}
        with suppress(FileNotFoundError):
            for entry in self._asked(folder, lambda fs, path: fs.ls(path, detail=True)):
                name = entry["name"].rstrip("/").rpartition("/")[2]
                if name and not (entry["type"] == "directory" and entry["name"].strip("/") == self._path(folder).strip("/")):
                    found[name] = _status(entry)
        if (draft := self._draft(folder)) is not None:
            found |= draft.list(folder)
        return dict(sorted(found.items()))

    def sizes(self, names: set[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for folder in {name.rpartition("/")[0] for name in names}:
            found |= {f"{folder}/{file}": status.bytes for file, status in self.list(folder).items()}
        return {name: size for name, size in found.items() if name in names}

    def read(self, name: str, first: int = 0, last: int | None = None) -> bytes:
        if (draft := self._draft(name)) is not None:
            return draft.read(name, first, last)
        begin = first or None  # an empty object has no range of bytes
        return bytes(self._asked(name, lambda fs, path: fs.cat_file(path, start=begin, end=last)))

    def map(self, name: str, checksum: str | None = None) -> StoredFile:
        if (draft := self._draft(name)) is not None:
            return draft.map(name)
        return store_cache().map(self._key(name, checksum), partial(self.copy_to, name))

    def keep(self, name: str, checksum: str | None = None) -> None:
        if (draft := self._draft(name)) is not None:
            store_cache().adopt(self._key(name, checksum), draft.root / name)

    def _key(self, name: str, checksum: str | None) -> str:
        """Return the key of a file in the cache; without a checksum, its name, as files have names of their own."""
        return self.address(name) if checksum is None else f"{self.address(name)} {checksum}"

    def lay_beside(self, name: str, files: Mapping[str, str]) -> None:
        for file, checksum in files.items():
            store_cache().link(self._key(file, checksum), partial(self.copy_to, file), self._drafts[name] / file)

    def release(self, name: str) -> None:
        if (draft := self._drafts.pop(name, None)) is not None:
            LocalStorage(draft).remove("")
            self._put.difference_update({put for put in self._put if put.startswith(f"{name}/")})

    def put(self, name: str, file: Path) -> None:
        self._asked(name, lambda fs, path: fs.put_file(str(file), path))

    def copy_to(self, name: str, file: Path) -> None:
        size = self.status(name).bytes
        with file.open("wb") as sink:
            for first in range(0, size, PIECES_AT_ONCE * PIECE_BYTES):
                begins = list(range(first, min(size, first + PIECES_AT_ONCE * PIECE_BYTES), PIECE_BYTES))
                ends = [min(size, begin + PIECE_BYTES) for begin in begins]
                for piece in self._asked(name, partial(_pieces, begins, ends)):
                    sink.write(piece)

    def create_folder(self, name: str) -> Path:
        root = scratch_directory("draft")
        self._drafts[name] = root
        return LocalStorage(root).create_folder(name)

    def sync(self, name: str = "") -> None:
        if (draft := self._draft(name)) is None or name in self._put:
            return
        if draft.is_folder(name):
            for file, status in draft.list(name).items():
                if status.kind != "other":
                    self.sync(f"{name}/{file}")
            return
        self.put(name, draft.root / name)
        self._put.add(name)

    def publish(self, name: str, content: bytes) -> None:
        if self._client not in _RENAMES_EXCLUSIVELY:
            self._asked(name, lambda fs, path: fs.pipe_file(path, content))
            return
        with self._written_aside(name, content) as aside:  # there, a file can be seen while it is written
            self._asked(name, lambda fs, path: fs.mv(aside, path, overwrite=True))

    def create(self, name: str, content: bytes) -> None:
        protocol, client = self._opened.protocol, self._client
        try:
            if protocol in _CREATES_EXCLUSIVELY:
                self._asked(name, lambda fs, path: fs.pipe_file(path, content, mode="create"))
            elif client in _RENAMES_EXCLUSIVELY:
                with self._written_aside(name, content) as aside:
                    self._asked(name, lambda fs, path: fs.mv(aside, path))
            else:
                raise OutputError(
                    f"{self.address(name)} cannot be written: {protocol}:// through {client} does not tell whether another "
                    'writer was first; use S3, Google or Azure storage, or HDFS by pip install "bigjoin[hdfs]"'
                )
        except OSError as error:  # stores have several ways to say that a name is taken
            if isinstance(error, FileExistsError) or not self.exists(name):
                raise
            raise FileExistsError(errno.EEXIST, "it exists", self.address(name)) from None

    def current(self, name: str) -> Current:
        for _ in range(2):  # the object may be gone by the time it is read, with newer ones in its place
            if (newest := self._newest(name)) is None:
                break
            with suppress(FileNotFoundError):
                return Current(self.read(newest[1]), newest[0])
        raise FileNotFoundError(errno.ENOENT, "there is none", self.address(name))

    def commit(self, name: str, content: bytes, after: int) -> int:
        number = after + 1
        numbered = _numbered(name, number)
        try:
            self.create(numbered, content)
        except FileExistsError:
            if self.read(numbered) != content:  # if it is ours, the answer to an earlier attempt was lost
                raise TakenError from None
        newest = self._newest(name)
        if newest is not None and newest[0] > number + EARLIER_KEPT:  # that number was free as its content was removed
            self.remove(numbered)
            raise TakenError
        return number

    def outdated(self, name: str) -> Sequence[str]:
        return [found for _, found in self._all(name)][: -1 - EARLIER_KEPT]

    def write_from(self, name: str, position: int, content: bytes, *, sync: bool = True) -> None:
        if (draft := self._draft(name)) is not None:
            draft.write_from(name, position, content, sync=sync)
            return
        assert not position, "objects cannot grow"
        self.publish(name, content)

    def move(self, name: str, target: str) -> None:
        self.sync(name)
        for found in self._files(name):
            moved = target + found.removeprefix(self._path(name))
            with suppress(FileNotFoundError):  # another process moves the same, and was quicker
                if self._client in _RENAMES_EXCLUSIVELY:
                    self._rename(found, moved)
                else:
                    self._asked(moved, partial(_copy, found))
        self.remove(name)

    def adopt(self, name: str, source: Storage, source_name: str) -> None:
        self.put(name, source.root / source_name)

    def size(self, name: str) -> int:
        with suppress(FileNotFoundError):
            return int(self._asked(name, lambda fs, path: fs.du(path)))
        return 0

    def age(self, name: str) -> float:
        """Return the seconds since a file, or the youngest one in a folder, was written."""
        with suppress(FileNotFoundError):
            found = self._asked(name, lambda fs, path: fs.find(path, detail=True)).values()
            return min((time.time() - _written_at(one) for one in found), default=0.0)
        return 0.0

    def remove(self, name: str) -> int:
        if name in self._drafts:
            self.release(name)
        elif (draft := self._draft(name)) is not None:
            draft.remove(name)
            self._put.discard(name)
        freed = self.size(name)
        with suppress(FileNotFoundError):
            self._asked(name, lambda fs, path: fs.rm(path, recursive=True))
        return freed

    @contextmanager
    def locked(self, name: str, *, patience: float = 0.0) -> Iterator[None]:
        del name, patience
        yield

    def _draft(self, name: str) -> LocalStorage | None:
        """Return where a name lies if it is, or lies in, a draft."""
        parts = name.split("/")
        for depth in range(len(parts), 0, -1):
            if (root := self._drafts.get("/".join(parts[:depth]))) is not None:
                return LocalStorage(root)
        return None

    def _all(self, name: str) -> Sequence[tuple[int, str]]:
        """Return the numbers, and the names with them, that commits have given a name; the newest last."""
        stem, _, suffix = name.rpartition(".")
        folder, _, stem = stem.rpartition("/")
        pattern = re.compile(rf"{re.escape(stem)}-(\d{{{NUMBER_DIGITS}}})\.{re.escape(suffix)}")
        found = (pattern.fullmatch(file) for file in self.list(folder))
        return sorted((int(one[1]), f"{folder}/{one[0]}" if folder else one[0]) for one in found if one is not None)

    def _newest(self, name: str) -> tuple[int, str] | None:
        found = self._all(name) if "." in name else []
        return found[-1] if found else None

    @contextmanager
    def _written_aside(self, name: str, content: bytes) -> Iterator[str]:
        """Give the path of a hidden file with a content, in the folder of a name; it is removed if it is still there."""
        folder, _, file = name.rpartition("/")
        aside = f"{folder}/.{file}.{uuid.uuid4().hex}".lstrip("/")
        try:
            self._asked(aside, lambda fs, path: fs.pipe_file(path, content))
            yield self._path(aside)
        finally:
            with suppress(OSError):
                self._asked(aside, lambda fs, path: fs.rm_file(path))

    def _rename(self, path: str, target: str) -> None:
        """Give a file its name in another folder, unless a process that does the same has done it."""
        self._asked(target.rpartition("/")[0], lambda fs, folder: fs.makedirs(folder, exist_ok=True))
        with suppress(FileExistsError):
            self._asked(target, lambda fs, moved: fs.mv(path, moved))

    @property
    def _client(self) -> str:
        """The package that opens the store."""
        return type(self._opened.fs).__module__.partition(".")[0]

    def _files(self, name: str) -> Sequence[str]:
        with suppress(FileNotFoundError):
            return sorted(self._asked(name, lambda fs, path: fs.find(path)))
        return []

    def _path(self, name: str) -> str:
        return f"{self._opened.path.rstrip('/')}/{name}" if name else self._opened.path.rstrip("/")

    def _asked(self, name: str, ask: Callable[[Any, str], _T]) -> _T:
        """Return what the store answers; raise OSError for whatever its client raises."""
        try:
            fs = self._opened.fs
            fs.invalidate_cache()
            return ask(fs, self._path(name))
        except OSError as error:
            if isinstance(error, FileNotFoundError | FileExistsError):
                raise
            raise OSError(error.errno or errno.EIO, error.strerror or first_line(error), self.address(name)) from None
        except Exception as error:  # each client has errors of its own
            raise OSError(errno.EIO, first_line(error), self.address(name)) from None


def _pieces(begins: Sequence[int], ends: Sequence[int], fs: Any, path: str) -> Sequence[bytes]:
    return cast("Sequence[bytes]", fs.cat_ranges([path] * len(begins), begins, ends, on_error="raise"))


def _copy(path: str, fs: Any, target: str) -> None:
    fs.copy(path, target)


def _written_at(entry: Mapping[str, Any]) -> float:
    """Return when a file was written, in seconds since 1970; now, if its store does not say."""
    for name in _TIMES:
        if isinstance(told := entry.get(name), datetime):
            return told.timestamp()
        if isinstance(told, int | float):
            return told / 1000 if name == _MILLISECONDS else told
    return time.time()


def _numbered(name: str, number: int) -> str:
    stem, _, suffix = name.rpartition(".")
    return f"{stem}-{number:0{NUMBER_DIGITS}}.{suffix}"


def _status(entry: Mapping[str, Any]) -> FileStatus:
    kind = "folder" if entry["type"] == "directory" else "file"
    told = [entry.get(name) for name in ("name", "ETag", "etag", "generation", *_TIMES)]
    version = xxhash.xxh3_64_intdigest(repr(told).encode())
    return FileStatus(kind, int(entry.get("size") or 0), (int(entry.get("size") or 0), version))  # type: ignore[arg-type]
