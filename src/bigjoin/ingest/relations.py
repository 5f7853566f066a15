"""Relations of any arity -> an index: one dictionary for each domain, and a trie for each column order that plans ask for.

A domain is a set of columns whose values are compared with each other. Its values get codes by descending frequency, ties by
value, like the vertices of a graph by their degrees. The stages are those of a graph's build: scan, merge, number, write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from bigjoin.defaults import PART_SIZE
from bigjoin.errors import SourceError
from bigjoin.index.dictionary import code_type
from bigjoin.index.manifest_entries import ColumnOrder, Manifest, RelationEntry, SourceEntry
from bigjoin.index.stage_runner import StageRunner
from bigjoin.ingest.assembly import write_dictionary
from bigjoin.ingest.columns import common_type, joined_type
from bigjoin.ingest.ids import MergedIds
from bigjoin.ingest.numbering import Numbering, number_values
from bigjoin.ingest.scan import IdSpace, Scan, ScannedChunk, ScannedTable, rank_chunks, scan_splits
from bigjoin.ingest.table import Table
from bigjoin.ingest.tries import TrieToWrite, TrieWriter, TupleChunk
from bigjoin.query.statistics import RelationStatistics, Statistics
from bigjoin.storage.arrays import map_array, map_table

Orders: TypeAlias = Mapping[str, Iterable[ColumnOrder]]
"""By relation: column orders."""


@dataclass(frozen=True)
class Domain:
    """A set of columns that share a dictionary."""

    name: str
    columns: tuple[tuple[str, str], ...]
    """Relations and the names of their columns."""


@dataclass(frozen=True)
class EncodedDomain:
    """The values of a domain, merged and numbered."""

    ids: IdSpace
    merged: Sequence[MergedIds]
    numbering: Numbering


@dataclass(frozen=True)
class EncodedRelation:
    """A relation as tuples of codes; of its rows, some had a NULL, and some the same value in all columns (`loops`)."""

    columns: tuple[str, ...]
    domains: tuple[str, ...]
    chunks: tuple[TupleChunk, ...]
    rows: int
    nulls: int
    loops: int


@dataclass(frozen=True)
class Encoded:
    """Relations as tuples of codes, in files."""

    relations: Mapping[str, EncodedRelation]
    domains: Mapping[str, EncodedDomain]

    @property
    def sizes(self) -> dict[str, int]:
        """How many values each domain has."""
        return {name: domain.numbering.size for name, domain in self.domains.items()}

    @property
    def statistics(self) -> Statistics:
        """What a planner may know; it can have any column order."""
        relations = {
            name: RelationStatistics(one.domains, one.rows - one.nulls, loops=one.loops, columns=one.columns)
            for name, one in self.relations.items()
        }
        return Statistics(relations, self.sizes)

    @property
    def code_type(self) -> np.dtype[Any]:
        return np.dtype(code_type(max(self.sizes.values(), default=0)))

    def manifest(self, folder: Path) -> Manifest:
        """Write the dictionaries into a folder, and return the manifest of an index without relations."""
        domains = {
            name: write_dictionary(folder, f"domain{number}", domain.numbering, domain.ids, domain.merged)
            for number, (name, domain) in enumerate(self.domains.items())
        }
        return Manifest(self.code_type.name, 1, domains, {})

    def write(self, orders: Orders, folder: Path, exchange: Path, run: StageRunner) -> dict[str, RelationEntry]:
        """Write column orders of relations into a folder, and return the relations' entries in a manifest with just these."""
        sizes = self.sizes
        wanted = [
            TrieToWrite(
                name, order, tuple(sizes[domain] for domain in self.relations[name].domains), self.relations[name].chunks
            )
            for name, asked in orders.items()
            for order in asked
        ]
        written = TrieWriter(folder, str(exchange), run, self.code_type, 1, PART_SIZE).write(wanted)
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
        return entries


def encode(
    relations: Mapping[str, Table], domains: Sequence[Domain], folder: Path, run: StageRunner, *, drop_nulls: bool = False
) -> Encoded:
    """Give the values of each domain their codes; refuse types that do not compare, and NULLs unless they are to be dropped."""
    ids = {domain.name: IdSpace(_common_type(domain, relations)) for domain in domains}
    of = {column: domain.name for domain in domains for column in domain.columns}
    scanned = [
        ScannedTable(number, name, tuple(of[name, c] for c in table.keys), columns=table.keys, counted=True)
        for number, (name, table) in enumerate(relations.items())
    ]
    splits = [(table, split) for table in scanned for split in relations[table.source].splits]
    chunks = scan_splits(Scan(str(folder), ids, PART_SIZE), splits, run)
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
        found[table.source] = EncodedRelation(relations[table.source].keys, table.domains, tuples, read, read - rows, loops)
    return Encoded(found, encoded)


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
