"""What an atom reads: a relation or a view of it, at a version. Indices and statistics are looked up by a `Read`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from bigjoin.query.terms import Constant

if TYPE_CHECKING:
    from bigjoin.query.query import Dialect, QueryFilter

THIS = "this"
"""What the conditions of a `ReplacedView` call the vertex that they are about."""


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
    NOT_OLD = "not old"
    """The old version as a negated atom reads it: half way through an epoch, it has what the epoch deletes and inserts."""
    NOT_NEW = "not new"
    """The new version as a negated atom reads it."""
    NOT_DELTA = "not delta"
    """The tuples in which these two differ: inserted where an epoch destroys matches, deleted where it creates them."""

    @property
    def mark(self) -> str:
        """How it is printed behind a relation, if it is not the new version."""
        name = self.removeprefix("not ")
        return "" if name == Version.NEW else f"[{name}]"


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
class ReplacedView(View):
    """The vertices that matches lose and get back half way through an epoch, because it replaces properties that a query reads.

    A negated atom over them stands for the properties of an attribute. Before and after an epoch nothing is among them. Half
    way, those vertices are whose properties satisfy the conditions on one side only, or on both but are shown and differ.
    """

    conditions: tuple[QueryFilter, ...] = ()
    """What the properties have to satisfy, with the attribute called THIS."""
    shown: tuple[str, ...] = ()
    """The properties of which the values matter, and not only what the conditions say of them."""
    dialect: Dialect = "sql"

    def __str__(self) -> str:
        return "[replaced]"


@dataclass(frozen=True, slots=True)
class Read:
    """A relation or a view of it, at a version."""

    relation: str
    version: Version = Version.NEW
    view: View | None = None
    width: int = 0
    """How many attributes the reading atom has; one more than the relation's columns asks for its rows."""

    def __str__(self) -> str:
        return self.relation + ("" if self.view is None else str(self.view)) + self.version.mark
