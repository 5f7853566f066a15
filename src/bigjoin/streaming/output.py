"""The folder that signed matches are written to, in which a reader sees only whole committed epochs.

The files of an epoch are staged aside (`_staging`). The commit of the index names them; then their folder is renamed, and a
line with the counts is added. If a process is killed in between, that is done when the folder is named again. On a store, where
no lock keeps two watches apart, each stages in a folder of its own, so that none takes what another one is about to commit. An
index knows
its outputs by the identity in each folder (`_bigjoin.json`, see `output_entry.py`), not by path: anybody could write a path
into a manifest.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from bigjoin.errors import IndexFormatError, OutputError, reason
from bigjoin.index.manifest_entries import CountsLine, Manifest, PublicationEntry
from bigjoin.index.typed_json import WrongFieldError, to_json
from bigjoin.index.writer import ABANDONED_SECONDS
from bigjoin.storage import Place, Storage, storage_at
from bigjoin.storage.arrays import write_parquet
from bigjoin.streaming.output_entry import OutputEntry, ToReport, folders_of, read_entry, with_spans

STAGING = "_staging"
COUNTS = "_counts.jsonl"
COUNTS_FOLDER = "_counts"
"""On a store, the lines of the counts are objects in here: `epoch=N.json`, put after all matches of the epoch."""
ABOUT = "_bigjoin.json"
QUARANTINE = "_quarantine"
"""Where bad rows of updates are written; readers of tables leave out folders with such a name."""
TAIL_BYTES = 1 << 16
"""The end of the counts, which holds the last line."""


class WatchOutput:
    """A folder that reports an index's epochs for queries, each of which has its own folder inside or is alone."""

    def __init__(self, path: Place, queries: Mapping[str, ToReport], origin: str) -> None:
        self.path, self.queries = path.absolute(), dict(queries)
        self.storage = storage_at(self.path)
        self.entry = self._claim(origin)
        self.identity = str(self.entry.identity)
        self.folders = folders_of(self.queries, self.entry, self.path)
        self._mine = uuid.uuid4().hex[:12] if self.storage.is_store else None
        self._staging = _staging(self._mine)

    def _claim(self, origin: str) -> OutputEntry:
        """Make the folder the output of an index, or refuse if it is not; return what it says about itself."""
        mine = OutputEntry(origin, identity=uuid.uuid4().hex)
        try:
            if isinstance(self.path, Path):
                made = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
                self.path.mkdir(parents=True, exist_ok=True)
                for folder in made:
                    storage_at(folder.parent).sync()
            if not self.storage.exists(ABOUT):
                if any(not name.startswith(("_", ".")) for name in self.storage.list()):
                    raise OutputError(f"{self.path} is not empty, and not the output of a watch: choose a new folder")
                with suppress(FileExistsError):  # on a store, another watch begins at the same time
                    self.storage.create(ABOUT, _description(mine))
            known = read_entry(self.storage.read(ABOUT))
        except OSError as error:
            raise OutputError(f"the output folder {self.path} cannot be written: {reason(error)}") from None
        except (ValueError, RecursionError, IndexFormatError, WrongFieldError):
            raise OutputError(f"{self.path / ABOUT} is not what a watch writes: choose a new output folder") from None
        if known.index != mine.index:
            raise OutputError(f"{self.path} is the output of another index: choose a new folder")
        if known.identity is None:
            known = replace(known, identity=mine.identity)
            with self._writing():
                self._describe(known)
        return known

    def begin(self, epoch: int, counts: Mapping[str, int]) -> None:
        """Record which queries are watched from after an epoch on, each with its count of matches then."""
        said = with_spans(
            self.entry, self.queries, self.folders, epoch=epoch, last=min(epoch, self._last_epoch()), counts=counts
        )
        if said != self.entry:
            with self._writing():
                self._describe(said)
            self.entry = said

    def replayed(self, first: int) -> int:
        """Return the last epoch that a replay from some epoch on has put here, or the one before; refuse any other output."""
        if not self.entry.queries:
            return first - 1
        spans = {(span.first, span.last) for query in self.entry.queries.values() for span in query.spans}
        if self.entry.queries.keys() != self.queries.keys() or spans != {(first, None)}:
            raise OutputError(f"{self.path} has other queries or begins with another epoch: choose a new folder for a replay")
        return max(first - 1, self._last_epoch())

    def _last_epoch(self) -> int:
        """Return the last epoch that the output reports: that of the last line of counts or, without these, of a folder."""
        if (line := last_line(self.storage)) is not None:
            return line
        inside = {query.folder for query in self.entry.queries.values() if self.storage.is_folder(query.folder)}
        names = (name for folder in inside for name in self.storage.list(folder))
        return max((int(name[6:]) for name in names if re.fullmatch(r"epoch=\d+", name)), default=0)

    def _describe(self, entry: OutputEntry) -> None:
        self.storage.publish(ABOUT, _description(entry))

    def owns(self, entry: PublicationEntry) -> bool:
        """Tell whether a publication belongs here: by identity, or in older indices by path or by what is staged."""
        if not entry.output.startswith("/"):
            return entry.output == self.identity
        staged = any(self.storage.is_folder(f"{self._staging}/{folder}") for folder in entry.folders)
        return staged or (isinstance(self.path, Path) and Path(entry.output).resolve() == self.path.resolve())

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

    def stage(self, epoch: int, *, alone: bool = True) -> dict[str, Place]:
        """Return an empty folder for the matches of each query in an epoch; it is the only staged one, or not `alone`."""
        if self.storage.exists(STAGING) and not self.storage.is_folder(STAGING):
            raise OutputError(f"{self.path / STAGING} is a link: matches are staged inside the output folder; remove it")
        if alone:
            self.storage.remove(self._staging)
        for name in self.queries:
            self.storage.remove(f"{self._staging}/{self.folder(name, epoch)}")
        with self._writing():
            return {name: self._staged(self.folder(name, epoch)) for name in self.queries}

    def _staged(self, folder: str) -> Place:
        """Return where the files of a staged folder are written: on a store, tasks put them there themselves."""
        name = f"{self._staging}/{folder}"
        return self.path / name if self.storage.is_store else self.storage.create_folder(name)

    def stage_bad_rows(self, epoch: int, rows: pa.Table) -> tuple[str, Place]:
        """Write the bad rows of an epoch beside its staged matches; return the name of their folder, and where it is now."""
        name = f"{QUARANTINE}/epoch={epoch}"
        with self._writing():
            self.storage.remove(f"{self._staging}/{name}")
            folder = self._staged(name)
            write_parquet(rows, folder / "part-0.parquet")
        return name, folder

    def seal(
        self, folders: Mapping[str, Place], schemas: Mapping[str, pa.Schema], files: Mapping[str, Sequence[Place]]
    ) -> None:
        """Make staged matches durable, which are in some files of each folder: a task that was tried again has left others.

        A folder without rows gets an empty file that has their columns.
        """
        with self._writing():
            for name, folder in folders.items():
                named = {file.name for file in files.get(name, ())}
                for left in folder.iterdir() if name in schemas and folder.exists() else ():
                    if left.name not in named:
                        left.unlink()
                if not (folder.exists() and any(folder.iterdir())):
                    write_parquet(schemas[name].empty_table(), folder / "part-none.parquet")
            if self.storage.is_store:  # an object that exists is durable
                return
            names = {str(folder.relative_to(self.path)) for folder in folders.values()}
            for staged in names:
                for file in self.storage.list(staged):
                    self.storage.sync(f"{staged}/{file}")
                self.storage.sync(staged)
            for made in {*(staged.rpartition("/")[0] for staged in names), *((STAGING,) if folders else ()), ""}:
                self.storage.sync(made)

    def publication(self, epoch: int, line: CountsLine) -> PublicationEntry:
        """Return the manifest's entry of an epoch's output, from which it can be finished."""
        return PublicationEntry(self.identity, tuple(self.folder(name, epoch) for name in self.queries), line, self._mine)

    def publish(self, entry: PublicationEntry) -> None:
        """Finish the output of a committed epoch where that is still to be done: rename its folders, and add its line."""
        changed, staging = {""}, _staging(entry.staged)
        with self._writing():
            for folder in entry.folders:
                staged = f"{staging}/{folder}"
                begun = self.storage.exists(folder) and not self.storage.is_store  # there, files are moved one by one
                if self.storage.is_folder(staged) and not begun:
                    self.storage.move(staged, folder)
                    changed.add(folder.rpartition("/")[0])
            if self.storage.is_store:
                self.storage.remove(staging)
            _add_line(self.storage, entry.line)
            for folder in () if self.storage.is_store else changed:
                self.storage.sync(folder)

    def clear(self) -> None:
        """Remove matches that were staged and not committed: on a store, where somebody may be about to, once they are old."""
        for name in self.storage.list(STAGING) if self.storage.is_store else ():
            if self.storage.age(f"{STAGING}/{name}") >= ABANDONED_SECONDS:
                self.storage.remove(f"{STAGING}/{name}")
        if not self.storage.is_store:
            self.storage.remove(STAGING)

    def folder(self, name: str, epoch: int) -> str:
        """Return the folder of a query's matches in an epoch, relative to the output's."""
        return f"{self.folders[name]}/epoch={epoch}" if self.folders[name] else f"epoch={epoch}"

    @property
    def is_plain(self) -> bool:
        """Whether its figures are those of a single query that nobody has named."""
        return list(self.folders.values()) == [""]


