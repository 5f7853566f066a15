"""The AGM bound: the most matches that any data of these sizes could give a query.

The cheapest fractional edge cover, each relation weighing the logarithm of its size, is a linear programme; the bound is
the product of the sizes, each to the power of its weight (section 1.1 of the paper).
"""

from __future__ import annotations

from math import exp, inf, log

import numpy as np
from scipy.optimize import linprog

from bigjoin.query.query import Query
from bigjoin.query.statistics import Statistics


def agm_bound(query: Query, statistics: Statistics) -> float:
    """Return the bound for plain matches; flags and filters only make a result smaller."""
    atoms = list(dict.fromkeys(query.positive))
    sizes = [statistics.of(atom).tuples for atom in atoms]
    if min(sizes) == 0:
        return 0.0
    covers = [[-1.0 * (attribute in atom.attributes) for atom in atoms] for attribute in query.attributes]
    solution = linprog([log(size) for size in sizes], A_ub=covers, b_ub=-np.ones(len(covers)))
    return exp(solution.fun) if solution.fun < 700 else inf
