"""A graph that is being changed: from updates to the deltas of its relations, and from a committed epoch to the next."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bigjoin.errors import SourceError, did_you_mean
from bigjoin.index.changing import State
from bigjoin.index.directory import EDGE, VERTEX, Index
from bigjoin.index.lookup import UNKNOWN, Lookup
from bigjoin.index.runs import Delta, Reading, write_deltas
from bigjoin.index.trie import Codes
from bigjoin.index.values import take
from bigjoin.index.versions import opened, register
from bigjoin.ingest.columns import cast
from bigjoin.ingest.ids import write_table
from bigjoin.streaming.updates import RELATION, Fate, Updates, normalise_pairs, read_updates
from bigjoin.streaming.window import Window

NEW = 1 << 31
"""Codes from here on are those of ids that are new, until it is known which of them stay."""


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
    content: dict[str, Any] = field(default_factory=dict)
    """The manifest's, with the epoch as a run of its own."""

    @property
    def changes(self) -> bool:
        return any(len(delta) for delta in self.deltas.values())


class Live:
    """An opened index, its versions in memory, and the codes of its ids."""

    def __init__(self, index: Index, *, order: str | None = None, window: Window | None = None) -> None:
        self.order, self.window = order, window
        self.load(index)

    def load(self, index: Index) -> None:
        """Begin from an index as it was committed."""
        self.index = index
        self.versions = opened(index)
        self.lookup = Lookup(index.dictionaries[VERTEX].ids)
        if self.window is not None:
            self.window.load(index, self.versions)

    @property
    def code_type(self) -> np.dtype[Any]:
        kind: np.dtype[Any] = np.dtype(self.index.manifest["codes"])
        return kind

    def stage(self, table: pa.Table, folder: Path, source: str) -> Staged:
        """Turn a table of updates into an epoch, whose files are in a folder; what it is about can be read, and undone."""
        staged = Staged(self.index.epoch + 1)
        kept = {name for properties in self.index.statistics.properties.values() for name in properties}
        updates = read_updates(table, self.index.dictionaries[VERTEX].type, source, order=self.order, kept=kept)
        fresh = staged.fresh = _Fresh(self.lookup, updates)
        deltas: dict[str, _Changes] = {}
        for relation, rows in _by_relation(updates, self.relations, source).items():
            mine = updates if len(rows) == len(updates) else updates.take(rows)
            deltas[relation] = self._changes(relation, mine, fresh.src[rows], fresh.dst[rows], source)
            staged.fate.add(deltas[relation].fate)
        if self.window is not None and self.window.relation not in deltas:
            deltas[self.window.relation] = self._changes(
                self.window.relation, updates.take(np.arange(0)), *(np.empty(0, np.int64),) * 2, source
            )
        new = fresh.keep([changes.inserted_pairs for changes in deltas.values()])
        staged.ids = new if len(new) else None
        staged.fate.vertices = len(new)
        for relation, changes in deltas.items():
            staged.deltas |= changes.deltas(relation, fresh, self.code_type)
            if changes.rows is not None and len(changes.rows):
                staged.rows[relation] = changes.rows
        self._write(staged, folder)
        self.versions.begin(staged.deltas, Index(self.index.path, staged.content).statistics)
        return staged

    def committed(self, index: Index, staged: Staged) -> None:
        """Go on from an epoch that is committed."""
        register(index, self.versions)
        self.versions.commit()
        if staged.ids is not None:
            self.lookup.add(staged.ids)
        self.index = index
        if self.window is not None:
            assert staged.fresh is not None
            self.window.advance(staged.fresh.settled)

    def undo(self) -> None:
        """Forget an epoch that was staged."""
        self.versions.undo()
        if self.window is not None:
            self.window.undo()

    @property
    def relations(self) -> list[str]:
        """The relations that updates can name."""
        return [name for (name, width) in self.versions.readings if width == 2]

    def _changes(
        self, relation: str, updates: Updates, src: NDArray[np.int64], dst: NDArray[np.int64], source: str
    ) -> _Changes:
        statistics = self.index.statistics.relations[relation]
        fate = Fate()
        if statistics.symmetric:
            loops = (src == dst) & (src != UNKNOWN)
            fate.loops = int((loops & updates.insert).sum())
            fate.absent = int((loops & ~updates.insert).sum())
            fate.updates = int(loops.sum())
            updates, src, dst = updates.take(~loops), src[~loops], dst[~loops]
            src, dst = np.minimum(src, dst), np.maximum(src, dst)
        known = (src != UNKNOWN) & (dst != UNKNOWN)  # else a deletion of an id that nobody knows
        fate.absent += int((~known).sum())
        fate.updates += int((~known).sum())
        updates, src, dst = (updates, src, dst) if known.all() else (updates.take(known), src[known], dst[known])
        old = (src < NEW) & (dst < NEW)
        if statistics.rows is None:
            present = np.zeros(len(src), np.bool_)
            present[old] = self.versions.holds((relation, 2), [src[old], dst[old]])
            pairs = normalise_pairs(_keys(src, dst), updates.insert, present)
            fate.add(pairs.fate)
            return _Changes(fate, (src[pairs.deleted], dst[pairs.deleted]), (src[pairs.inserted], dst[pairs.inserted]))
        return self._row_changes(relation, updates, src, dst, old, fate, source)

    def _row_changes(
        self,
        relation: str,
        updates: Updates,
        src: NDArray[np.int64],
        dst: NDArray[np.int64],
        old: NDArray[np.bool_],
        fate: Fate,
        source: str,
    ) -> _Changes:
        """Return what updates of a relation with rows come to: insertions are rows, deletions take all that fit."""
        domain = self.index.statistics.relations[relation].rows.domains[2]  # type: ignore[union-attr]
        types = {n: c.type for n, c in self.index.properties(domain).items()}
        given = _given(updates.properties, types, source)
        fate.updates += len(updates)
        insert = updates.insert.copy()
        if self.window is not None and self.window.relation == relation:
            late = insert & self.window.note(given, insert)
            fate.late += int(late.sum())
            insert &= ~late
            updates, given, src, dst, old, insert = (
                updates.take(~late), given.filter(pa.array(~late)), src[~late], dst[~late], old[~late], insert[~late],
            )  # fmt: skip
        deleting = np.flatnonzero(~insert)
        trie = self.versions.trie((relation, 3), (0, 1, 2), State.BEFORE)
        asked = deleting[old[deleting]]
        which, eids = _rows_of(trie, src[asked], dst[asked])
        fits = _fits(given.take(pa.array(asked[which])), self.index.properties(domain), eids)
        which, eids = asked[which[fits]], eids[fits]
        gone, pending = set(which.tolist()), np.flatnonzero(insert)
        if updates.ordered and len(deleting):
            cancelled, by = _cancelled(_keys(src, dst), insert, given)
            fate.cancelled += 2 * len(cancelled)
            gone |= by
            pending = np.setdiff1d(pending, cancelled)
        fate.absent += len(deleting) - len(gone)
        eids, firsts = np.unique(eids, return_index=True)
        deleted = (src[which[firsts]], dst[which[firsts]], eids)
        if self.window is not None and self.window.relation == relation:
            expired = self.window.expire(eids)
            fate.expired += len(expired[2])
            deleted = tuple(np.concatenate(both) for both in zip(deleted, expired, strict=True))  # type: ignore[assignment]
        fate.inserted += len(pending)
        fate.deleted += len(deleted[2])
        first = self.index.statistics.domains[domain]
        rows = (src[pending], dst[pending], np.arange(first, first + len(pending)))
        if self.window is not None and self.window.relation == relation:
            self.window.add(given.take(pa.array(pending)), rows)
        return self._changes_of_pairs(relation, deleted, rows, fate, given.take(pa.array(pending)))

    def _changes_of_pairs(self, relation: str, deleted: Any, rows: Any, fate: Fate, properties: pa.Table) -> _Changes:
        """Return the changes of rows and those of the pairs that get their first row, or lose their last."""
        keys, firsts = np.unique(
            _keys(*[np.concatenate([d, r]) for d, r in zip(deleted[:2], rows[:2], strict=True)]), return_index=True
        )
        src, dst = (np.concatenate([d, r])[firsts] for d, r in zip(deleted[:2], rows[:2], strict=True))
        before = np.zeros(len(keys), np.int64)
        old = (src < NEW) & (dst < NEW)
        trie = self.versions.trie((relation, 3), (0, 1, 2), State.BEFORE)
        nodes = trie.nodes([src[old], dst[old]], int(old.sum())).astype(np.int64)
        before[old] = np.where(nodes >= 0, trie.offsets[nodes + 1] - trie.offsets[nodes], 0)
        lost = np.bincount(np.searchsorted(keys, _keys(*deleted[:2])), minlength=len(keys))
        won = np.bincount(np.searchsorted(keys, _keys(*rows[:2])), minlength=len(keys))
        after = before - lost + won
        gone, came = (before > 0) & (after == 0), (before == 0) & (after > 0)
        return _Changes(fate, (src[gone], dst[gone]), (src[came], dst[came]), deleted, rows, properties)

    def _write(self, staged: Staged, folder: Path) -> None:
        """Write what the epoch brings as a run of its own, and put the manifest's content together."""
        manifest = self.index.manifest
        content = {key: value for key, value in manifest.items() if key not in ("files", "superseded", "sha256")}
        content |= {"epoch": staged.epoch, "previous": manifest["identity"], "runs": self.index.runs}
        if self.window is not None and np.isfinite(self.window.next_clock):
            content["clock"] = self.window.next_clock
        if staged.changes:
            run: dict[str, Any] = {
                "epochs": [staged.epoch, staged.epoch],
                "tuples": sum(map(len, staged.deltas.values())),
                "deltas": f"{folder.name}/deltas.npz",
                "parts": {},
            }
            write_deltas(folder / "deltas.npz", staged.deltas)
            domains = {name: dict(domain) for name, domain in manifest["domains"].items()}
            if staged.ids is not None:
                _grow(domains, VERTEX, len(staged.ids), {"ids": pa.table({"id": staged.ids})}, folder, run)
            for relation, table in staged.rows.items():
                name = f"{relation} edge"
                domain = domains[name]
                first: int = domain.get("next") or domain["size"]
                parts = {"files": table} if domain.get("properties") else {}
                if "ids" in domain:
                    parts["ids"] = pa.table({"id": pa.array(np.arange(first, first + len(table)))})
                _grow(domains, name, len(table), parts, folder, run)
                domains[name]["next"] = first + len(table)
            relations = {
                name: _with_tuples(name, entry, staged.deltas)
                for name, entry in manifest["relations"].items()
                if "definition" not in entry  # stored results of queries, which no longer are
            }
            content |= {"runs": [*self.index.runs, run], "domains": domains, "relations": relations}
        staged.content = content


