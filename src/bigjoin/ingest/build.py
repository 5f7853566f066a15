"""Build an index from tables, or from another index: the stages in their order.

    scan      rows -> ranks (or places in a chunk's own dictionary), sorted runs of edges
    merge     chunks' dictionaries -> one                                  only where ids are not close integers
    dedupe    runs -> distinct edges in parts, and degrees
    number    degrees -> codes, by descending degree, ties by id
    code      parts -> runs of coded edges, in each column order
    write     runs -> offsets and values, each part at its place in the final files
    rows      the rows of each pair of vertices, where rows have ids       only where there are edge properties
    vertices  the vertex table's columns by code, and its labels           only where there is such a table

A stage is a function from a JSON-like item to a JSON-like result; data travels between stages in files of the build's own
folder. `run` decides where a stage runs: in Spark's tasks, or in threads. Every stage holds a bounded number of rows,
whatever the size of the graph; only the numbering and the labels look at all vertices at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bigjoin.defaults import PART_SIZE
from bigjoin.errors import SourceError
from bigjoin.index.dictionary import code_type
from bigjoin.index.entries import Manifest
from bigjoin.index.shards import Shards
from bigjoin.index.stage_runner import StageRunner, in_threads
from bigjoin.ingest.assembly import Assembly, Chunks
from bigjoin.ingest.edges import Code, Dedupe, number_vertices
from bigjoin.ingest.files import Table
from bigjoin.ingest.ids import MergeIds, RankIds, id_ranges
from bigjoin.ingest.scan import Encode, Scan
from bigjoin.ingest.vertices import write_dictionary, write_vertices
from bigjoin.storage.arrays import map_array, write_table

CLOSE = 2
"""How many times as many integers as rows may lie between the smallest id and the largest, if distances are to be ranks."""
CLOSE_ANYWAY = 1 << 20
"""So many integers are few, however few the rows."""
FEW = 8
"""Ranges of ids up to which they are merged here: a Spark job would take longer."""


@dataclass(frozen=True)
class Relation:
    """A table of edges to index, and whether each row has an id; `only` those rows that have a value in a column."""

    name: str
    table: Table
    rowwise: bool = False
    only: tuple[str, Any] | None = None


@dataclass(frozen=True)
class Blueprint:
    """What is to be built."""

    relations: tuple[Relation, ...]
    vertices: Table | None
    ids: pa.DataType
    """The type that all ids get."""
    labels: str | None = None
    """The column of the vertex table that holds labels; None looks for `label`."""
    directed: bool = True
    shards: int = 1
    drop_nulls: bool = False
    part: int = PART_SIZE
    """Rows that a stage holds at once, about."""
    may_be_empty: bool = False

    @property
    def tables(self) -> list[Table]:
        return [relation.table for relation in self.relations] + ([self.vertices] if self.vertices is not None else [])

    def is_part(self, number: int) -> bool:
        """Tell whether a table is some of the rows of another."""
        return number < len(self.relations) and self.relations[number].only is not None

    @property
    def rows(self) -> int | None:
        counts = [table.rows for number, table in enumerate(self.tables) if not self.is_part(number)]
        return None if any(count is None for count in counts) else sum(count or 0 for count in counts)

    def item(self, number: int) -> dict[str, Any]:
        """Return what a stage must know about a table."""
        if number == len(self.relations):
            return {"table": number, "keys": 1, "rowwise": True, "directed": self.directed, "parts": []}
        relation = self.relations[number]
        parts = [(n, *r.only) for n, r in enumerate(self.relations) if r.only is not None and r.table is relation.table]
        return {"table": number, "keys": 2, "rowwise": relation.rowwise, "directed": self.directed, "parts": parts}


def scan_files(scan: Scan, items: Sequence[dict[str, Any]], run: StageRunner) -> Chunks:
    """Scan tables that are files."""
    return [chunk for chunks in run(scan, items) for chunk in chunks]


def build(
    blueprint: Blueprint,
    folder: Path,
    run: StageRunner,
    *,
    scan: Callable[[Scan, list[dict[str, Any]]], Chunks] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Manifest:
    """Write the files of an index into a folder, and return what its manifest says about them."""
    assembly = Assembly(folder, run, progress, directed=blueprint.directed, shards=blueprint.shards, part=blueprint.part)
    with assembly.exchanging():
        return _build(blueprint, assembly, scan or (lambda stage, items: scan_files(stage, items, run)))


def _build(blueprint: Blueprint, assembly: Assembly, scan: Callable[[Scan, list[dict[str, Any]]], Chunks]) -> Manifest:
    whole = [(number, table) for number, table in enumerate(blueprint.tables) if not blueprint.is_part(number)]
    items = [{**blueprint.item(number), "split": split} for number, table in whole for split in table.splits]
    base, size = _close(blueprint)
    assembly.progress("reading edges")
    chunks = scan(Scan(assembly.exchange, base, size, blueprint.ids, blueprint.part), items)
    _refuse(blueprint, chunks)
    ids: Chunks = []
    if base is None:
        assembly.progress("merging ids")
        ids = _merge_ids(assembly, chunks)
        size = sum(entry["size"] for entry in ids)
    *of_relations, of_vertices = ([c for c in chunks if c["table"] == n] for n in range(len(blueprint.relations) + 1))
    assembly.progress("dropping duplicates")
    named = {relation.name: mine for relation, mine in zip(blueprint.relations, of_relations, strict=True)}
    parts = assembly.dedupe(named, Dedupe(assembly.exchange, size))
    assembly.progress("ranking vertices")
    every_part = [part for mine in parts.values() for part in mine]
    numbering = number_vertices(every_part, [chunk["ranks"] for chunk in of_vertices], size, assembly.exchange)
    write_dictionary(assembly, numbering, base, ids, blueprint.ids)
    code = Code(assembly.exchange, numbering.codes, Shards(blueprint.shards, numbering.size))
    rows = [sum(chunk["rows"] for chunk in named[r.name]) for r in blueprint.relations if r.rowwise]
    kind = np.dtype(code_type(max(numbering.size, *rows, 0)))
    assembly.write_tries(parts, code, kind)
    for relation in blueprint.relations:
        mine = named[relation.name]
        read, kept, loops = (sum(chunk[part] for chunk in mine) for part in ("read", "rows", "loops"))
        assembly.enter_fate(relation.name, rows=read, nulls=read - kept, loops=loops)
        if relation.rowwise:
            assembly.progress("numbering rows")
            _number_rows(assembly, relation, mine, code, kind)
    if blueprint.vertices is not None:
        assembly.progress("placing vertices")
        write_vertices(assembly, blueprint.vertices, of_vertices, code, kind, blueprint.labels)
    return assembly.manifest(kind)


def _refuse(blueprint: Blueprint, chunks: Chunks) -> None:
    """Refuse NULL ids unless they are to be dropped, and a source without edges."""
    for number, table in enumerate(blueprint.tables):
        mine = [chunk for chunk in chunks if chunk["table"] == number]
        read, rows = (sum(chunk[name] for chunk in mine) for name in ("read", "rows"))
        what = "edges" if number < len(blueprint.relations) else "vertices"
        if read > rows and not blueprint.drop_nulls:
            raise SourceError(
                f"{read - rows} of the {read} {what} of {table.source} have a NULL id: drop them first, "
                "or build an index with --drop-nulls (drop_nulls=True)"
            )
        if not rows and not blueprint.may_be_empty and not blueprint.is_part(number):
            raise SourceError(f"{table.source} has no {what}: it is empty")


def _merge_ids(assembly: Assembly, chunks: Chunks) -> Chunks:
    """Merge the chunks' dictionaries, a range of ids at a time. Rows get their ranks here, runs when they are merged."""
    dictionaries = [chunk["ids"] for chunk in chunks]
    ranges = id_ranges(dictionaries) if chunks else []
    run = assembly.run if len(ranges) > FEW else in_threads
    ids = run(MergeIds(assembly.exchange, tuple(dictionaries)), ranges)
    rankings = run(RankIds(assembly.exchange, ids), range(len(chunks)))
    for chunk, ranking in zip(chunks, rankings, strict=True):
        chunk["ranking"] = ranking
        if "run" in chunk:
            sample = np.array(chunk["run"]["sample"], np.int64).reshape(-1, 2)
            chunk["run"] |= {"ranking": ranking, "sample": map_array(ranking)[sample].tolist()}
    rowwise = [chunk for chunk in chunks if "ranks" in chunk]
    for chunk, ranks in zip(rowwise, assembly.run(Encode(assembly.exchange), rowwise), strict=True):
        chunk["ranks"] = ranks
    return ids


