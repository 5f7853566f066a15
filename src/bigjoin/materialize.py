"""Store the results of queries as relations of the index that they were computed from, for other queries to read.

A stored result is committed with the version of the index that it was computed from, or with one that has the same edges. An
index that is built anew or made undirected starts without it, so a stored result is never older than the rest of its index.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bigjoin.compiled.loops_or_batches import ListProgram
from bigjoin.defaults import BATCH_SIZE, PART_SIZE
from bigjoin.errors import BigjoinError, IndexFormatError, QueryError
from bigjoin.index.directory import Index
from bigjoin.index.manifest_entries import ColumnOrder, DefinitionEntry, Manifest, RelationEntry, check_name
from bigjoin.index.manifest_file import read_manifest
from bigjoin.index.stage_runner import StageRunner
from bigjoin.index.writer import writing
from bigjoin.ingest.tries import TrieToWrite, TrieWriter, TupleChunk, exchange_in
from bigjoin.joins.defined import defined
from bigjoin.joins.match_rows import Range
from bigjoin.planner import plan
from bigjoin.planner.isomorphism import shape_of
from bigjoin.planner.order_attributes import components
from bigjoin.planner.resolve_relations import resolve_relations
from bigjoin.planner.symmetries import Symmetries
from bigjoin.query.flags import FLAGS
from bigjoin.query.query import Query
from bigjoin.query.statistics import Statistics
from bigjoin.query.terms import Property
from bigjoin.storage.arrays import save_new

SEED_RANGES = 64
"""Ranges of seeds, each of which a task joins at once."""
MAX_SYMMETRIC_COLUMNS = 5
"""Up to so many columns, every order of them is looked at for symmetries."""
MAX_COLUMNS_IN_EVERY_ORDER = 3
"""Up to so many columns, a trie is entered under every order that it serves; beyond, there are too many to look through."""


def materialize(
    index: Index,
    queries: Mapping[str, Query],
    run: StageRunner,
    *,
    part: int = PART_SIZE,
    progress: Callable[[str], None] = lambda _: None,
) -> Index:
    """Return the index with a further relation for each query, all of them or none: the bindings of its head, as a set."""
    check_queries(queries, index.statistics)
    with writing(index.path) as writer:
        current = read_manifest(index.path)
        if current.identity != index.manifest.identity:
            raise IndexFormatError(f"the index {index.path} has changed since it was opened: open it again")
        writer.storage.lay_beside(writer.folder.name, {name: entry.checksum for name, entry in current.files.items()})
        stored = store(current, writer.folder, queries, run, part=part, progress=progress)
        progress("committing")
        return writer.commit(stored, run, kept=stored.in_use(current.files))


def store(
    manifest: Manifest,
    folder: Path,
    queries: Mapping[str, Query],
    run: StageRunner,
    *,
    part: int = PART_SIZE,
    progress: Callable[[str], None] = lambda _: None,
) -> Manifest:
    """Write the results of queries into a build's folder, and return the manifest with them as relations."""
    folder = folder.absolute()
    for name, query in queries.items():
        index = Index(folder.parent, replace(manifest, identity=uuid.uuid4().hex))
        check_queries({name: query}, index.statistics)
        with exchange_in(folder) as exchange:
            progress(f"finding {name}")
            asked = resolve_relations(query, index.statistics)
            program = ListProgram.of(plan(asked, index.statistics), index)
            ranges = program.bind(index).ranges(SEED_RANGES)
            found = run(FindTuples(exchange, program, index, part), ranges)
            progress(f"storing {name}")
            tries = TrieWriter(folder, exchange, run, np.dtype(manifest.codes), manifest.shards, part)
            chunks = tuple(TupleChunk(file) for files in found for file in files)
            entry = _entry(name, asked, query, tries, chunks, index.statistics)
        manifest = replace(manifest, relations={**manifest.relations, name: entry})
    return manifest


