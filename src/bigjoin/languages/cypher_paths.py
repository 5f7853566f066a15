"""The nodes and the relationships of a path: lists, some of whose members stand for each of those of several hops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from bigjoin.errors import QueryError, Span
from bigjoin.languages import cypher_tree as tree
from bigjoin.query.expressions import Call, Expression
from bigjoin.query.query import Hops
from bigjoin.query.terms import Constant, Property


@dataclass(frozen=True, slots=True)
class Member:
    """A node or a relationship of a path; with `path`, what stands for each of those that one of several hops has."""

    kind: str
    term: Expression
    types: tuple[str, ...] = ()
    """The types of a relationship."""
    path: str | None = None

    def property_of(self, key: str, span: Span | None) -> Expression:
        """Return a property of it."""
        if isinstance(self.term, str):
            return Property(self.term, key, span)
        return Call(".", (self.term, Constant(key)), span)

    def of_type(self, function: str, span: Span | None) -> Expression:
        """Return its type, or the relation it is a row of."""
        return Constant(self.types[0]) if len(self.types) == 1 else Call(function, (self.term,), span)

    def end(self, which: str) -> Member:
        """Return the first or the last of the relationships that it stands for, or else itself."""
        return self if self.path is None else replace(self, term=Call(which, (self.path,)))

    @property
    def number(self) -> Expression:
        """How many there are."""
        return Constant(1) if self.path is None else Call("length", (self.path,))


@dataclass(frozen=True, slots=True)
class PathList:
    """The nodes or the relationships of a path, in order."""

    kind: str
    members: tuple[Member, ...]
    first: Member
    last: Member

    @classmethod
    def of_relationships(cls, members: Sequence[Member]) -> PathList:
        """Return a list of relationships, some of which may stand for those of several hops."""
        first, last = members[0].end("first"), members[-1].end("last")
        return cls("relationship", tuple(members), first, last)

    @classmethod
    def of_nodes(cls, ends: Sequence[str], relationships: Sequence[Member]) -> PathList:
        """Return the list of nodes that relationships lead to, given those at the ends of each."""
        members = [Member("node", ends[0])]
        for end, relationship in zip(ends[1:], relationships, strict=True):
            path = relationship.path
            members.append(Member("node", end) if path is None else Member("node", Call("dst", (path,)), path=path))
        return cls("node", tuple(members), members[0], Member("node", ends[-1]))

    @property
    def size(self) -> Expression:
        known = sum(member.path is None for member in self.members)
        sizes = [member.number for member in self.members if member.path is not None]
        sizes += [Constant(known)] if known else []
        return reduce(lambda one, other: Call("+", (one, other)), sizes)

    @property
    def path(self) -> str | None:
        """The relationship of several hops that it is the list of, if there is no other."""
        relationships = [member for member in self.members if self.kind == "relationship" or member.path is not None]
        nodes = [member for member in self.members if member.path is None]
        is_alone = len(relationships) == 1 and len(nodes) == (self.kind == "node")
        return relationships[0].path if is_alone else None

    @property
    def value(self) -> Expression:
        """The list of ids."""
        if self.path is not None:
            return Call("nodes" if self.kind == "node" else "edges", (self.path,))
        return listed([(member, member.term) for member in self.members])


def bounded_hops(relationship: tree.RelationshipPattern) -> Hops:
    """Return how many hops a relationship may have; refuse what has no bound."""
    assert relationship.hops is not None
    low, high = relationship.hops
    if high is None:
        raise QueryError("a path needs a longest length", relationship.span, f"say it, as in *{low or 1}..{(low or 1) + 3}")
    if low == 0:
        hint = f"begin with 1, as in *1..{max(1, high)}, and ask for the node by itself"
        raise QueryError("a path of no relationships is not supported yet", relationship.span, hint)
    return Hops(1 if low is None else low, high, "trail")


def listed(said: list[tuple[Member, Expression]], span: Span | None = None) -> Call:
    """Return the list of what is said of members."""
    is_plain = all(member.path is None for member, _ in said)
    return Call("array" if is_plain else "list", tuple(term for _, term in said), span)
