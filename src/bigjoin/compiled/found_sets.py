"""Where a generated function has its sets: as stretches of arrays, or as bits inside a universe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from bigjoin.compiled.universes import Universe


@dataclass(frozen=True, slots=True)
class SetSlice:
    """A set, array[start:stop], with its marks and the variable that tells whether they are set."""

    array: str
    start: str
    stop: str
    marks: str = "nothing"
    marked: str = "False"
    spent: str | None = None
    """The variable with what its intersections have cost so far, if they may come to what marking it costs."""

    @property
    def within(self) -> None:
        """A list is in no universe."""

    @property
    def size(self) -> str:
        return f"{self.stop} - {self.start}"

    @property
    def is_not_empty(self) -> str:
        return f"{self.stop} > {self.start}"

    @property
    def begin(self) -> str:
        """Where a loop over it begins."""
        return self.start


@dataclass(frozen=True, slots=True)
class Settled:
    """A universe: its members, the array of their places, the words of a row, and the number of its era."""

    universe: Universe
    members: SetSlice
    places: str
    words: str
    era: str

    @property
    def arguments(self) -> str:
        """The members, as arguments."""
        return f"{self.members.array}, {self.members.start}, {self.members.stop}"


@dataclass(frozen=True, slots=True)
class BitSet:
    """A part of a universe: its words that are not zero, their numbers, how many words there are, and how many members."""

    within: Settled
    bits: str
    at: str
    kept: str
    size: str

    @property
    def is_not_empty(self) -> str:
        return f"{self.size} > 0"

    @property
    def begin(self) -> str:
        """Where a loop over it begins."""
        return "0"

    @property
    def arguments(self) -> str:
        """The set, as arguments."""
        return f"{self.bits}, {self.at}, {self.kept}"


FoundSet: TypeAlias = SetSlice | BitSet
