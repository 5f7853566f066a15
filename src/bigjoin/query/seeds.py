"""Seeds: tuples of ids that some attributes of a query are restricted to. They belong to one question, not to an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

SeedsLike: TypeAlias = Any
"""What users give as seeds: a dictionary of attributes and their ids, a table of any library, or the path of one."""


@dataclass(frozen=True, slots=True)
class Seeds:
    """A set of tuples of ids that some attributes are restricted to, jointly: a filter, which plans read like a relation.

    It has no duplicates, and no NULLs, which match nothing.
    """

    attributes: tuple[str, ...]
    tuples: int
    keys: tuple[int, ...]
    """How many different ids each attribute may have."""
    digest: str
    """The same for the same set of tuples, whatever the attributes are."""
    column_digests: tuple[str, ...]
    """The same for the same set of ids in a column."""
    symmetries: tuple[tuple[int, ...], ...] = ()
    """The permutations of columns that leave the set unchanged."""
    is_text: bool = False
    """Whether the ids are as a text file spells them: they then have the type of the ids that they are compared with."""
    ids: Any = field(default=None, compare=False, repr=False)
    """The ids, as an Arrow table with a column for each attribute."""


def shown_seeds(seeds: Sequence[Seeds]) -> list[str]:
    """Return seeds as atoms; equal sets of tuples are one relation, as in a plan."""
    number = {digest: n for n, digest in enumerate(dict.fromkeys(one.digest for one in seeds), start=1)}
    return [f"{seeds_name(number[one.digest])}({', '.join(one.attributes)})" for one in seeds]


def seeds_name(number: int, name: str = "seeds") -> str:
    """Return the name of the first, the second, ... relation of seeds."""
    return name if number == 1 else f"{name}{number}"
