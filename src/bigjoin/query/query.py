"""A full conjunctive query: atoms over relations, filters, and the flags that say which bindings count as matches."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias

from bigjoin.errors import QueryError, Span, did_you_mean

Value: TypeAlias = int | float | str

FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
"""The operator that holds when the two sides of a comparison change places."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal in a comparison, as opposed to an attribute, which is a plain string."""

    value: Value

    def __str__(self) -> str:
        return repr(self.value) if isinstance(self.value, str) else str(self.value)


Operand: TypeAlias = "str | Constant"


@dataclass(frozen=True, slots=True)
class Atom:
    """One use of a relation in a query."""

    relation: str
    attributes: tuple[str, ...]
    negated: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)

    def renamed(self, names: dict[str, str]) -> Atom:
        """Return the atom with its attributes replaced."""
        return replace(self, attributes=tuple(names[a] for a in self.attributes))

    def __str__(self) -> str:
        return f"{'not ' if self.negated else ''}{self.relation}({', '.join(self.attributes)})"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A filter about users' ids (never about codes)."""

    left: Operand
    op: str
    right: Operand
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def attributes(self) -> tuple[str, ...]:
        return tuple(side for side in (self.left, self.right) if isinstance(side, str))

    def flipped(self) -> Comparison:
        """Return the same condition with its sides exchanged."""
        return Comparison(self.right, FLIPPED[self.op], self.left, self.span)

    def canonical(self) -> Comparison:
        """Return the one form that equal conditions share: attribute first, then `<` or `<=` or the smaller name."""
        if not isinstance(self.left, str):
            return self.flipped()
        if not isinstance(self.right, str):
            return self
        backwards = self.op in (">", ">=") or (self.op in ("=", "!=") and self.right < self.left)
        return self.flipped() if backwards else self

    def renamed(self, names: dict[str, str]) -> Comparison:
        """Return the comparison with its attributes replaced."""
        left, right = (names[side] if isinstance(side, str) else side for side in (self.left, self.right))
        return replace(self, left=left, right=right)

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


@dataclass(frozen=True, slots=True)
class Query:
    """A rule `name(head) := atoms, filters` and the meaning its flags give it.

    Without flags a match is any binding of the attributes that satisfies every atom (a homomorphism). `distinct`: a
    match's values differ. `unique`: distinct, and one match for each class under the query's automorphisms. `induced`:
    distinct, and no tuple among a match's values beyond those the atoms ask for.
    """

    name: str
    head: tuple[str, ...]
    atoms: tuple[Atom, ...]
    filters: tuple[Comparison, ...] = ()
    distinct: bool = False
    unique: bool = False
    induced: bool = False
    cross_product: bool = False

    @property
    def positive(self) -> tuple[Atom, ...]:
        return tuple(atom for atom in self.atoms if not atom.negated)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes in order of first appearance in a positive atom."""
        return tuple(dict.fromkeys(a for atom in self.positive for a in atom.attributes))

    @property
    def injective(self) -> bool:
        return self.distinct or self.unique or self.induced

    def __str__(self) -> str:
        body = ", ".join(str(part) for part in (*self.atoms, *self.filters))
        flags = [flag for flag in ("distinct", "unique", "induced") if getattr(self, flag)]
        return f"{self.name}({', '.join(self.head)}) := {body}" + (f"  [{', '.join(flags)}]" if flags else "")


def validate(query: Query) -> Query:
    """Return the query if every attribute it speaks of is bound by a positive atom; raise QueryError otherwise."""
    bound = query.attributes
    if not bound:
        raise QueryError("a query needs at least one atom that is not negated", hint="for example edge(a, b)")
    parts: list[Atom | Comparison] = [*query.atoms, *query.filters]
    for part in parts:
        for attribute in part.attributes:
            if attribute not in bound:
                raise QueryError(
                    f"attribute {attribute!r} in '{part}' is not bound by any atom",
                    part.span,
                    did_you_mean(attribute, bound) or f"the atoms bind {', '.join(bound)}",
                )
    for attribute in query.head:
        if attribute not in bound:
            raise QueryError(
                f"attribute {attribute!r} of the head is not bound by any atom",
                hint=did_you_mean(attribute, bound) or f"the atoms bind {', '.join(bound)}",
            )
    if len(set(query.head)) != len(query.head):
        raise QueryError("the head names an attribute twice", hint=f"write {query.name}({', '.join(bound)})")
    if missing := [a for a in bound if a not in query.head]:
        raise QueryError(
            f"the head of {query.name!r} leaves out {', '.join(missing)}",
            hint=f"a match binds every attribute: write {query.name}({', '.join(bound)}), and select columns afterwards",
        )
    return query
