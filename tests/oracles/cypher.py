"""Brute force for queries that read a property graph, as openCypher defines them. It imports nothing of ours.

A graph is (nodes, relationships): nodes are {id: (labels, properties)}, relationships are tuples (id, source, target, type,
properties). A query is plain data, so that no parser stands between it and its meaning:

    Query(clauses, returns, distinct, order, limit, parameters, skip)
    clause        ("match" or "optional", patterns, where or None), ("with", With)
    pattern       (node, relationship, node, ...): a path, with one node at least; a NamedPath, if the path has a name
    node          (variable or None, labels, properties): it has all the labels
    relationship  (variable or None, types, direction, properties): of any of the types, or of any type where there are none;
                  the direction is "out", "in" or "both". Of several hops it is (variable or None, types, direction, (fewest,
                  most), properties), and its variable is a list
    properties    ((key, operand), ...)
    where         a condition of cypher_values.py, ("exists", patterns, where or None), ("pattern", pattern),
                  ("label", variable, labels, whether one of them is enough), ("inside", operand, list),
                  ("quantified", "all" or "any" or "none", variable, list, where)
    operand       one of cypher_values.py, ("type", relationship); in what is returned also ("count",), which is count(*), and
                  ("aggregate", function, is_distinct, operand); in an order also ("column", position in returns).
                  Of lists, ("size", list), ("at", list, operand), a member by its place, ("of", operand, key), its property
    list          ("variable", relationship of several hops), ("nodes", path), ("relationships", path), ("range", operand,
                  operand), ("each", variable, list, operand); in an answer it is a tuple
    returns       operands; if there is an aggregate, rows are grouped by those without
    order         ((operand, is_ascending), ...)

The relationships of one clause are different from each other; those of different clauses need not be, nor need nodes. In an
answer a node or a relationship is its id.
"""

from __future__ import annotations

from itertools import count
from typing import Any, NamedTuple

from tests.oracles.cypher_values import aggregated, both, called, compared, either, one_of, opposite, rank, same, text_test


class Returned(NamedTuple):
    """What is returned or passed on: operands, and what becomes of the rows."""

    operands: tuple
    distinct: bool = False
    order: tuple = ()
    skip: int = 0
    limit: int | None = None


class With(NamedTuple):
    """A WITH: names of what is passed on, and a condition on the rows."""

    names: tuple[str, ...]
    returned: Returned
    where: Any = None


class NamedPath(tuple):
    """A pattern whose path has a name."""

    name: str

    @classmethod
    def of(cls, name: str, elements) -> NamedPath:
        made = cls(elements)
        made.name = name
        return made


class Query(NamedTuple):
    """A query as plain data; the text of the module says what its parts are."""

    clauses: tuple
    returns: tuple
    distinct: bool = False
    order: tuple = ()
    limit: int | None = None
    parameters: dict[str, Any] = {}  # noqa: RUF012  (it is never changed)
    skip: int = 0

    @property
    def returned(self) -> Returned:
        return Returned(self.returns, self.distinct, self.order, self.skip, self.limit)


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
    for kind, *clause in query.clauses:
        if kind == "with":
            (passed,) = clause
            found = _returned(passed.returned, searched, rows)
            rows = [dict(zip(passed.names, values, strict=True)) for values in found]
            rows = [row for row in rows if passed.where is None or _truth(searched, passed.where, row) is True]
            continue
        patterns, where = clause
        nothing = dict.fromkeys(_variables(patterns))
        longer = []
        for row in rows:
            found = list(_matches(searched, patterns, where, row))
            longer += found or ([nothing | row] if kind == "optional" else [])
        rows = longer
    return [tuple(map(_shown, values)) for values in _returned(query.returned, searched, rows)]


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
    paths = [pattern.name for pattern in patterns if isinstance(pattern, NamedPath)]
    return [element[0] for pattern in patterns for element in pattern if element[0] is not None] + paths


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
        if longer is None:
            continue
        for found, more, walked in _walks(graph, (node,), pattern[1:], longer, used):
            path = {pattern.name: (walked[::2], walked[1::2])} if isinstance(pattern, NamedPath) else {}
            yield found | path, more