def _number_rows(assembly: Assembly, relation: Relation, chunks: Chunks, code: Code, kind: np.dtype[Any]) -> None:
    """Give every row its number, in the order of the source, and its columns their final names."""
    name, rows = relation.name, 0
    for chunk in chunks:
        chunk["first"], rows = rows, rows + chunk["rows"]
    assembly.write_rows(name, chunks, code, kind, rows)
    files: list[Path] = []
    for chunk in (chunk for chunk in chunks if chunk["rows"] and "properties" in chunk):
        files.append(assembly.folder / f"{name}.rows{len(files)}.arrow")
        Path(chunk["properties"]).rename(files[-1])
    if not files and len(relation.table.schema) > 2:  # no rows yet, but they will have columns
        files.append(assembly.folder / f"{name}.rows0.arrow")
        write_table(pa.schema(list(relation.table.schema)[2:]).empty_table(), files[0])
    assembly.add_properties(f"{name} edge", files)


def _close(blueprint: Blueprint) -> tuple[int | None, int]:
    """Return the smallest id and how many integers lie from it to the largest, if these are few enough to stand for ranks."""
    spans = [table.span for table in blueprint.tables]
    rows = blueprint.rows
    if rows is None or not pa.types.is_integer(blueprint.ids) or any(span is None for span in spans):
        return None, 0
    low, high = min(span[0] for span in spans if span), max(span[1] for span in spans if span)
    size = high - low + 1
    return (low, size) if size <= max(CLOSE * rows, CLOSE_ANYWAY) else (None, 0)
