"""Scratch folders, which go when their owner goes: at its exit, or, if it was killed, when the next process needs one there.

A process has one folder `bigjoin-<unique>` in each place where it writes scratch, and everything else is below that. In it lies
the file `.owner`, locked for as long as the process lives, however it ends. So a folder whose lock is free is rubbish; one that
has no such file is not ours to judge, nor is one of another user or of another machine, whose locks may not reach us.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import stat
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from bigjoin.storage.local import take_lock

OWNER_FILE = ".owner"
FOLDER_PREFIX = "bigjoin-"

_NAME = re.compile(rf"{FOLDER_PREFIX}[a-z0-9_]{{8}}")
_mine: dict[tuple[int, str], tuple[Path, int | None]] = {}
"""By process (forked ones need their own) and place: the folder of this process, and the descriptor that holds its lock."""
_making = threading.Lock()


def scratch_folder(purpose: str, place: str | Path | None = None) -> Path:
    """Return a new folder below that of this process in some place: the temporary folder, if none is named."""
    return Path(tempfile.mkdtemp(prefix=f"{purpose}-", dir=_folder(str(Path(place or tempfile.gettempdir()).absolute()))))


def remove_abandoned(place: Path) -> int:
    """Remove the folders that killed processes of this user have left in a place, and return how many there were."""
    removed = 0
    with suppress(OSError):
        for entry in list(os.scandir(place)):
            if _NAME.fullmatch(entry.name) and _is_abandoned(Path(entry.path)):
                _remove_all(Path(entry.path))
                removed += 1
    return removed


def _folder(place: str) -> Path:
    with _making:
        known = _mine.get((os.getpid(), place))
        if known is not None and known[0].is_dir():
            return known[0]
        remove_abandoned(Path(place))
        folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=place))
        _mine[os.getpid(), place] = (folder, _lock(folder))
        atexit.register(_remove, os.getpid(), folder)
        return folder


def _lock(folder: Path) -> int | None:
    """Lock the file that says who owns a folder, before it gets its name. Without locks there is no such file."""
    draft = folder / f"{OWNER_FILE}.draft"
    descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        take_lock(descriptor)
        os.write(descriptor, _machine().encode())
        draft.rename(folder / OWNER_FILE)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _is_abandoned(folder: Path) -> bool:
    """Tell whether a folder is one of ours whose owner is gone."""
    try:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            return False
        descriptor = os.open(folder / OWNER_FILE, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return take_lock(descriptor) and os.read(descriptor, 1000) == _machine().encode()
    except OSError:  # there are no locks here
        return False
    finally:
        os.close(descriptor)


def _remove_all(folder: Path) -> None:
    """Remove a folder, and last what says that it is ours: if something cannot be removed, the next process tries again."""
    with suppress(OSError):
        for entry in list(folder.iterdir()):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            elif entry.name != OWNER_FILE:
                entry.unlink(missing_ok=True)
        if [entry.name for entry in folder.iterdir()] == [OWNER_FILE]:
            shutil.rmtree(folder, ignore_errors=True)


def _machine() -> str:
    """Return what tells this machine from others that may see the same folders."""
    identity = ""
    with suppress(OSError):
        identity = Path("/etc/machine-id").read_text(encoding="ascii").strip()
    return f"{os.uname().nodename} {identity}"


def _remove(process: int, folder: Path) -> None:
    if os.getpid() == process:  # not in a fork of it
        shutil.rmtree(folder, ignore_errors=True)
