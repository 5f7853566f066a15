"""One epoch after another: updates in, signed matches out, committed together or not at all (`commit.py`)."""

from __future__ import annotations

import atexit
import tempfile
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from bigjoin.defaults import LOCAL, STRATEGIES, BadRowName, SyncName
from bigjoin.errors import BigjoinError, OutputError, QueryError, SourceError, reason, warn_of_reading
from bigjoin.index.directory import Index
from bigjoin.index.manifest_entries import LedgerEntry, PublicationEntry
from bigjoin.index.manifest_file import MANIFEST, TakenIndexError, check_target, commit_publications, log_of, read_manifest
from bigjoin.index.versions import versions_of
from bigjoin.index.writer import locked, remove_old
from bigjoin.joins.phase import Phase
from bigjoin.query.delta import DeltaPlan
from bigjoin.query.query import Query
from bigjoin.spark.session import common_directory, is_local
from bigjoin.storage import FileStatus, Place, is_on_store, remove_folder
from bigjoin.storage.scratch import scratch_directory
from bigjoin.streaming.bad_rows import SortedRows, may_have_bad_properties, sort_rows
from bigjoin.streaming.commit import EpochCommit, commit_epoch, committing
from bigjoin.streaming.compaction import commit_compacted, is_worn
from bigjoin.streaming.count_changes import ChangeCounter
from bigjoin.streaming.epoch import Epoch, QueryChanges
from bigjoin.streaming.find import Execution, FindOptions, FoundChanges, Phases, find_changes
from bigjoin.streaming.grouped_changes import GroupChanges
from bigjoin.streaming.ledger import is_committed
from bigjoin.streaming.live import LiveIndex, StagedEpoch
from bigjoin.streaming.output import QUARANTINE, WatchOutput
from bigjoin.streaming.output_entry import ToReport
from bigjoin.streaming.update_columns import BY_NAME, OP_COLUMN, UpdateColumns
from bigjoin.streaming.update_schema import ExpectedUpdates, check_schema
from bigjoin.streaming.updates import DoubtfulRowsError
from bigjoin.streaming.watched import Watched
from bigjoin.streaming.widening import inexact_value, widened_types, with_types
from bigjoin.streaming.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLEANING_SECONDS = 10.0
"""How often files that nothing needs any more are removed."""
COMMIT_ATTEMPTS = 4
"""How often an epoch is tried on a store where somebody else compacts the index at the same time."""
LOCK_PATIENCE_SECONDS = 120.0
"""How long an epoch waits for another writer of the index: a query may be compacting it."""

GROUP_SECONDS = 0.1
"""How long an epoch waits at most for others to share its sync with."""
GROUP_BYTES = 1 << 20
"""How much of the log waits at most to be written."""

Observer: TypeAlias = Callable[[Epoch], None]
"""A user's function that sees every epoch before it is committed."""


@dataclass(eq=False)
class EpochOutput:
    """The staged matches of an epoch, and the manifest's entry for them."""

    folders: Mapping[str, Place]
    schemas: Mapping[str, pa.Schema]
    entry: PublicationEntry
    is_sealed: bool = False


@dataclass(frozen=True, eq=False)
class WaitingEpoch:
    """An epoch that is not durable yet, with its output."""

    epoch: Epoch
    output: EpochOutput | None


