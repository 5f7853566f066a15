"""The one door to storage: indices, their ledgers, outputs and scratch folders are reached only through here.

`interface.py` is everything that the library asks of a store, `local.py` implements it with the local file system, `store.py`
with a store of objects, and `storage_at` turns a path or a URL into one of these (`place.py`). `arrays.py` reads and writes the two formats of data files, `arena.py` arrays that grow
behind the pages of a mapped file, and `scratch.py` owns temporary folders. Three kinds of files stay outside because they are
local by nature: compiled kernels and notes of what was verified (`private.py`), the files that users name as input or as the
target of an export, and Spark's own files.
"""

from __future__ import annotations

from pathlib import Path

from bigjoin.storage.interface import Current, FileStatus, LockHeldError, Storage, StoredFile, TakenError
from bigjoin.storage.local import LocalStorage
from bigjoin.storage.place import Place, is_on_store, place_of, readable, writable

__all__ = [
    "Current",
    "FileStatus",
    "LocalStorage",
    "LockHeldError",
    "Place",
    "Storage",
    "StoredFile",
    "TakenError",
    "is_on_store",
    "place_of",
    "readable",
    "storage_at",
    "writable",
]


def storage_at(root: str | Place) -> Storage:
    """Return the storage for a path or a URL."""
    place = place_of(root)
    if isinstance(place, Path):
        return LocalStorage(place)
    from bigjoin.storage.store import StoreStorage

    return StoreStorage(place)
