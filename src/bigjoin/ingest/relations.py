"""Relations of any arity -> an index: one dictionary for each domain, and a trie for each column order that plans ask for.

A domain is a set of columns whose values are compared with each other. Its values get codes by descending frequency, ties by
value, like the vertices of a graph. Rows come in chunks and stay in files: a chunk's values are numbered by themselves first,
then by the domain's dictionary, the only thing that has to fit into memory; tries are sorted outside of it (`tuples.py`).
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bigjoin.defaults import PART_SIZE
from bigjoin.errors import SourceError
from bigjoin.index.dictionary import Dictionary, code_type, ranks_of
from bigjoin.index.entries import DomainEntry, Manifest, RelationEntry, SourceEntry
from bigjoin.index.stage_runner import StageRunner
from bigjoin.ingest.columns import cast, common_type, joined_type
from bigjoin.ingest.tuples import Tries
from bigjoin.query.statistics import RelationStatistics, Statistics
from bigjoin.storage.arrays import map_array, map_table, write_table

Orders: TypeAlias = Mapping[str, Iterable[tuple[int, ...]]]
"""By relation: column orders."""


@dataclass(frozen=True)
class Domain:
    """A set of columns that share a dictionary."""

    name: str
    columns: tuple[tuple[str, str], ...]
    """Relations and the names of their columns."""


@dataclass(frozen=True)
class Chunked:
    """The rows of a relation, in pieces: tables in memory, or Arrow files."""

    schema: pa.Schema
    chunks: tuple[pa.Table | str, ...]
    rows: int

    @classmethod
    def of(cls, table: pa.Table) -> Chunked:
        """Return a table in pieces of a part's size."""
        pieces = (table.slice(first, PART_SIZE) for first in range(0, table.num_rows, PART_SIZE))
        return cls(table.schema, tuple(pieces), table.num_rows)

    def select(self, columns: Sequence[str]) -> Chunked:
        """Return some of the columns; pieces in files keep the others, which nobody reads."""
        return replace(self, schema=pa.schema([self.schema.field(name) for name in columns]))

    @property
    def in_files(self) -> bool:
        """Whether tasks on any machine can read it."""
        return all(isinstance(chunk, str) for chunk in self.chunks)


@dataclass(frozen=True)
class Encoded:
    """Relations as tuples of codes, in files that hold a row for each column."""

    dictionaries: Mapping[str, Dictionary]
    domains: Mapping[str, tuple[str, ...]]
    """By relation: the domains of its columns."""
    names: Mapping[str, tuple[str, ...]]
    files: Mapping[str, tuple[str, ...]]
    rows: Mapping[str, dict[str, int]]
    """By relation: how many rows its source had, how many of them had a NULL, and how many the same value in all columns."""

    @property
    def statistics(self) -> Statistics:
        """What a planner may know; it can have any column order."""
        relations = {
            name: RelationStatistics(
                self.domains[name], rows["rows"] - rows["nulls"], loops=rows["loops"], columns=self.names[name]
            )
            for name, rows in self.rows.items()
        }
        return Statistics(relations, {name: len(dictionary) for name, dictionary in self.dictionaries.items()})

    @property
    def code_type(self) -> np.dtype[Any]:
        return _code_type(self.dictionaries)

    def manifest(self, folder: Path) -> Manifest:
        """Write the dictionaries into a folder, and return the manifest of an index without relations."""
        domains = {}
        for number, (name, dictionary) in enumerate(self.dictionaries.items()):
            ids, ranks = f"domain{number}.ids.arrow", f"domain{number}.ranks.npy"
            write_table(pa.table({"id": dictionary.ids}), folder / ids)
            np.save(folder / ranks, dictionary.ranks)
            domains[name] = DomainEntry(
                len(dictionary), str(dictionary.type), ids=(f"{folder.name}/{ids}",), ranks=f"{folder.name}/{ranks}"
            )
        return Manifest(self.code_type.name, 1, domains, {})

    def write(self, orders: Orders, folder: Path, exchange: Path, run: StageRunner) -> dict[str, RelationEntry]:
        """Write column orders of relations into a folder, and return the relations' entries in a manifest with just these."""
        tries = Tries(folder, str(exchange), run, self.code_type, 1, PART_SIZE)
        relations = {}
        for name, wanted in orders.items():
            sizes = [len(self.dictionaries[domain]) for domain in self.domains[name]]
            written = {order: tries.write(name, self.files[name], order, sizes) for order in wanted}
            tuples = max((count for _, count in written.values()), default=0)
            rows, nulls, loops = (self.rows[name][part] for part in ("rows", "nulls", "loops"))
            relations[name] = RelationEntry(
                domains=tuple(self.domains[name]),
                columns=tuple(self.names[name]),
                tuples=tuples,
                symmetric=False,
                loops=loops,
                orders={order: entry for order, (entry, _) in written.items()},
                source=SourceEntry(rows, nulls, loops, duplicates=rows - nulls - tuples),
            )
        return relations


