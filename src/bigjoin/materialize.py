"""Store the result of a query as a relation of the index that it was asked of, for other queries to read.

The relation is committed with the very version of the index whose join it is. Whatever replaces that version starts without it:
a stored join is as old as the rest of its index, or it is not there.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np

from bigjoin.defaults import PART_SIZE
from bigjoin.errors import IndexFormatError, QueryError
from bigjoin.index.directory import Index, key
from bigjoin.index.manifest import read_manifest
from bigjoin.index.run import Run
from bigjoin.index.writer import writing
from bigjoin.indexing import check_name
from bigjoin.ingest.tuples import Tries
from bigjoin.joins.batched import Batched
from bigjoin.joins.compiled import Listing, Range
from bigjoin.languages import parse
from bigjoin.planner import plan
from bigjoin.planner.resolve_relations import resolve_relations
from bigjoin.query.nest import Term, nest_of
from bigjoin.query.plan import Plan
from bigjoin.query.query import Atom, Property, Query
from bigjoin.query.statistics import Statistics
from bigjoin.query.view import view_of

RANGES = 64
"""Ranges of seeds, each of which a task joins at once."""

_FLAGS = ("distinct", "unique", "induced", "cross_product")

MOST_SYMMETRIC = 7
"""Columns of which every order is looked at for symmetries."""


def materialize(
    index: Index, name: str, query: Query, run: Run, *, part: int = PART_SIZE, progress: Callable[[str], None] = lambda _: None
) -> Index:
    """Return the index with one relation more: the bindings of the head that satisfy a query, as a set."""
    check_name(name, [n for n, relation in index.statistics.relations.items() if not relation.materialized])
    _check_query(query)
    asked = resolve_relations(query, index.statistics)
    for atom in asked.atoms:
        read = view.relation if (view := view_of(atom.relation)) else atom.relation
        if index.statistics.relations[read].materialized:
            hint = "write its own query in its place"
            raise QueryError(f"{read!r} is materialised itself, and not by atoms alone", atom.span, hint)
    chosen = plan(asked, index.statistics)
    with writing(index.path) as writer:
        current = read_manifest(index.path)
        if current["identity"] != index.manifest["identity"]:
            raise IndexFormatError(f"the index {index.path} has changed since it was opened: open it again")
        exchange = writer.folder / "exchange"
        exchange.mkdir()
        progress(f"finding {name}")
        find = FindTuples(str(exchange), chosen, asked, index)
        ranges = find.search().ranges(RANGES)
        chunks = [file for files in run(find, [list(r) for r in ranges]) for file in files]
        progress(f"storing {name}")
        tries = Tries(writer.folder, str(exchange), run, np.dtype(current["codes"]), current["shards"], part)
        entry = _entry(name, asked, query, tries, chunks, index.statistics)
        shutil.rmtree(exchange)
        progress("committing")
        replaced = _files(current["relations"].get(name, {}))
        kept = {file: seal for file, seal in current["files"].items() if file not in replaced}
        content = {**current, "relations": {**current["relations"], name: entry}}
        return writer.commit(content, run, kept=kept)


def _check_query(query: Query) -> None:
    if query.optional:
        raise QueryError("a query with optional atoms cannot be materialised", hint="materialise what must hold")
    if not query.head or any(isinstance(term, Property) for term in query.head):
        hint = f"list attributes only: {query.name}({', '.join(query.attributes)})"
        raise QueryError("the head of a materialised query has to list attributes", hint=hint)


@dataclass(frozen=True)
class FindTuples:
    """Stage: join a range of seeds, and write the codes of the head's attributes as files, a row an attribute."""

    folder: str
    plan: Plan
    query: Query
    index: Index

    def search(self) -> Listing | Batched:
        """Bind the plan to the index."""
        listing = Listing(Term(1, nest_of(self.plan), self.plan.attributes), self.query, self.index)
        return Batched(self.plan, self.index) if listing.generator.is_too_large else listing

    def __call__(self, bounds: Sequence[int]) -> list[str]:
        first, last, low, high = bounds
        return list(self._files((first, last, low, high)))

    def _files(self, bounds: Range) -> Iterator[str]:
        search = self.search()
        places = [search.attributes.index(str(attribute)) for attribute in self.query.head]
        for found in search.rows([bounds], PART_SIZE):
            file = f"{self.folder}/tuples-{uuid.uuid4().hex}.npy"
            np.save(file, found.prefixes[places])
            yield file


