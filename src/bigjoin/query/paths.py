"""Spell out paths: a starred atom is a chain of atoms, and of several lengths it is a sum of queries, one for each.

`edge*1..4(a, b)` is a path of one to four edges from a to b. What lies between gets attributes of its own, so filters, flags,
other atoms and strategies need not know of paths. Which vertices and edges may repeat (`PathMode`) becomes filters: vertices
differ as `a != b`, edges as those of a Cypher clause do.

A third attribute names the path. A condition about it holds for each edge, or, with `next(e)`, for each pair of consecutive
edges; `first(e)` and `last(e)` are the edges at its ends, `src(e)` and `dst(e)` the ends of an edge, as the path walks it. In a
head, what is about each edge is a list. Where the relation keeps no rows, the path still has a length and vertices, but its
edges have no ids. Cypher also says where within an expression the edges are gone through: `every`, `some` and `list`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import prod
from typing import Any

from bigjoin.errors import QueryError, Span
from bigjoin.query.early_bounds import bounded_early, edges_of
from bigjoin.query.expressions import Call, Expression, Predicate, anchored, attributes_of, folded, walk
from bigjoin.query.operators import NOT_EQUAL
from bigjoin.query.query import MAX_ATTRIBUTES, Atom, Comparison, Pattern, Query, QueryFilter, conditions
from bigjoin.query.terms import Constant, ConstantValue, Property

MAX_HOPS = 64
"""Edges of a path: each is an atom of the query."""

MAX_LENGTHS = 256
"""Queries that the lengths of paths may make of one."""

_PLACES = ("first", "last", "next")
_ENDS = ("src", "dst")


def check_paths(query: Query) -> Query:
    """Return a query if its paths can be spelled out; raise QueryError otherwise."""
    starred = [atom for atom in query.atoms if atom.hops is not None]
    for atom in starred:
        _check_path(atom, query)
    named = {atom.attributes[2] for atom in starred if len(atom.attributes) > 2}
    for expression in (*query.head, *map(_expression, query.filters)):
        for part in walk(expression):
            if isinstance(part, Call) and part.entry.of_path:
                _check_call(part, named)
    return query


def _check_path(atom: Atom, query: Query) -> None:
    assert atom.hops is not None
    low, high = atom.hops.lowest, atom.hops.highest
    if low < 1:
        raise QueryError("a path has at least one edge", atom.span, "begin with 1")
    if high < low:
        raise QueryError(f"no path has at least {low} and at most {high} edges", atom.span, f"write *{high}..{low}")
    if high > MAX_HOPS:
        raise QueryError(f"a path can have at most {MAX_HOPS} edges", atom.span, f"write *{low}..{MAX_HOPS} or less")
    if atom.negated or atom.optional:
        word = "negated" if atom.negated else "optional"
        hint = "find the paths, and join them to the other matches" if atom.optional else "find the paths, and subtract them"
        raise QueryError(f"a path cannot be {word}", atom.span, hint)
    if atom.columns or len(atom.attributes) not in (2, 3):
        raise QueryError("a path has two ends, and perhaps a name", atom.span, f"write {atom.relation}{atom.hops}(a, b, e)")
    if atom.hops.mode == "acyclic" and atom.attributes[0] == atom.attributes[1]:
        raise QueryError("a path that ends where it began has a vertex twice", atom.span, "a ring is 'simple', not 'acyclic'")
    for name in atom.attributes[2:]:
        if sum(other.attributes.count(name) for other in query.atoms) > 1:
            raise QueryError(f"{name!r} is the name of a path, and nothing else", atom.span, "use two names")


def _check_call(call: Call, named: set[str]) -> None:
    if call.function in (".", "every", "some", "list"):
        return  # what they are about is looked at by itself
    (argument,) = call.arguments
    nested = isinstance(argument, Call) and argument.function in _PLACES and call.function in _ENDS
    if not nested and argument not in named:
        hint = "name a path by its third attribute, as in edge*1..4(a, b, e)"
        raise QueryError(f"{call.function}() is about a path, and '{argument}' is none", call.span, hint)


def lengthened(query: Query, keeps_rows: Callable[[Atom], bool]) -> tuple[Query, ...]:
    """Return queries without starred atoms whose matches are disjoint and together are those of the query.

    `keeps_rows` tells whether the relation of an atom keeps the rows of its source, so that edges have ids.
    """
    hops = [atom.hops for atom in query.atoms if atom.hops is not None]
    if not hops:
        return (query,)
    if (choices := prod(each.highest - each.lowest + 1 for each in hops)) > MAX_LENGTHS:
        message = f"the lengths of its paths make this query a sum of {choices:,} queries; at most {MAX_LENGTHS} are planned"
        raise QueryError(message, hint="give fewer lengths, or one length to some of the paths")
    lengths = list(product(*(range(each.lowest, each.highest + 1) for each in hops)))
    found = [_Lengths(query, chosen, keeps_rows).query() for chosen in lengths]
    possible = tuple(each for each in found if each is not None)
    return possible or (_impossible(_Lengths(query, lengths[0], keeps_rows)),)


def _impossible(lengths: _Lengths) -> Query:
    """Return a query that has no match, with the columns of others."""
    never = Comparison(lengths.start, NOT_EQUAL.text, lengths.start)
    return replace(lengths.whole, filters=(never,))


@dataclass(frozen=True, slots=True)
class Chain:
    """A path of a certain length: the attributes of its vertices, and of its edges if these have ids."""

    atom: Atom
    vertices: tuple[str, ...]
    rows: tuple[str, ...]

    @property
    def length(self) -> int:
        return len(self.vertices) - 1

    def row(self, edge: int, span: Span | None) -> str:
        """Return the attribute of an edge's id, by its place on the path."""
        if not self.rows:
            hint = "build the index from a table with further columns or with --parallel (parallel=True), which keeps them"
            raise QueryError(f"this index keeps no edge ids for {self.atom.relation!r}", span or self.atom.span, hint)
        return self.rows[edge]

    def atoms(self, clause: int) -> Iterator[Atom]:
        """Give the atoms of its edges; those of a trail differ as the relationships of a clause do."""
        assert self.atom.hops is not None
        pattern = self.atom.pattern
        if self.atom.hops.mode == "trail" and (pattern is None or pattern.clause is None):
            pattern = replace(pattern or Pattern((self.atom.relation,), rows=False), clause=clause)
        is_backward = pattern is not None and pattern.backward
        pattern = pattern and replace(pattern, backward=False)
        for i in range(self.length):
            ends = self.vertices[i : i + 2]
            ends = ends[::-1] if is_backward else ends
            yield replace(self.atom, attributes=(*ends, *self.rows[i : i + 1]), pattern=pattern, hops=None)

    def differing(self) -> Iterator[Comparison]:
        """Give what keeps vertices apart that must not be the same."""
        assert self.atom.hops is not None
        if self.atom.hops.mode not in ("simple", "acyclic"):
            return
        is_ring = self.vertices[0] == self.vertices[-1]
        for one, other in combinations(self.vertices[: self.length + (not is_ring)], 2):
            is_whole = (one, other) == (self.vertices[0], self.vertices[-1])
            if self.atom.hops.mode == "acyclic" or not is_whole:
                yield Comparison(one, NOT_EQUAL.text, other, span=self.atom.span)


