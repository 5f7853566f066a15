"""One epoch after another: updates in, signed matches out, committed together or not at all (`commit.py`)."""

from __future__ import annotations

import shutil
import tempfile
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from bigjoin.errors import BigjoinError, OutputError, SourceError, reason
from bigjoin.index.directory import Index
from bigjoin.index.manifest_entries import LedgerEntry
from bigjoin.index.manifest_file import check_target, read_manifest, replace_manifest
from bigjoin.index.phase import Phase
from bigjoin.index.versions import versions_of
from bigjoin.index.writer import building, locked, remove_old
from bigjoin.query.delta import DeltaPlan
from bigjoin.query.query import Query
from bigjoin.storage.scratch import scratch_directory
from bigjoin.streaming.commit import commit_epoch
from bigjoin.streaming.compaction import commit_compacted, is_worn
from bigjoin.streaming.epoch import Epoch, QueryChanges
from bigjoin.streaming.find import Execution, FindOptions, FoundChanges, find_changes
from bigjoin.streaming.ledger import is_committed
from bigjoin.streaming.live import LiveIndex, StagedEpoch
from bigjoin.streaming.output import WatchOutput
from bigjoin.streaming.watched import Watched
from bigjoin.streaming.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLEANING_SECONDS = 10.0
"""How often files that nothing needs any more are removed."""
LOCK_PATIENCE_SECONDS = 120.0
"""How long an epoch waits for another writer of the index: a query may be compacting it."""

Observer: TypeAlias = Callable[[Epoch], None]
"""A user's function that sees every epoch before it is committed."""


