"""The text of a query that cypher.py has as plain data, in any spelling of openCypher. It imports nothing of ours."""

from __future__ import annotations

from random import Random

from tests.oracles.cypher import NamedPath, Query, Returned
from tests.oracles.cypher_expression_text import ExpressionText

OPPOSITE = {"out": "in", "in": "out", "both": "both"}


def render(query: Query, random: Random) -> str:
    """The query as Cypher; only the spelling is drawn."""
    return Spelling(random).query(query)


def conditions_of(where) -> list:
    """The parts of a condition that have to hold together."""
    if where is None:
        return []
    return [part for one in where[1:] for part in conditions_of(one)] if where[0] == "and" else [where]


def _is_whole(pattern) -> bool:
    """Whether a pattern is written as it is: somebody may ask for the order of its relationships."""
    return isinstance(pattern, NamedPath) or any(len(one) == 5 for one in pattern[1::2])


class Spelling(ExpressionText):
    """One way to write; every choice has the same meaning."""

    def query(self, query: Query) -> str:
        lines = []
        for kind, *clause in query.clauses:
            if kind == "with":
                (passed,) = clause
                where = "" if passed.where is None else f" {self.word('WHERE')} {self.condition(passed.where)}"
                lines.append(self.returned("WITH", passed.returned, passed.names) + where)
            else:
                lines.append(self.words(*["OPTIONAL"] * (kind == "optional"), "MATCH") + " " + self.clause(*clause))
        lines.append(self.returned("RETURN", query.returned))
        return self.random.choice([" ", "\n"]).join(lines)

    def clause(self, patterns, where) -> str:
        patterns, conditions = self.rewritten(list(patterns), conditions_of(where))
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
            if name is not None and name == second[0][0] and not _is_whole(first) and not _is_whole(second):
                node = tuple(one + other for one, other in zip(first[-1][1:], second[0][1:], strict=True))
                patterns = [(*first[:-1], (name, *node), *second[1:]), *rest]
        moved = []
        for number, pattern in enumerate(patterns):
            if _is_whole(pattern):
                continue
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
        if _is_whole(pattern):
            return [pattern]
        for place in range(2, len(pattern) - 1, 2):
            name = pattern[place][0]
            if name is not None and self.chance(0.3):
                return [pattern[: place + 1], ((name, (), ()), *pattern[place + 1 :])]
        return [pattern]

    def turned(self, pattern):
        if _is_whole(pattern) or self.chance(0.7):
            return pattern
        turned = list(pattern[::-1])
        turned[1::2] = [(name, types, OPPOSITE[direction], rest) for name, types, direction, rest in turned[1::2]]
        return tuple(turned)

    # Patterns

    def path(self, pattern) -> str:
        text = "".join(self.relationship(*one) if place % 2 else self.node(*one) for place, one in enumerate(pattern))
        return f"{pattern.name} = {text}" if isinstance(pattern, NamedPath) else text

    def node(self, name, labels, properties) -> str:
        inside = (name or "") + "".join(f":{label}" for label in labels)
        return f"({inside}{self.properties(properties, inside)})"

    def relationship(self, name, types, direction, *rest) -> str:
        *hops, properties = rest
        inside = (name or "") + (":" + "|".join(types) if types else "") + "".join(map(self.hops, hops))
        inside += self.properties(properties, inside)
        brackets = f"[{inside}]" if inside or self.chance(0.5) else ""
        either = self.random.choice(["--", "--", "<-->"])
        left, right = {"out": "-->", "in": "<--", "both": either}[direction].split("-", 1)
        return f"{left}-{brackets}{right}"

    def hops(self, bounds: tuple[int, int]) -> str:
        """The bounds of a length."""
        fewest, most = bounds
        if fewest == most and self.chance(0.7):
            return f"*{most}"
        return f"*..{most}" if fewest == 1 and self.chance(0.3) else f"*{fewest}..{most}"

    def properties(self, properties, before: str) -> str:
        pairs = ", ".join(f"{key}{self.random.choice([': ', ':'])}{self.operand(value)}" for key, value in properties)
        return (" " if before else "") + f"{{{pairs}}}" if properties else ""

    # Conditions

    def all_of(self, conditions) -> str:
        return f" {self.word('AND')} ".join(map(self.condition, conditions))

    def pattern_condition(self, kind: str, parts) -> str:
        if kind == "pattern":
            return self.path(self.turned(parts[0]))
        match = f"{self.word('MATCH')} " if self.chance(0.5) else ""
        return f"{self.word('EXISTS')} {{ {match}{self.clause(*parts)} }}"

    # What is returned

    def returned(self, keyword: str, returned: Returned, names: tuple[str, ...] | None = None) -> str:
        """A RETURN, or a WITH, which gives names to everything."""
        text = self.words(keyword, *["DISTINCT"] * returned.distinct)
        self.columns, columns = [], []
        for number, operand in enumerate(returned.operands):
            value = self.operand(operand)
            named = names[number] if names is not None else f"c{number}" if self.chance(0.2) else None
            is_natural = named is None or operand == ("variable", named)
            self.columns.append(named or value)
            columns.append(value if is_natural else f"{value} {self.word('AS')} {named}")
        text += " " + ", ".join(columns)
        if returned.order:
            ways = {True: ["", "", " ASC", " ascending"], False: [" DESC", " desc", " DESCENDING"]}
            keys = (self.operand(operand) + self.random.choice(ways[is_ascending]) for operand, is_ascending in returned.order)
            text += f" {self.words('ORDER', 'BY')} " + ", ".join(keys)
        if returned.skip:
            text += f" {self.word('SKIP')} {returned.skip}"
        if returned.limit is not None:
            text += f" {self.word('LIMIT')} {returned.limit}"
        return text

    def operand(self, operand) -> str:
        return self.columns[operand[1]] if operand[0] == "column" else super().operand(operand)

    def inside(self, operand) -> str:
        return f"({self.operand(operand)})" if operand[0] == "column" else super().inside(operand)
