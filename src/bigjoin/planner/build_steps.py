"""Turn the order into a seed and steps, each atom, filter and restriction at the earliest place that can decide it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from bigjoin.planner.column_orders import extender, in_order, whole
from bigjoin.planner.draft import Draft
from bigjoin.planner.shortcuts import MIN_LENGTH_SAVED, by_shortcuts
from bigjoin.query.plan import Extender, Plan, Restriction, Seed, Step
from bigjoin.query.query import Atom, QueryFilter

_Part = TypeVar("_Part", Atom, QueryFilter, Restriction)


def build_steps(draft: Draft) -> Draft:
    """Set the plan."""
    about = About.parts_of(draft)
    seed = seed_of(draft, about)
    bound, steps = seed.attributes, []
    for attribute in draft.order[len(bound) :]:
        steps.append(step_for(attribute, bound, draft, saved=0.0, about=about))
        bound = (*bound, attribute)
    return replace(draft, plan=Plan(draft.query, seed, tuple(steps)))


def seed_of(draft: Draft, about: About) -> Seed:
    """Return the seed: the widest atom whose attributes begin the order (or as wide as was chosen), the smallest among equals.

    An order that no atom begins (only a caller can ask for one) starts from the values of its first attribute.
    """
    beginning = [atom for atom in (*draft.positive, *(s.atom for s in draft.shortcuts)) if _begins(atom, draft)]
    read_as_ordered = [atom for atom in beginning if in_order(atom, draft.order, draft)]
    atom = draft.first or min(read_as_ordered or beginning, key=lambda atom: _size(atom, draft), default=None)
    first = whole(atom, draft) if atom is not None else _listing(draft.order[0], draft)
    bound = Seed(first).attributes
    covered = frozenset[Atom]().union(*(s.covers for s in draft.shortcuts if s.atom == first.atom))
    decided = [atom for atom in _decided(draft.atoms, bound) if not _says(first, atom) and atom not in covered]
    return Seed(
        first,
        restrictions=_decided(draft.restrictions, bound),
        checks=_distinct([*(whole(atom, draft) for atom in decided), *_projections(about, draft, frozenset(bound), bound)]),
        filters=_decided(draft.filters, bound),
    )


def _begins(atom: Atom, draft: Draft) -> bool:
    attributes = set(atom.attributes)
    return set(draft.order[: len(attributes)]) == attributes and draft.seed in (0, len(attributes))


def _size(atom: Atom, draft: Draft) -> tuple[int, int]:
    return -len(set(atom.attributes)), draft.statistics.of(atom).tuples


def _says(seed: Extender, atom: Atom) -> bool:
    """Tell whether the seed's tuples satisfy an atom by themselves: its own, and the pair where they are rows."""
    read = tuple(a for c, a in enumerate(seed.atom.attributes) if c in seed.columns)
    same = (atom.relation, atom.view, atom.version) == (seed.atom.relation, seed.atom.view, seed.atom.version)
    return same and not atom.negated and read[: len(atom.attributes)] == atom.attributes


@dataclass(frozen=True, slots=True)
class About:
    """By attribute: what a draft asks of it. Steps that look here need not look through everything."""

    atoms: dict[str, list[Atom]]
    restrictions: dict[str, list[Restriction]]
    filters: dict[str, list[QueryFilter]]
    projected: dict[str, list[Atom]]
    """The atoms that restrict an attribute before their others are bound."""

    @classmethod
    def parts_of(cls, draft: Draft) -> About:
        """Return where steps of a draft find its parts."""
        restrictions, filters = _by_attribute(draft.restrictions), _by_attribute(draft.filters)
        return cls(_by_attribute(draft.atoms), restrictions, filters, _by_attribute(_projected(draft)))


class UnreachableError(ValueError):
    """An order of attributes that the column orders of an index do not allow for."""


