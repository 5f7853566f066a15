"""What an atom reads of the data: a relation or a view of it, at a version. Indices and statistics are asked with a `Read`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from bigjoin.query.terms import Constant


class Version(StrEnum):
    """Which tuples of a relation are read. A graph that does not change has only NEW."""

    OLD = "old"
    NEW = "new"
    EITHER = "either"
    """All tuples that are in the old version or in the new one: of these two, one holds the other."""
    DELTA = "delta"
    """The tuples in which the versions differ: what was deleted, or what was inserted."""
    LATER = "later"
    """The tuples of the delta that come after the one that the plan is seeded with."""


Column = Literal["kept", "left out"] | Constant | int
"""What becomes of a column. A number is that of a column which it has to equal; both are left out."""


@dataclass(frozen=True, slots=True)
class View:
    """Some columns of a relation, of the tuples that have certain constants or equal values in others, as a set.

    Atoms that leave columns out by name, and negated atoms with `_` or constants, read views.
    """

    columns: tuple[Column, ...]
    """What becomes of each column of the relation."""

    @property
    def kept(self) -> tuple[int, ...]:
        """The columns that the view has, in the relation's order."""
        return tuple(c for c, column in enumerate(self.columns) if column == "kept")

    @property
    def constants(self) -> tuple[tuple[int, Constant], ...]:
        """The columns that are to have a certain value."""
        return tuple((c, column) for c, column in enumerate(self.columns) if isinstance(column, Constant))

    @property
    def equal(self) -> tuple[tuple[int, int], ...]:
        """Pairs of columns that are to be equal."""
        return tuple((c, column) for c, column in enumerate(self.columns) if isinstance(column, int))

    def __str__(self) -> str:
        spelled = {"kept": "*", "left out": "_"}
        columns = ([c.value] if isinstance(c, Constant) else spelled.get(str(c), c) for c in self.columns)
        return json.dumps(list(columns))


@dataclass(frozen=True, slots=True)
class Read:
    """What is read of a relation."""

    relation: str
    version: Version = Version.NEW
    view: View | None = None
    width: int = 0
    """How many attributes the atom has, if an atom reads it: one more than the relation has columns asks for its rows."""

    def __str__(self) -> str:
        view = "" if self.view is None else str(self.view)
        return self.relation + view + ("" if self.version is Version.NEW else f"[{self.version}]")
