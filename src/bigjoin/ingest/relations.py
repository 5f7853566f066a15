"""Relations of any arity -> an index: one dictionary for each domain, and a trie for each column order that plans ask for.

A domain is a set of columns whose values are compared with each other. Its values get codes by descending frequency, ties by
value, like the vertices of a graph by their degrees. The stages are those of a graph's build: scan, merge, number, write.

A relation may have the number of a row as its last column, from a domain whose values are numbers already, and have
properties. Pairs with row numbers are kept as those of a graph are: the rows of a pair are a level below the pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from bigjoin.defaults import PART_SIZE
from bigjoin.errors import SourceError
from bigjoin.index.dictionary import code_type
from bigjoin.index.manifest_entries import ColumnOrder, DomainEntry, Manifest, RelationEntry, SourceEntry
from bigjoin.index.stage_runner import StageRunner
from bigjoin.ingest.assembly import write_dictionary
from bigjoin.ingest.columns import common_type, joined_type
from bigjoin.ingest.ids import MergedIds
from bigjoin.ingest.numbering import Numbering, number_values
from bigjoin.ingest.scan import IdSpace, Scan, ScannedChunk, ScannedTable, rank_chunks, scan_splits
from bigjoin.ingest.table import Table
from bigjoin.ingest.tries import TrieToWrite, TrieWriter, TupleChunk
from bigjoin.query.statistics import ListStatistics, RelationStatistics, Statistics
from bigjoin.storage.arrays import map_array, map_table

Orders: TypeAlias = Mapping[str, Iterable[ColumnOrder]]
"""By relation: column orders."""


@dataclass(frozen=True)
class Domain:
    """A set of columns that share a dictionary."""

    name: str
    columns: tuple[tuple[str, str], ...]
    """Relations and the names of their columns."""
    rows: int | None = None
    """How many rows a table has, if the values are their numbers."""


@dataclass(frozen=True)
class NumberedRows:
    """The numbers of a table's rows, and their properties: names, types, and Arrow files that follow one another."""

    size: int
    properties: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()

    def entry(self, folder: Path, stem: str) -> DomainEntry:
        """Move the files into the folder of an index, and return the entry of the domain in its manifest."""
        names = [f"{stem}.rows{number}.arrow" for number in range(len(self.files))]
        for file, name in zip(self.files, names, strict=True):
            Path(file).rename(folder / name)
        files = tuple(f"{folder.name}/{name}" for name in names)
        return DomainEntry(self.size, "int64", properties=self.properties, files=files)


@dataclass(frozen=True)
class EncodedDomain:
    """The values of a domain, merged and numbered."""

    ids: IdSpace
    merged: Sequence[MergedIds]
    numbering: Numbering


@dataclass(frozen=True)
class EncodedRelation:
    """A relation as tuples of codes; of its rows, some had a NULL, and some the same value in all columns (`loops`).

    Pairs may have a third column that is not one of theirs: the number of the row, from the domain `numbered`.
    """

    columns: tuple[str, ...]
    domains: tuple[str, ...]
    chunks: tuple[TupleChunk, ...]
    rows: int
    nulls: int
    loops: int
    numbered: str | None = None

    @property
    def statistics(self) -> RelationStatistics:
        """What a planner may know before it is written: it can have any column order."""
        tuples = self.rows - self.nulls
        pairs = RelationStatistics(self.domains, tuples, loops=self.loops, columns=self.columns)
        if self.numbered is None:
            return pairs
        lists: dict[tuple[int, ...], ListStatistics] = {(0, 1, 2): ListStatistics(max(1, tuples), 1.0, 1.0, 1)}
        return replace(pairs, rows=RelationStatistics((*self.domains, self.numbered), tuples, lists=lists))


@dataclass(frozen=True)
class Encoded:
    """Relations as tuples of codes, in files."""

    relations: Mapping[str, EncodedRelation]
    domains: Mapping[str, EncodedDomain]
    numbered: Mapping[str, NumberedRows] = field(default_factory=dict)

    @property
    def sizes(self) -> dict[str, int]:
        """How many values each domain has."""
        values = {name: domain.numbering.size for name, domain in self.domains.items()}
        return values | {name: rows.size for name, rows in self.numbered.items()}

    @property
    def statistics(self) -> Statistics:
        """What a planner may know; relations can have any column order."""
        relations = {name: one.statistics for name, one in self.relations.items()}
        types = {name: str(domain.ids.type) for name, domain in self.domains.items()}
        types |= dict.fromkeys(self.numbered, "int64")
        properties = {name: rows.properties for name, rows in self.numbered.items() if rows.properties}
        return Statistics(relations, self.sizes, properties, types)

    @property
    def code_type(self) -> np.dtype[Any]:
        return np.dtype(code_type(max(self.sizes.values(), default=0)))

    def manifest(self, folder: Path) -> Manifest:
        """Write the dictionaries into a folder, and return the manifest of an index without relations."""
        domains = {
            name: write_dictionary(folder, f"domain{number}", domain.numbering, domain.ids, domain.merged)
            for number, (name, domain) in enumerate(self.domains.items())
        }
        for number, (name, rows) in enumerate(self.numbered.items()):
            domains[name] = rows.entry(folder, f"table{number}")
        return Manifest(self.code_type.name, 1, domains, {})

    def write(self, orders: Orders, folder: Path, exchange: Path, run: StageRunner) -> dict[str, RelationEntry]:
        """Write column orders of relations into a folder, and return the relations' entries in a manifest with just these."""
        wanted = [self._trie(name, order) for name, asked in orders.items() for order in asked]
        writer = TrieWriter(folder, str(exchange), run, self.code_type, 1, PART_SIZE)
        written = writer.write(wanted)
        entries = {}
        for name in orders:
            one = self.relations[name]
            found = {trie.order: stored for trie, stored in zip(wanted, written, strict=True) if trie.relation == name}
            tuples = max((count for _, count in found.values()), default=0)
            entries[name] = RelationEntry(
                domains=one.domains,
                columns=one.columns,
                tuples=tuples,
                symmetric=False,
                loops=one.loops,
                orders={order: entry for order, (entry, _) in found.items()},
                source=SourceEntry(one.rows, one.nulls, one.loops, duplicates=one.rows - one.nulls - tuples),
            )
        below = [name for name in orders if self.relations[name].numbered is not None and (0, 1) in entries[name].orders]
        tries = [replace(self._trie(name, (0, 1, 2)), distinct=True, above=entries[name].orders[0, 1].levels) for name in below]
        for name, (order, tuples) in zip(below, writer.write(tries), strict=True):
            domains = (*self.relations[name].domains, str(self.relations[name].numbered))
            rows = RelationEntry(domains, tuples, symmetric=False, loops=0, orders={(0, 1, 2): order})
            entries[name] = replace(entries[name], rows=rows)
        return entries

    def _trie(self, name: str, order: ColumnOrder) -> TrieToWrite:
        one, sizes = self.relations[name], self.sizes
        domains = one.domains if one.numbered is None else (*one.domains, one.numbered)
        return TrieToWrite(name, order, tuple(sizes[domain] for domain in domains), one.chunks)


