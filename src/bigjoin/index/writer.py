"""Writing an index: one writer at a time, new files in a folder of their own, and a commit that replaces one file.

A build writes into `build-<unique>/`, which no reader looks at until the manifest names it. A build that is killed leaves its
folder behind, and the next writer removes it. The files of a version that a commit replaces stay for a while, for those who
still read it, and are removed by a later writer or by `vacuum`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from math import inf

from bigjoin.errors import IndexFormatError, OutputError, reason
from bigjoin.index.checksums import file_entry
from bigjoin.index.directory import VERTEX, Index
from bigjoin.index.kept import KEPT_MANIFEST, KeptVersions, needed_by, still_needed
from bigjoin.index.manifest_entries import BUILD_PREFIX, FileEntry, KeptEntry, Manifest, SupersededEntry, is_build
from bigjoin.index.manifest_file import (
    LOCK,
    MANIFEST,
    STEM,
    UnreadableIndexError,
    check_target,
    current_number,
    manifest_without_log,
    read_manifest,
    replace_manifest,
)
from bigjoin.index.stage_runner import StageRunner, in_threads
from bigjoin.index.trust import note_sealed, verify_all, verify_degrees
from bigjoin.index.versions import versions_of
from bigjoin.storage import LockHeldError, Place, Storage, storage_at

MAX_BYTES_SEALED_HERE = 1 << 30
"""Larger builds are sealed by the runner that executed their stages."""
RETENTION_SECONDS = 3600.0
"""How long a superseded version stays for those who still read it."""
ABANDONED_SECONDS = 86_400.0
"""On a store, where nobody holds a lock, a build that was not committed for so long is taken to be abandoned."""


class Writer:
    """One build: a folder to write into, and `commit`, which makes the build the index."""

    def __init__(self, path: Place) -> None:
        self.path, self.storage = path, storage_at(path)
        self.after = current_number(path) if self.storage.is_store else None
        """On a store, the number of the version that was the last when the build began."""
        self.identity = uuid.uuid4().hex[:12]
        self.folder = self.storage.create_folder(f"{BUILD_PREFIX}{self.identity}")

    def commit(
        self,
        manifest: Manifest,
        run: StageRunner = in_threads,
        *,
        kept: Mapping[str, FileEntry] | None = None,
        retention: float = RETENTION_SECONDS,
        verified: bool = True,
        log: str | None = None,
    ) -> Index:
        """Seal the files of the build, replace the manifest, and return the index that was committed.

        `manifest` holds what the build decided, and `kept` the files of the current version that stay in use. Folders that are
        no longer in use stay for `retention` seconds. `verified` says whether the build read verified files only; if it did
        not, the new files are not verified either. `log` is the name of the log that further epochs are appended to.
        """
        assert all(entry.offset is None for entry in (kept or {}).values()), "what lies in a log is written anew"
        name, earlier = self.folder.name, self._kept(manifest)
        if log is not None:
            self.storage.write_from(log, 0, b"")
        files = {f"{name}/{file}": found.bytes for file, found in self.storage.list(name).items() if found.kind == "file"}
        for other in (log, *(entry.manifest for entry in earlier)):
            files.pop(other or "", None)
        seals = (run if sum(files.values()) > MAX_BYTES_SEALED_HERE else in_threads)(Seal(self.storage), list(files))
        self.storage.sync(name)
        self.storage.sync()  # the name of the folder: the manifest could reach the disk without it
        sealed: dict[str, FileEntry] = dict(zip(files, seals, strict=True))
        for file, entry in sealed.items():
            self.storage.keep(file, entry.checksum)
        self.storage.release(name)
        committed = replace(
            manifest,
            number=self.after if manifest.number is None else manifest.number,
            origin=manifest.origin or self.identity,
            identity=self.identity,
            created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            files={**(kept or {}), **sealed},
            log=log,
            kept=earlier,
        )
        committed = replace_manifest(self.path, replace(committed, superseded=self._superseded(committed, retention)))
        if name not in committed.all_folders:
            self.storage.remove(name)
        index = Index.of(self.path, committed, verify=verified)  # on a store, somebody may have written a later one by now
        if verified:
            note_sealed(index, sealed)
        return index

    def _kept(self, manifest: Manifest) -> tuple[KeptEntry, ...]:
        """Return the versions before this one that its last epochs need, after writing a copy of the current manifest."""
        begun = _current(self.path)
        if begun is None or not manifest.keep_epochs or manifest.origin != begun.origin:
            return ()
        last = read_manifest(self.path).epoch
        if begun.log is not None:
            self.storage.sync(begun.log)  # perhaps nobody did
        name = f"{self.folder.name}/{KEPT_MANIFEST}"
        self.storage.write_from(name, 0, self.storage.current(MANIFEST).content)
        folders = tuple(sorted({*begun.folders, self.folder.name}))
        entry = KeptEntry(name, Seal(self.storage)(name), (begun.epoch, last), folders)
        return still_needed((*begun.kept, entry), manifest.keep_epochs, next_epoch=manifest.epoch, last=manifest.epoch)

    def _superseded(self, committed: Manifest, retention: float) -> tuple[SupersededEntry, ...]:
        """Return the folders that only earlier versions need."""
        if (current := _current(self.path)) is None:
            return ()
        older = [entry for entry in current.superseded if self.storage.is_folder(entry.folder)]
        new = sorted(folder for folder in current.all_folders - committed.all_folders if self.storage.is_folder(folder))
        return (*older, *(SupersededEntry(folder, time.time(), retention) for folder in new))


@dataclass(frozen=True)
class Seal:
    """Stage: make a file durable, and return its entry in the manifest."""

    storage: Storage

    def __call__(self, name: str) -> FileEntry:
        self.storage.sync(name)
        return file_entry(self.storage.map(name).content)


@contextmanager
def writing(path: Place) -> Iterator[Writer]:
    """Lock a directory and yield its writer; a build that fails leaves nothing behind."""
    storage = storage_at(path)
    check_target(path)
    is_new = not storage.is_folder()
    with locked(path):
        check_target(path)
        remove_old(path)
        try:
            with building(path) as writer:
                yield writer
        except BaseException:
            if is_new and not storage.is_store and not storage.exists(MANIFEST):
                storage.remove("")
            raise


@contextmanager
def building(path: Place) -> Iterator[Writer]:
    """Yield a writer to a caller who holds the lock; a build that fails leaves nothing behind."""
    writer = None
    try:
        writer = Writer(path)
        yield writer
    except BaseException as error:
        if writer is not None:
            with suppress(IndexFormatError, OSError):  # if nobody can tell what was committed, nothing is removed
                if writer.folder.name not in _folders(path):  # an interrupt may come just after the commit
                    writer.storage.remove(writer.folder.name)
            writer.storage.release(writer.folder.name)
        if isinstance(error, OSError):
            raise OutputError(f"the index {path} cannot be written: {reason(error)}") from error
        raise


@contextmanager
def locked(path: Place, *, patience: float = 0.0) -> Iterator[None]:
    """Hold the lock of a directory; raise IndexFormatError if another process holds it for longer than `patience` seconds."""
    with ExitStack() as held:
        try:
            held.enter_context(storage_at(path).locked(LOCK, patience=patience))
        except LockHeldError as error:
            holder = f" ({error})" if str(error) else ""
            raise IndexFormatError(f"another process{holder} is writing the index {path}: wait until it has finished") from None
        except OSError as error:
            raise OutputError(f"the index {path} cannot be locked for writing: {reason(error)}") from None
        yield


def vacuum(path: Place) -> int:
    """Remove every file that the current version does not need, and return how many bytes that freed."""
    read_manifest(path)
    with locked(path):
        newest = read_manifest(path)
        if newest.log is not None and newest.kept:
            storage_at(path).sync(newest.log)  # so that its last epoch cannot be lost, by which the oldest is counted
        return remove_old(path, retention=0.0, last=newest.epoch)


def remove_old(path: Place, *, retention: float = RETENTION_SECONDS, last: int | None = None) -> int:
    """Remove what killed builds have left, and superseded versions that have expired; the caller holds the lock.

    `last` is the last epoch, if earlier ones are to be given up that are kept until the manifest is replaced.
    """
    storage = storage_at(path)
    return sum(storage.remove(name) for name in _not_needed(path, retention, last))


def freeable(path: Place, *, builds: bool = True) -> int:
    """Return how many bytes a vacuum would free now, without or with folders that no version names: builds in progress.

    It needs no lock: what others remove meanwhile counts or does not.
    """
    begun, storage, last = _current(path), storage_at(path), read_manifest(path).epoch
    named = set() if begun is None else {*begun.all_folders, *(entry.folder for entry in begun.superseded)}
    return sum(storage.size(name) for name in _not_needed(path, 0.0, last) if builds or name in named)


def _not_needed(path: Place, retention: float, last: int | None = None) -> list[str]:
    """Return the files and folders that no version needs, or none that is younger than `retention` seconds."""
    storage, now = storage_at(path), time.time()
    kept_until = _folders(path, retention, last)
    if not kept_until and storage.exists(MANIFEST):
        return []  # the manifest cannot be read, so nobody knows what it needs
    found = [*storage.outdated(MANIFEST)]
    for name, status in storage.list().items():
        is_draft = name.startswith((f".{MANIFEST}.", f".{STEM}-")) and status.kind != "folder"
        if is_draft or (is_build(name) and kept_until.get(name, 0.0) <= now):
            if storage.is_store and name not in kept_until and storage.age(name) < ABANDONED_SECONDS:
                continue  # somebody may be writing it
            found.append(name)
    return found


def _folders(path: Place, retention: float = RETENTION_SECONDS, last: int | None = None) -> dict[str, float]:
    """Return the folders that the manifest names, and until when each is kept; those in use are kept for ever."""
    if (manifest := _current(path)) is None:
        return {}
    older = {entry.folder: entry.at + min(retention, entry.seconds) for entry in manifest.superseded}
    kept = needed_by(manifest, manifest.epoch if last is None else last)
    return older | dict.fromkeys(manifest.folders.union(*(entry.folders for entry in kept)), inf)


def _current(path: Place) -> Manifest | None:
    """Return the manifest that names all folders in use: a log adds none; None if there is no manifest, or it is damaged."""
    try:
        return manifest_without_log(path)
    except UnreadableIndexError:
        raise
    except IndexFormatError:
        return None


def verify(index: Index) -> int:
    """Compare every file with its checksums and all content with what it has to be; return the number of bytes read.

    Versions of earlier epochs that an index keeps are verified as well.
    """
    size = _verify(index)
    for manifest in () if index.is_past or not index.manifest.kept else KeptVersions.of(index.path).all_kept():
        size += _verify(Index.of(index.path, manifest, verify=index.verifies, is_past=True))
    return size


def _verify(index: Index) -> int:
    verify_all(index, again=True)
    if VERTEX in index.manifest.domains:
        verify_degrees(index, VERTEX)
    if index.runs:
        versions_of(index, index.runs)
    return index.bytes
