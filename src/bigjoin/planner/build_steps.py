"""Turn the order into a seed and steps, each atom, filter and restriction at the earliest place that can decide it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from bigjoin.planner.column_orders import extender, in_order, whole
from bigjoin.planner.draft import Draft
from bigjoin.planner.shortcuts import MIN_LENGTH_SAVED, by_shortcuts
from bigjoin.query.plan import Extender, Plan, Restriction, Seed, Step
from bigjoin.query.query import Atom, Comparison

_Part = TypeVar("_Part", Atom, Comparison, Restriction)


def build_steps(draft: Draft) -> Draft:
    """Set the plan."""
    seed = seed_of(draft)
    bound = seed.attributes
    steps = []
    for attribute in draft.order[len(bound) :]:
        steps.append(step_for(attribute, bound, draft, saved=0.0))
        bound = (*bound, attribute)
    return replace(draft, plan=Plan(draft.query, seed, tuple(steps)))


def seed_of(draft: Draft) -> Seed:
    """Return the seed: the widest atom whose attributes begin the order (or as wide as was chosen), the smallest among equals.

    An order that no atom begins (only a caller can ask for one) starts from the values of its first attribute.
    """
    beginning = [atom for atom in (*draft.positive, *(s.atom for s in draft.shortcuts)) if _begins(atom, draft)]
    read_as_ordered = [atom for atom in beginning if in_order(atom, draft.order, draft)]
    atom = draft.first or min(read_as_ordered or beginning, key=lambda atom: _size(atom, draft), default=None)
    first = whole(atom, draft) if atom is not None else _listing(draft.order[0], draft)
    bound = Seed(first).attributes
    covered = frozenset[Atom]().union(*(s.covers for s in draft.shortcuts if s.atom == first.atom))
    decided = [atom for atom in _decided(draft.atoms, bound, bound) if not _says(first, atom) and atom not in covered]
    return Seed(
        first,
        restrictions=_decided(draft.restrictions, bound, bound),
        checks=_distinct([*(whole(atom, draft) for atom in decided), *_projections(draft, bound, bound)]),
        filters=_decided(draft.filters, bound, bound),
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


def step_for(
    attribute: str, bound: tuple[str, ...], draft: Draft, *, listing: bool = True, saved: float = MIN_LENGTH_SAVED
) -> Step:
    """Return the step that extends bound attributes by another, with everything that this decides.

    An attribute that no atom leads to is listed, as the values that some atom has, unless its values come from elsewhere.
    """
    now, new = (*bound, attribute), (attribute,)
    extenders, excluders, checks = [], [], []
    for atom in _decided(draft.atoms, now, new):
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
    for atom in draft.positive:
        if attribute in atom.attributes and not set(atom.attributes) <= set(now):
            partial = extender(atom, attribute, bound, draft)
            extenders += [partial] if partial is not None and partial.key else []
    extenders = list(by_shortcuts(attribute, bound, extenders, draft, saved))
    if not extenders and listing:  # a cross product: any atom of the attribute's component can list its values
        extenders.append(_listing(attribute, draft))
    return Step(
        attribute,
        _distinct([*extenders, *_projections(draft, now, new)]),
        tuple(excluders),
        _decided(draft.restrictions, now, new),
        tuple(checks),
        tuple(f.led_by(attribute) for f in _decided(draft.filters, now, new)),
    )


def _listing(attribute: str, draft: Draft) -> Extender:
    """Return an atom as the list of all the attribute's values there; only an order that a caller asks for may lack one."""
    mine = (atom for atom in draft.positive if attribute in atom.attributes)
    found = next((e for atom in mine if (e := extender(atom, attribute, (), draft))), None)
    if found is None:
        raise ValueError(f"the order {draft.order} binds {attribute!r} before the attributes that lead to it in the index")
    return found


def _distinct(extenders: Iterable[Extender]) -> tuple[Extender, ...]:
    """Drop extenders that read the same list as one before them, as pays(a, b, _) does after pays(a, b)."""
    kept: dict[object, Extender] = {}
    for e in extenders:
        atom = e.atom
        kept.setdefault((atom.relation, atom.view, atom.version, atom.negated, e.columns, e.key, e.attribute), e)
    return tuple(kept.values())


def _projections(draft: Draft, bound: Sequence[str], new: Sequence[str]) -> list[Extender]:
    """Return the atoms of which only one attribute is bound, a new one, as lists of all its values there.

    The paper's bound relies on them: a relation that joins later may be small. With a single relation it holds without them
    (a query's fractional edge cover is never smaller than that of the part its first attributes induce).
    """
    if len({(atom.relation, atom.view) for atom in draft.positive}) == 1:
        return []
    found = (
        extender(atom, attribute, (), draft)
        for attribute in new
        for atom in draft.positive
        if set(atom.attributes) & set(bound) == {attribute} and set(atom.attributes) != {attribute}
    )
    return [e for e in found if e is not None]


def _decided(parts: Sequence[_Part], bound: Sequence[str], new: Sequence[str]) -> tuple[_Part, ...]:
    """Return the parts whose attributes are all bound now and were not before."""
    return tuple(p for p in parts if set(p.attributes) <= set(bound) and set(p.attributes) & set(new))
