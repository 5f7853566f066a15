"""The text of a query that cypher.py has as plain data: in any spelling of openCypher, or as the Kuzu database needs it.

It imports nothing of ours.
"""

from __future__ import annotations

from itertools import combinations, count, pairwise
from random import Random

from tests.oracles.cypher import Query

FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
OPPOSITE = {"out": "in", "in": "out", "both": "both"}


def render(query: Query, random: Random) -> str:
    """The query as Cypher; only the spelling is drawn."""
    return Spelling(random).query(query)


def _conditions(where) -> list:
    """The parts of a condition that have to hold together."""
    if where is None:
        return []
    return [part for one in where[1:] for part in _conditions(one)] if where[0] == "and" else [where]


class Spelling:
    """One way to write; every choice has the same meaning."""

    def __init__(self, random: Random):
        self.random = random

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def word(self, text: str) -> str:
        """A keyword in any case."""
        return self.random.choice([text, text, text.lower(), text.capitalize()])

    def words(self, *texts: str) -> str:
        return " ".join(map(self.word, texts))

    def query(self, query: Query) -> str:
        lines = []
        for kind, patterns, where in query.clauses:
            lines.append(self.words(*["OPTIONAL"] * (kind == "optional"), "MATCH") + " " + self.clause(patterns, where))
        lines.append(self.returned(query))
        return self.random.choice([" ", "\n"]).join(lines)

    def clause(self, patterns, where) -> str:
        patterns, conditions = self.rewritten(list(patterns), _conditions(where))
        text = ", ".join(map(self.path, patterns))
        return f"{text} {self.word('WHERE')} {self.all_of(conditions)}" if conditions else text

    # Rewrites within a clause

    def rewritten(self, patterns: list, conditions: list) -> tuple[list, list]:
        """Paths cut or joined at their named nodes and turned round, and properties moved into the condition."""
        patterns = [part for pattern in patterns for part in self.cut(pattern)]
        self.random.shuffle(patterns)
        if len(patterns) > 1 and self.chance(0.5):
            first, second, *rest = patterns
            name = first[-1][0]
            if name is not None and name == second[0][0]:
                node = tuple(one + other for one, other in zip(first[-1][1:], second[0][1:], strict=True))
                patterns = [(*first[:-1], (name, *node), *second[1:]), *rest]
        moved = []
        for number, pattern in enumerate(patterns):
            elements = []
            for *rest, properties in self.turned(pattern):
                if rest[0] is not None and self.chance(0.4):
                    moved += [("compare", "=", ("property", rest[0], key), value) for key, value in properties]
                    properties = ()
                elements.append((*rest, properties))
            patterns[number] = tuple(elements)
        conditions = conditions + moved
        self.random.shuffle(conditions)
        return patterns, conditions

    def cut(self, pattern) -> list:
        for place in range(2, len(pattern) - 1, 2):
            name = pattern[place][0]
            if name is not None and self.chance(0.3):
                return [pattern[: place + 1], ((name, (), ()), *pattern[place + 1 :])]
        return [pattern]

    def turned(self, pattern):
        if self.chance(0.7):
            return pattern
        turned = list(pattern[::-1])
        turned[1::2] = [(name, types, OPPOSITE[direction], rest) for name, types, direction, rest in turned[1::2]]
        return tuple(turned)

    # Patterns

    def path(self, pattern) -> str:
        return "".join(self.relationship(*one) if place % 2 else self.node(*one) for place, one in enumerate(pattern))

    def node(self, name, labels, properties) -> str:
        inside = (name or "") + "".join(f":{label}" for label in labels)
        return f"({inside}{self.properties(properties, inside)})"

    def relationship(self, name, types, direction, properties) -> str:
        inside = (name or "") + (":" + "|".join(types) if types else "")
        inside += self.properties(properties, inside)
        brackets = f"[{inside}]" if inside or self.chance(0.5) else ""
        either = self.random.choice(["--", "--", "<-->"])
        left, right = {"out": "-->", "in": "<--", "both": either}[direction].split("-", 1)
        return f"{left}-{brackets}{right}"

    def properties(self, properties, before: str) -> str:
        pairs = ", ".join(f"{key}{self.random.choice([': ', ':'])}{self.operand(value)}" for key, value in properties)
        return (" " if before else "") + f"{{{pairs}}}" if properties else ""

    # Conditions

    def all_of(self, conditions) -> str:
        return f" {self.word('AND')} ".join(map(self.condition, conditions))

    def condition(self, where) -> str:
        kind, *parts = where
        if kind in ("and", "or"):
            return "(" + f" {self.word(kind.upper())} ".join(map(self.condition, parts)) + ")"
        if kind == "not":
            inside = self.condition(parts[0])
            return f"{self.word('NOT')} " + (
                inside if parts[0][0] in ("exists", "pattern") and self.chance(0.8) else f"({inside})"
            )
        if kind == "compare":
            operator, left, right = parts
            if self.chance(0.3):
                operator, left, right = FLIPPED[operator], right, left
            text = f"{self.operand(left)} {operator} {self.operand(right)}"
            return f"({text})" if self.chance(0.1) else text
        if kind == "pattern":
            return self.path(self.turned(parts[0]))
        match = f"{self.word('MATCH')} " if self.chance(0.5) else ""
        return f"{self.word('EXISTS')} {{ {match}{self.clause(*parts)} }}"

    def operand(self, operand) -> str:
        kind, *parts = operand
        if kind == "parameter":
            return f"${parts[0]}"
        if kind == "literal":
            return _literal(parts[0], self.random.choice("\"'"))
        return ".".join(parts)

    # What is returned

    def returned(self, query: Query) -> str:
        text = self.words("RETURN", *["DISTINCT"] * query.distinct)
        columns, names = [], []
        for number, operand in enumerate(query.returns):
            value = self.random.choice(["count(*)", "COUNT(*)"]) if operand == ("count",) else self.operand(operand)
            names.append(f"c{number}" if self.chance(0.2) else value)
            columns.append(value if names[-1] == value else f"{value} {self.word('AS')} {names[-1]}")
        text += " " + ", ".join(columns)
        if query.order:
            ways = {True: ["", "", " ASC", " ascending"], False: [" DESC", " desc", " DESCENDING"]}
            keys = (names[position] + self.random.choice(ways[is_ascending]) for position, is_ascending in query.order)
            text += f" {self.words('ORDER', 'BY')} " + ", ".join(keys)
        if query.limit is not None:
            text += f" {self.word('LIMIT')} {query.limit}"
        return text


