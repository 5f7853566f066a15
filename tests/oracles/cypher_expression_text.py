"""The text of expressions and conditions that cypher_values.py has as plain data. It imports nothing of ours."""

from __future__ import annotations

from datetime import date, datetime
from random import Random

INFIX = {"+", "-", "*", "/", "%", "^"}
PARTS = {"year", "month", "day", "hour", "minute", "weekDay", "ordinalDay"}


class ExpressionText:
    """One way to write expressions; every choice has the same meaning."""

    def __init__(self, random: Random):
        self.random = random

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def word(self, text: str) -> str:
        """A keyword in any case."""
        return self.random.choice([text, text, text.lower(), text.capitalize()])

    def words(self, *texts: str) -> str:
        return " ".join(map(self.word, texts))

    def name(self, function: str) -> str:
        """The name of a function, in any case."""
        return self.random.choice([function, function, function.lower(), function.upper()])

    # Values

    def operand(self, operand) -> str:
        kind, *parts = operand
        match kind:
            case "parameter":
                return f"${parts[0]}"
            case "literal":
                return literal(parts[0], self.random.choice("\"'"))
            case "call":
                return self.call(*parts)
            case "type":
                return f"{self.name('type')}({parts[0]})"
            case "count":
                return self.random.choice(["count(*)", "COUNT(*)"])
            case "aggregate":
                function, is_distinct, inside = parts
                return f"{self.name(function)}({self.word('DISTINCT') + ' ' if is_distinct else ''}{self.operand(inside)})"
            case "case" | "choice":
                return self.case(kind, parts)
            case "truth":
                return self.condition(parts[0])
            case "nodes" | "relationships" | "range" | "size" | "at" | "of" | "each":
                return self.of_list(kind, parts)
        return ".".join(parts)

    def of_list(self, kind: str, parts) -> str:
        """A list of a path, or what is asked of one."""
        match kind:
            case "nodes" | "relationships":
                return f"{self.name(kind)}({parts[0]})"
            case "range":
                return f"{self.name('range')}({', '.join(map(self.operand, parts))})"
            case "size" if parts[0][0] == "relationships" and self.chance(0.5):
                return f"{self.name('length')}({parts[0][1]})"
            case "size":
                return f"{self.name('size')}({self.operand(parts[0])})"
            case "at":
                end = {("literal", 0): "head", ("literal", -1): "last"}.get(parts[1])
                if end is not None and self.chance(0.5):
                    return f"{self.name(end)}({self.operand(parts[0])})"
                return f"{self.operand(parts[0])}[{self.operand(parts[1])}]"
            case "of":
                return f"{self.operand(parts[0])}.{parts[1]}"
        name, members, inside = parts
        return f"[{name} {self.word('IN')} {self.operand(members)} | {self.operand(inside)}]"

    def inside(self, operand) -> str:
        """An operand of an operator, in parentheses if it has operators itself."""
        text = self.operand(operand)
        is_plain = operand[0] in ("variable", "property", "parameter", "type", "count", "aggregate")
        is_plain |= operand[0] in ("nodes", "relationships", "size", "at", "of", "each")
        is_plain |= operand[0] == "literal" and not text.startswith("-")
        is_plain |= operand[0] == "call" and operand[1] not in INFIX | {"minus"}
        return text if is_plain and not self.chance(0.05) else f"({text})"

    def call(self, function: str, *arguments) -> str:
        match function:
            case function if function in INFIX:
                return f" {function} ".join(map(self.inside, arguments))
            case "minus":
                return f"-{self.inside(arguments[0])}"
            case function if function in PARTS:
                return f"{self.inside(arguments[0])}.{function}"
            case "duration":
                days = arguments[0][1]
                return self.random.choice([f"duration('P{days}D')", f"duration({{days: {days}}})"])
            case "days between":
                return f"duration.inDays({', '.join(map(self.operand, arguments))}).days"
            case "hours between":
                return f"duration.inSeconds({', '.join(map(self.operand, arguments))}).hours"
        return f"{self.name(function)}({', '.join(map(self.operand, arguments))})"

    def case(self, kind: str, parts) -> str:
        *subject, branches, otherwise = parts
        text = [self.word("CASE"), *map(self.operand, subject)]
        for condition, value in branches:
            asked = self.condition(condition) if kind == "case" else self.operand(condition)
            text += [self.word("WHEN"), asked, self.word("THEN"), self.operand(value)]
        text += [self.word("ELSE"), self.operand(otherwise)] if otherwise is not None else []
        return " ".join([*text, self.word("END")])

    # Conditions

    def condition(self, where) -> str:
        kind, *parts = where
        match kind:
            case "and" | "or" | "xor":
                return "(" + f" {self.word(kind.upper())} ".join(map(self.condition, parts)) + ")"
            case "not":
                inside = self.condition(parts[0])
                bare = parts[0][0] in ("exists", "pattern") and self.chance(0.8)
                return f"{self.word('NOT')} " + (inside if bare else f"({inside})")
            case "compare":
                operator, left, right = parts
                if self.chance(0.3):
                    operator, left, right = FLIPPED[operator], right, left
                text = f"{self.inside(left)} {operator} {self.inside(right)}"
                return f"({text})" if self.chance(0.1) else text
            case "holds":
                return self.operand(parts[0])
            case "missing" | "present":
                return f"{self.inside(parts[0])} {self.words('IS', *['NOT'] * (kind == 'present'), 'NULL')}"
            case "member":
                return f"{self.inside(parts[0])} {self.word('IN')} [{', '.join(map(self.operand, parts[1]))}]"
            case "within":
                return f"{self.inside(parts[0])} {self.word('IN')} ${parts[1]}"
            case "text":
                return f"{self.inside(parts[1])} {self.words(*parts[0].split())} {self.inside(parts[2])}"
            case "label":
                name, labels, is_any = parts
                return f"{name}:{('|' if is_any else ':').join(labels)}"
            case "quantified":
                which, name, members, inside = parts
                listed = f"{name} {self.word('IN')} {self.operand(members)}"
                return f"{self.name(which)}({listed} {self.word('WHERE')} {self.condition(inside)})"
            case "inside":
                return f"{self.operand(parts[0])} {self.word('IN')} {self.operand(parts[1])}"
        return self.pattern_condition(kind, parts)

    def pattern_condition(self, kind: str, parts) -> str:
        """A condition about a pattern."""
        raise NotImplementedError


FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def literal(value, quote: str = "'") -> str:
    """A literal of Cypher."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, str):
        return quote + value.replace("\\", "\\\\").replace(quote, f"\\{quote}") + quote
    if isinstance(value, datetime):
        return f"localdatetime('{value.isoformat()}')"
    if isinstance(value, date):
        return f"date('{value.isoformat()}')"
    return "(0.0 / 0.0)" if value != value else str(value)