def _grow(
    domains: dict[str, Any], name: str, count: int, parts: Mapping[str, pa.Table], folder: Path, run: dict[str, Any]
) -> None:
    """Enter new values of a domain, and write what is known of them."""
    domain = domains[name]
    domain |= {"stored": domain.get("stored", domain["size"]), "size": domain["size"] + count}
    for part, table in parts.items():
        file = folder / f"{name.replace(' ', '-')}.{part}.arrow"
        write_table(table.combine_chunks(), file)
        domain[part] = [*domain[part], f"{folder.name}/{file.name}"]
        run["parts"][f"{name}/{part}"] = f"{folder.name}/{file.name}"


def _with_tuples(relation: str, entry: dict[str, Any], deltas: Mapping[Reading, Delta]) -> dict[str, Any]:
    """Return the entry of a relation with the number of tuples that it will have."""
    entry = dict(entry)
    if "rows" in entry:
        entry["rows"] = dict(entry["rows"])
    for width, part in ((2, entry), (3, entry.get("rows"))):
        if (delta := deltas.get((relation, width))) is not None and part is not None:
            part["tuples"] += (len(delta.inserted[0]) - len(delta.deleted[0])) * (2 if part["symmetric"] else 1)
    return entry


class _Fresh:
    """Ids that updates insert and the graph does not have yet: numbered for now, until it is known which of them stay."""

    def __init__(self, lookup: Lookup, updates: Updates) -> None:
        self.lookup = lookup
        columns = [(column, lookup.codes(column)) for column in (updates.src, updates.dst)]
        new = [column.filter(pa.array((codes == UNKNOWN) & updates.insert)) for column, codes in columns]
        self.ids = pc.unique(pa.chunked_array([chunk for column in new for chunk in column.chunks], updates.src.type))
        temporary = Lookup(self.ids)
        for column, codes in columns:
            missing = np.flatnonzero(codes == UNKNOWN)
            if len(missing) and len(self.ids):
                late = temporary.codes(column.take(pa.array(missing)))
                codes[missing] = np.where(late == UNKNOWN, UNKNOWN, late + NEW)
        self.src, self.dst = (codes for _, codes in columns)
        """The codes of the ends of updates, from NEW on for ids that are new."""
        self.final: NDArray[np.int64] = np.empty(0, np.int64)

    def keep(self, pairs: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]]) -> pa.Array:
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


