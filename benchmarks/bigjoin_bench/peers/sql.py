"""A named query as SQL: the self join that it is, and the forms that somebody who knows it would write by hand.

The forms by hand go through a table of triangles, which every database joins faster than single edges, and count what
factorizes (the diamond, the house) by aggregates instead of one match at a time. They serve a directed table as well as one
whose edges point from low to high degree, where each clique is there once.
"""

from __future__ import annotations

from bigjoin.languages import parse

_TRIANGLES = """tri AS MATERIALIZED (
    SELECT x.src AS a, x.dst AS b, z.dst AS c
    FROM {edge} x, {edge} y, {edge} z WHERE x.src = y.src AND x.dst = z.src AND y.dst = z.dst)"""
_FOUR_CLIQUES = """
    SELECT s.a, s.b, s.c, t.c AS d
    FROM tri s, tri t, tri e WHERE s.a = t.a AND s.b = t.b AND s.a = e.a AND s.c = e.b AND t.c = e.c"""

_CLIQUES = {
    "4-clique": f"WITH {_TRIANGLES} SELECT count(*) FROM ({_FOUR_CLIQUES})",
    "5-clique": f"""WITH {_TRIANGLES}, four AS MATERIALIZED ({_FOUR_CLIQUES})
    SELECT count(*) FROM four s, four t, four e
    WHERE s.a = t.a AND s.b = t.b AND s.c = t.c AND s.a = e.a AND s.b = e.b AND s.d = e.c AND t.d = e.d""",
}

_DIRECTED = {
    **_CLIQUES,
    "house": f"""WITH {_TRIANGLES},
    roof AS (SELECT a, b, count(*) AS n FROM tri GROUP BY ALL),
    walls AS (SELECT b, c, count(*) AS n FROM ({_FOUR_CLIQUES}) GROUP BY ALL)
    SELECT sum(walls.n * roof.n) FROM walls JOIN roof ON walls.b = roof.a AND walls.c = roof.b""",
}
"""Aggregating the diamond's two sides takes longer than joining it."""

_PAIRS = [("a", "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"), ("c", "d")]
_UNDIRECTED = {
    **_CLIQUES,
    # A cycle is counted at its highest vertex v: pairs of paths v-x-u with x and u below v.
    "diamond": """SELECT sum(n * (n - 1) // 2) FROM (
        SELECT x.dst AS v, y.dst AS u, count(*) AS n
        FROM oriented x, both_ways y WHERE x.src = y.src AND y.dst < x.dst GROUP BY ALL)""",
    # For each edge: the 4-cliques around it, times the further vertices that see both of its ends.
    "house": f"""WITH {_TRIANGLES}, four AS MATERIALIZED ({_FOUR_CLIQUES}),
    roof AS (SELECT a, b, count(*) - 2 AS n
        FROM (SELECT a, b FROM tri UNION ALL SELECT a, c FROM tri UNION ALL SELECT b, c FROM tri) GROUP BY ALL),
    walls AS (SELECT a, b, sum(n) AS n
        FROM ({" UNION ALL ".join(f"SELECT {a} AS a, {b} AS b, count(*) AS n FROM four GROUP BY ALL" for a, b in _PAIRS)})
        GROUP BY ALL)
    SELECT sum(walls.n * roof.n) FROM walls JOIN roof USING (a, b)""",
}


_RESTRICTIONS = {
    "diamond": ("a1 > a2", "a1 > a3", "a1 > a4", "a2 > a4"),
    "house": ("a2 > a3", "a1 > a4", "a5 <> a1", "a5 <> a4"),
}
"""What leaves one of each class of matches, where edges that point upwards do not suffice."""


def restricted(query: str) -> str:
    """Return an undirected query as a self join that finds each subgraph once: cliques over `oriented`, others restricted."""
    if query == "triangle" or query in _CLIQUES:
        return as_join(query, "oriented")
    return as_join(query, "both_ways", _RESTRICTIONS[query])


def as_join(query: str, edge: str = "edge", restrictions: tuple[str, ...] = ()) -> str:
    """Return the query as a self join, with the atoms in the order in which they are written."""
    at: dict[str, str] = {}
    where = []
    atoms = parse(query).atoms
    for i, atom in enumerate(atoms):
        for attribute, column in zip(atom.attributes, ("src", "dst"), strict=True):
            place = f"t{i}.{column}"
            where += [f"{place} = {at[attribute]}"] if attribute in at else []
            at.setdefault(attribute, place)
    for left, operator, right in map(str.split, restrictions):
        where.append(f"{at[left]} {operator} {at[right]}")
    return f"SELECT count(*) FROM {', '.join(f'{edge} t{i}' for i in range(len(atoms)))} WHERE {' AND '.join(where)}"


def by_hand(query: str, *, undirected: bool) -> str:
    """Return the fastest form known, over a table `edge`, or over `oriented` and `both_ways`; else the self join.

    The self join of a clique over `oriented` finds each once; other undirected queries need a form of their own.
    """
    edge = "oriented" if undirected else "edge"
    forms = _UNDIRECTED if undirected else _DIRECTED
    if query in forms:
        return forms[query].replace("{edge}", edge)
    if undirected and query != "triangle":
        raise ValueError(f"there is no SQL by hand for the undirected {query}")
    return as_join(query, edge)
