"""Random property graphs and Cypher queries over them, each as plain data for the brute force and as text.

Everything comes from one `Random`. Text is spelled at random, too: what openCypher lets one write in several ways. It imports
nothing of ours.
"""

from __future__ import annotations

from random import Random

from tests.oracles.cypher import Query
from tests.oracles.cypher_text import render

IDS = [[0, 1, 2, 3, 4, 5], [-7, 3, 10, 12, 2**40, 99], ["a", "B", "é", "zz", "it's", "0"]]
LABELS = ["A", "B", "C"]
TYPES = ["R", "S", "T"]
NUMBERS, WORDS = [0, 1, 2], ["p", "q", "it's"]
COMPARED = ["=", "<>", "<", "<=", ">", ">="]
MOST_ROWS = 1500  # what the clauses may be expected to find


def draw_cypher_graph(random: Random):
    """(nodes, relationships) for the brute force: with labels, types, NULLs, loops and parallel relationships."""
    ids = random.choice(IDS)[: random.randint(3, 6)]

    def properties(**values):
        return {key: random.choice(few) for key, few in values.items() if random.random() < 0.8}

    nodes = {
        name: (set(random.sample(LABELS, k=random.choice([0, 1, 2, 2, 3]))), properties(x=NUMBERS, y=NUMBERS, s=WORDS))
        for name in ids
    }
    types = TYPES[: random.randint(1, 3)]
    ends = [(random.choice(ids), random.choice(ids)) for _ in range(random.randint(4, 9))]
    if random.random() < 0.6:  # parallel to others, perhaps of their types
        ends += random.choices(ends, k=random.choice([1, 2]))
    else:
        ends = list({frozenset(pair): pair for pair in ends}.values())
    if random.random() < 0.5:  # without loops
        ends = [(source, target) for source, target in ends if source != target]
    random.shuffle(ends)
    first = random.choice([0, 100])
    relationships = [
        (number, source, target, random.choice(types), properties(w=NUMBERS, s=WORDS))
        for number, (source, target) in enumerate(ends, first)
    ]
    return nodes, relationships


def draw_cypher(random: Random, graph) -> tuple[str, Query]:
    """A query that reads the graph, as text and as plain data; what its parameters are is in the data."""
    query = _Draw(random, graph).query()
    text = render(query, random)
    return text, query._replace(parameters={name: value for name, value in query.parameters.items() if f"${name}" in text})


