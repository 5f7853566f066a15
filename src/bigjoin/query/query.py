"""A full conjunctive query: atoms over relations, filters, and the flags that say which bindings count as matches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from bigjoin.errors import QueryError, Span, did_you_mean
from bigjoin.query.expressions import Call, Expression, attributes_of, conjuncts
from bigjoin.query.expressions import Predicate as Predicate
from bigjoin.query.flags import FLAGS
from bigjoin.query.operators import EQUAL, OPERATORS, ComparisonOperator
from bigjoin.query.read import Read, Version, View
from bigjoin.query.seeds import Seeds, shown_seeds
from bigjoin.query.terms import Constant, Operand, Property, attribute_of

MAX_ATTRIBUTES = 128
"""Attributes of a query."""

MAX_ATOMS = 1024
"""Atoms of a query. The densest query of this size takes seconds to plan, a path of all attributes a tenth of one."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """How an atom that a motif or a Cypher pattern wrote is to be read; `query/spelled_out.py` does so, given a source."""

    relations: tuple[str, ...] = ()
    """The relations whose tuples match, if not the atom's own alone; empty if it stands for any relation."""
    rows: bool = True
    """Whether each row of the source matches, where the relation keeps rows; otherwise pairs do."""
    either: bool = False
    """Whether a tuple matches in both directions, a loop once."""
    backward: bool = False
    """Whether a path goes against the direction of its tuples."""
    clause: int | None = None
    """The clause whose relationships have to differ from each other."""

    def __str__(self) -> str:
        marks = [
            "any relation" if not self.relations else "|".join(self.relations),
            *(["each row"] if self.rows else []),
            *(["either direction"] if self.either else []),
            *(["backward"] if self.backward else []),
            *([f"clause {self.clause}"] if self.clause is not None else []),
        ]
        return f"<{', '.join(marks)}>"


PathMode: TypeAlias = Literal["walk", "trail", "simple", "acyclic"]
"""What a path may repeat: anything; vertices, but no edge; no vertex, but it may end where it began; no vertex at all."""


@dataclass(frozen=True, slots=True)
class Hops:
    """How many tuples of a relation follow each other where an atom stands for a path; `query/paths.py` spells it out."""

    lowest: int
    highest: int
    mode: PathMode = "walk"

    def __str__(self) -> str:
        return f"*{self.lowest}" if self.lowest == self.highest else f"*{self.lowest}..{self.highest}"


