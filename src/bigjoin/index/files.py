"""The files of one version of an index, mapped when they are asked for. Nothing here is verified: `trust.py` does that.

DIR/manifest.json            format version, domains, relations, size and checksums of every file
DIR/build-<unique>/*.npy     offsets, values, ranks (NumPy)
DIR/build-<unique>/*.arrow   ids and properties (Arrow IPC, uncompressed)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bigjoin.errors import IndexFormatError, reason
from bigjoin.index.kept import manifest_at
from bigjoin.index.manifest_entries import ColumnOrder, LevelEntry, Manifest, RelationEntry
from bigjoin.index.manifest_file import read_manifest
from bigjoin.index.shards import Shards
from bigjoin.index.trie import Level, Trie
from bigjoin.storage import FileStatus, Place, Storage, StoredFile, place_of, storage_at
from bigjoin.storage.arrays import array_in, table_in

OFFSET_TYPES = ("int64",)
RANK_TYPES = ("uint32", "uint64")


def held_file(content: bytes) -> StoredFile:
    """Return a file that is in memory and not on disk."""
    return StoredFile(np.frombuffer(content, np.uint8), FileStatus("file", len(content), ()))


@dataclass(frozen=True)
class IndexFiles:
    """The files that a manifest lists, or, while a build is in progress, those that it has written so far."""

    path: Place
    """The directory, or its URL."""
    manifest: Manifest
    verifies: bool = True
    """Whether arrays are verified before anything reads them; if not, a damaged file may crash the process."""
    is_past: bool = False
    """Whether it is an earlier version that was kept, which nobody can change."""
    leaves_out_runs: bool = False
    """Whether the manifest's numbers of tuples count runs that it does not list any more."""
    held: Mapping[str, bytes] = field(default_factory=dict, compare=False, repr=False)
    """Files of an epoch that is not committed yet, which are not on disk."""
    verified: set[tuple[str, str]] = field(default_factory=set, compare=False, repr=False)
    """The kinds and names of the parts that were verified for this object, so that their files are not looked at again."""
    _verified_base: set[tuple[str, str]] = field(default_factory=set, compare=False, repr=False)
    """Those that were verified for the index without its runs."""
    _files: dict[str, StoredFile] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def open(cls, path: Place | str, *, verify: bool = True, epoch: int | None = None) -> Self:
        """Open a directory whose files have the sizes that its manifest says; raise IndexFormatError for any other.

        `epoch` is one of the last epochs that are kept, if it is not the last.
        """
        path = place_of(path)
        manifest = read_manifest(path)
        if epoch is None or epoch == manifest.epoch:
            return cls.of(path, manifest, verify=verify)
        return cls.of(path, manifest_at(path, epoch), verify=verify, is_past=True)

    @classmethod
    def of(cls, path: Place, manifest: Manifest, *, verify: bool = True, is_past: bool = False) -> Self:
        """Open a version of a directory; raise IndexFormatError if its files do not have the sizes that its manifest says."""
        index = cls(path, manifest, verify, is_past)
        files = {name: entry for name, entry in manifest.files.items() if entry.offset is None}  # the log was read already
        try:
            found = index.storage.sizes(set(files))
        except OSError as error:
            raise IndexFormatError(f"the index {path} cannot be read: {reason(error)}") from None
        for name, entry in files.items():
            if name not in found:
                raise index.damaged(f"{name} is missing")
            if found[name] != entry.bytes:
                raise index.damaged(f"{name} has {found[name]} bytes instead of {entry.bytes}")
        return index

    @cached_property
    def storage(self) -> Storage:
        return storage_at(self.path)

    @cached_property
    def base(self) -> Self:
        """The index without its runs: what is compacted. It shares the mapped files."""
        if not self.manifest.runs:
            return self
        return replace(self, manifest=self.manifest.without_runs(), leaves_out_runs=True, verified=self._verified_base)

    def damaged(self, what: str) -> IndexFormatError:
        """Return the error that says what is wrong with this index."""
        return IndexFormatError(f"the index {self.path} is damaged: {what}; build the index again")

    def gone(self, name: str) -> IndexFormatError:
        """Return the error for a file that was there when the index was opened."""
        return IndexFormatError(
            f"{name} of the index {self.path} is gone: the graph was closed, or another version was committed and the old one "
            "vacuumed; open the index again"
        )

    def file(self, name: str) -> StoredFile:
        """Return a file, mapped once."""
        if name not in self._files:
            entry = self.manifest.files.get(name)
            if name in self.held:
                self._files[name] = held_file(self.held[name])
                return self._files[name]
            if entry is not None and entry.offset is not None and self.manifest.log is not None:
                log = self.file(self.manifest.log)
                if entry.offset + entry.bytes > log.status.bytes:  # it was mapped before that epoch
                    del self._files[self.manifest.log]
                    log = self.file(self.manifest.log)
                self._files[name] = replace(log, content=log.content[entry.offset : entry.offset + entry.bytes])
                return self._files[name]
            try:
                self._files[name] = self.storage.map(name, None if entry is None else entry.checksum)
            except FileNotFoundError:
                raise self.gone(name) from None
            except OSError as error:
                if self.storage.is_store:
                    raise IndexFormatError(f"the index {self.path} cannot be read: {reason(error)}") from None
                raise self.damaged(f"{name} cannot be read ({error.strerror})") from None
        return self._files[name]

    def status(self, name: str) -> FileStatus:
        """Return the status of a file; if it is mapped, the status that it had then."""
        try:
            is_mapped = name in self._files or not self._is_file(name) or self.storage.is_store  # a local copy, there
            return self.file(name).status if is_mapped else self.storage.status(name)
        except OSError:
            raise self.gone(name) from None

    def is_held(self, name: str) -> bool:
        """Tell whether this process has the content of a file in memory, because it has written it or was given it."""
        return name in self.held or (name in self._files and not self._files[name].status.version)

    def _is_file(self, name: str) -> bool:
        """Tell whether a name is that of a file on disk, and not of a part of the log or of memory."""
        entry = self.manifest.files.get(name)
        return name not in self.held and (entry is None or entry.offset is None)

    def array(self, name: str, types: Sequence[str]) -> NDArray[Any]:
        """Return the array in a file, which must have one of some types."""
        content = self.file(name).content
        try:
            array = array_in(content)
        except Exception:  # NumPy may raise anything for a header that it did not write
            raise self.damaged(f"{name} is not a NumPy file") from None
        if array.dtype.name not in types or not array.dtype.isnative:
            raise self.damaged(f"{name} holds {array.dtype} instead of {' or '.join(types)}")
        return array

    def table(self, names: Iterable[str], *columns: str) -> pa.Table:
        """Return some columns of the tables in files, whose rows follow one another."""
        parts = []
        for name in names:
            content = self.file(name).content
            try:
                parts.append(table_in(content).select(list(columns)))
            except (pa.ArrowException, OSError, KeyError, ValueError):
                raise self.damaged(f"{name} is not an Arrow file with {', '.join(columns)}") from None
        try:
            return pa.concat_tables(parts)
        except pa.ArrowException:
            raise self.damaged(f"{', '.join(names) or 'no files at all'} do not fit together") from None

    def tries(self, entry: RelationEntry) -> dict[ColumnOrder, Trie]:
        """Return all tries of a relation; column orders that share their files share a trie."""
        made: dict[tuple[LevelEntry, ...], Trie] = {}
        return {
            columns: made.setdefault(order.levels, self.stored_trie(entry, columns)) for columns, order in entry.orders.items()
        }

    def stored_trie(self, entry: RelationEntry, columns: ColumnOrder) -> Trie:
        """Return the trie of a relation in a column order that is stored."""
        shards = Shards(self.manifest.shards, self.manifest.domains[entry.domains[columns[0]]].size)
        levels = tuple(self._level(level) for level in entry.orders[columns].levels)
        return Trie(levels, keyed=len(columns) > 1, shards=shards)

    def _level(self, entry: LevelEntry) -> Level:
        values = self.array(entry.values, (self.manifest.codes,))
        if entry.range is not None:
            first, last = entry.range
            if last > len(values):
                raise self.damaged(f"{entry.values} ends before {entry.range}")
            values = values[first:last]
        offsets = np.array([0, len(values)], np.int64) if entry.offsets is None else self.array(entry.offsets, OFFSET_TYPES)
        if not len(offsets) or int(offsets[-1]) != len(values):
            raise self.damaged(f"{entry.offsets or entry.values} and {entry.values} do not fit together")
        return Level(offsets, values)
