"""Write a chain of loops as the source of a function that lists matches: rows, or prefixes with the lists of their tails."""

from __future__ import annotations

from bigjoin.joins.bind import Binder
from bigjoin.joins.set_source import SetSource
from bigjoin.joins.stages import BoundLoop
from bigjoin.query.nest import Nest


class ListSource(SetSource):
    """Writes the function that fills arrays with the matches of a range of the root's codes, and can go on where it stopped."""

    def __init__(self, term: Nest, binder: Binder, *, factorized: bool = False) -> None:
        super().__init__(term, binder)
        self.factorized = factorized

    def listing(self) -> str:
        """Return the source of a function that writes prefixes, and lists for the tails inside the last loop of the chain.

        It stops when its space is full, with the place where it is to go on in `state`, and returns how many prefixes it wrote.
        """
        self.line("filled = 0")
        self.line("resuming = state[0] > 0")
        self.line("state[0] = 0")
        tails = self.tails
        for i, _ in enumerate(tails):
            self.line(f"used{i} = 0")
        with self.scope():
            self.hoist(self.root.heads, -1)
            with self.marking(self.root.heads, -1, "last - first"):
                self.line("for n in range(state[1] if resuming else first, last):")
                self.level += 1
                self.bind_root()
                self.row(self.root, ["n"])
                self.level -= 1
        self.line("return filled")
        spaces = [name for i, _ in enumerate(tails) for name in (f"lengths{i}", f"tail{i}")]
        return self.source(["first", "last", "low", "high", "tally", "constants", "out", "state", *spaces])

    @property
    def tails(self) -> list[BoundLoop]:
        """The loops that stand side by side at the end of the chain; none if each loop holds one other at most."""
        loop = self.root
        while len(loop.inner) == 1 and loop.inner[0].inner:
            loop = loop.inner[0]
        return loop.inner if len(loop.inner) > 1 or self.factorized else []

    def row(self, loop: BoundLoop, places: list[str]) -> None:
        """Write what becomes of a value in a chain: the loop inside it, or a row."""
        level = self.level
        self.open_all(self.conditions(loop))
        tails = self.tails
        if not loop.inner or loop.inner is tails:
            self.line("resuming = False")
            self.write_row(loop, places, tails)
        else:
            child = loop.inner[0]
            with self.scope():
                self.hoist([child], loop.depth)
                found = self.value(child)
                with self.marking([child], loop.depth, found.size):
                    start, stop, p = found.start, found.stop, self.name("p")
                    if loop is self.root and self.seeds[1]:
                        start, stop = f"max({start}, low)", f"min({stop}, high)"
                    begin = self.name("b")
                    self.line(f"{begin} = state[{len(places) + 1}] if resuming else {start}")
                    self.line(f"for {p} in range({begin}, {stop}):")
                    self.level += 1
                    self.line(f"x{child.position} = int64({found.array}[{p}])")
                    self.row(child, [*places, p])
        self.level = level

    def write_row(self, loop: BoundLoop, places: list[str], tails: list[BoundLoop]) -> None:
        with self.scope():
            if tails:
                self.hoist(tails, loop.depth)
            full = ["filled == out.shape[1]"]
            full += [f"used{i} + {self.value(tail).size} > len(tail{i})" for i, tail in enumerate(tails)]
            self.line(f"if {' or '.join(full)}:")
            self.level += 1
            self.line("state[0] = 1")
            for i, place in enumerate(places):
                self.line(f"state[{i + 1}] = {place}")
            for found, marks, flag in self.active:
                self.line(f"if {flag}:")
                self.line(f"    mark({marks}, {found.array}, {found.start}, {found.stop}, 0)")
            self.line("return filled")
            self.level -= 1
            for i, tail in enumerate(tails):
                found, p = self.value(tail), self.name("p")
                self.line(f"begun{i} = used{i}")
                self.line(f"for {p} in range({found.start}, {found.stop}):")
                self.level += 1
                self.line(f"x{tail.position} = int64({found.array}[{p}])")
                level = self.level
                self.open_all(self.conditions(tail))
                self.line(f"tail{i}[used{i}] = x{tail.position}")
                self.line(f"used{i} += 1")
                self.level = level - 1
            if tails:
                self.line(f"if {' or '.join(f'used{i} == begun{i}' for i, _ in enumerate(tails))}:")
                for i, _ in enumerate(tails):
                    self.line(f"    used{i} = begun{i}")
                self.line("else:")
                self.level += 1
                for i, _ in enumerate(tails):
                    self.line(f"lengths{i}[filled] = used{i} - begun{i}")
            for k, position in enumerate((*loop.path, loop.position)):
                self.line(f"out[{k}, filled] = x{position}")
            self.line("filled += 1")
