"""Store the results of queries as relations of the index that they were asked of, for other queries to read.

A stored relation is committed with the very version of the index whose join it is, or with one that has the same edges. What
is built anew, or made undirected, starts without it: a stored join is as old as the rest of its index, or it is not there.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bigjoin.defaults import BATCH_SIZE, PART_SIZE
from bigjoin.errors import BigjoinError, IndexFormatError, QueryError
from bigjoin.index.directory import Index
from bigjoin.index.entries import Columns, DefinitionEntry, Manifest, OrderEntry, RelationEntry, check_name
from bigjoin.index.manifest import read_manifest
from bigjoin.index.run import Run
from bigjoin.index.writer import writing
from bigjoin.ingest.tuples import Tries
from bigjoin.joins.batched import Batched
from bigjoin.joins.compiled import Listing, Range
from bigjoin.languages import parse
from bigjoin.planner import plan
from bigjoin.planner.isomorphism import renamings, shape_of
from bigjoin.planner.order_attributes import components
from bigjoin.planner.resolve_relations import resolve_relations
from bigjoin.query.flags import FLAGS
from bigjoin.query.nest import nest_of
from bigjoin.query.plan import Plan
from bigjoin.query.query import Query
from bigjoin.query.statistics import Statistics
from bigjoin.query.terms import Property

RANGES = 64
"""Ranges of seeds, each of which a task joins at once."""

MAX_SYMMETRIC_COLUMNS = 5
"""Columns of which every order is looked at for symmetries."""

EVERY_ORDER = 3
"""Columns up to which a trie is entered under every order that it serves; beyond, they are too many to look through."""


def materialize(
    index: Index,
    queries: Mapping[str, Query],
    run: Run,
    *,
    part: int = PART_SIZE,
    progress: Callable[[str], None] = lambda _: None,
) -> Index:
    """Return the index with a relation more for each query, all of them or none: the bindings of its head, as a set."""
    check_queries(queries, index.statistics)
    with writing(index.path) as writer:
        current = read_manifest(index.path)
        if current.identity != index.manifest.identity:
            raise IndexFormatError(f"the index {index.path} has changed since it was opened: open it again")
        stored = store(current, writer.folder, queries, run, part=part, progress=progress)
        progress("committing")
        return writer.commit(stored, run, kept=stored.in_use(current.files))


def store(
    manifest: Manifest,
    folder: Path,
    queries: Mapping[str, Query],
    run: Run,
    *,
    part: int = PART_SIZE,
    progress: Callable[[str], None] = lambda _: None,
) -> Manifest:
    """Write the results of queries into a build's folder, and return the manifest with them as relations."""
    folder = folder.absolute()
    for name, query in queries.items():
        index = Index(folder.parent, replace(manifest, identity=uuid.uuid4().hex))
        check_queries({name: query}, index.statistics)
        exchange = folder / "exchange"
        exchange.mkdir()
        try:
            progress(f"finding {name}")
            asked = resolve_relations(query, index.statistics)
            find = FindTuples(str(exchange), plan(asked, index.statistics), asked, index, part)
            ranges = [list(bounds) for bounds in find.search().ranges(RANGES)]
            chunks = [file for files_of in run(find, ranges) for file in files_of]
            progress(f"storing {name}")
            tries = Tries(folder, str(exchange), run, np.dtype(manifest.codes), manifest.shards, part)
            entry = _entry(name, asked, query, tries, chunks, index.statistics)
        finally:
            shutil.rmtree(exchange, ignore_errors=True)
        manifest = replace(manifest, relations={**manifest.relations, name: entry})
    return manifest


def check_queries(queries: Mapping[str, Query], statistics: Statistics | None = None) -> None:
    """Refuse names and queries that cannot be materialised, as far as that can be told, with or without an index."""
    relations = {} if statistics is None else statistics.relations
    for name, query in queries.items():
        check_name(name, [other for other, relation in relations.items() if not relation.materialized])
        if query.optional:
            raise QueryError("a query with optional atoms cannot be materialised", hint="materialise what must hold")
        if not query.head or any(isinstance(term, Property) for term in query.head):
            hint = f"list attributes only: {query.name}({', '.join(query.attributes)})"
            raise QueryError("the head of a materialised query has to list attributes", hint=hint)
        for atom in query.atoms:
            if atom.relation in relations and relations[atom.relation].materialized:
                raise QueryError(f"{atom.relation!r} is materialised itself", atom.span, "write its own query in its place")