def encode(
    relations: Mapping[str, Chunked], domains: Sequence[Domain], folder: Path, run: StageRunner, *, drop_nulls: bool = False
) -> Encoded:
    """Give the values of each domain their codes; refuse types that do not compare, and NULLs unless they are to be dropped."""
    schemas = {name: relation.schema for name, relation in relations.items()}
    kinds = {domain.name: _common_type(domain, schemas) for domain in domains}
    of = {column: domain.name for domain in domains for column in domain.columns}
    columns = {name: {c: (of[name, c], kinds[of[name, c]]) for c in schema.names} for name, schema in schemas.items()}
    pieces = [(name, chunk) for name, relation in relations.items() for chunk in relation.chunks]
    scanned = run(ScanChunk(str(folder), columns), pieces)
    rows = {name: {"rows": 0, "nulls": 0, "loops": 0} for name in relations}
    for piece in scanned:
        for figure in ("rows", "nulls"):
            rows[piece["relation"]][figure] += piece[figure]
    if not drop_nulls:
        _refuse_nulls(rows)
    dictionaries = {}
    for domain, kind in kinds.items():
        dictionaries[domain] = _dictionary([piece for piece in scanned if domain in piece["ids"]], domain, kind)
    recoded = run(Recode(str(folder), _code_type(dictionaries).name), scanned)
    files: dict[str, list[str]] = defaultdict(list)
    for piece, found in zip(scanned, recoded, strict=True):
        files[piece["relation"]].append(found["file"])
        rows[piece["relation"]]["loops"] += found["loops"]
        for used in (piece["numbers"], *piece["ids"].values(), *(f"{file}.codes.npy" for file in piece["ids"].values())):
            Path(used).unlink()
    names = {name: tuple(schema.names) for name, schema in schemas.items()}
    return Encoded(
        dictionaries,
        {name: tuple(of[name, c] for c in names[name]) for name in names},
        names,
        {name: tuple(files[name]) for name in names},
        rows,
    )


@dataclass(frozen=True)
class ScanChunk:
    """Stage: number the values of a chunk, domain by domain; write the numbers, and the values with how often each occurs."""

    folder: str
    columns: Mapping[str, Mapping[str, tuple[str, pa.DataType]]]
    """By relation and column: the domain, and its type."""

    def __call__(self, piece: tuple[str, pa.Table | str]) -> dict[str, Any]:
        relation, chunk = piece
        columns = self.columns[relation]
        given = (chunk if isinstance(chunk, pa.Table) else map_table(chunk)).select(list(columns))
        table = _without_nulls(given)
        stem = f"{self.folder}/{uuid.uuid4().hex}"
        numbers = np.empty((len(columns), table.num_rows), np.int32)
        ids: dict[str, str] = {}
        for domain, kind in dict.fromkeys(columns.values()):
            mine = [place for place, entry in enumerate(columns.values()) if entry[0] == domain]
            arrays = [_values(table.column(place), kind, table.column_names[place], relation) for place in mine]
            coded = pa.concat_arrays(arrays).dictionary_encode()
            found = coded.indices.to_numpy(zero_copy_only=False)
            numbers[mine] = found.reshape(len(mine), -1)
            file = f"{stem}.{len(ids)}.arrow"
            counts = np.bincount(found, minlength=len(coded.dictionary))
            write_table(pa.table({"id": coded.dictionary, "count": counts}), Path(file))
            ids[domain] = file
        np.save(f"{stem}.npy", numbers)
        return {
            "relation": relation,
            "rows": given.num_rows,
            "nulls": given.num_rows - table.num_rows,
            "numbers": f"{stem}.npy",
            "domains": [domain for domain, _ in columns.values()],
            "ids": ids,
        }


