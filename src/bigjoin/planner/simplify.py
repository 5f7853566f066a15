"""Give equal parts of a query one form, and drop what says nothing new."""

from __future__ import annotations

from dataclasses import replace

from bigjoin.planner.draft import Draft, Part
from bigjoin.query.operators import NOT_EQUAL
from bigjoin.query.query import Atom, Predicate, QueryFilter
from bigjoin.query.statistics import VERTEX


def simplify(draft: Draft) -> Draft:
    """Drop repeated atoms and filters, and filters that always hold.

    In a symmetric relation edge(b, a) is edge(a, b). Where the values of a match differ anyway, `a != b` always holds and
    `a <= b` is `a < b`; left as they are, they would look like an asymmetry and make `unique` count too much. Properties of
    different values may be equal, and a missing one equals nothing, so comparisons of properties stay as they are.
    """
    ranks = ranks_of(draft)
    atoms = tuple(dict.fromkeys(canonical_atom(atom, draft, ranks) for atom in _without_any_value(draft)))
    forms = {_canonical_filter(f, draft): f for f in reversed(draft.filters)}
    filters = [f if isinstance(f, Predicate) else form for form, f in reversed(forms.items())]  # predicates stay as written
    return replace(draft, atoms=atoms, filters=tuple(f for f in filters if not _always_holds(f, draft)))


def ranks_of(draft: Draft) -> dict[str, int]:
    """Return where the query of a draft has each attribute."""
    return {attribute: i for i, attribute in enumerate(draft.attributes)}


def canonical(part: Part, draft: Draft, rank: dict[str, int]) -> Part:
    """Return a part in the form that equal parts share, given the ranks of attributes."""
    return canonical_atom(part, draft, rank) if isinstance(part, Atom) else part.canonical()


def canonical_atom(atom: Atom, draft: Draft, rank: dict[str, int]) -> Atom:
    """Return the first of the atom's images under the symmetries of its relation."""
    relation = draft.statistics.relation(atom)
    if not relation.symmetric and not relation.symmetries:
        return atom
    attributes = atom.attributes
    if relation.symmetric:
        return replace(atom, attributes=(*sorted(attributes[:2], key=rank.__getitem__), *attributes[2:]))
    images = (tuple(attributes[c] for c in columns) for columns in relation.symmetries)
    return replace(atom, attributes=min((attributes, *images), key=lambda image: [rank[a] for a in image]))


def _canonical_filter(comparison: QueryFilter, draft: Draft) -> QueryFilter:
    if isinstance(comparison, Predicate):
        return comparison.canonical()
    form = comparison.canonical()
    differ = len(set(form.attributes)) == 2 and draft.query.injective and not (form.properties or form.also)
    return replace(form, op=form.operator.strict) if differ else form


def _always_holds(comparison: QueryFilter, draft: Draft) -> bool:
    if isinstance(comparison, Predicate) or comparison.properties:
        return False
    if comparison.left == comparison.right:
        return comparison.operator.reflexive
    both = isinstance(comparison.left, str) and isinstance(comparison.right, str)
    return both and comparison.op == NOT_EQUAL.text and draft.query.injective


def _without_any_value(draft: Draft) -> list[Atom]:
    """Return the atoms without those that only say that an attribute is a value of its domain, which others imply.

    A label that every vertex happens to have stays where it tells attributes apart: what `unique` counts is up to the query.
    """
    kept = list(draft.atoms)
    for atom in draft.atoms:
        relation = draft.statistics.relation(atom)
        is_whole = relation.arity == 1 and relation.tuples == draft.statistics.domains[relation.domains[0]]
        if atom.negated or atom.view is not None or not is_whole or relation.given:
            continue
        if draft.query.unique and atom.relation != VERTEX:
            continue
        others = (other for other in kept if other is not atom and not (other.negated or other.optional))
        if any(atom.attributes[0] in other.attributes for other in others):
            kept = [other for other in kept if other is not atom]
    return kept
