"""Add seeds to a query: each is one more atom, over a relation that only this question has.

So everything that knows atoms knows seeds: automorphisms keep them, the smallest relation comes first in the attribute order,
and every strategy reads them as it reads labels. Induced matches are spelled out before, as seeds are no tuples of the graph.

Ids of edges lead nowhere by themselves: an index finds the rows of two ends, not the ends of a row. So the rows that seeds name
are one more relation, with their ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import count, permutations
from math import prod

from bigjoin.errors import QueryError
from bigjoin.planner.draft import Draft, Given
from bigjoin.query.query import Atom
from bigjoin.query.seeds import Seeds, seeds_name
from bigjoin.query.statistics import ListStatistics, RelationStatistics

MAX_ORDERED_COLUMNS = 4
"""Columns up to which the lists of every column order are described; wider relations serve any order all the same."""


def add_seeds(draft: Draft) -> Draft:
    """Add an atom for each of the query's seeds; equal sets of tuples are one relation."""
    seeds = draft.query.seeds
    draft = replace(draft, query=replace(draft.query, seeds=())) if seeds else draft
    for one in seeds:
        domains = tuple(_domain(attribute, draft) for attribute in one.attributes)
        draft, atom = _with_atom(draft, Given("seeds", one), one.attributes, _relation(one, domains))
        draft = replace(draft, query=replace(draft.query, atoms=(*draft.query.atoms, atom)))
        for column, rows in _rows(draft, one.attributes):
            given = Given(f"seeded_{rows.relation}", one, rows.relation, column)
            draft, _ = _with_atom(draft, given, rows.attributes, _relation_of_rows(one, column, draft, rows))
    return draft


def _with_atom(draft: Draft, given: Given, attributes: tuple[str, ...], relation: RelationStatistics) -> tuple[Draft, Atom]:
    """Return a draft with an atom over a given relation, and the atom; its relation has a new name, unless it is known."""
    known = {_content(one, draft.statistics.relations[one.relation]): one.relation for one in draft.given}
    name = known.get(_content(given, relation)) or _fresh(given.relation, draft.statistics.relations)
    atom = Atom(name, attributes)
    draft = replace(draft, atoms=(*draft.atoms, atom))
    if name in draft.statistics.relations:
        return draft, atom
    relations = {**draft.statistics.relations, name: relation}
    statistics = replace(draft.statistics, relations=relations)
    return replace(draft, statistics=statistics, given=(*draft.given, replace(given, relation=name))), atom


def _content(given: Given, relation: RelationStatistics) -> tuple[object, ...]:
    """Return what two given relations have in common if they are one."""
    seeds = given.seeds
    digest = seeds.digest if given.rows_of is None else seeds.column_digests[given.column]
    return digest, seeds.is_text, relation.domains, given.rows_of


def _rows(draft: Draft, attributes: Collection[str]) -> Iterator[tuple[int, Atom]]:
    """Give the atoms whose edges have an id among some attributes, with its place there."""
    for column, attribute in enumerate(attributes):
        for atom in draft.query.positive:
            if atom.attributes[draft.statistics.relation(atom).arity :] == (attribute,):
                yield column, atom


def _relation(seeds: Seeds, domains: tuple[str, ...]) -> RelationStatistics:
    """Return what is known of seeds as a relation: ids that a domain lacks are still counted."""
    exchanges = tuple(p for p in seeds.symmetries if tuple(domains[c] for c in p) == domains)
    return _described(domains, seeds.tuples, seeds.keys, exchanges)


def _relation_of_rows(seeds: Seeds, column: int, draft: Draft, rows: Atom) -> RelationStatistics:
    """Return what is known of the rows that seeds name: each has two ends, in both directions if the relation is symmetric."""
    whole = draft.statistics.of(rows)
    many = seeds.keys[column] * (2 if whole.symmetric else 1)
    exchanges = ((1, 0, *range(2, whole.arity)),) if whole.symmetric else ()
    return _described(whole.domains, many, (many,) * (whole.arity - 1) + (seeds.keys[column],), exchanges)


def _described(
    domains: tuple[str, ...], tuples: int, keys: tuple[int, ...], symmetries: tuple[tuple[int, ...], ...]
) -> RelationStatistics:
    return RelationStatistics(domains, tuples, loops=1, lists=_lists(tuples, keys), symmetries=symmetries, given=True)


def _lists(tuples: int, keys: tuple[int, ...]) -> dict[tuple[int, ...], ListStatistics]:
    """Estimate the lists of every column order, and of every projection, from the number of ids in each column."""

    def distinct(columns: Collection[int]) -> int:
        return tuples if len(columns) == len(keys) else min(tuples, prod(keys[c] for c in columns))

    found = {}
    for length in range(1, len(keys) + 1) if len(keys) <= MAX_ORDERED_COLUMNS else ():
        for columns in permutations(range(len(keys)), length):
            prefixes, all_tuples = max(1, distinct(columns[:-1])), distinct(columns)
            mean = all_tuples / prefixes
            found[columns] = ListStatistics(prefixes, mean, mean, min(all_tuples, keys[columns[-1]]))
    return found


def _domain(attribute: str, draft: Draft) -> str:
    if attribute not in draft.attributes:
        hint = "restrict the ends of the edge, or build the index with --parallel (parallel=True), which keeps ids of edges"
        raise QueryError(f"{attribute!r} has no ids in this source, so there are no seeds for it", hint=hint)
    return draft.domain(attribute)


def _fresh(name: str, relations: Iterable[str]) -> str:
    """Return a name, or with a number behind it, that no relation has."""
    return next(new for number in count(1) if (new := seeds_name(number, name)) not in relations)