class _Lengths:
    """A query with a certain length for each of its paths."""

    def __init__(self, query: Query, lengths: Iterable[int], keeps_rows: Callable[[Atom], bool]) -> None:
        self.given, left = query, iter(lengths)
        self.taken = {a for atom in query.atoms for a in atom.attributes}
        self.chains: dict[str, Chain] = {}
        """The paths that have a name."""
        atoms: list[Atom] = []
        self.different: list[Comparison] = []
        clauses = [atom.pattern.clause for atom in query.atoms if atom.pattern and atom.pattern.clause is not None]
        for number, atom in enumerate(query.atoms, max(clauses, default=0) + 1):
            if atom.hops is None:
                atoms.append(atom)
                continue
            chain = self._chain(atom, next(left), has_rows=keeps_rows(atom))
            atoms += chain.atoms(number)
            self.different += chain.differing()
            self.chains |= dict.fromkeys(atom.attributes[2:], chain)
        self.start = atoms[0].attributes[0]
        head = tuple(self._column(term) for term in query.head)
        self.whole = replace(query, atoms=tuple(atoms), head=head, names=query.columns if head != query.head else query.names)
        if (size := len(self.whole.attributes)) > MAX_ATTRIBUTES:
            message = f"with paths of this length the query has {size:,} attributes; at most {MAX_ATTRIBUTES} can be planned"
            raise QueryError(message, hint="give shorter paths, or none of them a name")

    def _chain(self, atom: Atom, length: int, *, has_rows: bool) -> Chain:
        first, last, *name = atom.attributes
        between = [self._fresh(first, i) for i in range(1, length)]
        rows = [self._fresh(name[0], i) for i in range(1, length + 1)] if name and has_rows else []
        return Chain(atom, (first, *between, last), tuple(rows))

    def _fresh(self, name: str, number: int) -> str:
        found = f"_{name.lstrip('_')}{number}"
        while found in self.taken:
            found = f"_{found}"
        self.taken.add(found)
        return found

    def query(self) -> Query | None:
        """Return the query, or None if its lengths are not those that a condition asks for."""
        filters: list[QueryFilter] = list(self.different)
        said = bounded_early(map(_expression, self.given.filters))
        for given, expression in zip(self.given.filters, said, strict=True):
            for instance in self._instances(expression, given):
                if isinstance(instance, Comparison | Predicate):
                    filters.append(instance)
                elif attributes_of(instance):
                    filters += conditions(instance, self.given.dialect, given.span)
                elif (decided := _computed(instance)) is None:  # whoever evaluates expressions knows
                    filters += conditions(anchored(instance, self.whole.attributes[0]), self.given.dialect, given.span)
                elif not isinstance(decided.value, bool):
                    hint = "compare it with a number, as in length(e) > 2"
                    raise QueryError(f"'{expression}' is no condition about a length", given.span, hint)
                elif not decided.value:
                    return None
        return replace(self.whole, filters=tuple(dict.fromkeys(filters)))

    def _instances(self, expression: Expression, given: QueryFilter) -> Iterator[Expression | QueryFilter]:
        """Give a condition for each edge that it is about, or as it was given if it is about no path."""
        if self.chains.keys().isdisjoint(given.attributes):
            yield given
            return
        if isinstance(given, Comparison) and given.also:
            raise QueryError("the tuples of a comparison have no paths", given.span, "compare the ends of edges, as in src(e)")
        for at in self._places(expression):
            yield self._said(expression, at)

    def _column(self, term: Expression) -> Expression:
        """Return a column of the head: what is about each edge is a list."""
        if self.chains.keys().isdisjoint(attributes_of(term)):
            return term
        each = edges_of(term, self.chains)
        if not each:
            return self._said(term, {})
        if len(each) > 1:
            raise QueryError(f"'{term}' is about the edges of two paths", getattr(term, "span", None), "list them one by one")
        ((name, _),) = each.items()
        places = list(self._places(term))
        if not places:  # no edge has a next one
            return Call("empty array", (self._said(term, {name: 0}),))
        return Call("array", tuple(self._said(term, at) for at in places))

    def _list(self, members: tuple[Expression, ...], span: Span | None) -> Call:
        """Return a list of what is said, that about each edge of a path once for each."""
        found = [self._said(member, at) for member in members for at in self._places(member)]
        if found:
            return Call("array", tuple(found), span)
        return Call("empty array", tuple(self._said(m, dict.fromkeys(self.chains, 0)) for m in members[:1]), span)

    def _places(self, expression: Expression, paths: Collection[str] | None = None) -> Iterator[dict[str, int]]:
        """Give the places of the edges that an expression is about, for each of some paths that it is about edge by edge."""
        each = edges_of(expression, self.chains if paths is None else paths)
        ranges = (range(self.chains[name].length - needs_next) for name, needs_next in each.items())
        for places in product(*ranges):
            yield dict(zip(each, places, strict=True))

    def _said(self, part: Expression, at: dict[str, int]) -> Expression:
        """Return an expression about certain edges."""
        match part:
            case str() if part in self.chains:
                return self.chains[part].row(at[part], None)
            case Property(name) if name in self.chains:
                return replace(part, attribute=self.chains[name].row(at[name], part.span))
            case Call(".", (place, Constant(str() as name))):
                return Property(self._attribute(place, at), name, part.span)
            case Call("every" | "some" as which, (str() as name, condition)):
                parts = tuple(self._said(condition, at | place) for place in self._places(condition, [name]))
                return folded(Call("and" if which == "every" else "or", parts, part.span))
            case Call("list", members):
                return self._list(members, part.span)
            case Call("length", (str() as name,)) if name in self.chains:
                return Constant(self.chains[name].length)
            case Call("nodes", (str() as name,)):
                return Call("array", self.chains[name].vertices, part.span)
            case Call("edges", (str() as name,)):
                chain = self.chains[name]
                return Call("array", tuple(chain.row(i, part.span) for i in range(chain.length)), part.span)
            case Call(function) if function in (*_PLACES, *_ENDS):
                return self._attribute(part, at)
            case Call(_, arguments):
                return replace(part, arguments=tuple(self._said(argument, at) for argument in arguments))
        return part

    def _attribute(self, place: Expression, at: dict[str, int]) -> str:
        """Return the attribute that a place on a path stands for: an edge, or an end of it."""
        end, inner = (
            (place.function, place.arguments[0]) if isinstance(place, Call) and place.function in _ENDS else (None, place)
        )
        which, name = (inner.function, str(inner.arguments[0])) if isinstance(inner, Call) else ("each", str(inner))
        chain = self.chains[name]
        edge = {"first": 0, "last": chain.length - 1, "next": at.get(name, 0) + 1, "each": at.get(name, 0)}[which]
        if end is not None:
            return chain.vertices[min(edge + (end == "dst"), chain.length)]
        return chain.row(min(edge, chain.length - 1), inner.span if isinstance(inner, Call) else None)


