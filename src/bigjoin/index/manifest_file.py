"""The manifest, which says what an index is. Replacing its file is a commit, and so is a record of the log that it names.

Only this module and that of the log read or write its JSON; everything else sees the typed `Manifest` of `manifest_entries.py`.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import replace
from typing import Any

import numpy as np

from bigjoin.errors import IndexFormatError, OutputError, SourceError, reason
from bigjoin.index.checksums import file_entry
from bigjoin.index.epoch_log import DamagedLogError, EpochLog, LogEnd, logged_changes, offsets_within
from bigjoin.index.manifest_checks import check_entries
from bigjoin.index.manifest_entries import FORMAT_VERSION, PLAIN_VERSION, KeptEntry, Manifest, PublicationEntry, is_build
from bigjoin.index.typed_json import WrongFieldError, from_json, to_json
from bigjoin.storage import Current, Place, TakenError, is_on_store, storage_at

MANIFEST = "manifest.json"
STEM = "manifest"
FORMAT = "bigjoin-index"
OLDEST_VERSION = 2
"""Version 2 has SHA-256 checksums of whole files, and names one output by its path."""
LOCK = ".lock"


class UnreadableIndexError(IndexFormatError):
    """The manifest of an index cannot be read now; it may be whole, and name anything."""


class TakenIndexError(IndexFormatError, OutputError):
    """Another process has committed a version of an index that this one was to be the next of."""


def read_manifest(path: Place) -> Manifest:
    """Return the newest manifest of a directory; raise IndexFormatError that says what is wrong with it."""
    begun = manifest_without_log(path)
    return begun if begun.log is None else _newest(path, begun)[0]


def manifest_without_log(path: Place) -> Manifest:
    """Return what `manifest.json` says; the log that it names may say what has changed since."""
    try:
        current = _current(path)
    except OSError as error:
        raise UnreadableIndexError(f"the index {path} cannot be read: {reason(error)}") from None
    manifest = _parsed(path, MANIFEST, current.content)
    return replace(manifest, number=current.number) if current.number else manifest


def _current(path: Place) -> Current:
    """Return the content of the manifest that was committed last; raise IndexFormatError if there is none."""
    storage = storage_at(path)
    try:
        return storage.current(MANIFEST)
    except FileNotFoundError:
        if not storage.is_folder():
            raise IndexFormatError(f"there is no index at {path}") from None
        raise IndexFormatError(
            f"{path} is not an index: it has no {MANIFEST}; build one with 'bigjoin index SOURCE DIR'"
        ) from None


def current_number(path: Place) -> int | None:
    """Return the number of the current manifest on a store; None if there is none, or no store."""
    try:
        return storage_at(path).current(MANIFEST).number or None
    except FileNotFoundError:
        return None


def _parsed(path: Place, name: str, read: bytes) -> Manifest:
    """Return the manifest in the content of a file; raise IndexFormatError that says what is wrong with it."""
    file = path / name
    try:
        content = json.loads(read.decode("utf-8"))
        is_ours, version, digest = content.pop("format") == FORMAT, content["version"], content.pop("sha256", None)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise IndexFormatError(f"{file} is not a bigjoin manifest; build the index again") from None
    if not is_ours or type(version) is not int:
        raise IndexFormatError(f"{file} is not a bigjoin manifest")
    if version > FORMAT_VERSION:
        raise IndexFormatError(
            f"the index {path} has format version {version}, and this bigjoin reads up to {FORMAT_VERSION}: upgrade bigjoin"
        )
    if version < OLDEST_VERSION:
        raise IndexFormatError(f"the index {path} has format version {version}, which is no longer read: build it again")
    if digest != _digest(content):
        raise IndexFormatError(f"the index {path} is damaged: {name} is not what was written; build the index again")
    try:
        return _manifest(content)
    except WrongFieldError as error:
        raise IndexFormatError(f"the index {path} is damaged: in {name}, {error}; build the index again") from None


def kept_manifest(path: Place, entry: KeptEntry) -> Manifest:
    """Return an earlier manifest, as it was before its log; raise IndexFormatError if it is not what was kept."""
    try:
        content = storage_at(path).read(entry.manifest)
    except FileNotFoundError:
        raise IndexFormatError(f"the index {path} is damaged: {entry.manifest} is missing; build the index again") from None
    if file_entry(np.frombuffer(content, np.uint8)) != entry.content:
        raise IndexFormatError(f"the index {path} is damaged: {entry.manifest} is not what was written; build the index again")
    found = _parsed(path, entry.manifest, content)
    if found.epoch != entry.epochs[0] or not found.folders <= set(entry.folders):
        raise IndexFormatError(f"the index {path} is damaged: {entry.manifest} is not what was kept; build the index again")
    return found


def after_epoch(path: Place, begun: Manifest, epoch: int) -> Manifest:
    """Return the manifest after an epoch, given the one before the log of its time."""
    newest = begun if begun.log is None else _newest(path, begun, until=epoch)[0]
    if newest.epoch != epoch:
        raise IndexFormatError(f"the index {path} is damaged: it has lost its epoch {epoch}; build the index again")
    return newest


def _newest(path: Place, begun: Manifest, until: int | None = None) -> tuple[Manifest, EpochLog]:
    """Return the manifest after the last epoch in a log, or after an earlier one, and the log's end."""
    assert begun.log is not None
    storage = storage_at(path)
    try:
        found = logged_changes(storage.read(begun.log))  # a map may not be read where a writer cuts the log
        newest = found.applied_to(begun, until)
        check_entries(newest)
    except OSError as error:
        problem = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
        raise IndexFormatError(f"the index {path} is damaged: its log {begun.log} {problem}; build the index again") from None
    except (DamagedLogError, WrongFieldError, ValueError, RecursionError) as error:
        raise IndexFormatError(f"the index {path} is damaged: in its log {begun.log}, {error}; build the index again") from None
    if not offsets_within(newest.files, found.end.place):
        raise IndexFormatError(f"the index {path} is damaged: its log {begun.log} is not its own; build the index again")
    return newest, EpochLog(storage, begun.log, found.end)


