"""One epoch after another: updates in, signed matches out, committed together or not at all.

The order is what makes it exactly once. The run of updates and the matches are written and made durable; then the manifest is
replaced, which commits the epoch, the output and the entry of the ledger at once; then the output is renamed into its place. A
process that is killed before the commit has done nothing; one that is killed after it leaves a rename that the next one does.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bigjoin.errors import BigjoinError, OutputError, SourceError, reason
from bigjoin.index.directory import VERTEX, Index
from bigjoin.index.entries import LedgerEntry, Manifest, PublicationEntry, WatchedEntry
from bigjoin.index.manifest import check_target, read_manifest, replace_manifest
from bigjoin.index.runs import drop_unused, merge_runs
from bigjoin.index.versions import forget, opened, register
from bigjoin.index.writer import Writer, building, locked, remove_old
from bigjoin.ingest.compact import forgets_vertices
from bigjoin.joins.bind import outputs
from bigjoin.joins.changes import with_change
from bigjoin.planner import delta_plan
from bigjoin.query.delta import DeltaPlan
from bigjoin.query.optional import branches
from bigjoin.query.query import Query
from bigjoin.spark.matches import schema_of
from bigjoin.spark.session import scratch_directory
from bigjoin.streaming.compaction import compacted
from bigjoin.streaming.find import Execution, Found, find_changes
from bigjoin.streaming.live import Live, Staged
from bigjoin.streaming.output import Output
from bigjoin.streaming.updates import Fate
from bigjoin.streaming.window import Window

RETENTION = 60.0
"""Seconds for which runs that were merged are kept, for who still reads them."""
SWEEP = 10.0
"""Seconds between two looks for files that nobody needs."""
PATIENCE = 120.0
"""Seconds that an epoch waits for others to finish writing the index: a query may be compacting it."""
SHARE = 2
"""Runs are compacted when they have more tuples than the tries have, divided by this."""
FEW = 1 << 16
"""Tuples of runs below which compaction can wait."""


@dataclass(frozen=True)
class Watched:
    """A query that is watched, and whether its matches are wanted or their number alone."""

    query: Query
    listing: bool = True


@dataclass
class Changes:
    """What an epoch changed in one query's result."""

    created: int
    destroyed: int
    count: int
    """How many matches there are now."""
    epoch: int
    files: tuple[Path, ...] = ()
    schema: pa.Schema | None = None

    @property
    def table(self) -> pa.Table:
        """The signed matches: the epoch, the change (+1 or -1), and a column for each attribute of the head."""
        if self.schema is None:
            raise BigjoinError("the matches were counted, not listed")
        tables = [pq.read_table(file, partitioning=None) for file in self.files]
        rows = pa.concat_tables(tables) if tables else self.schema.empty_table()
        return rows.add_column(0, "epoch", pa.array([self.epoch] * len(rows), pa.int64()))


@dataclass
class Epoch:
    """What became of an epoch: its updates, and for each query what they changed."""

    number: int
    fate: Fate
    queries: dict[str, Changes] = field(default_factory=dict)
    seconds: float = 0.0
    found: dict[str, Found] = field(default_factory=dict)

    @property
    def _only(self) -> Changes:
        if len(self.queries) != 1:
            raise BigjoinError(f"{len(self.queries)} queries are watched: look at one of them in `queries`")
        return next(iter(self.queries.values()))

    @property
    def count(self) -> int:
        """How many matches there are now, if one query is watched."""
        return self._only.count

    @property
    def created(self) -> int:
        """How many matches came, if one query is watched."""
        return self._only.created

    @property
    def destroyed(self) -> int:
        """How many matches went, if one query is watched."""
        return self._only.destroyed

    @property
    def table(self) -> pa.Table:
        """The signed matches, if one query is watched."""
        return self._only.table

    @property
    def line(self) -> dict[str, Any]:
        """The figures, as the output's counts have them."""
        figures = {n: {"created": c.created, "destroyed": c.destroyed, "count": c.count} for n, c in self.queries.items()}
        only = next(iter(figures.values())) if len(figures) == 1 else {"queries": figures}
        return {"epoch": self.number, **only, **vars(self.fate)}


