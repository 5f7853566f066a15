"""Random questions over random graphs, for tests that run one question along every path of execution.

A rule has loop atoms, repeated atoms, edge ids (perhaps one id in two atoms), negated atoms, constants and filters. Everything
is drawn from one `Random`, so that a seed names a question.
"""

from __future__ import annotations

from collections import Counter
from itertools import product, zip_longest
from random import Random

import pyarrow as pa

from bigjoin.languages import parse
from tests.executions import plain
from tests.oracles import naive

IDS = [[-3, 0, 7, 12, 100], ["a", "B", "é", "zz"], [30, 10, 20], [1, 2]]
FLAGS = [(), (), (), (), ("distinct",), ("distinct",), ("unique",), ("unique",), ("induced",), ("unique", "induced")]
OPERATORS = ["<", "<=", ">", ">=", "=", "!="]


def literal(value) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def draw_rule(random: Random, ids: list, *, rows: bool, injective: bool) -> str:
    """A connected rule over `edge`; where its rows have ids, they have a property w, and atoms may name them."""
    if random.random() < 0.3:
        return _symmetric_rule(random, rows=rows)
    names = "abcd"[: random.choice([1, 2, 2, 3, 3, 3, 4])]
    pairs = [random.choice([(a, b), (b, a)]) for i, a in enumerate(names) if i for b in [random.choice(names[:i])]]
    pairs += [(random.choice(names), random.choice(names)) for _ in range(random.choice([0, 0, 1, 2]))]
    pairs += [(names[0], names[0])] * (not pairs or random.random() < 0.25)
    random.shuffle(pairs)
    few = "ef" if len(names) < 4 else "e"
    body, edges = [], set()
    for a, b in pairs:
        if rows and random.random() < 0.4:
            edges.add(edge := random.choice(few))
            body.append(f"edge({a},{b},{edge})")
        else:
            body.append(f"edge({a},{b})")
    if not injective and random.random() < 0.15:
        end = literal(random.choice(ids))
        body.append(f"edge({names[0]},{end})" if random.random() < 0.5 else f"edge({end},{names[0]})")
    if random.random() < 0.35:
        a, b = random.choice([pair for pair in product(names, repeat=2) if pair not in pairs] or pairs)
        which = f",{min(edges)}" if edges and random.random() < 0.3 else ""
        body.append(f"not edge({a},{b}{which})")
    for _ in range(random.choice([0, 0, 1, 2])):
        a, *others = random.sample(names, len(names))
        side = random.choice([*others, *others, literal(random.choice(ids)), a])
        body.append(f"{a} {random.choice(OPERATORS)} {side}")
    if edges and random.random() < 0.5:
        left, right = random.choice(sorted(edges)), random.choice([*(f"{e}.w" for e in sorted(edges)), "3"])
        body.append(f"{left}.w {random.choice(OPERATORS)} {right}")
    return f"q({','.join([*sorted({x for pair in pairs for x in pair}), *sorted(edges)])}) := {', '.join(body)}"


def _symmetric_rule(random: Random, *, rows: bool) -> str:
    """A star or a cycle, perhaps with loops: atoms that symmetries exchange share delta queries, which is a path by itself."""
    names = "abcd"[: random.choice([2, 3, 3, 4])]
    around = list(zip(names, names[1:] + names[:1], strict=True))
    pairs = random.choice([[("a", x) for x in names[1:]], [(x, "a") for x in names[1:]], around])
    loops = random.choice(["", "a", "a", names[1:], names])
    edges = "efg"[: len(pairs)] if rows and len(pairs) < 3 and random.random() < 0.4 else ""
    body = [f"edge({a},{b},{e})" if e else f"edge({a},{b})" for (a, b), e in zip_longest(pairs, edges)]
    body += [f"edge({a},{a})" for a in loops]
    random.shuffle(body)
    return f"q({','.join([*names, *edges])}) := {', '.join(body)}"


