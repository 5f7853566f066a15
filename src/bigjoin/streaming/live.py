"""A graph that is being changed: from a table of updates to a staged epoch, and from a committed epoch to the next."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bigjoin.errors import BigjoinError
from bigjoin.index.dictionary import NO_CODE
from bigjoin.index.directory import VERTEX, Index
from bigjoin.index.epoch_files import EpochFiles
from bigjoin.index.lookup import CodeLookup
from bigjoin.index.manifest_entries import ClockEntry, DomainEntry, Manifest, RelationEntry, RunEntry
from bigjoin.index.manifest_file import log_of
from bigjoin.index.runs import Delta, Reading, write_deltas
from bigjoin.index.versions import versions_of
from bigjoin.joins.phase import Phase
from bigjoin.storage.arrays import write_table
from bigjoin.streaming.deltas import FIRST_NEW_CODE, CodedUpdates, Integers, by_relation, relation_delta
from bigjoin.streaming.stored_results import deltas_of, stored_results
from bigjoin.streaming.typed_edges import as_updates_of_all, typed_delta, types_of
from bigjoin.streaming.update_columns import BY_NAME, UpdateColumns
from bigjoin.streaming.update_rows import UpdateRows, read_update_rows
from bigjoin.streaming.update_schema import ExpectedUpdates
from bigjoin.streaming.updates import DELETE, INSERT, Fate
from bigjoin.streaming.vertex_updates import vertex_delta
from bigjoin.streaming.window import Window

DELTAS = "deltas.npz"
"""The file of an epoch's deltas."""


@dataclass(frozen=True)
class StagedEpoch:
    """An epoch that is not committed yet."""

    fate: Fate
    new_ids: NewIds
    manifest: Manifest
    """With the epoch as its last run, if it changes anything."""
    has_changes: bool
    replaced: tuple[str, ...] = ()
    """The properties of vertices of which it replaces values."""


