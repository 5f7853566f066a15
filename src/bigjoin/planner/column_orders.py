"""Which column order serves an atom. An index need not hold all of them: of rows it has one, the edge id after its ends."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from bigjoin.planner.draft import Draft
from bigjoin.query.plan import Extender
from bigjoin.query.query import Atom
from bigjoin.query.read import Version


def extender(atom: Atom, attribute: str, bound: Collection[str], draft: Draft) -> Extender | None:
    """Return the atom as an extender of its bound attributes by another one, or None if no column order serves that."""
    keys = tuple(c for c, a in enumerate(atom.attributes) if a in bound)
    places = [c for c, a in enumerate(atom.attributes) if a == attribute]
    orders = draft.statistics.of(atom).lists
    width = len(keys) + 1
    if not orders or any(order[:width] == (*keys, places[0]) for order in orders):
        return _extender(atom, (*keys, places[0]), draft)
    fits = (order[:width] for order in sorted(orders) if len(order) >= width)
    return next((_extender(atom, c, draft) for c in fits if c[-1] in places and set(c[:-1]) == set(keys)), None)


def whole(atom: Atom, draft: Draft, order: Sequence[str] | None = None) -> Extender:
    """Return the atom with all its columns: in the attribute order if the index has that, otherwise in any that it has."""
    names = draft.order if order is None else order
    columns = tuple(sorted(range(len(atom.attributes)), key=lambda c: names.index(atom.attributes[c])))
    orders = [o for o in draft.statistics.of(atom).lists if len(o) == len(columns)]
    return _extender(atom, columns if columns in orders or not orders else min(orders), draft)


def in_order(atom: Atom, order: Sequence[str], draft: Draft) -> bool:
    """Tell whether the index can read the atom's tuples in the attribute order."""
    read = (atom.attributes[c] for c in whole(atom, draft, order).columns)
    return tuple(dict.fromkeys(read)) == tuple(a for a in order if a in atom.attributes)


def typical_length(e: Extender, draft: Draft) -> float:
    """Return the typical length of an extender's lists."""
    relation = draft.statistics.of(e.atom)
    lists = relation.lists.get(e.columns)
    return lists.typical if lists is not None else float(relation.tuples ** (1 / relation.arity))


def _extender(atom: Atom, columns: tuple[int, ...], draft: Draft) -> Extender:
    after = draft.first.attributes if draft.first is not None and atom.version is Version.LATER else ()
    return Extender(atom, columns, after)
