"""Compaction: write the tries of an index anew, with all runs merged in. Codes, ids and epoch do not change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bigjoin.index.catalogue import sample
from bigjoin.index.changing import ChangingTrie, Moment
from bigjoin.index.degrees import degree_files, degrees_entry, degrees_of
from bigjoin.index.dictionary import Dictionary, RowNumbers
from bigjoin.index.directory import VERTEX, Index
from bigjoin.index.manifest_entries import ColumnOrder, DomainEntry, LevelEntry, Manifest, OrderEntry, RelationEntry
from bigjoin.index.shards import Shards
from bigjoin.index.trie import Level, Trie, list_statistics
from bigjoin.index.values import take
from bigjoin.index.versions import Versions
from bigjoin.query.statistics import Statistics
from bigjoin.storage.arrays import map_array, write_table

PropertyTypeNames: TypeAlias = Mapping[str, Mapping[str, str]]
"""By domain: the names of the types that all of its properties get."""

MIN_FORGOTTEN_VERTICES = 1 << 16
"""Fewer vertices without an edge are not worth forgetting."""


def compact(index: Index, versions: Versions, folder: Path, types: PropertyTypeNames = MappingProxyType({})) -> Manifest:
    """Write an index with its runs merged into a folder, and return its manifest; `types` are those that properties get."""
    writer = _Compaction(index, versions, folder, types)
    relations = {name: writer.relation(name, entry) for name, entry in index.manifest.relations.items()}
    domains = {name: writer.domain(name, domain) for name, domain in index.manifest.domains.items()}
    offsets = (map_array(folder.parent / file) for file in degree_files(relations))
    degrees = degrees_of(offsets, Shards(index.shards, domains[VERTEX].size))
    return replace(index.manifest, relations=relations, domains=domains, degrees=degrees_entry(degrees), runs=(), previous=None)


def forgets_vertices(statistics: Statistics) -> bool:
    """Tell whether nothing but edges is known of vertices, so that one without edges can be forgotten."""
    labelled = any(relation.arity == 1 or relation.materialized for relation in statistics.relations.values())
    return not labelled and VERTEX not in statistics.properties


def _ranks(dictionary: Dictionary | RowNumbers, live: NDArray[np.int64] | None) -> NDArray[Any]:
    """Return the rank of each remaining id among the remaining ids."""
    if live is None:
        return dictionary.ranks
    if isinstance(dictionary, RowNumbers):
        return np.arange(len(live), dtype=np.uint32)
    ranks = np.empty(len(live), dictionary.ranks.dtype)
    ranks[np.argsort(dictionary.ranks[live])] = np.arange(len(live), dtype=ranks.dtype)
    return ranks


class _Compaction:
    """The files of one compaction."""

    def __init__(self, index: Index, versions: Versions, folder: Path, types: PropertyTypeNames) -> None:
        self.index, self.versions, self.folder, self.types = index, versions, folder, types
        self.live: dict[str, NDArray[np.int64]] = {}
        """By domain: the codes that are left, in their order, if some are gone."""
        joined = self.joined_vertices()
        if joined is not None:
            self.live[VERTEX] = joined

    def joined_vertices(self) -> NDArray[np.int64] | None:
        """Return the vertices that have an edge, if most have none and can be forgotten, as happens when a window moves on."""
        size = self.index.statistics.domains[VERTEX]
        if not forgets_vertices(self.index.statistics):
            return None
        has = np.zeros(size, np.bool_)
        for (_, width), orders in self.versions.orders.items():
            for trie in orders.values() if width == 2 else ():
                offsets, places = trie.levels[0][0].filled, trie.places[Moment.BEFORE].filled.astype(np.int64)
                has[: len(places)] |= offsets[places + 1] > offsets[places]
        alone = size - int(has.sum())
        return np.flatnonzero(has) if alone > max(MIN_FORGOTTEN_VERTICES, size // 2) else None

    def name(self, file: str) -> str:
        return f"{self.folder.name}/{file}"

    def relation(self, name: str, entry: RelationEntry) -> RelationEntry:
        """Return the entry of a relation, after writing its files if it can change."""
        if name in self.versions.lists:
            return self.label(name, entry)
        if (name, len(entry.domains)) not in self.versions.orders:
            return entry
        if entry.is_stored_result:
            orders, tries = self.orders(name, len(entry.domains))
            return replace(entry, tuples=len(tries[0]), orders=orders)
        rows = None if entry.rows is None else self.rows(name, entry.rows)
        orders, tries = self.orders(name, 2)
        if rows is not None:  # both read the pairs of this order
            orders[0, 1] = replace(orders[0, 1], levels=rows.orders[0, 1, 2].levels[:1])
        codes = np.arange(tries[0].nodes_stored, dtype=tries[0].values.dtype)
        return replace(
            entry,
            rows=rows,
            tuples=len(tries[0]),
            loops=int(tries[0].contains([codes, codes]).sum()),
            orders=orders,
            catalogue=sample(tries[:1] if entry.symmetric else tries),
        )

    def label(self, name: str, entry: RelationEntry) -> RelationEntry:
        """Return the entry of a relation with one column, after writing it if it has changed."""
        values = self.versions.lists[name].trie(Moment.BEFORE).values
        if values is self.index.base.trie(name, (0,)).values:
            return entry
        file = f"{name}.values.npy"
        np.save(self.folder / file, values)
        order = OrderEntry((LevelEntry(self.name(file)),), list_statistics(np.array([0, len(values)])))
        return replace(entry, tuples=len(values), loops=len(values), orders={(0,): order})

    def rows(self, name: str, entry: RelationEntry) -> RelationEntry:
        domain = entry.domains[2]
        trie = self.versions.orders[name, 3][0, 1, 2]
        levels = list(self.levels(trie))
        live = np.unique(levels[1].values).astype(np.int64)
        if len(live) < self.index.statistics.domains[domain]:
            self.live[domain] = live
            levels[1] = Level(levels[1].offsets, np.searchsorted(live, levels[1].values).astype(levels[1].values.dtype))
        order = self.order(f"{name}.0-1", levels, f"{name}.0-1-2")
        return replace(entry, tuples=len(levels[1].values), orders={(0, 1, 2): order})

    def orders(self, name: str, width: int) -> tuple[dict[ColumnOrder, OrderEntry], list[Trie]]:
        """Write all column orders of a relation, those that share a trie once."""
        written: dict[int, OrderEntry] = {}
        found, tries = {}, []
        for columns, trie in sorted(self.versions.orders[name, width].items()):
            if id(trie) not in written:
                levels, stem = self.levels(trie), f"{name}.{'-'.join(map(str, columns))}"
                written[id(trie)] = self.order(stem, levels, *(f"{stem}.{depth}" for depth in range(1, len(levels))))
                tries.append(Trie(levels, shards=Shards(self.index.shards, len(levels[0].offsets) - 1)))
            found[columns] = written[id(trie)]
        return found, tries

    def levels(self, trie: ChangingTrie) -> tuple[Level, ...]:
        """Return the levels of a trie, with its lists shard after shard."""
        places = trie.places[Moment.BEFORE].filled
        kept = self.live.get(VERTEX)
        places = places if kept is None else places[kept]
        shards = Shards(self.index.shards, len(places))
        levels = trie.compact(places[shards.codes(np.arange(len(places)))])
        if kept is None:
            return levels
        coded = np.searchsorted(kept, levels[0].values).astype(levels[0].values.dtype)
        return (Level(levels[0].offsets, coded), *levels[1:])

    def order(self, stem: str, levels: Sequence[Level], *further: str) -> OrderEntry:
        entries = []
        for at, level in zip((stem, *further), levels, strict=True):
            np.save(self.folder / f"{at}.offsets.npy", level.offsets)
            np.save(self.folder / f"{at}.values.npy", level.values)
            entries.append(LevelEntry(offsets=self.name(f"{at}.offsets.npy"), values=self.name(f"{at}.values.npy")))
        return OrderEntry(tuple(entries), list_statistics(levels[-1].offsets))

    def domain(self, name: str, entry: DomainEntry) -> DomainEntry:
        """Return the entry of a domain, after writing its ids and properties in one piece."""
        live, dictionary = self.live.get(name), self.index.dictionaries[name]
        stem, size = name.replace(" ", "-"), entry.size
        grown, types = entry.stored_size != size, self.types.get(name, entry.properties)
        retyped = {n for n, kind in types.items() if entry.properties[n] != kind}
        entry = replace(entry, stored=None, properties=types)
        if live is None and not grown and not retyped and not entry.changes:
            return entry
        if live is not None and name != VERTEX:  # numbers of rows that are gone are not given again
            entry = replace(entry, next=size if entry.next is None else entry.next)
        if live is not None or (grown and isinstance(dictionary, Dictionary)):
            codes = np.arange(size) if live is None else live
            ids, ranks = f"{stem}.ids.arrow", f"{stem}.ranks.npy"
            write_table(pa.table({"id": dictionary.decode(codes)}), self.folder / ids)
            np.save(self.folder / ranks, _ranks(dictionary, live))
            entry = replace(entry, size=len(codes), ids=(self.name(ids),), ranks=self.name(ranks))
        if entry.properties:
            properties = self.index.properties(name)
            columns = {n: c if live is None else take(c, live) for n, c in properties.items()}
            columns |= {n: columns[n].cast(pa.float64(), safe=False) for n in retyped}  # the caller knows that none changes
            write_table(pa.table(columns).combine_chunks(), self.folder / f"{stem}.properties.arrow")
            entry = replace(entry, files=(self.name(f"{stem}.properties.arrow"),), changes=())
        return entry
