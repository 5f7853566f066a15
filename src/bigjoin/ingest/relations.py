"""Relations of any arity -> an index: one dictionary for each domain, and a trie for each column order that plans ask for.

A domain is a set of columns whose values are compared with each other. Its values get codes by descending frequency, ties by
value, like the vertices of a graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bigjoin.errors import SourceError
from bigjoin.index.dictionary import Dictionary, code_type, ranks_of
from bigjoin.index.directory import key
from bigjoin.index.trie import Codes, Trie, build_trie
from bigjoin.ingest.columns import cast, common_type, property_type
from bigjoin.ingest.ids import write_table
from bigjoin.query.statistics import RelationStatistics, Statistics


@dataclass(frozen=True)
class Domain:
    """A set of columns that share a dictionary."""

    name: str
    columns: tuple[tuple[str, str], ...]
    """Relations and the names of their columns."""


@dataclass(frozen=True)
class Encoded:
    """Relations as distinct tuples of codes."""

    dictionaries: Mapping[str, Dictionary]
    domains: Mapping[str, tuple[str, ...]]
    """By relation: the domains of its columns."""
    names: Mapping[str, tuple[str, ...]]
    columns: Mapping[str, tuple[Codes, ...]]
    rows: Mapping[str, dict[str, int]]
    """By relation: how many rows its source had, and how many of them had a NULL."""

    @property
    def statistics(self) -> Statistics:
        """What a planner may know; it can have any column order."""
        relations = {
            name: RelationStatistics(self.domains[name], len(columns[0]), loops=_loops(columns), columns=self.names[name])
            for name, columns in self.columns.items()
        }
        return Statistics(relations, {name: len(dictionary) for name, dictionary in self.dictionaries.items()})

    def trie(self, relation: str, order: tuple[int, ...]) -> Trie:
        """Return the trie of a relation in a column order."""
        columns = self.columns[relation]
        return build_trie([columns[c] for c in order], len(self.dictionaries[self.domains[relation][order[0]]]))


def encode(tables: Mapping[str, pa.Table], domains: Iterable[Domain], *, drop_nulls: bool = False) -> Encoded:
    """Give the values of each domain their codes; refuse types that do not compare, and NULLs unless they are to be dropped."""
    of = {column: domain.name for domain in domains for column in domain.columns}
    whole = {name: _without_nulls(name, table, drop_nulls=drop_nulls) for name, table in tables.items()}
    dictionaries: dict[str, Dictionary] = {}
    coded: dict[tuple[str, str], Codes] = {}
    for domain in domains:
        kind = _common_type(domain, whole)
        arrays = [_values(whole[relation][column], kind, column, relation) for relation, column in domain.columns]
        dictionaries[domain.name], codes = _dictionary(arrays, kind)
        coded |= dict(zip(domain.columns, codes, strict=True))
    narrow = code_type(max((len(dictionary) for dictionary in dictionaries.values()), default=0))
    columns = {name: _distinct([coded[name, c].astype(narrow) for c in table.column_names]) for name, table in whole.items()}
    rows = {n: {"rows": table.num_rows, "nulls": table.num_rows - whole[n].num_rows} for n, table in tables.items()}
    names = {name: tuple(table.column_names) for name, table in tables.items()}
    return Encoded(dictionaries, {n: tuple(of[n, c] for c in names[n]) for n in names}, names, columns, rows)


def write(encoded: Encoded, orders: Mapping[str, Iterable[tuple[int, ...]]], folder: Path) -> dict[str, Any]:
    """Write the files of an index into a folder, with these column orders, and return what its manifest says about them."""

    def place(file: str) -> str:
        return f"{folder.name}/{file}"

    domains, relations = {}, {}
    for number, (name, dictionary) in enumerate(encoded.dictionaries.items()):
        ids, ranks = f"domain{number}.ids.arrow", f"domain{number}.ranks.npy"
        write_table(pa.table({"id": dictionary.ids}), folder / ids)
        np.save(folder / ranks, dictionary.ranks)
        domains[name] = {"size": len(dictionary), "type": str(dictionary.type), "ids": [place(ids)], "ranks": place(ranks)}
    for name, columns in encoded.columns.items():
        written = {}
        for order in orders[name]:
            trie, levels = encoded.trie(name, order), []
            for depth, level in enumerate(trie.levels):
                stem = f"{name}.{'-'.join(map(str, order))}.{depth}"
                np.save(folder / f"{stem}.values.npy", level.values)
                levels.append({"values": place(f"{stem}.values.npy")})
                if trie.keyed:
                    np.save(folder / f"{stem}.offsets.npy", level.offsets)
                    levels[-1]["offsets"] = place(f"{stem}.offsets.npy")
            written[key(order)] = {"levels": levels, "lists": asdict(trie.statistics())}
        source = encoded.rows[name]
        relations[name] = {
            "domains": list(encoded.domains[name]),
            "columns": list(encoded.names[name]),
            "tuples": len(columns[0]),
            "symmetric": False,
            "loops": _loops(columns),
            "orders": written,
            "source": {**source, "loops": 0, "duplicates": source["rows"] - source["nulls"] - len(columns[0])},
        }
    kind = np.dtype(next((c.dtype for columns in encoded.columns.values() for c in columns), np.uint32))
    return {
        "codes": kind.name,
        "shards": 1,
        "domains": domains,
        "relations": relations,
        "degrees": {"histogram": [], "hubs": []},
    }


def _without_nulls(name: str, table: pa.Table, *, drop_nulls: bool) -> pa.Table:
    if not table.num_columns:
        raise SourceError(f"the relation {name!r} has no columns")
    if not any(column.null_count for column in table.columns):
        return table
    kept = pc.is_valid(table.column(0))
    for column in table.columns[1:]:
        kept = pc.and_(kept, pc.is_valid(column))
    if not drop_nulls:
        raise SourceError(
            f"{table.num_rows - pc.sum(kept).as_py()} of the {table.num_rows} rows of {name!r} have a NULL, which equals "
            "nothing: drop them first, or with drop_nulls=True (--drop-nulls)"
        )
    return table.filter(kept)


def _common_type(domain: Domain, tables: Mapping[str, pa.Table]) -> pa.DataType:
    found: tuple[str, str, pa.DataType] | None = None
    for relation, column in domain.columns:
        given = tables[relation].schema.field(column).type
        if pa.types.is_null(given):  # a column without a value, of any type
            continue
        kind = property_type(given)
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


def _dictionary(arrays: list[pa.Array], kind: pa.DataType) -> tuple[Dictionary, list[Codes]]:
    """Return the dictionary of some columns, hubs first, and the columns as codes."""
    whole = pa.chunked_array(arrays, kind).combine_chunks()
    encoded = (whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole).dictionary_encode()
    places = encoded.indices.to_numpy(zero_copy_only=False)
    ids = encoded.dictionary
    ranks = ranks_of(ids)
    order = np.lexsort((ranks, -np.bincount(places, minlength=len(ids))))  # codes -> places
    codes = np.empty(len(ids), np.int64)
    codes[order] = np.arange(len(ids))
    bounds = np.cumsum([0, *map(len, arrays)])
    columns = [codes[places[low:high]] for low, high in pairwise(bounds)]
    return Dictionary(ids.take(pa.array(order)), ranks[order]), columns


def _distinct(columns: list[Codes]) -> tuple[Codes, ...]:
    """Return the distinct tuples of some columns, sorted."""
    order = np.lexsort(columns[::-1])
    ordered = [column[order] for column in columns]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in ordered])
    return tuple(column[fresh] for column in ordered)


def _loops(columns: tuple[Codes, ...]) -> int:
    """Return how many tuples have the same code in all columns."""
    return int(np.count_nonzero(np.logical_and.reduce([column == columns[0] for column in columns])))