@dataclass(frozen=True, slots=True)
class Atom:
    """One use of a relation in a query."""

    relation: str
    attributes: tuple[str, ...]
    negated: bool = False
    optional: bool = False
    """Whether a match may lack it; the attributes that only it binds are then NULL."""
    columns: tuple[str, ...] = ()
    """The names of the columns that the attributes stand for; if empty, all columns of the relation, in order."""
    view: View | None = None
    version: Version = Version.NEW
    pattern: Pattern | None = None
    """What the pattern language leaves open until the source is known."""
    hops: Hops | None = None
    """If set, it stands for paths between its first two attributes; a third one names the path."""
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def read(self) -> Read:
        """What it reads."""
        return Read(self.relation, self.version, self.view, len(self.attributes))

    @property
    def source(self) -> Read:
        """What it reads, whatever the version."""
        return Read(self.relation, view=self.view, width=len(self.attributes))

    def renamed(self, names: dict[str, str]) -> Atom:
        """Return the atom with its attributes replaced."""
        return replace(self, attributes=tuple([names[a] for a in self.attributes]))

    def __str__(self) -> str:
        named = [f"{column}: {attribute}" for column, attribute in zip(self.columns, self.attributes, strict=False)]
        sign = "not " if self.negated else "optional " if self.optional else ""
        sign += f"{self.hops.mode} " if self.hops is not None and self.hops.mode != "walk" else ""
        pattern = "" if self.pattern is None else str(self.pattern)
        return f"{sign}{self.read}{self.hops or ''}{pattern}({', '.join(named or self.attributes)})"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A filter about users' ids (never about codes) and properties."""

    left: Operand
    op: str
    """The text of an entry of OPERATORS."""
    right: Operand
    also: tuple[tuple[str, str], ...] = ()
    """Further pairs of a `!=` between tuples, as in (a, b) != (c, d): it holds unless both sides are equal in all of them."""
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def operator(self) -> ComparisonOperator:
        return OPERATORS[self.op]

    @property
    def pairs(self) -> tuple[tuple[Operand, Operand], ...]:
        """What is compared with what."""
        return ((self.left, self.right), *self.also)

    @property
    def attributes(self) -> tuple[str, ...]:
        sides = (side for pair in self.pairs for side in pair) if self.also else (self.left, self.right)
        return tuple([attribute_of(side) for side in sides if not isinstance(side, Constant)])

    @property
    def properties(self) -> tuple[Property, ...]:
        return tuple(side for side in (self.left, self.right) if isinstance(side, Property))

    @property
    def is_constant(self) -> bool:
        """Whether it says that something equals a constant."""
        return self.op == EQUAL.text and isinstance(self.right, Constant)

    @property
    def keeps_apart(self) -> bool:
        """Whether it says that two values differ, whatever the other attributes are."""
        return not (self.operator.reflexive or self.properties or self.also)

    def flipped(self) -> Comparison:
        """Return the same condition with its sides exchanged."""
        return Comparison(self.right, self.operator.flipped, self.left, self.also, self.span)

    def led_by(self, attribute: str) -> Comparison:
        """Return the same condition with the side that is about the attribute on the left, and nowhere else in a tuple."""
        if not self.also:
            return self if _attribute(self.left) == attribute else self.flipped()
        pairs = list(self.pairs)
        left, right = pairs.pop(next(i for i, pair in enumerate(pairs) if attribute in map(_attribute, pair)))
        led = replace(self, left=left, right=right, also=())
        led = led if _attribute(left) == attribute else led.flipped()
        rest = [(str(a), str(b)) for a, b in pairs]
        return replace(led, also=tuple((_other(a, attribute, led), _other(b, attribute, led)) for a, b in rest))

    def canonical(self) -> Comparison:
        """Return the one form that equal conditions share: attribute first, then `<` or `<=` or the smaller name."""
        if self.also:
            pairs = sorted({(min(pair), max(pair)) for pair in ((str(a), str(b)) for a, b in self.pairs) if pair[0] != pair[1]})
            (left, right), *others = pairs or [(str(self.left), str(self.left))]
            return replace(self, left=left, right=right, also=tuple(others))
        if isinstance(self.left, Constant):
            return self.flipped()
        if isinstance(self.right, Constant):
            return self
        backwards = (self.operator.flipped, str(self.right)) < (self.op, str(self.left))
        return self.flipped() if backwards else self

    def renamed(self, names: dict[str, str]) -> Comparison:
        """Return the comparison with its attributes replaced."""
        left, right = (_renamed(side, names) for side in (self.left, self.right))
        return replace(self, left=left, right=right, also=tuple((names[a], names[b]) for a, b in self.also))

    def __str__(self) -> str:
        left, right = ([str(pair[side]) for pair in self.pairs] for side in (0, 1))
        return f"({', '.join(left)}) {self.op} ({', '.join(right)})" if self.also else f"{self.left} {self.op} {self.right}"


def _attribute(side: Operand) -> str | None:
    return None if isinstance(side, Constant) else attribute_of(side)


def _other(side: str, attribute: str, led: Comparison) -> str:
    """Return an attribute of a tuple, or in place of the one on the left the one that it is compared with."""
    return str(led.right) if side == attribute else side


def _renamed(side: Operand, names: dict[str, str]) -> Operand:
    if isinstance(side, Property):
        return replace(side, attribute=names[side.attribute])
    return names[side] if isinstance(side, str) else side


QueryFilter: TypeAlias = Comparison | Predicate
"""What a match has to satisfy besides the atoms."""

Dialect: TypeAlias = Literal["sql", "cypher"]
"""Whose rules expressions follow where languages differ: Spark SQL's in ANSI mode, or openCypher's."""


