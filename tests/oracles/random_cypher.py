"""Random property graphs and Cypher queries over them, each as plain data for the brute force and as text.

Everything comes from one `Random`. Text is spelled at random, too: what openCypher lets one write in several ways. It imports
nothing of ours.
"""

from __future__ import annotations

from itertools import count
from random import Random

from tests.oracles.cypher import Query, Returned, With, has_aggregate
from tests.oracles.cypher_text import render
from tests.oracles.random_cypher_values import COMPARED, FLOATS, NUMBERS, TIMES, TYPES_OF_KEYS, WORDS, DrawnValues

IDS = [[0, 1, 2, 3, 4, 5], [-7, 3, 10, 12, 2**40, 99], ["a", "B", "é", "zz", "it's", "0"]]
LABELS = ["A", "B", "C"]
TYPES = ["R", "S", "T"]
MOST_ROWS = 1500  # what the clauses may be expected to find


def draw_cypher_graph(random: Random):
    """(nodes, relationships) for the brute force: with labels, types, NULLs, loops and parallel relationships."""
    ids = random.choice(IDS)[: random.randint(3, 6)]

    def properties(**values):
        return {key: random.choice(few) for key, few in values.items() if random.random() < 0.8}

    few = {"x": NUMBERS[:3], "y": NUMBERS[:3], "s": WORDS, "f": FLOATS, "b": [True, False], "t": TIMES}
    nodes = {name: (set(random.sample(LABELS, k=random.choice([0, 1, 2, 2, 3]))), properties(**few)) for name in ids}
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
        (number, source, target, random.choice(types), properties(w=NUMBERS, s=WORDS, t=TIMES))
        for number, (source, target) in enumerate(ends, first)
    ]
    return nodes, relationships


def draw_cypher(random: Random, graph) -> tuple[str, Query]:
    """A query that reads the graph, as text and as plain data; what its parameters are is in the data."""
    return spelled(DrawnQuery(random, graph).query(), random)


def spelled(query: Query, random: Random) -> tuple[str, Query]:
    """A query as text and as plain data, with the parameters that the text has."""
    text = render(query, random)
    return text, query._replace(parameters={name: value for name, value in query.parameters.items() if f"${name}" in text})


