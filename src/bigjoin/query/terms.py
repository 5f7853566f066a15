"""What comparisons and heads are made of: attributes (plain strings), properties of them, and constants."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import TypeAlias

from bigjoin.errors import Span


@dataclass(frozen=True, slots=True)
class Interval:
    """A span of time: months, whose length differs, and microseconds. A day is 24 hours."""

    months: int = 0
    microseconds: int = 0

    def __str__(self) -> str:
        parts = [f"{self.months} months"] * bool(self.months)
        seconds = Decimal(self.microseconds) / 10**6
        parts += [f"{seconds.normalize():f} seconds"] * bool(self.microseconds or not self.months)
        return " ".join(parts)


Value: TypeAlias = bool | int | float | str
"""What a plain comparison compares with."""

ConstantValue: TypeAlias = Value | Decimal | date | datetime | Interval | None
"""What an expression may hold: NULL, exact decimals, times and spans of time as well."""

ParameterValue: TypeAlias = Value | date | datetime | Decimal | Iterable[Value | date | datetime | Decimal | None] | None
"""What a parameter of a Cypher text may be: a value, NULL, or a list of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A literal in a query. Constants of different types differ, though Python's `1 == True` holds."""

    value: ConstantValue

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and type(self.value) is type(other.value) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __str__(self) -> str:
        if isinstance(self.value, bool) or self.value is None:
            return "null" if self.value is None else str(self.value).lower()
        for kind, word in ((Interval, "interval"), (datetime, "timestamp"), (date, "date")):
            if isinstance(self.value, kind):
                return f"{word} '{self.value}'"
        if not isinstance(self.value, str):
            return f"{self.value:f}" if isinstance(self.value, Decimal) else str(self.value)
        return "'" + self.value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def number_of(text: str) -> float | Decimal:
    """Return a number that is written with a point, which is exact, or with an exponent, which is a double, as in Spark SQL."""
    return float(text) if "e" in text.lower() else Decimal(text)


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
"""An attribute, or a property of one."""

Operand: TypeAlias = "str | Property | Constant"


def attribute_of(term: Term) -> str:
    """Return the attribute that a term is about."""
    return term.attribute if isinstance(term, Property) else term
