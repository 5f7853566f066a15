"""The log of epochs: a file at the end of which each small epoch is committed, by one record.

A record holds the files of an epoch, and what the epoch changes in the manifest. So the newest manifest of an index is
`manifest.json`, which names the log, after the changes of all sound records. When a log has grown, the next epoch is committed
by replacing `manifest.json`, as all other changes are, and begins another log.

A record is sound if its checksums are those of its bytes, and if it repeats the checksum of the record before it. A process
that is killed while it appends a record, or loses power, leaves one that is not sound: it counts for nothing, and the next
writer writes over it. What may be left behind the new record does not follow it. To tell all that from damage, each record
says up to where the log was synced when it was written: what lies before that has to be sound.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import xxhash

from bigjoin.index.checksums import file_entry
from bigjoin.index.manifest_changes import ManifestChange, change_between, changed
from bigjoin.index.manifest_entries import FileEntry, Manifest
from bigjoin.index.typed_json import from_json, to_json
from bigjoin.storage import Storage

RECORD_MAGIC = b"bjepoch1"
ALIGNMENT_BYTES = 64
"""Records, and the files in them, begin at multiples of this, so that they can be mapped as arrays."""

_HEADER = struct.Struct("<8sQQQQQ")
"""The magic bytes; the sizes of the files and of the change behind them; up to where the log was synced; the checksum of the
record before, or 0; and that of the files and the change."""
_CHECKSUM = struct.Struct("<Q")
"""Of the header, behind it."""

_ENCODER = json.JSONEncoder(separators=(",", ":"))

Contents: TypeAlias = Mapping[str, bytes]
"""Files by name that are not on disk yet."""


class DamagedLogError(Exception):
    """A record that was synced is not what was written."""


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where the records of a log end, how many there are, and the checksum of the last one."""

    place: int = 0
    records: int = 0
    checksum: int = 0


@dataclass(frozen=True, slots=True)
class LoggedChanges:
    """What the records of a log change, as JSON texts, and where they end."""

    texts: tuple[bytes, ...]
    end: LogEnd

    def applied_to(self, manifest: Manifest, until: int | None = None) -> Manifest:
        """Return the newest manifest, given the one before the log; raise WrongFieldError if a change does not fit.

        `until` is the last epoch whose change is applied, if it is not the last of all.
        """
        for text in self.texts:
            change = from_json(ManifestChange, json.loads(text))
            if until is not None and change.epoch > until:
                break
            manifest = changed(manifest, change)
        return manifest


def encoded(change: ManifestChange, contents: Contents, end: LogEnd, *, synced: int) -> tuple[bytes, LogEnd]:
    """Return the record of a change, to be written at the end of a log, and where the log ends then."""
    parts = [part for content in contents.values() for part in (content, bytes(-len(content) % ALIGNMENT_BYTES))]
    text = _ENCODER.encode(to_json(change)).encode()
    payload = b"".join([*parts, text])
    checksum = xxhash.xxh3_64_intdigest(payload)
    header = _HEADER.pack(RECORD_MAGIC, len(payload) - len(text), len(text), synced, end.checksum, checksum)
    header += _CHECKSUM.pack(xxhash.xxh3_64_intdigest(header))
    record = _padded(header) + _padded(payload)
    return record, LogEnd(end.place + len(record), end.records + 1, checksum)


def entries(contents: Contents, end: LogEnd) -> dict[str, FileEntry]:
    """Return the entries of the files in the record at the end of a log."""
    found, at = {}, end.place + ALIGNMENT_BYTES
    for name, content in contents.items():
        found[name] = replace(file_entry(np.frombuffer(content, np.uint8)), offset=at)
        at += len(content) + -len(content) % ALIGNMENT_BYTES
    return found


def logged_changes(content: bytes) -> LoggedChanges:
    """Return what the bytes of a log come to; raise DamagedLogError if a record that was synced is not sound."""
    end, texts = LogEnd(), []
    while (found := _record(content, end.place)) is not None and found.before == end.checksum:
        end = LogEnd(found.end, end.records + 1, found.checksum)
        texts.append(found.text)
    if any(after.synced > end.place for after in _records_behind(content, end.place)):
        raise DamagedLogError(f"the record at byte {end.place:,} is not what was written")
    return LoggedChanges(tuple(texts), end)


@dataclass(frozen=True, slots=True)
class _WholeRecord:
    """A record whose checksums are those of its bytes; it may still not be one that follows what is before it."""

    text: bytes
    synced: int
    before: int
    checksum: int
    end: int


def _records_behind(content: bytes, at: int) -> Iterator[_WholeRecord]:
    """Give all whole records that begin at a place or behind it."""
    place = content.find(RECORD_MAGIC, at)
    while place >= 0:
        if (found := _record(content, place)) is not None:
            yield found
        place = content.find(RECORD_MAGIC, place + 1)


def _record(content: bytes, at: int) -> _WholeRecord | None:
    """Return the whole record at a place, if there is one."""
    header = content[at : at + _HEADER.size + _CHECKSUM.size]
    if len(header) < _HEADER.size + _CHECKSUM.size or not header.startswith(RECORD_MAGIC):
        return None
    _, files, text, synced, before, checksum = _HEADER.unpack_from(header)
    (of_header,) = _CHECKSUM.unpack_from(header, _HEADER.size)
    first = at + ALIGNMENT_BYTES
    last = first + files + text
    if of_header != xxhash.xxh3_64_intdigest(header[: _HEADER.size]) or last > len(content):
        return None
    if checksum != xxhash.xxh3_64_intdigest(memoryview(content)[first:last]):
        return None
    return _WholeRecord(content[first + files : last], synced, before, checksum, last + -last % ALIGNMENT_BYTES)


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % ALIGNMENT_BYTES)


@dataclass
class EpochLog:
    """The end of a log, at which its only writer appends records; the caller holds the lock of the index."""

    storage: Storage
    name: str
    end: LogEnd = LogEnd()
    synced: int = 0
    pending: list[bytes] = field(default_factory=list)
    """Records that are not written yet: these are the last before the end."""
    pending_bytes: int = 0
    held: dict[str, bytes] = field(default_factory=dict)
    """The files in pending records."""
    _written: LogEnd = field(init=False)
    """The end without the pending records."""

    def __post_init__(self) -> None:
        self._written = self.end

    def append(self, old: Manifest, new: Manifest, contents: Contents) -> Manifest:
        """Add a record, to be written, that makes a manifest the next one, with some new files; return what is committed."""
        change = change_between(old, new, entries(contents, self.end))
        record, self.end = encoded(change, contents, self.end, synced=self.synced)
        self.pending.append(record)
        self.pending_bytes += len(record)
        self.held.update(contents)
        return changed(old, change)

    def write(self, *, sync: bool = True) -> None:
        """Write what is pending and, unless told otherwise, see to it that all records survive a power failure.

        If that fails, what was pending is lost.
        """
        content = b"".join(self.pending)
        self.pending, self.pending_bytes, self.held = [], 0, {}
        try:
            if content:
                self.storage.write_from(self.name, self._written.place, content, sync=sync)
            elif sync and self.synced < self.end.place:
                self.storage.sync(self.name)
        except BaseException:  # also an interrupt: whoever opens the index again sees what is on disk
            self.end = self._written
            raise
        self._written = self.end
        self.synced = self.end.place if sync else self.synced


def offsets_within(files: Mapping[str, FileEntry], size: int) -> bool:
    """Tell whether the files that lie in a log end before it does."""
    return all(entry.offset is None or entry.offset + entry.bytes <= size for entry in files.values())