class Question:
    """A graph with rows (src, dst, w), some of them parallel, and a rule about it."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        for _ in range(4):  # most of what is drawn has no match: some such are enough
            self.draw(random)
            if self.wanted:
                break

    def draw(self, random: Random) -> None:
        self.ids, self.directed, self.has_rows = random.choice(IDS), random.random() < 0.6, random.random() < 0.6
        self.rows = self.draw_rows(random, random.choice([2, 8, 14, 14]))
        self.flags = dict.fromkeys(random.choice(FLAGS), True)
        self.text = draw_rule(random, self.ids, rows=self.has_rows, injective=bool(self.flags))
        self.query = parse(self.text, **self.flags)
        self.wanted = self.result()

    def draw_rows(self, random: Random, count: int) -> list[tuple]:
        return [(random.choice(self.ids), random.choice(self.ids), random.randrange(6)) for _ in range(count)]

    def table(self, rows: list[tuple] | None = None) -> pa.Table:
        rows = self.rows if rows is None else rows
        columns = {name: [row[i] for row in rows] for i, name in enumerate(("src", "dst", "w"))}
        return pa.table(columns if self.has_rows else {name: columns[name] for name in ("src", "dst")})

    def result(self) -> Counter:
        """The matches by definition, in the order of the head; for `unique` in the form that `canonical` gives them."""
        return self.found(self.flags)

    def grouped(self, keys: tuple[str, ...]) -> Counter:
        """The matches for each binding of some attributes: for `unique`, divided by the symmetries that fix these."""
        places = [self.query.head.index(key) for key in keys]
        flags = {flag: on for flag, on in self.flags.items() if flag != "unique"}
        counts: Counter = Counter()
        for row, times in self.found({**flags, "distinct": self.query.injective}).items():
            counts[tuple(row[i] for i in places)] += times
        if not self.query.unique:
            return counts
        group = naive.automorphisms(*plain(self.query), symmetric=not self.directed, induced=self.query.induced)
        fixing = sum(all(image[i] == i for i in places) for image in group)
        return Counter({key: count // fixing for key, count in counts.items()})

    def found(self, flags: dict) -> Counter:
        """The matches by definition under some flags."""
        found = set()
        for number, (src, dst, _) in enumerate(self.rows):
            for ends in [(src, dst)] if self.directed else [(src, dst), (dst, src)] if src != dst else []:
                found |= {ends, (*ends, number)}
        return matches(self.query, found, flags, [row[2] for row in self.rows], directed=self.directed)

    def canonical(self, row: tuple) -> tuple:
        return canonical(self.query, row, directed=self.directed)


def matches(query, tuples: set[tuple], flags: dict, weights, *, directed: bool, **more) -> Counter:
    """The matches of a query over `edge`, whose rows have weights by their number (and more properties)."""
    head, atoms, filters = plain(query)
    names = (*head, *(a for a in query.attributes if a not in head))  # constants are attributes that have no column
    domains = {name: "e" if i == 2 else "v" for _, attributes, _ in atoms for i, name in enumerate(attributes)}
    properties = {"e": {"w": weights, **more}}
    rows = naive.matches(
        {"edge": tuples}, names, atoms, filters, **flags, symmetric=not directed, domains=domains, properties=properties
    )
    return Counter(row[: len(head)] for row in rows)


def canonical(query, row: tuple, *, directed: bool) -> tuple:
    """The form in which matches that symmetries give each other are the same."""
    if not query.unique:
        return row
    group = naive.automorphisms(*plain(query), symmetric=not directed, induced=query.induced)
    return min(tuple(row[i] for i in image) for image in group)


def flattened(batch: pa.RecordBatch) -> list[tuple]:
    """The matches that rows stand for: every combination of the values of their lists."""
    found = []
    for row in batch.to_pylist():
        found += product(*(value if isinstance(value, list) else [value] for value in row.values()))
    return found