def _literal(value, quote: str = "'") -> str:
    if isinstance(value, str):
        return quote + value.replace("\\", "\\\\").replace(quote, f"\\{quote}") + quote
    return str(value)


def render_kuzu(query: Query, graph=None) -> str | None:
    """The query for a graph that kuzu_twin.py has loaded, or None where Kuzu (0.11) does not do what openCypher says.

    Its patterns may use a relationship twice, so that conditions keep them apart; its nodes have one label, so that labels are
    columns. What is left out, see `_is_beyond_kuzu`. Without a graph, this is about any graph.
    """
    return None if _is_beyond_kuzu(query, graph) else _Kuzu().query(query)


def _is_beyond_kuzu(query: Query, graph) -> bool:
    ends = None if graph is None else [frozenset(one[1:3]) for one in graph[1]]
    has_loops = ends is None or any(len(pair) == 1 for pair in ends)
    has_parallels = ends is None or len(set(ends)) < len(ends)
    matched = [pattern for _, patterns, _ in query.clauses for pattern in patterns]
    inner = [one for _, _, where in query.clauses for one in _subpatterns(where)]

    # it finds a loop twice where the direction is left open
    is_open = any(relationship[2] == "both" for pattern in matched for relationship in pattern[1::2])
    is_set = query.distinct and ("count",) not in query.returns
    if has_loops and is_open and not is_set:
        return True
    # it pairs up the parallel relationships of a cycle, instead of crossing them
    if has_parallels and any(_shape(patterns)[1] for patterns in (matched, *(patterns for patterns, _ in inner))):
        return True
    # it takes EXISTS for unknown, not for false, where a property or a node from outside is NULL
    outer = _names(matched)
    optional = [(_names(patterns), patterns, where) for kind, patterns, where in query.clauses if kind == "optional"]
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


def _names(patterns) -> set[str]:
    return {element[0] for pattern in patterns for element in pattern} - {None}


def _names_in(where, *operands: str) -> set[str]:
    """The variables that the comparisons of a condition ask for, themselves or for a property."""
    kind, *parts = where or ("and",)
    if kind == "compare":
        return {operand[1] for operand in parts[1:] if operand[0] in (operands or ("variable", "property"))}
    return {name for part in parts for name in _names_in(part, *operands)} if kind in ("and", "or", "not") else set()


def _subpatterns(where) -> list:
    """The patterns, and their condition, of every part of a condition that asks for some."""
    kind, *parts = where or ("and",)
    if kind in ("and", "or", "not"):
        return [one for part in parts for one in _subpatterns(part)]
    return {"exists": [tuple(parts)], "pattern": [((parts[0],), None)]}.get(kind, [])


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


class _Kuzu:
    """A query in the making; elements without a name get one."""

    def __init__(self):
        self.numbers = count()

    def query(self, query: Query) -> str | None:
        lines = []
        for kind, patterns, where in query.clauses:
            lines.append(("OPTIONAL MATCH " if kind == "optional" else "MATCH ") + self.clause(patterns, where))
        kinds = {
            element[0]: "rid" if place % 2 else "id"
            for _, patterns, _ in query.clauses
            for pattern in patterns
            for place, element in enumerate(pattern)
        }
        columns = []
        for number, (kind, *parts) in enumerate(query.returns):
            if kind == "variable":
                parts.append(kinds[parts[0]])
            columns.append(f"{'.'.join(parts) or 'count(*)'} AS c{number}")
        text = f"RETURN {'DISTINCT ' * query.distinct}{', '.join(columns)}"
        if query.order:
            text += " ORDER BY " + ", ".join(f"c{n} {'ASC' if is_ascending else 'DESC'}" for n, is_ascending in query.order)
        return "\n".join([*lines, text + (f" LIMIT {query.limit}" if query.limit is not None else "")])

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
        conditions += map(self.condition, _conditions(where))
        return ", ".join(paths) + (" WHERE " + " AND ".join(conditions) if conditions else "")

    def condition(self, where) -> str:
        kind, *parts = where
        if kind in ("and", "or"):
            return "(" + f" {kind.upper()} ".join(map(self.condition, parts)) + ")"
        if kind == "not":
            return f"NOT ({self.condition(parts[0])})"
        if kind == "compare":
            operator, left, right = parts
            return f"{self.operand(left)} {operator} {self.operand(right)}"
        patterns, inner = ([parts[0]], None) if kind == "pattern" else parts
        return f"EXISTS {{ MATCH {self.clause(patterns, inner)} }}"

    def operand(self, operand) -> str:
        kind, *parts = operand
        if kind == "variable":
            return f"id({parts[0]})"
        return f"${parts[0]}" if kind == "parameter" else _literal(parts[0]) if kind == "literal" else ".".join(parts)