def _entry(
    name: str, asked: Query, query: Query, tries: Tries, chunks: Sequence[str], statistics: Statistics
) -> dict[str, Any]:
    """Write a relation's tries, and return its entry in the manifest."""
    head = [str(attribute) for attribute in asked.head]
    of = {a: d for atom in asked.positive for a, d in zip(atom.attributes, statistics.of(atom).domains, strict=True)}
    domains = [of[attribute] for attribute in head]
    plain = _is_plain(asked)
    same = _symmetries(asked, statistics) if plain else [tuple(range(len(head)))]
    orders: dict[tuple[int, ...], dict[str, Any]] = {}
    for last in reversed(range(len(head))):
        order = (*(c for c in range(len(head)) if c != last), last)
        if order not in orders:
            written = tries.write(name, chunks, order, [statistics.domains[domain] for domain in domains])
            orders |= {tuple(columns[c] for c in order): written for columns in same}
    tuples = {written.pop("tuples") for written in {id(o): o for o in orders.values()}.values()}
    assert len(tuples) == 1
    rule = replace(query, name=name, distinct=False, unique=False, induced=False, deduplicate=False)
    definition: dict[str, Any] = {"query": str(rule), "flags": [flag for flag in _FLAGS if getattr(query, flag)]}
    if plain:
        definition |= {"head": head, "atoms": [[atom.relation, *atom.attributes] for atom in asked.atoms]}
    return {
        "domains": domains,
        "columns": head,
        "tuples": tuples.pop(),
        "symmetric": False,
        "loops": 1,
        "orders": {key(order): orders[order] for order in sorted(orders)},
        "definition": definition,
    }


def _is_plain(query: Query) -> bool:
    """Tell whether a query is atoms and nothing else, all of whose attributes the head lists: what plans can make use of."""
    relations = all(not atom.negated and "[" not in atom.relation for atom in query.atoms)
    return relations and not (query.filters or query.injective or query.projects)


def _symmetries(query: Query, statistics: Statistics) -> list[tuple[int, ...]]:
    """Return the exchanges of the head's columns that leave a plain query as it is."""
    head = [str(attribute) for attribute in query.head]

    def form(atom: Atom) -> tuple[str, tuple[str, ...]]:
        symmetric = statistics.relation(atom.relation).symmetric
        ends = sorted(atom.attributes[:2]) if symmetric else atom.attributes[:2]
        return atom.relation, (*ends, *atom.attributes[2:])

    atoms = {form(atom) for atom in query.atoms}
    found = []
    for columns in permutations(range(len(head))) if len(head) <= MOST_SYMMETRIC else [tuple(range(len(head)))]:
        names = {head[i]: head[c] for i, c in enumerate(columns)}
        if {form(atom.renamed(names)) for atom in query.atoms} == atoms:
            found.append(tuple(columns))
    return found


def _files(relation: dict[str, Any]) -> set[str]:
    return {file for order in relation.get("orders", {}).values() for level in order["levels"] for file in level.values()}


def definitions(index: Index) -> dict[str, Query]:
    """Return the materialised relations of an index, and the query of each."""
    found = {}
    for name, entry in index.manifest["relations"].items():
        if "definition" in entry:
            flags: Any = dict.fromkeys(entry["definition"]["flags"], True)
            found[name] = parse(entry["definition"]["query"], **flags)
    return found
