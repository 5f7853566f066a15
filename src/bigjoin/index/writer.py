"""Writing an index: one writer at a time, files in a folder of their own, and a commit that is one rename.

A build writes into `build-<unique>/` and nobody looks there until the manifest names it. A build that is killed leaves its
folder behind; the next writer removes it. The files of the version that a commit replaces stay for a while, for those who
still read it, and are removed by a later writer or by `vacuum`.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from bigjoin.errors import IndexFormatError, OutputError, reason
from bigjoin.index.checksums import file_entry
from bigjoin.index.directory import VERTEX, Index
from bigjoin.index.entries import BUILD, FileEntry, Manifest, SupersededEntry, is_build
from bigjoin.index.inside import open_inside
from bigjoin.index.manifest import LOCK, MANIFEST, check_target, read_manifest, replace_manifest, sync
from bigjoin.index.run import Run, in_threads
from bigjoin.index.trust import note_sealed, verify_all, verify_degrees
from bigjoin.index.typed_json import from_json, to_json
from bigjoin.index.versions import versions_of

LARGE = 1 << 30
"""Bytes beyond which files are sealed where stages run."""
PAUSE = 0.05
"""Seconds between two looks at a lock."""
HOLDER = 100
"""Bytes of a lock: who holds it."""
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
        manifest: Manifest,
        run: Run = in_threads,
        *,
        kept: Mapping[str, FileEntry] | None = None,
        retention: float = RETENTION,
        verified: bool = True,
    ) -> Index:
        """Seal the files of the build's folder, by `run` if they are large, and replace the manifest.

        `manifest` has what the build decides, and `kept` are files of the current version that stay in use. Folders that are
        not in use any more stay for the seconds of `retention`. `verified` says whether the files were made of what was:
        the index that is returned trusts files, or verifies them, as the one did that it was made of.
        """
        files = sorted(file for file in self.folder.iterdir() if file.is_file())
        large = sum(file.stat().st_size for file in files) > LARGE
        seals = (run if large else in_threads)(seal, [str(file) for file in files])
        sync(self.folder)
        sealed = {
            str(file.relative_to(self.path)): from_json(FileEntry, entry) for file, entry in zip(files, seals, strict=True)
        }
        every = {**(kept or {}), **sealed}
        committed = replace(
            manifest,
            origin=manifest.origin or self.identity,
            identity=self.identity,
            created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            files=every,
            superseded=self._superseded({Path(name).parts[0] for name in every}, retention),
        )
        replace_manifest(self.path, committed)
        if not files:
            self.folder.rmdir()
        index = Index.open(self.path, verify=verified)
        if verified:
            note_sealed(index, sealed)
        return index

    def _superseded(self, in_use: set[str], retention: float) -> tuple[SupersededEntry, ...]:
        """Return the folders that are still here for earlier versions alone, when each was replaced, and how long it stays."""
        try:
            current = read_manifest(self.path)
        except IndexFormatError:
            return ()
        older = [entry for entry in current.superseded if (self.path / entry.folder).is_dir()]
        folders = sorted({Path(name).parts[0] for name in current.files} - in_use)
        return (*older, *(SupersededEntry(folder, time.time(), retention) for folder in folders))


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
        try:
            path.mkdir(parents=True, exist_ok=True)
            descriptor = open_inside(path, LOCK, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:  # removed since, by a writer that failed
            continue
        except OSError as error:
            raise OutputError(f"the index {path} cannot be locked for writing: {reason(error)}") from None
        try:
            _check_lock(path, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, HOLDER, 0).decode(errors="replace").strip()
            os.close(descriptor)
            if time.monotonic() < until:
                time.sleep(PAUSE)
                continue
            raise IndexFormatError(
                f"another process{f' ({holder})' if holder else ''} is writing the index {path}: wait until it has finished"
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        with suppress(OSError):
            if (path / LOCK).lstat().st_ino == os.fstat(descriptor).st_ino:
                break
        os.close(descriptor)
    try:
        _say(descriptor, f"process {os.getpid()} on {os.uname().nodename}")
        yield
    finally:
        _say(descriptor, "")
        os.close(descriptor)


def _check_lock(path: Path, descriptor: int) -> None:
    """Refuse a lock that is another name of some other file, or that somebody keeps something in."""
    found = os.fstat(descriptor)
    if found.st_nlink > 1 or found.st_size > HOLDER:
        raise IndexFormatError(f"{path / LOCK} is no lock of ours: it has other names, or something in it; remove it")


def _say(descriptor: int, holder: str) -> None:
    """Say in the lock who holds it, for others to read; blanks take the place of what was there, so nothing is ever cut off."""
    with suppress(OSError):  # a full disk
        os.pwrite(descriptor, holder[: HOLDER - 1].ljust(HOLDER - 1).encode()[: HOLDER - 1] + b"\n", 0)


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
        if is_build(entry.name) and entry.name not in keep:
            freed += _remove(entry)
        elif entry.name.startswith(f".{MANIFEST}.") and (entry.is_symlink() or entry.is_file()):
            freed += entry.lstat().st_size
            entry.unlink(missing_ok=True)
    return freed


def _remove(folder: Path) -> int:
    """Remove what has the name of a build, and return how many bytes that freed; a link goes, and not what it leads to."""
    if folder.is_symlink() or not folder.is_dir():
        folder.unlink(missing_ok=True)
        return 0
    freed = sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())
    shutil.rmtree(folder, ignore_errors=True)
    return freed


def _folders(path: Path, retention: float = RETENTION) -> dict[str, float]:
    """Return the folders that the manifest names, and until when each is kept: those in use always are."""
    try:
        manifest = read_manifest(path)
    except (IndexFormatError, OSError):
        return {}
    older = {entry.folder: entry.at + min(retention, entry.seconds) for entry in manifest.superseded}
    return older | {Path(name).parts[0]: inf for name in manifest.files}


def link(file: Path, target: Path) -> None:
    """Have a file in another place too: files never change, so another name for the same one will do."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, target)
    except OSError:  # another file system
        shutil.copyfile(file, target)


def seal(file: str) -> dict[str, Any]:
    """Make a file durable, and return its entry in the manifest."""
    sync(Path(file))
    entry: dict[str, Any] = to_json(file_entry(Path(file)))
    return entry


def verify(index: Index) -> int:
    """Compare every file with its checksum, then everything in it with what it has to be; return the bytes read."""
    verify_all(index, again=True)
    if VERTEX in index.manifest.domains:
        verify_degrees(index, VERTEX)
    if index.runs:
        versions_of(index, index.runs)
    return index.bytes
