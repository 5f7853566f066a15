"""What an atom reads: a relation or a view of it, at a version. Indices and statistics are looked up by a `Read`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from bigjoin.query.terms import Constant


class Version(StrEnum):
    """Which tuples of a relation are read. A static graph has only NEW."""

    OLD = "old"
    NEW = "new"
    EITHER = "either"
    """The tuples of the old or the new version. Deletions come before insertions, so one of the two contains the other."""
    DELTA = "delta"
    """The tuples in which the versions differ: those deleted, or those inserted."""
    LATER = "later"
    """The tuples of the delta that come after the seed's tuple."""


ViewColumn = Literal["kept", "left out"] | Constant | int
"""What a view does with a column. A number names the column that it has to equal; both are left out."""


@dataclass(frozen=True, slots=True)
class View:
    """The set of values that some columns have in the tuples whose other columns hold given constants or equal each other.

    Positive atoms that name only some columns read views, and so do negated atoms with `_` or constants.
    """

    columns: tuple[ViewColumn, ...]
    """What it does with each column of the relation."""

    @property
    def kept(self) -> tuple[int, ...]:
        """The columns that the view has, in the relation's order."""
        return tuple(c for c, column in enumerate(self.columns) if column == "kept")

    @property
    def constants(self) -> tuple[tuple[int, Constant], ...]:
        """The columns that have to hold a constant."""
        return tuple((c, column) for c, column in enumerate(self.columns) if isinstance(column, Constant))

    @property
    def equal(self) -> tuple[tuple[int, int], ...]:
        """Pairs of columns that have to be equal."""
        return tuple((c, column) for c, column in enumerate(self.columns) if isinstance(column, int))

    def __str__(self) -> str:
        spelled = {"kept": "*", "left out": "_"}
        columns = ([c.value] if isinstance(c, Constant) else spelled.get(str(c), c) for c in self.columns)
        return json.dumps(list(columns))


@dataclass(frozen=True, slots=True)
class Read:
    """A relation or a view of it, at a version."""

    relation: str
    version: Version = Version.NEW
    view: View | None = None
    width: int = 0
    """How many attributes the reading atom has; one more than the relation's columns asks for its rows."""

    def __str__(self) -> str:
        view = "" if self.view is None else str(self.view)
        return self.relation + view + ("" if self.version is Version.NEW else f"[{self.version}]")
