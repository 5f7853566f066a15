"""A graph that is being changed: from a table of updates to a staged epoch, and from a committed epoch to the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bigjoin.errors import BigjoinError
from bigjoin.index.dictionary import NO_CODE
from bigjoin.index.directory import VERTEX, Index
from bigjoin.index.lookup import CodeLookup
from bigjoin.index.manifest_entries import ClockEntry, DomainEntry, Manifest, RelationEntry, RunEntry
from bigjoin.index.runs import Delta, Reading, write_deltas
from bigjoin.index.versions import versions_of
from bigjoin.storage.arrays import write_table
from bigjoin.streaming.deltas import FIRST_NEW_CODE, CodedUpdates, Integers, by_relation, relation_delta
from bigjoin.streaming.updates import Fate, Updates, read_updates
from bigjoin.streaming.window import Window


@dataclass(frozen=True)
class StagedEpoch:
    """An epoch that is not committed yet."""

    fate: Fate
    new_ids: NewIds
    manifest: Manifest
    """With the epoch as its last run, if it changes anything."""
    has_changes: bool


class LiveIndex:
    """An opened index, its versions in memory, and the codes of its ids."""

    def __init__(self, index: Index, *, order: str | None = None, window: Window | None = None) -> None:
        self.order, self.window = order, window
        self.load(index)

    def load(self, index: Index) -> None:
        """Begin with an index as it was committed."""
        self.index = index
        self.versions = versions_of(index, index.runs)
        self.lookup = CodeLookup(index.dictionaries[VERTEX].ids)
        if self.lookup.size >= FIRST_NEW_CODE:
            found, most = f"{self.lookup.size:,}", f"{FIRST_NEW_CODE:,}"
            raise BigjoinError(f"the graph {index.path} has {found} vertices: updates are for up to {most}")
        if self.window is not None:
            self.window.load(index, self.versions)

    def stage(self, table: pa.Table, folder: Path, source: str) -> StagedEpoch:
        """Write a table of updates to a folder as an epoch, and begin it, so that its versions can be read."""
        if self.window is not None:
            self.window.undo()  # an epoch before this one may have been refused
        kept = {name for properties in self.index.statistics.properties.values() for name in properties}
        updates = read_updates(table, self.index.dictionaries[VERTEX].type, source, order=self.order, kept=kept)
        new_ids = NewIds(self.lookup, updates)
        coded = CodedUpdates(new_ids.ends, updates.insert, updates.properties, updates.ordered)
        parts = by_relation(coded, self.relations, source, kept)
        if self.window is not None:  # its rows expire even if only other relations have updates
            parts.setdefault(self.window.relation, coded.where(np.zeros(len(coded), np.bool_)))
        fate, found = Fate(), {}
        for relation, mine in parts.items():
            window = self.window if self.window is not None and self.window.relation == relation else None
            found[relation] = relation_delta(self.index, self.versions, relation, mine, source=source, window=window)
            fate.add(found[relation].fate)
        new_ids.keep(change.pairs.inserted for change in found.values())
        fate.vertices = len(new_ids.kept)
        code_type, deltas = self.index.manifest.codes, {}
        for relation, change in found.items():
            for width, delta in ((2, change.pairs), (3, change.rows)):
                if delta is not None and len(delta):
                    parts_coded = (new_ids.final_codes(tuples).astype(code_type) for tuples in (delta.deleted, delta.inserted))
                    deltas[relation, width] = Delta(*parts_coded)
        rows = {name: change.properties for name, change in found.items() if change.properties is not None}
        manifest = self._manifest()
        if deltas:
            manifest = _with_run(manifest, folder, deltas, new_ids.kept, rows)
        self.versions.begin(deltas, Index(self.index.path, manifest).statistics)
        return StagedEpoch(fate, new_ids, manifest, bool(deltas))

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
        return [name for (name, width) in self.versions.readings if width == 2]

    def _manifest(self) -> Manifest:
        """Return the manifest of the next epoch, without its run."""
        known, clock = self.index.manifest, self.index.manifest.clock
        if self.window is not None and self.window.next_clock is not None:
            clock = ClockEntry(self.window.relation, self.window.column, self.window.next_clock)
        return replace(known, epoch=known.epoch + 1, previous=known.identity, clock=clock)


def _with_run(
    manifest: Manifest, folder: Path, deltas: Mapping[Reading, Delta], ids: pa.Array, rows: Mapping[str, pa.Table]
) -> Manifest:
    """Write deltas, new ids and the properties of new rows to a folder, and return the manifest with them as a run."""
    write_deltas(folder / "deltas.npz", deltas)
    domains, parts = dict(manifest.domains), dict[str, str]()

    def grow(name: str, count: int, **tables: pa.Table) -> DomainEntry:
        """Return a domain with new values, whose tables are written and entered among the parts of the run."""
        domain = replace(domains[name], stored=domains[name].stored_size, size=domains[name].size + count)
        for part, table in tables.items():
            file = folder / f"{name.replace(' ', '-')}.{part}.arrow"
            write_table(table.combine_chunks(), file)
            parts[f"{name}/{part}"] = f"{folder.name}/{file.name}"
            domain = domain.with_part(part, (*domain.part(part), parts[f"{name}/{part}"]))
        return domain

    if len(ids):
        domains[VERTEX] = grow(VERTEX, len(ids), ids=pa.table({"id": ids}))
    for relation, table in rows.items():
        if not len(table):
            continue
        domain = domains[name := f"{relation} edge"]
        first = domain.next or domain.size
        tables = {"files": table} if domain.properties else {}
        if domain.ids is not None:
            tables["ids"] = pa.table({"id": pa.array(np.arange(first, first + len(table)))})
        domains[name] = replace(grow(name, len(table), **tables), next=first + len(table))
    relations = {
        name: _with_tuples(name, entry, deltas)
        for name, entry in manifest.relations.items()
        if not entry.is_stored_result  # which is out of date now
    }
    epochs, tuples = (manifest.epoch, manifest.epoch), sum(map(len, deltas.values()))
    run = RunEntry(epochs, tuples, f"{folder.name}/deltas.npz", parts)
    return replace(manifest, runs=(*manifest.runs, run), domains=domains, relations=relations)


def _with_tuples(relation: str, entry: RelationEntry, deltas: Mapping[Reading, Delta]) -> RelationEntry:
    """Return the entry of a relation, and of its rows, with the number of tuples after the epoch."""
    rows = None if entry.rows is None else _with_tuples(relation, entry.rows, deltas)
    delta, more = deltas.get((relation, len(entry.domains))), 0
    if delta is not None:
        more = (delta.inserted.shape[1] - delta.deleted.shape[1]) * (2 if entry.symmetric else 1)
    return replace(entry, rows=rows, tuples=entry.tuples + more)


class NewIds:
    """The ids of insertions that the graph does not have: they get temporary codes until it is known which of them stay."""

    def __init__(self, lookup: CodeLookup, updates: Updates) -> None:
        self.first_code = lookup.size
        both = pa.chunked_array([*updates.src.chunks, *updates.dst.chunks], updates.src.type)
        codes = lookup.codes(both)
        self.ids = pc.unique(both.filter(pa.array((codes == NO_CODE) & np.tile(updates.insert, 2))))
        if len(self.ids):
            at = pc.index_in(both, value_set=self.ids).fill_null(NO_CODE).to_numpy().astype(np.int64)
            codes = np.where(at == NO_CODE, codes, at + FIRST_NEW_CODE)
        self.ends: Integers = codes.reshape(2, -1)
        """The codes of the sources and of the targets of updates."""
        self.kept: pa.Array = self.ids[:0]
        """The ids that stay, in the order of their codes."""
        self.final: Integers = np.empty(0, np.int64)

    def keep(self, inserted: Iterable[Integers]) -> None:
        """Keep the ids that inserted pairs need, and give them the next codes."""
        used = np.zeros(len(self.ids), np.bool_)
        for codes in inserted:
            used[codes[codes >= FIRST_NEW_CODE] - FIRST_NEW_CODE] = True
        self.final = np.cumsum(used) - 1 + self.first_code
        self.kept = self.ids.filter(pa.array(used))

    def final_codes(self, tuples: Integers) -> Integers:
        """Return tuples with final instead of temporary codes in their first two columns."""
        is_new = tuples[:2] >= FIRST_NEW_CODE
        if is_new.any():
            tuples = tuples.copy()
            tuples[:2][is_new] = self.final[tuples[:2][is_new] - FIRST_NEW_CODE]
        return tuples
