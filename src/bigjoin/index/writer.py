"""Writing an index: one writer at a time, files in a folder of their own, and a commit that is one rename.

A build writes into `build-<unique>/` and nobody looks there until the manifest names it. A build that is killed leaves its
folder behind; the next writer removes it. The files of the version that a commit replaces stay for a while, for those who
still read it, and are removed by a later writer or by `vacuum`.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from typing import Any

from bigjoin.errors import IndexFormatError, OutputError, reason
from bigjoin.index.directory import Index
from bigjoin.index.manifest import (
    BUILD,
    FORMAT,
    FORMAT_VERSION,
    LOCK,
    MANIFEST,
    check_target,
    is_build,
    read_manifest,
    replace_manifest,
    sync,
)
from bigjoin.index.run import Run, in_threads

LARGE = 1 << 30
"""Bytes beyond which files are sealed where stages run."""
PAUSE = 0.05
"""Seconds between two looks at a lock."""
RETENTION = 3600.0
"""Seconds for which a superseded version is kept when the next one is written."""


class Writer:
    """One build: a folder to write into, and `commit`, which makes it the index."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.identity = uuid.uuid4().hex[:12]
        self.folder = path / f"{BUILD}{self.identity}"

    def commit(
        self,
        content: dict[str, Any],
        run: Run = in_threads,
        *,
        kept: Mapping[str, Any] | None = None,
        retention: float = RETENTION,
    ) -> Index:
        """Seal the files of the build's folder, by `run` if they are large, and replace the manifest.

        `content` is what the build decides of the manifest, and `kept` are files of the current version that stay in use.
        Folders that are not in use any more stay for the seconds of `retention`.
        """
        files = sorted(file for file in self.folder.iterdir() if file.is_file())
        large = sum(file.stat().st_size for file in files) > LARGE
        seals = (run if large else in_threads)(seal, [str(file) for file in files])
        sync(self.folder)
        sealed = {str(file.relative_to(self.path)): entry for file, entry in zip(files, seals, strict=True)}
        sealed = {**(kept or {}), **sealed}
        manifest = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "epoch": 0,
            "origin": self.identity,
            **content,
            "identity": self.identity,
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "files": sealed,
            "superseded": self._superseded({Path(name).parts[0] for name in sealed}, retention),
        }
        replace_manifest(self.path, manifest)
        if not files:
            self.folder.rmdir()
        return Index.open(self.path)

    def _superseded(self, in_use: set[str], retention: float) -> list[dict[str, Any]]:
        """Return the folders that are still here for earlier versions alone, when each was replaced, and how long it stays."""
        try:
            current = read_manifest(self.path)
        except IndexFormatError:
            return []
        older = [entry for entry in current.get("superseded", []) if (self.path / entry["folder"]).is_dir()]
        folders = sorted({Path(name).parts[0] for name in current["files"]} - in_use)
        return [*older, *({"folder": folder, "at": time.time(), "seconds": retention} for folder in folders)]


@contextmanager
def writing(path: Path) -> Iterator[Writer]:
    """Give the only writer of a directory; a build that fails leaves nothing behind."""
    check_target(path)
    created = not path.exists()
    with locked(path):
        check_target(path)
        remove_old(path)
        try:
            with building(path) as writer:
                yield writer
        except BaseException:
            if created and not (path / MANIFEST).exists():
                shutil.rmtree(path, ignore_errors=True)
            raise


@contextmanager
def building(path: Path) -> Iterator[Writer]:
    """Give a writer to who holds the lock already; a build that fails leaves nothing behind."""
    writer = Writer(path)
    try:
        writer.folder.mkdir()
        yield writer
    except BaseException as error:
        if writer.folder.name not in _folders(path):  # an interrupt may come just after the commit
            shutil.rmtree(writer.folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise OutputError(f"the index {path} cannot be written: {reason(error)}") from error
        raise


@contextmanager
def locked(path: Path, *, patience: float = 0.0) -> Iterator[None]:
    """Hold the directory's lock, which ends with the process, however it ends.

    If somebody else holds it, and does so for longer than some seconds of patience, refuse.
    """
    until = time.monotonic() + patience
    while True:
        path.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except FileNotFoundError:  # removed since, by a writer that failed
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 100, 0).decode(errors="replace").strip()
            os.close(descriptor)
            if time.monotonic() < until:
                time.sleep(PAUSE)
                continue
            raise IndexFormatError(
                f"another process{f' ({holder})' if holder else ''} is writing the index {path}: wait until it has finished"
            ) from None
        with suppress(OSError):
            if (path / LOCK).stat().st_ino == os.fstat(descriptor).st_ino:
                break
        os.close(descriptor)
    try:
        with suppress(OSError):  # a full disk: who holds the lock is only for others to read
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {os.uname().nodename}\n".encode(), 0)
        yield
    finally:
        with suppress(OSError):
            os.ftruncate(descriptor, 0)
        os.close(descriptor)


def vacuum(path: Path) -> int:
    """Remove every file that the current version does not need, and return how many bytes that freed."""
    read_manifest(path)
    with locked(path):
        return remove_old(path, retention=0.0)


def remove_old(path: Path, *, retention: float = RETENTION) -> int:
    """Remove what killed builds left, and superseded versions after a while; the caller holds the lock."""
    keep = {name for name, until in _folders(path, retention).items() if until > time.time()}
    if not keep and (path / MANIFEST).exists():
        return 0  # a manifest that cannot be read: what it needs is not known
    freed = 0
    for entry in path.iterdir():
        if is_build(entry.name) and entry.is_dir() and entry.name not in keep:
            freed += sum(file.stat().st_size for file in entry.rglob("*") if file.is_file())
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name.startswith(f".{MANIFEST}."):
            freed += entry.stat().st_size
            entry.unlink(missing_ok=True)
    return freed


def _folders(path: Path, retention: float = RETENTION) -> dict[str, float]:
    """Return the folders that a manifest of any version names, and until when each is kept: those in use always are."""
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        current = {Path(name).parts[0]: inf for name in manifest["files"]}
        older = manifest.get("superseded", [])
        return {entry["folder"]: entry["at"] + min(retention, entry.get("seconds", inf)) for entry in older} | current
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def link(file: Path, target: Path) -> None:
    """Have a file in another place too: files never change, so another name for the same one will do."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, target)
    except OSError:  # another file system
        shutil.copyfile(file, target)


def seal(file: str) -> dict[str, Any]:
    """Make a file durable, and return its size and checksum."""
    path = Path(file)
    sync(path)
    return {"bytes": path.stat().st_size, "sha256": checksum(path)}


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file, as `sha256sum` prints it."""
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def verify(index: Index) -> int:
    """Compare every file with its checksum, then every list with its bounds; return the bytes read. Raise IndexFormatError."""
    names = list(index.manifest["files"])
    for name, found in zip(names, in_threads(checksum, [index.path / name for name in names]), strict=True):
        if found != index.manifest["files"][name]["sha256"]:
            raise index.damaged(f"{name} is not what was written: its checksum differs")
    index.check()
    return index.bytes
