"""The manifest: the one file that says what an index is. Replacing it atomically is the commit.

`entries.py` has what it says, as values with types; nothing else reads its JSON.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from bigjoin.errors import IndexFormatError
from bigjoin.index.entries import FORMAT_VERSION, Manifest, is_build
from bigjoin.index.entry_checks import check_entries
from bigjoin.index.typed_json import WrongFieldError, from_json, to_json
from bigjoin.storage import storage_at

MANIFEST = "manifest.json"
FORMAT = "bigjoin-index"
OLDEST_VERSION = 2
"""Version 2 has SHA-256 checksums of whole files, and one output by its path."""
LOCK = ".lock"

_ENVELOPE = ("format", "sha256")
"""What the file says beside the entries."""


def read_manifest(path: Path) -> Manifest:
    """Return the manifest of a directory, or raise IndexFormatError that says what is wrong with it."""
    file, storage = path / MANIFEST, storage_at(path)
    if not storage.is_folder():
        raise IndexFormatError(f"there is no index at {path}")
    if not storage.exists(MANIFEST):
        raise IndexFormatError(f"{path} is not an index: it has no {MANIFEST}; build one with 'bigjoin index SOURCE DIR'")
    try:
        found: dict[str, Any] = json.loads(storage.read(MANIFEST).decode("utf-8"))
        known = found["format"] == FORMAT
        version = found["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise IndexFormatError(f"{file} is not a bigjoin manifest; build the index again") from None
    if not known:
        raise IndexFormatError(f"{file} is not a bigjoin manifest")
    _check_version(path, version)
    if "sha256" not in found or found["sha256"] != _digest(found):
        raise IndexFormatError(f"the index {path} is damaged: {MANIFEST} is not what was written; build the index again")
    try:
        manifest = from_json(Manifest, _upgraded({name: part for name, part in found.items() if name not in _ENVELOPE}))
        check_entries(manifest)
    except WrongFieldError as error:
        raise IndexFormatError(f"the index {path} is damaged: in {MANIFEST}, {error}; build the index again") from None
    return manifest


def _check_version(path: Path, version: Any) -> None:
    if not isinstance(version, int) or isinstance(version, bool):
        raise IndexFormatError(f"{path / MANIFEST} is not a bigjoin manifest; build the index again")
    if version > FORMAT_VERSION:
        raise IndexFormatError(
            f"the index {path} has format version {version}, and this bigjoin reads up to {FORMAT_VERSION}: upgrade bigjoin"
        )
    if version < OLDEST_VERSION:
        raise IndexFormatError(f"the index {path} has format version {version}, which is no longer read: build it again")


def _upgraded(found: dict[str, Any]) -> dict[str, Any]:
    """Return what an older version says as the newest would: an output had its path where it now has an identity."""
    output = found.pop("output", None)
    if not isinstance(output, dict):
        return found
    entry = {("output" if name == "path" else name): value for name, value in output.items()}
    return {**found, "publications": [entry]}


def replace_manifest(path: Path, manifest: Manifest) -> None:
    """Make a manifest, with a checksum of itself, the one of its directory: this is the commit."""
    check_entries(manifest)
    content = {"format": FORMAT, **to_json(replace(manifest, version=FORMAT_VERSION))}
    storage_at(path).publish(MANIFEST, json.dumps({**content, "sha256": _digest(content)}, indent=1).encode())


def _digest(content: dict[str, Any]) -> str:
    """Return the SHA-256 of a manifest, but for the checksum itself, as JSON with sorted keys and no spaces."""
    content = {key: value for key, value in content.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def is_index(path: Path) -> bool:
    """Tell whether a directory holds a manifest of ours, whole or not."""
    try:
        manifest = json.loads(storage_at(path).read(MANIFEST))
    except (ValueError, RecursionError):
        return only_builds(path)  # cut off, or foreign: what lies beside it tells
    except (OSError, IndexFormatError):
        return False
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT


def check_target(path: Path) -> None:
    """Raise IndexFormatError if an index cannot be written there, because something else is."""
    if not is_vacant(path) and not is_index(path):
        raise IndexFormatError(f"{path} exists and is not an index; choose a new directory, or empty this one")


def is_vacant(path: Path) -> bool:
    """Tell whether there is nothing at a path, or nothing but what a first build that was killed has left."""
    return not path.exists() or (not storage_at(path).exists(MANIFEST) and only_builds(path))


def only_builds(path: Path) -> bool:
    """Tell whether a directory is empty but for builds, committed or cut off."""
    storage, ours = storage_at(path), (f".{MANIFEST}", LOCK, MANIFEST)
    return storage.is_folder() and all(is_build(name) or name.startswith(ours) for name in storage.list())
