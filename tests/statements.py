"""Statements answered without Spark: the matches of each query along one path of execution, put together in Python."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pyarrow as pa

from bigjoin.compiled.loops import Counting, Listing
from bigjoin.index.directory import Index
from bigjoin.indexing import build_index
from bigjoin.joins.bind import bind
from bigjoin.planner import count_plan, meaning, plan
from bigjoin.query.expressions import attributes_of
from bigjoin.query.nest import nest_of
from bigjoin.query.query import Query
from bigjoin.query.spelled_out import refuse_rows_of_several
from bigjoin.query.statement import QueryBlock, Statement, Subpattern
from bigjoin.query.terms import Property, Term
from tests.dataflow import Balanced, Simulated
from tests.executions import decoded, listed, on_batches, total
from tests.stages import grouped, in_order, once, staged

WAYS = ("batches", "loops", "partitioned-7", "balanced-7")
_CLUSTERS = {"partitioned-7": Simulated, "balanced-7": Balanced}


# The rows and the number of matches of a query


def found(query: Query, index: Index, way: str) -> list[dict]:
    """The matches of a query as dictionaries; what an optional atom leaves open is None."""
    rows = []
    for draft in meaning(query, index.statistics):
        chosen = plan(draft)
        bound = bind(chosen, index)
        if way == "batches" or (way == "loops" and Listing(nest_of(chosen), chosen.query, index).is_too_large):
            matches = on_batches(bound, batch_size=64, parts=2)
        elif way == "loops":
            matches = listed(chosen, index, size=64, parts=2)
        else:
            with tempfile.TemporaryDirectory() as folder:
                codes = _CLUSTERS[way](chosen, index, folder, counting=False).run().rows()
            matches = decoded(bound.columns, np.array(codes, np.uint32).reshape(-1, len(chosen.attributes)).T)
        names = [column.name for column in bound.columns]
        named = (dict(zip(names, row, strict=True)) for row in matches)
        rows += [{column: row.get(column) for column in query.columns} for row in named]
    return once(rows) if query.deduplicate else rows


def number(query: Query, index: Index, way: str) -> int:
    """The number of matches, counted without listing them where the path can do that."""
    counted = 0
    for draft in meaning(query, index.statistics):
        nests = count_plan(draft)
        compiles = not any(Counting(nest, nests.query, index).is_too_large for nest in nests.terms)
        if way == "batches" or (way == "loops" and not compiles):
            counted += len(on_batches(bind(plan(draft), index), batch_size=8, parts=1))
        elif way == "loops":
            counted += total(nests, index, parts=2)
        else:
            with tempfile.TemporaryDirectory() as folder:
                counted += _CLUSTERS[way](plan(draft), index, folder).run().count
    return counted


def counted(statement: Statement, index: Index, way: str) -> int | None:
    """The number of rows, if it follows from the numbers of matches of the statement's queries."""
    if not statement.counts_as_queries or any(block.query.deduplicate for block in statement.blocks):
        return None
    return statement.cut(sum(number(block.query, index, way) for block in statement.blocks))


# The rows of a Cypher text, or of a rule


def answered(statement: Statement, index: Index, way: str) -> tuple[list[str], list[tuple]]:
    """The columns and rows of a statement that is no motif, in order if it asks for one."""
    (block,) = statement.blocks
    if statement.count_column is not None and not statement.before:
        number_of_rows = [(len(_joined_rows(block, {}, index, way)),)]
        return [statement.count_column], number_of_rows[statement.skip :][: statement.limit]
    if block.subpatterns and not statement.head:
        rows = [{} for _ in _joined_rows(block, {}, index, way)]
    elif block.subpatterns:
        wanted = {term: f"c{i}" for i, term in enumerate(dict.fromkeys(statement.head))}
        named = list(zip(statement.head, statement.names, strict=True))
        rows = [{name: row[wanted[t]] for t, name in named} for row in _joined_rows(block, wanted, index, way)]
    else:
        query = block.query
        rows = found(query if query.head else replace(query, head=query.attributes[:1]), index, way)
    for stage in statement.before:
        rows = staged(rows, stage, statement.query.dialect)
    if statement.count_column is not None:
        return [statement.count_column], [(len(rows),)][statement.skip :][: statement.limit]
    if statement.grouping is not None:
        rows = grouped(rows, statement.grouping, statement.query.dialect)
    if statement.deduplicate:
        rows = once(rows)
    rows = in_order(rows, statement.order)[statement.skip :][: statement.limit]
    columns = list(statement.columns or statement.query.columns)
    return columns, [tuple(row[column] for column in columns) for row in rows]


