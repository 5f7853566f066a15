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
folder. `run` decides where a stage runs: in Spark's tasks, or one item after another. Every stage holds a bounded number of
rows, whatever the size of the graph; only the numbering looks at all vertices at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bigjoin.errors import SourceError
from bigjoin.index.dictionary import code_type
from bigjoin.index.directory import VERTEX
from bigjoin.index.run import Run, in_threads
from bigjoin.index.shards import Shards
from bigjoin.ingest.assembly import Assembly, Chunks
from bigjoin.ingest.edges import Code, Dedupe, Numbering, number_vertices
from bigjoin.ingest.files import Table
from bigjoin.ingest.ids import MergeIds, id_ranges, ranks_of_chunk, read_table
from bigjoin.ingest.runs import PART
from bigjoin.ingest.scan import Encode, Scan
from bigjoin.ingest.vertices import PlaceVertices, SortVertices, write_labels

CLOSE = 2
"""How many times as many integers as rows may lie between the smallest id and the largest, if distances are to be ranks."""
CLOSE_ANYWAY = 1 << 20
FEW = 8
"""Ranges of ids up to which they are merged here: a Spark job would take longer."""
IDS = 1 << 20
"""Ids written together."""


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
    vertices: Table | None = None
    labels: str | None = None
    """The column of the vertex table that holds labels; None looks for `label`."""
    directed: bool = True
    shards: int = 1
    drop_nulls: bool = False
    may_be_empty: bool = False

    @property
    def tables(self) -> list[Table]:
        return [relation.table for relation in self.relations] + ([self.vertices] if self.vertices is not None else [])

    @property
    def rows(self) -> int | None:
        counts = [table.rows for table in self.tables]
        return None if any(count is None for count in counts) else sum(count or 0 for count in counts)

    def item(self, number: int) -> dict[str, Any]:
        """Return what a stage must know about a table."""
        if number == len(self.relations):
            return {"table": number, "keys": 1, "rowwise": True, "only": None, "directed": self.directed}
        relation = self.relations[number]
        described = {"rowwise": relation.rowwise, "only": relation.only, "directed": self.directed}
        return {"table": number, "keys": 2, **described}


def scan_files(scan: Scan, items: Sequence[dict[str, Any]], run: Run) -> Chunks:
    """Scan tables that are files."""
    return [chunk for chunks in run(scan, items) for chunk in chunks]


