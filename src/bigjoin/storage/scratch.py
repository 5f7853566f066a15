"""Scratch folders, which disappear with their process: when it exits or, if it was killed, when the next one needs scratch.

A process has one folder `bigjoin-<unique>` in each place where it writes scratch, and everything else lies below that. The
folder holds the file `.owner`, which is locked for as long as the process lives. So a folder whose lock is free is abandoned. A
folder without that file, of another user or of another machine, whose locks may not reach us, is left alone.
"""

from __future__ import annotations

import atexit
import os
import re
import stat
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from bigjoin.errors import OutputError, reason
from bigjoin.paths import is_remote
from bigjoin.storage.local import LocalStorage, take_lock

OWNER_FILE = ".owner"
FOLDER_PREFIX = "bigjoin-"

_FOLDER_NAME = re.compile(rf"{FOLDER_PREFIX}[a-z0-9_]{{8}}")
_owned: dict[tuple[int, str], Path] = {}
"""The folder of this process in each place; by process, because a fork needs its own."""
_creating = threading.Lock()


def scratch_folder(purpose: str, place: str | Path | None = None) -> Path:
    """Return a new folder below that of this process in a place, by default the temporary folder."""
    return Path(tempfile.mkdtemp(prefix=f"{purpose}-", dir=_own_folder(str(Path(place or tempfile.gettempdir()).absolute()))))


def scratch_directory(purpose: str) -> Path:
    """Return a new directory that is removed when Python exits or, if it is killed, by a later process."""
    chosen = os.environ.get("BIGJOIN_SCRATCH")
    return temporary(purpose, None if chosen is None or is_remote(chosen) else chosen)


def temporary(purpose: str, folder: str | None) -> Path:
    """Return a new directory of scratch in a folder, by default the temporary one; say what to do if there can be none."""
    try:
        return scratch_folder(purpose, folder)
    except OSError as error:
        message = f"cannot make a scratch folder in {folder or tempfile.gettempdir()}: {reason(error)}"
        raise OutputError(f"{message}; set BIGJOIN_SCRATCH to a folder that every executor can write to") from None


def remove_abandoned(place: Path) -> int:
    """Remove the folders that killed processes of this user have left in a place, and return how many there were."""
    removed = 0
    with suppress(OSError):
        for name in LocalStorage(place).list():
            if _FOLDER_NAME.fullmatch(name) and _is_abandoned(place / name):
                _remove_content(place / name)
                removed += 1
    return removed


def _own_folder(place: str) -> Path:
    with _creating:
        key = (os.getpid(), place)
        if key not in _owned or not _owned[key].is_dir():
            remove_abandoned(Path(place))
            _owned[key] = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=place))
            _lock(_owned[key])
            atexit.register(_remove, os.getpid(), _owned[key])
        return _owned[key]


def _lock(folder: Path) -> None:
    """Create the locked owner file, which gets its name only when it is locked; without locks there is no such file.

    The descriptor stays open, and the lock held, until the process ends.
    """
    draft = folder / f"{OWNER_FILE}.draft"
    descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        take_lock(descriptor)
        os.write(descriptor, _machine().encode())
        draft.rename(folder / OWNER_FILE)
    except OSError:
        os.close(descriptor)


def _is_abandoned(folder: Path) -> bool:
    """Tell whether a folder is this user's, and its owner ran on this machine and is gone."""
    with suppress(OSError):  # also if there are no locks here
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
            with os.fdopen(os.open(folder / OWNER_FILE, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as owner:
                return take_lock(owner.fileno()) and owner.read(1000) == _machine().encode()
    return False


def _remove_content(folder: Path) -> None:
    """Remove a folder, its owner file last: if something cannot be removed now, the next process tries again."""
    storage = LocalStorage(folder)
    for name in storage.list():
        if name != OWNER_FILE:
            storage.remove(name)
    if list(storage.list()) == [OWNER_FILE]:
        storage.remove("")


def _machine() -> str:
    """Return a text that no other machine has which may see the same folders."""
    identity = ""
    with suppress(OSError):
        identity = Path("/etc/machine-id").read_text(encoding="ascii").strip()
    return f"{os.uname().nodename} {identity}"


def _remove(process: int, folder: Path) -> None:
    if os.getpid() == process:  # not in a fork of it
        LocalStorage(folder).remove("")