def version_of(path: Place) -> tuple[Manifest, Manifest, LogEnd | None]:
    """Return the manifest of a directory before and after its log, and where that ends, if there is one."""
    begun = manifest_without_log(path)
    if begun.log is None:
        return begun, begun, None
    newest, log = _newest(path, begun)
    return begun, newest, log.end


def log_of(path: Place) -> EpochLog | None:
    """Return the log of an index, ready for the next epoch, if it has one; the caller holds the lock."""
    begun = manifest_without_log(path)
    return None if begun.log is None else _newest(path, begun)[1]


def commit_publications(path: Place, publications: tuple[PublicationEntry, ...]) -> None:
    """Make a list of publications that of the newest manifest; the caller holds the lock."""
    begun, identity = manifest_without_log(path), uuid.uuid4().hex[:12]  # by which others see that there is something new
    if begun.log is None:
        replace_manifest(path, replace(begun, publications=publications, identity=identity, previous=begun.identity))
        return
    newest, log = _newest(path, begun)
    log.append(newest, replace(newest, publications=publications, identity=identity, previous=newest.identity), {})
    log.write()


def replace_manifest(path: Place, manifest: Manifest) -> Manifest:
    """Make a manifest, with a checksum of itself, the one of its directory: this is a commit. Return it with its number."""
    version = FORMAT_VERSION if manifest.keep_epochs or manifest.kept else PLAIN_VERSION
    content = to_json(replace(manifest, version=version, number=None))
    read_back = _manifest(content)  # nothing is committed that could not be opened
    envelope = {"format": FORMAT, **content, "sha256": _digest(content)}
    try:
        number = storage_at(path).commit(MANIFEST, json.dumps(envelope, indent=1).encode(), after=manifest.number or 0)
    except TakenError:
        raise TakenIndexError(f"another process has written the index {path} meanwhile: open it again") from None
    return replace(read_back, number=number or None)


def _manifest(content: dict[str, Any]) -> Manifest:
    """Return the manifest that JSON of any readable version stands for; raise WrongFieldError if it makes no sense."""
    if isinstance(output := content.get("output"), dict):  # version 2 has one publication, with a path for its identity
        publication = {("output" if name == "path" else name): value for name, value in output.items()}
        content = {**content, "publications": [publication]}
    manifest = from_json(Manifest, {name: value for name, value in content.items() if name != "output"})
    check_entries(manifest)
    return manifest


def _digest(content: dict[str, Any]) -> str:
    """Return the SHA-256 of a manifest with its format, but without this checksum, as JSON with sorted keys and no spaces."""
    text = json.dumps({"format": FORMAT, **content}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def is_index(path: Place) -> bool:
    """Tell whether a directory holds one of our manifests, even a damaged one."""
    try:
        manifest = json.loads(storage_at(path).current(MANIFEST).content)
    except (ValueError, RecursionError):
        return has_only_builds(path)  # truncated or foreign: the other files tell which
    except FileNotFoundError:
        return False
    except (OSError, IndexFormatError) as error:
        if isinstance(error, OSError) and is_on_store(path):  # it may hold one, and the store does not answer
            raise SourceError(f"{path} cannot be read: {reason(error)}") from None
        return False
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT


def check_target(path: Place) -> None:
    """Raise IndexFormatError if a directory holds something other than an index, or nobody can tell."""
    try:
        is_ours = is_vacant(path) or is_index(path)
    except OSError as error:
        raise UnreadableIndexError(f"the index {path} cannot be read: {reason(error)}") from None
    if not is_ours:
        raise IndexFormatError(f"{path} exists and is not an index; choose a new directory, or empty this one")


def is_vacant(path: Place) -> bool:
    """Tell whether there is nothing at a path but what a killed first build may have left."""
    storage = storage_at(path)
    return not storage.exists("") or (not storage.exists(MANIFEST) and has_only_builds(path))


def has_only_builds(path: Place) -> bool:
    """Tell whether a directory holds nothing but files of ours, committed or not."""
    storage, ours = storage_at(path), (f".{MANIFEST}", LOCK, MANIFEST, f".{STEM}-", f"{STEM}-")
    return storage.is_folder() and all(is_build(name) or name.startswith(ours) for name in storage.list())