def _walks(graph: Graph, walked: tuple, steps, row: dict, used: frozenset):
    """Every way to walk on, after nodes and the relationships between them."""
    if not steps:
        yield row, used, walked
        return
    pattern, next_pattern, *rest = steps
    is_list = len(pattern) == 5
    for trail, on_the_way in _trails(graph, walked[-1], pattern, row, used):
        relationships = trail[::2]
        on_the_way = on_the_way | ({pattern[0]: relationships} if is_list and pattern[0] is not None else {})
        longer = _bound(graph, next_pattern, trail[-1], on_the_way)
        if longer is not None:
            keys = {relationship.key for relationship in relationships}
            yield from _walks(graph, (*walked, *trail), rest, longer, used | keys)


def _trails(graph: Graph, here: Node, pattern, row: dict, used: frozenset):
    """Every way to follow a relationship pattern, as relationships and the nodes they lead to; no relationship twice."""
    if len(pattern) == 4:
        yield from _steps(graph, here, pattern, row, used)
        return
    _, types, direction, (fewest, most), properties = pattern
    step = None, types, direction, properties
    trails = [((), here)]
    for length in range(1, most + 1):
        trails = [
            ((*trail, *more), more[-1])
            for trail, end in trails
            for more, _ in _steps(graph, end, step, row, used | {relationship.key for relationship in trail[::2]})
        ]
        if length >= fewest:
            yield from ((trail, row) for trail, _ in trails)


def _steps(graph: Graph, here: Node, pattern, row: dict, used: frozenset):
    for relationship in graph.relationships:
        if relationship.key in used or (pattern[1] and relationship.type not in pattern[1]):
            continue
        on_the_way = _bound(graph, pattern, relationship, row)
        if on_the_way is None:
            continue
        for source, target in _directions(graph, relationship, pattern[2]):
            for node in graph.nodes if source == here.id else ():
                if node.id == target:
                    yield (relationship, node), on_the_way


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
        if compared("=", element.properties.get(key), _value(graph, operand, row)) is not True:
            return None
    return row if name is None else row | {name: element}


# Conditions: True, False, or None for what is unknown


def _truth(graph: Graph, where, row: dict) -> bool | None:
    kind, *parts = where
    match kind:
        case "and" | "or" | "xor":
            return {"and": both, "or": either, "xor": one_of}[kind]([_truth(graph, part, row) for part in parts])
        case "not":
            return opposite(_truth(graph, parts[0], row))
        case "compare":
            operator, left, right = parts
            return compared(operator, _value(graph, left, row), _value(graph, right, row))
        case "holds":
            return _value(graph, parts[0], row)
        case "missing" | "present":
            return (_value(graph, parts[0], row) is None) == (kind == "missing")
        case "member" | "within":
            value = _value(graph, parts[0], row)
            members = graph.parameters[parts[1]] if kind == "within" else [_value(graph, part, row) for part in parts[1]]
            return either([compared("=", value, member) for member in members])
        case "text":
            return text_test(parts[0], *(_value(graph, part, row) for part in parts[1:]))
        case "label":
            name, labels, is_any = parts
            if row[name] is None:
                return None
            has = [label in row[name].labels for label in labels]
            return any(has) if is_any else all(has)
        case "quantified":
            which, name, members, inside = parts
            if (of := _value(graph, members, row)) is None:
                return None
            truths = [_truth(graph, inside, row | {name: member}) for member in of]
            return both(truths) if which == "all" else either(truths) if which == "any" else opposite(either(truths))
        case "inside":
            value, of = (_value(graph, part, row) for part in parts)
            return None if of is None else either([compared("=", value, member) for member in of])
    patterns, inner = ([parts[0]], None) if kind == "pattern" else parts
    return any(True for _ in _matches(graph, patterns, inner, row))


# Values; `context` has the rows of a group, and the columns of a row that is sorted


class Context(NamedTuple):
    """What an operand may be about besides its row."""

    rows: list[dict] | None = None
    columns: tuple = ()