def _expression(given: QueryFilter) -> Expression:
    return given.expression if isinstance(given, Predicate) else Call(given.op, (given.left, given.right), given.span)


_COMPUTED: dict[str, Callable[..., ConstantValue]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "!=": operator.ne,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "%": lambda one, other: _signed(abs(one) % abs(other), negative=one < 0),
    "div": lambda one, other: _signed(abs(one) // abs(other), negative=(one < 0) != (other < 0)),
    "negative": operator.neg,
    "not": operator.not_,
    "and": lambda *parts: all(parts),
    "or": lambda *parts: any(parts),
    "in": lambda first, *others: first in others,
}


def _signed(size: Any, *, negative: bool) -> Any:
    """Return a number of a certain size: a division rounds towards zero, as that of SQL does."""
    return -size if negative else size


def _computed(expression: Expression) -> Constant | None:
    """Return the value of what is about lengths and other numbers alone, if that is as simple as lengths are."""
    if isinstance(expression, Constant):
        return expression if expression.value is not None else None
    if not isinstance(expression, Call) or expression.function not in _COMPUTED:
        return None
    parts = [_computed(argument) for argument in expression.arguments]
    try:
        return None if None in parts else Constant(_COMPUTED[expression.function](*(part.value for part in parts if part)))
    except (TypeError, ZeroDivisionError):
        return None
