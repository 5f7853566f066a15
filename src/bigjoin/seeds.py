"""Seeds: a statement's queries are restricted to ids, and an index gets the relations that these become.

A dictionary restricts each attribute alone; a table restricts its attributes jointly, row by row (`seed_sets.py` reads both).
The planner turns the seeds of a query into atoms, and `overlaid` gives these atoms something to read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from bigjoin.errors import QueryError, did_you_mean, shown
from bigjoin.index.dictionary import NO_CODE, code_type
from bigjoin.index.given_ids import codes_of
from bigjoin.index.overlay import AskedIndex, Overlay
from bigjoin.index.trie import Codes
from bigjoin.planner.draft import Draft, Given
from bigjoin.query.expressions import Call, Predicate
from bigjoin.query.query import Query
from bigjoin.query.read import Read
from bigjoin.query.seeds import Seeds, SeedsLike
from bigjoin.query.statement import QueryBlock, Statement
from bigjoin.query.statistics import Statistics
from bigjoin.query.terms import Constant
from bigjoin.seed_sets import seed_sets, set_of

if TYPE_CHECKING:
    from bigjoin.spark.sources import Session


def seeded(statement: Statement, given: SeedsLike, spark: Session = None) -> Statement:
    """Return a statement whose queries are restricted to seeds; raise QueryError for attributes that they do not have."""
    seeds = seed_sets(given, spark)
    for one in seeds:
        _check_names(one, statement)
    return replace(statement, blocks=tuple(_restricted(block, seeds) for block in statement.blocks))


def _restricted(block: QueryBlock, seeds: tuple[Seeds, ...]) -> QueryBlock:
    """Return a block that is restricted to seeds, with subpatterns that are restricted to what they share with it."""
    subpatterns = []
    for sub in block.subpatterns:
        shared = tuple(_projected(one, sub.shared) for one in seeds if set(sub.shared) & set(one.attributes))
        subpatterns.append(replace(sub, block=_restricted(sub.block, shared)))
    query = replace(block.query, seeds=(*block.query.seeds, *seeds))
    return replace(block, query=query, subpatterns=tuple(subpatterns))


def _projected(seeds: Seeds, attributes: Sequence[str]) -> Seeds:
    """Return what seeds say of some of their attributes."""
    kept = [a for a in seeds.attributes if a in attributes]
    if len(kept) == len(seeds.attributes):
        return seeds
    return set_of({a: seeds.ids[a].combine_chunks() for a in kept}, is_text=seeds.is_text)


def overlaid(index: AskedIndex, part: Draft) -> AskedIndex:
    """Return an index with the relations that only a question has: those of its seeds, as codes of the index."""
    if not part.given:
        return index
    relations, described = {}, {}
    for given in part.given:
        described[given.relation] = relation = part.statistics.relations[given.relation]
        if given.rows_of is None:
            relations[given.relation] = _encoded(given.seeds, relation.domains, index)
        else:
            relations[given.relation] = _rows(given, given.rows_of, relation.domains, index)
    return Overlay(index, relations, described)


def _rows(given: Given, relation: str, domains: Sequence[str], index: AskedIndex) -> tuple[Codes, ...]:
    """Return the rows of a relation that seeds name, with their ends; all rows are looked at, once."""
    ids = given.seeds.ids[given.seeds.attributes[given.column]].combine_chunks()
    what = f"the seeds of {given.seeds.attributes[given.column]!r}"
    codes = codes_of(ids, index.dictionaries[domains[-1]], what, is_text=given.seeds.is_text)
    named = np.zeros(index.statistics.domains[domains[-1]], np.bool_)
    named[codes[codes != NO_CODE]] = True
    rows = index.extensions(Read(relation, width=len(domains)), tuple(range(len(domains))))
    return tuple(rows.tuples(np.flatnonzero(named[rows.values])))


def _encoded(seeds: Seeds, domains: Sequence[str], index: AskedIndex) -> tuple[Codes, ...]:
    """Return seeds as columns of codes, without tuples that have an id that the index lacks."""
    columns = []
    for attribute, domain in zip(seeds.attributes, domains, strict=True):
        ids, dictionary = seeds.ids[attribute].combine_chunks(), index.dictionaries[domain]
        columns.append(codes_of(ids, dictionary, f"the seeds of {attribute!r}", is_text=seeds.is_text))
    kept = np.all([codes != NO_CODE for codes in columns], axis=0)
    sizes = (index.statistics.domains[domain] for domain in domains)
    return tuple(codes[kept].astype(code_type(size)) for codes, size in zip(columns, sizes, strict=True))


def with_members_as_seeds(query: Query, statistics: Statistics) -> Query:
    """Return a query in which `a in (1, 2, 3)` about ids is a seed: plans then start from these ids, or look them up."""
    filters, seeds = [], list(query.seeds)
    for f in query.filters:
        found = _members(f, query, statistics) if isinstance(f, Predicate) else None
        if found is None:
            filters.append(f)
        else:
            seeds.append(found)
    return query if len(filters) == len(query.filters) else replace(query, filters=tuple(filters), seeds=tuple(seeds))


def _members(predicate: Predicate, query: Query, statistics: Statistics) -> Seeds | None:
    """Return the ids that a predicate lists, if it lists ids of an attribute; NULL is none of them."""
    match predicate.expression:
        case Call("in", (str(attribute), *others)) if attribute in query.attributes:
            ids = [other.value for other in others if isinstance(other, Constant) and other.value is not None]
            nulls = [other for other in others if isinstance(other, Constant) and other.value is None]
            wanted = _id_type(attribute, query, statistics)
            if wanted is None or len(ids) + len(nulls) < len(others) or any(type(value) is not wanted for value in ids):
                return None
            return set_of({attribute: pa.array(ids, pa.int64() if wanted is int else pa.string())}, is_text=False)
    return None


def _id_type(attribute: str, query: Query, statistics: Statistics) -> type | None:
    """Return the Python type of an attribute's ids, if they are integers or text and a plain atom says of which domain."""
    for atom in query.positive:
        relation = statistics.relations.get(atom.relation)
        if relation is None or atom.columns or attribute not in atom.attributes[: relation.arity]:
            continue
        arrow = statistics.ids.get(relation.domains[atom.attributes.index(attribute)], "")
        return int if re.fullmatch(r"u?int\d+", arrow) else str if arrow in ("string", "large_string") else None
    return None


def _check_names(seeds: Seeds, statement: Statement) -> None:
    """Refuse seeds of what is no attribute of the statement's queries, or may be NULL."""
    for block in statement.blocks:
        known = [a for a in block.query.attributes if not a.startswith("_")]
        for name in seeds.attributes:
            if name in known:
                continue
            optional = {a for sub in block.walk() for a in sub.query.bound} | block.query.bound
            if name in optional and not name.startswith("_"):
                raise QueryError(f"{name!r} may be NULL, or belongs to a further pattern, so there are no seeds for it")
            hint = did_you_mean(name, known) or f"its attributes are {', '.join(known)}"
            if seeds.is_text:
                hint += f"; the first line of a text names attributes, and a list of ids alone is {known[0]}=FILE"
            raise QueryError(f"there are seeds for {shown(name, 60)!r}, which the query does not have", hint=hint)
