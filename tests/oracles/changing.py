"""A graph that changes, by definition: a list of edges, to which updates are applied one by one. It imports nothing of ours."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}


@dataclass
class Edge:
    """A row of a relation, with the id that it has if rows have ids."""

    src: Any
    dst: Any
    values: dict[str, Any] = field(default_factory=dict)
    number: int = -1


@dataclass
class Update:
    """An insertion or a deletion; a deletion is of all edges between its ends that have the values which it gives."""

    is_insertion: bool
    src: Any
    dst: Any
    values: dict[str, Any] = field(default_factory=dict)

    def fits(self, edge: Edge | Update) -> bool:
        return all(edge.values.get(name) == value for name, value in self.values.items() if value is not None)


@dataclass
class Relation:
    """The edges of one relation; `has_ids` says that parallel edges are kept apart, `columns` which values they have."""

    edges: list[Edge]
    directed: bool
    has_ids: bool
    next_number: int = 0
    columns: tuple[str, ...] = ()
    window: tuple[str, Any] | None = field(default=None, init=False)
    """A column, and how far behind its latest value edges expire."""
    clock: Any = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.edges = [edge for edge in self.edges if self.directed or edge.src != edge.dst]

    def set_window(self, column: str, length: Any) -> None:
        """Let edges expire from now on."""
        self.window = (column, length)
        times = [edge.values[column] for edge in self.edges]
        self.clock = max((time for time in times if time is not None), default=None)

    def key(self, edge: Edge | Update) -> Any:
        return (edge.src, edge.dst) if self.directed else frozenset((edge.src, edge.dst))

    def apply(self, updates: list[Update]) -> Counter:
        """Apply updates in their order as one epoch, and return what became of them."""
        fate: Counter = Counter(updates=len(updates))
        if not self.directed:
            for update in updates:
                if update.src == update.dst:
                    fate["loops" if update.is_insertion else "absent"] += 1
            updates = [update for update in updates if update.src != update.dst]
        (self._apply_to_rows if self.has_ids else self._apply_to_pairs)(updates, fate)
        return fate

    def _apply_to_pairs(self, updates: list[Update], fate: Counter) -> None:
        before = {self.key(edge): edge for edge in self.edges}
        now = dict(before)
        effective = 0
        for update in updates:
            key = self.key(update)
            if update.is_insertion == (key in now):
                fate["present" if update.is_insertion else "absent"] += 1
                continue
            effective += 1
            if update.is_insertion:
                now[key] = before.get(key) or Edge(update.src, update.dst)
            else:
                del now[key]
        fate["inserted"], fate["deleted"] = len(now.keys() - before.keys()), len(before.keys() - now.keys())
        fate["cancelled"] = effective - fate["inserted"] - fate["deleted"]
        self.edges = list(now.values())

    def _apply_to_rows(self, updates: list[Update], fate: Counter) -> None:
        if self.window is not None:
            times = [u.values.get(self.window[0]) for u in updates if u.is_insertion]
            self.clock = max((time for time in (self.clock, *times) if time is not None), default=None)
            late = [u for u in updates if u.is_insertion and self._is_old(u.values.get(self.window[0]))]
            fate["late"] = len(late)
            updates = [u for u in updates if u not in late]
        gone: list[Edge] = []
        fresh: list[Update] = []
        for update in updates:
            if update.is_insertion:
                fresh.append(update)
                continue
            hits = [edge for edge in self.edges if self.key(edge) == self.key(update) and update.fits(edge)]
            taken = [other for other in fresh if self.key(other) == self.key(update) and update.fits(other)]
            gone += [edge for edge in hits if edge not in gone]
            fresh = [other for other in fresh if all(other is not one for one in taken)]
            fate["cancelled"] += len(taken) + (1 if taken and not hits else 0)
            fate["absent"] += 1 if not (taken or hits) else 0
        if self.window is not None:
            expired = [edge for edge in self.edges if edge not in gone and self._is_old(edge.values[self.window[0]])]
            fate["expired"] = len(expired)
            gone += expired
        fate["inserted"], fate["deleted"] = len(fresh), len(gone)
        self.edges = [edge for edge in self.edges if edge not in gone]
        for update in fresh:
            values = {name: update.values.get(name) for name in self.columns}
            self.edges.append(Edge(update.src, update.dst, values, self.next_number))
            self.next_number += 1

    def _is_old(self, time: Any) -> bool:
        assert self.window is not None
        return time is not None and self.clock is not None and time <= self.clock - self.window[1]


def length_of(text: str, *, of_time: bool) -> Any:
    """The length of a window: a number in the unit of its column, or seconds, minutes, ... of a date or time."""
    number, _, unit = text.partition(" ")
    length = float(number) * SECONDS[unit.rstrip("s")] if unit else float(number)
    return timedelta(seconds=length) if of_time else length
