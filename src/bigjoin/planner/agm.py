"""The AGM bound: the most matches that any data of these sizes could give a query.

The cheapest fractional edge cover, each relation weighing the logarithm of its size, is a linear programme; the bound is
the product of the sizes, each to the power of its weight (section 1.1 of the paper). With relations of one size IN it is IN to
the power of the cover number; the packing number is what the load of one-round algorithms depends on (the paper's appendix).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf, log

import numpy as np
from numpy.typing import NDArray

from bigjoin.planner.resolve_relations import resolve_relations
from bigjoin.query.query import Query
from bigjoin.query.statistics import Statistics


def agm_bound(query: Query, statistics: Statistics) -> float:
    """Return the bound for plain matches; flags and filters only make a result smaller."""
    query = resolve_relations(query, statistics)
    sizes = [statistics.of(atom).tuples for atom in dict.fromkeys(query.positive)] + [one.tuples for one in query.seeds]
    if min(sizes) == 0:
        return 0.0
    least = _least([log(size) for size in sizes], A_ub=-_incidence(query), b_ub=-np.ones(len(query.attributes)))
    return exp(least) if least < 700 else inf


def cover_number(query: Query) -> float:
    """Return the fractional edge cover number rho*: the least total weight of atoms that gives every attribute at least one."""
    incidence = _incidence(query)
    return _least(np.ones(incidence.shape[1]), A_ub=-incidence, b_ub=-np.ones(incidence.shape[0]))


def packing_number(query: Query) -> float:
    """Return the fractional edge packing number tau*: the greatest total weight of atoms that gives no attribute above one."""
    incidence = _incidence(query)
    return -_least(-np.ones(incidence.shape[1]), A_ub=incidence, b_ub=np.ones(incidence.shape[0]))


def _incidence(query: Query) -> NDArray[np.float64]:
    """Return a matrix with a one where an atom or seeds (column) have an attribute (row)."""
    scopes = [atom.attributes for atom in dict.fromkeys(query.positive)] + [seeds.attributes for seeds in query.seeds]
    return np.array([[float(attribute in scope) for scope in scopes] for attribute in query.attributes])


def _least(weights: Sequence[float] | NDArray[np.float64], **constraints: NDArray[np.float64]) -> float:
    """Return the least weight of what meets the constraints."""
    from scipy.optimize import linprog  # it takes half a second to import, and only who wants to know a bound needs it

    return float(linprog(weights, **constraints).fun)
