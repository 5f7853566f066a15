"""The AGM bound: the most matches that any data of these sizes could give a query.

The cheapest fractional edge cover, each relation weighing the logarithm of its size, is a linear programme; the bound is
the product of the sizes, each to the power of its weight (section 1.1 of the paper). With relations of one size IN it is IN to
the power of the cover number; the packing number is what the load of one-round algorithms depends on (the paper's appendix).
"""

from __future__ import annotations

from math import exp, inf, log

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from bigjoin.planner.resolve_relations import resolve_relations
from bigjoin.query.query import Query
from bigjoin.query.statistics import Statistics


def agm_bound(query: Query, statistics: Statistics) -> float:
    """Return the bound for plain matches; flags and filters only make a result smaller."""
    query = resolve_relations(query, statistics)
    sizes = [statistics.of(atom).tuples for atom in dict.fromkeys(query.positive)]
    if min(sizes) == 0:
        return 0.0
    solution = linprog([log(size) for size in sizes], A_ub=-_incidence(query), b_ub=-np.ones(len(query.attributes)))
    return exp(solution.fun) if solution.fun < 700 else inf


def cover_number(query: Query) -> float:
    """Return the fractional edge cover number rho*: the least total weight of atoms that gives every attribute at least one."""
    incidence = _incidence(query)
    return float(linprog(np.ones(incidence.shape[1]), A_ub=-incidence, b_ub=-np.ones(incidence.shape[0])).fun)


def packing_number(query: Query) -> float:
    """Return the fractional edge packing number tau*: the greatest total weight of atoms that gives no attribute above one."""
    incidence = _incidence(query)
    return -float(linprog(-np.ones(incidence.shape[1]), A_ub=incidence, b_ub=np.ones(incidence.shape[0])).fun)


def _incidence(query: Query) -> NDArray[np.float64]:
    """Return a matrix with a one where an atom (column) has an attribute (row)."""
    atoms = dict.fromkeys(query.positive)
    return np.array([[float(attribute in atom.attributes) for atom in atoms] for attribute in query.attributes])
