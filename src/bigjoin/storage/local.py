"""Storage in the local file system. Nothing below the root is opened through links; the root itself may be one.

A link could lead a reader to a pipe, or a writer to a file outside the root.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from bigjoin.errors import IndexFormatError
from bigjoin.storage.interface import Current, FileStatus, LockHeldError, Storage, StoredFile

LOCK_RETRY_SECONDS = 0.05
"""The time between two attempts to take a lock."""
LOCK_BYTES = 100
"""The size of a lock file, which names the process that holds the lock."""


class MappedBytes(np.ndarray[Any, Any]):
    """The mapped pages of a file, or a part of them, with the name of the file so that it can be mapped again."""

    filename: str | None = None

    def __array_finalize__(self, other: Any) -> None:
        self.filename = getattr(other, "filename", None)


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """A directory."""

    root: Path

    @property
    def is_store(self) -> bool:
        return False

    def address(self, name: str) -> str:
        return str(self.root.resolve() / name)

    def exists(self, name: str) -> bool:
        return os.path.lexists(self.root / name)

    def is_folder(self, name: str = "") -> bool:
        return (self.root / name).is_dir() and not (name and (self.root / name).is_symlink())

    def status(self, name: str) -> FileStatus:
        return _status(os.lstat(f"{self.root}/{name}"))

    def list(self, folder: str = "") -> dict[str, FileStatus]:
        found = {}
        with os.scandir(self.root / folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # another process may remove it
                    found[entry.name] = _status(entry.stat(follow_symlinks=False))
        return dict(sorted(found.items()))

    def sizes(self, names: set[str]) -> dict[str, int]:
        found = {}
        for name in names:
            with suppress(OSError):
                found[name] = self.status(name).bytes
        return found

    def read(self, name: str, first: int = 0, last: int | None = None) -> bytes:
        with self._open(name) as source:
            source.seek(first)
            return source.read(-1 if last is None else max(0, last - first))

    def map(self, name: str, checksum: str | None = None) -> StoredFile:
        del checksum  # of what a store would copy
        # Arrow maps the file because each of Python's own maps keeps a descriptor open, and an index may have too many files.
        with self._open(name) as source:
            found = _status(os.fstat(source.fileno()))
            if not found.bytes:
                return StoredFile(np.empty(0, np.uint8), found)
            with pa.memory_map(f"/dev/fd/{source.fileno()}") as pages:
                mapped = np.frombuffer(pages.read_buffer(), np.uint8).view(MappedBytes)
            mapped.filename = str(self.root / name)
            return StoredFile(mapped, found)

    def keep(self, name: str, checksum: str | None = None) -> None:
        pass

    def lay_beside(self, name: str, files: Mapping[str, str]) -> None:
        pass

    def release(self, name: str) -> None:
        pass

    def put(self, name: str, file: Path) -> None:
        shutil.copyfile(file, self.root / name)

    def copy_to(self, name: str, file: Path) -> None:
        shutil.copyfile(self.root / name, file)

    def create_folder(self, name: str) -> Path:
        folder = self.root / name
        folder.mkdir(parents=True)
        return folder

    def sync(self, name: str = "") -> None:
        descriptor = os.open(self.root / name, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def publish(self, name: str, content: bytes) -> None:
        draft = f".{name}.{uuid.uuid4().hex[:12]}"
        with self._open(draft, "wb", os.O_WRONLY | os.O_CREAT | os.O_EXCL) as sink:
            sink.write(content)
        self.sync(draft)
        (self.root / draft).replace(self.root / name)
        self.sync()

    def create(self, name: str, content: bytes) -> None:
        if self.exists(name):  # locks keep writers apart
            raise FileExistsError(errno.EEXIST, "it exists", self.address(name))
        self.publish(name, content)

    def current(self, name: str) -> Current:
        return Current(self.read(name), 0)

    def commit(self, name: str, content: bytes, after: int) -> int:
        del after  # the lock keeps writers apart
        self.publish(name, content)
        return 0

    def outdated(self, name: str) -> Sequence[str]:
        del name  # was replaced
        return []

    def age(self, name: str) -> float:
        return max(0.0, time.time() - (self.root / name).lstat().st_mtime)

    def write_from(self, name: str, position: int, content: bytes, *, sync: bool = True) -> None:
        descriptor = self._descriptor(name, os.O_RDWR | os.O_CREAT)
        try:
            if os.fstat(descriptor).st_size != position:
                os.ftruncate(descriptor, position)
            if os.pwrite(descriptor, content, position) < len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if sync:
                getattr(os, "fdatasync", os.fsync)(descriptor)  # with the size, but without the times
        finally:
            os.close(descriptor)

    def move(self, name: str, target: str) -> None:
        (self.root / target).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).rename(self.root / target)

    def adopt(self, name: str, source: Storage, source_name: str) -> None:
        target = self.root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(source, LocalStorage):
            with suppress(OSError):  # another file system
                os.link(source.root / source_name, target)
                return
        source.copy_to(source_name, target)

    def size(self, name: str) -> int:
        path, size = self.root / name, 0
        inside = (
            [Path(folder, file) for folder, _, files in os.walk(path) for file in files] if self.is_folder(name) else [path]
        )
        for file in inside:
            with suppress(FileNotFoundError):  # another process may remove the same
                size += file.lstat().st_size
        return size

    def remove(self, name: str) -> int:
        path, freed = self.root / name, self.size(name)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        return freed

    @contextmanager
    def locked(self, name: str, *, patience: float = 0.0) -> Iterator[None]:
        until = time.monotonic() + patience
        while True:
            try:
                self.root.mkdir(parents=True, exist_ok=True)
                lock = self._open(name, "r+b", os.O_RDWR | os.O_CREAT)
            except FileNotFoundError:  # another writer failed and has just removed the root
                continue
            with lock:
                descriptor, found = lock.fileno(), os.fstat(lock.fileno())
                if found.st_nlink > 1 or found.st_size > LOCK_BYTES:
                    raise IndexFormatError(
                        f"{self.root / name} is not a lock of bigjoin: it has other names or other content; remove it"
                    )
                if not take_lock(descriptor):
                    if time.monotonic() >= until:
                        raise LockHeldError(os.pread(descriptor, LOCK_BYTES, 0).decode(errors="replace").strip())
                    time.sleep(LOCK_RETRY_SECONDS)
                elif self._leads_to(name, found):  # the file may have been removed before it was locked
                    try:
                        _name_holder(descriptor, f"process {os.getpid()} on {os.uname().nodename}")
                        yield
                    finally:
                        _name_holder(descriptor, "")
                    return

    def _open(self, name: str, mode: str = "rb", flags: int = os.O_RDONLY) -> BinaryIO:
        """Open a regular file below the root, as `_descriptor` does."""
        return os.fdopen(self._descriptor(name, flags), mode)  # type: ignore[return-value]

    def _descriptor(self, name: str, flags: int) -> int:
        """Open a regular file below the root; raise IndexFormatError if the name is, or leads through, anything else."""
        *folders, file = PurePosixPath(name).parts
        at = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for folder in folders:
                below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
                os.close(at)
                at = below
            descriptor = os.open(file, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644, dir_fd=at)
        except OSError as error:
            if not isinstance(error, FileNotFoundError) and self._has_link(name):
                raise self._refused(name, "is a link") from None
            raise
        finally:
            os.close(at)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise self._refused(name, "is not a regular file")
        return descriptor

    def _has_link(self, name: str) -> bool:
        parts = PurePosixPath(name).parts
        return any(self.root.joinpath(*parts[: depth + 1]).is_symlink() for depth in range(len(parts)))

    def _refused(self, name: str, what: str) -> IndexFormatError:
        return IndexFormatError(f"{self.root / name} {what}: nothing inside an index is opened through links; remove it")

    def _leads_to(self, name: str, opened: os.stat_result) -> bool:
        with suppress(OSError):
            return os.path.samestat((self.root / name).lstat(), opened)
        return False


def take_lock(descriptor: int, *, waits: bool = False) -> bool:
    """Lock an opened file for as long as it stays open; return whether no other process holds the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _name_holder(descriptor: int, holder: str) -> None:
    """Write into a lock file which process holds it, padded to a fixed length so that the file never shrinks."""
    with suppress(OSError):  # a full disk
        os.pwrite(descriptor, holder[: LOCK_BYTES - 1].ljust(LOCK_BYTES - 1).encode()[: LOCK_BYTES - 1] + b"\n", 0)


def _status(found: os.stat_result) -> FileStatus:
    is_file, is_folder = stat.S_ISREG(found.st_mode), stat.S_ISDIR(found.st_mode)
    version = (found.st_dev, found.st_ino, found.st_size, found.st_ctime_ns)
    return FileStatus("file" if is_file else "folder" if is_folder else "other", found.st_size, version)