@dataclass(frozen=True)
class Recode:
    """Stage: give the numbered values of a chunk their codes."""

    folder: str
    kind: str

    def __call__(self, piece: dict[str, Any]) -> dict[str, Any]:
        numbers = map_array(piece["numbers"])
        codes = {domain: map_array(f"{file}.codes.npy") for domain, file in piece["ids"].items()}
        tuples = np.empty(numbers.shape, self.kind)
        for place, domain in enumerate(piece["domains"]):
            tuples[place] = codes[domain][numbers[place]]
        file = f"{self.folder}/{uuid.uuid4().hex}.npy"
        np.save(file, tuples)
        return {"file": file, "loops": int(np.count_nonzero((tuples == tuples[0]).all(axis=0)))}


def _dictionary(pieces: Sequence[dict[str, Any]], domain: str, kind: pa.DataType) -> Dictionary:
    """Return the dictionary of a domain, frequent values first, and write beside each chunk's values which codes they have."""
    tables = [map_table(piece["ids"][domain]) for piece in pieces]
    whole = pa.chunked_array([chunk for table in tables for chunk in table["id"].chunks], kind).combine_chunks()
    encoded = (whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole).dictionary_encode()
    places, ids = encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary
    counts = np.zeros(len(ids), np.int64)
    np.add.at(counts, places, np.concatenate([np.empty(0, np.int64), *(table["count"].to_numpy() for table in tables)]))
    ranks = ranks_of(ids)
    order = np.lexsort((ranks, -counts))  # codes -> places
    codes = np.empty(len(ids), np.int64)
    codes[order] = np.arange(len(ids))
    first = 0
    for piece, table in zip(pieces, tables, strict=True):
        np.save(f"{piece['ids'][domain]}.codes.npy", codes[places[first : first + table.num_rows]])
        first += table.num_rows
    return Dictionary(ids.take(pa.array(order)), ranks[order])


def _code_type(dictionaries: Mapping[str, Dictionary]) -> np.dtype[Any]:
    return np.dtype(code_type(max((len(dictionary) for dictionary in dictionaries.values()), default=0)))


def _without_nulls(table: pa.Table) -> pa.Table:
    if not any(column.null_count for column in table.columns):
        return table
    kept = pc.is_valid(table.column(0))
    for column in table.columns[1:]:
        kept = pc.and_(kept, pc.is_valid(column))
    return table.filter(kept)


def _refuse_nulls(rows: Mapping[str, dict[str, int]]) -> None:
    for name, figures in rows.items():
        if figures["nulls"]:
            raise SourceError(
                f"{figures['nulls']} of the {figures['rows']} rows of {name!r} have a NULL, which equals nothing: drop them "
                "first, or with drop_nulls=True (--drop-nulls)"
            )


def _common_type(domain: Domain, schemas: Mapping[str, pa.Schema]) -> pa.DataType:
    found: tuple[str, str, pa.DataType] | None = None
    for relation, column in domain.columns:
        given = schemas[relation].field(column).type
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


def _values(column: pa.ChunkedArray, kind: pa.DataType, name: str, relation: str) -> pa.Array:
    """Return a column as one array of a type; -0.0 is 0.0."""
    empty = pa.types.is_null(column.type)
    chunks = [chunk.cast(kind) if empty else cast(chunk, kind, column=name, source=relation) for chunk in column.chunks]
    values = pa.concat_arrays(chunks) if chunks else pa.array([], kind)
    return pc.add(values, pa.scalar(0.0, kind)) if pa.types.is_floating(kind) else values