def step_for(
    attribute: str,
    bound: tuple[str, ...],
    draft: Draft,
    *,
    listing: bool = True,
    saved: float = MIN_LENGTH_SAVED,
    about: About | None = None,
) -> Step:
    """Return the step that extends bound attributes by another, with everything that this decides.

    An attribute that no atom leads to is listed, as the values that some atom has, unless its values come from elsewhere.
    """
    about = about or About.parts_of(draft)
    now = frozenset((*bound, attribute))
    extenders, excluders, checks, partial = [], [], [], []
    for atom in about.atoms.get(attribute, ()):
        if not now.issuperset(atom.attributes):
            found = None if atom.negated else extender(atom, attribute, bound, draft)
            partial += [found] if found is not None and found.key else []
            continue
        found = extender(atom, attribute, bound, draft)
        repeated = atom.attributes.count(attribute) > 1
        if repeated or found is None:
            checks.append(whole(atom, draft))
        if found is None:
            continue
        if atom.negated:
            excluders += [] if repeated else [found]
        elif found.key or len(atom.attributes) == 1:
            extenders.append(found)
    extenders = list(by_shortcuts(attribute, bound, [*extenders, *partial], draft, saved))
    projections = _projections(about, draft, now, (attribute,))
    if not extenders and not projections and listing:  # any atom of the attribute's component can list its values
        extenders.append(_listing(attribute, draft))
    return Step(
        attribute,
        _distinct([*extenders, *projections]),
        tuple(excluders),
        tuple(r for r in about.restrictions.get(attribute, ()) if now.issuperset(r.attributes)),
        tuple(checks),
        tuple(f.led_by(attribute) for f in about.filters.get(attribute, ()) if now.issuperset(f.attributes)),
    )


def _listing(attribute: str, draft: Draft) -> Extender:
    """Return an atom as the list of all the attribute's values there; only an order that a caller asks for may lack one."""
    mine = (atom for atom in draft.positive if attribute in atom.attributes)
    found = next((e for atom in mine if (e := extender(atom, attribute, (), draft))), None)
    if found is None:
        raise UnreachableError(
            f"the order {draft.order} binds {attribute!r} before the attributes that lead to it in the index"
        )
    return found


def _distinct(extenders: Iterable[Extender]) -> tuple[Extender, ...]:
    """Drop extenders that read the same list as one before them, as pays(a, b, _) does after pays(a, b)."""
    kept: dict[object, Extender] = {}
    for e in extenders:
        atom = e.atom
        kept.setdefault((atom.relation, atom.view, atom.version, atom.negated, e.columns, e.key, e.attribute), e)
    return tuple(kept.values())


def _projections(about: About, draft: Draft, bound: frozenset[str], new: Sequence[str]) -> list[Extender]:
    """Return the atoms of which only one attribute is bound, a new one, as lists of all its values there."""
    found = (
        extender(atom, attribute, (), draft)
        for attribute in new
        for atom in about.projected.get(attribute, ())
        if bound.intersection(atom.attributes) == {attribute} != set(atom.attributes)
    )
    return [e for e in found if e is not None]


def _projected(draft: Draft) -> list[Atom]:
    """Return the atoms that restrict each of their attributes, also while no other is bound.

    The paper's bound relies on them: a relation that joins later may be small. With a single relation it holds without them
    (a query's fractional edge cover is never smaller than that of the part its first attributes induce). Seeds are always
    small, so they restrict each of their attributes from the beginning.
    """
    stored = {(atom.relation, atom.view) for atom in draft.positive if not _is_given(atom, draft)}
    return [atom for atom in draft.positive if len(stored) > 1 or _is_given(atom, draft)]


def _is_given(atom: Atom, draft: Draft) -> bool:
    return draft.statistics.relation(atom).given


def _decided(parts: Sequence[_Part], bound: Sequence[str]) -> tuple[_Part, ...]:
    """Return the parts about some attributes and no others."""
    return tuple(p for p in parts if frozenset(bound).issuperset(p.attributes))


def _by_attribute(parts: Iterable[_Part]) -> dict[str, list[_Part]]:
    found: dict[str, list[_Part]] = {}
    for part in parts:
        for attribute in dict.fromkeys(part.attributes):
            found.setdefault(attribute, []).append(part)
    return found
