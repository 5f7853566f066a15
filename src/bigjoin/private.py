"""Folders that only this user can write to.

Compiled kernels and notes about verified files are believed, so nobody else may have put them there. A folder is looked at
when it is chosen. Whoever may rename its parents could still put another in its place later, so what is believed without
further proof is read by `read_private`, which looks at the very file that it opens.
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
    """Return a folder of bigjoin's that only this user can write to, or None where there is none.

    It lies in the user's cache folder; where that cannot be written, or there is no home at all, in the temporary one.
    """
    return next((folder for base in _bases() if (folder := made_private(base / name))), None)


def made_private(folder: Path) -> Path | None:
    """Return a folder, made if it is not there, if it can be written to by this user and nobody else; otherwise None."""
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        if is_private(folder) and os.access(folder, os.W_OK | os.X_OK):
            return folder
    return None


def is_private(folder: Path) -> bool:
    """Tell whether a folder, and not a link to one, is this user's or root's, and nobody else may write to it."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and _is_ours(found)


def read_private(file: Path) -> bytes:
    """Return the content of a regular file that nobody else can have written; raise PermissionError for any other."""
    opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe must not make us wait
    with open(opened, "rb") as content:  # noqa: PTH123 - what was opened is what is looked at
        found = os.fstat(opened)
        if not (stat.S_ISREG(found.st_mode) and _is_ours(found)):
            raise PermissionError(f"{file} may have been written by somebody else")
        return content.read()


def write_private(file: Path, content: bytes) -> None:
    """Write a file that nobody else can write to, so that it is there whole or not at all."""
    aside = file.with_name(f".{uuid.uuid4().hex}")
    try:
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:  # noqa: PTH123 - for its mode
            out.write(content)
        aside.replace(file)
    except BaseException:
        with suppress(OSError):
            aside.unlink()
        raise


def user_cache() -> Path | None:
    """Return bigjoin's part of the user's cache folder, or None for a user without a home: containers have such."""
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if chosen.is_absolute():  # as its specification has it: a relative one says nothing
        return chosen / "bigjoin"
    with suppress(RuntimeError):
        if (home := Path.home()).is_absolute():
            return home / ".cache" / "bigjoin"
    return None


def _bases() -> Iterator[Path]:
    """Give folders to look for a private one in, the best first."""
    with suppress(OSError, RuntimeError):
        if (home := user_cache()) is not None:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            home = home.resolve()  # a user may have moved it to a larger disk
            if (found := home.stat()).st_uid == os.geteuid():  # a umask of 002 leaves it open to a group
                home.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS_WRITE)
            if is_private(home):
                yield home
    with suppress(OSError):  # there may be no temporary folder that can be written to
        temporary = Path(tempfile.gettempdir())
        found = temporary.stat()
        only_ours = found.st_mode & stat.S_ISVTX or not found.st_mode & _OTHERS_WRITE  # else others could rename what is ours
        if found.st_uid in (0, os.geteuid()) and only_ours and (own := made_private(temporary / f"bigjoin-{os.geteuid()}")):
            yield own


def _is_ours(found: os.stat_result) -> bool:
    return found.st_uid in (0, os.geteuid()) and not found.st_mode & _OTHERS_WRITE
