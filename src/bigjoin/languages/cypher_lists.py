"""Lists that a path has: its nodes and its relationships, what is said of each of them, and those at certain places.

A relationship of several hops is a path of a query (`query/paths.py`), whose length is not known here. What is said of each
member of a list becomes what a rule says of each edge: `all(r IN e WHERE r.x > 1)` is `e.x > 1`, and `e[i]` and `e[i + 1]` are
`e` and `next(e)`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from bigjoin.errors import QueryError, Span
from bigjoin.languages import cypher_tree as tree
from bigjoin.languages.cypher_expressions import ExpressionReader
from bigjoin.languages.cypher_paths import Member, PathList, listed
from bigjoin.languages.cypher_scope import LIST, PATH, later
from bigjoin.query.early_bounds import edges_of
from bigjoin.query.expressions import Call, Expression
from bigjoin.query.operators import EQUAL

_LISTS = {"nodes": "node", "relationships": "relationship", "rels": "relationship"}
_SIZES = ("size", "length")
_ENDS = {"head": 0, "last": -1}
_OF_LISTS = "say it of each, as in all(r IN e WHERE r.amount > 1), or of one: e[0].amount, last(e).amount"


class ListReader(ExpressionReader):
    """Reads expressions in which there may be lists of paths."""

    gone_through: frozenset[str] = frozenset()
    """The paths whose edges are spoken of one by one where an expression stands."""

    @abstractmethod
    def path_list(self, name: str, kind: str, span: Span | None) -> PathList:
        """Return the nodes or relationships of a path, or of a relationship of several hops, by its name."""

    def list_of(self, expression: tree.CypherExpression) -> PathList | None:
        """Return the list that an expression is, None if it is none of a path."""
        match expression:
            case tree.Variable(name) if self.kind(name) == LIST:
                return self.path_list(name, "relationship", expression.span)
            case tree.FunctionCall(function, (tree.Variable(name),)) if (
                function.casefold() in _LISTS and self.kind(name) == PATH
            ):
                return self.path_list(name, _LISTS[function.casefold()], expression.span)
        return None

    def member(self, expression: tree.CypherExpression) -> Member | None:
        """Return the member of a list that an expression is, None if it is none."""
        match expression:
            case tree.Subscript(of, at) if (found := self.list_of(of)) is not None:
                return self.at(found, at, expression.span)
            case tree.FunctionCall(name, (of,)) if name.casefold() in _ENDS and (found := self.list_of(of)) is not None:
                return found.first if _ENDS[name.casefold()] == 0 else found.last
        return None

    def at(self, of: PathList, at: tree.CypherExpression, span: Span | None) -> Member:
        """Return the member at a place."""
        place = at.value if isinstance(at, tree.Literal) and not isinstance(at.value, bool) else None
        if place in (0, -1):
            return of.first if place == 0 else of.last
        if isinstance(place, int) and all(member.path is None for member in of.members):
            if -len(of.members) <= place < len(of.members):
                return of.members[place]
            raise QueryError(f"the list has {len(of.members)} members, and none at {place}", span, "places are counted from 0")
        hint = "write e[0], e[-1], or within all(i IN range(0, size(e) - 2) WHERE ...) e[i] and e[i + 1]"
        later("another place of a list than its ends", span, hint)

    # What is said of each member

    def of_each(self, quantifier: tree.Quantifier) -> Iterator[tuple[Member, Expression]]:
        """Give what a condition says of each member of its list; that about each edge of a path once."""
        for member, reader in self._inside(quantifier.variable, quantifier.members, quantifier):
            yield member, reader.said(quantifier.where)

    def _inside(
        self, variable: str, members: tree.CypherExpression, whole: tree.Quantifier | tree.Comprehension
    ) -> Iterator[tuple[Member, _Inside]]:
        if (found := self.list_of(members)) is not None:
            for member in found.members:
                yield member, _Inside(self, variable, member, whole)
            return
        if (places := _Places.of(members, self)) is not None:
            member = Member("place", places.path, path=places.path)
            yield member, _Inside(self, variable, member, whole, places)
            return
        name = f"{whole.kind}(x IN list WHERE ...)" if isinstance(whole, tree.Quantifier) else "a list comprehension"
        later(f"{name} of what is no list of a path", members.span, "lists are nodes(p), relationships(p) and e in -[e*1..3]->")

    def _quantified(self, quantifier: tree.Quantifier) -> Expression:
        if quantifier.kind == "single":
            later("single(x IN list WHERE ...)", quantifier.span, "write any(...) for one or more, all(...) or none(...)")
        which, joined = ("every", "and") if quantifier.kind == "all" else ("some", "or")
        parts = tuple(
            said if member.path is None else Call(which, (member.path, said), quantifier.span)
            for member, said in self.of_each(quantifier)
        )
        found = parts[0] if len(parts) == 1 else Call(joined, parts, quantifier.span)
        return Call("not", (found,), quantifier.span) if quantifier.kind == "none" else found

    # Expressions

    def is_ambiguous(self, expression: tree.CypherExpression) -> bool:
        """Tell whether an expression is a path, or a list of relationships that their ids alone do not tell apart."""
        if (name := self.element(expression)) is not None and self.kind(name) == PATH:
            return True
        found = self.list_of(expression)
        return found is not None and found.kind == "relationship" and any(len(member.types) != 1 for member in found.members)

    def _counted(self, argument: tree.CypherExpression, call: tree.FunctionCall) -> Expression:
        if call.distinct and self.is_ambiguous(argument):
            hint = "give the relationships one type, and count nodes(p) or relationships(p) of a path"
            later("count(DISTINCT ...) of a path, or of relationships of several types", call.span, hint)
        return super()._counted(argument, call)

    def read(self, expression: tree.CypherExpression) -> Any:
        match expression:
            case tree.Quantifier():
                return self._quantified(expression)
            case tree.Comprehension(variable, members, result):
                inside = self._inside(variable, members, expression)
                return listed([(member, reader.said(result)) for member, reader in inside], expression.span)
            case tree.FunctionCall(name, (argument,)) if (
                name.casefold() in _SIZES and (size := self._size(argument)) is not None
            ):
                return size
            case tree.FunctionCall(name, (argument,)) if name.casefold() in ("id", "elementid", "type"):
                if (member := self.member(argument)) is not None:
                    return self._of_member(member, expression)
        if (member := self.member(expression)) is not None:
            return member.term
        found = self.list_of(expression)
        return super().read(expression) if found is None else found.value

    def _size(self, argument: tree.CypherExpression) -> Expression | None:
        """Return the size of a list, or the length of a path."""
        if isinstance(argument, tree.Variable) and self.kind(argument.name) == PATH:
            return self.path_list(argument.name, "relationship", argument.span).size
        found = self.list_of(argument)
        return None if found is None else found.size

    def _of_member(self, member: Member, call: tree.FunctionCall) -> Expression:
        if call.name.casefold() != "type":
            return member.term
        if member.kind == "node":
            raise QueryError("a node has no type", call.span, f"write {call.name}() of a relationship")
        return member.of_type("type", call.span)

    def value(self, expression: tree.CypherExpression) -> Any:
        name = self.element(expression)
        if name is not None and self.kind(name) in (LIST, PATH):
            self._refuse(name, expression.span)
        return super().value(expression)

    def _refuse(self, name: str, span: Span | None) -> NoReturn:
        kind = self.kind(name)
        hint = f"write length({name}), nodes({name}) or relationships({name})" if kind == PATH else _OF_LISTS
        raise QueryError(f"{name!r} is a {kind}, which has no value of this kind", span, hint)

    def _property(self, subject: tree.CypherExpression, key: str, expression: tree.PropertyAccess) -> Any:
        if (name := self.element(subject)) is not None and self.kind(name) in (LIST, PATH):
            self._refuse(name, expression.span)
        if (member := self.member(subject)) is not None:
            return member.property_of(key, expression.span)
        return super()._property(subject, key, expression)

    def _comparison(self, compare: tree.Compare) -> Call:
        for side in (compare.left, compare.right):
            if (name := self.element(side)) is not None and self.kind(name) in (LIST, PATH):
                self._refuse(name, compare.span)
        return super()._comparison(compare)

    def _membership(self, left: tree.CypherExpression, right: tree.CypherExpression, span: Span | None) -> Expression:
        if (found := self.list_of(right)) is None:
            return super()._membership(left, right, span)
        name = self.element(left)
        if name is None or self.kind(name) != found.kind:
            raise QueryError(f"a list of {found.kind}s has {found.kind}s", span, f"write the name of a {found.kind}")
        parts = tuple(self._equals(self.variable(name, left.span), member, span) for member in found.members)
        return parts[0] if len(parts) == 1 else Call("or", parts, span)

    def _equals(self, term: Expression, member: Member, span: Span | None) -> Expression:
        equal = Call(EQUAL.text, (term, member.term), span)
        return equal if member.path is None else Call("some", (member.path, equal), span)


@dataclass(frozen=True, slots=True)
class _Places:
    """The numbers that a variable goes through: the places of all edges of a path, or of all but the last."""

    path: str
    first: int
    """The number of the first edge."""
    has_next: bool

    @classmethod
    def of(cls, members: tree.CypherExpression, reader: ListReader) -> _Places | None:
        """Return the places that a call of range() gives, as far as they are those of a path."""
        match members:
            case tree.FunctionCall(name, (tree.Literal(int() as first), end)) if name.casefold() == "range":
                found = cls._edges(end, reader)
                if found is not None and found[1] - first in (-1, -2):
                    return cls(found[0], first, found[1] - first == -2)
                hint = "write range(0, size(e) - 1) for all relationships, and range(0, size(e) - 2) for those with a next one"
                later("a range of this kind", members.span, hint)
        return None

    @staticmethod
    def _edges(end: tree.CypherExpression, reader: ListReader) -> tuple[str, int] | None:
        """Return the path whose edges, and how many more, a number is."""
        less = 0
        if isinstance(end, tree.Arithmetic) and end.operator == "-" and isinstance(end.right, tree.Literal):
            less, end = end.right.value if isinstance(end.right.value, int) else 0, end.left
        match end:
            case tree.FunctionCall(name, (tree.Variable(variable),)) if (
                name.casefold() == "length" and reader.kind(variable) == PATH
            ):
                found = reader.path_list(variable, "relationship", end.span)
            case tree.FunctionCall(name, (argument,)) if name.casefold() in _SIZES:
                of = reader.list_of(argument)
                if of is None:
                    return None
                found = of
            case _:
                return None
        return None if found.path is None else (found.path, (found.kind == "node") - less)


class _Inside(ListReader):
    """Reads what is said of each member of a list, or of each place."""

    def __init__(
        self,
        around: ListReader,
        name: str,
        member: Member,
        whole: tree.Quantifier | tree.Comprehension,
        places: _Places | None = None,
    ) -> None:
        self.around, self.name, self.its, self.whole, self.places = around, name, member, whole, places
        self.parameters = around.parameters
        if member.path is not None and member.path in around.gone_through:
            later("a list within what is said of its members", whole.span, "say one of the two by itself")
        self.gone_through = around.gone_through.union([member.path] if member.path is not None else [])

    def said(self, expression: tree.CypherExpression) -> Any:
        """Return what is said of each member."""
        found = self.value(expression) if isinstance(self.whole, tree.Quantifier) else self.read(expression)
        if self.places is not None:
            needs_next = edges_of(found, [self.places.path]).get(self.places.path, False)
            if needs_next != self.places.has_next:
                less = 1 + needs_next - self.places.first
                fitting = f"range({self.places.first}, size({self.places.path}){f' - {less}' * bool(less)})"
                message = "the last place has no next one" if needs_next else "this leaves out the last place"
                raise QueryError(message, expression.span, f"write {fitting}")
        return found

    def at(self, of: PathList, at: tree.CypherExpression, span: Span | None) -> Member:
        place = self._place(at)
        if place is None or self.places is None:
            return self.around.at(of, at, span)
        place += self.places.first
        each, path = self.places.path, of.path
        following = Call("next", (each,), span)
        if of.kind == "relationship":
            terms: tuple[Expression, ...] = (each, following)
        else:
            terms = (Call("src", (each,), span), Call("dst", (each,), span), Call("dst", (following,), span))
        if path != each or not 0 <= place < len(terms):
            later("another place of a list than this one and the next", span, f"write e[{self.name}] and e[{self.name} + 1]")
        return Member(of.kind, terms[place], of.members[-1].types, each)

    def _place(self, at: tree.CypherExpression) -> int | None:
        """Return how far a place is from that of the variable."""
        match at:
            case tree.Variable(self.name):
                return 0
            case tree.Arithmetic(tree.Variable(self.name), "+" | "-" as sign, tree.Literal(int() as number)):
                return number if sign == "+" else -number
        return None

    # What variables are

    def variable(self, name: str, span: Span | None) -> Expression:
        if name != self.name:
            return self.around.variable(name, span)
        if self.places is not None:
            later("the number of a place", span, f"write e[{name}] and e[{name} + 1]")
        return self.its.term

    def property_of(self, name: str, key: str, span: Span | None) -> Expression:
        return self.its.property_of(key, span) if name == self.name else self.around.property_of(name, key, span)

    def kind(self, name: str) -> str | None:
        if name != self.name:
            return self.around.kind(name)
        return None if self.places is not None else self.its.kind

    def type_of(self, name: str, span: Span | None) -> Expression:
        return self.its.of_type("type", span) if name == self.name else self.around.type_of(name, span)

    def relation_of(self, name: str) -> Expression:
        return self.its.of_type("relation", None) if name == self.name else self.around.relation_of(name)

    def path_list(self, name: str, kind: str, span: Span | None) -> PathList:
        return self.around.path_list(name, kind, span)

    def pattern(self, expression: tree.CypherExpression) -> Expression:
        later("a pattern or a label that is said of each member of a list", expression.span, "say it of nodes with names")
