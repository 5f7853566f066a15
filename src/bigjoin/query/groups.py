"""How matches are counted by groups: nests as of any count, in which some loops say what group a count belongs to.

A *key* is an attribute that matches are grouped by, and a group is the matches that agree on the values of all keys.

With one key, counts are kept in an array by code. A term adds what is inside a loop to the entry of the loop's value. Usually
that is the loop of the key; but where each match is found once for all that are the same up to symmetry, it is the loop of
every attribute that the key can be exchanged with. With several keys, their loops are the outermost, each within the one
before, and each binding of them gives a row.
"""

from __future__ import annotations

from dataclasses import dataclass

from bigjoin.query.nest import CountPlan, Nest
from bigjoin.query.query import Query


@dataclass(frozen=True, slots=True)
class GroupTerm:
    """A term of the sum that the count of each group is."""

    nest: Nest
    keys: tuple[str, ...]
    """With one key: the attributes whose loops add to its array. Otherwise the attribute of each key; keys may share one."""


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """How the matches of a query are counted by groups: terms are added up, with their signs, and divided, group by group."""

    query: Query
    keys: tuple[str, ...]
    terms: tuple[GroupTerm, ...]
    divisor: int = 1
    mirrored: bool = False
    """Whether a group (a, b) of two keys is counted only for a larger code of a, since (b, a) has the same count."""

    @property
    def times(self) -> list[int]:
        """How often each term is added."""
        return [term.nest.times for term in self.terms]

    @property
    def nests(self) -> CountPlan:
        """The nests alone."""
        return CountPlan(self.query, tuple(term.nest for term in self.terms), self.divisor)

    def __str__(self) -> str:
        found = dict.fromkeys(", ".join(term.keys) for term in self.terms)
        mirrored = ", and the same the other way round" if self.mirrored else ""
        return f"{self.nests}\nfor each value of {' or '.join(found)}{mirrored}"