@dataclass
class _Changes:
    """How one relation changes: its pairs, and its rows if it has any."""

    fate: Fate
    deleted_pairs: tuple[NDArray[np.int64], NDArray[np.int64]]
    inserted_pairs: tuple[NDArray[np.int64], NDArray[np.int64]]
    deleted_rows: tuple[NDArray[np.int64], ...] | None = None
    inserted_rows: tuple[NDArray[np.int64], ...] | None = None
    rows: pa.Table | None = None

    def deltas(self, relation: str, fresh: _Fresh, kind: np.dtype[Any]) -> dict[Reading, Delta]:
        def coded(columns: Sequence[NDArray[np.int64]]) -> list[Codes]:
            return [fresh.settled(column).astype(kind) for column in columns[:2]] + [c.astype(kind) for c in columns[2:]]

        found = {}
        if len(self.deleted_pairs[0]) or len(self.inserted_pairs[0]):
            found[relation, 2] = Delta(coded(self.deleted_pairs), coded(self.inserted_pairs))
        if (
            self.deleted_rows is not None
            and self.inserted_rows is not None
            and (len(self.deleted_rows[0]) or len(self.inserted_rows[0]))
        ):
            found[relation, 3] = Delta(coded(self.deleted_rows), coded(self.inserted_rows))
        return found


