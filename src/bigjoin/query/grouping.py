"""Groups: rows of matches that agree in some columns become one row, with aggregates of the others."""

from __future__ import annotations

from dataclasses import dataclass

from bigjoin.query.expressions import Expression, mapped


@dataclass(frozen=True, slots=True)
class Aggregate:
    """What is made of the rows of a group: an entry of AGGREGATE_FUNCTIONS and what it is about, None for `count(*)`."""

    function: str
    argument: Expression | None = None

    def __str__(self) -> str:
        inside = "*" if self.argument is None else str(self.argument)
        return f"{self.function.replace(' ', '(')} {inside})" if " " in self.function else f"{self.function}({inside})"


@dataclass(frozen=True, slots=True)
class Grouping:
    """How rows are grouped, and what the columns of a group are.

    Keys and aggregates have names. Columns, `having` and what rows are sorted by are expressions of these names.
    """

    keys: tuple[tuple[str, Expression], ...]
    aggregates: tuple[tuple[str, Aggregate], ...]
    columns: tuple[tuple[str, Expression], ...]
    having: Expression | None = None

    @property
    def counts_matches(self) -> bool:
        """Whether the only aggregate is the number of matches."""
        return [aggregate for _, aggregate in self.aggregates] == [Aggregate("count")]

    def written(self, term: Expression) -> str:
        """Return a term over the names of keys and aggregates as a rule would write it."""
        meant = {name: str(part) for name, part in (*self.keys, *self.aggregates)}
        return str(mapped(term, lambda part: meant.get(part, part) if isinstance(part, str) else part))

    def __str__(self) -> str:
        keys = ", ".join(str(key) for _, key in self.keys)
        said = ", ".join(str(aggregate) for _, aggregate in self.aggregates) + (f" by {keys}" if keys else "")
        return said if self.having is None else f"{said}, having {self.written(self.having)}"
