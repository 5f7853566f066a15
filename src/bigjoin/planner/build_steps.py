"""Turn the order into a seed and steps, each atom, filter and restriction at the earliest place that can decide it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from bigjoin.planner.draft import Draft
from bigjoin.query.plan import Extender, Plan, Restriction, Seed, Step
from bigjoin.query.query import Atom, Comparison

_Part = TypeVar("_Part", Atom, Comparison)


def build_steps(draft: Draft) -> Draft:
    """Set the plan."""
    seed = _seed(draft)
    bound = seed.attributes
    steps = []
    for attribute in draft.order[len(bound) :]:
        steps.append(_step(attribute, bound, draft))
        bound = (*bound, attribute)
    return replace(draft, plan=Plan(draft.query, seed, tuple(steps)))


def _seed(draft: Draft) -> Seed:
    """Seed from the widest atom whose attributes begin the order, the smallest relation among equals.

    An order that no atom begins (only a caller can ask for one) starts from the values of its first attribute.
    """
    extender = min((_whole(atom, draft) for atom in draft.positive if _begins(atom, draft)), key=_size(draft), default=None)
    if extender is None:
        atom = next(atom for atom in draft.positive if draft.order[0] in atom.attributes)
        extender = _extender(atom, draft.order[0], ())
    seed = Seed(extender)
    bound = seed.attributes
    decided = [atom for atom in _decided(draft.atoms, bound, bound) if _whole(atom, draft) != extender]
    return replace(
        seed,
        restrictions=_restrictions(draft, bound, bound),
        checks=tuple(_whole(atom, draft) for atom in decided) + _projections(draft, bound, bound),
        filters=_decided(draft.filters, bound, bound),
    )


def _begins(atom: Atom, draft: Draft) -> bool:
    attributes = set(atom.attributes)
    return set(draft.order[: len(attributes)]) == attributes


def _size(draft: Draft) -> Callable[[Extender], tuple[int, int]]:
    return lambda e: (-len(set(e.atom.attributes)), draft.statistics.relations[e.atom.relation].tuples)


def _whole(atom: Atom, draft: Draft) -> Extender:
    """Return the atom with all its columns, in the attribute order."""
    return Extender(atom, tuple(sorted(range(len(atom.attributes)), key=lambda c: draft.order.index(atom.attributes[c]))))


def _step(attribute: str, bound: tuple[str, ...], draft: Draft) -> Step:
    now = (*bound, attribute)
    extenders, excluders, checks = [], [], []
    for atom in _decided(draft.atoms, now, (attribute,)):
        extender = _extender(atom, attribute, bound)
        repeated = atom.attributes.count(attribute) > 1
        if repeated:
            checks.append(_whole(atom, draft))
        if atom.negated:
            excluders += [] if repeated else [extender]
        elif extender.key or len(atom.attributes) == 1:
            extenders.append(extender)
    for atom in draft.positive:
        partial = attribute in atom.attributes and not set(atom.attributes) <= set(now)
        if partial and (extender := _extender(atom, attribute, bound)).key:
            extenders.append(extender)
    projections = _projections(draft, now, (attribute,))
    if not extenders:  # a cross product: any atom of the attribute's component can list its values
        atom = next(atom for atom in draft.positive if attribute in atom.attributes)
        extenders.append(_extender(atom, attribute, ()))
    extenders += [p for p in projections if p not in extenders]
    return Step(
        attribute,
        tuple(extenders),
        tuple(excluders),
        _restrictions(draft, now, (attribute,)),
        tuple(checks),
        tuple(f if f.left == attribute else f.flipped() for f in _decided(draft.filters, now, (attribute,))),
    )


def _extender(atom: Atom, attribute: str, bound: Sequence[str]) -> Extender:
    keys = tuple(c for c, a in enumerate(atom.attributes) if a in bound)
    return Extender(atom, (*keys, atom.attributes.index(attribute)))


def _projections(draft: Draft, bound: Sequence[str], new: Sequence[str]) -> tuple[Extender, ...]:
    """Return the atoms that know a new attribute but nothing else yet, as lists of all its values there.

    The paper's bound counts on them: a relation that joins later may be small. With a single relation it holds without
    (a query's fractional edge cover is never smaller than that of the part its first attributes induce).
    """
    if len({atom.relation for atom in draft.positive}) == 1:
        return ()
    return tuple(
        Extender(atom, (atom.attributes.index(attribute),))
        for attribute in new
        for atom in draft.positive
        if set(atom.attributes) & set(bound) == {attribute} and set(atom.attributes) != {attribute}
    )


def _decided(parts: Sequence[_Part], bound: Sequence[str], new: Sequence[str]) -> tuple[_Part, ...]:
    """Return the parts whose attributes are all bound now and were not before."""
    return tuple(p for p in parts if set(p.attributes) <= set(bound) and set(p.attributes) & set(new))


def _restrictions(draft: Draft, bound: Sequence[str], new: Sequence[str]) -> tuple[Restriction, ...]:
    return tuple(r for r in draft.restrictions if {r.smaller, r.larger} <= set(bound) and {r.smaller, r.larger} & set(new))