def conditions(expression: Expression, dialect: Dialect, span: Span | None = None) -> tuple[QueryFilter, ...]:
    """Return the filters that a condition means: plain comparisons where it can be said by these, and predicates."""
    found: list[QueryFilter] = []
    for part in conjuncts(expression):
        if isinstance(part, Call) and part.function == "not":
            part = _negated(part, dialect)
        where = (part.span if isinstance(part, Call) else None) or span
        if isinstance(part, Call) and part.function in OPERATORS:
            left, right = part.arguments
            sides = [side for side in (left, right) if isinstance(side, str | Property | Constant)]
            constants = [side for side in sides if isinstance(side, Constant)]
            if len(sides) == 2 and len(constants) < 2 and all(c.value == c.value and c.value is not None for c in constants):
                found.append(Comparison(sides[0], part.function, sides[1], span=where))
                continue
        if not isinstance(part, Call):
            part = Call("=", (part, Constant(True)), where)  # a truth value by itself
            found += conditions(part, dialect, where)
            continue
        found.append(Predicate(part, where))
    return tuple(found)


def _negated(condition: Call, dialect: Dialect) -> Call:
    """Return `not (a < b)` as `a >= b`: where either is unknown, both are. In Cypher, `not (a = b)` only: NaN is neither."""
    match condition.arguments[0]:
        case Call(function, sides) if function in OPERATORS and (dialect == "sql" or OPERATORS[function].symmetric):
            return Call(OPERATORS[function].negated, sides, condition.span)
        case _:
            return condition


def column_of(term: Expression) -> str:
    """Return what a column of a result is called after: an attribute, or what is looked up or computed."""
    return term if isinstance(term, str) else str(term) if isinstance(term, Constant) else term.column


