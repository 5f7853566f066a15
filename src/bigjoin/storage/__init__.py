"""The one door to storage: indices, their ledgers, outputs and scratch folders are reached only through here.

`interface.py` is everything that the library asks of a store, `local.py` implements it with the local file system, `store.py`
with a store of objects, and `storage_at` turns a path or a URL (`place.py`) into one of these. `arrays.py` reads and writes the
formats of data files, `arena.py` arrays that grow behind the pages of a mapped file, `scratch.py` owns temporary folders, and
`store_cache.py` what was copied from stores. Three kinds of files stay outside because they are local by nature: compiled
kernels and notes of what was verified (`private.py`), the files that users name as input, and Spark's own files.
"""

from __future__ import annotations

from typing import Any, cast

from bigjoin.storage.interface import Current, FileStatus, LockHeldError, Storage, StoredFile, TakenError
from bigjoin.storage.local import LocalStorage
from bigjoin.storage.place import Place, is_on_store, make_folder, place_like, place_of, readable, remove_folder, writable

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
    "make_folder",
    "place_like",
    "place_of",
    "readable",
    "remove_folder",
    "storage_at",
    "writable",
]


def storage_at(root: str | Place) -> Storage:
    """Return the storage for a path or a URL."""
    place = place_of(root)
    if not is_on_store(place):
        return LocalStorage(place)
    from bigjoin.storage.store import StoreStorage

    return StoreStorage(cast("Any", place))