class Monitor:
    """The only writer of an index while it runs an epoch; between epochs anybody may be."""

    def __init__(
        self,
        path: Path,
        queries: Mapping[str, Watched],
        *,
        spark: Callable[[], SparkSession],
        initial: Callable[[Index, Query], int],
        output: Path | None = None,
        order: str | None = None,
        window: Window | None = None,
        strategy: str = "shared",
        workers: int | None = None,
        batch_size: int | None = None,
        execution: Execution | None = None,
        verify: bool = True,
    ) -> None:
        self.verify = verify
        self.path, self.watched, self.spark, self.initial = path, dict(queries), spark, initial
        self.strategy, self.workers, self.batch_size = strategy, workers, batch_size
        self.execution = execution
        self.asked, self.order, self.window = output, order, window
        self.live: Live | None = None
        self.output: Output | None = None
        self.scratch: Path | None = None
        self.swept = time.monotonic()

    @contextmanager
    def writing(self) -> Iterator[Live]:
        """Hold the index's lock, and have it in memory as it is now."""
        check_target(self.path)
        with locked(self.path, patience=PATIENCE):
            identity = read_manifest(self.path).identity
            if self.live is None or self.live.index.manifest.identity != identity:
                self._open()
            assert self.live is not None
            yield self.live

    def _open(self) -> None:
        remove_old(self.path)
        index = Index.open(self.path, verify=self.verify)
        self.plans = self._plans(index)
        if self.asked is not None:
            texts = {name: str(watched.query) for name, watched in self.watched.items()}
            self.output = Output(self.asked, texts, index.manifest.origin)
            for publication in self._mine(index.manifest):  # what a process that was killed has left undone
                self.output.publish(publication)
            self.output.clear()
        if index.runs and any(self._known_count(index, name) is None for name in self.watched):
            index = compacted(index, opened(index))
        self.counts = {}
        for name, watched in self.watched.items():
            known = self._known_count(index, name)
            self.counts[name] = self.initial(index, watched.query) if known is None else known
        self.live = Live(index, order=self.order, window=self.window)

    def _plans(self, index: Index) -> dict[str, list[DeltaPlan]]:
        """Return the delta queries of each query, or of those that it is the sum of."""
        known = index.statistics
        return {
            name: [delta_plan(branch, known, listing=watched.listing) for branch in branches(watched.query)]
            for name, watched in self.watched.items()
        }

    def _known_count(self, index: Index, name: str) -> int | None:
        """Return how many matches a query has, if it was watched until now, or reads a relation that is empty."""
        query = self.watched[name].query
        known = index.manifest.watched.get(str(query))
        if known is not None and known.epoch == index.epoch:
            return int(known.count)
        read = (index.statistics.relations.get(atom.relation) for atom in query.positive)
        return 0 if any(relation is not None and not relation.tuples for relation in read) else None

    def apply(
        self,
        table: pa.Table,
        source: str = "the updates",
        *,
        ledger: LedgerEntry | None = None,
        adopt: bool = False,
        function: Callable[[Epoch], None] | None = None,
    ) -> Epoch | None:
        """Run one epoch, and commit it with an entry of the ledger; a function sees it before the commit.

        Return None if the ledger says that it was committed before. `adopt` takes updates from elsewhere than before.
        """
        started = time.perf_counter()
        with self.writing() as live:
            if ledger is not None and check_ledger(live.index, ledger, adopt=adopt):
                return None
            with building(self.path) as writer:
                epoch, index, staged = self._run(live, writer, table, source, ledger, function)
            live.committed(index, staged)
            self.counts = {name: changes.count for name, changes in epoch.queries.items()}
            if self.output is not None:
                self._publish(self.output, epoch, live)
            self._tend(live)
        epoch.seconds = time.perf_counter() - started
        return epoch

    def _run(
        self,
        live: Live,
        writer: Writer,
        table: pa.Table,
        source: str,
        ledger: LedgerEntry | None,
        function: Callable[[Epoch], None] | None,
    ) -> tuple[Epoch, Index, Staged]:
        """Stage an epoch, find what it changes, and commit it."""
        try:
            staged = live.stage(table, writer.folder, source)
            assert staged.manifest is not None
            epoch = self._changes(live, staged, replace(staged.manifest, identity=writer.identity))
            if function is not None:
                _call(function, epoch)
            manifest = merge_runs(Index(self.path, staged.manifest), writer.folder, staged.manifest)
            manifest = self._reported(manifest, epoch, ledger)
            drop_unused(writer.folder, manifest)
            kept = manifest.in_use(live.index.manifest.files)
            return epoch, writer.commit(manifest, kept=kept, retention=RETENTION, verified=self.verify), staged
        except SourceError:  # of updates that make no sense, before anything was changed
            raise
        except BaseException:
            forget(self.path)
            self.live = None
            raise

    def _changes(self, live: Live, staged: Staged, manifest: Manifest) -> Epoch:
        """Run the delta queries of every query over an epoch that is staged."""
        epoch = Epoch(staged.epoch, staged.fate)
        index = Index(self.path, manifest, live.index.verifies)
        register(index, live.versions, is_begun=True)
        folders = self._folders(epoch.number)
        schemas = {name: _schema(plans, self.watched[name].query, index) for name, plans in self.plans.items()}
        for name, plans in self.plans.items():
            found, folder = Found(), folders.get(name)
            if staged.changes:
                found = self._find(
                    plans,
                    index,
                    schemas[name],
                    folder,
                    strategy=self.strategy,
                    spark=self.spark,
                    workers=self.workers,
                    batch_size=self.batch_size,
                    execution=self.execution,
                )
            count = self.counts[name] + found.created - found.destroyed
            paths, schema = tuple(file for file, _ in found.files), schemas[name] if folder is not None else None
            epoch.queries[name] = Changes(found.created, found.destroyed, count, epoch.number, paths, schema)
            if folder is not None and self.output is None:  # for as long as somebody may ask for the matches
                weakref.finalize(epoch.queries[name], shutil.rmtree, folder, ignore_errors=True)
            epoch.found[name] = found
        if self.output is not None:
            self.output.seal(folders, schemas)
        return epoch

    def _find(self, *work: Any, **options: Any) -> Found:
        """Find what an epoch changes; a full disk is that of the matches."""
        try:
            return find_changes(*work, **options)
        except OSError as error:
            where = self.output.path if self.output is not None else self.scratch
            raise OutputError(f"the matches cannot be written to {where}: {reason(error)}") from error

    def _folders(self, epoch: int) -> dict[str, Path]:
        """Return where the matches of each query go that has its matches listed."""
        if self.output is not None:
            return self.output.stage(epoch)
        listed = [name for name, watched in self.watched.items() if watched.listing]
        if listed and self.scratch is None:
            self.scratch = scratch_directory("changes")
        return {name: Path(tempfile.mkdtemp(dir=self.scratch)) for name in listed}

    def _publish(self, output: Output, epoch: Epoch, live: Live) -> None:
        """Move the matches of a committed epoch to their place; if that fails, the index is opened again, which does it."""
        self.live = None
        for publication in self._mine(live.index.manifest):
            output.publish(publication)
        self.live = live
        for name, changes in epoch.queries.items():
            folder = output.path / output.folder(name, epoch.number)
            changes.files = tuple(folder / file.name for file in changes.files)

    def _reported(self, manifest: Manifest, epoch: Epoch, ledger: LedgerEntry | None) -> Manifest:
        """Return a manifest with what it says beside the graph: counts, ledger, and outputs that are to be finished.

        What is staged in folders that nobody names now stays on the list, in its order: it is published when somebody does.
        """
        counts = {str(w.query): WatchedEntry(str(epoch.queries[n].count), epoch.number) for n, w in self.watched.items()}
        publications = manifest.publications
        if self.output is not None:
            mine = self._mine(manifest)  # these are published
            others = tuple(entry for entry in publications if entry not in mine)
            publications = (*others, self.output.publication(epoch.number, epoch.line))
        ledger = manifest.ledger if ledger is None else ledger
        return replace(manifest, watched=counts, ledger=ledger, publications=publications)

    def _mine(self, manifest: Manifest) -> list[PublicationEntry]:
        """Return the publications of the folder that this watch writes to, in their order."""
        return [entry for entry in manifest.publications if self.output is not None and self.output.owns(entry)]

    def finish(self) -> None:
        """Take what is published off the index's list: a watch that ends by itself leaves nothing to be finished."""
        if self.output is None or self.live is None:
            return
        with self.writing() as live:
            known = live.index.manifest
            left = tuple(entry for entry in known.publications if entry not in self._mine(known))
            if left != known.publications:
                replace_manifest(self.path, replace(known, publications=left))
                live.index = Index.open(self.path, verify=self.verify)

    def _tend(self, live: Live) -> None:
        """Compact the index if much of it is runs, or about what is gone; now and then remove files that nobody needs."""
        if _is_worn(live.index):
            try:
                index = compacted(live.index, live.versions)
            except OutputError as error:  # the epoch is committed, and the next one will try again
                warnings.warn(f"the index could not be compacted: {error}", stacklevel=2)
                return
            forget(self.path)
            live.load(index)
            self.plans = self._plans(index)
        if time.monotonic() - self.swept > SWEEP:
            remove_old(self.path)
            self.swept = time.monotonic()


