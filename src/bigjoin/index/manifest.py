"""The manifest: the one file that says what an index is. Replacing it atomically is the commit.

`docs/index-format.md` describes every field, for programs that are not this one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bigjoin.errors import BigjoinError, IndexFormatError

MANIFEST = "manifest.json"
FORMAT = "bigjoin-index"
FORMAT_VERSION = 2
BUILD = "build-"
"""How the folders begin that hold the files of one build; twelve digits follow."""
LOCK = ".lock"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""What a rule can call a relation."""

_SECTIONS = {"sha256", "identity", "codes", "shards", "epoch", "domains", "relations", "files"}


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the manifest of a directory, or raise IndexFormatError that says what is wrong with it."""
    file = path / MANIFEST
    if not path.is_dir():
        raise IndexFormatError(f"there is no index at {path}")
    if not file.is_file():
        raise IndexFormatError(f"{path} is not an index: it has no {MANIFEST}; build one with 'bigjoin index SOURCE DIR'")
    try:
        manifest: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        known = manifest["format"] == FORMAT
        version = int(manifest["version"])
    except (ValueError, KeyError, TypeError):
        raise IndexFormatError(f"{file} is not a bigjoin manifest; build the index again") from None
    if not known:
        raise IndexFormatError(f"{file} is not a bigjoin manifest")
    if version > FORMAT_VERSION:
        raise IndexFormatError(
            f"the index {path} has format version {version}, and this bigjoin reads up to {FORMAT_VERSION}: upgrade bigjoin"
        )
    if version < FORMAT_VERSION:
        raise IndexFormatError(f"the index {path} has format version {version}, which is no longer read: build it again")
    if missing := _SECTIONS - manifest.keys():
        raise IndexFormatError(f"{file} lacks {', '.join(sorted(missing))}; build the index again")
    if manifest["sha256"] != _digest(manifest):
        raise IndexFormatError(f"the index {path} is damaged: {MANIFEST} is not what was written; build the index again")
    if any(".." in Path(name).parts or Path(name).is_absolute() for name in manifest["files"]):
        raise IndexFormatError(f"{file} names files outside its directory")
    return manifest


def replace_manifest(path: Path, manifest: dict[str, Any]) -> None:
    """Make a manifest the one of its directory: written aside with its own checksum, synced, and renamed."""
    draft = path / f".{MANIFEST}.{manifest['identity']}"
    draft.write_text(json.dumps({**manifest, "sha256": _digest(manifest)}, indent=1), encoding="utf-8")
    sync(draft)
    draft.replace(path / MANIFEST)
    sync(path)


def _digest(manifest: dict[str, Any]) -> str:
    """Return the SHA-256 of a manifest, but for the checksum itself, as JSON with sorted keys and no spaces."""
    content = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def is_index(path: Path) -> bool:
    """Tell whether a directory holds a manifest of ours, whole or not."""
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except ValueError:
        return only_builds(path)  # cut off, or foreign: what lies beside it tells
    except OSError:
        return False
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT


def check_target(path: Path) -> None:
    """Raise IndexFormatError if an index cannot be written there, because something else is."""
    if not is_vacant(path) and not is_index(path):
        raise IndexFormatError(f"{path} exists and is not an index; choose a new directory, or empty this one")


def is_vacant(path: Path) -> bool:
    """Tell whether there is nothing at a path, or nothing but what a first build that was killed has left."""
    return not path.exists() or (not (path / MANIFEST).exists() and only_builds(path))


def is_build(name: str) -> bool:
    """Tell the folder of a build from anybody else's."""
    return re.fullmatch(rf"{BUILD}[0-9a-f]{{12}}", name) is not None


def only_builds(path: Path) -> bool:
    """Tell whether a directory is empty but for builds, committed or cut off."""
    ours = (f".{MANIFEST}", LOCK, MANIFEST)
    return path.is_dir() and all(is_build(p.name) or p.name.startswith(ours) for p in path.iterdir())


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, would survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_name(name: str, others: Sequence[str]) -> None:
    """Refuse a name that no rule could use for a relation, or that another has."""
    if not NAME.fullmatch(name) or name.lower() in ("not", "optional"):
        raise BigjoinError(f"{name!r} cannot name a relation: use letters, digits and _")
    if name in others:
        raise BigjoinError(f"there would be two relations {name!r}: rename one, or the type of edges with that name")


def in_use(content: Any, files: Mapping[str, Any]) -> dict[str, Any]:
    """Return the files that a manifest's content names."""
    found: dict[str, Any] = {}
    waiting = [content[part] for part in ("domains", "relations", "runs") if part in content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str) and value in files:
            found[value] = files[value]
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return found
