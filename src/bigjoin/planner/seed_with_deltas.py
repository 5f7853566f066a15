"""Query -> DeltaPlan: a plan for each atom whose relation changes, which begins with that atom's tuples in the delta.

To list matches, updates are told apart wherever that lets symmetric atoms share a plan. To count them, only if matches are
injective: otherwise two atoms may be the same tuple, which only a look at each match would tell.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from bigjoin.errors import QueryError
from bigjoin.planner.break_symmetry import restricted
from bigjoin.planner.draft import Draft, Seeding
from bigjoin.planner.estimate import SizeEstimate
from bigjoin.planner.isomorphism import Shape
from bigjoin.planner.order_attributes import in_cheapest_order
from bigjoin.planner.pairing import Renaming
from bigjoin.planner.read_versions import implies, read_versions
from bigjoin.planner.sum_nests import plan_counts
from bigjoin.planner.symmetries import Group, Symmetries, images_of
from bigjoin.query.delta import DeltaPlan, DeltaQuery, Image
from bigjoin.query.nest import CountPlan
from bigjoin.query.plan import Plan
from bigjoin.query.query import Atom
from bigjoin.query.read import ReplacedView, Version

MAX_DELTA_QUERIES = 256
"""Delta queries of a query: each of them is planned, and runs in every epoch."""

MAX_AUTOMORPHISMS = 1000
"""Automorphisms up to which symmetric atoms of a `unique` query share a plan: each match is brought into one of their forms."""

AtomOrbit = dict[Atom, Renaming]
"""Atoms that share a delta query, each with a renaming that maps the first of them to it."""


def plan_delta(draft: Draft, finish: Callable[[Draft], Draft], changing: Collection[str], *, listing: bool) -> DeltaPlan:
    """Return the delta queries of a draft for relations that change; `finish` turns a seeded draft into one with a plan."""
    whole = replace(draft, restrictions=(), order=(), seed=0)
    follows = (a for a in draft.atoms if a.relation in changing or isinstance(a.view, ReplacedView))
    atoms = [a for a in follows if not any(implies(other, a) for other in draft.atoms)]
    orbits, automorphisms = _shared(whole, atoms, listing=listing)
    by_updates = len(orbits) < len(atoms)
    if len(orbits) > MAX_DELTA_QUERIES:
        message = f"watching this query takes {len(orbits):,} delta queries, one for each way in which an update matters to it"
        raise QueryError(f"{message}; at most {MAX_DELTA_QUERIES} are planned", hint="watch parts of it that have fewer atoms")
    seeds = tuple(atom for orbit in orbits for atom in orbit)
    drafts, estimate = [], SizeEstimate(whole)
    for first in map(next, map(iter, orbits)):
        seeded = replace(_seeded(whole, first), seeding=Seeding(seeds, first, by_updates))
        seeded = seeded if by_updates else replace(seeded, restrictions=draft.restrictions)
        mine = SizeEstimate(replace(seeded, restrictions=())) if first.negated else estimate  # versions do not change sizes
        drafts.append(in_cheapest_order(seeded, mine, len(orbits)))
    counts = [None] * len(orbits) if listing else _counts(whole, drafts, by_updates=by_updates)
    queries = []
    for orbit, seeded, counted in zip(orbits, drafts, counts, strict=True):
        chosen, first = finish(seeded).plan, next(iter(orbit))
        assert isinstance(chosen, Plan)
        renamed = orbit.items() if by_updates and not draft.query.unique else ()
        images = tuple(_image(whole, member, names, seeds) for member, names in renamed)
        queries.append(DeltaQuery(first, chosen, images, counted))
    return DeltaPlan(
        draft.query,
        tuple(queries),
        by_updates=by_updates,
        automorphisms=tuple(tuple(names.items()) for names in automorphisms) if by_updates else (),
        restrictions=draft.restrictions if by_updates else (),
    )


def _shared(draft: Draft, atoms: Sequence[Atom], *, listing: bool) -> tuple[list[AtomOrbit], list[Renaming]]:
    """Return the atoms in groups that share a delta query, and the automorphisms that bring a `unique` match into one form."""
    alone = [{atom: dict[str, str]()} for atom in atoms]
    if any(atom.negated for atom in draft.atoms) or not (listing or draft.query.injective):
        return alone, []
    shape = Shape(draft)
    group = Symmetries(shape).all
    if not (draft.query.unique and listing):
        return _orbits(shape, group, atoms), []
    return (_orbits(shape, group, atoms), [*group.elements()]) if group.order <= MAX_AUTOMORPHISMS else (alone, [])


def _seeded(draft: Draft, atom: Atom) -> Draft:
    """Return a draft that is seeded with an atom's tuples in the delta. No other atom reads these: symmetries keep the seed."""
    first = replace(atom, version=Version.NOT_DELTA if atom.negated else Version.DELTA, negated=False)
    kept = tuple(first if other == atom and not atom.negated else other for other in draft.atoms)
    return replace(draft, atoms=(*kept, first) if atom.negated else kept, first=first)


def _counts(whole: Draft, seeded: Sequence[Draft], *, by_updates: bool) -> list[CountPlan | None]:
    """Return how seeded drafts are counted: by updates each by itself, by atoms all with the same restrictions."""
    if by_updates:
        each = ((([read_versions(option)], divisor) for option, divisor in restricted(draft)) for draft in seeded)
        return [plan_counts(options, len(seeded))[0] for options in each]
    options = (
        ([read_versions(replace(draft, restrictions=option.restrictions)) for draft in seeded], divisor)
        for option, divisor in restricted(whole)
    )
    return [*plan_counts(options, len(seeded))]


def _orbits(shape: Shape, group: Group, atoms: Sequence[Atom]) -> list[AtomOrbit]:
    """Return the atoms in groups that symmetries of the query map to each other."""
    identity = {a: a for a in shape.attributes}
    left = {shape.said(atom, identity): atom for atom in atoms}
    orbits = []
    while left:
        found = images_of(
            next(iter(left)), group.generators, lambda names, said: shape.said(shape.all[said], names), shape.attributes
        )
        orbits.append({left.pop(said): found[said] for said in [*left] if said in found})
    return orbits


def _image(draft: Draft, member: Atom, names: Renaming, seeds: Sequence[Atom]) -> Image:
    earlier = () if draft.query.injective else tuple(a for a in seeds[: seeds.index(member)] if a.source == member.source)
    return Image(member, tuple(names.items()), earlier, draft.statistics.of(member).symmetric)