@dataclass(frozen=True)
class FindTuples:
    """Stage: join a range of seeds, and write the codes of the head's attributes as files, a row an attribute."""

    folder: str
    plan: Plan
    query: Query
    index: Index
    part: int

    def search(self) -> Listing | Batched:
        """Bind the plan to the index."""
        listing = Listing(nest_of(self.plan), self.query, self.index)
        return Batched(self.plan, self.index) if listing.generator.is_too_large else listing

    def __call__(self, bounds: Sequence[int]) -> list[str]:
        first, last, low, high = bounds
        return list(self._files((first, last, low, high)))

    def _files(self, bounds: Range) -> Iterator[str]:
        search = self.search()
        places = [search.attributes.index(str(attribute)) for attribute in self.query.head]
        size = min(self.part, BATCH_SIZE) if isinstance(search, Batched) else self.part
        for found in search.rows([bounds], size):
            tuples = found.prefixes[places]
            file = f"{self.folder}/tuples-{uuid.uuid4().hex}.npy"
            np.save(file, np.unique(tuples, axis=1) if self.query.projects else tuples)
            yield file


def _entry(name: str, asked: Query, query: Query, tries: Tries, chunks: Sequence[str], statistics: Statistics) -> RelationEntry:
    """Write a relation's tries, and return its entry in the manifest."""
    head = [str(attribute) for attribute in asked.head]
    columns = tuple(range(len(head)))
    of = statistics.domains_of(asked.positive)
    domains = tuple(of[attribute] for attribute in head)
    plain = _is_plain(asked)
    same = _symmetries(asked, statistics) if plain else [columns]
    wanted = list(_orders(len(head), plain=plain))
    orders: dict[Columns, OrderEntry] = {}
    tuples = set()
    for order in wanted:
        if order not in orders:
            written, count = tries.write(name, chunks, order, [statistics.domains[domain] for domain in domains])
            tuples.add(count)
            images = {tuple(image[c] for c in order): written for image in same}
            orders |= {o: entry for o, entry in images.items() if o in wanted or len(o) <= EVERY_ORDER}
    assert len(tuples) == 1
    return RelationEntry(
        domains=domains,
        columns=tuple(head),
        tuples=tuples.pop(),
        symmetric=False,
        symmetries=tuple(image for image in same if image != columns),
        loops=1,
        orders={order: orders[order] for order in sorted(orders)},
        definition=_definition(name, asked, query),
    )


def _definition(name: str, asked: Query, query: Query) -> DefinitionEntry:
    """Return what the manifest says of a query: its text, and what plans read, where they can make use of it."""
    rule = replace(query, name=name).with_flags({flag.name: False for flag in FLAGS})
    definition = DefinitionEntry(str(rule), tuple(flag.name for flag in FLAGS if flag.stored and getattr(query, flag.name)))
    if not _is_plain(asked):
        return definition
    atoms = tuple((atom.relation, *atom.attributes) for atom in asked.atoms)
    return replace(definition, head=tuple(str(attribute) for attribute in asked.head), atoms=atoms)


def _orders(width: int, *, plain: bool) -> Iterator[tuple[int, ...]]:
    """Give the column orders to store: one for each column that may come last, and, if not plain, for each that may be first.

    Plans read a plain query's relation once all but one of its attributes are bound; another may be the only way on.
    """
    for last in reversed(range(width)):
        yield (*(c for c in range(width) if c != last), last)
    for first in () if plain else range(1, width):
        yield (first, *(c for c in range(width) if c != first))


def _is_plain(query: Query) -> bool:
    """Tell whether a query is connected atoms and nothing else, with all attributes in its head: what plans can make use of."""
    relations = all(not atom.negated and atom.view is None for atom in query.atoms)
    return (
        relations
        and len(components(atom.attributes for atom in query.atoms)) == 1
        and not (query.filters or query.injective or query.projects)
    )


def _symmetries(query: Query, statistics: Statistics) -> list[tuple[int, ...]]:
    """Return the exchanges of the head's columns that leave a plain query as it is."""
    head = [str(attribute) for attribute in query.head]
    if len(head) > MAX_SYMMETRIC_COLUMNS:
        return [tuple(range(len(head)))]
    shape = shape_of(query, statistics)
    return sorted(tuple(head.index(names[a]) for a in head) for names in renamings(shape, shape))


def check_definitions(index: Index) -> Index:
    """Return an index if plans may believe what its manifest says of stored results: it says it twice, as text and as atoms."""
    for name, entry in index.manifest.relations.items():
        if (said := entry.definition) is None:
            continue
        try:
            flags: Any = dict.fromkeys(said.flags, True)
            query = parse(said.query, **flags)
            asked = resolve_relations(query, index.statistics)
            same = _symmetries(asked, index.statistics) if _is_plain(asked) else []
        except (BigjoinError, TypeError, KeyError, ValueError):
            raise index.damaged(f"relations.{name}.definition is no query over its relations") from None
        images = {tuple(image) for image in same} - {tuple(range(len(entry.domains)))}
        if _definition(name, asked, query) != said or images != set(entry.symmetries) or said.head not in (None, entry.columns):
            raise index.damaged(f"relations.{name}.definition contradicts itself")
    return index


def definitions(index: Index) -> dict[str, Query]:
    """Return the materialised relations of an index, and the query of each."""
    found = {}
    for name, entry in index.manifest.relations.items():
        if entry.definition is not None:
            flags: Any = dict.fromkeys(entry.definition.flags, True)
            found[name] = parse(entry.definition.query, **flags)
    return found
