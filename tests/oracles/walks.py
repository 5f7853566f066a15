"""Paths of several lengths by brute force, and by DuckDB's recursive tables. It imports nothing of ours."""

from __future__ import annotations

import math
from itertools import pairwise

import duckdb


def tuples(edges, *, undirected, named):
    """What a path may follow: (src, dst, id, amount, time) of each row, or of each pair without its row."""
    if not named:
        edges = sorted({(src, dst) for src, dst, *_ in edges})
        edges = [(src, dst, None, None, None) for src, dst in edges]
    if not undirected:
        return list(edges)
    kept = [(min(e[0], e[1]), max(e[0], e[1]), *e[2:]) if not named else e for e in edges if e[0] != e[1]]
    kept = sorted(set(kept)) if not named else kept
    return [t for src, dst, *rest in kept for t in ((src, dst, *rest), (dst, src, *rest))]


def walks(steps, low, high):
    """Every sequence of consecutive tuples whose length is within bounds."""
    after: dict = {}
    for step in steps:
        after.setdefault(step[0], []).append(step)
    paths = [(step,) for step in steps]
    for length in range(1, high + 1):
        if length >= low:
            yield from paths
        paths = [(*path, step) for path in paths for step in after.get(path[-1][1], ())]


def vertices(path):
    return [path[0][0], *(step[1] for step in path)]


def identity(step, *, undirected, named):
    """What makes an edge the same one: its row, or its pair, whichever way it is read."""
    if named:
        return step[2]
    return frozenset(step[:2]) if undirected else step[:2]


def is_of_mode(path, mode, *, undirected, named):
    nodes = vertices(path)
    if mode == "trail":
        seen = [identity(step, undirected=undirected, named=named) for step in path]
        return len(set(seen)) == len(seen)
    if mode == "simple":
        return len(set(nodes[:-1])) == len(nodes) - 1 and len(set(nodes[1:])) == len(nodes) - 1
    return mode == "walk" or len(set(nodes)) == len(nodes)


CONDITIONS = {
    "e.amount > 3": lambda path: all(s[3] > 3 for s in path),
    "next(e).time > e.time": lambda path: all(s[4] < t[4] for s, t in pairwise(path)),
    "last(e).time - first(e).time <= 4": lambda path: path[-1][4] - path[0][4] <= 4,
    "e.amount <= first(e).amount": lambda path: all(s[3] <= path[0][3] for s in path),
    "src(e) != 2": lambda path: all(s[0] != 2 for s in path),
    "dst(next(e)) >= src(e)": lambda path: all(t[1] >= s[0] for s, t in pairwise(path)),
    "e.amount % 2 = 0 or length(e) < 3": lambda path: all(s[3] % 2 == 0 or len(path) < 3 for s in path),
    "length(e) != 2": lambda path: len(path) != 2,
    "last(e).amount in (1, 2, 5)": lambda path: path[-1][3] in (1, 2, 5),
    "e.time >= next(e).time": lambda path: all(s[4] >= t[4] for s, t in pairwise(path)),
    "last(e).time >= 3": lambda path: path[-1][4] >= 3,
    "first(e).time + 3 > last(e).time": lambda path: path[0][4] + 3 > path[-1][4],
    "last(e).time < e.amount + 5": lambda path: all(path[-1][4] < s[3] + 5 for s in path),
    "(length(e) - 4) % 3 != -1": lambda path: math.fmod(len(path) - 4, 3) != -1,
    "(length(e) - 5) div 2 > -2": lambda path: math.trunc((len(path) - 5) / 2) > -2,
}
"""Conditions about a path e, as rules write them, and what they mean."""

IN_SQL = {
    "e.amount > 3": "list_min(amounts) > 3",
    "next(e).time > e.time": "len(list_filter(range(1, len(times)), lambda i: times[i + 1] <= times[i])) = 0",
    "last(e).time - first(e).time <= 4": "times[-1] - times[1] <= 4",
    "e.amount <= first(e).amount": "list_max(amounts) <= amounts[1]",
    "src(e) != 2": "NOT list_contains(nodes[:-2], 2)",
    "dst(next(e)) >= src(e)": "len(list_filter(range(1, len(nodes) - 1), lambda i: nodes[i + 2] < nodes[i])) = 0",
    "e.amount % 2 = 0 or length(e) < 3": "(len(nodes) < 4 OR len(list_filter(amounts, lambda x: x % 2 <> 0)) = 0)",
    "length(e) != 2": "len(nodes) <> 3",
    "last(e).amount in (1, 2, 5)": "amounts[-1] IN (1, 2, 5)",
    "e.time >= next(e).time": "len(list_filter(range(1, len(times)), lambda i: times[i + 1] > times[i])) = 0",
    "last(e).time >= 3": "times[-1] >= 3",
    "first(e).time + 3 > last(e).time": "times[1] + 3 > times[-1]",
    "last(e).time < e.amount + 5": "times[-1] < list_min(amounts) + 5",
    "(length(e) - 4) % 3 != -1": "(len(steps) - 4) % 3 <> -1",
    "(length(e) - 5) div 2 > -2": "trunc((len(steps) - 5) / 2) > -2",
}
"""The same over the columns of a recursive table."""

_MODES = {
    "walk": "true",
    "trail": "len(list_distinct(steps)) = len(steps)",
    "simple": "len(list_distinct(nodes[:-2])) = len(nodes) - 1 AND len(list_distinct(nodes[2:])) = len(nodes) - 1",
    "acyclic": "len(list_distinct(nodes)) = len(nodes)",
}


def answer(steps, low, high, mode, conditions, *, ring, undirected, named):
    """The paths by brute force: a row of vertices and a row of ids for each."""
    return [
        (tuple(vertices(path)), tuple(step[2] for step in path))
        for path in walks(steps, low, high)
        if is_of_mode(path, mode, undirected=undirected, named=named)
        and (not ring or path[0][0] == path[-1][1])
        and all(CONDITIONS[text](path) for text in conditions)
    ]


def answer_in_sql(steps, low, high, mode, conditions, *, ring, undirected, named):
    """The same by a recursive common table expression of DuckDB."""
    numbers: dict = {}
    rows = [(*s, numbers.setdefault(identity(s, undirected=undirected, named=named), len(numbers))) for s in steps]
    connection = duckdb.connect()
    connection.execute("CREATE TABLE edge (src INT, dst INT, id INT, amount INT, time INT, step INT)")
    if rows:
        connection.executemany("INSERT INTO edge VALUES (?, ?, ?, ?, ?, ?)", rows)
    where = [_MODES[mode], f"len(steps) >= {low}", *(["nodes[1] = nodes[-1]"] if ring else []), *map(IN_SQL.get, conditions)]
    found = connection.execute(f"""
        WITH RECURSIVE path AS (
            SELECT [src, dst] nodes, [id] ids, [amount] amounts, [time] times, [step] steps FROM edge
            UNION ALL
            SELECT list_append(nodes, dst), list_append(ids, id), list_append(amounts, amount), list_append(times, time),
                   list_append(steps, step)
            FROM path, edge WHERE nodes[-1] = src AND len(steps) < {high}
        ) SELECT nodes, ids FROM path WHERE {" AND ".join(f"({part})" for part in where)}""").fetchall()
    return [(tuple(nodes), tuple(ids)) for nodes, ids in found]