def encode(
    relations: Mapping[str, Table], domains: Sequence[Domain], folder: Path, run: StageRunner, *, drop_nulls: bool = False
) -> Encoded:
    """Give the values of each domain their codes; refuse types that do not compare, and NULLs unless they are to be dropped."""
    numbers = {domain.name: domain.rows for domain in domains if domain.rows is not None}
    values = [domain for domain in domains if domain.rows is None]
    ids = {domain.name: IdSpace(_common_type(domain, relations)) for domain in values}
    of = {column: domain.name for domain in domains for column in domain.columns}
    scanned = []
    for number, (name, given) in enumerate(relations.items()):
        keys = tuple(of[name, c] for c in given.keys)
        scanned.append(ScannedTable(number, name, keys, columns=given.keys, counted=True, numbered=keys[-1] in numbers))
    splits = [(table, split) for table in scanned for split in relations[table.source].splits]
    spaces = {name: IdSpace(pa.int64(), 0, rows) for name, rows in numbers.items()}
    chunks = scan_splits(Scan(str(folder), {**ids, **spaces}, PART_SIZE), splits, run)
    if not drop_nulls:
        _refuse_nulls(scanned, chunks)
    encoded = {}
    for domain, space in ids.items():
        chunks, merged = rank_chunks(chunks, domain, str(folder), run)
        counted = [chunk for chunk in chunks if domain in chunk.rankings]
        counts = [(map_array(c.rankings[domain]), map_table(c.dictionaries[domain])["count"].to_numpy()) for c in counted]
        numbering = number_values(counts, (), sum(entry.size for entry in merged), str(folder))
        encoded[domain] = EncodedDomain(space, merged, numbering)
    codes = {domain: one.numbering.codes for domain, one in encoded.items()}
    found = {}
    for table in scanned:
        mine = [chunk for chunk in chunks if chunk.table == table.number]
        tuples = tuple(chunk.tuples(table.domains, codes) for chunk in mine if chunk.rows)
        read, rows, loops = (sum(getattr(chunk, part) for chunk in mine) for part in ("read", "rows", "loops"))
        one = EncodedRelation(relations[table.source].keys, table.domains, tuples, read, read - rows, loops)
        if table.numbered and len(one.columns) == 3:  # rows are a level below pairs
            one = replace(one, columns=one.columns[:2], domains=one.domains[:2], numbered=one.domains[2])
        found[table.source] = one
    return Encoded(found, encoded, {name: NumberedRows(rows) for name, rows in numbers.items()})


def _refuse_nulls(tables: Sequence[ScannedTable], chunks: Sequence[ScannedChunk]) -> None:
    for table in tables:
        mine = [chunk for chunk in chunks if chunk.table == table.number]
        read, nulls = sum(chunk.read for chunk in mine), sum(chunk.read - chunk.rows for chunk in mine)
        if nulls:
            raise SourceError(
                f"{nulls} of the {read} rows of {table.source!r} have a NULL, which equals nothing: drop them "
                "first, or with drop_nulls=True (--drop-nulls)"
            )


def _common_type(domain: Domain, relations: Mapping[str, Table]) -> pa.DataType:
    found: tuple[str, str, pa.DataType] | None = None
    for relation, column in domain.columns:
        given = relations[relation].schema.field(column).type
        if pa.types.is_null(given):  # a column without a value, of any type
            continue
        kind = joined_type(given)
        if kind is None:
            raise SourceError(
                f"column {column!r} of {relation!r} is {given}, whose values cannot be joined: cast it, or leave it out by "
                "naming the others, as in r(x: a)"
            )
        if found is None:
            found = relation, column, kind
        elif (common := common_type(found[2], kind)) is None:
            raise SourceError(
                f"column {column!r} of {relation!r} is {kind}, and column {found[1]!r} of {found[0]!r} is {found[2]}, but the "
                "query compares them: cast one of them"
            )
        else:
            found = (*found[:2], common)
    return found[2] if found is not None else pa.string()