def build(
    blueprint: Blueprint,
    folder: Path,
    run: Run,
    *,
    scan: Callable[[Scan, list[dict[str, Any]]], Chunks] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Write the files of an index into a folder, and return what its manifest says about them."""
    job = _Build(blueprint, folder, run, progress, directed=blueprint.directed, shards=blueprint.shards)
    with job.exchanging():
        return job.build(scan or (lambda stage, items: scan_files(stage, items, run)))


class _Build(Assembly):
    """One build of a blueprint."""

    def __init__(self, blueprint: Blueprint, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.blueprint = blueprint

    def build(self, scan: Callable[[Scan, list[dict[str, Any]]], Chunks]) -> dict[str, Any]:
        blueprint = self.blueprint
        tables = enumerate(blueprint.tables)
        items = [{**blueprint.item(number), "split": split} for number, table in tables for split in table.splits]
        base, size = _close(blueprint)
        self.progress("reading edges")
        chunks = scan(Scan(self.exchange, base, size), items)
        self._refuse(chunks)
        ids: list[dict[str, Any]] = []
        if base is None:
            self.progress("merging ids")
            dictionaries = [chunk["ids"] for chunk in chunks]
            ranges = id_ranges(dictionaries) if chunks else []
            merge = self.run if len(ranges) > FEW else in_threads
            ids = merge(MergeIds(self.exchange, tuple(dictionaries)), ranges)
            size = sum(entry["size"] for entry in ids)
            self._rank(chunks, ids)
        self.progress("dropping duplicates")
        of_relations = {r.name: [c for c in chunks if c["table"] == n] for n, r in enumerate(blueprint.relations)}
        parts = self.dedupe(of_relations, Dedupe(self.exchange, size, ids))
        self.progress("ranking vertices")
        of_vertices = [c for c in chunks if c["table"] == len(blueprint.relations)]
        numbering = number_vertices(
            [part for mine in parts.values() for part in mine], [c["ranks"] for c in of_vertices], size, self.exchange
        )
        kinds = {
            str(relation.table.schema.field(0).type): relation.table.schema.field(0).type for relation in blueprint.relations
        }
        self._write_dictionary(numbering, base, ids, next(iter(kinds.values())))
        code = Code(self.exchange, numbering.codes, Shards(blueprint.shards, numbering.size))
        rows = {
            relation.name: sum(c["rows"] for c in chunks if c["table"] == n) if relation.rowwise else 0
            for n, relation in enumerate(blueprint.relations)
        }
        kind = np.dtype(code_type(max(numbering.size, *rows.values())))
        self.write_tries(parts, code, kind)
        for n, relation in enumerate(blueprint.relations):
            mine = [c for c in chunks if c["table"] == n]
            read, kept, loops = (sum(chunk[part] for chunk in mine) for part in ("read", "rows", "loops"))
            self.relations[relation.name]["source"] = self.fate(
                relation.name, {"rows": read, "nulls": read - kept, "loops": loops}
            )
            if relation.rowwise:
                self.progress("numbering rows")
                first = 0
                for chunk in mine:
                    chunk["first"], first = first, first + chunk["rows"]
                self.write_rows(relation.name, mine, code, kind, first)
                self._keep_properties(relation, mine, first)
        if blueprint.vertices is not None:
            self.progress("placing vertices")
            self._write_vertices(blueprint.vertices, of_vertices, code, kind)
        return self.content(kind, numbering.degrees)

    def _rank(self, chunks: Chunks, ids: list[dict[str, Any]]) -> None:
        """Tell every chunk which dictionary is its own; rows get their ranks here, runs when they are merged."""
        for number, chunk in enumerate(chunks):
            chunk["dictionary"] = number
            if "run" in chunk:
                chunk["run"] |= {"dictionary": number}
                chunk["run"]["sample"] = ranks_of_chunk(ids, number)[np.array(chunk["run"]["sample"], np.int64)].tolist()
        rowwise = [chunk for chunk in chunks if "ranks" in chunk]
        for chunk, ranks in zip(rowwise, self.run(Encode(self.exchange, ids), rowwise), strict=True):
            chunk["ranks"] = ranks

    def _refuse(self, chunks: Chunks) -> None:
        """Refuse NULL ids unless they are to be dropped, and a source without edges."""
        for number, table in enumerate(self.blueprint.tables):
            mine = [chunk for chunk in chunks if chunk["table"] == number]
            read, rows = (sum(chunk[name] for chunk in mine) for name in ("read", "rows"))
            what = "edges" if number < len(self.blueprint.relations) else "vertices"
            if read > rows and not self.blueprint.drop_nulls:
                raise SourceError(
                    f"{read - rows} of the {read} {what} of {table.source} have a NULL id: drop them first, "
                    "or with --drop-nulls (drop_nulls=True)"
                )
            if not rows and not self.blueprint.may_be_empty:
                raise SourceError(f"{table.source} has no {what}: it is empty")

    def _keep_properties(self, relation: Relation, chunks: Chunks, rows: int) -> None:
        """Move the columns that rows have beside their ends to their final names."""
        fields = list(relation.table.schema)[2:]
        if not fields:
            return
        files = []
        for number, chunk in enumerate(chunk for chunk in chunks if chunk["rows"]):
            file = self.folder / f"{relation.name}.properties{number}.arrow"
            Path(chunk["properties"]).rename(file)
            files.append(self.name(file))
        domain = self.domains[f"{relation.name} edge"]
        assert domain["size"] == rows
        domain |= {"properties": {field.name: str(field.type) for field in fields}, "files": files} if files else {}

    def _write_vertices(self, table: Table, chunks: Chunks, code: Code, kind: np.dtype[Any]) -> None:
        """Write the columns of the vertex table by code, and the lists of its labels."""
        fields = list(table.schema)[1:]
        size = code.shards.size
        pieces = [(first, min(first + PART, size)) for first in range(0, size, PART)]
        files = [self.folder / f"{VERTEX}.properties{number}.arrow" for number in range(len(pieces))]
        placed = self.run(SortVertices(self.exchange, code), [chunk for chunk in chunks if chunk["rows"]]) if fields else []
        items = [{"range": piece, "file": str(file)} for piece, file in zip(pieces, files, strict=True)]
        done = self.run(PlaceVertices(placed), items) if placed else []
        if twice := sum(entry["twice"] for entry in done):
            example = next(entry["example"] for entry in done if entry["twice"])
            shown = read_table(self.folder / f"{VERTEX}.ids.arrow")["id"][example].as_py()
            raise SourceError(f"{twice} ids of {table.source} come more than once, for example {shown!r}: a vertex is one row")
        if placed:
            properties = {field.name: str(field.type) for field in fields}
            self.domains[VERTEX] |= {"properties": properties, "files": [self.name(file) for file in files]}
        wanted = self.blueprint.labels
        column = next((f.name for f in fields if f.name == wanted or (wanted is None and f.name.lower() == "label")), None)
        if wanted is not None and column is None:
            raise SourceError(f"{table.source} has no column {wanted!r} for labels; it has {', '.join(table.schema.names)}")
        if column is not None and placed:
            self._write_labels(pa.chunked_array([c for f in files for c in read_table(f)[column].chunks]), kind)

    def _write_labels(self, column: pa.ChunkedArray, kind: np.dtype[Any]) -> None:
        file = self.folder / f"{VERTEX}.labels.npy"
        for label, (first, last) in write_labels(column, file, kind).items():
            if not label.isidentifier() or not label.isascii():
                continue  # no rule could name it; `a.label = "..."` still selects it
            if label in self.relations:
                raise SourceError(f"the label {label!r} has the name of a relation: rename one of them")
            count = last - first
            self.relations[label] = {
                "domains": [VERTEX],
                "tuples": count,
                "symmetric": False,
                "loops": count,
                "orders": {
                    "0": {
                        "levels": [{"values": self.name(file), "range": [first, last]}],
                        "lists": {"keys": 1, "mean": float(count), "typical": float(count), "longest": count},
                    }
                },
            }

    def _write_dictionary(self, numbering: Numbering, base: int | None, ids: list[dict[str, Any]], kind: pa.DataType) -> None:
        """Write the ids by code, some at a time, and their ranks."""
        file, ranks = self.folder / f"{VERTEX}.ids.arrow", self.folder / f"{VERTEX}.ranks.npy"
        by_rank = (
            None if base is not None else pa.chunked_array([c for e in ids for c in read_table(e["ids"])["id"].chunks], kind)
        )
        schema = pa.schema([("id", kind)])
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for first in range(0, max(1, numbering.size), IDS):
                order = numbering.order[first : first + IDS]
                part = pa.array(order + base).cast(kind) if by_rank is None else by_rank.take(pa.array(order))
                writer.write_table(pa.table({"id": part}).cast(schema).combine_chunks())
        np.save(ranks, numbering.ranks)
        self.domains[VERTEX] = {
            "size": numbering.size,
            "type": str(kind),
            "ids": [self.name(file)],
            "ranks": self.name(ranks),
        }


def _close(blueprint: Blueprint) -> tuple[int | None, int]:
    """Return the smallest id and how many integers lie from it to the largest, if these are few enough to stand for ranks."""
    spans = [table.span for table in blueprint.tables]
    rows = blueprint.rows
    if rows is None or any(span is None for span in spans) or not spans:
        return None, 0
    low, high = min(span[0] for span in spans if span), max(span[1] for span in spans if span)
    size = high - low + 1
    return (low, size) if size <= max(CLOSE * rows, CLOSE_ANYWAY) else (None, 0)
