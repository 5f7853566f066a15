"""The text of a query that cypher.py has as plain data, as the Kuzu database (0.11) needs it. It imports nothing of ours."""

from __future__ import annotations

from itertools import combinations, count, pairwise
from random import Random

from tests.oracles.cypher import Query, Returned
from tests.oracles.cypher_expression_text import ExpressionText, literal
from tests.oracles.cypher_text import conditions_of

CALLS = {"+", "-", "*", "/", "%", "minus", "toLower", "toUpper", "size", "coalesce", "abs"}
"""Functions of integers and text that mean the same there."""
AGGREGATES = {"count", "sum", "min", "max", "avg"}


def render_kuzu(query: Query, graph=None) -> str | None:
    """The query for a graph that kuzu_twin.py has loaded, or None where Kuzu (0.11) does not do what openCypher says.

    Its patterns may use a relationship twice, so that conditions keep them apart; its nodes have one label, so that labels are
    columns. What is left out, see `_is_beyond_kuzu`. Without a graph, this is about any graph.
    """
    return None if _is_beyond_kuzu(query, graph) else _Kuzu().query(query)


def _is_beyond_kuzu(query: Query, graph) -> bool:
    if not all(_is_known(part) for part in (query.clauses, query.returns, query.order)):
        return True
    ends = None if graph is None else [frozenset(one[1:3]) for one in graph[1]]
    has_loops = ends is None or any(len(pair) == 1 for pair in ends)
    has_parallels = ends is None or len(set(ends)) < len(ends)
    clauses = [clause for clause in query.clauses if clause[0] != "with"]
    passed = [clause[1] for clause in query.clauses if clause[0] == "with"]
    matched = [pattern for _, patterns, _ in clauses for pattern in patterns]
    inner = [one for _, _, where in clauses for one in _subpatterns(where)]

    # it finds a loop twice where the direction is left open
    is_open = any(relationship[2] == "both" for pattern in matched for relationship in pattern[1::2])
    is_set = query.distinct and not passed and ("count",) not in query.returns
    if has_loops and is_open and not is_set:
        return True
    # it takes a relationship for two if its direction is left open, and counts nothing beside what is DISTINCT
    either = {one[0] for pattern in matched for one in pattern[1::2] if one[2] == "both"} - {None}
    for returned in (query.returned, *(one.returned for one in passed)):
        aggregates = [one for operand in returned.operands for one in _aggregates(operand)]
        if (aggregates or passed) and either & _names_in(returned.operands, "variable"):
            return True
        if len(aggregates) > 1 and any(one[0] == "aggregate" and one[2] for one in aggregates):
            return True
    # it pairs up the parallel relationships of a cycle, instead of crossing them
    if has_parallels and any(_shape(patterns)[1] for patterns in (matched, *(patterns for patterns, _ in inner))):
        return True
    # it takes EXISTS for unknown, not for false, where a property or a node from outside is NULL
    outer = _names(matched)
    optional = [(_names(patterns), patterns, where) for kind, patterns, where in clauses if kind == "optional"]
    for patterns, where in inner:
        constrained = {element[0] for pattern in patterns for element in pattern if element[-1]}
        if outer & (_names_in(where) | constrained) or any(_names(patterns) & own for own, _, _ in optional):
            return True
    # it lets a pattern that is one node match NULL
    if any(len(pattern) == 1 and any(pattern[0][0] in own for own, _, _ in optional) for pattern in matched):
        return True
    # it forgets what binds the patterns of an optional clause that have no name in common, and fails where its condition
    # compares with an element from outside
    return any(_shape(patterns)[0] > 1 or _names_in(where, "variable") - own for own, patterns, where in optional)


def _is_known(part) -> bool:
    """Whether the parts of some plain data mean the same in Kuzu: no floats, no times, no functions that are unknown there."""
    if isinstance(part, float) or type(part).__module__ == "datetime":
        return False
    if not isinstance(part, tuple):
        return True
    match part:
        case ("call", function, *arguments) if function not in CALLS or (function == "+" and _is_text(arguments)):
            return False
        case ("aggregate", function, *_) if function not in AGGREGATES:
            return False
        case ("property", _, "f" | "t"):
            return False
        case ("missing" | "present", ("parameter" | "literal", _)):  # it takes a constant for NULL
            return False
        case ("text", "=~", *_) | ("within", *_) | ("type", _):
            return False
        case ("member", one, members) if ("literal", None) in members or "parameter" in (one[0], *(m[0] for m in members)):
            return False
    return all(map(_is_known, part))


def _aggregates(part) -> list:
    if not isinstance(part, tuple) or not part:
        return []
    return [part] if part[0] in ("count", "aggregate") else [one for each in part for one in _aggregates(each)]


def _is_text(part) -> bool:
    if isinstance(part, str):
        return False
    if isinstance(part, tuple) and part and part[0] in ("property", "literal"):
        return (part[0] == "property" and part[2] == "s") or (isinstance(part[1], str) and part[0] == "literal")
    return isinstance(part, tuple | list) and any(map(_is_text, part))


def _names(patterns) -> set[str]:
    return {element[0] for pattern in patterns for element in pattern} - {None}


def _names_in(part, *operands: str) -> set[str]:
    """The variables that a condition asks for outside of patterns, themselves or for a property."""
    if not isinstance(part, tuple) or (part and part[0] in ("exists", "pattern")):
        return set()
    if part and part[0] in ("variable", "property", "label"):
        return {part[1]} if part[0] in (operands or ("variable", "property", "label")) else set()
    return {name for each in part for name in _names_in(each, *operands)}


