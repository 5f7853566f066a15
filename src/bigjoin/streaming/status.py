"""How far a watch has come, as its index and its output say it: nothing is locked, written or started to tell.

A watch may be running meanwhile. The manifest and its log are read as one version; what is found of files beside them is as
of that moment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from bigjoin.errors import IndexFormatError, OutputError, reason
from bigjoin.index.kept import KeptVersions
from bigjoin.index.manifest_entries import ClockEntry, LedgerEntry, Manifest, RelationEntry
from bigjoin.index.manifest_file import LOCK, version_of
from bigjoin.index.typed_json import WrongFieldError
from bigjoin.index.writer import freeable
from bigjoin.storage import Place, readable, storage_at
from bigjoin.streaming.output import ABOUT, QUARANTINE, last_line
from bigjoin.streaming.output_entry import OutputEntry, SpanEntry, read_entry

ATTEMPTS = 5
"""How often a version is read again that a writer replaces meanwhile."""


@dataclass(frozen=True)
class QueryStatus:
    """A query that was watched in some epoch: how many matches it had after it, and whether that is the last epoch."""

    query: str
    count: int
    epoch: int
    current: bool


@dataclass(frozen=True)
class RelationStatus:
    """How many edges a relation has, and how many rows if they have ids or properties."""

    edges: int
    rows: int | None


@dataclass(frozen=True)
class LogStatus:
    """How many epochs, or other changes, lie in the log, and how large it is."""

    records: int
    bytes: int


@dataclass(frozen=True)
class OutputQueryStatus:
    """A query that an output folder reports: where, since when, and whether the last watch had it."""

    query: str
    folder: str
    watched: bool
    spans: tuple[SpanEntry, ...]
    count: int | None
    """How many matches it has, if that is known after the last epoch of the index."""


@dataclass(frozen=True)
class OutputStatus:
    """What an output folder has."""

    path: str
    queries: Mapping[str, OutputQueryStatus]
    epoch: int | None
    """The last one that it reports."""
    waiting: tuple[int, ...]
    """Committed epochs that are still to be published there."""
    quarantined: int | None
    """How many updates were put aside, if any were."""


@dataclass(frozen=True)
class WatchStatus:
    """How far a watch has come."""

    index: str
    epoch: int
    committed: str
    """When the current version was committed (UTC)."""
    ledger: LedgerEntry | None
    """The source of the last epoch of a watch, and which of its batches or files that was."""
    queries: tuple[QueryStatus, ...]
    relations: Mapping[str, RelationStatus]
    vertices: int | None
    runs: int
    run_tuples: int
    log: LogStatus | None
    waiting: int
    """Publications of epochs that are not known to be in place, of all outputs."""
    clock: ClockEntry | None
    writer: str | None
    """The process that holds the lock of the index now, if one does; between epochs a watch holds none."""
    bytes: int
    keep_epochs: int
    """How many epochs before the last one stay readable."""
    oldest: int
    """The oldest epoch that is readable."""
    freeable: int
    """What a vacuum would remove, in bytes."""
    output: OutputStatus | None = None


def status_of(path: Place, output: Place | None = None) -> WatchStatus:
    """Return how far the watch of an index has come, with what its output folder has; raise IndexFormatError or OutputError."""
    begun, manifest, log = _version(path)
    writer = _writer(path)
    found = WatchStatus(
        index=str(path),
        epoch=manifest.epoch,
        committed=manifest.created,
        ledger=manifest.ledger,
        queries=tuple(
            QueryStatus(text, int(one.count), one.epoch, one.epoch == manifest.epoch) for text, one in manifest.watched.items()
        ),
        relations={
            name: _relation(entry)
            for name, entry in manifest.relations.items()
            if len(entry.domains) > 1 and not entry.is_stored_result
        },
        vertices=manifest.domains["vertex"].size if "vertex" in manifest.domains else None,
        runs=len(manifest.runs),
        run_tuples=sum(run.tuples for run in manifest.runs),
        log=log,
        waiting=len(manifest.publications),
        clock=manifest.clock,
        writer=writer,
        bytes=sum(entry.bytes for entry in manifest.files.values()),
        keep_epochs=manifest.keep_epochs,
        oldest=KeptVersions(path, begun, manifest.epoch).oldest,
        freeable=freeable(path, builds=writer is None),
    )
    return found if output is None else replace(found, output=_output(output, manifest))


def _version(path: Place) -> tuple[Manifest, Manifest, LogStatus | None]:
    """Return the manifest before and after its log, and that log; a writer may replace them while they are read."""
    for attempt in range(ATTEMPTS):
        try:
            begun, manifest, end = version_of(path)
            return begun, manifest, None if end is None else LogStatus(end.records, end.place)
        except IndexFormatError:
            if attempt == ATTEMPTS - 1 or not storage_at(path).is_folder():
                raise
    raise AssertionError("the last attempt returns or raises")


def _relation(entry: RelationEntry) -> RelationStatus:
    rows = entry.rows.tuples // (2 if entry.rows.symmetric else 1) if entry.rows is not None else None
    return RelationStatus(entry.tuples // (2 if entry.symmetric else 1), rows)


def _writer(path: Place) -> str | None:
    """Return what the lock file says of its holder, unless that was a process of this machine that is gone."""
    try:
        holder = storage_at(path).read(LOCK).decode(errors="replace").strip()
    except (OSError, IndexFormatError):
        return None
    named = re.fullmatch(r"process (\d+) on (.*)", holder)
    if named is not None and named[2] == os.uname().nodename:
        try:
            os.kill(int(named[1]), 0)
        except (ProcessLookupError, OverflowError):
            return None
        except PermissionError:  # somebody else's process
            pass
    return holder or None


def _output(path: Place, manifest: Manifest) -> OutputStatus:
    entry = entry_of(path)
    if entry.index != manifest.origin:
        raise OutputError(f"{path} is the output of another index")
    storage = storage_at(path)
    counts = {text: int(one.count) for text, one in manifest.watched.items() if one.epoch == manifest.epoch}
    queries = {
        name: OutputQueryStatus(
            one.query, one.folder, one.is_watched, one.spans, counts.get(one.query) if one.is_watched else None
        )
        for name, one in entry.queries.items()
    }
    last = last_line(storage)
    mine = (int(str(one.line["epoch"])) for one in manifest.publications if one.output == entry.identity)
    waiting = tuple(epoch for epoch in mine if last is None or epoch > last)
    return OutputStatus(str(path), queries, last, waiting, _quarantined(path / QUARANTINE))


def entry_of(path: Place) -> OutputEntry:
    """Return what an output folder says about itself; raise OutputError if it is none."""
    try:
        return read_entry(storage_at(path).read(ABOUT))
    except FileNotFoundError:
        raise OutputError(f"{path} is not the output of a watch: it has no {ABOUT}") from None
    except OSError as error:
        raise OutputError(f"the output folder {path} cannot be read: {reason(error)}") from None
    except (ValueError, RecursionError, IndexFormatError, WrongFieldError):
        raise OutputError(f"{path / ABOUT} is not what a watch writes") from None


def _quarantined(folder: Place) -> int | None:
    """Return how many rows lie in the Parquet files below a folder."""
    if not folder.is_dir():
        return None
    rows = 0
    for file in folder.rglob("*.parquet"):
        try:
            with readable(file) as source:
                rows += pq.read_metadata(source).num_rows
        except (pa.ArrowException, OSError):  # it is gone, or not ours
            continue
    return rows
