"""Named queries: the paper's five, with the paper's definitions, and other well-known motifs.

The paper's `diamond` is the 4-cycle shape; the shape that others call a diamond is `chordal-4-cycle`. The paper's `house` is
a 4-clique a1..a4 with a5 on a2 and a3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import combinations

from bigjoin.errors import UnknownQueryError, did_you_mean
from bigjoin.query.query import Atom, Query

MAX_K = 12
"""The largest k of k-clique, k-cycle, k-path and k-star."""

_EDGES: dict[str, str] = {
    "triangle": "12 13 23",
    "diamond": "12 23 41 43",
    "house": "12 13 14 23 24 34 25 35",
    "chordal-4-cycle": "12 23 34 41 13",
    "2-cycle": "12 21",
    "tailed-triangle": "12 13 23 14",
    "lollipop": "12 23 13 14",
    "bull": "12 13 23 24 35",
    "bowtie": "12 13 23 14 15 45",
    "barbell": "12 23 13 14 45 56 46",
    "bi-fan": "13 14 23 24",
    "5-house": "12 23 34 41 15 25",
    "gem": "12 13 14 15 23 34 45",
    "4-wheel": "12 13 14 15 23 34 45 52",
    "prism": "12 23 13 45 56 46 14 25 36",
    "octahedron": "12 13 14 15 23 34 45 52 62 63 64 65",
    "k33": "14 15 16 24 25 26 34 35 36",
}

_FAMILIES: dict[str, tuple[int, Callable[[int], Iterable[tuple[int, int]]]]] = {
    "clique": (3, lambda k: combinations(range(1, k + 1), 2)),
    "cycle": (3, lambda k: [(i, i % k + 1) for i in range(1, k + 1)]),
    "path": (1, lambda k: [(i, i + 1) for i in range(1, k + 1)]),
    "star": (2, lambda k: [(1, i + 1) for i in range(1, k + 1)]),
}
"""Family -> its smallest k, and the edges of a member. A k-path and a k-star have k edges."""

_MEMBER = rf"(\d+)-({'|'.join(_FAMILIES)})"


def names(largest: int = 6) -> list[str]:
    """Return every name in use, families by their members up to the `largest`."""
    return sorted({*_EDGES, *(f"{k}-{family}" for family, (low, _) in _FAMILIES.items() for k in range(low, largest + 1))})


def is_name(text: str) -> bool:
    """Tell whether `text` can only be a name: a single word, perhaps with hyphens."""
    return re.fullmatch(r"[\w-]+", text) is not None


def parse(name: str) -> Query:
    """Return the named query, whose head is a1, a2, ... and whose only relation is `edge`."""
    edges = _edges(name.casefold())
    if edges is None:
        if re.fullmatch(_MEMBER, name.casefold()):
            hint = f"k-clique, k-cycle, k-path and k-star go up to k = {MAX_K}"
        else:
            hint = did_you_mean(name, names()) or f"known names: {', '.join(names())}; or write a rule: q(a,b) := edge(a,b)"
        raise UnknownQueryError(f"there is no query named {name!r}", hint=hint)
    atoms = tuple(Atom("edge", (f"a{i}", f"a{j}")) for i, j in edges)
    size = max(max(edge) for edge in edges)
    return Query(name.casefold(), tuple(f"a{i}" for i in range(1, size + 1)), atoms)


def _edges(name: str) -> list[tuple[int, int]] | None:
    if name in _EDGES:
        return [(int(edge[0]), int(edge[1])) for edge in _EDGES[name].split()]
    if (match := re.fullmatch(_MEMBER, name)) and len(match[1]) <= len(str(MAX_K)):
        k, (smallest, edges) = int(match[1]), _FAMILIES[match[2]]
        if smallest <= k <= MAX_K:
            return list(edges(k))
    return None