def _subpatterns(part) -> list:
    """The patterns, and their condition, of every part of a condition that asks for some."""
    if not isinstance(part, tuple) or not part:
        return []
    if part[0] in ("exists", "pattern"):
        return [tuple(part[1:])] if part[0] == "exists" else [((part[1],), None)]
    return [one for each in part for one in _subpatterns(each)]


def _shape(patterns) -> tuple[int, bool]:
    """How many components some paths have, and whether they close a cycle."""
    group: dict = {}
    is_cyclic = False
    for number, pattern in enumerate(patterns):
        nodes = [node[0] or (number, place) for place, node in enumerate(pattern[::2])]
        for node in nodes:
            group.setdefault(node, node)
        for one, other in pairwise(nodes):
            is_cyclic |= group[one] == group[other]
            merged = group[other]
            group = {node: group[one] if of == merged else of for node, of in group.items()}
    return len(set(group.values())), is_cyclic


class _Kuzu(ExpressionText):
    """A query in the making; elements without a name get one."""

    def __init__(self):
        super().__init__(Random(0))
        self.numbers = count()
        self.kinds: dict[str, str] = {}

    def chance(self, probability: float) -> bool:
        return False

    def word(self, text: str) -> str:
        return text

    def name(self, function: str) -> str:
        return {"toLower": "lower", "toUpper": "upper"}.get(function, function)

    def query(self, query: Query) -> str | None:
        lines = []
        for kind, *clause in query.clauses:
            if kind == "with":
                (passed,) = clause
                lines.append(self.returned("WITH", passed.returned, passed.names))
                operands = zip(passed.names, passed.returned.operands, strict=True)
                self.kinds = {name: self.kinds[of[1]] for name, of in operands if of[0] == "variable" and of[1] in self.kinds}
                lines += [] if passed.where is None else [f"WHERE {self.condition(passed.where)}"]
                continue
            patterns, _ = clause
            self.kinds |= {
                element[0]: "rid" if place % 2 else "id" for pattern in patterns for place, element in enumerate(pattern)
            }
            lines.append(("OPTIONAL MATCH " if kind == "optional" else "MATCH ") + self.clause(*clause))
        return "\n".join([*lines, self.returned("RETURN", query.returned, None)])

    def returned(self, keyword: str, returned: Returned, names: tuple[str, ...] | None) -> str:
        columns = []
        self.columns = [f"c{number}" for number in range(len(returned.operands))] if names is None else list(names)
        for name, operand in zip(list(self.columns), returned.operands, strict=True):
            kind, *parts = operand
            if kind == "variable" and parts[0] in self.kinds:
                shown = parts[0] if keyword == "WITH" else f"{parts[0]}.{self.kinds[parts[0]]}"
            else:
                shown = self.operand(operand)
            columns.append(shown if shown == name else f"{shown} AS {name}")
            if kind == "variable" and parts[0] in self.kinds and keyword == "WITH":
                self.columns[self.columns.index(name)] = f"{name}.{self.kinds[parts[0]]}"  # it does not sort by nodes
        text = f"{keyword} {'DISTINCT ' * returned.distinct}{', '.join(columns)}"
        if returned.order and (keyword == "RETURN" or returned.skip or returned.limit is not None):
            keys = (f"{self.operand(operand)} {'ASC' if is_up else 'DESC'}" for operand, is_up in returned.order)
            text += " ORDER BY " + ", ".join(keys)
        text += f" SKIP {returned.skip}" if returned.skip else ""
        return text + (f" LIMIT {returned.limit}" if returned.limit is not None else "")

    def clause(self, patterns, where) -> str:
        conditions, relationships, paths = [], [], []
        for pattern in patterns:
            path = ""
            for place, element in enumerate(pattern):
                name = element[0] or f"_{next(self.numbers)}"
                conditions += [f"{name}.{key} = {self.operand(value)}" for key, value in element[-1]]
                if place % 2:
                    relationships.append(name)
                    kinds = ":" + "|".join(element[1]) if element[1] else ""
                    left, right = {"out": ("-", "->"), "in": ("<-", "-"), "both": ("-", "-")}[element[2]]
                    path += f"{left}[{name}{kinds}]{right}"
                else:
                    conditions += [f"{name}.is_{label}" for label in element[1]]
                    path += f"({name}:N)"
            paths.append(path)
        conditions += [f"id({one}) <> id({other})" for one, other in combinations(relationships, 2)]
        conditions += map(self.condition, conditions_of(where))
        return ", ".join(paths) + (" WHERE " + " AND ".join(conditions) if conditions else "")

    def condition(self, where) -> str:
        kind, *parts = where
        if kind == "label":
            name, labels, is_any = parts
            return "(" + (" OR " if is_any else " AND ").join(f"{name}.is_{label}" for label in labels) + ")"
        return super().condition(where)

    def pattern_condition(self, kind: str, parts) -> str:
        patterns, inner = ([parts[0]], None) if kind == "pattern" else parts
        self.kinds |= {
            element[0]: "rid" if place % 2 else "id" for pattern in patterns for place, element in enumerate(pattern)
        }
        return f"EXISTS {{ MATCH {self.clause(patterns, inner)} }}"

    def operand(self, operand) -> str:
        kind, *parts = operand
        match kind:
            case "variable" if parts[0] in self.kinds:
                return f"id({parts[0]})"
            case "literal":
                return literal(parts[0])
            case "column":
                return self.columns[parts[0]]
            case "aggregate" if parts[0] == "sum":
                return f"coalesce({super().operand(operand)}, 0)"
        return super().operand(operand)
