"""Where signed matches go: folders by epoch, of which a reader sees whole committed epochs only.

An epoch's files are staged aside (`_staging`). The commit of the index names them; then the folder is renamed, and a line with
the counts is added. What a process that was killed in between has left undone is done when the folder is named again: an index
knows its outputs by an identity that each folder has (`_bigjoin.json`), and not by a path, which anybody could write into a
manifest.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bigjoin.errors import IndexFormatError, OutputError, reason
from bigjoin.index.entries import PublicationEntry
from bigjoin.storage import Storage, storage_at

STAGING = "_staging"
COUNTS = "_counts.jsonl"
ABOUT = "_bigjoin.json"
TAIL_BYTES = 1 << 16
"""Bytes at the end of the counts among which the last line is."""


class Output:
    """A folder that an index's epochs are reported to, for one query or several, by name."""

    def __init__(self, path: Path, queries: Mapping[str, str], origin: str) -> None:
        self.path, self.queries, self.origin = path.absolute(), dict(queries), origin
        self.storage = storage_at(self.path)
        self.identity = self._claim()

    def _claim(self) -> str:
        """Make the folder this index's and these queries', or refuse if it is something else's; return its identity."""
        about = {"identity": uuid.uuid4().hex, "index": self.origin, "queries": self.queries}
        file = self.path / ABOUT
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not self.storage.exists(ABOUT):
                if any(not name.startswith(("_", ".")) for name in self.storage.list()):
                    raise OutputError(f"{self.path} is not empty, and not the output of a watch: choose a new folder")
                self._write_about(about)
            known = json.loads(self.storage.read(ABOUT))
            if not isinstance(known, dict) or not isinstance(known.get("queries"), dict):
                raise ValueError
        except OSError as error:
            raise OutputError(f"the output folder {self.path} cannot be written: {reason(error)}") from None
        except (ValueError, RecursionError, IndexFormatError):
            raise OutputError(f"{file} is not what a watch writes: choose a new output folder") from None
        if known.get("index") != self.origin:
            raise OutputError(f"{self.path} is the output of another index: choose a new folder")
        if known.get("queries") != self.queries:
            shown = "; ".join(map(str, known["queries"].values()))
            raise OutputError(f"{self.path} is the output of other queries ({shown}): choose a new folder")
        if "identity" not in known:  # older folders have none
            known = {**known, "identity": about["identity"]}
            with self._writing():
                self._write_about(known)
        return str(known["identity"])

    def _write_about(self, about: Mapping[str, Any]) -> None:
        self.storage.publish(ABOUT, json.dumps(about, indent=1).encode())

    def owns(self, entry: PublicationEntry) -> bool:
        """Tell whether what an index has staged belongs here: by identity, or, from before there was one, by what is here."""
        if not entry.output.startswith("/"):
            return entry.output == self.identity
        staged = any(self.storage.is_folder(f"{STAGING}/{folder}") for folder in entry.folders)
        return staged or Path(entry.output).resolve() == self.path.resolve()

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
        """Make what is staged durable; a folder without rows has a file without rows, so that it has columns."""
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

    def publication(self, epoch: int, line: Mapping[str, Any]) -> PublicationEntry:
        """Return what the manifest says of an epoch's output, for whoever has to finish it."""
        return PublicationEntry(self.identity, tuple(self.folder(name, epoch) for name in self.queries), dict(line))

    def publish(self, entry: PublicationEntry) -> None:
        """Finish the output of a committed epoch: rename its folders, and add its line, if that was not done before."""
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
        """Remove what was staged and not committed."""
        self.storage.remove(STAGING)

    def folder(self, name: str, epoch: int) -> str:
        """Return the folder of a query's matches in an epoch, below the output's."""
        return f"epoch={epoch}" if len(self.queries) == 1 else f"{name}/epoch={epoch}"


def _add_line(storage: Storage, line: Mapping[str, Any]) -> None:
    """Add a line to the counts, after the last whole one, unless it is there."""
    size = storage.status(COUNTS).bytes if storage.exists(COUNTS) else 0
    tail = storage.read(COUNTS, max(0, size - TAIL_BYTES)) if size else b""
    whole = tail.rfind(b"\n") + 1
    last = -1
    if lines := tail[:whole].splitlines():
        with suppress(ValueError, KeyError):
            last = int(json.loads(lines[-1])["epoch"])
    if last < line["epoch"]:
        storage.write_from(COUNTS, size - len(tail) + whole, json.dumps(line).encode() + b"\n")
