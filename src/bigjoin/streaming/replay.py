"""Replay: find again what the last epochs changed, for queries that may be new. The index is only read.

An epoch is what lies between two versions of the index that it keeps: the runs that the later one has and the earlier one has
not. Where the epoch has merged runs, the effect of the earlier ones is taken off the merged run, which leaves the epoch's own.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import pyarrow as pa

from bigjoin.defaults import LOCAL
from bigjoin.errors import BigjoinError, OutputError, reason
from bigjoin.index.directory import VERTEX, Index
from bigjoin.index.kept import KeptVersions
from bigjoin.index.manifest_entries import Manifest
from bigjoin.index.runs import Delta, Reading, UntrueRunsError, combined, read_combined
from bigjoin.index.versions import Versions, versions_of
from bigjoin.joins.phase import Phase
from bigjoin.joins.replaced import replaced_between
from bigjoin.query.delta import DeltaPlan
from bigjoin.query.query import Query
from bigjoin.storage import Place
from bigjoin.storage.scratch import scratch_directory
from bigjoin.streaming.compaction import without_runs
from bigjoin.streaming.epoch import Epoch, QueryChanges
from bigjoin.streaming.find import FindOptions, FoundChanges, Phases, find_changes
from bigjoin.streaming.grouped_changes import GroupChanges
from bigjoin.streaming.output import WatchOutput
from bigjoin.streaming.output_entry import ToReport
from bigjoin.streaming.updates import Fate
from bigjoin.streaming.watched import Watched


@dataclass(frozen=True)
class Replay:
    """What is found again: queries over the epochs of an index from `first` on, and the folder where their changes go."""

    path: Place
    watched: Mapping[str, Watched]
    output: Place
    first: int
    initial: Callable[[Index, Query], int]
    """Counts the matches of a query before the first of these epochs."""
    verify: bool = True

    def run(self, report: Callable[[Epoch], None] = lambda _: None) -> list[Epoch]:
        """Write what each epoch changed as a watch would have, and return the epochs; go on with what was begun before."""
        kept = KeptVersions.of(self.path)
        if self.first > kept.last:
            raise BigjoinError(f"the index {self.path} has no epoch {self.first:,}: its last one is {kept.last:,}")
        if self.first <= kept.oldest:
            begin = f"begin with {kept.oldest + 1:,}" if kept.oldest < kept.last else "watch it with keep_epochs="
            raise BigjoinError(
                f"epoch {self.first:,} of the index {self.path} cannot be replayed: the graph before it is not kept; {begin}"
            )
        asked = {name: ToReport(watched.text, watched.is_named) for name, watched in self.watched.items()}
        output = WatchOutput(self.output, asked, kept.begun.origin)
        done = output.replayed(self.first)
        if done >= kept.last:
            return []
        before = self._index(kept.latest(done))
        groups: dict[str, GroupChanges] = {}
        counts = self._counts(before, groups)
        if done < self.first:
            output.begin(done, counts)
        epochs, step = [], _Replaying(self, before, counts, groups)
        for number in range(done + 1, kept.last + 1):
            epochs.append(step.next(self._index(kept.earliest(number)), output))
            step.go_on(kept.latest(number))
            report(epochs[-1])
        output.clear()
        return epochs

    def _index(self, manifest: Manifest) -> Index:
        return Index.of(self.path, manifest, verify=self.verify, is_past=True)

    def _counts(self, index: Index, groups: dict[str, GroupChanges]) -> dict[str, int]:
        """Return how many matches queries have in a version, and put those that are grouped into their groups."""
        compacted = without_runs(index)
        try:
            counts = {}
            for name, watched in self.watched.items():
                mine = watched.changes(watched.plans(compacted.statistics), compacted)
                if mine is not None:
                    groups[name] = mine
                counts[name] = self.initial(compacted, watched.query) if mine is None else mine.begin(compacted)
            return counts
        finally:
            if compacted.path != index.path:
                shutil.rmtree(compacted.path.parent, ignore_errors=True)


class _Replaying:
    """A version of an index in memory, and the counts of queries in it."""

    def __init__(self, replay: Replay, index: Index, counts: Mapping[str, int], groups: Mapping[str, GroupChanges]) -> None:
        self.replay, self.counts, self.groups = replay, dict(counts), groups
        self._load(index)

    def _load(self, index: Index) -> None:
        self.index = index
        self.versions: Versions = versions_of(index, index.runs)
        self.plans: dict[str, list[DeltaPlan]] = {
            name: watched.plans(index.statistics) for name, watched in self.replay.watched.items()
        }

    def next(self, after: Index, output: WatchOutput) -> Epoch:
        """Find and publish what has changed in the next version."""
        deltas = delta_between(self.index, after)
        self.versions.begin(deltas, after.statistics)
        phases = (Phase(self.versions, after, False, self.index), Phase(self.versions, after, True, self.index))
        replaced = replaced_between(self.index, after)
        epoch = Epoch(after.epoch, _fate(self.index, after, deltas), is_plain=output.is_plain)
        folders = output.stage(epoch.number)
        schemas = {name: self._schema(name, after) for name in self.replay.watched}
        for name, watched in self.replay.watched.items():
            found = FoundChanges()
            if replaced is not None or any(map(len, deltas.values())):
                plans = self.plans[name]
                if replaced is not None and watched.reads(tuple(replaced.after), after.statistics):
                    plans = watched.plans(after.statistics, replaced=True)
                try:
                    found = self._find(name, plans, phases, folders[name])
                except OSError as error:  # a full disk, most likely
                    raise OutputError(f"the matches cannot be written to {output.path}: {reason(error)}") from error
            self.counts[name] += found.created - found.destroyed
            epoch.queries[name] = QueryChanges(**vars(found), count=self.counts[name], epoch=epoch.number, schema=schemas[name])
        output.seal(folders, schemas, {name: changes.files for name, changes in epoch.queries.items()})
        output.publish(output.publication(epoch.number, epoch.line))
        for name, changes in epoch.queries.items():
            changes.files = [output.path / output.folder(name, epoch.number) / file.name for file in changes.files]
        epoch.durable = True
        for groups in self.groups.values():
            groups.commit(after.manifest.identity)
        self.versions.commit()
        self.index = after
        return epoch

    def _schema(self, name: str, index: Index) -> pa.Schema:
        """Return the columns of what an epoch reports of a query."""
        groups = self.groups.get(name)
        return self.replay.watched[name].schema(self.plans[name], index) if groups is None else groups.schema

    def _find(self, name: str, plans: Sequence[DeltaPlan], phases: Phases, folder: Place) -> FoundChanges:
        """Find what changes in the result of a query, and write it to a folder."""
        schema, options = self.replay.watched[name].schema(plans, phases[1].index), FindOptions(_no_spark, LOCAL)
        groups = self.groups.get(name)
        if groups is None:
            return find_changes(plans, phases, schema, folder, options, comes_back=True)
        aside = scratch_directory("changes")
        try:
            return groups.changes(find_changes(plans, phases, schema, aside, options), folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def go_on(self, latest: Manifest) -> None:
        """Go on from an epoch, whose version may have been compacted before the next."""
        if latest.identity == self.index.manifest.identity:
            return
        index = self.replay._index(latest)
        if _base_files(latest) == _base_files(self.index.manifest) and len(latest.runs) == len(self.index.runs):
            self.index = index
        else:
            self._load(index)


def delta_between(before: Index, after: Index) -> dict[Reading, Delta]:
    """Return what an epoch changed, given the versions before and after it, whose codes are the same."""
    shared = 0
    for one, other in zip(before.runs, after.runs, strict=False):
        if one.deltas != other.deltas:
            break
        shared += 1
    undone = {read: Delta(delta.inserted, delta.deleted) for read, delta in read_combined(before, before.runs[shared:]).items()}
    try:
        return combined([undone, read_combined(after, after.runs[shared:])])
    except UntrueRunsError:
        raise after.damaged("its runs of updates do not follow each other") from None


def _base_files(manifest: Manifest) -> dict[str, list[str]]:
    """Return the files of relations, without runs."""
    return {name: entry.files for name, entry in manifest.relations.items()}


def _fate(before: Index, after: Index, deltas: Mapping[Reading, Delta]) -> Fate:
    """Return what is still known of an epoch's updates: the real changes."""
    fate = Fate()
    for name, entry in after.manifest.relations.items():
        delta = deltas.get((name, 2 if entry.rows is None else 3))
        if delta is not None and entry.type_of is None and not entry.is_stored_result:
            fate.inserted += delta.inserted.shape[1]
            fate.deleted += delta.deleted.shape[1]
    fate.updates = fate.inserted + fate.deleted
    fate.vertices = after.manifest.domains[VERTEX].size - before.manifest.domains[VERTEX].size
    return fate


def _no_spark() -> NoReturn:
    raise AssertionError("a replay needs no Spark")
