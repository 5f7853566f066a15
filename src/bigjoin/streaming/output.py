"""The folder that signed matches are written to, in which a reader sees only whole committed epochs.

The files of an epoch are staged aside (`_staging`). The commit of the index names them; then their folder is renamed, and a
line with the counts is added. If a process is killed in between, that is done when the folder is named again. An index knows
its outputs by the identity in each folder (`_bigjoin.json`), not by path: anybody could write a path into a manifest.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bigjoin.errors import IndexFormatError, OutputError, reason
from bigjoin.index.manifest_entries import CountsLine, Manifest, PublicationEntry
from bigjoin.index.typed_json import WrongFieldError, from_json, to_json
from bigjoin.paths import check_local
from bigjoin.storage import Storage, storage_at

STAGING = "_staging"
COUNTS = "_counts.jsonl"
ABOUT = "_bigjoin.json"
TAIL_BYTES = 1 << 16
"""The end of the counts, which holds the last line."""


@dataclass(frozen=True)
class OutputEntry:
    """What a folder says about itself: the index and the queries that it is the output of."""

    index: str
    queries: Mapping[str, str]
    identity: str | None = None
    """Folders of older versions have none."""


class WatchOutput:
    """A folder that reports an index's epochs, for one query or for several by name."""

    def __init__(self, path: Path, queries: Mapping[str, str], origin: str) -> None:
        check_local(path, "matches are written")
        self.path, self.queries = path.absolute(), dict(queries)
        self.storage = storage_at(self.path)
        self.identity = self._claim(OutputEntry(origin, self.queries, uuid.uuid4().hex))

    def _claim(self, mine: OutputEntry) -> str:
        """Make the folder the output of an index and its queries, or refuse if it is not; return its identity."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not self.storage.exists(ABOUT):
                if any(not name.startswith(("_", ".")) for name in self.storage.list()):
                    raise OutputError(f"{self.path} is not empty, and not the output of a watch: choose a new folder")
                self._describe(mine)
            known = from_json(OutputEntry, json.loads(self.storage.read(ABOUT)))
        except OSError as error:
            raise OutputError(f"the output folder {self.path} cannot be written: {reason(error)}") from None
        except (ValueError, RecursionError, IndexFormatError, WrongFieldError):
            raise OutputError(f"{self.path / ABOUT} is not what a watch writes: choose a new output folder") from None
        if known.index != mine.index:
            raise OutputError(f"{self.path} is the output of another index: choose a new folder")
        if known.queries != mine.queries:
            shown = "; ".join(known.queries.values())
            raise OutputError(f"{self.path} is the output of other queries ({shown}): choose a new folder")
        if known.identity is None:
            known = replace(known, identity=mine.identity)
            with self._writing():
                self._describe(known)
        return str(known.identity)

    def _describe(self, entry: OutputEntry) -> None:
        self.storage.publish(ABOUT, json.dumps(to_json(entry), indent=1).encode())

    def owns(self, entry: PublicationEntry) -> bool:
        """Tell whether a publication belongs here: by identity, or in older indices by path or by what is staged."""
        if not entry.output.startswith("/"):
            return entry.output == self.identity
        staged = any(self.storage.is_folder(f"{STAGING}/{folder}") for folder in entry.folders)
        return staged or Path(entry.output).resolve() == self.path.resolve()

    def others(self, manifest: Manifest) -> tuple[PublicationEntry, ...]:
        """Return the publications of a manifest that belong to other folders."""
        return tuple(entry for entry in manifest.publications if not self.owns(entry))

    def finish(self, manifest: Manifest) -> None:
        """Publish what a manifest has for this folder, in its order."""
        for entry in manifest.publications:
            if self.owns(entry):
                self.publish(entry)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError(f"the output folder {self.path} cannot be written: {reason(error)}") from error

    def stage(self, epoch: int) -> dict[str, Path]:
        """Return an empty folder for the matches of each query in an epoch."""
        if self.storage.exists(STAGING) and not self.storage.is_folder(STAGING):
            raise OutputError(f"{self.path / STAGING} is a link: matches are staged inside the output folder; remove it")
        self.clear()
        with self._writing():
            return {name: self.storage.create_folder(f"{STAGING}/{self.folder(name, epoch)}") for name in self.queries}

    def seal(self, folders: Mapping[str, Path], schemas: Mapping[str, pa.Schema]) -> None:
        """Make staged matches durable; a folder without rows gets an empty file that has their columns."""
        with self._writing():
            for name, folder in folders.items():
                if not any(folder.iterdir()):
                    pq.write_table(schemas[name].empty_table(), folder / "part-none.parquet")
                staged = str(folder.relative_to(self.path))
                for file in self.storage.list(staged):
                    self.storage.sync(f"{staged}/{file}")
                self.storage.sync(staged)
            for made in {*(str(folder.parent.relative_to(self.path)) for folder in folders.values()), STAGING, ""}:
                self.storage.sync(made)

    def publication(self, epoch: int, line: CountsLine) -> PublicationEntry:
        """Return the manifest's entry of an epoch's output, from which it can be finished."""
        return PublicationEntry(self.identity, tuple(self.folder(name, epoch) for name in self.queries), line)

    def publish(self, entry: PublicationEntry) -> None:
        """Finish the output of a committed epoch where that is still to be done: rename its folders, and add its line."""
        changed = {""}
        with self._writing():
            for folder in entry.folders:
                staged = f"{STAGING}/{folder}"
                if self.storage.is_folder(staged) and not self.storage.exists(folder):
                    self.storage.move(staged, folder)
                    changed.add(folder.rpartition("/")[0])
            _add_line(self.storage, entry.line)
            for folder in changed:
                self.storage.sync(folder)

    def clear(self) -> None:
        """Remove matches that were staged and not committed."""
        self.storage.remove(STAGING)

    def folder(self, name: str, epoch: int) -> str:
        """Return the folder of a query's matches in an epoch, relative to the output's."""
        return f"epoch={epoch}" if len(self.queries) == 1 else f"{name}/epoch={epoch}"


def _add_line(storage: Storage, line: CountsLine) -> None:
    """Add a line to the counts, after the last whole one, unless it is there already."""
    size = storage.status(COUNTS).bytes if storage.exists(COUNTS) else 0
    tail = storage.read(COUNTS, max(0, size - TAIL_BYTES)) if size else b""
    whole = tail.rfind(b"\n") + 1
    last = -1
    if lines := tail[:whole].splitlines():
        with suppress(ValueError, KeyError):
            last = int(json.loads(lines[-1])["epoch"])
    if last < int(str(line["epoch"])):
        storage.write_from(COUNTS, size - len(tail) + whole, json.dumps(line).encode() + b"\n")
