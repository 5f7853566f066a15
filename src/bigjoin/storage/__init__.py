"""The one door to storage: indices, outputs and scratch files are reached through here, and nowhere else.

`interface.py` is the whole of what the library asks of a store, `local.py` answers it with the local file system, and
`storage_at` is where a path becomes a store. `arrays.py` reads and writes the two formats of files that hold data, and
`scratch.py` owns temporary folders. Three kinds of files stay outside, because no other store could ever hold them: compiled
kernels and notes of what was verified (`private.py`), what users read and write by a path of their own, and Spark's own files.
"""

from bigjoin.storage.interface import FileStatus, LockHeldError, Storage, StoredFile
from bigjoin.storage.local import LocalStorage, storage_at

__all__ = ["FileStatus", "LocalStorage", "LockHeldError", "Storage", "StoredFile", "storage_at"]
