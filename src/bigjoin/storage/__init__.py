"""The one door to storage: indices, their ledgers, outputs and scratch folders are reached only through here.

`interface.py` is everything that the library asks of a store, `local.py` implements it with the local file system, and
`storage_at` turns a path into a store. `arrays.py` reads and writes the two formats of data files, `arena.py` arrays that grow
behind the pages of a mapped file, and `scratch.py` owns temporary folders. Three kinds of files stay outside because they are
local by nature: compiled kernels and notes of what was verified (`private.py`), the files that users name as input or as the
target of an export, and Spark's own files.
"""

from bigjoin.storage.interface import FileStatus, LockHeldError, Storage, StoredFile
from bigjoin.storage.local import LocalStorage, storage_at

__all__ = ["FileStatus", "LocalStorage", "LockHeldError", "Storage", "StoredFile", "storage_at"]
