"""Brute force for queries that read a property graph, as openCypher defines them. It imports nothing of ours.

A graph is (nodes, relationships): nodes are {id: (labels, properties)}, relationships are tuples (id, source, target, type,
properties). A query is plain data, so that no parser stands between it and its meaning:

    Query(clauses, returns, distinct, order, limit, parameters)
    clause        ("match" or "optional", patterns, where or None)
    pattern       (node, relationship, node, ...): a path, with one node at least
    node          (variable or None, labels, properties): it has all the labels
    relationship  (variable or None, types, direction, properties): of any of the types, or of any type where there are none;
                  the direction is "out", "in" or "both"
    properties    ((key, operand), ...)
    where         ("and" or "or", where, ...), ("not", where), ("compare", operator, operand, operand),
                  ("exists", patterns, where or None), ("pattern", pattern)
    operand       ("variable", name), ("property", name, key), ("literal", value), ("parameter", name)
    returns       operands, or ("count",)
    order         ((position in returns, is_ascending), ...)

The relationships of one clause are different from each other; those of different clauses need not be, nor need nodes. In an
answer a node or a relationship is its id.
"""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import Any, NamedTuple

ORDERINGS = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


class Query(NamedTuple):
    """A query as plain data; the text of the module says what its parts are."""

    clauses: tuple
    returns: tuple
    distinct: bool = False
    order: tuple = ()
    limit: int | None = None
    parameters: dict[str, Any] = {}  # noqa: RUF012  (it is never changed)


class Node(NamedTuple):
    """A node that is bound."""

    id: Any
    labels: Any
    properties: dict[str, Any]


class Relationship(NamedTuple):
    """A relationship that is bound; `key` is what makes it different from others."""

    key: Any
    id: Any
    source: Any
    target: Any
    type: str
    properties: dict[str, Any]


class Graph(NamedTuple):
    """A graph to search, with the parameters of the query and whether directions count."""

    nodes: list[Node]
    relationships: list[Relationship]
    parameters: dict[str, Any]
    is_undirected: bool


def answer(query: Query, graph, *, pairs: bool = False, undirected: bool = False) -> list[tuple]:
    """The bag of rows, in the order that the query asks for.

    With `pairs` the relationships of a type are a set of pairs, without properties; a pair is the id. With `undirected` a
    relationship has no direction, and the pair of its ends is sorted.
    """
    searched = _graph(query, graph, pairs, undirected)
    rows: list[dict] = [{}]
    for kind, patterns, where in query.clauses:
        nothing = dict.fromkeys(_variables(patterns))
        longer = []
        for row in rows:
            found = list(_matches(searched, patterns, where, row))
            longer += found or ([nothing | row] if kind == "optional" else [])
        rows = longer
    return _returned(query, searched, rows)


def _graph(query: Query, graph, pairs: bool, undirected: bool) -> Graph:
    nodes, relationships = graph
    known = {}
    for number, (name, source, target, kind, properties) in zip(count(), relationships):
        if not pairs:
            known[number] = Relationship(number, name, source, target, kind, properties)
            continue
        pair = (source, target)
        if undirected:
            pair = tuple(sorted(pair))
        known[kind, pair] = Relationship((kind, pair), pair, *pair, kind, {})
    return Graph([Node(name, *rest) for name, rest in nodes.items()], list(known.values()), query.parameters, undirected)


def _variables(patterns) -> list[str]:
    return [element[0] for pattern in patterns for element in pattern if element[0] is not None]


# Patterns


def _matches(graph: Graph, patterns, where, row: dict):
    """Every row with what the patterns of one clause add to it."""

    def paths(rest, row, used):
        if not rest:
            yield row
            return
        first, *rest = rest
        for longer, more in _paths(graph, first, row, used):
            yield from paths(rest, longer, more)

    for found in paths(patterns, row, frozenset()):
        if where is None or _truth(graph, where, found) is True:
            yield found


def _paths(graph: Graph, pattern, row: dict, used: frozenset):
    """Every way to walk a path: the row, and the relationships that are used."""
    for node in graph.nodes:
        longer = _bound(graph, pattern[0], node, row)
        if longer is not None:
            yield from _walks(graph, node, pattern[1:], longer, used)


