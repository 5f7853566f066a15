"""Expressions and conditions drawn at random, as plain data of cypher_values.py. It imports nothing of ours."""

from __future__ import annotations

from datetime import datetime
from random import Random

NUMBERS, FLOATS = [0, 1, 2, -3], [0.5, -1.5, 2.0, float("nan")]
WORDS = ["p", "q", "it's", " Pq ", "", "10", "1.5"]
TIMES = [datetime(2024, 2, 28, 23, 30), datetime(2024, 3, 1), datetime(2023, 12, 31, 12, 0, 5)]
TYPES_OF_KEYS = {"x": "integer", "y": "integer", "w": "integer", "f": "float", "s": "text", "b": "truth", "t": "time"}
VALUES = {"integer": NUMBERS, "float": FLOATS, "text": WORDS, "truth": [True, False], "time": TIMES}
COMPARED = ["=", "<>", "<", "<=", ">", ">="]
PATTERNS = [".*", "p.*", "(?i)P", "[a-q]+", "\\d+", "it'?s", "(p|q)"]


class DrawnValues:
    """Draws expressions over what is bound: nodes and relationships with properties, and values that a WITH has named."""

    random: Random
    bound: dict[str, str]
    """Variables, and whether each is a node, a relationship, or of a type of VALUES."""
    keys: dict[str, list[str]]
    """The properties of nodes and of relationships."""
    parameters: dict[str, object]

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def leaves(self, kind: str) -> list:
        """What has values of a type: properties, and variables."""
        found = [("variable", name) for name, of in self.bound.items() if of == kind]
        for name, of in self.bound.items():
            found += [("property", name, key) for key in self.keys.get(of, ()) if TYPES_OF_KEYS[key] == kind]
        return found

    def constant(self, kind: str):
        """A literal or a parameter."""
        value = self.random.choice([v for v in VALUES[kind] if v == v])
        if not self.chance(0.15) or kind == "time":
            return "literal", value
        name = f"p{len(self.parameters)}"
        self.parameters[name] = value
        return "parameter", name

    def leaf(self, kind: str):
        known = self.leaves(kind)
        if kind == "time" and not known:
            return "literal", self.random.choice(TIMES)
        return self.random.choice(known) if known and self.chance(0.75) else self.constant(kind)

    def value(self, kind: str, depth: int):
        """An expression of a type."""
        if depth == 0 or self.chance(0.35):
            return self.leaf(kind)
        if self.chance(0.15):
            return self.chosen(kind, depth)
        return {
            "integer": self.integer,
            "float": self.float,
            "text": self.text,
            "truth": lambda d: ("truth", self.condition_of_values(d)),
            "time": self.time,
        }[kind](depth - 1)

    def chosen(self, kind: str, depth: int):
        """CASE, in both forms, and coalesce."""
        values = [self.value(kind, depth - 1) for _ in range(2)]
        if self.chance(0.1):
            values[1] = "literal", None
        if self.chance(0.4):
            return "call", "coalesce", *values
        if self.chance(0.5):
            return "case", ((self.condition_of_values(depth - 1), values[0]),), self.random.choice([values[1], None])
        of = self.random.choice(["integer", "text"])
        branches = tuple((self.constant(of), value) for value in values)
        return "choice", self.leaf(of), branches, self.random.choice([self.leaf(kind), None])

    def number(self, depth: int):
        return self.value(self.random.choice(["integer", "integer", "float"]), depth)

    def integer(self, depth: int):
        way = self.random.randrange(9)
        if way < 3:
            return "call", self.random.choice("+-*"), self.value("integer", depth), self.value("integer", depth)
        if way == 3:
            return "call", self.random.choice("/%"), self.value("integer", depth), ("literal", self.random.choice([2, 3, -2]))
        if way == 4:
            return "call", self.random.choice(["abs", "minus"]), self.value("integer", depth)
        if way == 5:
            return "call", "size", self.value("text", depth)
        if way == 6:
            return "call", "toInteger", self.leaf(self.random.choice(["text", "float", "integer"]))
        if way == 7:
            return "call", "sign", self.number(depth)
        if self.chance(0.3) and len(self.leaves("time")) > 1:
            between = self.random.choice(["days between", "hours between"])
            return "call", between, *(self.random.choice(self.leaves("time")) for _ in range(2))
        part = self.random.choice(["year", "month", "day", "hour", "weekDay", "ordinalDay"])
        return "call", part, self.value("time", depth)

    def float(self, depth: int):
        way = self.random.randrange(6)
        if way < 2:
            sides = [self.value("float", depth), self.number(depth)]
            self.random.shuffle(sides)
            return "call", self.random.choice("+-*/%"), *sides
        if way == 2:
            return "call", self.random.choice(["ceil", "floor", "round"]), self.number(depth)
        if way == 3:
            return "call", "^", self.leaf("integer"), ("literal", self.random.choice([2, 0.5, -1]))
        if way == 4:
            return "call", "sqrt", self.number(depth)
        return "call", "toFloat", self.leaf(self.random.choice(["text", "integer"]))

    def text(self, depth: int):
        way = self.random.randrange(7)
        inside = self.value("text", depth)
        if way < 2:
            return "call", self.random.choice(["toLower", "toUpper", "trim", "ltrim", "rtrim", "reverse"]), inside
        if way == 2:
            other = self.leaf(self.random.choice(["text", "text", "integer", "float"]))
            return "call", "+", inside, other
        if way == 3:
            places = [("literal", self.random.choice([0, 1, 2, 5])) for _ in range(self.random.choice([1, 2]))]
            if self.chance(0.2):
                places[0] = "call", "abs", self.leaf("integer")
            return "call", "substring", inside, *places
        if way == 4:
            return "call", self.random.choice(["left", "right"]), inside, ("literal", self.random.choice([0, 1, 2, 9]))
        if way == 5:
            return "call", "replace", inside, self.leaf("text"), self.constant("text")
        return "call", "toString", self.leaf(self.random.choice(["integer", "float", "truth", "text"]))

    def time(self, depth: int):
        days = "call", "duration", ("literal", self.random.choice([1, 2, 40]))
        return "call", self.random.choice("+-"), self.value("time", depth), days

    # Conditions

    def condition_of_values(self, depth: int):
        """A condition that is about values, not about patterns."""
        way = self.random.randrange(12)
        if depth > 0 and way < 4:
            parts = [self.condition_of_values(depth - 1) for _ in range(self.random.choice([2, 2, 3]))]
            kind = self.random.choice(["and", "or", "or", "xor", "not"])
            return ("not", parts[0]) if kind == "not" else (kind, *parts)
        kind = self.random.choice(["integer", "integer", "float", "text", "text", "time"])
        depth = max(0, depth - 1)
        if way == 4:
            return self.random.choice(["missing", "present"]), self.value(kind, depth)
        if way == 5 and kind != "time":
            members = [
                self.constant(kind) if self.chance(0.8) else self.leaf(kind) for _ in range(self.random.choice([0, 1, 2, 3, 9]))
            ]
            if self.chance(0.2):
                members.append(("literal", None))
            return "member", self.value(kind, depth), tuple(members)
        if way == 6:
            name = f"l{len(self.parameters)}"
            of = "text" if kind == "time" else kind
            self.parameters[name] = [v for v in self.random.sample(VALUES[of], k=self.random.choice([0, 1, 3])) if v == v]
            return "within", self.value(of, depth), name
        if way == 7:
            how = self.random.choice(["STARTS WITH", "ENDS WITH", "CONTAINS", "=~"])
            other = ("literal", self.random.choice(PATTERNS)) if how == "=~" else self.leaf("text")
            return "text", how, self.value("text", depth), other
        if way == 8 and self.leaves("truth"):
            return "holds", self.random.choice(self.leaves("truth"))
        left, right = self.value(kind, depth), self.value(kind, depth)
        if kind in ("integer", "float") and self.chance(0.3):
            right = self.number(depth)
        return "compare", self.random.choice(COMPARED), left, right
