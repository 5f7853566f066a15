"""Choose the version that each atom of a delta query reads, so that a match with several updates in it is found once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bigjoin.planner.draft import Draft, Seeding
from bigjoin.query.query import Atom
from bigjoin.query.read import Version


def read_versions(draft: Draft) -> Draft:
    """Set the version of every atom by the draft's seeding; the seed's delta comes first."""
    assert draft.first is not None
    assert draft.seeding is not None
    seed = draft.seeding.seed
    others = [atom for atom in draft.atoms if atom not in (draft.first, seed) and not implies(seed, atom)]
    versions = _by_updates if draft.seeding.by_updates else _by_atoms
    return replace(draft, atoms=(draft.first, *versions(draft.seeding, others)))


def _by_atoms(seeding: Seeding, others: list[Atom]) -> Iterator[Atom]:
    """Let atoms before the seed read the new version, those after it the old one; what does not change reads either."""
    places = {atom: place for place, atom in enumerate(seeding.atoms)}
    at = places[seeding.seed]
    for atom in others:
        version = Version.EITHER
        if atom in places:
            old, new = (Version.NOT_OLD, Version.NOT_NEW) if atom.negated else (Version.OLD, Version.NEW)
            version = new if places[atom] < at else old
        yield replace(atom, version=version)


def _by_updates(seeding: Seeding, others: list[Atom]) -> Iterator[Atom]:
    """Let all atoms read either version, without the tuples of the delta that come after the seed's.

    Relations have an order, too: all tuples of a relation come after those of the ones before it.
    """
    sources = list(dict.fromkeys(atom.source for atom in seeding.atoms))
    mine, changing = sources.index(seeding.seed.source), frozenset(seeding.atoms)
    for atom in others:
        yield replace(atom, version=Version.EITHER)
        if atom in changing and sources.index(atom.source) >= mine:
            later = Version.LATER if atom.source == seeding.seed.source else Version.DELTA
            yield replace(atom, version=later, negated=True)


def implies(atom: Atom, other: Atom) -> bool:
    """Tell whether an atom's tuples make another one hold: pays(a, b, e) implies pays(a, b)."""
    shorter = len(other.attributes) < len(atom.attributes) and atom.attributes[: len(other.attributes)] == other.attributes
    return shorter and (atom.relation, atom.view) == (other.relation, other.view) and not (atom.negated or other.negated)