class LiveIndex:
    """An opened index, its versions in memory, and the codes of its ids."""

    def __init__(
        self,
        index: Index,
        *,
        order: str | None = None,
        window: Window | None = None,
        key: str | None = None,
        columns: UpdateColumns = BY_NAME,
    ) -> None:
        self.order, self.window, self.key, self.columns = order, window, key, columns
        self.load(index)

    def load(self, index: Index) -> None:
        """Begin with an index as it was committed."""
        self.index, self.log = index, log_of(index.path)
        self._expected: ExpectedUpdates | None = None
        self.versions = versions_of(index, index.runs)
        ids = index.dictionaries[VERTEX]
        self.stored = stored_results(index)
        self.lookup, self.id_type = CodeLookup(ids.ids), ids.type
        if self.lookup.size >= FIRST_NEW_CODE:
            found, most = f"{self.lookup.size:,}", f"{FIRST_NEW_CODE:,}"
            raise BigjoinError(f"the graph {index.path} has {found} vertices: updates are for up to {most}")
        if self.window is not None:
            self.window.load(index, self.versions)

    @property
    def expected(self) -> ExpectedUpdates:
        """What updates have to be like; epochs do not change that."""
        if self._expected is None:
            time = None if self.window is None else self.window.column
            self._expected = ExpectedUpdates.of_index(self.index, self.columns, order=self.order, time=time)
        return self._expected

    def stage(self, table: pa.Table, files: EpochFiles, source: str) -> StagedEpoch:
        """Write a table of updates to files as an epoch, and begin it, so that its versions can be read."""
        if self.window is not None:
            self.window.undo()  # an epoch before this one may have been refused
        known = self.index.statistics.properties
        kept = {name for domain, properties in known.items() if domain != VERTEX for name in properties}
        rows = read_update_rows(
            table,
            self.id_type,
            source,
            order=self.order,
            of_edges=kept,
            of_vertices=known.get(VERTEX, {}),
            relations=self.relations,
            columns=self.columns,
        )
        new_ids, updates = NewIds(self.lookup, rows), rows.edges
        types = types_of(self.index)
        coded = CodedUpdates(new_ids.ends, updates.ops, updates.properties, updates.ordered, updates.rows)
        coded = as_updates_of_all(coded, types, source)
        parts = by_relation(coded, self.relations, source, kept) if len(coded) or not len(rows.vertices) else {}
        if self.window is not None:  # its rows expire even if only other relations have updates
            parts.setdefault(self.window.relation, coded.where(np.zeros(len(coded), np.bool_)))
        fate, found = Fate(), {}
        for relation, mine in parts.items():
            window = self.window if self.window is not None and self.window.relation == relation else None
            found[relation] = relation_delta(
                self.index, self.versions, relation, mine, source=source, window=window, key=self.key
            )
            fate.add(found[relation].fate)
        for name, of in types.items():
            if of.relation in found and (typed := typed_delta(self.index, self.versions, name, of, found[of.relation])):
                found[name] = typed
        new_ids.keep([*(change.pairs.inserted for change in found.values()), new_ids.new_vertices(rows)])
        of_vertices = vertex_delta(self.index, new_ids.vertex_codes, rows.vertices, source) if len(rows.vertices) else None
        if of_vertices is not None:
            fate.add(of_vertices.fate)
        fate.vertices = len(new_ids.kept)
        code_type, deltas = self.index.manifest.codes, {}
        for relation, change in found.items():
            for width, delta in ((2, change.pairs), (3, change.rows)):
                if delta is not None and len(delta):
                    parts_coded = (new_ids.final_codes(tuples).astype(code_type) for tuples in (delta.deleted, delta.inserted))
                    deltas[relation, width] = Delta(*parts_coded)
        replaced = None
        if of_vertices is not None:
            deltas |= {(label, 1): _coded(delta, code_type) for label, delta in of_vertices.labels.items()}
            replaced = of_vertices.replaced
        properties = {name: change.properties for name, change in found.items() if change.properties is not None}
        manifest = self._manifest()
        has_changes = bool(deltas) or replaced is not None
        if has_changes or len(new_ids.kept):
            manifest = _with_run(manifest, files, deltas, new_ids.kept, properties, replaced)
            manifest = _without_stored(manifest, {result.name for result in self.stored})
        names = () if replaced is None else tuple(replaced.column_names[1:])
        manifest = self._begin(manifest, files, deltas, names)
        return StagedEpoch(fate, new_ids, manifest, has_changes, names)

    def _begin(
        self, manifest: Manifest, files: EpochFiles, deltas: Mapping[Reading, Delta], replaced: Sequence[str]
    ) -> Manifest:
        """Begin an epoch: all relations but stored results, then these; write the deltas of both."""
        statistics = Index(self.index.path, manifest).statistics
        if len(manifest.runs) == len(self.index.runs):
            self.versions.begin({}, statistics)
            return manifest
        self.versions.begin(deltas, statistics, stored=False)
        if self.stored:
            pending = {} if self.log is None else self.log.held
            index = self.index.followed_by(manifest, {**pending, **files.held})
            phases = (Phase(self.versions, index, insert=False), Phase(self.versions, index, insert=True))
            stored = deltas_of(self.stored, phases, replaced)
            self.versions.begin(stored, statistics, stored=True)
            manifest, deltas = _with_deltas(manifest, stored), {**deltas, **stored}
        with files.open(DELTAS) as sink:
            write_deltas(sink, deltas)
        return manifest

    def committed(self, index: Index, staged: StagedEpoch) -> None:
        """Go on from an epoch that is committed."""
        self.versions.commit()
        self.lookup.add(staged.new_ids.kept)
        self.index = index
        if self.window is not None:
            self.window.advance(staged.new_ids.final_codes)

    @property
    def relations(self) -> list[str]:
        """The relations that updates can name."""
        known = self.versions.readings.items()
        return [name for (name, width), relation in known if width == 2 and not relation.materialized]

    def _manifest(self) -> Manifest:
        """Return the manifest of the next epoch, without its run."""
        known, clock = self.index.manifest, self.index.manifest.clock
        if self.window is not None and self.window.next_clock is not None:
            clock = ClockEntry(self.window.relation, self.window.column, self.window.next_clock)
        return replace(known, epoch=known.epoch + 1, previous=known.identity, clock=clock)


def _coded(delta: Delta, code_type: str) -> Delta:
    return Delta(delta.deleted.astype(code_type), delta.inserted.astype(code_type))


def _with_run(
    manifest: Manifest,
    files: EpochFiles,
    deltas: Mapping[Reading, Delta],
    ids: pa.Array,
    rows: Mapping[str, pa.Table],
    replaced: pa.Table | None,
) -> Manifest:
    """Write new ids, the properties of new rows and those of vertices to files; return the manifest with a run of deltas."""
    domains, parts = dict(manifest.domains), dict[str, str]()

    def grow(name: str, count: int, **tables: pa.Table) -> DomainEntry:
        """Return a domain with new values, whose tables are written and entered among the parts of the run."""
        before = domains[name]
        domain = replace(before, stored=before.stored_size, size=before.size + count) if count else before
        for part, table in tables.items():
            file = f"{name.replace(' ', '-')}.{part}.arrow"
            with files.open(file) as sink:
                write_table(table.combine_chunks(), sink)
            parts[f"{name}/{part}"] = files.name(file)
            domain = domain.with_part(part, (*domain.part(part), parts[f"{name}/{part}"]))
        return domain

    if len(ids):
        domains[VERTEX] = grow(VERTEX, len(ids), ids=pa.table({"id": ids}))
    if replaced is not None:
        domains[VERTEX] = grow(VERTEX, 0, changes=replaced)
    for relation, table in rows.items():
        if not len(table):
            continue
        domain = domains[name := f"{relation} edge"]
        first = domain.next or domain.size
        tables = {"files": table} if domain.properties else {}
        if domain.ids is not None:
            tables["ids"] = pa.table({"id": pa.array(np.arange(first, first + len(table)))})
        domains[name] = replace(grow(name, len(table), **tables), next=first + len(table))
    run = RunEntry((manifest.epoch, manifest.epoch), 0, files.name(DELTAS), parts)
    return _with_deltas(replace(manifest, runs=(*manifest.runs, run), domains=domains), deltas)


