"""Query -> DeltaPlan: a plan for each atom whose relation changes, which begins with that atom's tuples in the delta."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from bigjoin.errors import QueryError
from bigjoin.planner.break_symmetry import break_symmetry, restricted
from bigjoin.planner.build_steps import build_steps
from bigjoin.planner.draft import Draft
from bigjoin.planner.drop_implied import drop_implied
from bigjoin.planner.isomorphism import Shape, renaming, renamings
from bigjoin.planner.keep_distinct import keep_distinct
from bigjoin.planner.order_attributes import order_attributes
from bigjoin.planner.plan_count import plan_counts
from bigjoin.query.delta import DeltaPlan, DeltaQuery, Image
from bigjoin.query.nest import CountPlan
from bigjoin.query.plan import Plan, Restriction
from bigjoin.query.query import Atom, Query
from bigjoin.query.read import Version
from bigjoin.query.statistics import Statistics, assumed_graph

MANY = 1000
"""Forms that symmetries may give a match for it to be worth to share delta queries: one of them is looked for."""
FEW = 1000
"""Tuples of a relation below which its statistics say little about what it will be."""


def plan_delta(draft: Draft, changing: Collection[str], *, listing: bool) -> DeltaPlan:
    """Return the delta queries of a draft, of which the meaning is settled, for relations that change.

    To list matches, the updates are told apart wherever that lets symmetric atoms share a plan. To count them, only if
    matches are injective: else two atoms may be the same tuple, which only a look at each match would tell.
    """
    draft = replace(draft, statistics=_foreseen(draft.statistics), shortcuts=())
    seeded = [atom for atom in draft.atoms if atom.relation in changing and not _is_implied(atom, draft)]
    negated = any(atom.negated for atom in draft.atoms)
    if not negated and (listing or draft.query.injective):
        orbits = _orbits(draft, seeded)
        forms = list(islice(_symmetries(draft), MANY + 1)) if draft.query.unique and listing else []
        if len(orbits) < len(seeded) and len(forms) <= MANY:
            return _by_updates(draft, orbits, forms, listing=listing)
    return _by_atoms(draft, seeded, listing=listing)


def _by_atoms(draft: Draft, seeded: Sequence[Atom], *, listing: bool) -> DeltaPlan:
    """Return one query for each atom: those before it read the new version, those after it the old one."""
    drafts = []
    for at, atom in enumerate(seeded):
        others = []
        for other in draft.atoms:
            if other in seeded[:at]:
                others.append(_at(other, Version.NEW))
            elif other in seeded[at + 1 :]:
                others.append(_at(other, Version.OLD))
            elif other is not atom and not _implies(atom, other):
                others.append(_at(other, Version.EITHER))
        drafts.append(_seeded(draft, atom, others))
    nests: Sequence[CountPlan | None] = [None] * len(seeded) if listing else _nests(drafts, draft)
    restrictions = break_symmetry(order_attributes(draft)).restrictions
    queries = tuple(
        DeltaQuery(atom, _plan(drafted, restrictions), sign=-1 if atom.negated else 1, nests=counted)
        for atom, drafted, counted in zip(seeded, drafts, nests, strict=True)
    )
    return DeltaPlan(draft.query, queries, consolidates=any(atom.negated for atom in draft.atoms))


def _symmetries(draft: Draft) -> Iterator[dict[str, str]]:
    shape = Shape(draft)
    return renamings(shape, shape)


def _by_updates(draft: Draft, orbits: Sequence[Sequence[Atom]], forms: Sequence[dict[str, str]], *, listing: bool) -> DeltaPlan:
    """Return one query for each orbit of atoms: all others read either version, without what comes after the seed's tuple."""
    seeded = [atom for orbit in orbits for atom in orbit]
    relations = list(dict.fromkeys(atom.source for atom in seeded))
    queries = []
    for orbit in orbits:
        atom = orbit[0]
        others, mine = [], relations.index(atom.source)
        for other in draft.atoms:
            if other is atom or _implies(atom, other):
                continue
            others.append(_at(other, Version.EITHER))
            if other in seeded and relations.index(other.source) >= mine:
                version = Version.LATER if other.source == atom.source else Version.DELTA
                others.append(_at(replace(other, negated=True), version))
        drafted, marked = _seeded(draft, atom, others), _marked(draft, atom)
        restrictions = break_symmetry(replace(marked, order=drafted.order)).restrictions
        nests = None if listing else _nests([drafted], marked)[0]
        images = () if draft.query.unique else tuple(_image(draft, orbit, member, seeded) for member in orbit)
        queries.append(DeltaQuery(atom, _plan(drafted, restrictions), images=images, nests=nests))
    if not draft.query.unique:
        return DeltaPlan(draft.query, tuple(queries), by_updates=True)
    every = tuple(tuple(names.items()) for names in forms)
    wanted = break_symmetry(order_attributes(draft)).restrictions
    return DeltaPlan(draft.query, tuple(queries), by_updates=True, automorphisms=every, restrictions=wanted)


