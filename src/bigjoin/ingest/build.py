"""Build the index of a graph from tables: the stages in their order.

    scan      rows -> ranks (or places in a chunk's own dictionary), sorted edges
    merge     chunks' dictionaries -> one                                  only where ids are not close integers
    dedupe    sorted edges -> distinct edges in parts, and degrees
    number    degrees -> codes, by descending degree, ties by id
    write     parts -> a trie for each column order, level by level
    rows      the rows of each pair of vertices, where rows have ids       only where there are edge properties
    vertices  the vertex table's columns by code, and its labels           only where there is such a table

A stage is a function from an item to a small result, a dataclass; data travels between stages in files of the build's own
folder. `run` decides where a stage runs: in Spark's tasks, or in threads. Every stage holds a bounded number of rows,
whatever the size of the graph; only the numbering and the labels look at all vertices at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bigjoin.defaults import PART_SIZE
from bigjoin.errors import SourceError
from bigjoin.index.dictionary import code_type
from bigjoin.index.directory import VERTEX
from bigjoin.index.manifest_entries import Manifest, TypeEntry
from bigjoin.index.stage_runner import StageRunner
from bigjoin.ingest.assembly import Assembly, write_dictionary
from bigjoin.ingest.columns import common_type
from bigjoin.ingest.ids import MergedIds
from bigjoin.ingest.numbering import number_values
from bigjoin.ingest.scan import IdSpace, Scan, ScannedChunk, ScannedTable, rank_chunks, scan_splits
from bigjoin.ingest.table import Table
from bigjoin.ingest.tries import TrieWriter, TupleChunk, exchange_in
from bigjoin.ingest.vertices import write_vertices
from bigjoin.storage.arrays import write_table

MAX_INTEGERS_PER_ROW = 2
"""Ids are numbered by their distance from the smallest if the largest is at most this many integers per row away."""
MAX_INTEGERS_OF_ANY_TABLE = 1 << 20
"""They also are if it is at most this many integers away, however few the rows."""


@dataclass(frozen=True)
class GraphRelation:
    """A table of edges to index, and whether each row has an id; `only` those rows that have a value in a column."""

    name: str
    table: Table
    rowwise: bool = False
    only: tuple[str, Any] | None = None


@dataclass(frozen=True)
class Blueprint:
    """What is to be built: relations, and the vertex table with its column of labels (None looks for `label`).

    A stage holds about `part` rows at once.
    """

    relations: tuple[GraphRelation, ...]
    vertices: Table | None
    labels: str | None = None
    directed: bool = True
    shards: int = 1
    drop_nulls: bool = False
    part: int = PART_SIZE

    @property
    def tables(self) -> list[Table]:
        return [relation.table for relation in self.relations] + ([self.vertices] if self.vertices is not None else [])

    @property
    def whole_tables(self) -> dict[int, Table]:
        """The tables by number, without those that are some of the rows of another."""
        parts = {number for number, relation in enumerate(self.relations) if relation.only is not None}
        return {number: table for number, table in enumerate(self.tables) if number not in parts}

    @cached_property
    def id_type(self) -> pa.DataType:
        """The type that all ids get; tables are refused whose ids could not be in one dictionary."""
        first, *others = self.tables
        found = first.schema.field(0).type
        has_text = any(table.schema.field(0).type == pa.string() for table in self.tables)
        for table in others:
            kind = table.schema.field(0).type
            common = common_type(found, kind)
            if common is None and has_text and all(t.is_text or t.schema.field(0).type == pa.string() for t in self.tables):
                return pa.string()  # integers of a text file are spelled as they print
            if common is None:
                raise SourceError(
                    f"the ids of {table.source} are {kind}, and those of {first.source} are {found}: cast one of them"
                )
            found = common
        return found

    @property
    def rows(self) -> int | None:
        counts = [table.rows for table in self.whole_tables.values()]
        return None if any(count is None for count in counts) else sum(count or 0 for count in counts)

    def scanned(self, number: int) -> ScannedTable:
        """Return what a scan must know of a table."""
        table = self.tables[number]
        if number == len(self.relations):
            return ScannedTable(number, table.source, (VERTEX,))
        parts = [(n, *r.only) for n, r in enumerate(self.relations) if r.only is not None and r.table is table]
        rowwise = self.relations[number].rowwise
        return ScannedTable(
            number, table.source, (VERTEX, VERTEX), directed=self.directed, keeps_rows=rowwise, parts=tuple(parts)
        )

    def ids(self) -> IdSpace:
        """Return how ids are numbered: by their distance from the smallest, if they lie close enough together."""
        spans = [table.span for table in self.tables]
        rows = self.rows
        if rows is None or not pa.types.is_integer(self.id_type) or any(span is None for span in spans):
            return IdSpace(self.id_type)
        low, high = min(span[0] for span in spans if span), max(span[1] for span in spans if span)
        size = high - low + 1
        close = size <= max(MAX_INTEGERS_PER_ROW * rows, MAX_INTEGERS_OF_ANY_TABLE)
        return IdSpace(self.id_type, low, size) if close else IdSpace(self.id_type)


def build(
    blueprint: Blueprint,
    folder: Path,
    run: StageRunner,
    *,
    holds: bool = False,
    scan_others: Callable[[Scan], list[ScannedChunk]] = lambda _: [],
    progress: Callable[[str], None] = lambda _: None,
) -> Manifest:
    """Write the files of an index into a folder, and return what its manifest says about them.

    With `holds`, edges are held in memory between the stages, which run in this process. `scan_others` scans tables that have
    no splits.
    """
    assembly = Assembly(folder, run, progress, directed=blueprint.directed, shards=blueprint.shards, part=blueprint.part)
    with exchange_in(assembly.folder):
        progress("reading edges")
        ids = blueprint.ids()
        scan = Scan(assembly.exchange, {VERTEX: ids}, blueprint.part, holds)
        items = [(blueprint.scanned(n), split) for n, table in blueprint.whole_tables.items() for split in table.splits]
        chunks = scan_splits(scan, items, run) + scan_others(scan)
        _refuse(blueprint, chunks)
        merged: list[MergedIds] = []
        if ids.base is None:
            progress("merging ids")
            chunks, merged = rank_chunks(chunks, VERTEX, assembly.exchange, run)
            ids = replace(ids, size=sum(entry.size for entry in merged))
        return _build(blueprint, assembly, chunks, ids, merged)


def _build(
    blueprint: Blueprint, assembly: Assembly, chunks: Sequence[ScannedChunk], ids: IdSpace, merged: Sequence[MergedIds]
) -> Manifest:
    *of_relations, of_vertices = ([c for c in chunks if c.table == n] for n in range(len(blueprint.relations) + 1))
    named = {relation.name: mine for relation, mine in zip(blueprint.relations, of_relations, strict=True)}
    parts = assembly.distinct_edges(named, ids.size)
    assembly.progress("ranking vertices")
    degrees = (part.degrees for mine in parts.values() for part in mine)
    listed = (chunk.tuples((VERTEX,)).columns()[0] for chunk in of_vertices)
    numbering = number_values(degrees, listed, ids.size, assembly.exchange)
    assembly.domains[VERTEX] = write_dictionary(assembly.folder, VERTEX, numbering, ids, merged)
    rows = {r.name: sum(chunk.rows for chunk in named[r.name]) for r in blueprint.relations}
    kind = np.dtype(code_type(max(numbering.size, *(rows[r.name] for r in blueprint.relations if r.rowwise), 0)))
    tries = TrieWriter(assembly.folder, assembly.exchange, assembly.run, kind, blueprint.shards, blueprint.part)
    assembly.write_edges(parts, numbering.codes, tries)
    for relation in blueprint.relations:
        mine = named[relation.name]
        read, loops = sum(chunk.read for chunk in mine), sum(chunk.loops for chunk in mine)
        nulls = read - rows[relation.name]
        assembly.enter_source(relation.name, rows=read, nulls=nulls, loops=loops, reading=relation.table.reading)
        if relation.rowwise:
            assembly.progress("numbering rows")
            _number_rows(assembly, relation, mine, numbering.codes, tries)
            if relation.only is not None:
                whole = next(
                    other.name for other in blueprint.relations if other.only is None and other.table is relation.table
                )
                of = TypeEntry(whole, relation.only[0])
                assembly.relations[relation.name] = replace(assembly.relations[relation.name], type_of=of)
    if blueprint.vertices is not None:
        assembly.progress("placing vertices")
        assembly.domains[VERTEX] = replace(assembly.domains[VERTEX], reading=blueprint.vertices.reading)
        write_vertices(assembly, blueprint.vertices, of_vertices, numbering.codes, kind, blueprint.labels)
    return assembly.manifest(kind)


def _refuse(blueprint: Blueprint, chunks: Sequence[ScannedChunk]) -> None:
    """Refuse NULL ids unless they are to be dropped, and a source without edges."""
    may_be_empty = any(table.may_be_empty for table in blueprint.tables)
    for number, table in enumerate(blueprint.tables):
        mine = [chunk for chunk in chunks if chunk.table == number]
        read, rows = sum(chunk.read for chunk in mine), sum(chunk.rows for chunk in mine)
        what = "edges" if number < len(blueprint.relations) else "vertices"
        if read > rows and not blueprint.drop_nulls:
            raise SourceError(
                f"{read - rows} of the {read} {what} of {table.source} have a NULL id: drop them first, "
                "or build an index with --drop-nulls (drop_nulls=True)"
            )
        if not rows and not may_be_empty and number in blueprint.whole_tables:
            raise SourceError(f"{table.source} has no {what}: it is empty")


def _number_rows(
    assembly: Assembly, relation: GraphRelation, chunks: Sequence[ScannedChunk], codes: str, tries: TrieWriter
) -> None:
    """Give every row its number, in the order of the source, and its columns their final names."""
    name, rows = relation.name, 0
    tuples: list[TupleChunk] = []
    files: list[Path] = []
    for chunk in (chunk for chunk in chunks if chunk.rows):
        tuples.append(replace(chunk.tuples((VERTEX, VERTEX), {VERTEX: codes}), first_row=rows, both_ways=not assembly.directed))
        rows += chunk.rows
        if chunk.properties is not None:
            files.append(assembly.folder / f"{name}.rows{len(files)}.arrow")
            Path(chunk.properties).rename(files[-1])
    assembly.write_rows(name, tuples, rows, tries)
    if not files and len(relation.table.schema) > 2:  # no rows yet, but they will have columns
        files.append(assembly.folder / f"{name}.rows0.arrow")
        write_table(pa.schema(list(relation.table.schema)[2:]).empty_table(), files[0])
    assembly.add_properties(f"{name} edge", files)