def _with_deltas(manifest: Manifest, deltas: Mapping[Reading, Delta]) -> Manifest:
    """Return a manifest whose last run has further deltas, and whose relations have the tuples after them."""
    *runs, last = manifest.runs
    run = replace(last, tuples=last.tuples + sum(map(len, deltas.values())))
    changed = {name for name, _ in deltas}
    relations = {
        name: _with_tuples(name, entry, deltas) if name in changed else entry for name, entry in manifest.relations.items()
    }
    return replace(manifest, runs=(*runs, run), relations=relations)


def _without_stored(manifest: Manifest, kept: Collection[str]) -> Manifest:
    """Return a manifest without the stored results that do not follow the epoch, and so are out of date."""
    dropped = [name for name, entry in manifest.relations.items() if entry.is_stored_result and name not in kept]
    if not dropped:
        return manifest
    reason = "any form of their `unique` matches may be stored, so they cannot follow updates; store them again when needed"
    warnings.warn(f"stored results are dropped: {', '.join(dropped)}: {reason}", stacklevel=2)
    return replace(manifest, relations={name: entry for name, entry in manifest.relations.items() if name not in dropped})


def _with_tuples(relation: str, entry: RelationEntry, deltas: Mapping[Reading, Delta]) -> RelationEntry:
    """Return the entry of a relation, and of its rows, with the number of tuples after the epoch."""
    rows = None if entry.rows is None else _with_tuples(relation, entry.rows, deltas)
    delta, more = deltas.get((relation, len(entry.domains))), 0
    if delta is not None:
        more = (delta.inserted.shape[1] - delta.deleted.shape[1]) * (2 if entry.symmetric else 1)
    return replace(entry, rows=rows, tuples=entry.tuples + more)


class NewIds:
    """The ids that the graph does not have: they get temporary codes until it is known which of them stay.

    Deletions of such ids mean nothing, whatever the ids are.
    """

    def __init__(self, lookup: CodeLookup, rows: UpdateRows) -> None:
        self.first_code = lookup.size
        every = rows.ids
        codes = lookup.codes(every)
        said = np.concatenate([np.tile(rows.edges.ops != DELETE, 2), rows.vertices.ops == INSERT])  # `=` moves a window's clock
        are_new = (codes == NO_CODE) & said
        self.ids = pc.unique(every.filter(pa.array(are_new))) if are_new.any() else pa.array([], every.type)
        if len(self.ids):
            at = pc.index_in(every, value_set=self.ids).fill_null(NO_CODE).to_numpy().astype(np.int64)
            codes = np.where(at == NO_CODE, codes, at + FIRST_NEW_CODE)
        self.ends: Integers = codes[: 2 * len(rows.edges)].reshape(2, -1)
        """The codes of the sources and of the targets of updates."""
        self.vertices: Integers = codes[2 * len(rows.edges) :]
        """The codes of the vertices that updates are about."""
        self.kept: pa.Array = self.ids[:0]
        """The ids that stay, in the order of their codes."""
        self.final: Integers = np.empty(0, np.int64)

    def new_vertices(self, rows: UpdateRows) -> Integers:
        """Return the codes of vertices that are inserted."""
        return np.compress(rows.vertices.ops == INSERT, self.vertices)

    @property
    def vertex_codes(self) -> Integers:
        """The final codes of the vertices that updates are about, NO_CODE for ids that do not stay."""
        used = np.append(self._is_kept, False)
        at = np.where(self.vertices >= FIRST_NEW_CODE, self.vertices - FIRST_NEW_CODE, len(self.ids))
        final = np.append(self.final, NO_CODE)[at]
        codes: Integers = np.where(at == len(self.ids), self.vertices, np.where(used[at], final, NO_CODE))
        return codes

    def keep(self, inserted: Iterable[Integers]) -> None:
        """Keep the ids that inserted pairs need, and give them the next codes."""
        used = np.zeros(len(self.ids), np.bool_)
        for codes in inserted:
            used[codes[codes >= FIRST_NEW_CODE] - FIRST_NEW_CODE] = True
        self._is_kept = used
        self.final = np.cumsum(used) - 1 + self.first_code
        self.kept = self.ids.filter(pa.array(used))

    def final_codes(self, tuples: Integers) -> Integers:
        """Return tuples with final instead of temporary codes in their first two columns."""
        is_new = tuples[:2] >= FIRST_NEW_CODE
        if is_new.any():
            tuples = tuples.copy()
            tuples[:2][is_new] = self.final[tuples[:2][is_new] - FIRST_NEW_CODE]
        return tuples
