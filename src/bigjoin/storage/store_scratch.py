"""Scratch on a store: what one task writes and another reads where executors share no disk.

Everything lies below `_bigjoin_scratch/`, in a folder for each purpose whose name begins with the day. The process removes its
own when it ends; what a killed process has left is removed by whoever needs scratch there some days later.
"""

from __future__ import annotations

import atexit
import os
import re
import time
import uuid
from contextlib import suppress

from bigjoin.paths import is_remote
from bigjoin.storage.place import Place, place_of, remove_folder
from bigjoin.storage.scratch import scratch_directory

FOLDER = "_bigjoin_scratch"
ABANDONED_DAYS = 7
"""The age in days at which the scratch of another process is removed."""
_DAY_SECONDS = 86_400

_looked_at: set[str] = set()
"""The places in which this process has looked for abandoned scratch."""


def scratch_place(purpose: str) -> Place:
    """Return a new folder for scratch that every executor sees, if BIGJOIN_SCRATCH says where that can be."""
    chosen = os.environ.get("BIGJOIN_SCRATCH", "")
    return scratch_on_store(place_of(chosen), purpose) if is_remote(chosen) else scratch_directory(purpose)


def scratch_on_store(place: Place, purpose: str) -> Place:
    """Return a new folder for scratch on a store."""
    folder = place / FOLDER
    if str(folder) not in _looked_at:
        _looked_at.add(str(folder))
        _remove_abandoned(folder)
    made = folder / f"{int(time.time()) // _DAY_SECONDS}-{purpose}-{uuid.uuid4().hex}"
    atexit.register(remove_folder, made)
    return made


def _remove_abandoned(folder: Place) -> None:
    with suppress(Exception):  # there is none, or somebody else removes it
        for entry in folder.iterdir():
            day = re.match(r"(\d+)-", entry.name)
            if day is not None and int(time.time()) // _DAY_SECONDS - int(day[1]) > ABANDONED_DAYS:
                remove_folder(entry)
