"""Folders that only this user can write to: what lies there is believed, so nobody else may have put it there."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@cache
def private_folder(name: str) -> Path | None:
    """Return a folder of bigjoin's that only this user can write to, or None where there is none.

    It lies in the user's cache folder; where that cannot be written, or there is no home at all, in the temporary one.
    """
    for base in _bases():
        folder = base / name
        with suppress(OSError):
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            if is_private(base) and is_private(folder) and os.access(folder, os.W_OK):
                return folder
    return None


def user_cache() -> Path | None:
    """Return bigjoin's part of the user's cache folder, or None for a user without a home: containers have such."""
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        return Path(chosen) / "bigjoin"
    try:
        return Path.home() / ".cache" / "bigjoin"
    except RuntimeError:
        return None


def is_private(folder: Path) -> bool:
    """Tell whether a folder, and not a link to one, is this user's or root's, and nobody else may write to it."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid in (0, os.geteuid()) and not found.st_mode & _OTHERS_WRITE


def _bases() -> Iterator[Path]:
    if (home := user_cache()) is not None:
        yield home
    temporary = Path(tempfile.gettempdir())
    mode = temporary.stat().st_mode
    if mode & stat.S_ISVTX or not mode & _OTHERS_WRITE:  # else others could rename what is ours
        yield temporary / f"bigjoin-{os.geteuid()}"
