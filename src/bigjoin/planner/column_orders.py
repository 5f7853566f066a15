"""Which column order serves an atom: an index need not hold them all (of rows it has one, the edge id after its ends)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from bigjoin.query.plan import Extender
from bigjoin.query.query import Atom
from bigjoin.query.statistics import Statistics


def extender(atom: Atom, attribute: str, bound: Collection[str], statistics: Statistics) -> Extender | None:
    """Return the atom as an extender of its bound attributes by another one, or None where no column order serves that."""
    keys = tuple(c for c, a in enumerate(atom.attributes) if a in bound)
    places = [c for c, a in enumerate(atom.attributes) if a == attribute]
    orders = statistics.of(atom).lists
    width = len(keys) + 1
    if not orders or any(order[:width] == (*keys, places[0]) for order in orders):
        return Extender(atom, (*keys, places[0]))
    fits = (order[:width] for order in sorted(orders) if len(order) >= width)
    return next((Extender(atom, c) for c in fits if c[-1] in places and set(c[:-1]) == set(keys)), None)


def whole(atom: Atom, order: Sequence[str], statistics: Statistics) -> Extender:
    """Return the atom with all its columns: in the attribute order if the index has that, else in any order it has."""
    columns = tuple(sorted(range(len(atom.attributes)), key=lambda c: order.index(atom.attributes[c])))
    orders = [o for o in statistics.of(atom).lists if len(o) == len(columns)]
    return Extender(atom, columns if columns in orders or not orders else min(orders))


def in_order(atom: Atom, order: Sequence[str], statistics: Statistics) -> bool:
    """Tell whether the index can read the atom's tuples in the attribute order."""
    read = (atom.attributes[c] for c in whole(atom, order, statistics).columns)
    return tuple(dict.fromkeys(read)) == tuple(a for a in order if a in atom.attributes)