@dataclass(frozen=True, slots=True)
class Query:
    """A query as a value: a rule `name(head) := atoms, filters`, and flags that say what a match is.

    Texts in any language become queries, and everything that takes a text takes a `Query` as well. Queries do not change.

    The head lists the columns of the result: attributes, properties or expressions. A match gives every attribute a value. So
    if the head leaves attributes out, rows may repeat, unless `deduplicate` is set.

    Without flags, a match is any choice of values that satisfies every atom (a homomorphism). `distinct`: the values of a match
    differ. `unique`: they differ, and matches that are the same up to an automorphism of the query count once. `induced`: they
    differ, and there are no tuples among them but those that the atoms ask for.
    """

    name: str
    head: tuple[Expression, ...]
    atoms: tuple[Atom, ...]
    filters: tuple[QueryFilter, ...] = ()
    distinct: bool = False
    unique: bool = False
    induced: bool = False
    cross_product: bool = False
    deduplicate: bool = False
    names: tuple[str, ...] = ()
    """What the result's columns are called, if not after the terms of the head."""
    seeds: tuple[Seeds, ...] = ()
    """What attributes are restricted to besides. They become atoms where a source is known."""
    dialect: Dialect = "sql"
    zone: str = "UTC"
    """The time zone in which its texts name times, and in which days and hours begin."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the result's columns, in the order of the head."""
        return self.names or tuple(map(column_of, self.head))

    @property
    def constants(self) -> dict[Operand, Constant]:
        """What has to equal a constant, and which."""
        return {
            f.left: f.right
            for f in self.filters
            if isinstance(f, Comparison) and f.is_constant and isinstance(f.right, Constant)
        }

    @property
    def computes(self) -> bool:
        """Whether a column of the head is computed."""
        return any(isinstance(term, Call) for term in self.head)

    @property
    def positive(self) -> tuple[Atom, ...]:
        return tuple(atom for atom in self.atoms if not (atom.negated or atom.optional))

    @property
    def optional(self) -> tuple[Atom, ...]:
        return tuple(atom for atom in self.atoms if atom.optional)

    @property
    def projects(self) -> bool:
        """Whether the head leaves out an attribute that may have several values for the same values of the others."""
        listed = {term for term in self.head if isinstance(term, str)}
        return not self.bound <= listed | self.constants.keys()

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes in order of first appearance in a positive atom."""
        return tuple(dict.fromkeys(a for atom in self.positive for a in atom.attributes))

    @property
    def bound(self) -> set[str]:
        """The attributes that its atoms bind, some of which may be NULL if an optional atom binds them alone."""
        return {a for atom in self.atoms if not atom.negated for a in atom.attributes}

    @property
    def injective(self) -> bool:
        """Whether the values of a match have to differ."""
        return self.distinct or self.unique or self.induced

    def with_flags(self, flags: Mapping[str, bool]) -> Query:
        """Return the query with some flags set or cleared; raise TypeError for a name that is no flag."""
        if unknown := flags.keys() - {flag.name for flag in FLAGS}:
            raise TypeError(f"a query has no flag {min(unknown)!r}")
        changes: Any = flags
        return replace(self, **changes)

    def __str__(self) -> str:
        body = ", ".join([*map(str, self.atoms), *shown_seeds(self.seeds), *map(str, self.filters)])
        flags = [flag.name for flag in FLAGS if flag.printed and getattr(self, flag.name)]
        return f"{self.name}({', '.join(map(str, self.head))}) := {body}" + (f"  [{', '.join(flags)}]" if flags else "")


def validate(query: Query) -> Query:
    """Return the query if positive or optional atoms bind every attribute in it; raise QueryError otherwise."""
    if not query.attributes:
        raise QueryError("a query needs at least one atom that is neither negated nor optional", hint="for example edge(a, b)")
    bound = tuple(dict.fromkeys((*query.attributes, *(a for atom in query.optional for a in atom.attributes))))
    if len(bound) > MAX_ATTRIBUTES:
        hint = "find a part of it, store the result (materialize), and join the rest to that"
        raise QueryError(f"the query has {len(bound):,} attributes; at most {MAX_ATTRIBUTES} can be planned", hint=hint)
    if len(query.atoms) > MAX_ATOMS:
        hint = "leave out atoms that others imply, or find a part of it, store the result, and join the rest to that"
        raise QueryError(f"the query has {len(query.atoms):,} atoms; at most {MAX_ATOMS:,} can be planned", hint=hint)
    open_ = {a for atom in query.atoms if atom.negated for a in atom.attributes if a.startswith("_")}
    for comparison in query.filters:
        unbound = [a for a in comparison.attributes if a in open_ and a not in bound]
        if unbound and not (isinstance(comparison, Comparison) and comparison.is_constant):
            hint = "a constant may be compared with =, or stand in the atom itself"
            raise QueryError(f"'{comparison}' compares {unbound[0]!r}, which only a negated atom has", comparison.span, hint)

    def check(attribute: str, what: str, span: Span | None) -> None:
        if attribute not in bound:
            hint = did_you_mean(attribute, bound) or f"the atoms bind {', '.join(bound)}"
            raise QueryError(f"{what} is not bound by any atom", span, hint)

    parts: list[Atom | QueryFilter] = [*query.atoms, *query.filters]
    for part in parts:
        for attribute in part.attributes:
            if attribute not in open_:
                check(attribute, f"attribute {attribute!r} in '{part}'", part.span)
    if twice := next((name for name in query.names if query.names.count(name) > 1), None):
        raise QueryError(f"two columns are called {twice!r}", hint="give one of them another name")
    columns: dict[str, Expression] = {}
    for term in sorted(query.head, key=lambda term: not isinstance(term, str)):
        for attribute in attributes_of(term):
            what = f"attribute {attribute!r} " + ("of the head" if isinstance(term, str) else f"in '{term}'")
            check(attribute, what, None if isinstance(term, str | Constant) else term.span)
        if isinstance(term, str) and term in columns and not query.names:
            raise QueryError("the head names an attribute twice", hint=f"write {query.name}({', '.join(bound)})")
        if columns.setdefault(column_of(term), term) is not term and not query.names:
            both = f"'{term}' and '{columns[column_of(term)]}' both become column {column_of(term)!r}"
            hint = "list a property once, and give attributes other names"
            raise QueryError(both, None if isinstance(term, str | Constant) else term.span, hint)
    return query
