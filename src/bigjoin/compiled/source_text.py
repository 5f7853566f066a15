"""The text of a generated function: its lines, its names, and the arrays that become its arguments.

The text holds the shape of a query and nothing else: attributes become x0, x1, ... by their position; arrays and constants are
arguments. So queries of one shape share their machine code. Scratch space (buffers, marks, counters, caches) is an argument
too, allocated once for all ranges of seeds, since kernels allocate nothing.

Sets are kept by *scope*: a set found inside a loop is forgotten, and its buffer used again, where that loop ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bigjoin.compiled.found_sets import FoundSet
from bigjoin.compiled.stages import BoundNest, CodeSet
from bigjoin.index.dictionary import code_type
from bigjoin.index.trie import Trie
from bigjoin.joins.bind import Binder
from bigjoin.kernels.walk import own_positions
from bigjoin.query.nest import Nest
from bigjoin.quota import quota

_ROWS = """from bigjoin.kernels.bits import lowest
from bigjoin.kernels.rows import ONES, ZERO, all_members, holds_place, make_row_if_paid, meet_list, meet_places
from bigjoin.kernels.rows import meet_row, members_in_list, settle, without_lowest
"""

_MODULE = """from numpy import int64

from bigjoin.kernels.jit import kernel
from bigjoin.kernels.lists import lower_bound, position_of
from bigjoin.kernels.sets import common, mark, without
{more}

@kernel
def run({arguments}):
{body}
"""

Memory: TypeAlias = tuple[int, int, str]
"""What tells an array from others."""

MAX_SOURCE_LOOPS = 20
"""Loops within each other; Python allows no more."""

MAX_SOURCE_INDENTS = 90
"""Levels of indentation; Python allows a hundred."""

MAX_SOURCE_LINES = 400
"""Compiling takes some 10 ms a line."""


class SourceText:
    """A function being written, for a nest that is bound to an index."""

    def __init__(self, nest: Nest, binder: Binder) -> None:
        self.binder = binder
        self.nest = BoundNest(nest, binder)
        self.root = self.nest.root
        self.loops = list(self.root.everything())
        self.lines: list[str] = []
        self.is_unwritten = False
        """Whether a predicate could not be written, so that the plan has to be executed on batches."""
        self.level = self.max_level = 1
        self.names = self.buffers = 0
        self.arrays: dict[str, NDArray[Any]] = {"nothing": np.zeros(1, np.uint8), "stopped": quota().flag}
        self.known: dict[Memory, str] = {}
        """The names of the arrays of the index."""
        self.constants: list[int] = []
        self.scopes: list[dict[CodeSet, FoundSet]] = []
        self.clearing: list[tuple[str, ...]] = []
        """How the marks of this point are cleared."""
        self.max_lengths_below: dict[int, int] = {}
        """By the number of a trie: how long the longest part of a list below its own key is, where that is known."""
        self.room = {attribute: self.size_of(attribute) for attribute in nest.attributes}
        """How many codes of each attribute there is space for in arrays that have an entry for each."""
        self.domain = max(self.room.values())
        self.code_type = code_type(self.domain)

    def size_of(self, attribute: str) -> int:
        """Return how many codes of an attribute there may be."""
        return self.binder.size(attribute)

    # Lines

    def line(self, text: str) -> None:
        """Write a line at the current level."""
        self.max_level = max(self.max_level, self.level)
        self.lines.append("    " * self.level + text)

    def write_all(self, *lines: str) -> None:
        """Write lines at the current level."""
        for line in lines:
            self.line(line)

    def let(self, prefix: str, expression: str) -> str:
        """Write an assignment to a new variable, and return its name."""
        name = self.name(prefix)
        self.line(f"{name} = {expression}")
        return name

    def name(self, prefix: str) -> str:
        """Return a new name."""
        self.names += 1
        return f"{prefix}{self.names}"

    def open(self, *conditions: str) -> None:
        """Put what follows, up to the end of the block or scope, under conditions, if there are any."""
        if conditions:
            self.line(f"if {' and '.join(f'({text})' for text in conditions) if len(conditions) > 1 else conditions[0]}:")
            self.level += 1

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Write a header, and what is written inside below it."""
        level = self.level
        self.line(header)
        self.level += 1
        yield
        self.level = level

    @contextmanager
    def scope(self) -> Iterator[None]:
        """At the end, close what was opened inside, forget the sets that were found, and release their buffers."""
        level, buffers = self.level, self.buffers
        self.scopes.append({})
        yield
        self.scopes.pop()
        self.level, self.buffers = level, buffers

    # Arguments

    def array(self, array: NDArray[Any]) -> str:
        """Return the name of an array of the index, the same one for the same memory."""
        name = self.known.setdefault(memory_of(array), f"a{len(self.known)}")
        return self.derived(name, lambda: read_only(array))

    def derived(self, name: str, make: Callable[[], NDArray[Any]]) -> str:
        """Return the name of an array that is made when first asked for."""
        if name not in self.arrays:
            self.arrays[name] = make()
        return name

    def nodes(self, trie: Trie) -> str:
        """Return the array of the node of each code."""
        if trie.places is not None:
            return self.array(trie.places)
        return self.derived(f"nodes{self.nest.number(trie)}", lambda: trie.shards.nodes(np.arange(trie.nodes_stored)))

    def codes(self, trie: Trie) -> str:
        """Return the array of the code of each node."""
        return self.derived(f"codes{self.nest.number(trie)}", lambda: trie.shards.codes(np.arange(trie.nodes_stored)))

    def splits(self, trie: Trie) -> str:
        """Return the array of where each code stands, or would stand, in its own list."""

        def make() -> NDArray[Any]:
            codes = np.arange(len(trie.offsets) - 1)
            found = np.empty(len(codes), np.int64)
            own_positions(trie.offsets, trie.values, trie.shards.nodes(codes), found)
            return found

        return self.derived(f"splits{self.nest.number(trie)}", make)

    def buffer(self) -> str:
        """Return a buffer for any set, in use until the end of the scope; the same with an r is read-only, as lists are."""
        name = self.derived(f"buffer{self.buffers}", lambda: np.empty(max(self.max_lengths, default=0), self.code_type))
        self.derived(f"{name}r", lambda: read_only(self.arrays[name]))
        self.buffers += 1
        return name

    def constant(self, value: int) -> str:
        """Return the name of a constant."""
        self.constants.append(value)
        return f"constants[{len(self.constants) - 1}]"

    @cached_property
    def max_lengths(self) -> list[int]:
        """The length of the longest list of each trie."""
        return [trie.longest for trie in self.nest.tries]

    # The whole

    @property
    def is_too_large(self) -> bool:
        """Whether Python cannot nest what was written, compiling it would take too long, or a predicate needs whole rows."""
        loops = max(loop.depth for loop in self.loops) + 1
        return (
            self.is_unwritten
            or loops > MAX_SOURCE_LOOPS
            or self.max_level > MAX_SOURCE_INDENTS
            or len(self.lines) > MAX_SOURCE_LINES
        )

    def module(self, *arguments: str) -> str:
        """Return the source of a module with the function, which takes these arguments and then the arrays."""
        more = _ROWS if "eras" in self.arrays else ""
        return _MODULE.format(more=more, arguments=", ".join([*arguments, *self.arrays]), body="\n".join(self.lines))


def memory_of(array: NDArray[Any]) -> Memory:
    """Return what tells an array from others: where it is, how long, and of which type."""
    return array.__array_interface__["data"][0], len(array), array.dtype.str


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view of an array that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view
