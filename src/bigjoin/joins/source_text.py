"""The text of a generated function: lines, names, and the arrays that become its arguments.

The source holds no text of a query, only its shape: attributes become x0, x1, ..., arrays and constants are arguments.
Whatever a set, a counter or a cache needs in memory is an argument too, made once for a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.dictionary import code_type
from bigjoin.index.trie import Trie
from bigjoin.joins.bind import Binder
from bigjoin.joins.stages import SetOf, bind_nest
from bigjoin.kernels.walk import own_positions
from bigjoin.query.nest import Nest

_HEADER = """from numpy import int64

from bigjoin.kernels.jit import kernel
from bigjoin.kernels.lists import lower_bound
from bigjoin.kernels.sets import common, count_common, mark, position_of, without


@kernel
def run({arguments}):
"""

DEEPEST = 90
"""Levels of indentation, of which Python reads a hundred."""

NESTED = 20
"""Loops within each other, of which Python allows no more."""

LONGEST = 400
"""Lines that are compiled: that takes some 10 ms each."""


@dataclass(frozen=True, slots=True)
class Value:
    """A set in the generated code: array[start:stop], its marks, and whether it is marked."""

    array: str
    start: str
    stop: str
    marks: str
    marked: str = "False"

    @property
    def size(self) -> str:
        return f"{self.stop} - {self.start}"


class SourceText:
    """A function in the making, for a nest that is bound to an index."""

    def __init__(self, term: Nest, binder: Binder) -> None:
        self.binder = binder
        self.root, self.tries, self.below = bind_nest(term, binder)
        self.loops = len(list(term.root.walk()))
        self.lines: list[str] = []
        self.level = self.deepest = 1
        self.names = 0
        self.arrays: dict[str, NDArray[Any]] = {"nothing": np.zeros(1, np.uint8)}
        self.known: dict[tuple[int, int, str], str] = {}
        self.constants: list[int] = []
        self.scopes: list[dict[SetOf, Value]] = [{}]
        self.idle: dict[str, list[str]] = {"marks": [], "buffer": []}
        self.domain = max(binder.size(a) for a in term.attributes)
        self.code_type = code_type(self.domain)

    def array(self, array: NDArray[Any]) -> str:
        """Return the name of an array of the index, an argument."""
        key = (array.__array_interface__["data"][0], len(array), str(array.dtype))
        if key not in self.known:
            view = array.view()
            view.flags.writeable = False
            self.known[key] = f"a{len(self.known)}"
            self.arrays[self.known[key]] = view
        return self.known[key]

    def derived(self, trie: Trie, what: str, make: Callable[[], NDArray[Any]]) -> str:
        name = f"{what}{self.tries.number(trie)}"
        if name not in self.arrays:
            self.arrays[name] = make()
        return name

    def nodes(self, trie: Trie) -> str:
        """Return the array of the node of each code."""
        if trie.places is not None:
            return self.array(trie.places)
        return self.derived(trie, "nodes", lambda: trie.shards.nodes(np.arange(len(trie.levels[0].offsets) - 1)))

    def codes(self, trie: Trie) -> str:
        """Return the array of the code of each node."""
        return self.derived(trie, "codes", lambda: trie.shards.codes(np.arange(len(trie.levels[0].offsets) - 1)))

    def splits(self, trie: Trie) -> str:
        """Return the array of where each code stands, or would stand, in its own list."""

        def make() -> NDArray[Any]:
            codes = np.arange(len(trie.offsets) - 1)
            found = np.empty(len(codes), np.int64)
            own_positions(trie.offsets, trie.values, trie.shards.nodes(codes), found)
            return found

        return self.derived(trie, "splits", make)

    def take(self, kind: str) -> str:
        """Return the name of scratch space: marks for every code, or a buffer for any list."""
        if self.idle[kind]:
            return self.idle[kind].pop()
        name = self.name(kind)
        if kind == "marks":
            self.arrays[name] = np.zeros(self.domain, np.uint8)
        else:
            self.arrays[name] = np.empty(self.longest, self.code_type)
            view = self.arrays[name].view()
            view.flags.writeable = False
            self.arrays[f"{name}r"] = view
        return name

    @cached_property
    def lengths(self) -> list[int]:
        """The length of the longest list of each trie."""
        return [trie.longest for trie in self.tries.all]

    @property
    def longest(self) -> int:
        """The length of the longest list of all."""
        return max(self.lengths, default=0)

    def constant(self, value: int) -> str:
        self.constants.append(value)
        return f"constants[{len(self.constants) - 1}]"

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forget at its end the sets that are found within, and use their buffers again."""
        self.scopes.append({})
        taken = {name for name in self.arrays if name.startswith("buffer")} - set(self.idle["buffer"])
        yield
        self.scopes.pop()
        now = {name for name in self.arrays if name.startswith("buffer") and not name.endswith("r")}
        self.idle["buffer"] = sorted(now - taken)

    def open_all(self, conditions: list[str]) -> None:
        """Go on only where all of some conditions hold."""
        if conditions:
            self.open(" and ".join(f"({text})" for text in conditions) if len(conditions) > 1 else conditions[0])

    def open(self, condition: str) -> None:
        self.line(f"if {condition}:")
        self.level += 1

    @property
    def is_too_large(self) -> bool:
        """Whether Python could not nest what was written, or compiling it would take longer than it saves."""
        loops = max(loop.depth for loop in self.root.everything()) + 1
        return loops > NESTED or self.deepest > DEEPEST or len(self.lines) > LONGEST

    def line(self, text: str) -> None:
        self.deepest = max(self.deepest, self.level)
        self.lines.append("    " * self.level + text)

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def source(self, arguments: list[str]) -> str:
        return _HEADER.format(arguments=", ".join([*arguments, *self.arrays])) + "\n".join(self.lines) + "\n"
