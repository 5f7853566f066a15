"""A plan: a seed and one Extend step for each further attribute. Printed, it is the numbered rules that it performs.

A plan does not say where it runs (strategies do) nor how an index is cut (the index does). It names relations, column orders
and versions, so that the same steps serve a static graph and a delta query.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bigjoin.query.query import Atom, Query, QueryFilter


@dataclass(frozen=True, slots=True)
class Extender:
    """An atom seen from a step: the bound attributes are a key, and the key's sorted list holds the attribute's extensions.

    `columns` is the column order of the index that serves it: the key columns, then the column of the new attribute. A
    shorter order than the atom's arity is a projection of the relation.
    """

    atom: Atom
    columns: tuple[int, ...]
    after: tuple[str, ...] = ()
    """For an atom that reads tuples later than the seed's: the attributes that the seed's tuple binds."""

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(self.atom.attributes[c] for c in self.columns[:-1])

    @property
    def attribute(self) -> str:
        return self.atom.attributes[self.columns[-1]]

    @property
    def reads(self) -> tuple[str, ...]:
        """The attributes that decide whether it holds: its own and, if it reads later tuples, those of the seed's tuple."""
        return (*self.key, self.attribute, *self.after)

    def __str__(self) -> str:
        shown = (a if c in self.columns else "_" for c, a in enumerate(self.atom.attributes))
        return f"{'not ' if self.atom.negated else ''}{self.atom.read}({', '.join(shown)})"


@dataclass(frozen=True, slots=True)
class Restriction:
    """A symmetry restriction: the code of `smaller` is below that of `larger`. It is about codes, never about users' ids."""

    smaller: str
    larger: str

    @property
    def attributes(self) -> tuple[str, ...]:
        return self.smaller, self.larger

    def renamed(self, names: dict[str, str]) -> Restriction:
        """Return the restriction with its attributes replaced."""
        return Restriction(names[self.smaller], names[self.larger])

    def canonical(self) -> Restriction:
        """Return the one form that equal restrictions share: itself."""
        return self

    def __str__(self) -> str:
        return f"code({self.smaller}) < code({self.larger})"


def ordered_pairs(restrictions: Iterable[Restriction]) -> set[tuple[str, str]]:
    """Return every (smaller, larger) that the restrictions say or imply."""
    above: dict[str, set[str]] = {}
    for r in restrictions:
        above.setdefault(r.smaller, set()).add(r.larger)
    pairs = set()
    for smaller, direct in above.items():
        found, new = set[str](), direct
        while new:
            found |= new
            new = set[str]().union(*(above.get(a, ()) for a in new)) - found
        pairs |= {(smaller, larger) for larger in found}
    return pairs


@dataclass(frozen=True, slots=True)
class Seed:
    """The tuples of one atom, read in the column order of `extender`: the prefixes that a plan starts from."""

    extender: Extender
    restrictions: tuple[Restriction, ...] = ()
    checks: tuple[Extender, ...] = ()
    filters: tuple[QueryFilter, ...] = ()

    @property
    def attributes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.extender.atom.attributes[c] for c in self.extender.columns))


@dataclass(frozen=True, slots=True)
class Step:
    """Extend every prefix by `attribute`: the extender with the fewest extensions proposes, the others intersect.

    `excluders` are negated atoms, whose lists are subtracted. `restrictions` and equalities bound the lists before they are
    counted. `checks` are atoms that the new attribute completes but that are no extenders of it, such as edge(a, a).
    """

    attribute: str
    extenders: tuple[Extender, ...]
    excluders: tuple[Extender, ...] = ()
    restrictions: tuple[Restriction, ...] = ()
    checks: tuple[Extender, ...] = ()
    filters: tuple[QueryFilter, ...] = ()

    @property
    def lists(self) -> tuple[Extender, ...]:
        """Everything whose lists it reads."""
        return (*self.extenders, *self.excluders, *self.checks)

    @property
    def parts(self) -> tuple[object, ...]:
        """Everything that the new attribute has to satisfy."""
        return (*self.lists, *self.restrictions, *self.filters)


@dataclass(frozen=True, slots=True)
class Plan:
    """How a query is answered."""

    query: Query
    seed: Seed
    steps: tuple[Step, ...]

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attribute order: what the columns of a full prefix are."""
        return (*self.seed.attributes, *(step.attribute for step in self.steps))

    def __str__(self) -> str:
        seed, bound = self.seed, list(self.seed.attributes)
        rules = [_rule(1, bound, [seed.extender, *seed.checks, *seed.restrictions, *seed.filters])]
        for number, step in enumerate(self.steps, start=2):
            previous = f"p{number - 1}({', '.join(bound)})"
            bound.append(step.attribute)
            rules.append(_rule(number, bound, [previous, *step.parts]))
        return "\n".join(rules)


def _rule(number: int, bound: list[str], body: list[object]) -> str:
    return f"{number}. p{number}({', '.join(bound)}) := {', '.join(map(str, body))}"
