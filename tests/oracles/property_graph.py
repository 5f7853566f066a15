"""A property graph that changes, by definition: vertices and edges in plain Python, and updates that are applied one by one.

It imports nothing of ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace
from typing import Any

from tests.oracles import naive

OF_VERTICES = ("label", "age", "name")
OF_EDGES = ("pid", "amount", "kind", "at", "rate")
LABELS, TYPES = ("person", "bank"), ("pays", "owns")
"""Those that are relations; other values of `label` and `kind` are only kept."""

Row = dict[str, Any]


def same(one: Any, other: Any) -> bool:
    """NaN is a value like any other."""
    return one == other or (one != one and other != other)


def plain(value: Any) -> Any:
    """A value that is equal to itself."""
    return "NaN" if value != value else value


@dataclass
class Edge:
    """An edge; `origin` is the one from before the epoch whose properties it has replaced."""

    ends: tuple
    values: Row
    origin: int | None = None
    is_new: bool = True


@dataclass
class PropertyGraph:
    """Vertices, typed edges, and updates of both; `edge` is about all edges, `pays` and `owns` about those of a type."""

    directed: bool = True
    key: str | None = None
    window: int | None = None
    """How far behind the latest `at` edges expire."""
    clock: int | None = None
    vertices: dict[Any, Row] = field(default_factory=dict)
    edges: dict[int, Edge] = field(default_factory=dict)
    numbers: count = field(default_factory=count)
    fate: Counter = field(default_factory=Counter)
    """Of the last epoch."""

    def load(self) -> None:
        """Begin with the latest time of all edges, as somebody does who has just come."""
        self.clock = max((e.values["at"] for e in self.edges.values() if e.values["at"] is not None), default=None)

    def apply(self, rows: Sequence[Row], columns: Sequence[str], *, ordered: bool) -> list[int]:
        """Apply an epoch of updates that have some columns, and return the places of replacements that mean several edges.

        Updates apply in their order, or deletions first and replacements last. Those that mean several edges are left out as
        if they were not there. Edges come first: a vertex that comes with one of them is known to all rows about it.
        """
        left_out: list[int] = []
        before = deepcopy(vars(self))
        while doubtful := self._apply([(i, row) for i, row in enumerate(rows) if i not in left_out], columns, ordered=ordered):
            left_out += doubtful
            vars(self).update(deepcopy(before))
        return sorted(left_out)

    def _apply(self, rows: list[tuple[int, Row]], columns: Sequence[str], *, ordered: bool) -> list[int]:
        self.fate = Counter()
        for number, edge in self.edges.items():
            edge.origin, edge.is_new = number, False
        was = len(self.edges)
        rows = sorted(rows, key=lambda row: row[1]["s"] if ordered else "-+=".index(row[1]["op"]))
        of_edges = [(place, row) for place, row in rows if row["relation"] != "vertex"]
        if self.window is not None:
            of_edges = self._expire(of_edges, columns)
        doubtful = [place for place, row in of_edges if not self._edge(row, columns)]
        for id_ in (id_ for edge in self.edges.values() for id_ in edge.ends):
            self.vertices.setdefault(id_, dict.fromkeys(OF_VERTICES))
        for _, row in rows:
            if row["relation"] == "vertex":
                self._vertex(row, columns)
        new = [edge for edge in self.edges.values() if edge.is_new]
        self.fate["replaced"] = sum(edge.origin is not None for edge in new)
        self.fate["inserted"] = len(new) - self.fate["replaced"]
        self.fate["deleted"] = was - (len(self.edges) - len(new)) - self.fate["replaced"]
        return doubtful

    def _expire(self, rows: list[tuple[int, Row]], columns: Sequence[str]) -> list[tuple[int, Row]]:
        def time(row: Row) -> int | None:
            is_loop = row["src"] == row["dst"] and not self.directed
            return row["at"] if row["op"] != "-" and "at" in columns and not is_loop else None

        times = [self.clock, *(time(row) for _, row in rows)]
        self.clock = max((at for at in times if at is not None), default=None)

        def is_old(at: int | None) -> bool:
            return at is not None and self.clock is not None and at <= self.clock - self.window

        self.edges = {number: edge for number, edge in self.edges.items() if not is_old(edge.values["at"])}
        kept = [(place, row) for place, row in rows if not is_old(time(row))]
        self.fate["late"] = len(rows) - len(kept)
        return kept

    def _vertex(self, row: Row, columns: Sequence[str]) -> None:
        """What is said of a vertex replaces what was known of it; `=` keeps what there is no column for."""
        known = self.vertices.get(row["id"])
        given = {name: row[name] for name in OF_VERTICES if name in columns}
        if row["op"] == "+" or (row["op"] == "-" and known is not None):
            self.vertices[row["id"]] = {**dict.fromkeys(OF_VERTICES), **(given if row["op"] == "+" else {})}
        elif row["op"] == "=" and known is not None:
            self.vertices[row["id"]] = {**known, **given}

    def _edge(self, row: Row, columns: Sequence[str]) -> bool:
        """Apply an update of edges; False if it means several and has to mean one."""
        ends = (row["src"], row["dst"]) if self.directed else tuple(sorted((row["src"], row["dst"])))
        if ends[0] == ends[1] and not self.directed:
            return True
        given = {name: row[name] for name in OF_EDGES if name in columns}
        through = row["relation"] if row["relation"] in TYPES else None
        if through is not None:
            given["kind"] = through
        by_key = self.key is not None and given.get(self.key) is not None
        wanted = {self.key: given[self.key]} if by_key else given if row["op"] == "-" else {}
        wanted = {name: value for name, value in wanted.items() if value is not None}
        if through is not None and row["op"] != "+":  # it is about edges of this type, whatever else it looks for
            wanted["kind"] = through
        found = [
            number
            for number, edge in self.edges.items()
            if edge.ends == ends and all(same(edge.values[name], value) for name, value in wanted.items())
        ]
        if row["op"] == "+" and not (by_key and found):
            self.edges[next(self.numbers)] = Edge(ends, {**dict.fromkeys(OF_EDGES), **given})
        elif row["op"] == "-":
            for number in found:
                del self.edges[number]
        elif row["op"] == "=" and len(found) > 1:
            return False
        elif row["op"] == "=" and found:
            edge = self.edges[found[0]]
            values = {**edge.values, **given}
            if not all(same(values[name], edge.values[name]) for name in values):
                del self.edges[found[0]]
                self.edges[next(self.numbers)] = Edge(ends, values, edge.origin)
        return True

    def relations(self) -> dict[str, set[tuple]]:
        """The tuples of all relations: edges with their numbers and without, in both directions if they have none."""
        found: dict[str, set[tuple]] = {}
        for name in ("edge", *TYPES):
            mine = {n: e for n, e in self.edges.items() if name in ("edge", e.values["kind"])}
            found[name] = {t for n, e in mine.items() for ends in self._both(e.ends) for t in (ends, (*ends, n))}
        for label in LABELS:
            found[label] = {(v,) for v, row in self.vertices.items() if row["label"] == label}
        return found

    def _both(self, ends: tuple) -> set[tuple]:
        return {ends} if self.directed else {ends, ends[::-1]}

    def matches(
        self, names: str, atoms: Sequence, filters: Sequence = (), stored: dict[str, set[tuple]] | None = None, **flags: bool
    ) -> list[tuple]:
        """The matches of a query; the names from `e` on are those of edges."""
        properties = {
            "v": {p: {v: row[p] for v, row in self.vertices.items()} for p in OF_VERTICES},
            "e": {p: {n: e.values[p] for n, e in self.edges.items()} for p in OF_EDGES},
        }
        domains = {name: "e" if name >= "e" else "v" for name in names}
        relations = {**self.relations(), **(stored or {})}
        more = {"domains": domains, "properties": properties, "symmetric": not self.directed, **flags}
        return naive.matches(relations, tuple(names), list(atoms), list(filters), **more)

    def seen(self, names: str, match: tuple) -> SimpleNamespace:
        """A match whose names have the ids and the properties of what they are bound to."""
        at = zip(names, match, strict=True)
        found = {
            name: SimpleNamespace(id=value, **(self.edges[value].values if name >= "e" else self.vertices[value]))
            for name, value in at
        }
        return SimpleNamespace(**found)


@dataclass(frozen=True)
class Definition:
    """What a query means: its matches, what is shown of each, and perhaps groups of them."""

    names: str
    atoms: tuple
    """(relation, names, whether it is negated)"""
    filters: tuple = ()
    flags: tuple[str, ...] = ()
    shown: Callable[[SimpleNamespace], tuple] | None = None
    """What a row shows of a match, or the key of its group; by default the ids of all its vertices."""
    group: Callable[[list[SimpleNamespace]], tuple] | None = None
    """What a row has of the matches of its group, behind its key."""
    having: Callable[[list[SimpleNamespace]], bool] | None = None
    once: bool = False
    """Whether equal rows count once."""

    def _key(self, match: SimpleNamespace) -> tuple:
        if self.shown is None:
            return tuple(getattr(match, name).id for name in self.names if name < "e")
        return tuple(map(plain, self.shown(match)))

    def result(self, graph: PropertyGraph, stored: dict[str, set[tuple]] | None = None) -> Counter | dict:
        """The rows with how often each is there; for groups, the row of each by its key."""
        flags = dict.fromkeys(self.flags, True)
        found = [graph.seen(self.names, m) for m in graph.matches(self.names, self.atoms, self.filters, stored, **flags)]
        if self.group is None:
            rows = Counter(map(self._key, found))
            return Counter(dict.fromkeys(rows, 1)) if self.once else rows
        groups: dict[tuple, list] = {} if self.shown is not None else {(): []}
        for match in found:
            groups.setdefault(() if self.shown is None else self._key(match), []).append(match)
        rows = {key: (*key, *map(plain, self.group(members))) for key, members in groups.items()}
        return {key: row for key, row in rows.items() if self.having is None or self.having(groups[key])}

    def changes(self, before: Counter | dict, after: Counter | dict) -> dict[tuple, int]:
        """The rows that come and go between two results, with how often."""
        if self.group is not None and self.having is not None:  # reported when they cross the bound
            come = Counter(row for key, row in after.items() if key not in before)
            gone = Counter(row for key, row in before.items() if key not in after)
        else:
            come, gone = (Counter(r.values()) if self.group is not None else Counter(r) for r in (after, before))
        come.subtract(gone)
        return {row: times for row, times in come.items() if times}

    def size(self, result: Counter | dict) -> int:
        return len(result) if self.group is not None else sum(result.values())

    def forms(self, graph: PropertyGraph) -> list[tuple[int, ...]]:
        """The permutations of a `unique` match that are the same match."""
        return naive.automorphisms(tuple(self.names), list(self.atoms), list(self.filters), symmetric=not graph.directed)