def _walks(graph: Graph, here: Node, steps, row: dict, used: frozenset):
    if not steps:
        yield row, used
        return
    pattern, next_pattern, *rest = steps
    for relationship in graph.relationships:
        if relationship.key in used or (pattern[1] and relationship.type not in pattern[1]):
            continue
        on_the_way = _bound(graph, pattern, relationship, row)
        if on_the_way is None:
            continue
        for source, target in _directions(graph, relationship, pattern[2]):
            if source != here.id:
                continue
            for node in graph.nodes:
                longer = _bound(graph, next_pattern, node, on_the_way) if node.id == target else None
                if longer is not None:
                    yield from _walks(graph, node, rest, longer, used | {relationship.key})


def _directions(graph: Graph, relationship: Relationship, direction: str) -> set[tuple]:
    """From where to where a relationship may be walked; a loop once."""
    forth = relationship.source, relationship.target
    if graph.is_undirected or direction == "both":
        return {forth, forth[::-1]}
    return {forth if direction == "out" else forth[::-1]}


def _bound(graph: Graph, pattern, element: Node | Relationship, row: dict) -> dict | None:
    """The row with an element under the name that a pattern gives it, or None where the pattern wants another."""
    name = pattern[0]
    if name is not None and name in row and row[name] != element:
        return None
    if isinstance(element, Node) and not set(pattern[1]) <= set(element.labels):
        return None
    for key, operand in pattern[-1]:
        if _compared("=", element.properties.get(key), _value(graph, operand, row)) is not True:
            return None
    return row if name is None else row | {name: element}


# Conditions: True, False, or None for what is unknown


def _truth(graph: Graph, where, row: dict) -> bool | None:
    kind, *parts = where
    if kind in ("and", "or"):
        truths = [_truth(graph, part, row) for part in parts]
        decisive = kind == "or"
        return decisive if decisive in truths else None if None in truths else not decisive
    if kind == "not":
        truth = _truth(graph, parts[0], row)
        return None if truth is None else not truth
    if kind == "compare":
        operator, left, right = parts
        return _compared(operator, _value(graph, left, row), _value(graph, right, row))
    patterns, inner = ([parts[0]], None) if kind == "pattern" else parts
    return any(True for _ in _matches(graph, patterns, inner, row))


def _compared(operator: str, left, right) -> bool | None:
    if left is None or right is None:
        return None
    is_number = [isinstance(side, int | float) and not isinstance(side, bool) for side in (left, right)]
    is_comparable = all(is_number) or type(left) is type(right)
    if operator in ("=", "<>"):
        return (is_comparable and left == right) == (operator == "=")
    return ORDERINGS[operator](left, right) if is_comparable and not isinstance(left, Node | Relationship) else None


def _value(graph: Graph, operand, row: dict):
    kind, *parts = operand
    if kind == "literal":
        return parts[0]
    if kind == "parameter":
        return graph.parameters[parts[0]]
    element = row[parts[0]]
    return element if kind == "variable" or element is None else element.properties.get(parts[1])


# Answers


def _returned(query: Query, graph: Graph, rows: list[dict]) -> list[tuple]:
    def shown(operand, row):
        value = _value(graph, operand, row)
        return value.id if isinstance(value, Node | Relationship) else value

    if ("count",) in query.returns:
        keys = [operand for operand in query.returns if operand != ("count",)]
        groups = Counter(tuple(shown(operand, row) for operand in keys) for row in rows)
        if not keys:
            groups[()] += 0  # nothing is counted as well
        found = []
        for key, number in groups.items():
            values = iter(key)
            found.append(tuple(number if operand == ("count",) else next(values) for operand in query.returns))
    else:
        found = [tuple(shown(operand, row) for operand in query.returns) for row in rows]
    if query.distinct:
        found = list(dict.fromkeys(found))
    for position, is_ascending in reversed(query.order):

        def rank(row, position=position):
            return row[position] is None, 0 if row[position] is None else row[position]  # NULL is larger than any value

        found.sort(key=rank, reverse=not is_ascending)
    return found[: query.limit]
