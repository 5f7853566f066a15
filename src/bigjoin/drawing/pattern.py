"""The pattern of a query as a small graph: attributes are vertices, atoms of two attributes are edges, others are boxes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from bigjoin.drawing.small_graph import DrawnEdge, DrawnVertex, SmallGraph
from bigjoin.query.flags import FLAGS
from bigjoin.query.query import Atom, Comparison, Query, QueryFilter
from bigjoin.query.statistics import EDGE_COLUMNS, VERTEX, Statistics
from bigjoin.query.terms import Constant

EDGE_RELATION = "edge"
"""The relation whose name needs not be said."""

_SAID = {"distinct": "vertices differ", "unique": "each subgraph once", "induced": "no other edge among the vertices"}
"""What flags say, below a pattern."""


@dataclass(frozen=True)
class PatternDrawing:
    """The atoms of a query, as far as they are drawn: which of them are edges, and what stands where.

    Without statistics, an atom of three attributes is an edge with a name if nothing else reads its third attribute as anything
    but that, as in pays(a, b, e).
    """

    query: Query
    known: Statistics | None = None
    undirected: bool = False
    more: tuple[Atom, ...] = ()
    """Atoms that a plan reads besides."""

    @cached_property
    def atoms(self) -> tuple[Atom, ...]:
        """The atoms, each once."""
        return tuple(dict.fromkeys((*self.query.atoms, *self.more)))

    @cached_property
    def edge_names(self) -> frozenset[str]:
        """The attributes that stand for edges."""
        return frozenset(name for atom in self.atoms if self._is_named_edge(atom) for name in atom.attributes[2:])

    def _is_named_edge(self, atom: Atom) -> bool:
        """Tell whether the third attribute of an atom is the name of the edge between the first two."""
        if len(atom.attributes) != 3 or atom.columns or atom.view is not None:
            return False
        relation = None if self.known is None else self.known.relations.get(atom.relation)
        if relation is not None:
            return relation.arity == 2
        if atom.hops is not None or atom.pattern is not None or atom.relation == EDGE_RELATION:
            return True
        name = atom.attributes[2]
        elsewhere = (a for other in self.atoms for a in (other.attributes if other != atom else atom.attributes[:2]))
        return name not in elsewhere

    def is_edge(self, atom: Atom) -> bool:
        """Tell whether an atom is drawn as an edge."""
        return len(atom.attributes) == 2 or self._is_named_edge(atom)

    def ends(self, atom: Atom) -> tuple[str, str]:
        """Return the ends of an edge, in its direction."""
        source, target = atom.attributes[:2]
        is_backward = atom.pattern is not None and atom.pattern.backward
        return (target, source) if is_backward else (source, target)

    @cached_property
    def vertex_names(self) -> tuple[str, ...]:
        """The attributes that stand for vertices, in order of appearance."""
        mentioned = (a for atom in self.atoms for a in (self.ends(atom) if self.is_edge(atom) else atom.attributes))
        seeded = (a for one in self.query.seeds for a in one.attributes)
        return tuple(a for a in dict.fromkeys((*mentioned, *seeded)) if a not in self.edge_names)

    def domain(self, attribute: str) -> str:
        """Return the domain of an attribute, as far as it is known: values of different domains are never the same."""
        for atom in self.atoms:
            relation = None if self.known is None or atom.view is not None else self.known.relations.get(atom.relation)
            if relation is None or attribute not in atom.attributes:
                continue
            place = atom.attributes.index(attribute)
            if atom.columns:
                place = (
                    relation.columns.index(atom.columns[place])
                    if atom.columns[place] in relation.columns
                    else len(relation.domains)
                )
            if place < len(relation.domains):
                return relation.domains[place]
        return ""

    @cached_property
    def constants(self) -> dict[str, Constant]:
        """Attributes that only stand for a constant, as in edge(a, 5)."""
        return {str(left): right for left, right in self.query.constants.items() if _is_nameless(left)}

    @property
    def edge_relations(self) -> set[str]:
        """The relations of its edges."""
        return {_relation_name(atom) for atom in self.atoms if self.is_edge(atom)}

    def vertices(self) -> Iterator[DrawnVertex]:
        """Give the vertices, and boxes for atoms that join more than two."""
        labels: dict[str, list[str]] = {}
        for atom in self.atoms:
            if len(atom.attributes) == 1 and atom.relation != VERTEX and half_edge(atom) is None:
                labels.setdefault(atom.attributes[0], []).append(f"{_sign(atom)}{_label_name(atom)}")
        for one in self.query.seeds:
            for a in one.attributes:
                labels.setdefault(a, []).append("seeds")
        for name in self.vertex_names:
            text = str(self.constants[name]) if name in self.constants else "" if _is_nameless(name) else name
            yield DrawnVertex(name, text, tuple(labels.get(name, ())))
        for number, atom in enumerate(self.atoms):
            if self.is_box(atom):
                yield DrawnVertex(beside_name(number), _sign(atom) + _relation_name(atom), is_box=True)
            elif half_edge(atom) is not None:
                yield DrawnVertex(beside_name(number), "")

    def is_box(self, atom: Atom) -> bool:
        """Tell whether an atom is drawn as a box."""
        return len(atom.attributes) > 2 and not self._is_named_edge(atom)

    def edges(self) -> Iterator[tuple[Atom, DrawnEdge]]:
        """Give the edges, and the lines from boxes, each with its atom."""
        for number, atom in enumerate(self.atoms):
            dashed = atom.negated or atom.optional
            half = half_edge(atom)
            if self.is_edge(atom) or half is not None:
                other = beside_name(number)
                source, target = self.ends(atom) if half is None else (atom.attributes[0], other)[:: -1 if half else 1]
                edge = DrawnEdge(
                    source,
                    target,
                    self._edge_text(atom),
                    directed=not self._is_undirected(atom),
                    dashed=dashed,
                    is_path=atom.hops is not None,
                    tone="negated" if atom.negated else "",
                )
                yield atom, edge
            elif self.is_box(atom):
                for place, attribute in enumerate(atom.attributes):
                    column = atom.columns[place] if atom.columns else ""
                    yield atom, DrawnEdge(beside_name(number), attribute, column, directed=False, dashed=dashed, is_thin=True)

    def _is_undirected(self, atom: Atom) -> bool:
        known = None if self.known is None else self.known.relations.get(atom.relation)
        either = atom.pattern is not None and atom.pattern.either
        return either or (self.undirected if known is None else known.symmetric)

    def _edge_text(self, atom: Atom) -> str:
        name = atom.attributes[2] if len(atom.attributes) == 3 and not _is_nameless(atom.attributes[2]) else ""
        is_said = self.edge_relations - {EDGE_RELATION, ""} or (atom.hops is not None and not name)
        relation = _relation_name(atom) if is_said else ""
        parts = [part for part in (name, relation) if part]
        text = ": ".join(parts)
        if atom.hops is not None:
            mode = "" if atom.hops.mode == "walk" else f"{atom.hops.mode} "
            text = f"{mode}{text} {str(atom.hops).removeprefix('*')}".strip()
        return _sign(atom) + text if text else ("not" if atom.negated else "")

    def graph(self) -> SmallGraph:
        """Return the small graph."""
        return SmallGraph.of(self.vertices(), (edge for _, edge in self.edges()))

    def conditions(self) -> list[str]:
        """Return what is asked of a match besides, a line each."""
        shown = [str(f) for f in self.query.filters if not self._is_drawn(f)]
        seeds = [f"seeds: {one.tuples:,} of ({', '.join(one.attributes)})" for one in self.query.seeds]
        flags = [_SAID[flag.name] for flag in FLAGS if flag.name in _SAID and getattr(self.query, flag.name)]
        return [*shown, *seeds, *flags]

    def _is_drawn(self, condition: QueryFilter) -> bool:
        return isinstance(condition, Comparison) and condition.is_constant and str(condition.left) in self.constants


def beside_name(number: int) -> str:
    """Return what the vertex is called that an atom adds to the attributes: no attribute has such a name."""
    return f"atom {number + 1}"


def half_edge(atom: Atom) -> int | None:
    """Return the column of the only end that an atom reads of edges: 0 where these begin, 1 where they end; or None."""
    if len(atom.attributes) != 1:
        return None
    if atom.columns:
        return EDGE_COLUMNS.index(atom.columns[0]) if atom.columns[0] in EDGE_COLUMNS else None
    if atom.view is not None and len(atom.view.columns) == 2 and not atom.view.constants:
        return atom.view.kept[0]
    return None


def _is_nameless(name: object) -> bool:
    return isinstance(name, str) and name.startswith("_")


def _sign(atom: Atom) -> str:
    return "not " if atom.negated else "optional " if atom.optional else ""


def _label_name(atom: Atom) -> str:
    """Return what an atom with one attribute says of it."""
    column = f".{atom.columns[0]}" if atom.columns else ""
    return f"{_relation_name(atom)}{column}"


def _relation_name(atom: Atom) -> str:
    """Return the relation that an atom reads, or those that it may read."""
    if atom.pattern is None:
        return atom.relation
    return " | ".join(atom.pattern.relations)
