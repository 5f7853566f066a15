"""Folders that only this user can write to.

Compiled kernels and notes about verified files are trusted, so no other user may be able to put them there. A folder is checked
when it is chosen. Somebody who can rename its parents could still replace it later, so `read_private` also checks the very file
that it opens.
"""

from __future__ import annotations

import os
import stat
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@cache
def private_folder(name: str) -> Path | None:
    """Return a folder that only this user can write to, or None if there is no place for one.

    It lies in the user's cache folder or, if that cannot be written or there is no home, in the temporary folder.
    """
    return next((folder for base in _bases() if (folder := made_private(base / name))), None)


def made_private(folder: Path) -> Path | None:
    """Return a folder, created if it does not exist, if only this user can write to it; otherwise None."""
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        if is_private(folder) and os.access(folder, os.W_OK | os.X_OK):
            return folder
    return None


def is_private(folder: Path) -> bool:
    """Tell whether a path is a folder, not a link, that belongs to this user or root, and that no one else may write to."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and _is_ours(found)


def read_private(file: Path) -> bytes:
    """Return the content of a regular file that no other user can have written; raise PermissionError for any other."""
    opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)  # opening a pipe must not block
    with open(opened, "rb") as content:  # noqa: PTH123 - the opened file itself is checked
        found = os.fstat(opened)
        if not (stat.S_ISREG(found.st_mode) and _is_ours(found)):
            raise PermissionError(f"{file} may have been written by another user")
        return content.read()


def write_private(file: Path, content: bytes) -> None:
    """Write a file that no other user can write to, in one step: it has its whole content or does not exist."""
    aside = file.with_name(f".{uuid.uuid4().hex}")
    try:
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:  # noqa: PTH123 - to set its mode
            out.write(content)
        aside.replace(file)
    except BaseException:
        with suppress(OSError):
            aside.unlink()
        raise


def user_cache() -> Path | None:
    """Return bigjoin's part of the user's cache folder, or None for a user without a home, as in some containers."""
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if chosen.is_absolute():  # its specification says to ignore relative paths
        return chosen / "bigjoin"
    with suppress(RuntimeError):
        if (home := Path.home()).is_absolute():
            return home / ".cache" / "bigjoin"
    return None


def _bases() -> Iterator[Path]:
    """Yield the folders in which a private one may be created, the best first."""
    with suppress(OSError, RuntimeError):
        if (home := user_cache()) is not None:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            home = home.resolve()  # it may be a link to a larger disk
            if (found := home.stat()).st_uid == os.geteuid():  # with a umask of 002 its group can write to it
                home.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS_WRITE)
            if is_private(home):
                yield home
    with suppress(OSError):  # if there is no writable temporary folder
        temporary = Path(tempfile.gettempdir())
        found = temporary.stat()
        is_safe = found.st_mode & stat.S_ISVTX or not found.st_mode & _OTHERS_WRITE  # else others could rename our folder
        if found.st_uid in (0, os.geteuid()) and is_safe and (own := made_private(temporary / f"bigjoin-{os.geteuid()}")):
            yield own


def _is_ours(found: os.stat_result) -> bool:
    return found.st_uid in (0, os.geteuid()) and not found.st_mode & _OTHERS_WRITE