@dataclass
class Monitor:
    """The only writer of an index during an epoch; between epochs anybody may write it.

    A monitor can be pickled: it opens the index again in the other process.
    """

    path: Place
    watched: Mapping[str, Watched]
    _: KW_ONLY
    spark: Callable[[], SparkSession]
    """Gives the session, where one turns out to be needed."""
    initial: Callable[[Index, Query], int]
    """Counts the matches of a query that was not watched until now."""
    output: Place | None = None
    order: str | None = None
    key: str | None = None
    """The column that tells parallel edges apart."""
    window: Window | None = None
    strategy: str = "shared"
    workers: int | None = None
    batch_size: int | None = None
    execution: Execution | None = None
    verify: bool = True
    sync: SyncName = "epoch"
    columns: UpdateColumns = BY_NAME
    """What the columns of updates are called."""
    on_bad_row: BadRowName = "fail"
    note: Callable[[str], None] = warn_of_reading
    """Tells the user how updates are read."""
    keep_epochs: int | None = None
    """How many epochs before the last one stay readable; None leaves it to what the index says."""
    live: LiveIndex | None = field(default=None, init=False)
    """The index in memory; None makes the next epoch open it again."""
    counts: dict[str, int] = field(default_factory=dict, init=False)
    plans: dict[str, list[DeltaPlan]] = field(default_factory=dict, init=False)
    counters: dict[str, ChangeCounter] = field(default_factory=dict, init=False)
    """What counts the changes of queries whose matches are not listed."""
    _of_replaced: dict[str, tuple[list[DeltaPlan], ChangeCounter]] = field(default_factory=dict, init=False)
    """The same for epochs that replace properties of vertices, for queries that read them."""
    groups: dict[str, GroupChanges] = field(default_factory=dict, init=False)
    """The groups of queries that have some, as they are in the version that was committed last."""
    _output: WatchOutput | None = field(default=None, init=False)
    _scratch: Path | None = field(default=None, init=False)
    _begun_after: int = field(default=0, init=False)
    """The last epoch when the current one was begun."""
    _seen: tuple[FileStatus, ...] | None = field(default=None, init=False)
    """The files that say which version the index has, as this process has last read or written them."""
    _cleaned: float = field(default_factory=time.monotonic, init=False)
    _waiting: list[WaitingEpoch] = field(default_factory=list, init=False)
    """Epochs that are not durable yet."""
    _kept_lock: ExitStack | None = field(default=None, init=False)
    """The lock of the index, which is kept while epochs wait in memory."""
    _is_writing: bool = field(default=False, init=False)
    """Whether this thread has the lock now."""
    _tells_of_insertions: bool = field(default=True, init=False)
    """Whether nobody was told yet that updates without a column for the operation are insertions."""
    _failure: BaseException | None = field(default=None, init=False)
    """Why epochs could not be made durable in time."""
    _flushes_at_exit: bool = field(default=False, init=False)
    _one_thread: RLock = field(default_factory=RLock, init=False)

    def __getstate__(self) -> dict[str, object]:
        return {
            **vars(self),
            "spark": None,
            "live": None,
            "_output": None,
            "_scratch": None,
            "_one_thread": None,
            "counters": {},
            "_of_replaced": {},
            "groups": {},
        }

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state, _one_thread=RLock())

    @contextmanager
    def writing(self) -> Iterator[LiveIndex]:
        """Hold the lock of the index, and have its current version in memory."""
        with self._one_thread:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            if self.live is not None and self._is_writing:
                yield self.live
                return
            kept, self._kept_lock = self._kept_lock, None
            if kept is None and (self.live is None or self._stamp() != self._seen):
                check_target(self.path)
            with kept or ExitStack() as held:
                if kept is None:
                    held.enter_context(locked(self.path, patience=LOCK_PATIENCE_SECONDS))
                if self.live is None or (kept is None and self._stamp() != self._seen):
                    identity = read_manifest(self.path).identity
                    if self.live is None or self.live.index.manifest.identity != identity:
                        self.live = self._open()
                    self._seen = self._stamp()
                self._is_writing = True
                try:
                    yield self.live
                finally:
                    self._is_writing = False
                    if self._waiting:
                        self._kept_lock = held.pop_all()

    def _stamp(self) -> tuple[FileStatus, ...] | None:
        """Return what tells whether somebody has written the index since this process has."""
        if self.live is None:
            return None
        storage, log = self.live.index.storage, self.live.index.manifest.log
        try:
            return tuple(storage.status(name) for name in ((MANIFEST,) if log is None else (MANIFEST, log)))
        except OSError:
            return None

    def _open(self) -> LiveIndex:
        remove_old(self.path)
        index = Index.open(self.path, verify=self.verify)
        self._plan(index)
        if self.output is not None:
            asked = {name: ToReport(watched.text, watched.is_named) for name, watched in self.watched.items()}
            self._output = WatchOutput(self.output, asked, index.manifest.origin)
            self._output.finish(index.manifest)  # what a killed process has left
            self._output.clear()
        known = {name: self._known_count(index, name) for name in self.watched}
        if index.runs and None in known.values():
            index = commit_compacted(index, versions_of(index, index.runs))
            known = {name: None if name in self.groups else count for name, count in known.items()}
        self.counts = {name: self._initial_count(index, name) if count is None else count for name, count in known.items()}
        if self._output is not None:
            self._output.begin(index.epoch, self.counts)
        return LiveIndex(index, order=self.order, window=self.window, key=self.key, columns=self.columns)

    def _plan(self, index: Index) -> None:
        self.plans = {name: watched.plans(index.statistics) for name, watched in self.watched.items()}
        self.counters = {name: ChangeCounter(plans) for name, plans in self.plans.items()}
        self._of_replaced = {}
        made = {n: one.changes(self.plans[n], index) for n, one in self.watched.items() if n not in self.groups}
        self.groups |= {name: changes for name, changes in made.items() if changes is not None}

    def _known_count(self, index: Index, name: str) -> int | None:
        """Return how many matches a query has, or None if they have to be counted, as its groups may have to."""
        if (groups := self.groups.get(name)) is not None:
            return self.counts[name] if groups.identity == index.manifest.identity else None
        return _known_count(index, self.watched[name].query)

    def _initial_count(self, index: Index, name: str) -> int:
        """Count the matches of a query in an index without runs, or put them into groups."""
        groups = self.groups.get(name)
        return self.initial(index, self.watched[name].query) if groups is None else groups.begin(index)

    def _ways(self, name: str, staged: StagedEpoch, index: Index) -> tuple[list[DeltaPlan], ChangeCounter]:
        """Return how the changes of a query in an epoch are found: its delta queries, and what counts by them."""
        if not staged.replaced:
            return self.plans[name], self.counters[name]
        if name not in self._of_replaced:
            watched, ways = self.watched[name], (self.plans[name], self.counters[name])
            if watched.reads(staged.replaced, index.statistics):
                plans = watched.plans(index.statistics, replaced=True)
                ways = plans, ChangeCounter(plans, replaced=True)
            self._of_replaced[name] = ways
        return self._of_replaced[name]

    def check(self, schema: pa.Schema, source: str) -> None:
        """Refuse updates with columns that cannot fit the index, before anything is counted or applied."""
        index, time = Index.open(self.path, verify=self.verify), None if self.window is None else self.window.column
        expected = ExpectedUpdates.of_index(index, self.columns, order=self.order, time=time)
        check_schema(schema, expected, source, begins=True)
        self._tell_of_insertions(schema, expected, source)

    def _tell_of_insertions(self, schema: pa.Schema, expected: ExpectedUpdates, source: str) -> None:
        """Say once that every row is an insertion, if no column says what it is."""
        if not self._tells_of_insertions or OP_COLUMN in schema.names:
            return
        if expected.find(schema, source).op is None:
            self._tells_of_insertions = False
            self.note(f"{source} has no column 'op', so every row is an insertion; if another column says so: --op (op=)")

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
        for attempt in range(COMMIT_ATTEMPTS):
            try:
                epoch = self._apply(table, source, ledger, adopt, function)
                break
            except TakenIndexError:  # on a store, nobody holds a lock
                if attempt == COMMIT_ATTEMPTS - 1 or read_manifest(self.path).epoch != self._begun_after:
                    raise  # the other has committed an epoch, and not just compacted the index
        if epoch is not None:
            epoch.seconds = time.perf_counter() - started
        return epoch

    def _apply(
        self, table: pa.Table, source: str, ledger: LedgerEntry | None, adopt: bool, function: Observer | None
    ) -> Epoch | None:
        with self.writing() as live:
            if ledger is not None and is_committed(live.index, ledger, adopt=adopt):
                return None
            self._begun_after = live.index.epoch
            try:
                rows = self._sort_out(live, table, source)
                changes_kept = self._keep(live) != live.index.manifest.keep_epochs
                with committing(live.index, live.log, table.nbytes, begins_log=changes_kept) as commit:
                    staged, rows = self._stage(live, rows, commit)
                    epoch, output = self._find(live, staged, commit)
                    if output is not None and rows.faults and self.on_bad_row == "quarantine":
                        self._quarantine(epoch.number, rows, output)
                    if function is not None:
                        _call(function, epoch)
                    self._commit(live, staged, epoch, output, commit, ledger)
                self._settle(live)
                self._tend(live)
            except SourceError:  # of malformed updates, before anything was changed
                if not self._waiting:
                    self._remember()
                raise
            except BaseException:
                self._give_up(live)
                raise
        return epoch

    def _sort_out(self, live: LiveIndex, table: pa.Table, source: str) -> SortedRows:
        """Find bad properties before an epoch begins, as a property of the index may have to become wider for good ones."""
        if not may_have_bad_properties(table, live.expected):
            return SortedRows(table, source)
        rows = self._sorted(live, table, source)
        if rows.wider:
            self._widen(live, rows)
        return rows

    def _sorted(self, live: LiveIndex, table: pa.Table, source: str) -> SortedRows:
        """Tell bad rows from good ones, or refuse the epoch if that is to be done with any bad one."""
        index = live.index
        rows = sort_rows(table, live.expected, source, exact=lambda relation, name: inexact_value(index, relation, name))
        if rows.faults and self.on_bad_row == "fail":
            raise rows.refusal(index.epoch + 1)
        return rows

    def _stage(self, live: LiveIndex, rows: SortedRows, commit: EpochCommit) -> tuple[StagedEpoch, SortedRows]:
        """Stage the good rows of an epoch; which are bad is found out once they are refused together."""
        while True:
            try:
                staged = live.stage(rows.good, commit.files, rows.source)
                break
            except DoubtfulRowsError as error:
                rows = rows.without(error)
                if self.on_bad_row == "fail":
                    raise rows.refusal(live.index.epoch + 1) from None
            except SourceError:
                if rows.faults:
                    raise
                rows = self._sorted(live, rows.table, rows.source)
                if not rows.faults:
                    raise
        self._tell_of_insertions(rows.table.schema, live.expected, rows.source)
        staged.fate.bad = rows.bad_count if rows.faults else 0
        staged.fate.updates += staged.fate.bad
        return staged, rows

    def _widen(self, live: LiveIndex, rows: SortedRows) -> None:
        """Make properties of the index double, in a commit of its own; queries have to mean something then, too."""
        types = widened_types(live.index, rows.wider)
        names = ", ".join(repr(name) for name in sorted(set().union(*rows.wider.values())))
        try:
            for watched in self.watched.values():
                watched.plans(with_types(live.index, types))
        except QueryError as error:
            raise SourceError(
                f"{rows.source} has numbers with a fraction in {names}, where the graph has whole numbers, and a query that is "
                f"watched needs these ({error.message}): round them"
            ) from None
        self._make_durable(live)
        live.load(commit_compacted(live.index, live.versions, types))
        self._seen = self._stamp()
        self.groups = {}  # which have columns of other types now
        self._plan(live.index)
        self.counts |= {name: groups.begin(live.index) for name, groups in self.groups.items()}
        what = f"{rows.source} has numbers with a fraction in {names}"
        self.note(f"{what}: the column of the graph had whole numbers, and is double from now on")

    def _quarantine(self, epoch: int, rows: SortedRows, output: EpochOutput) -> None:
        """Write the bad rows of an epoch, to be committed and published with its matches."""
        assert self._output is not None
        name, folder = self._output.stage_bad_rows(epoch, rows.report())
        output.folders = {**output.folders, QUARANTINE: folder}
        output.entry = replace(output.entry, folders=(*output.entry.folders, name))

    def _commit(
        self,
        live: LiveIndex,
        staged: StagedEpoch,
        epoch: Epoch,
        output: EpochOutput | None,
        commit: EpochCommit,
        ledger: LedgerEntry | None,
    ) -> None:
        """Commit an epoch, which then waits to be durable unless the commit has made it so."""
        counts = {one.text: epoch.queries[name].count for name, one in self.watched.items()}
        self._waiting.append(WaitingEpoch(epoch, output))
        unpublished = [waiting.output.entry for waiting in self._waiting if waiting.output is not None]
        others = live.index.manifest.publications if self._output is None else self._output.others(live.index.manifest)
        if commit.is_last_step:
            self._seal()
            if self._keep(live):  # epochs in the log stay readable there
                self._write(live, sync=True)
        index, live.log = commit_epoch(
            live.index,
            staged,
            epoch,
            commit,
            counts=counts,
            ledger=ledger,
            publications=(*others, *unpublished),
            keep_epochs=self._keep(live),
        )
        live.committed(index, staged)
        self.counts = {name: changes.count for name, changes in epoch.queries.items()}
        for groups in self.groups.values():
            groups.commit(index.manifest.identity)
        epoch.durable = commit.is_last_step

    def _keep(self, live: LiveIndex) -> int:
        """Return how many epochs before the last one stay readable from now on."""
        return live.index.manifest.keep_epochs if self.keep_epochs is None else self.keep_epochs

    def _settle(self, live: LiveIndex) -> None:
        """Make committed epochs durable as was asked for."""
        waits = live.log is not None and not self._waiting[-1].epoch.durable and live.log.pending_bytes < GROUP_BYTES
        if self.sync == "epoch" or not waits:
            self._make_durable(live)
        elif self.sync == "none":
            self._write(live, sync=False)
        if self._waiting and not self._flushes_at_exit:
            atexit.register(_flush_at_exit, weakref.ref(self))
            self._flushes_at_exit = True
        if self.sync == "group" and len(self._waiting) == 1:
            timer = threading.Timer(GROUP_SECONDS, self._flush_in_time, args=(self._waiting[0],))
            timer.daemon = True
            timer.start()

    def _make_durable(self, live: LiveIndex) -> None:
        """See to it that all epochs so far survive a power failure, and publish their output."""
        self._seal()
        self._write(live, sync=True)
        done, self._waiting = self._waiting, []
        for waiting in done:
            waiting.epoch.durable = True
        if self._output is not None:
            self._output.finish(live.index.manifest)
            for waiting in done:
                for name, changes in waiting.epoch.queries.items():
                    folder = self._output.path / self._output.folder(name, waiting.epoch.number)
                    changes.files = [folder / file.name for file in changes.files]
        self._remember()

    def _seal(self) -> None:
        """Make the matches durable whose epochs are to be."""
        for waiting in self._waiting:
            output = waiting.output
            if self._output is not None and output is not None and not output.is_sealed:
                files = {name: changes.files for name, changes in waiting.epoch.queries.items()}
                self._output.seal(output.folders, output.schemas, files)
                output.is_sealed = True

    def _write(self, live: LiveIndex, *, sync: bool) -> None:
        """Write the records of the log that are not written."""
        if live.log is not None:
            try:
                live.log.write(sync=sync)
            except BaseException as error:
                lost, self._waiting = [waiting.epoch.number for waiting in self._waiting], []
                if not isinstance(error, OSError):
                    raise
                also = "" if len(lost) <= 1 else f"; epochs {lost[0]} to {lost[-1]} are lost, as they were not durable yet"
                raise OutputError(f"the index {self.path} cannot be written: {reason(error)}{also}") from error

    def _remember(self) -> None:
        """Remember what the index is like: once the lock is let go, others may write it."""
        self._seen = self._stamp()

    def _flush_in_time(self, first: WaitingEpoch) -> None:
        """Make epochs durable when one of them has waited long enough, unless that was done before."""
        with self._one_thread:
            if first in self._waiting:
                try:
                    self.flush()
                except BaseException as error:
                    self._failure = error  # whoever uses the index next is told

    def flush(self) -> None:
        """Make all epochs durable that are not, and publish their output."""
        with self._one_thread:
            if not self._waiting and self._failure is None:
                return
            with self.writing() as live:
                try:
                    self._make_durable(live)
                except BaseException:
                    self._give_up(live)
                    raise

    def _give_up(self, live: LiveIndex) -> None:
        """Open the index again before the next epoch; epochs before the one that failed stay, if they can be written."""
        for groups in self.groups.values():
            groups.undo()
        self._waiting = [waiting for waiting in self._waiting if waiting.epoch.number <= live.index.epoch]
        if self._waiting:
            with suppress(Exception):
                self._make_durable(live)
        self._waiting, self.live = [], None
        self._remember()

    def _find(self, live: LiveIndex, staged: StagedEpoch, commit: EpochCommit) -> tuple[Epoch, EpochOutput | None]:
        """Execute the delta queries of every watched query over a staged epoch; return also what is to be published."""
        epoch = Epoch(staged.manifest.epoch, staged.fate, is_plain=self._is_plain)
        pending = live.log.held if live.log is not None else {}
        index = live.index.followed_by(replace(staged.manifest, identity=commit.identity), {**pending, **commit.files.held})
        phases = (Phase(live.versions, index, insert=False), Phase(live.versions, index, insert=True))
        options = FindOptions(self.spark, self.strategy, self.workers, self.batch_size, self.execution)
        folders = self._folders(epoch.number)
        schemas = {name: self._schema(name, index) for name in folders}
        for name in self.plans:
            plans, counter = self._ways(name, staged, index)
            found, folder = FoundChanges(), folders.get(name)
            if staged.has_changes:
                try:
                    if name in self.groups:
                        found = self._find_groups(name, plans, phases, index, folder, options)
                    elif folder is None and not STRATEGIES[self.strategy].in_rounds:
                        found = counter.count(phases, self.counts[name], options)
                    else:
                        comes_back = bool(staged.fate.replaced) or plans is not self.plans[name]
                        found = find_changes(plans, phases, schemas.get(name), folder, options, comes_back=comes_back)
                except OSError as error:  # a full disk, most likely
                    where = self._scratch if self._output is None else self._output.path
                    raise OutputError(f"the matches cannot be written to {where}: {reason(error)}") from error
            if name in self.groups:
                found.groups = len(self.groups[name])
            count = self.counts[name] + found.created - found.destroyed
            changes = QueryChanges(**vars(found), count=count, epoch=epoch.number, schema=schemas.get(name))
            if folder is not None and self._output is None:  # the matches last as long as the changes that name them
                weakref.finalize(changes, remove_folder, folder)
            epoch.queries[name] = changes
        if self._output is None:
            return epoch, None
        return epoch, EpochOutput(folders, schemas, self._output.publication(epoch.number, epoch.line))

    def _schema(self, name: str, index: Index) -> pa.Schema:
        """Return the columns of what an epoch reports of a query."""
        groups = self.groups.get(name)
        return self.watched[name].schema(self.plans[name], index) if groups is None else groups.schema

    def _find_groups(
        self,
        name: str,
        plans: list[DeltaPlan],
        phases: Phases,
        index: Index,
        folder: Place | None,
        options: FindOptions,
    ) -> FoundChanges:
        """Find the signed matches of a query, and what they change in its groups; only that goes to a folder."""
        groups, aside = self.groups[name], self._folder_aside()
        try:
            schema = self.watched[name].schema(plans, index)
            return groups.changes(find_changes(plans, phases, schema, aside, options), folder)
        finally:
            remove_folder(aside)

    def _scratch_folder(self) -> Path:
        if self._scratch is None:
            self._scratch = scratch_directory("changes")
        return self._scratch

    @property
    def _is_plain(self) -> bool:
        """Whether the figures of an epoch are those of a single query that nobody has named."""
        if self._output is not None:
            return self._output.is_plain
        return len(self.watched) == 1 and not any(watched.is_named for watched in self.watched.values())

    def _folders(self, epoch: int) -> Mapping[str, Place]:
        """Return a folder for the matches of each query whose matches are listed."""
        if self._output is not None:
            return self._output.stage(epoch, alone=not self._waiting)
        listed = [name for name, watched in self.watched.items() if watched.listing]
        return {name: self._folder_aside() for name in listed}

    def _folder_aside(self) -> Place:
        """Return a new folder for matches that are not published, which tasks may write."""
        if is_on_store(self.path) and self.strategy != LOCAL:
            session = self.spark()
            if not is_local(session):
                return common_directory(session, self.path, "changes")
        return Path(tempfile.mkdtemp(dir=self._scratch_folder()))

    def finish(self) -> None:
        """Take published outputs off the index's list, so that a watch that ends normally leaves nothing to be finished."""
        self.flush()
        if self._output is None or self.live is None:
            return
        with self.writing() as live:
            known = live.index.manifest
            others = self._output.others(known)
            if others != known.publications:
                commit_publications(self.path, others)
                live.index, live.log = Index.open(self.path, verify=self.verify), log_of(self.path)
                self._seen = self._stamp()

    def _tend(self, live: LiveIndex) -> None:
        """Compact the index if it is worn, and now and then remove files that nothing needs any more."""
        if is_worn(live.index):
            self._make_durable(live)
            try:
                index = commit_compacted(live.index, live.versions)
            except OutputError as error:  # the epoch is committed, and the next one will try again
                warnings.warn(f"the index could not be compacted: {error}", stacklevel=2)
                return
            live.load(index)
            self._seen = self._stamp()
            self._plan(index)
            for groups in self.groups.values():
                groups.commit(index.manifest.identity)
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


def _flush_at_exit(monitor: weakref.ref[Monitor]) -> None:
    """Make durable what waits when a program ends."""
    if (left := monitor()) is not None and left.path.exists():  # a scratch folder may be gone before
        left.flush()