def check_queries(queries: Mapping[str, Query], statistics: Statistics | None = None) -> None:
    """Refuse names and queries that cannot be materialised; without statistics, only what the queries themselves show."""
    relations = {} if statistics is None else statistics.relations
    for name, query in queries.items():
        check_name(name, [other for other, relation in relations.items() if not relation.materialized])
        if any(atom.hops is not None for atom in query.atoms):
            raise QueryError("a query with paths cannot be materialised", hint="write the atoms of one length")
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
    """Stage: join a range of seeds, and write the codes of the head's attributes to files, one row per attribute."""

    folder: str
    program: ListProgram
    index: Index
    part: int

    def __call__(self, bounds: Range) -> tuple[str, ...]:
        search, query = self.program.bind(self.index), self.program.query
        places = [search.attributes.index(str(attribute)) for attribute in query.head]
        size = self.part if self.program.steps is None else min(self.part, BATCH_SIZE)
        found = (rows.prefixes[places] for rows in search.rows([bounds], size))
        distinct = (np.unique(tuples, axis=1) if query.projects else tuples for tuples in found)
        return tuple(save_new(tuples, self.folder, "tuples") for tuples in distinct)


def _entry(
    name: str, asked: Query, query: Query, tries: TrieWriter, chunks: tuple[TupleChunk, ...], statistics: Statistics
) -> RelationEntry:
    """Write a relation's tries, and return its entry in the manifest."""
    head = [str(attribute) for attribute in asked.head]
    columns = tuple(range(len(head)))
    of = statistics.domains_of(asked.positive)
    domains = tuple(of[attribute] for attribute in head)
    plain = _is_plain(asked)
    same = _symmetries(asked, statistics) if plain else [columns]
    wanted = list(_orders(len(head), plain=plain))
    served: dict[ColumnOrder, ColumnOrder] = {}
    """By column order: the one whose trie serves for it too."""
    for order in (order for order in wanted if order not in served):
        images = {tuple(image[c] for c in order) for image in same}
        served |= {image: order for image in images if image in wanted or len(image) <= MAX_COLUMNS_IN_EVERY_ORDER}
    stored = list(dict.fromkeys(served.values()))
    sizes = tuple(statistics.domains[domain] for domain in domains)
    written = dict(zip(stored, tries.write([TrieToWrite(name, order, sizes, chunks) for order in stored]), strict=True))
    (tuples,) = {count for _, count in written.values()}
    return RelationEntry(
        domains=domains,
        columns=tuple(head),
        tuples=tuples,
        symmetric=False,
        symmetries=tuple(image for image in same if image != columns),
        loops=1,
        orders={order: written[served[order]][0] for order in sorted(served)},
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
    """Give the column orders to store: one for each column that may come last and, if not plain, for each that may be first.

    Plans read the result of a plain query once all but one of its attributes are bound. The result of any other query may be
    the only relation that proposes an attribute, so plans need it from every column.
    """
    for last in reversed(range(width)):
        yield (*(c for c in range(width) if c != last), last)
    for first in () if plain else range(1, width):
        yield (first, *(c for c in range(width) if c != first))


def _is_plain(query: Query) -> bool:
    """Tell whether a query is connected atoms and nothing else, with all attributes in its head, so that plans can use it."""
    relations = all(not atom.negated and atom.view is None for atom in query.atoms)
    return (
        relations
        and len(components(atom.attributes for atom in query.atoms)) == 1
        and not (query.filters or query.injective or query.projects)
    )


def _symmetries(query: Query, statistics: Statistics) -> list[tuple[int, ...]]:
    """Return the permutations of the head's columns that leave a plain query unchanged."""
    head = [str(attribute) for attribute in query.head]
    if len(head) > MAX_SYMMETRIC_COLUMNS:
        return [tuple(range(len(head)))]
    symmetries = Symmetries(shape_of(query, statistics))
    return sorted(tuple(head.index(names[a]) for a in head) for names in symmetries.all.elements())


def check_definitions(index: Index) -> Index:
    """Return the index if its manifest, which gives each stored query as text and as atoms, says the same both times."""
    for name, entry in index.manifest.relations.items():
        if (said := entry.definition) is None:
            continue
        try:
            query = defined(said)
            asked = resolve_relations(query, index.statistics)
            same = _symmetries(asked, index.statistics) if _is_plain(asked) else []
        except (BigjoinError, TypeError, KeyError, ValueError):
            raise index.damaged(f"relations.{name}.definition is no query over its relations") from None
        images = {tuple(image) for image in same} - {tuple(range(len(entry.domains)))}
        if _definition(name, asked, query) != said or images != set(entry.symmetries) or said.head not in (None, entry.columns):
            raise index.damaged(f"relations.{name}.definition contradicts itself")
    return index


def definitions(index: Index) -> dict[str, Query]:
    """Return the queries whose results an index stores, by relation."""
    entries = index.manifest.relations.items()
    return {name: defined(entry.definition) for name, entry in entries if entry.definition is not None}