class _Draw:
    """A query in the making: which variables are bound, and how many rows it may find so far."""

    def __init__(self, random: Random, graph):
        nodes, relationships = graph
        self.random = random
        self.keys = {
            "node": sorted({key for _, properties in nodes.values() for key in properties}) or ["x"],
            "relationship": sorted({key for *_, properties in relationships for key in properties}) or ["w"],
        }
        self.types = sorted({kind for _, _, _, kind, _ in relationships})
        self.is_word = {"s": True}
        self.bound: dict[str, str] = {}  # variables, and whether each is a node or a relationship
        self.fresh = {"node": iter("abcdklmnopqr" * 2), "relationship": iter("efghijuvwxyz" * 2)}
        self.parameters: dict[str, object] = {}
        self.rows = 1

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def query(self) -> Query:
        kinds = ["match"] + ["match"] * self.random.choice([0, 0, 0, 1, 2])
        kinds += ["optional"] * self.random.choice([0, 0, 0, 0, 1, 1, 2])
        if self.chance(0.1):
            self.random.shuffle(kinds)
        clauses = []
        for kind in kinds:
            bound, rows = dict(self.bound), self.rows
            clause = self.clause(kind)
            if clauses and self.rows > MOST_ROWS:
                self.bound, self.rows = bound, rows
            else:
                clauses.append(clause)
        while not self.bound:  # there must be something to return
            clauses.append(self.clause("match"))
        return Query(tuple(clauses), *self.returned(), parameters=self.parameters)

    def clause(self, kind: str):
        sizes = [1, 1, 2] if kind == "optional" else [0, 1, 1, 1, 1, 1, 2, 2, 3]
        patterns = [self.path(self.random.choice(sizes), new_relationships=True)]
        if self.chance(0.25):
            patterns.append(self.path(self.random.choice([0, 1, 1, 1, 2]), new_relationships=True))
        return kind, tuple(patterns), self.where(0.3)

    # Patterns

    def path(self, length: int, *, start=0.85, new_nodes=True, new_relationships=False):
        """A path that starts, with some probability, at a node that is bound."""
        known = self.nodes()
        path = [self.node(known, start, new_nodes)]
        self.rows *= 1 if path[0][0] in known else 6
        for _ in range(length):
            others = [name for name in self.nodes() if name != path[-1][0] or self.chance(0.15)]
            path += [self.relationship(new_relationships), self.node(others, 0.25, new_nodes)]
            self.rows *= 4 if path[-2][2] == "both" else 2
        return tuple(path)

    def nodes(self) -> list[str]:
        return [name for name, kind in self.bound.items() if kind == "node"]

    def node(self, known: list[str], old: float, new_nodes: bool):
        if known and self.chance(old):
            name, plain = self.random.choice(known), 0.85
        elif new_nodes and self.chance(0.8):
            name, plain = next(self.fresh["node"]), 0.75
            self.bound[name] = "node"
        else:
            name, plain = None, 0.75
        if self.chance(plain):
            return name, (), ()
        labels = tuple(self.random.sample(LABELS, k=self.random.choice([0, 1, 1, 1, 2])))
        return name, labels, self.properties("node", 0.3)

    def relationship(self, may_be_named: bool):
        name = None
        if may_be_named and self.chance(0.5):
            name = next(self.fresh["relationship"])
            self.bound[name] = "relationship"
        types = tuple(self.random.sample(self.types, k=min(len(self.types), self.random.choice([0, 0, 1, 1, 2]))))
        direction = self.random.choice(["out", "out", "in", "both"])
        return name, types, direction, self.properties("relationship", 0.07)

    def properties(self, kind: str, probability: float):
        key = self.random.choice(self.keys[kind])
        return ((key, self.constant(key)),) if self.chance(probability) else ()

    # Conditions

    def where(self, probability: float):
        conditions = []
        while self.chance(probability) and len(conditions) < 3:
            conditions.append(self.condition())
        return None if not conditions else conditions[0] if len(conditions) == 1 else ("and", *conditions)

    def condition(self):
        """A comparison, or a pattern that starts at a node that is bound."""
        if not self.nodes() or self.chance(0.7):
            return self.comparison()
        outer = dict(self.bound), self.rows
        length = self.random.choice([1, 1, 2])
        if self.chance(0.5):
            condition = "pattern", self.path(length, start=1, new_nodes=False)
        else:
            patterns = [self.path(length, start=1, new_relationships=True)]
            if self.chance(0.2):
                patterns.append(self.path(1, new_relationships=True))
            condition = "exists", tuple(patterns), self.comparison() if self.chance(0.3) else None
        self.bound, self.rows = outer
        return ("not", condition) if self.chance(0.5) else condition

    def comparison(self):
        variables = [name for name in self.bound if self.bound[name] == "node" or self.chance(0.5)] or list(self.bound)
        if not variables:
            return "compare", "=", ("literal", 1), ("literal", 1)
        name = self.random.choice(variables)
        alike = [other for other in self.bound if self.bound[other] == self.bound[name] and other != name]
        if alike and self.chance(0.3):
            operator = self.random.choice(["=", "<>", "<>", "<>"])
            return "compare", operator, ("variable", name), ("variable", self.random.choice(alike))
        key = self.random.choice(self.keys[self.bound[name]])
        operator = self.random.choice(COMPARED)
        others = [
            ("property", other, its)
            for other, kind in self.bound.items()
            for its in self.keys[kind]
            if (its in self.is_word) == (key in self.is_word) and (other, its) != (name, key)
        ]
        right = self.random.choice(others) if others and self.chance(0.4) else self.constant(key)
        return "compare", operator, ("property", name, key), right

    def constant(self, key: str):
        value = self.random.choice(WORDS if key in self.is_word else NUMBERS)
        if not self.chance(0.15):
            return "literal", value
        name = f"p{len(self.parameters)}"
        self.parameters[name] = value
        return "parameter", name

    # What is returned

    def returned(self):
        operands = [("variable", name) for name in self.bound]
        operands += [
            ("property", name, key) for name, kind in self.bound.items() for key in self.keys[kind] if self.chance(0.3)
        ]
        operands = self.random.sample(operands, k=self.random.randint(1, min(4, len(operands))))
        if self.chance(0.25):
            operands = operands[: self.random.choice([0, 1, 2])]
            operands.insert(self.random.randint(0, len(operands)), ("count",))
        is_distinct = self.chance(0.25)
        order, limit = (), None
        if self.chance(0.35):
            positions = self.random.sample(range(len(operands)), k=len(operands))
            if self.chance(0.7):
                limit = self.random.choice([0, 1, 2, 3, 5, 100])
            else:
                positions = positions[: self.random.randint(1, len(positions))]
            order = tuple((position, self.chance(0.6)) for position in positions)
        return tuple(operands), is_distinct, order, limit
