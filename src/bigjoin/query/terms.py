"""What comparisons and heads are made of: attributes (plain strings), properties of them, and constants."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeAlias

from bigjoin.errors import Span

Value: TypeAlias = bool | int | float | str


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A literal in a query. Constants of different types differ, though Python's `1 == True` holds."""

    value: Value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and type(self.value) is type(other.value) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __str__(self) -> str:
        if isinstance(self.value, bool):
            return str(self.value).lower()
        if not isinstance(self.value, str):
            return str(self.value)
        return "'" + self.value.replace("\\", "\\\\").replace("'", "\\'") + "'"


@dataclass(frozen=True, slots=True)
class Property:
    """A property of what an attribute stands for: of a vertex, or of the edge that an edge id names."""

    attribute: str
    name: str
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def column(self) -> str:
        """The name of its column in a result: a plain word that Spark does not have to quote."""
        return re.sub(r"\W", "_", f"{self.attribute}_{self.name}")

    def __str__(self) -> str:
        plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.name)
        return f"{self.attribute}.{self.name}" if plain else f'{self.attribute}."{self.name}"'


Term: TypeAlias = "str | Property"
"""What a head lists: an attribute, or a property of one."""

Operand: TypeAlias = "str | Property | Constant"


def attribute_of(term: Term) -> str:
    """Return the attribute that a term is about."""
    return term.attribute if isinstance(term, Property) else term
