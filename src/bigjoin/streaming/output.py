"""Where signed matches go: folders by epoch, of which a reader sees whole committed epochs only.

An epoch's files are staged aside (`_staging`). The commit of the index names them; then the folder is renamed, and a line with
the counts is added. What a process that was killed in between has left undone is done when the folder is named again: an index
knows its outputs by an identity that each folder has (`_bigjoin.json`), and not by a path, which anybody could write into a
manifest.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bigjoin.errors import IndexFormatError, OutputError, reason
from bigjoin.index.entries import PublicationEntry
from bigjoin.index.inside import open_inside, read_inside
from bigjoin.index.manifest import sync

STAGING = "_staging"
COUNTS = "_counts.jsonl"
ABOUT = "_bigjoin.json"


class Output:
    """A folder that an index's epochs are reported to, for one query or several, by name."""

    def __init__(self, path: Path, queries: Mapping[str, str], origin: str) -> None:
        self.path, self.queries, self.origin = path.absolute(), dict(queries), origin
        self.identity = self._claim()

    def _claim(self) -> str:
        """Make the folder this index's and these queries', or refuse if it is something else's; return its identity."""
        about = {"identity": uuid.uuid4().hex, "index": self.origin, "queries": self.queries}
        file = self.path / ABOUT
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not file.exists():
                if any(not entry.name.startswith(("_", ".")) for entry in self.path.iterdir()):
                    raise OutputError(f"{self.path} is not empty, and not the output of a watch: choose a new folder")
                self._write_about(about)
            known = json.loads(read_inside(self.path, ABOUT))
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
        aside = self.path / f".{ABOUT}.{os.getpid()}"
        aside.write_text(json.dumps(about, indent=1), encoding="utf-8")
        sync(aside)
        aside.replace(self.path / ABOUT)
        sync(self.path)

    def owns(self, entry: PublicationEntry) -> bool:
        """Tell whether what an index has staged belongs here: by identity, or, from before there was one, by what is here."""
        if not entry.output.startswith("/"):
            return entry.output == self.identity
        staged = any((self.path / STAGING / folder).is_dir() for folder in entry.folders)
        return staged or Path(entry.output).resolve() == self.path.resolve()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError(f"the output folder {self.path} cannot be written: {reason(error)}") from error

    def stage(self, epoch: int) -> dict[str, Path]:
        """Return an empty folder for the matches of each query in an epoch."""
        if (self.path / STAGING).is_symlink():
            raise OutputError(f"{self.path / STAGING} is a link: matches are staged inside the output folder; remove it")
        self.clear()
        folders = {name: self.path / STAGING / self.folder(name, epoch) for name in self.queries}
        with self._writing():
            for folder in folders.values():
                folder.mkdir(parents=True)
        return folders

    def seal(self, folders: Mapping[str, Path], schemas: Mapping[str, pa.Schema]) -> None:
        """Make what is staged durable; a folder without rows has a file without rows, so that it has columns."""
        with self._writing():
            for name, folder in folders.items():
                if not any(folder.iterdir()):
                    pq.write_table(schemas[name].empty_table(), folder / "part-none.parquet")
                for file in folder.iterdir():
                    sync(file)
                sync(folder)
            for made in {*(folder.parent for folder in folders.values()), self.path / STAGING, self.path}:
                sync(made)

    def publication(self, epoch: int, line: Mapping[str, Any]) -> PublicationEntry:
        """Return what the manifest says of an epoch's output, for whoever has to finish it."""
        return PublicationEntry(self.identity, tuple(self.folder(name, epoch) for name in self.queries), dict(line))

    def publish(self, entry: PublicationEntry) -> None:
        """Finish the output of a committed epoch: rename its folders, and add its line, if that was not done before."""
        changed = {self.path}
        with self._writing():
            for folder in entry.folders:
                staged, final = self.path / STAGING / folder, self.path / folder
                if staged.is_dir() and not final.exists():
                    final.parent.mkdir(parents=True, exist_ok=True)
                    staged.rename(final)
                    changed.add(final.parent)
            _add_line(self.path, entry.line)
            for folder_changed in changed:
                sync(folder_changed)

    def clear(self) -> None:
        """Remove what was staged and not committed."""
        shutil.rmtree(self.path / STAGING, ignore_errors=True)

    def folder(self, name: str, epoch: int) -> str:
        """Return the folder of a query's matches in an epoch, below the output's."""
        return f"epoch={epoch}" if len(self.queries) == 1 else f"{name}/epoch={epoch}"


def _add_line(path: Path, line: Mapping[str, Any]) -> None:
    """Add a line to the counts, after the last whole one, unless it is there."""
    descriptor = open_inside(path, COUNTS, os.O_RDWR | os.O_CREAT)
    try:
        size = os.fstat(descriptor).st_size
        tail = os.pread(descriptor, 1 << 16, max(0, size - (1 << 16)))
        whole = tail.rfind(b"\n") + 1
        lines = tail[:whole].splitlines()
        last = -1
        if lines:
            with suppress(ValueError, KeyError):
                last = int(json.loads(lines[-1])["epoch"])
        if last >= line["epoch"]:
            return
        os.ftruncate(descriptor, size - len(tail) + whole)
        text = json.dumps(line).encode() + b"\n"
        if os.pwrite(descriptor, text, size - len(tail) + whole) < len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
