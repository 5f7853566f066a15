"""What the planner may know about the data: sizes and list lengths, never tuples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product

from bigjoin.query.query import Atom
from bigjoin.query.read import ReplacedView, View

EDGE_COLUMNS = ("src", "dst")
"""The columns of a relation of edges."""

VERTEX = "vertex"
"""The domain of a graph's vertices, and the relation that holds all of them, unless the source has one of that name."""


@dataclass(frozen=True, slots=True)
class ListStatistics:
    """The extension lists of one column order, seen as a distribution of lengths."""

    keys: int
    """Keys that have a list."""
    mean: float
    """Length of the list of a random key."""
    typical: float
    """Length of the list that a random tuple lies in: the size-biased mean, which hubs raise."""
    longest: int


MIN_TYPICAL_LENGTH = 48
MIN_SHARED_VALUES = 3


@dataclass(frozen=True, slots=True)
class Definition:
    """The join that a materialised relation stores: its tuples are all bindings of the head that satisfy the atoms."""

    head: tuple[str, ...]
    """All attributes of the atoms."""
    atoms: tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class RelationStatistics:
    """One relation: the domains of its columns, its size, and the lists of each column order that is indexed."""

    domains: tuple[str, ...]
    tuples: int
    symmetric: bool = False
    """Whether swapping the first two columns leaves the relation unchanged (an undirected graph)."""
    loops: int = 0
    """Tuples whose columns are all equal."""
    lists: Mapping[tuple[int, ...], ListStatistics] = field(default_factory=dict)
    """By column order: the orders that the index holds. An empty mapping means that it can serve any order."""
    rows: RelationStatistics | None = None
    """The relation with the id of a row as one more column: a tuple for each row of the source."""
    catalogue: Mapping[str, float] = field(default_factory=dict)
    """Average extensions of small patterns, from a sample, by the names of `index/catalogue.py`; may be empty."""
    columns: tuple[str, ...] = ()
    """The names of its columns; empty if they have none."""
    symmetries: tuple[tuple[int, ...], ...] = ()
    """Permutations of columns that leave the relation unchanged, besides swapping the first two of a symmetric one."""
    materialized: bool = False
    """Whether it stores the result of a query over the other relations."""
    definition: Definition | None = None
    """That query, if plans can make use of it."""
    given: bool = False
    """Whether it belongs to one question: seeds. It is small, it may hold ids that its domain lacks, and it never changes."""

    @property
    def arity(self) -> int:
        return len(self.domains)


@dataclass(frozen=True, slots=True)
class Statistics:
    """All relations by name, and the number of values and the properties of each domain."""

    relations: Mapping[str, RelationStatistics]
    domains: Mapping[str, int]
    properties: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By domain: the names of its properties, and their Arrow types as text."""
    ids: Mapping[str, str] = field(default_factory=dict)
    """By domain: the Arrow type of its ids, as text; absent if it is not known."""

    def relation(self, atom: Atom) -> RelationStatistics:
        """Return the statistics of an atom's relation, or of its view, which can be made in any column order."""
        if isinstance(atom.view, ReplacedView):
            return RelationStatistics((VERTEX,), 1, loops=1, lists={(0,): ListStatistics(1, 1.0, 1.0, 1)})
        whole, view = self.relations.get(atom.relation) or self._vertices(atom.relation), atom.view
        if view is None:
            return whole
        domains = tuple(whole.domains[c] for c in view.kept)
        return RelationStatistics(
            domains, whole.tuples, loops=1, lists=_prefixes(whole, view), symmetries=_seen_through(whole, view)
        )

    def _vertices(self, name: str) -> RelationStatistics:
        """Return the relation of all vertices, if that is its name; raise KeyError otherwise."""
        if name != VERTEX:
            raise KeyError(name)
        size = self.domains[VERTEX]
        return RelationStatistics((VERTEX,), size, lists={(0,): ListStatistics(1, float(size), float(size), size)})

    def of(self, atom: Atom) -> RelationStatistics:
        """Return the statistics of what an atom reads: its relation, or the relation's rows if it has one more attribute."""
        relation = self.relation(atom)
        return relation.rows if relation.rows is not None and len(atom.attributes) > relation.arity else relation

    def domains_of(self, atoms: Iterable[Atom]) -> dict[str, str]:
        """Return the domain that each attribute of some atoms ranges over."""
        return {a: domain for atom in atoms for a, domain in zip(atom.attributes, self.of(atom).domains, strict=True)}

    def is_id(self, domain: str, name: str) -> bool:
        """Tell whether a property is the id itself: `a.id` is, unless the source has a column of that name."""
        return name == "id" and name not in self.properties.get(domain, {})


