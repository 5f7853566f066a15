"""A view of a relation: some of its columns, of the tuples that have certain constants in others, as a set.

Atoms that leave columns out by name, and negated atoms with `_` or constants, read views. A view has a name that says all
about it, so that plans, which speak of relations by name, need not know it from a relation.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from bigjoin.query.query import Constant

Column = Literal["kept", "left out"] | Constant | int
"""What becomes of a column. A number is that of a column which it has to equal; both are left out."""


@dataclass(frozen=True, slots=True)
class View:
    """What becomes of each column of a relation."""

    relation: str
    columns: tuple[Column, ...]

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

    @property
    def name(self) -> str:
        """The name under which plans know the view."""
        return f"{self.relation}{json.dumps([_spelled(column) for column in self.columns])}"


def view_of(name: str) -> View | None:
    """Return the view that a name stands for; None if it is that of a relation."""
    if "[" not in name:
        return None
    relation, bracket, spelled = name.partition("[")
    return View(relation, tuple(_read(column) for column in json.loads(bracket + spelled)))


def _spelled(column: Column) -> object:
    if isinstance(column, Constant):
        return [column.value]
    return {"kept": "*", "left out": "_"}.get(str(column), column)


def _read(spelled: object) -> Column:
    if isinstance(spelled, list):
        return Constant(spelled[0])
    if isinstance(spelled, int):
        return spelled
    return "kept" if spelled == "*" else "left out"