class DrawnQuery(DrawnValues):
    """A query in the making: which variables are bound, and how many rows it may find so far."""

    def __init__(self, random: Random, graph):
        nodes, relationships = graph
        self.random = random
        self.keys = {
            "node": sorted({key for _, properties in nodes.values() for key in properties}) or ["x"],
            "relationship": sorted({key for *_, properties in relationships for key in properties}) or ["w"],
        }
        self.types = sorted({kind for _, _, _, kind, _ in relationships})
        self.bound: dict[str, str] = {}  # variables, and whether each is a node, a relationship, or of what type
        self.fresh = {"node": iter("abcdklmnopqr" * 2), "relationship": iter("efghijuvwxyz" * 2)}
        self.values = count(1)
        self.parameters: dict[str, object] = {}
        self.rows = 1

    def query(self) -> Query:
        self.is_small = self.chance(0.5)  # then most of it are expressions
        kinds = ["match"] + ["match"] * (0 if self.is_small else self.random.choice([0, 0, 0, 1, 2]))
        kinds += ["optional"] * self.random.choice([0, 0, 0, 0, 1, 1] if self.is_small else [0, 0, 0, 0, 1, 1, 2])
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
            if kind == "match" and self.bound and self.chance(0.1):
                clauses.append(self.passed_on(plain=True))
        while not self.bound:  # there must be something to return
            clauses.append(self.clause("match"))
        while self.chance(0.2) and len(clauses) < 5:
            clauses.append(self.passed_on(plain=False))
        returned = self.returned()
        operands, distinct, order, skip, limit = returned
        return Query(tuple(clauses), operands, distinct, order, limit, self.parameters, skip)

    def clause(self, kind: str):
        sizes = [1, 1, 2] if kind == "optional" else [0, 1, 1, 1, 1, 1, 2, 2, 3]
        sizes = [0, 1, 1] if self.is_small else sizes
        patterns = [self.path(self.random.choice(sizes), new_relationships=True)]
        if self.chance(0.1 if self.is_small else 0.25):
            patterns.append(self.path(self.random.choice([0, 1, 1, 1, 2]), new_relationships=True))
        return kind, tuple(patterns), self.where(0.6 if self.is_small else 0.3)

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
        return ((key, self.constant(TYPES_OF_KEYS[key])),) if self.chance(probability) else ()

    # Conditions

    def where(self, probability: float):
        conditions = []
        while self.chance(probability) and len(conditions) < 3:
            conditions.append(self.condition())
        return None if not conditions else conditions[0] if len(conditions) == 1 else ("and", *conditions)

    def condition(self):
        """A comparison, any other condition about values, or a pattern that starts at a node that is bound."""
        if not self.nodes() or self.chance(0.4):
            return self.comparison()
        if self.chance(0.5):
            return self.mixed(self.random.choice([1, 2]))
        condition = self.pattern_condition(self.random.choice([1, 1, 2]))
        return ("not", condition) if self.chance(0.5) else condition

    def mixed(self, depth: int):
        """A condition in which labels and patterns may stand anywhere."""
        if depth > 0 and self.chance(0.6):
            parts = [self.mixed(depth - 1) for _ in range(2)]
            kind = self.random.choice(["and", "or", "or", "xor", "not"])
            return ("not", parts[0]) if kind == "not" else (kind, *parts)
        if self.chance(0.15):
            labels = tuple(self.random.sample(LABELS, k=self.random.choice([1, 1, 2])))
            return "label", self.random.choice(self.nodes()), labels, len(labels) > 1 and self.chance(0.5)
        return self.pattern_condition(1) if self.chance(0.15) else self.condition_of_values(depth + 1)

    def pattern_condition(self, length: int):
        outer = dict(self.bound), self.rows
        if self.chance(0.5):
            condition = "pattern", self.path(length, start=1, new_nodes=False)
        else:
            patterns = [self.path(length, start=1, new_relationships=True)]
            if self.chance(0.2):
                patterns.append(self.path(1, new_relationships=True))
            condition = "exists", tuple(patterns), self.comparison() if self.chance(0.3) else None
        self.bound, self.rows = outer
        return condition

    def comparison(self):
        elements = [name for name, kind in self.bound.items() if kind in self.keys]
        variables = [name for name in elements if self.bound[name] == "node" or self.chance(0.5)] or elements
        if not variables or self.chance(0.3):
            return self.condition_of_values(1)
        name = self.random.choice(variables)
        alike = [other for other in self.bound if self.bound[other] == self.bound[name] and other != name]
        if alike and self.chance(0.3):
            operator = self.random.choice(["=", "<>", "<>", "<>"])
            return "compare", operator, ("variable", name), ("variable", self.random.choice(alike))
        key = self.random.choice(self.keys[self.bound[name]])
        operator = self.random.choice(COMPARED)
        others = [other for other in self.leaves(TYPES_OF_KEYS[key]) if other != ("property", name, key)]
        right = self.random.choice(others) if others and self.chance(0.4) else self.constant(TYPES_OF_KEYS[key])
        return "compare", operator, ("property", name, key), right

    # What is returned

    def columns(self, most: int, *, aggregates: bool) -> list[tuple[tuple, str]]:
        """What may be returned, with what each is."""
        found = [(("variable", name), kind) for name, kind in self.bound.items()]
        for name, kind in self.bound.items():
            found += [(("property", name, key), TYPES_OF_KEYS[key]) for key in self.keys.get(kind, ()) if self.chance(0.3)]
            if kind == "relationship" and self.chance(0.1):
                found.append((("type", name), "text"))
        for _ in range(self.random.choice([0, 0, 1, 1, 2])):
            kind = self.random.choice(["integer", "float", "text", "truth", "time"])
            found.append((self.value(kind, 2), kind))
        found = [column for column in found if column[0][0] != "literal"]
        found = self.random.sample(found, k=self.random.randint(1, min(most, len(found))))
        if aggregates:
            found = found[: self.random.choice([0, 1, 2])]
            for _ in range(self.random.choice([1, 1, 2])):
                found.insert(self.random.randint(0, len(found)), self.aggregate())
        return list({operand: (operand, kind) for operand, kind in found}.values())

    def aggregate(self) -> tuple[tuple, str]:
        """An aggregate, and its type."""
        if self.chance(0.4):
            return ("count",), "integer"
        function = self.random.choice(["count", "count", "sum", "min", "max", "avg", "collect"])
        distinct = self.chance(0.3)
        if function == "count":
            of = self.random.choice([("variable", name) for name in self.bound] + [self.value("text", 1)])
            return ("aggregate", "count", distinct, of), "integer"
        kind = "integer" if function in ("sum", "avg") else self.random.choice(["integer", "text", "float", "time"])
        if function == "collect":
            return ("aggregate", "collect", False, self.value("integer", 1)), "list"
        drawn = "aggregate", function, distinct, self.value(kind, 1)
        if function == "sum" and self.chance(0.3):
            return ("call", "+", drawn, ("count",)), "integer"
        return drawn, "float" if function == "avg" else kind

    def returned(self) -> Returned:
        columns = self.columns(4, aggregates=self.chance(0.35))
        return self.arranged(columns)

    def arranged(self, columns: list[tuple[tuple, str]], most: float = 0.7) -> Returned:
        """Columns with DISTINCT, an order and a limit; where there is a limit, the order leaves nothing open."""
        operands = tuple(operand for operand, _ in columns)
        is_grouped = any(has_aggregate(operand) for operand in operands)
        is_distinct = self.chance(0.25) and not is_grouped
        sortable = [position for position, (_, kind) in enumerate(columns) if kind != "list"]
        order, skip, limit = (), 0, None
        if self.chance(0.35) and sortable:
            positions = self.random.sample(sortable, k=len(sortable))
            if self.chance(most) and len(sortable) == len(columns):
                limit = self.random.choice([0, 1, 2, 3, 5, 100])
                skip = self.random.choice([0, 0, 1, 2])
            else:
                positions = positions[: self.random.randint(1, len(positions))]
            order = tuple((("column", position), self.chance(0.6)) for position in positions)
            if columns[positions[0]][1] == "integer" and self.chance(0.3):
                first = ("call", "*", ("column", positions[0]), ("literal", -1)), self.chance(0.6)
                order = (first, *order)
        return Returned(operands, is_distinct, order, skip, limit)

    def passed_on(self, *, plain: bool):
        """A WITH: one that only passes on, or any other."""
        columns = self.columns(3, aggregates=not plain and self.chance(0.6))
        if plain and self.nodes():
            columns = [(("variable", self.nodes()[0]), "node"), *columns]
        columns = [column for column in columns if column[1] != "list"] or [(("count",), "integer")]
        columns = list(dict(columns).items())
        names = [operand[1] if operand[0] == "variable" else f"k{next(self.values)}" for operand, _ in columns]
        operands = tuple(operand for operand, _ in columns)
        if plain:
            returned = Returned(operands)
        else:  # numbers of relationships may be the same, so an order by them leaves something open
            has_relationships = any(kind == "relationship" for _, kind in columns)
            returned = self.arranged(columns, 0.0 if has_relationships else 0.7)
        self.bound = dict(zip(names, (kind for _, kind in columns), strict=True))
        where = self.condition_of_values(1) if self.chance(0.4) else None
        return "with", With(tuple(names), returned, where)