@dataclass
class Monitor:
    """The only writer of an index during an epoch; between epochs anybody may write it.

    A monitor can be pickled: it opens the index again in the other process.
    """

    path: Path
    watched: Mapping[str, Watched]
    _: KW_ONLY
    spark: Callable[[], SparkSession]
    """Gives the session, where one turns out to be needed."""
    initial: Callable[[Index, Query], int]
    """Counts the matches of a query that was not watched until now."""
    output: Path | None = None
    order: str | None = None
    window: Window | None = None
    strategy: str = "shared"
    workers: int | None = None
    batch_size: int | None = None
    execution: Execution | None = None
    verify: bool = True
    live: LiveIndex | None = field(default=None, init=False)
    """The index in memory; None makes the next epoch open it again."""
    counts: dict[str, int] = field(default_factory=dict, init=False)
    plans: dict[str, list[DeltaPlan]] = field(default_factory=dict, init=False)
    _output: WatchOutput | None = field(default=None, init=False)
    _scratch: Path | None = field(default=None, init=False)
    _cleaned: float = field(default_factory=time.monotonic, init=False)

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "spark": None, "live": None, "_output": None, "_scratch": None}

    @contextmanager
    def writing(self) -> Iterator[LiveIndex]:
        """Hold the lock of the index, and have its current version in memory."""
        check_target(self.path)
        with locked(self.path, patience=LOCK_PATIENCE_SECONDS):
            identity = read_manifest(self.path).identity
            if self.live is None or self.live.index.manifest.identity != identity:
                self.live = self._open()
            yield self.live

    def _open(self) -> LiveIndex:
        remove_old(self.path)
        index = Index.open(self.path, verify=self.verify)
        self._plan(index)
        if self.output is not None:
            texts = {name: str(watched.query) for name, watched in self.watched.items()}
            self._output = WatchOutput(self.output, texts, index.manifest.origin)
            self._output.finish(index.manifest)  # what a killed process has left
            self._output.clear()
        known = {name: _known_count(index, watched.query) for name, watched in self.watched.items()}
        if index.runs and None in known.values():
            index = commit_compacted(index, versions_of(index, index.runs))
        self.counts = {
            name: self.initial(index, self.watched[name].query) if count is None else count for name, count in known.items()
        }
        return LiveIndex(index, order=self.order, window=self.window)

    def _plan(self, index: Index) -> None:
        self.plans = {name: watched.plans(index.statistics) for name, watched in self.watched.items()}

    def apply(
        self,
        table: pa.Table,
        source: str = "the table of updates",
        *,
        ledger: LedgerEntry | None = None,
        adopt: bool = False,
        function: Observer | None = None,
    ) -> Epoch | None:
        """Apply one epoch, and commit it with its entry in the ledger; a function sees it before the commit.

        Return None if the ledger has the epoch already. `adopt` accepts a source of updates that the index has not followed.
        """
        started = time.perf_counter()
        with self.writing() as live:
            if ledger is not None and is_committed(live.index, ledger, adopt=adopt):
                return None
            with building(self.path) as writer:
                try:
                    staged = live.stage(table, writer.folder, source)
                    epoch = self._find(live, staged, writer.identity)
                    if function is not None:
                        _call(function, epoch)
                    counts = {str(one.query): epoch.queries[name].count for name, one in self.watched.items()}
                    index = commit_epoch(live.index, staged, epoch, writer, counts=counts, ledger=ledger, output=self._output)
                except SourceError:  # of malformed updates, before anything was changed
                    raise
                except BaseException:
                    self.live = None
                    raise
            live.committed(index, staged)
            self.counts = {name: changes.count for name, changes in epoch.queries.items()}
            self._publish(epoch, live)
            self._tend(live)
        epoch.seconds = time.perf_counter() - started
        return epoch

    def _find(self, live: LiveIndex, staged: StagedEpoch, identity: str) -> Epoch:
        """Execute the delta queries of every watched query over a staged epoch."""
        epoch = Epoch(staged.manifest.epoch, staged.fate)
        index = Index(self.path, replace(staged.manifest, identity=identity), live.index.verifies)
        phases = (Phase(live.versions, index, insert=False), Phase(live.versions, index, insert=True))
        options = FindOptions(self.spark, self.strategy, self.workers, self.batch_size, self.execution)
        folders = self._folders(epoch.number)
        schemas = {name: watched.schema(self.plans[name], index) for name, watched in self.watched.items()}
        for name, plans in self.plans.items():
            found, folder = FoundChanges(), folders.get(name)
            if staged.has_changes:
                try:
                    found = find_changes(plans, phases, schemas[name], folder, options)
                except OSError as error:  # a full disk, most likely
                    where = self._scratch if self._output is None else self._output.path
                    raise OutputError(f"the matches cannot be written to {where}: {reason(error)}") from error
            count = self.counts[name] + found.created - found.destroyed
            schema = None if folder is None else schemas[name]
            changes = QueryChanges(**vars(found), count=count, epoch=epoch.number, schema=schema)
            if folder is not None and self._output is None:  # the matches last as long as the changes that name them
                weakref.finalize(changes, shutil.rmtree, folder, ignore_errors=True)
            epoch.queries[name] = changes
        if self._output is not None:
            self._output.seal(folders, schemas)
        return epoch

    def _folders(self, epoch: int) -> dict[str, Path]:
        """Return a folder for the matches of each query whose matches are listed."""
        if self._output is not None:
            return self._output.stage(epoch)
        listed = [name for name, watched in self.watched.items() if watched.listing]
        if listed and self._scratch is None:
            self._scratch = scratch_directory("changes")
        return {name: Path(tempfile.mkdtemp(dir=self._scratch)) for name in listed}

    def _publish(self, epoch: Epoch, live: LiveIndex) -> None:
        """Move the matches of a committed epoch into place; if that fails, opening the index again will do it."""
        if self._output is None:
            return
        self.live = None
        self._output.finish(live.index.manifest)
        self.live = live
        for name, changes in epoch.queries.items():
            folder = self._output.path / self._output.folder(name, epoch.number)
            changes.files = [folder / file.name for file in changes.files]

    def finish(self) -> None:
        """Take published outputs off the index's list, so that a watch that ends normally leaves nothing to be finished."""
        if self._output is None or self.live is None:
            return
        with self.writing() as live:
            known = live.index.manifest
            others = self._output.others(known)
            if others != known.publications:
                replace_manifest(self.path, replace(known, publications=others))
                live.index = Index.open(self.path, verify=self.verify)

    def _tend(self, live: LiveIndex) -> None:
        """Compact the index if it is worn, and now and then remove files that nothing needs any more."""
        if is_worn(live.index):
            try:
                index = commit_compacted(live.index, live.versions)
            except OutputError as error:  # the epoch is committed, and the next one will try again
                warnings.warn(f"the index could not be compacted: {error}", stacklevel=2)
                return
            live.load(index)
            self._plan(index)
        if time.monotonic() - self._cleaned > CLEANING_SECONDS:
            remove_old(self.path)
            self._cleaned = time.monotonic()


def _known_count(index: Index, query: Query) -> int | None:
    """Return how many matches a query has, if it was watched until now or reads a relation that is empty."""
    known = index.manifest.watched.get(str(query))
    if known is not None and known.epoch == index.epoch:
        return int(known.count)
    alone = (atom for atom in query.positive if atom.pattern is None or len(atom.pattern.relations) <= 1)
    read = (index.statistics.relations.get(atom.relation) for atom in alone)
    return 0 if any(relation is not None and not relation.tuples for relation in read) else None


def _call(function: Observer, epoch: Epoch) -> None:
    """Call a user's function, and tell its errors from those of the index."""
    try:
        function(epoch)
    except Exception as error:
        name = getattr(function, "__name__", "function")
        raise BigjoinError(f"{name} failed at epoch {epoch.number}, which is not committed: {error!r}") from error
