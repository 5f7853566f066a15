"""Query -> DeltaPlan: a plan for each atom whose relation changes, which begins with that atom's tuples in the delta.

To list matches, updates are told apart wherever that lets symmetric atoms share a plan. To count them, only if matches are
injective: otherwise two atoms may be the same tuple, which only a look at each match would tell.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import islice

from bigjoin.planner.break_symmetry import restricted
from bigjoin.planner.draft import Draft, Seeding
from bigjoin.planner.isomorphism import Shape, renaming, renamings
from bigjoin.planner.order_attributes import order_attributes
from bigjoin.planner.read_versions import implies, read_versions
from bigjoin.planner.sum_nests import plan_counts
from bigjoin.query.delta import DeltaPlan, DeltaQuery, Image
from bigjoin.query.nest import CountPlan
from bigjoin.query.plan import Plan
from bigjoin.query.query import Atom
from bigjoin.query.read import Version

MAX_AUTOMORPHISMS = 1000
"""Automorphisms up to which symmetric atoms of a `unique` query share a plan: each match is brought into one of their forms."""


def plan_delta(draft: Draft, finish: Callable[[Draft], Draft], changing: Collection[str], *, listing: bool) -> DeltaPlan:
    """Return the delta queries of a draft for relations that change; `finish` turns a seeded draft into one with a plan."""
    whole = replace(draft, restrictions=(), order=(), seed=0)
    atoms = [a for a in draft.atoms if a.relation in changing and not any(implies(other, a) for other in draft.atoms)]
    orbits, automorphisms = _shared(whole, atoms, listing=listing)
    by_updates = len(orbits) < len(atoms)
    seeds = tuple(atom for orbit in orbits for atom in orbit)
    drafts = []
    for orbit in orbits:
        seeded = replace(_seeded(whole, orbit[0]), seeding=Seeding(seeds, orbit[0], by_updates))
        drafts.append(order_attributes(seeded if by_updates else replace(seeded, restrictions=draft.restrictions)))
    counts = [None] * len(orbits) if listing else _counts(whole, drafts, by_updates=by_updates)
    queries = []
    for orbit, seeded, counted in zip(orbits, drafts, counts, strict=True):
        chosen = finish(seeded).plan
        assert isinstance(chosen, Plan)
        renamed = orbit if by_updates and not draft.query.unique else ()
        images = tuple(_image(whole, orbit[0], member, seeds) for member in renamed)
        queries.append(DeltaQuery(orbit[0], chosen, -1 if orbit[0].negated else 1, images, counted))
    return DeltaPlan(
        draft.query,
        tuple(queries),
        by_updates=by_updates,
        consolidates=any(atom.negated for atom in draft.atoms),
        automorphisms=tuple(tuple(names.items()) for names in automorphisms) if by_updates else (),
        restrictions=draft.restrictions if by_updates else (),
    )


def _shared(draft: Draft, atoms: Sequence[Atom], *, listing: bool) -> tuple[list[list[Atom]], list[dict[str, str]]]:
    """Return the atoms in groups that share a delta query, and the automorphisms that bring a `unique` match into one form."""
    automorphisms: list[dict[str, str]] = []
    if draft.query.unique and listing:
        automorphisms = list(islice(renamings(Shape(draft), Shape(draft)), MAX_AUTOMORPHISMS + 1))
    alone = any(atom.negated for atom in draft.atoms) or not (listing or draft.query.injective)
    if alone or len(automorphisms) > MAX_AUTOMORPHISMS:
        return [[atom] for atom in atoms], []
    return _orbits(draft, atoms), automorphisms


def _seeded(draft: Draft, atom: Atom) -> Draft:
    """Return a draft that is seeded with an atom's tuples in the delta. No other atom reads these: symmetries keep the seed."""
    first = replace(atom, version=Version.DELTA, negated=False)
    kept = tuple(first if other == atom and not atom.negated else other for other in draft.atoms)
    return replace(draft, atoms=(*kept, first) if atom.negated else kept, first=first)


def _counts(whole: Draft, seeded: Sequence[Draft], *, by_updates: bool) -> list[CountPlan | None]:
    """Return how seeded drafts are counted: by updates each by itself, by atoms all with the same restrictions."""
    if by_updates:
        each = ((([read_versions(option)], divisor) for option, divisor in restricted(draft)) for draft in seeded)
        return [plan_counts(options)[0] for options in each]
    options = (
        ([read_versions(replace(draft, restrictions=option.restrictions)) for draft in seeded], divisor)
        for option, divisor in restricted(whole)
    )
    return [*plan_counts(options)]


def _orbits(draft: Draft, atoms: Sequence[Atom]) -> list[list[Atom]]:
    """Return the atoms in groups that symmetries of the query map to each other."""
    orbits: list[tuple[Shape, list[Atom]]] = []
    for atom in atoms:
        mine = Shape(_seeded(draft, atom))
        alike = (orbit for shape, orbit in orbits if orbit[0].source == atom.source and renaming(shape, mine) is not None)
        if (orbit := next(alike, None)) is None:
            orbits.append((mine, [atom]))
        else:
            orbit.append(atom)
    return [orbit for _, orbit in orbits]


def _image(draft: Draft, atom: Atom, member: Atom, seeds: Sequence[Atom]) -> Image:
    names = renaming(Shape(_seeded(draft, atom)), Shape(_seeded(draft, member)))
    assert names is not None
    earlier = () if draft.query.injective else tuple(a for a in seeds[: seeds.index(member)] if a.source == member.source)
    return Image(member, tuple(names.items()), earlier, draft.statistics.of(member).symmetric)