def _joined_rows(block: QueryBlock, wanted: dict[Term, str], index: Index, way: str) -> list[dict]:
    """The rows of a block with the terms that are wanted, those of optional patterns as well."""
    needed = dict(wanted)
    for sub in block.subpatterns:
        for attribute in sub.shared:
            needed.setdefault(attribute, f"{attribute} that is shared")
    own = block.query.bound
    mine = {term: name for term, name in needed.items() if own.issuperset(attributes_of(term))}
    mine = mine or {block.query.attributes[0]: "k"}
    asked = replace(block.query, head=tuple(mine), names=tuple(mine.values()), deduplicate=False)
    rows = found(asked, index, way)
    for sub in block.subpatterns:
        rows = list(_after(rows, sub, needed, index, way))
    return rows


def _after(rows: list[dict], sub: Subpattern, needed: dict[Term, str], index: Index, way: str) -> Iterator[dict]:
    refuse_rows_of_several(sub.shared, sub.block.query, index.statistics)
    keys = [needed[attribute] for attribute in sub.shared]
    inside = _bound(sub.block)
    more = {t: n for t, n in needed.items() if inside.issuperset(attributes_of(t))} if sub.kind == "optional" else {}
    more |= {attribute: needed[attribute] for attribute in sub.shared}
    by_key = defaultdict(list)
    for row in _joined_rows(sub.block, more, index, way):
        by_key[tuple(row[key] for key in keys)].append({name: row[name] for name in more.values()})
    for row in rows:
        key = tuple(row[name] for name in keys)
        there = [] if None in key else by_key[key]
        if sub.kind == "optional":
            yield from ({**row, **match} for match in there or [{name: row.get(name) for name in more.values()}])
        elif bool(there) == (sub.kind == "exists"):
            yield row


def _bound(block: QueryBlock) -> set[str]:
    """The attributes that the rows of a block have, those of its optional patterns as well."""
    return block.query.bound.union(*(_bound(sub.block) for sub in block.subpatterns if sub.kind == "optional"))


# The rows of a motif


class MotifTables:
    """Vertices and edges of GraphFrames, with an index in which an edge's row is a property."""

    def __init__(self, vertices: list[dict], edges: list[dict], folder):
        self.vertices, self.edges = _structs(vertices), _structs(edges)
        ids = [value for v in vertices if (value := v["id"]) is not None]
        ids += [value for e in edges for value in (e["src"], e["dst"]) if value is not None]
        is_text = isinstance(ids[0], str)
        nobody, nowhere = ("\ufffd NULL id", "\ufffd NULL end") if is_text else (min(ids) - 1, min(ids) - 2)
        self.keys = [nobody if v["id"] is None else v["id"] for v in vertices]
        kind = pa.string() if is_text else pa.int64()

        def table(places):
            ends = {end: [nowhere if edges[i][end] is None else edges[i][end] for i in places] for end in ("src", "dst")}
            columns = {name: pa.array(values, kind) for name, values in ends.items()}
            return pa.table({**columns, "row": pa.array(places, pa.int64())})

        first = {struct: place for place, struct in reversed(list(enumerate(self.edges)))}
        relations = {"edge": table(range(len(edges))), "distinct_row": table(sorted(first.values()))}
        members = pa.table({"id": pa.array(dict.fromkeys(self.keys), kind), "label": ["member"] * len(set(self.keys))})
        self.index = build_index(relations, folder, vertices=members, labels="label", parallel=True)

    def rows(self, statement: Statement, way: str) -> list[tuple]:
        """The rows of a motif, as the oracle writes them."""
        rows = []
        for block in statement.blocks:
            terms = {
                element.name: element.attribute if element.is_vertex else Property(element.attribute, "row")
                for element in block.elements
            }
            named = terms or {"_": block.query.attributes[0]}
            asked = replace(block.query, head=tuple(named.values()), names=tuple(f"c{i}" for i in range(len(named))))
            for match in found(asked, self.index, way):
                cells = [
                    self._structs(element, value) for element, value in zip(block.elements, match.values(), strict=bool(terms))
                ]
                for row in product(*cells):
                    shown = dict(zip(terms, row, strict=True)) | dict(block.constants)
                    rows.append(tuple(shown.get(column) for column in statement.columns))
        places = [statement.columns.index(key.column) for key in statement.order]
        return sorted(rows, key=lambda row: [row[place] for place in places])

    def _structs(self, element, value) -> list[tuple]:
        if not element.is_vertex:
            return [self.edges[value]]
        same = [struct for key, struct in zip(self.keys, self.vertices, strict=True) if key == value]
        return list(dict.fromkeys(same)) if element.distinct else same


def _structs(rows: list[dict]) -> list[tuple]:
    columns = dict.fromkeys(column for row in rows for column in row)
    return [tuple((column, row.get(column)) for column in columns) for row in rows]