def _prefixes(whole: RelationStatistics, view: View) -> dict[tuple[int, ...], ListStatistics]:
    """Return the column orders in which the index holds a view of a materialised relation; empty if the view must be made."""
    if not whole.materialized or view.constants or view.equal:
        return {}
    width, place = len(view.kept), {column: i for i, column in enumerate(view.kept)}
    orders = {order[:width]: lists for order, lists in whole.lists.items() if set(order[:width]) == set(view.kept)}
    return {tuple(place[c] for c in order): lists for order, lists in orders.items()}


def _seen_through(whole: RelationStatistics, view: View) -> tuple[tuple[int, ...], ...]:
    """Return the permutations of a view's columns that leave it unchanged: those of the relation that fix the other columns."""
    exchanges = whole.symmetries
    if whole.symmetric:
        exchanges = (*exchanges, (1, 0, *range(2, whole.arity)))
    place = {column: i for i, column in enumerate(view.kept)}
    found = set()
    for columns in exchanges:
        if all(view.columns[c] == view.columns[image] for c, image in enumerate(columns)) and not view.equal:
            found.add(tuple(place[columns[c]] for c in view.kept))
    return tuple(sorted(found - {tuple(range(len(view.kept)))}))


def assumed_graph(*, symmetric: bool, properties: Iterable[str] = ()) -> Statistics:
    """Return the statistics of a mid-sized social graph, for explaining a query without a source; all have the properties."""
    vertices, tuples, parallel = 100_000, 1_000_000, 2
    lists = ListStatistics(keys=vertices, mean=tuples / vertices, typical=10 * tuples / vertices, longest=vertices // 10)
    edge = RelationStatistics(
        domains=("vertex", "vertex"),
        tuples=tuples,
        symmetric=symmetric,
        loops=0 if symmetric else 1,
        lists={(0, 1): lists, (1, 0): lists},
        catalogue=_assumed_catalogue((0,) if symmetric else (0, 1)),
        columns=EDGE_COLUMNS,
    )
    rows = replace(
        edge,
        domains=(*edge.domains, "edge edge"),
        tuples=parallel * tuples,
        catalogue={},
        lists={(0, 1, 2): ListStatistics(keys=tuples, mean=parallel, typical=2 * parallel, longest=vertices // 1000)},
    )
    sizes = {"vertex": vertices, "edge edge": parallel * tuples}
    return Statistics({"edge": replace(edge, rows=rows)}, sizes, {domain: dict.fromkeys(properties, "any") for domain in sizes})


def _assumed_catalogue(orders: tuple[int, ...]) -> dict[str, float]:
    """Return a catalogue like that of soc-Epinions1, the same for every direction."""
    averages = {("length", 2): 100.0, ("scan", 3): 80.0, ("shared", 2): 8.0, ("continued", 3): 10.0, ("wedge", 4): 7.0}
    found = {}
    for (name, width), average in averages.items():
        ends = [(0, 1)] if name in ("length", "scan", "wedge") else []
        for places in product(*ends, *[orders] * (width - len(ends))):
            found[".".join([name, *map(str, places)])] = average
    return found


def has_dense_lists(relation: RelationStatistics, columns: tuple[int, ...]) -> bool:
    """Tell whether lists, of the last column by those before it, are long and share much, so that sets of bits are faster."""
    lengths = [lists.typical for order, lists in relation.lists.items() if order[: len(columns)] == columns]
    shared = [size for name, size in relation.catalogue.items() if name.startswith("shared.")]
    return max(lengths, default=0.0) >= MIN_TYPICAL_LENGTH and max(shared, default=0.0) >= MIN_SHARED_VALUES
