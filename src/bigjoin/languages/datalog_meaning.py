"""What the parts of a rule mean: atoms and conditions from its body, columns and groups from its head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from bigjoin.errors import QueryError, Span, did_you_mean
from bigjoin.languages.groups import grouped_statement
from bigjoin.query.expressions import Call, attributes_of
from bigjoin.query.functions import AGGREGATE_FUNCTIONS, FUNCTIONS, SYNONYMS, function_named
from bigjoin.query.grouping import Aggregate
from bigjoin.query.operators import EQUAL, NOT_EQUAL, OPERATORS
from bigjoin.query.query import Atom, Comparison, Hops, Query, QueryFilter, column_of, conditions
from bigjoin.query.statement import SortKey, Statement
from bigjoin.query.terms import Constant


@dataclass(frozen=True, slots=True)
class Called:
    """A name with arguments, before it is known whether it is an atom, a function or an aggregate."""

    name: str
    arguments: tuple[Any, ...]
    span: Span
    columns: tuple[str, ...] = ()
    distinct: bool = False
    star: bool = False
    optional: bool = False
    hops: Hops | None = None


@dataclass(frozen=True, slots=True)
class Tuple:
    """Several expressions in parentheses."""

    parts: tuple[Any, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Tested:
    """An operator over parts that may still hold calls."""

    function: str
    parts: tuple[Any, ...]
    span: Span


@dataclass
class RuleHead:
    """The head of a rule: its name, and its columns as they are written."""

    name: str
    columns: list[tuple[str | None, Any]]


@dataclass
class RuleTail:
    """What follows the body."""

    having: Any = None
    order: list[tuple[Any, bool]] = field(default_factory=list)
    limit: int | None = None


class RuleMeaning:
    """What the parts of a rule mean: atoms, conditions, columns."""

    def __init__(self, text: str, head: RuleHead, body: Sequence[Any], places: dict[int, Span] | None = None) -> None:
        self.text, self.head, self.body, self.places = text, head, body, places or {}
        self.listed = {part for _, part in head.columns if isinstance(part, str)}
        self.fresh: list[str] = []
        self.constants: list[Comparison] = []

    def statement(self, tail: RuleTail) -> Statement:
        """Return what the rule asks for."""
        atoms: list[Atom] = []
        filters: list[QueryFilter] = []
        for part in self._literals(self.body):
            if isinstance(part, Atom):
                atoms.append(part)
            else:
                filters += self.condition(part)
        written = [(name, self.expression(part, aggregates=True)) for name, part in self.head.columns]
        query = Query(self.head.name, (), tuple(atoms), (*filters, *self.constants))
        having = None if tail.having is None else self.expression(tail.having, aggregates=True)
        order = [(self.expression(part, aggregates=True), descending) for part, descending in tail.order]
        if having is not None or any(_aggregates(term) for _, term in written):
            return grouped_statement("rule", self.text, query, written, having, order, tail.limit)
        return self._listed(query, written, order, tail)

    def _listed(
        self, query: Query, written: list[tuple[str | None, Any]], order: list[tuple[Any, bool]], tail: RuleTail
    ) -> Statement:
        """Return a rule without groups; what it sorts by may be further columns, which are not shown."""
        head = tuple(term for _, term in written)
        names = tuple(name or column_of(term) for name, term in written)
        natural = all(name is None for name, _ in written)
        whole = replace(query, head=head, names=() if natural else names)
        if not order:
            return replace(Statement.of(whole, "rule", self.text), limit=tail.limit)
        keys, hidden = [], []
        for number, (term, descending) in enumerate(order):
            known = next(
                (n for n, t in zip(names, head, strict=True) if t == term or (isinstance(term, str) and n == term)), None
            )
            if known is None:
                known = f"_sort{number}"
                hidden.append((known, term))
            keys.append(SortKey(known, descending, nulls_first=not descending))
        if hidden:
            whole = replace(whole, head=(*head, *(term for _, term in hidden)), names=(*names, *(name for name, _ in hidden)))
        sorted_ = replace(Statement.of(whole, "rule", self.text), columns=names, order=tuple(keys), limit=tail.limit)
        return sorted_

    def _literals(self, body: Sequence[Any]) -> Iterator[Any]:
        """Give the atoms and conditions of a body; conjunctions are taken apart, since atoms may be joined by `and`."""
        for part in body:
            match part:
                case Tested("and", parts):
                    yield from self._literals(parts)
                case Called() if self._is_atom(part):
                    yield self.atom(part)
                case Called(optional=True):
                    raise QueryError("only an atom can be optional", part.span, "for example optional edge(a, b)")
                case Tested("not", (Called() as called,)) if self._is_atom(called):
                    yield replace(self.atom(called), negated=True, span=part.span)
                case _:
                    yield part

    def _is_atom(self, called: Called) -> bool:
        """Tell whether a call that stands alone is an atom: it is, unless only a condition can have its arguments."""
        if called.columns or called.optional or called.hops is not None:
            return True
        entry = function_named(called.name)
        named = any(isinstance(argument, str) for argument in called.arguments)
        plain = named and all(isinstance(argument, str | Constant) for argument in called.arguments)
        return plain or entry is None or not entry.is_condition

    # Atoms

    def atom(self, called: Called) -> Atom:
        """Return the atom that a call stands for."""
        if called.star or called.distinct:
            raise QueryError(f"'{called.name}' is no aggregate here", called.span, "aggregates stand in the head, or in having")
        attributes = tuple(self._argument(argument, called) for argument in called.arguments)
        if not attributes:
            raise QueryError("an atom needs attributes", called.span, f"for example {called.name}(a, b)")
        return Atom(
            called.name, attributes, optional=called.optional, columns=called.columns, hops=called.hops, span=called.span
        )

    def _argument(self, argument: Any, called: Called) -> str:
        """Return the attribute for an argument of an atom: a constant or `_` gets a fresh one."""
        if isinstance(argument, str) and argument != "_":
            if argument.casefold() not in ("true", "false") or argument in self.listed:
                return argument
            argument = Constant(argument.casefold() == "true")
        if argument != "_" and not isinstance(argument, Constant):
            hint = "atoms take attributes and constants; for a property, write edge(a,b), a.name = 'x'"
            raise QueryError(f"'{called.name}' is given more than attributes", called.span, hint)
        fresh = next(name for n in count(1) if (name := f"_{n}") not in self.fresh and name not in self.text)
        self.fresh.append(fresh)
        if isinstance(argument, Constant):
            self.constants.append(Comparison(fresh, EQUAL.text, argument, span=self.places.get(id(argument), called.span)))
        return fresh

    # Conditions and expressions

    def condition(self, part: Any) -> tuple[QueryFilter, ...]:
        """Return the filters that a condition means."""
        if isinstance(part, Tested) and any(isinstance(side, Tuple) for side in part.parts):
            return (self._tuples(part),)
        expression = self.expression(part)
        span = getattr(part, "span", None)
        if isinstance(expression, Constant):
            raise QueryError(f"'{expression}' is no condition", span, "compare an attribute")
        if isinstance(expression, Call) and not expression.entry.is_condition and not attributes_of(expression):
            raise QueryError(f"'{expression}' is no condition", span, "compare an attribute")
        return conditions(expression, "sql", span)

    def _tuples(self, tested: Tested) -> Comparison:
        left, right = (part.parts if isinstance(part, Tuple) else () for part in tested.parts)
        if tested.function != NOT_EQUAL.text:
            raise QueryError("tuples are only compared with !=", tested.span, "compare the attributes one by one")
        if len(left) != len(right) or not all(isinstance(part, str) for part in (*left, *right)):
            raise QueryError("the two tuples differ in length", tested.span, "write (a, b) != (c, d)")
        (first, second), *also = zip(left, right, strict=True)
        return Comparison(first, NOT_EQUAL.text, second, tuple(also), span=tested.span)

    def expression(self, part: Any, *, aggregates: bool = False) -> Any:
        """Return the expression that a part means; aggregates become `Aggregate`s if they are allowed."""
        match part:
            case Tuple():
                raise QueryError("a tuple stands beside another one", part.span, "write (a, b) != (c, d)")
            case Tested(function, parts) if function in FUNCTIONS or function in OPERATORS:
                return Call(function, tuple(self.expression(p, aggregates=aggregates) for p in parts), part.span)
            case Tested(function, (Called() as called,)) if _is_of_path(called):
                return Call(".", (self.expression(called), Constant(function[1:])), part.span)
            case Tested():
                raise QueryError("only attributes have properties", part.span, "write a.name")
            case Called():
                return self._call(part, aggregates=aggregates)
        return part

    def _call(self, called: Called, *, aggregates: bool) -> Any:
        name = called.name.casefold()
        if called.optional:
            raise QueryError("only an atom can be optional", called.span, "for example optional edge(a, b)")
        if called.hops is not None:
            raise QueryError("a path is an atom, and no value", called.span, "name it, as in edge*2(a, b, e), and use e")
        if name in AGGREGATE_FUNCTIONS or called.star:
            if name not in AGGREGATE_FUNCTIONS:
                raise QueryError(f"{called.name}(*) has no meaning", called.span, "write count(*)")
            if not aggregates:
                raise QueryError("an aggregate stands in the head, or in having", called.span, "write q(a, count(*)) := ...")
            return self._aggregate(called, name)
        entry = function_named(called.name)
        if entry is None:
            if any(self.head.columns) or self.body:
                hint = did_you_mean(called.name, [*FUNCTIONS, *SYNONYMS]) or "an atom stands by itself, separated by commas"
            else:
                hint = did_you_mean(called.name, [*FUNCTIONS, *SYNONYMS]) or "the docs list the functions"
            raise QueryError(f"there is no function {called.name!r}", called.span, hint)
        if called.columns or called.distinct:
            raise QueryError(f"{called.name} takes plain arguments", called.span, None)
        if not entry.fewest <= len(called.arguments) <= entry.most:
            some = f"{entry.fewest}" if entry.fewest == entry.most else f"{entry.fewest} or more"
            raise QueryError(f"{called.name} takes {some} arguments, not {len(called.arguments)}", called.span, None)
        return Call(entry.name, tuple(self.expression(p, aggregates=aggregates) for p in called.arguments), called.span)

    def _aggregate(self, called: Called, name: str) -> Aggregate:
        if called.star:
            if name != "count":
                raise QueryError(f"{name}(*) has no meaning", called.span, f"write {name}(e.amount)")
            return Aggregate("count")
        if len(called.arguments) != 1:
            raise QueryError(f"{name} takes one argument", called.span, f"write {name}(a)")
        if called.distinct and name != "count":
            raise QueryError(f"{name}(distinct ...) is not supported", called.span, "count(distinct a) is")
        inside = self.expression(called.arguments[0])
        return Aggregate("count distinct" if called.distinct else name, inside)


def _aggregates(term: Any) -> bool:
    """Tell whether a column has an aggregate in it."""
    return isinstance(term, Aggregate) or (isinstance(term, Call) and any(map(_aggregates, term.arguments)))


def _is_of_path(called: Called) -> bool:
    """Tell whether a call stands for something on a path, which has properties."""
    entry = function_named(called.name)
    return entry is not None and entry.of_path


def hops_of(token: str, span: Span) -> Hops:
    """Return the lengths of a star such as `*3`, `*1..4` or `*..4`; refuse one without an upper bound."""
    low, dots, high = (part.strip() for part in token[1:].partition(".."))
    if dots and not high:
        hint = f"write *{low or 1}..{max(4, int(low or 1))}: each length is a query of its own"
        raise QueryError("a path needs an upper bound", span, hint)
    return Hops(int(low or 1), int(high or low))