def _call(function: Callable[[Epoch], None], epoch: Epoch) -> None:
    """Call a user's function; what it raises is not the index's fault."""
    try:
        function(epoch)
    except Exception as error:
        name = getattr(function, "__name__", "function")
        raise BigjoinError(f"{name} failed at epoch {epoch.number}, which is not committed: {error!r}") from error


def _is_worn(index: Index) -> bool:
    """Tell whether an index is to be compacted: its runs are large, or most of its rows or vertices are gone."""
    known = index.statistics
    edges = {name: relation for name, relation in known.relations.items() if relation.arity == 2}
    pairs = sum(relation.tuples for relation in edges.values())
    if sum(run.tuples for run in index.runs) > max(FEW, pairs // SHARE):
        return True
    for relation in edges.values():
        if relation.rows is not None and known.domains[relation.rows.domains[2]] > SHARE * relation.rows.tuples + FEW:
            return True
    return forgets_vertices(known) and known.domains[VERTEX] > 2 * SHARE * pairs + FEW


def check_ledger(index: Index, entry: LedgerEntry, *, adopt: bool) -> bool:
    """Tell whether a batch is committed already; raise BigjoinError if the ledger says that it is not the next one."""
    known = index.manifest.ledger
    source, batch = entry.source, entry.batch
    if known is None or known.source != source:
        if known is not None and not adopt:
            raise BigjoinError(
                f"the index {index.path} follows {known.source}, until its batch {known.batch}, and not {source}: "
                "go on with that, or ask for the new one with adopt=True (--adopt)"
            )
        if batch > 0 and not adopt:
            raise BigjoinError(
                f"{source} has given {batch} batches before this one, and the index {index.path} has none of them: build the "
                "index that it belongs to, begin with a new checkpoint, or go on from here with adopt=True (--adopt)"
            )
        return False
    if batch > known.batch + 1:
        raise BigjoinError(f"batch {batch} of {source} does not follow batch {known.batch}, the last one that {index.path} has")
    return batch <= known.batch


def _schema(plans: Sequence[DeltaPlan], query: Query, index: Index) -> pa.Schema:
    """Return the columns of a query's signed matches: those of all queries that it is the sum of."""
    known: dict[str, pa.Field] = {}
    for plan in plans:
        order = plan.query.attributes
        known |= {f.name: f for f in schema_of(outputs(plan.query, order, index), len(order)) if f.name not in known}
    return with_change(pa.schema([known[name] for name in query.columns]))
