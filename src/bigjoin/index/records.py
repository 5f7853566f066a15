"""What was verified on this machine: notes, so that files are read whole once and not by every process.

A note is an empty file whose name is the hash of a claim and of the files that it is about, each as the machine knows it: path,
device, inode, size and time of the last change. A file that is touched in any way has another name, and so no note. Notes lie
in a folder that only this user can write to, never in an index, which somebody else may have made. They last for some weeks:
disks rot. Where no note can be written, a process remembers for itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from bigjoin.private import private_folder
from bigjoin.storage import FileStatus

MIN_NOTED_BYTES = 1 << 20
"""Bytes that a claim is about from which on it is noted: less is verified in no time."""
NOTE_SECONDS = 30 * 86_400.0
"""Seconds for which a note is believed."""
NOTES_PER_SWEEP = 256
"""Notes that are written, on average, until those that are too old are removed."""
MAX_REMEMBERED_CLAIMS = 1 << 16
"""Claims that a process remembers."""

_remembered: dict[str, None] = {}


def claim_of(about: Any, files: Iterable[tuple[str, str, FileStatus]]) -> str:
    """Return the name of a claim about some files, given by address, checksum and status."""
    known = [[address, checksum, *status.version] for address, checksum, status in files]
    return hashlib.sha256(json.dumps([os.uname().nodename, about, known], sort_keys=True).encode()).hexdigest()


def is_noted(claim: str) -> bool:
    """Tell whether a claim was verified before, by this process or another of this user's on this machine."""
    if claim in _remembered:
        return True
    if (folder := private_folder("verified")) is None:
        return False
    with suppress(OSError):
        if time.time() - (folder / claim).stat().st_mtime < NOTE_SECONDS:
            _remember(claim)
            return True
    return False


def note(claim: str, size: int) -> None:
    """Remember that a claim about so many bytes holds."""
    _remember(claim)
    if size < MIN_NOTED_BYTES or (folder := private_folder("verified")) is None:
        return
    with suppress(OSError):
        os.close(os.open(folder / claim, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))
        os.utime(folder / claim)
        if random.random() < 1 / NOTES_PER_SWEEP:
            _sweep(folder)


def revoke(claim: str) -> None:
    """Forget that a claim held: it does not, though no file has changed as far as the system knows. Disks rot."""
    _remembered.pop(claim, None)
    if (folder := private_folder("verified")) is not None:
        with suppress(OSError):
            (folder / claim).unlink()


def _remember(claim: str) -> None:
    _remembered[claim] = None
    while len(_remembered) > MAX_REMEMBERED_CLAIMS:
        with suppress(KeyError, StopIteration, RuntimeError):  # other threads remember, too
            del _remembered[next(iter(_remembered))]


def _sweep(folder: Path) -> None:
    oldest = time.time() - NOTE_SECONDS
    for entry in os.scandir(folder):
        with suppress(OSError):
            if entry.stat(follow_symlinks=False).st_mtime < oldest:
                Path(entry.path).unlink()