def _value(graph: Graph, operand, row: dict, context: Context | None = None):
    kind, *parts = operand
    match kind:
        case "literal":
            return parts[0]
        case "parameter":
            return graph.parameters[parts[0]]
        case "variable":
            return row[parts[0]]
        case "property":
            return None if row[parts[0]] is None else row[parts[0]].properties.get(parts[1])
        case "nodes" | "relationships":
            return None if row[parts[0]] is None else row[parts[0]][kind == "relationships"]
        case "size":
            of = _value(graph, parts[0], row, context)
            return None if of is None else len(of)
        case "range":
            first, last = (_value(graph, part, row, context) for part in parts)
            return None if last is None else tuple(range(first, last + 1))
        case "at":
            of, place = (_value(graph, part, row, context) for part in parts)
            return None if of is None or not -len(of) <= place < len(of) else of[place]
        case "of":
            element = _value(graph, parts[0], row, context)
            return None if element is None else element.properties.get(parts[1])
        case "each":
            name, members, inside = parts
            of = _value(graph, members, row, context)
            return None if of is None else tuple(_value(graph, inside, row | {name: member}, context) for member in of)
        case "type":
            return None if row[parts[0]] is None else row[parts[0]].type
        case "call":
            return called(parts[0], [_value(graph, part, row, context) for part in parts[1:]])
        case "case":
            branches, otherwise = parts
            chosen = next((value for where, value in branches if _truth(graph, where, row) is True), otherwise)
            return None if chosen is None else _value(graph, chosen, row, context)
        case "choice":
            subject, branches, otherwise = parts
            value = _value(graph, subject, row, context)
            chosen = next((v for w, v in branches if compared("=", value, _value(graph, w, row, context)) is True), otherwise)
            return None if chosen is None else _value(graph, chosen, row, context)
        case "truth":
            return _truth(graph, parts[0], row)
        case "count":
            return len(context.rows)
        case "aggregate":
            function, is_distinct, inside = parts
            values = [_value(graph, inside, each) for each in context.rows]
            return aggregated(function, is_distinct, [_identity(v) if function == "count" else _shown(v) for v in values])
        case "column":
            return context.columns[parts[0]]
    raise AssertionError(operand)


def has_aggregate(operand) -> bool:
    """Whether an operand is about the rows of a group."""
    inside = (part for part in operand if isinstance(part, tuple) and part)
    return operand[0] in ("count", "aggregate") or any(map(has_aggregate, inside))


def _identity(value):
    """What a node or a relationship is, if two have the same id."""
    if isinstance(value, Node):
        return "node", value.id
    if type(value) is tuple:
        return tuple(map(_identity, value))
    return ("relationship", value.key) if isinstance(value, Relationship) else value


def _shown(value):
    if type(value) is tuple:
        return tuple(map(_shown, value))
    return value.id if isinstance(value, Node | Relationship) else value


# Answers


def _returned(returned: Returned, graph: Graph, rows: list[dict]) -> list[tuple]:
    """The values that are returned, in the order that is asked for."""
    contexts = [Context() for _ in rows]
    if any(map(has_aggregate, returned.operands)):
        keys = [operand for operand in returned.operands if not has_aggregate(operand)]
        groups: dict[tuple, list[dict]] = {} if keys else {(): []}
        for row in rows:
            groups.setdefault(tuple(same(_identity(_value(graph, key, row))) for key in keys), []).append(row)
        rows = [members[0] if members else {} for members in groups.values()]
        contexts = [Context(members) for members in groups.values()]
    found = []
    for row, context in zip(rows, contexts, strict=True):
        values = tuple(_value(graph, operand, row, context) for operand in returned.operands)
        found.append((values, row, context._replace(columns=values)))
    if returned.distinct:
        found = list({tuple(same(_identity(v)) for v in each[0]): each for each in reversed(found)}.values())[::-1]
    for operand, is_ascending in reversed(returned.order):
        keyed = [(rank(_shown(_value(graph, operand, row, context))), each) for each in found for _, row, context in [each]]
        found = [each for _, each in sorted(keyed, key=lambda pair: pair[0], reverse=not is_ascending)]
    cut = found[returned.skip :]
    return [values for values, _, _ in (cut if returned.limit is None else cut[: returned.limit])]
