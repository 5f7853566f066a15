"""The share of all orders of some values in which certain pairs are in order: how much restrictions leave.

It is the number of linear extensions of a partial order, divided by the number of all orders. Parts that no pair joins are
independent of each other. Where each value is directly below at most one other, as after "the first has the largest code", the
share is one over the product of the sizes of what lies below each value (the hook formula). Otherwise orders are counted by the
sets that they begin with, as long as there are few of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from math import factorial, prod

MAX_COUNTED_VALUES = 10
"""Values up to which orders are counted that the hook formula does not know; beyond, each value is below one other only."""

Pair = tuple[str, str]
"""A smaller and a larger value."""


def share_of_orders(pairs: Sequence[Pair]) -> float:
    """Return the share of the orders of values in which each pair is in order."""
    above = dict(pairs)
    if len(above) == len(pairs):
        return 1 / prod(_sizes(above, {value for pair in pairs for value in pair}).values())
    orders, all_orders = 1, 1
    for part in _parts(pairs):
        values = {value for pair in part for value in pair}
        count, among = _orders(part, values)
        orders *= count
        all_orders *= among
    return orders / all_orders


def _parts(pairs: Iterable[Pair]) -> list[list[Pair]]:
    """Return the pairs in groups that have no value in common."""
    found: list[tuple[set[str], list[Pair]]] = []
    for pair in pairs:
        touched = [part for part in found if not part[0].isdisjoint(pair)]
        found = [part for part in found if part[0].isdisjoint(pair)]
        found.append((set(pair).union(*(values for values, _ in touched)), [pair, *(p for _, part in touched for p in part)]))
    return [part for _, part in found]


def _orders(pairs: Sequence[Pair], values: set[str]) -> tuple[int, int]:
    """Return how many orders have each pair in order, and among how many."""
    above = dict(pairs)
    if len(above) == len(pairs) or len(values) > MAX_COUNTED_VALUES:
        return 1, prod(_sizes(above, values).values())

    @cache
    def orders(left: frozenset[str]) -> int:
        least = [a for a in left if not any(larger == a and smaller in left for smaller, larger in pairs)]
        return sum(orders(left - {a}) for a in least) if left else 1

    return orders(frozenset(values)), factorial(len(values))


def _sizes(above: dict[str, str], values: set[str]) -> dict[str, int]:
    """Return for each value how many there are below it, itself included."""
    sizes = dict.fromkeys(values, 1)
    for value in values:
        passed = {value}
        while (value := above.get(value, value)) not in passed:
            sizes[value] += 1
            passed.add(value)
    return sizes
