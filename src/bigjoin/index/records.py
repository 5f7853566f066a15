"""Notes of what was verified on this machine, so that files are read whole once and not by every process.

A note is an empty file whose name is the hash of a claim and of the files that it is about, each as the machine knows it: path,
device, inode, size and time of the last change. A file that is touched in any way has another hash, and so no note. Notes lie
in a folder that only this user can write to, never in an index, which someone else may have made. They expire after some
weeks, because disks rot. If no note can be written, a process still remembers for itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from bigjoin.private import private_folder

MIN_NOTED_BYTES = 1 << 20
"""Claims about fewer bytes are not noted: to verify those again is as fast as to look for a note."""
NOTE_SECONDS = 30 * 86_400.0
"""How long a note is believed."""
NOTES_PER_SWEEP = 256
"""Expired notes are removed once for this many new ones, on average."""
MAX_REMEMBERED_CLAIMS = 1 << 16
"""How many claims a process remembers."""

_remembered: dict[str, None] = {}


def claim_of(about: Any, files: Sequence[tuple[str, Any, tuple[int, ...]]]) -> str:
    """Return the hash of a claim, given as JSON, about files, given by address, checksums and version in their store."""
    return hashlib.sha256(json.dumps([os.uname().nodename, about, files], sort_keys=True).encode()).hexdigest()


def is_noted(claim: str) -> bool:
    """Tell whether this user has verified a claim before on this machine, in this process or another."""
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
    """Remember that a claim about a number of bytes holds."""
    _remember(claim)
    if size < MIN_NOTED_BYTES or (folder := private_folder("verified")) is None:
        return
    with suppress(OSError):
        os.close(os.open(folder / claim, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))
        os.utime(folder / claim)
        if random.random() < 1 / NOTES_PER_SWEEP:
            _sweep(folder)


def revoke(claim: str) -> None:
    """Forget a claim that turned out not to hold although the file system reports no change."""
    _remembered.pop(claim, None)
    if (folder := private_folder("verified")) is not None:
        with suppress(OSError):
            (folder / claim).unlink()


def _remember(claim: str) -> None:
    _remembered[claim] = None
    while len(_remembered) > MAX_REMEMBERED_CLAIMS:
        with suppress(KeyError, StopIteration, RuntimeError):  # other threads do the same
            del _remembered[next(iter(_remembered))]


def _sweep(folder: Path) -> None:
    oldest = time.time() - NOTE_SECONDS
    for entry in os.scandir(folder):
        with suppress(OSError):
            if entry.stat(follow_symlinks=False).st_mtime < oldest:
                Path(entry.path).unlink()
