"""Write a tree of plans as the source of one function: the loops with which queries of a sum begin are written once.

Inside a loop, the queries that end there have a match, and those that go on have loops that follow each other. To count, all
of them add to one sum. To list, each query has space of its own. When that of one query is full, the function notes which one
in state[0] and where each loop around that row stands in state[1:]; the next call goes straight there. So queries are numbered
in the order in which the text comes to their rows: a loop is entered again if the row lies within it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bigjoin.compiled.count_source import CountSource, Emit
from bigjoin.compiled.stages import BoundLoop
from bigjoin.joins.bind import Binder
from bigjoin.query.nest import Nest


class TreeCountSource(CountSource):
    """Writes the function that counts the matches of all queries of a tree."""

    def inside(self, loop: BoundLoop, factors: list[str], emit: Emit, cached: BoundLoop | None = None) -> None:
        """Write what is inside a loop: the matches that are complete, and the loops with which queries go on."""
        del factors, cached  # a tree of plans has loops within each other, and nothing else
        if loop.loop.ends:
            emit([str(len(loop.loop.ends))])
        for child in loop.apart:
            with self.scope():
                if child.is_counted:
                    emit([self.size(child), str(len(child.loop.ends))])
                else:
                    self.enter(child, loop.depth, emit)

    def enter(self, child: BoundLoop, depth: int, emit: Emit) -> None:
        """Write a loop inside another, with the sets that it needs."""
        self.find_sets([child], depth)
        iterations = self.set_of(child).size if child.stages else "0"
        with self.marking([child], depth, iterations):
            self.over(child, emit)

    def find_sets(self, heads: Sequence[BoundLoop], depth: int) -> None:
        """Write the sets that become known at a depth, and go on only if none is empty that all queries in there need."""
        needed_by_all = [loop for head in heads for loop in _undivided(head)] if len(heads) == 1 else []
        for loop, wanted in self.needed(heads, depth):
            if self.lookup(wanted) is None:
                found = self.scopes[-1][wanted] = self.materialise(wanted, loop if wanted is loop.extensions else None)
                if depth >= 0 and loop in needed_by_all:
                    self.open(found.is_not_empty)

    def end_if_stopped(self, loop: BoundLoop) -> None:
        """Write the end of a query that is stopped, in the root and in loops around loops; what it returns is not read."""
        if loop is self.root or any(not child.is_counted for child in loop.apart):
            self.line("if stopped[0] != 0:")
            self.line("    return 0")

    def most_inside(self, loop: BoundLoop, weights: Sequence[int] = (), *, entry: bool = False) -> int:
        """Return what one value of a loop cannot exceed."""
        del weights
        return len(loop.loop.ends) + sum(self.most(child, entry=entry) for child in loop.apart)


def _undivided(loop: BoundLoop) -> Iterator[BoundLoop]:
    """Give a loop and those within it, up to where the first query ends or goes its own way."""
    yield loop
    while len(loop.apart) == 1 and not loop.loop.ends:
        loop = loop.apart[0]
        yield loop


class TreeListSource(TreeCountSource):
    """Writes the function that lists the matches of each query of a tree."""

    def __init__(self, nest: Nest, binder: Binder) -> None:
        super().__init__(nest, binder)
        self.rows: list[BoundLoop] = []
        """The loop in which each row is complete, in the order of the text."""
        self.numbers: list[int] = []
        """The query that each row belongs to."""
        self.within: dict[int, tuple[int, int]] = {}
        """By the number of a loop: the first row within it, and the last plus one."""
        self._number(self.root)

    def _number(self, loop: BoundLoop) -> None:
        first = len(self.rows)
        for end in loop.loop.ends:
            self.rows.append(loop)
            self.numbers.append(end)
        for child in loop.apart:
            self._number(child)
        self.within[loop.number] = (first, len(self.rows))

    def function(self) -> str:
        """Return the source of the function."""
        self.line("resuming = state[0] > 0")
        self.line("wanted = state[0] - 1")
        self.line("state[0] = 0")
        for row in range(len(self.rows)):
            self.line(f"filled{row} = 0")
        self.over_root(lambda _: None)
        self.finish()
        spaces = [f"out{row}" for row in range(len(self.rows))]
        return self.module("first", "last", "low", "high", "tally", "constants", "state", "filled", *spaces)

    def finish(self) -> None:
        """Write the end of a call: tell how many rows each query has."""
        for row in range(len(self.rows)):
            self.line(f"filled[{row}] = filled{row}")
        self.line("return 0")

    def first_place(self, loop: BoundLoop, start: str) -> str:
        """Return the place where a loop begins, or goes on."""
        return self.let("begin", f"state[{loop.depth + 1}] if resuming else {start}")

    def tally_values(self, loop: BoundLoop, number: str) -> None:
        """Write nothing: rows are counted as they are returned."""

    def inside(self, loop: BoundLoop, factors: list[str], emit: Emit, cached: BoundLoop | None = None) -> None:
        """Write what is inside a loop: rows that are complete, and the loops with which queries go on."""
        del factors, cached
        first, _ = self.within[loop.number]
        for row in range(first, first + len(loop.loop.ends)):
            self.write_row(row)
        for child in loop.apart:
            low, high = self.within[child.number]
            with self.scope():
                if low > first or len(loop.apart) > 1:
                    self.open(f"not resuming or ({low} <= wanted and wanted < {high})")
                self.enter(child, loop.depth, emit)

    def write_row(self, row: int) -> None:
        """Write a row, unless it was written before the last call ended; if there is no space for it, end this call."""
        loop = self.rows[row]
        positions = (*loop.path, loop.position)
        with self.block(f"if not resuming or wanted == {row}:"):
            self.line("resuming = False")
            with self.block(f"if filled{row} == out{row}.shape[1]:"):
                self.line(f"state[0] = {row + 1}")
                for i, place in enumerate(["n", *(f"p{position}" for position in positions[1:])]):
                    self.line(f"state[{i + 1}] = {place}")
                self.clear()
                self.finish()
            for i, position in enumerate(positions):
                self.line(f"out{row}[{i}, filled{row}] = x{position}")
            self.line(f"filled{row} += 1")