def _by_relation(updates: Updates, relations: Sequence[str], source: str) -> dict[str, NDArray[np.int64]]:
    """Return the numbers of each relation's updates: by a column that names it, if there are several relations."""
    if RELATION not in updates.properties.column_names or len(relations) == 1:
        if EDGE not in relations and len(relations) > 1:
            raise SourceError(f"{source} has no column {RELATION!r}, and the graph has several: {', '.join(relations)}")
        return {EDGE if EDGE in relations else relations[0]: np.arange(len(updates))}
    names = updates.properties[RELATION].combine_chunks().dictionary_encode()
    found = {}
    for number, name in enumerate(names.dictionary.to_pylist()):
        if name not in relations:
            hint = did_you_mean(str(name), relations) or f"the graph has {', '.join(relations)}"
            raise SourceError(f"{source} names the relation {name!r}, which there is not: {hint}")
        found[name] = np.flatnonzero(names.indices.to_numpy(zero_copy_only=False) == number)
    if names.indices.null_count:
        raise SourceError(f"column {RELATION!r} of {source} is NULL in some rows")
    return found


def _given(properties: pa.Table, types: Mapping[str, pa.DataType], source: str) -> pa.Table:
    """Return the columns of updates that the graph's rows have, NULL where they do not say."""
    left_out = [n for n in properties.column_names if n not in types and n != RELATION]
    if left_out:
        warnings.warn(f"{source}: {', '.join(left_out)}: the edges of the graph have no such column; left out", stacklevel=2)
    columns = {}
    for name, kind in types.items():
        if name in properties.column_names:
            chunks = [cast(chunk, kind, column=name, source=source) for chunk in properties[name].chunks]
            columns[name] = pa.chunked_array(chunks, kind)
        else:
            columns[name] = pa.nulls(len(properties), kind)
    return pa.table(columns or {"": pa.nulls(len(properties))})


def _rows_of(trie: Any, src: NDArray[np.int64], dst: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of pairs, and for each the number of its pair."""
    nodes = trie.nodes([src, dst], len(src)).astype(np.int64)
    starts = np.where(nodes >= 0, trie.offsets[nodes], 0)
    lengths = np.where(nodes >= 0, trie.offsets[nodes + 1] - starts, 0)
    at = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(int(lengths.sum()))
    return np.repeat(np.arange(len(src)), lengths), trie.values[at].astype(np.int64)


def _fits(given: pa.Table, properties: Mapping[str, pa.ChunkedArray], eids: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell for each row whether it has the values that its deletion gives; what is NULL there may be anything."""
    fits = np.ones(len(eids), np.bool_)
    for name, column in properties.items():
        if name in given.column_names and given[name].null_count < len(given):
            same = pc.equal(given[name].combine_chunks(), take(column, eids)).fill_null(False)
            fits &= same.to_numpy(zero_copy_only=False) | given[name].is_null().to_numpy(zero_copy_only=False)
    return fits


def _cancelled(keys: NDArray[Any], insert: NDArray[np.bool_], given: pa.Table) -> tuple[list[int], set[int]]:
    """Return the insertions that later deletions of the same epoch take back, and these deletions."""
    mixed = np.intersect1d(keys[insert], keys[~insert])
    cancelled: list[int] = []
    by: set[int] = set()
    open_: dict[Any, list[int]] = {}
    for i in np.flatnonzero(np.isin(keys, mixed)).tolist():
        mine = open_.setdefault(keys[i], [])
        if insert[i]:
            mine.append(i)
            continue
        wanted = {name: value for name, value in given.slice(i, 1).to_pylist()[0].items() if value is not None}
        taken = [k for k in mine if all(given[name][k].as_py() == value for name, value in wanted.items())]
        if taken:
            by.add(i)
            cancelled += taken
            open_[keys[i]] = [k for k in mine if k not in taken]
    return cancelled, by


def _keys(src: NDArray[np.int64], dst: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return one number for each pair."""
    return src.astype(np.uint64) << np.uint64(32) | dst.astype(np.uint64)
