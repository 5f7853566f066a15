"""A graph that is being changed: from updates to the deltas of its relations, and from a committed epoch to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bigjoin.errors import BigjoinError
from bigjoin.index.directory import VERTEX, Index
from bigjoin.index.entries import ClockEntry, DomainEntry, Manifest, RelationEntry, RunEntry
from bigjoin.index.lookup import NO_CODE, CodeLookup
from bigjoin.index.runs import Delta, Reading, write_deltas
from bigjoin.index.versions import opened, register
from bigjoin.storage.arrays import write_table
from bigjoin.streaming.deltas import NEW, Changes, Coded, Numbers, by_relation, changes
from bigjoin.streaming.updates import Fate, Updates, read_updates
from bigjoin.streaming.window import Window


@dataclass
class Staged:
    """An epoch that is not committed: what it changes, and the content of the manifest with it."""

    epoch: int
    deltas: dict[Reading, Delta] = field(default_factory=dict)
    ids: pa.Array | None = None
    """Ids that are new."""
    rows: dict[str, pa.Table] = field(default_factory=dict)
    """By relation: the properties of new rows."""
    fate: Fate = field(default_factory=Fate)
    fresh: _Fresh | None = None
    """What numbers the new ids."""
    manifest: Manifest | None = None
    """With the epoch as a run of its own."""

    @property
    def changes(self) -> bool:
        return bool(self.deltas)

    def add(self, relation: str, change: Changes, kind: np.dtype[Any]) -> None:
        """Enter how a relation changes."""
        assert self.fresh is not None
        for width, deleted, inserted in (
            (2, change.deleted, change.inserted),
            (3, change.deleted_rows, change.inserted_rows),
        ):
            if any(len(part) and len(part[0]) for part in (deleted, inserted)):
                coded = [[self.fresh.settled(column).astype(kind) for column in part[:2]] for part in (deleted, inserted)]
                rows = [[column.astype(kind) for column in part[2:]] for part in (deleted, inserted)]
                self.deltas[relation, width] = Delta([*coded[0], *rows[0]], [*coded[1], *rows[1]])
        if change.properties is not None and len(change.properties):
            self.rows[relation] = change.properties


class Live:
    """An opened index, its versions in memory, and the codes of its ids."""

    def __init__(self, index: Index, *, order: str | None = None, window: Window | None = None) -> None:
        self.order, self.window = order, window
        self.load(index)

    def load(self, index: Index) -> None:
        """Begin from an index as it was committed."""
        self.index = index
        self.versions = opened(index)
        self.lookup = CodeLookup(index.dictionaries[VERTEX].ids)
        if self.lookup.size >= NEW:
            raise BigjoinError(f"the graph {index.path} has {self.lookup.size:,} vertices: updates are for up to {NEW:,}")
        if self.window is not None:
            self.window.load(index, self.versions)

    @property
    def code_type(self) -> np.dtype[Any]:
        kind: np.dtype[Any] = np.dtype(self.index.manifest.codes)
        return kind

    def stage(self, table: pa.Table, folder: Path, source: str) -> Staged:
        """Turn a table of updates into an epoch, whose files are in a folder, and begin it: its versions can be read."""
        if self.window is not None:
            self.window.undo()  # what an epoch that was refused has left
        staged = Staged(self.index.epoch + 1)
        kept = {name for properties in self.index.statistics.properties.values() for name in properties}
        updates = read_updates(table, self.index.dictionaries[VERTEX].type, source, order=self.order, kept=kept)
        fresh = staged.fresh = _Fresh(self.lookup, updates)
        parts = by_relation(updates, self.relations, source, kept)
        if self.window is not None:  # time passes for it, too, if others have updates
            parts.setdefault(self.window.relation, np.arange(0))
        found = {}
        for relation, at in parts.items():
            mine = Coded(updates if len(at) == len(updates) else updates.take(at), fresh.src[at], fresh.dst[at])
            window = self.window if self.window is not None and self.window.relation == relation else None
            found[relation] = changes(self.index, self.versions, relation, mine, source, window)
            staged.fate.add(found[relation].fate)
        new = fresh.keep([change.inserted for change in found.values()])
        staged.ids = new if len(new) else None
        staged.fate.vertices = len(new)
        for relation, change in found.items():
            staged.add(relation, change, self.code_type)
        staged.manifest = self._write(staged, folder)
        self.versions.begin(staged.deltas, Index(self.index.path, staged.manifest).statistics)
        return staged

    def committed(self, index: Index, staged: Staged) -> None:
        """Go on from an epoch that is committed."""
        self.versions.commit()
        register(index, self.versions)
        if staged.ids is not None:
            self.lookup.add(staged.ids)
        self.index = index
        if self.window is not None:
            assert staged.fresh is not None
            self.window.advance(staged.fresh.settled)

    @property
    def relations(self) -> list[str]:
        """The relations that updates can name."""
        return [name for (name, width) in self.versions.readings if width == 2]

    def _write(self, staged: Staged, folder: Path) -> Manifest:
        """Write what the epoch brings as a run of its own, and return the manifest with it."""
        known = self.index.manifest
        clock = known.clock
        if self.window is not None and self.window.next_clock is not None:
            clock = ClockEntry(self.window.relation, self.window.column, self.window.next_clock)
        manifest = replace(known, epoch=staged.epoch, previous=known.identity, clock=clock)
        if not staged.changes:
            return manifest
        write_deltas(folder / "deltas.npz", staged.deltas)
        domains, parts = dict(known.domains), dict[str, str]()
        if staged.ids is not None:
            tables = {"ids": pa.table({"id": staged.ids})}
            domains[VERTEX] = _grown(domains[VERTEX], VERTEX, len(staged.ids), tables, folder, parts)
        for relation, table in staged.rows.items():
            name = f"{relation} edge"
            domain = domains[name]
            first = domain.next or domain.size
            tables = {"files": table} if domain.properties else {}
            if domain.ids is not None:
                tables["ids"] = pa.table({"id": pa.array(np.arange(first, first + len(table)))})
            grown = _grown(domain, name, len(table), tables, folder, parts)
            domains[name] = replace(grown, next=first + len(table))
        relations = {
            name: _with_tuples(name, entry, staged.deltas)
            for name, entry in known.relations.items()
            if not entry.is_stored_result  # of what no longer is
        }
        tuples = sum(map(len, staged.deltas.values()))
        run = RunEntry((staged.epoch, staged.epoch), tuples, f"{folder.name}/deltas.npz", parts)
        return replace(manifest, runs=(*known.runs, run), domains=domains, relations=relations)


def _grown(
    domain: DomainEntry, name: str, count: int, tables: Mapping[str, pa.Table], folder: Path, parts: dict[str, str]
) -> DomainEntry:
    """Return a domain with new values, having written what is known of them; the files are entered in `parts`, too."""
    domain = replace(domain, stored=domain.stored_size, size=domain.size + count)
    for part, table in tables.items():
        file = folder / f"{name.replace(' ', '-')}.{part}.arrow"
        write_table(table.combine_chunks(), file)
        parts[f"{name}/{part}"] = f"{folder.name}/{file.name}"
        domain = domain.with_part(part, (*domain.part(part), parts[f"{name}/{part}"]))
    return domain


def _with_tuples(relation: str, entry: RelationEntry, deltas: Mapping[Reading, Delta]) -> RelationEntry:
    """Return the entry of a relation with the number of tuples that it will have."""

    def changed(reading: RelationEntry, width: int) -> RelationEntry:
        if (delta := deltas.get((relation, width))) is None:
            return reading
        more = (len(delta.inserted[0]) - len(delta.deleted[0])) * (2 if reading.symmetric else 1)
        return replace(reading, tuples=reading.tuples + more)

    rows = None if entry.rows is None else changed(entry.rows, 3)
    return replace(changed(entry, 2), rows=rows)


class _Fresh:
    """Ids that updates insert and the graph does not have yet: numbered for now, until it is known which of them stay."""

    def __init__(self, lookup: CodeLookup, updates: Updates) -> None:
        self.lookup = lookup
        columns = [(column, lookup.codes(column)) for column in (updates.src, updates.dst)]
        new = [column.filter(pa.array((codes == NO_CODE) & updates.insert)) for column, codes in columns]
        self.ids = pc.unique(pa.chunked_array([chunk for column in new for chunk in column.chunks], updates.src.type))
        temporary = CodeLookup(self.ids)
        for column, codes in columns:
            missing = np.flatnonzero(codes == NO_CODE)
            if len(missing) and len(self.ids):
                late = temporary.codes(column.take(pa.array(missing)))
                codes[missing] = np.where(late == NO_CODE, NO_CODE, late + NEW)
        self.src, self.dst = (codes for _, codes in columns)
        """The codes of the ends of updates, from NEW on for ids that are new."""
        self.final: NDArray[np.int64] = np.empty(0, np.int64)

    def keep(self, pairs: Sequence[Sequence[Numbers]]) -> pa.Array:
        """Give the ids that pairs need the next codes, and return these ids."""
        used = np.zeros(len(self.ids), np.bool_)
        for pair in pairs:
            for codes in pair:
                used[codes[codes >= NEW] - NEW] = True
        self.final = np.cumsum(used) - 1 + self.lookup.size
        return self.ids.filter(pa.array(used))

    def settled(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return codes with those of new ids as they will be."""
        new = codes >= NEW
        if new.any():
            codes = codes.copy()
            codes[new] = self.final[codes[new] - NEW]
        return codes