def _staging(watch: str | None) -> str:
    """Return the folder in which a watch stages: one of its own on a store."""
    return STAGING if watch is None else f"{STAGING}/{watch}"


def _description(entry: OutputEntry) -> bytes:
    return json.dumps(to_json(entry), indent=1).encode()


def last_line(storage: Storage) -> int | None:
    """Return the epoch of the last whole line of an output's counts, if there is one."""
    if storage.is_store:
        return max(told_epochs(storage), default=None)
    return _end_of_counts(storage)[0]


def told_epochs(storage: Storage) -> list[int]:
    """Return the epochs that the counts on a store have an object for."""
    names = (re.fullmatch(r"epoch=(\d+)\.json", name) for name in storage.list(COUNTS_FOLDER))
    return sorted(int(name[1]) for name in names if name is not None)


def _add_line(storage: Storage, line: CountsLine) -> None:
    """Add a line to the counts, after the last whole one, unless it is there already; on a store, it is an object."""
    if storage.is_store:
        storage.publish(f"{COUNTS_FOLDER}/epoch={line['epoch']}.json", json.dumps(line).encode() + b"\n")
        return
    last, end = _end_of_counts(storage)
    if (-1 if last is None else last) < int(str(line["epoch"])):
        storage.write_from(COUNTS, end, json.dumps(line).encode() + b"\n")


def _end_of_counts(storage: Storage) -> tuple[int | None, int]:
    """Return the epoch of the last whole line of the counts, and where that line ends."""
    size = storage.status(COUNTS).bytes if storage.exists(COUNTS) else 0
    tail = storage.read(COUNTS, max(0, size - TAIL_BYTES)) if size else b""
    whole = tail.rfind(b"\n") + 1
    last = None
    if lines := tail[:whole].splitlines():
        with suppress(ValueError, KeyError):
            last = int(json.loads(lines[-1])["epoch"])
    return last, size - len(tail) + whole
