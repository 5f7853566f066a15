"""Find the restrictions that leave one match of each class under the query's automorphisms.

An automorphism is a permutation of the attributes that maps atoms to atoms (with their relation, direction and sign) and
filters to filters. Going through the attribute order, each attribute v must have the largest code in its orbit under the
automorphisms that fix all earlier attributes; what is left at the end is the identity. Codes fall with degree, so the first
attribute of an orbit gets the lowest degree, and every later list is cut to its hubward end: on cliques this is the
degree-ordered orientation, and on any other pattern it is still right.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from bigjoin.planner.draft import Draft
from bigjoin.planner.simplify import canonical_atom
from bigjoin.query.plan import Restriction
from bigjoin.query.query import Atom, Comparison


def break_symmetry(draft: Draft) -> Draft:
    """Set the restrictions of a `unique` query, without those that others imply."""
    if not draft.query.unique:
        return draft
    restrictions = [
        Restriction(smaller=image, larger=attribute)
        for i, attribute in enumerate(draft.order)
        for image in draft.order[i + 1 :]
        if _automorphism_exists(draft, fixed=draft.order[:i], source=attribute, image=image)
    ]
    return replace(draft, restrictions=tuple(r for r in restrictions if not _implied(r, restrictions)))


def ordered_pairs(restrictions: Iterable[Restriction]) -> set[tuple[str, str]]:
    """Return every (smaller, larger) that the restrictions say or imply."""
    pairs = {(r.smaller, r.larger) for r in restrictions}
    while new := {(a, d) for a, b in pairs for c, d in pairs if b == c} - pairs:
        pairs |= new
    return pairs


def _implied(restriction: Restriction, restrictions: list[Restriction]) -> bool:
    others = [r for r in restrictions if r != restriction]
    return (restriction.smaller, restriction.larger) in ordered_pairs(others)


def _automorphism_exists(draft: Draft, *, fixed: tuple[str, ...], source: str, image: str) -> bool:
    """Search for an automorphism that fixes some attributes and maps `source` to `image`, attribute by attribute."""
    parts: set[Atom | Comparison] = {*(canonical_atom(a, draft) for a in draft.atoms), *(f.canonical() for f in draft.filters)}

    def holds(names: dict[str, str]) -> bool:
        """Tell whether every atom and filter whose attributes are all mapped has its image in the query."""
        newest = next(reversed(names))

        def mapped(part: Atom | Comparison) -> bool:
            return newest in part.attributes and names.keys() >= set(part.attributes)

        atoms = (canonical_atom(atom.renamed(names), draft) for atom in draft.atoms if mapped(atom))
        filters = (comparison.renamed(names).canonical() for comparison in draft.filters if mapped(comparison))
        return all(part in parts for part in (*atoms, *filters))

    def search(names: dict[str, str], rest: list[str]) -> bool:
        if not rest:
            return True
        attribute, *later = rest
        free = [a for a in draft.order if a not in names.values()]
        return any(holds(grown := {**names, attribute: a}) and search(grown, later) for a in free)

    names: dict[str, str] = {}
    for attribute, target in (*((a, a) for a in fixed), (source, image)):
        names[attribute] = target
        if not holds(names):
            return False
    return search(names, [a for a in draft.order if a not in names])
