"""What building and copying an index share: from sorted edges to the files of relations and the entries of the manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from bigjoin.index.catalogue import sample
from bigjoin.index.degrees import degree_files, degrees_entry, degrees_of
from bigjoin.index.directory import VERTEX
from bigjoin.index.manifest_entries import (
    ColumnOrder,
    DomainEntry,
    Manifest,
    OrderEntry,
    ReadingEntry,
    RelationEntry,
    SourceEntry,
)
from bigjoin.index.shards import Shards
from bigjoin.index.stage_runner import StageRunner
from bigjoin.index.values import take
from bigjoin.ingest.held import HeldEdges, hold_edges
from bigjoin.ingest.ids import MergedIds
from bigjoin.ingest.numbering import DistinctEdges, DropDuplicates, Numbering
from bigjoin.ingest.scan import IdSpace, ScannedChunk
from bigjoin.ingest.sorting import cut, run_in_groups
from bigjoin.ingest.tries import TrieToWrite, TrieWriter, TupleChunk
from bigjoin.storage.arrays import map_array, map_table

IDS_WRITTEN_TOGETHER = 1 << 20

EdgePart: TypeAlias = DistinctEdges | HeldEdges
"""Distinct edges of a relation: some of them in files, or all of them in memory."""


class Assembly:
    """An index in the making: its folder, the folder for files that travel between stages, and how stages are run."""

    def __init__(
        self, folder: Path, run: StageRunner, progress: Callable[[str], None], *, directed: bool, shards: int, part: int
    ) -> None:
        self.folder, self.run, self.progress = folder.absolute(), run, progress
        self.directed, self.shards, self.part = directed, shards, part
        self.exchange = str(self.folder / "exchange")
        self.relations: dict[str, RelationEntry] = {}
        self.domains: dict[str, DomainEntry] = {}

    def name(self, file: Path) -> str:
        """Return a file as the manifest names it."""
        return f"{self.folder.name}/{file.name}"

    def distinct_edges(self, chunks: Mapping[str, Sequence[ScannedChunk]], size: int) -> dict[str, list[EdgePart]]:
        """Return the distinct edges of each relation, in parts; there are `size` ranks."""
        self.progress("dropping duplicates")
        held = [[chunk.held for chunk in mine if chunk.held is not None] for mine in chunks.values()]
        if any(held):
            return {name: [hold_edges(mine, size)] for name, mine in zip(chunks, held, strict=True)}
        edges = [[chunk.edges for chunk in mine if chunk.edges is not None] for mine in chunks.values()]
        parts = [cut(files, self.part) for files in edges]
        found = run_in_groups(self.run, DropDuplicates(self.exchange), parts)
        for file in (file for files in edges for file in files):
            Path(file.file).unlink()
        return dict(zip(chunks, found, strict=True))

    def write_edges(self, parts: Mapping[str, Sequence[EdgePart]], codes: str | None, tries: TrieWriter) -> None:
        """Write the tries of relations: one for each direction, or one that serves for both if edges have none."""
        self.progress("sorting edges")
        size = self.domains[VERTEX].size
        for name, found in self._written(parts, codes, tries).items():
            entries = [entry for entry, _ in found]
            self.relations[name] = RelationEntry(
                domains=(VERTEX, VERTEX),
                tuples=found[0][1],
                symmetric=not self.directed,
                loops=sum(part.loops for part in parts[name]),
                orders={(0, 1): entries[0], (1, 0): entries[-1]},
                catalogue=sample([tries.open(entry, size) for entry in entries]),
            )

    def _written(
        self, parts: Mapping[str, Sequence[EdgePart]], codes: str | None, tries: TrieWriter
    ) -> dict[str, list[tuple[OrderEntry, int]]]:
        """Return, for each relation, the entry of each column order that is written, and how many tuples it has."""
        size = self.domains[VERTEX].size
        orders: list[ColumnOrder] = [(0, 1), (1, 0)] if self.directed else [(0, 1)]
        held = {name: part for name, mine in parts.items() for part in mine if isinstance(part, HeldEdges)}
        if held:
            assert codes is not None
            numbers, shards = np.array(map_array(codes)), Shards(self.shards, size)
            return {
                name: [
                    tries.write_sorted(name, order, size, keys)
                    for order, keys in zip(orders, part.orders(numbers, shards, directed=self.directed), strict=True)
                ]
                for name, part in held.items()
            }
        lookups = ((codes,), (codes,)) if codes is not None else ()
        wanted = []
        for name, mine in parts.items():
            files = [part.edges for part in mine if isinstance(part, DistinctEdges)]
            chunks = tuple(TupleChunk(file, lookups, both_ways=not self.directed) for file in files)
            wanted += [TrieToWrite(name, order, (size, size), chunks, distinct=True) for order in orders]
        written = iter(tries.write(wanted))
        return {name: [next(written) for _ in orders] for name in parts}

    def write_rows(self, name: str, chunks: Sequence[TupleChunk], rows: int, tries: TrieWriter) -> None:
        """Write the rows of each pair: a further level below the pairs in column order (0, 1)."""
        relation, size = self.relations[name], self.domains[VERTEX].size
        domain = f"{name} edge"
        above = relation.orders[0, 1].levels
        ((order, tuples),) = tries.write(
            [TrieToWrite(name, (0, 1, 2), (size, size, rows), tuple(chunks), distinct=True, above=above)]
        )
        numbered = RelationEntry((VERTEX, VERTEX, domain), tuples, not self.directed, loops=0, orders={(0, 1, 2): order})
        self.relations[name] = replace(relation, rows=numbered)
        self.domains.setdefault(domain, DomainEntry(rows, "int64"))

    def add_properties(self, domain: str, files: Sequence[Path]) -> None:
        """Enter the properties of a domain's values: Arrow files by code, one after another."""
        if files:
            properties = {field.name: str(field.type) for field in map_table(files[0]).schema}
            names = tuple(self.name(file) for file in files)
            self.domains[domain] = replace(self.domains[domain], properties=properties, files=names)

    def enter_source(self, name: str, *, rows: int, nulls: int, loops: int, reading: ReadingEntry | None) -> None:
        """Enter how a relation's source was read, how many rows it had, and how many of them added nothing to the set."""
        relation = self.relations[name]
        kept = relation.tuples if self.directed else relation.tuples // 2
        dropped = nulls + (0 if self.directed else loops)
        source = SourceEntry(rows, nulls, loops, duplicates=rows - dropped - kept)
        self.relations[name] = replace(relation, source=source, reading=reading)

    def manifest(self, kind: np.dtype[np.unsignedinteger]) -> Manifest:
        """Return the part of the manifest that a build decides."""
        offsets = (map_array(self.folder.parent / file) for file in degree_files(self.relations))
        degrees = degrees_of(offsets, Shards(self.shards, self.domains[VERTEX].size))
        return Manifest(kind.name, self.shards, self.domains, self.relations, degrees_entry(degrees))


def write_dictionary(folder: Path, stem: str, numbering: Numbering, ids: IdSpace, merged: Sequence[MergedIds]) -> DomainEntry:
    """Write the ids of a domain by code, some at a time, and their ranks. They were merged, or lie close together."""
    file, ranks = folder / f"{stem}.ids.arrow", folder / f"{stem}.ranks.npy"
    by_rank = pa.chunked_array([piece for entry in merged for piece in map_table(entry.ids)["id"].chunks], ids.type)
    schema = pa.schema([("id", ids.type)])
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for first in range(0, max(1, numbering.size), IDS_WRITTEN_TOGETHER):
            order = numbering.order[first : first + IDS_WRITTEN_TOGETHER]
            part = take(by_rank, order) if ids.base is None else pa.array(order + ids.base).cast(ids.type)
            writer.write_table(pa.table({"id": part}).cast(schema).combine_chunks())
    np.save(ranks, numbering.ranks)
    return DomainEntry(numbering.size, str(ids.type), (f"{folder.name}/{file.name}",), f"{folder.name}/{ranks.name}")