def _seeded(draft: Draft, atom: Atom, others: Sequence[Atom]) -> Draft:
    """Return the draft that is seeded with an atom's tuples in the delta, given the others with their versions."""
    first = replace(atom, version=Version.DELTA, negated=False)
    return replace(draft, atoms=(first, *others), order=_order(draft, atom), first=first)


def _plan(drafted: Draft, restrictions: Sequence[Restriction]) -> Plan:
    """Return the plan of a seeded draft."""
    drafted = replace(drafted, restrictions=tuple(restrictions))
    for transform in (drop_implied, keep_distinct, build_steps):
        drafted = transform(drafted)
    assert drafted.plan is not None
    return drafted.plan


def _nests(drafts: Sequence[Draft], symmetric: Draft) -> list[CountPlan]:
    """Return how seeded drafts are counted, which are divided together by a symmetry: that of another draft."""
    options = (
        ([replace(drafted, restrictions=option.restrictions) for drafted in drafts], divisor)
        for option, divisor in restricted(symmetric)
    )
    return plan_counts(options)


def _order(draft: Draft, atom: Atom) -> tuple[str, ...]:
    """Return the cheapest attribute order that begins with an atom's."""
    positive = replace(atom, negated=False)
    atoms = draft.atoms if positive in draft.atoms else (*draft.atoms, positive)
    return order_attributes(replace(draft, atoms=atoms, first=positive, order=())).order


def _orbits(draft: Draft, seeded: Sequence[Atom]) -> list[list[Atom]]:
    """Return the atoms in groups that symmetries of the query map to each other."""
    orbits: list[list[Atom]] = []
    for atom in seeded:
        mine = Shape(_marked(draft, atom))
        for orbit in orbits:
            if orbit[0].source == atom.source and renaming(Shape(_marked(draft, orbit[0])), mine) is not None:
                orbit.append(atom)
                break
        else:
            orbits.append([atom])
    return orbits


def _image(draft: Draft, orbit: Sequence[Atom], member: Atom, seeded: Sequence[Atom]) -> Image:
    names = renaming(Shape(_marked(draft, orbit[0])), Shape(_marked(draft, member)))
    assert names is not None
    earlier = () if draft.query.injective else tuple(a for a in seeded[: seeded.index(member)] if a.source == member.source)
    return Image(member, tuple(names.items()), earlier, draft.statistics.of(member).symmetric)


def _marked(draft: Draft, atom: Atom) -> Draft:
    """Return a draft in which an atom is unlike all others, so that symmetries keep it."""
    marked = tuple(_at(a, Version.DELTA) if a is atom else a for a in draft.atoms)
    return replace(draft, atoms=marked)


def _at(atom: Atom, version: Version) -> Atom:
    return replace(atom, version=version)


def _implies(atom: Atom, other: Atom) -> bool:
    """Tell whether an atom's tuples say that another holds: pays(a, b, e) says that pays(a, b) does."""
    shorter = len(other.attributes) < len(atom.attributes) and atom.attributes[: len(other.attributes)] == other.attributes
    return shorter and (atom.relation, atom.view) == (other.relation, other.view) and not (atom.negated or other.negated)


def _is_implied(atom: Atom, draft: Draft) -> bool:
    return any(_implies(other, atom) for other in draft.atoms)


def _foreseen(statistics: Statistics) -> Statistics:
    """Return what may be said of relations that change: one without loops may get some, and one that is small may grow."""
    found = {}
    for name, relation in statistics.relations.items():
        assumed = assumed_graph(symmetric=relation.symmetric).relations["edge"]
        small = relation.tuples < FEW and relation.arity == 2 and relation.lists.keys() == assumed.lists.keys()
        known = (
            replace(relation, tuples=assumed.tuples, lists=assumed.lists, catalogue=assumed.catalogue) if small else relation
        )
        found[name] = replace(known, definition=None, loops=known.loops if known.symmetric else max(1, known.loops))
    return replace(statistics, relations=found)


def refuse_stored(query: Query, statistics: Statistics) -> None:
    """Refuse atoms over stored results of queries, which updates make untrue."""
    for atom in query.atoms:
        known = statistics.relations.get(atom.relation)
        if known is not None and known.materialized:
            hint = "write the atoms of the query that it is the result of"
            raise QueryError(
                f"{atom.relation!r} is the stored result of a query, and does not outlive updates", atom.span, hint
            )
