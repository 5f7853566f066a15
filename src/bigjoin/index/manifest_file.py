"""The manifest: the one file that says what an index is. Replacing it atomically is the commit.

This is the only module that reads or writes its JSON; everything else sees the typed `Manifest` of `entries.py`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from bigjoin.errors import IndexFormatError, SourceError
from bigjoin.index.manifest_checks import check_entries
from bigjoin.index.manifest_entries import FORMAT_VERSION, Manifest, is_build
from bigjoin.index.typed_json import WrongFieldError, from_json, to_json
from bigjoin.paths import check_local
from bigjoin.storage import storage_at

MANIFEST = "manifest.json"
FORMAT = "bigjoin-index"
OLDEST_VERSION = 2
"""Version 2 has SHA-256 checksums of whole files, and names one output by its path."""
LOCK = ".lock"


def read_manifest(path: Path) -> Manifest:
    """Return the manifest of a directory; raise IndexFormatError that says what is wrong with it."""
    file, storage = path / MANIFEST, storage_at(path)
    check_local(path, "an index is opened", SourceError)
    if not storage.is_folder():
        raise IndexFormatError(f"there is no index at {path}")
    if not storage.exists(MANIFEST):
        raise IndexFormatError(f"{path} is not an index: it has no {MANIFEST}; build one with 'bigjoin index SOURCE DIR'")
    try:
        content = json.loads(storage.read(MANIFEST).decode("utf-8"))
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
        raise IndexFormatError(f"the index {path} is damaged: {MANIFEST} is not what was written; build the index again")
    try:
        return _manifest(content)
    except WrongFieldError as error:
        raise IndexFormatError(f"the index {path} is damaged: in {MANIFEST}, {error}; build the index again") from None


def replace_manifest(path: Path, manifest: Manifest) -> None:
    """Make a manifest, with a checksum of itself, the one of its directory: this is the commit."""
    content = to_json(replace(manifest, version=FORMAT_VERSION))
    _manifest(content)  # nothing is committed that could not be opened
    envelope = {"format": FORMAT, **content, "sha256": _digest(content)}
    storage_at(path).publish(MANIFEST, json.dumps(envelope, indent=1).encode())


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


def is_index(path: Path) -> bool:
    """Tell whether a directory holds one of our manifests, even a damaged one."""
    try:
        manifest = json.loads(storage_at(path).read(MANIFEST))
    except (ValueError, RecursionError):
        return has_only_builds(path)  # truncated or foreign: the other files tell which
    except (OSError, IndexFormatError):
        return False
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT


def check_target(path: Path) -> None:
    """Raise IndexFormatError if a directory holds something other than an index."""
    if not is_vacant(path) and not is_index(path):
        raise IndexFormatError(f"{path} exists and is not an index; choose a new directory, or empty this one")


def is_vacant(path: Path) -> bool:
    """Tell whether there is nothing at a path but what a killed first build may have left."""
    storage = storage_at(path)
    return not storage.exists("") or (not storage.exists(MANIFEST) and has_only_builds(path))


def has_only_builds(path: Path) -> bool:
    """Tell whether a directory holds nothing but files of ours, committed or not."""
    storage, ours = storage_at(path), (f".{MANIFEST}", LOCK, MANIFEST)
    return storage.is_folder() and all(is_build(name) or name.startswith(ours) for name in storage.list())
