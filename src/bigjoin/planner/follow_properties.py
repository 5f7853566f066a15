"""Follow properties of vertices that updates replace: they destroy matches and create them, as changes of relations do.

For what a match reads of a vertex, replaced properties are a deletion and an insertion. So an attribute whose properties matter
gets a negated atom over the vertices of which an epoch replaces any (`ReplacedView`). Before and after an epoch nothing is
among these, and half way through it they are. The delta query of that atom finds the matches that the replacement destroys
and creates, and by the versions that all other atoms read, each of them once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from bigjoin.planner.draft import Draft
from bigjoin.query.expressions import terms_of
from bigjoin.query.query import Atom, Comparison, QueryFilter
from bigjoin.query.read import THIS, ReplacedView
from bigjoin.query.statistics import VERTEX
from bigjoin.query.terms import Property, Term


def follow_properties(draft: Draft, *, listing: bool = False) -> Draft:
    """Add an atom for each attribute whose properties the query reads; those in its head matter if matches are listed."""
    return replace(draft, atoms=(*draft.atoms, *_atoms(draft, listing=listing)))


def follow_counted_properties(draft: Draft) -> Draft:
    """Do the same where matches are only counted."""
    return follow_properties(draft)


def reads_properties(draft: Draft, names: Iterable[str], *, listing: bool) -> bool:
    """Tell whether a query reads any of some properties of vertices."""
    wanted = set(names)
    read = {
        term.name for a in _followed(draft) for term in (*_properties_of(draft, a), *(_in_head(draft, a) if listing else ()))
    }
    return not wanted.isdisjoint(read)


def _atoms(draft: Draft, *, listing: bool) -> list[Atom]:
    views = {a: _view(draft, a, listing=listing) for a in _followed(draft)}
    if draft.query.unique:  # symmetries must not be lost: what is shown of one attribute is followed for all
        shown = tuple(sorted({name for view in views.values() for name in view.shown}))
        views = {a: replace(view, shown=shown) for a, view in views.items()}
    return [Atom(VERTEX, (a,), negated=True, view=view) for a, view in views.items() if view.conditions or view.shown]


def _followed(draft: Draft) -> list[str]:
    """Return the attributes that range over vertices with properties."""
    return [a for a in draft.attributes if draft.domain(a) == VERTEX and draft.statistics.properties.get(VERTEX)]


def _view(draft: Draft, attribute: str, *, listing: bool) -> ReplacedView:
    conditions, shown = [], {term.name for term in (_in_head(draft, attribute) if listing else ())}
    for each in draft.filters:
        mine = _mine(draft, _terms(each), attribute)
        if mine and set(each.attributes) == {attribute}:
            conditions.append(each.renamed({attribute: THIS}))
        elif mine:
            shown |= {term.name for term in mine}
    return ReplacedView(("kept",), tuple(sorted(conditions, key=str)), tuple(sorted(shown)), draft.query.dialect)


def _properties_of(draft: Draft, attribute: str) -> list[Property]:
    """Return the properties of an attribute that conditions read."""
    return [term for each in draft.filters for term in _mine(draft, _terms(each), attribute)]


def _in_head(draft: Draft, attribute: str) -> list[Property]:
    return [term for each in draft.query.head for term in _mine(draft, terms_of(each), attribute)]


def _terms(condition: QueryFilter) -> Sequence[Term]:
    return condition.properties if isinstance(condition, Comparison) else terms_of(condition.expression)


def _mine(draft: Draft, terms: Iterable[Term], attribute: str) -> list[Property]:
    """Return the terms that are properties of an attribute, and not its id."""
    properties = (term for term in terms if isinstance(term, Property))
    return [term for term in properties if term.attribute == attribute and not draft.statistics.is_id(VERTEX, term.name)]
