"""Random Cypher queries with relationships of several hops and paths that have names. It imports nothing of ours."""

from __future__ import annotations

from random import Random

from tests.oracles.cypher import NamedPath, Query
from tests.oracles.random_cypher import DrawnQuery, spelled
from tests.oracles.random_cypher_values import COMPARED, TYPES_OF_KEYS

PATH, LIST = "path", "relationships"


def draw_cypher_paths(random: Random, graph) -> tuple[str, Query]:
    """A query that reads the graph, as text and as plain data."""
    return spelled(_DrawnPaths(random, graph).query(), random)


class _DrawnPaths(DrawnQuery):
    """A query in the making, some of whose relationships have several hops."""

    def __init__(self, random: Random, graph):
        super().__init__(random, graph)
        self.names = iter("PQUVWXYZ")
        self.hops = 0
        self.single: set[str] = set()  # paths and lists that are of one relationship of several hops, and nothing else

    # Patterns

    def path(self, length: int, *, start=0.85, new_nodes=True, new_relationships=False):
        drawn = super().path(length, start=start, new_nodes=new_nodes, new_relationships=new_relationships)
        if not (new_nodes and new_relationships) or len(drawn) == 1 or not self.chance(0.5):
            return drawn
        name = next(self.names, None)
        if name is None:
            return drawn
        self.bound[name] = PATH
        if len(drawn) == 3 and len(drawn[1]) == 5:
            self.single.add(name)
        return NamedPath.of(name, drawn)

    def relationship(self, may_be_named: bool):
        name, types, direction, properties = super().relationship(may_be_named)
        if self.hops > 1 or not self.chance(0.6):
            return name, types, direction, properties
        self.hops += 1
        fewest = self.random.choice([1, 1, 1, 2])
        most = fewest + self.random.choice([0, 1] if direction == "both" else [0, 1, 1, 2])
        self.rows *= 3**most
        if name is not None:
            self.bound[name] = LIST
            self.single.add(name)
        return name, types, direction, (fewest, most), properties

    # Conditions

    def condition(self):
        if not self.lists() or self.chance(0.3):
            return super().condition()
        return self.list_condition(self.random.choice([0, 0, 1]))

    def lists(self, of: str | None = None) -> list:
        """The lists of what is bound: of nodes, of relationships, or both."""
        found = [(("variable", name), "relationship", name) for name, kind in self.bound.items() if kind == LIST]
        for name, kind in self.bound.items():
            if kind == PATH:
                found += [(("nodes", name), "node", name), (("relationships", name), "relationship", name)]
        return [one for one in found if of is None or one[1] == of]

    def list_condition(self, depth: int):
        if depth:
            parts = [self.list_condition(depth - 1) for _ in range(2)]
            kind = self.random.choice(["or", "or", "xor", "not"])
            return ("not", parts[0]) if kind == "not" else (kind, *parts)
        members, of, name = self.random.choice(self.lists())
        key = self.random.choice(self.keys[of])
        way = self.random.randrange(7)
        if way < 2:
            return self.quantified(members, of, key)
        if way < 4 and name in self.single and of == "relationship":
            return self.consecutive(members, key)
        if way == 4:
            number = self.random.choice([("size", members), ("call", "%", ("size", members), ("literal", 2))])
            return "compare", self.random.choice(COMPARED), number, ("literal", self.random.choice([0, 1, 2, 3]))
        if way == 5 and of == "node" and self.nodes():
            return "inside", ("variable", self.random.choice(self.nodes())), members
        first, last = (("of", ("at", members, ("literal", place)), key) for place in (0, -1))
        other = self.random.choice([last, self.constant(TYPES_OF_KEYS[key])])
        return "compare", self.random.choice(COMPARED), first, other

    def quantified(self, members, of: str, key: str):
        which = self.random.choice(["all", "all", "none", "any"])
        known = self.leaves(TYPES_OF_KEYS[key])
        other = self.random.choice(known) if known and self.chance(0.3) else self.constant(TYPES_OF_KEYS[key])
        if self.chance(0.2):
            other = "of", ("at", members, ("literal", self.random.choice([0, -1]))), key
        inside = "compare", self.random.choice(COMPARED), ("property", "_x", key), other
        if self.chance(0.2):
            inside = "or", inside, ("missing", ("property", "_x", self.random.choice(self.keys[of])))
        return "quantified", which, "_x", members, inside

    def consecutive(self, members, key: str):
        """Something that holds between each relationship and the next."""
        place = ("variable", "_i")
        first = self.random.choice([0, 1])
        other = ("call", "+" if first == 0 else "-", place, ("literal", 1))
        one, following = (("of", ("at", members, at), key) for at in ((place, other) if first == 0 else (other, place)))
        last = ("call", "-", ("size", members), ("literal", 2 - first))
        inside = "compare", self.random.choice(COMPARED), one, following
        which = self.random.choice(["all", "all", "any", "none"])
        return "quantified", which, "_i", ("range", ("literal", first), last), inside

    # What is returned

    def columns(self, most: int, *, aggregates: bool) -> list[tuple[tuple, str]]:
        hidden = {name: kind for name, kind in self.bound.items() if kind in (PATH, LIST)}
        lists = self.lists()
        self.bound = {name: kind for name, kind in self.bound.items() if name not in hidden} or {"_nothing": "none"}
        found = super().columns(most, aggregates=aggregates)
        self.bound = {name: kind for name, kind in self.bound.items() if name != "_nothing"} | hidden
        found = [column for column in found if "_nothing" not in column[0]]
        more: list[tuple[tuple, str]] = []
        for members, of, _ in lists:
            key = self.random.choice(self.keys[of])
            each = ("each", "_x", members, ("property", "_x", key))
            more += [(members, "list"), (("size", members), "integer"), (each, "list")]
            end = ("at", members, ("literal", self.random.choice([0, -1])))
            more.append((("of", end, key), TYPES_OF_KEYS[key]))
        wanted = self.random.sample(more, k=min(len(more), self.random.choice([1, 1, 2])))
        wanted = [one for one in wanted if not aggregates or one[1] != "list" or self.chance(0.3)]
        return list({operand: (operand, kind) for operand, kind in (*found, *wanted)}.values()) or [(("count",), "integer")]
