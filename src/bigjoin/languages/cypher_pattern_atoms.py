"""Paths of a Cypher text become atoms: nodes, their labels and properties, and relationships, also of several hops."""

from __future__ import annotations

from abc import abstractmethod

from bigjoin.errors import QueryError, Span
from bigjoin.languages import cypher_tree as tree
from bigjoin.languages.cypher_lists import ListReader
from bigjoin.languages.cypher_paths import Member, PathList, bounded_hops
from bigjoin.languages.cypher_scope import LIST, PATH, Names, later
from bigjoin.query.expressions import Call, Expression, Holds
from bigjoin.query.operators import EQUAL
from bigjoin.query.query import Atom, Pattern
from bigjoin.query.terms import Property


class PatternAtoms(ListReader):
    """Gathers the atoms of paths."""

    names: Names
    atoms: list[Atom]

    @abstractmethod
    def share(self, attribute: str) -> None:
        """Note that an attribute is named, which may come from elsewhere."""

    @abstractmethod
    def filter(self, condition: Expression, span: Span | None) -> None:
        """Add a condition."""

    def add_path(self, path: tree.PathPattern, clause: int | None, alone: dict[str, Span | None]) -> None:
        """Add the atoms of a path; `alone` gets its nodes, which nothing else may bind."""
        if path.function is not None:
            later(path.function, path.span)
        ends = []
        for node in path.nodes:
            attribute = self.names.fresh() if node.variable is None else self._node(node.variable, node.span)
            ends.append(attribute)
            alone.setdefault(attribute, node.span)
            self._labels(attribute, node)
        walked = []
        for i, relationship in enumerate(path.relationships):
            self.atoms.append(self.relationship(relationship, ends[i], ends[i + 1], clause, path.variable))
            walked.append(self.atoms[-1])
        if path.variable is not None:
            self._name_path(path.variable, ends, list(zip(path.relationships, walked, strict=True)), path.span)

    def _name_path(
        self, name: str, ends: list[str], walked: list[tuple[tree.RelationshipPattern, Atom]], span: Span | None
    ) -> None:
        """Note what the nodes and the relationships of a path are."""
        rows = [atom.attributes[2] if len(atom.attributes) > 2 else "" for _, atom in walked]
        relationships = [
            Member("relationship", row, relationship.types, row if atom.hops is not None else None)
            for row, (relationship, atom) in zip(rows, walked, strict=True)
        ]
        attribute = self._new(name, PATH, span)
        self.names.lists[attribute, "node"] = PathList.of_nodes(ends, relationships)
        if relationships:
            self.names.lists[attribute, "relationship"] = PathList.of_relationships(relationships)

    def _new(self, name: str, kind: str, span: Span | None) -> str:
        """Return the attribute of a path or of a list, which has one place in a text."""
        if name in self.names.attributes:
            raise QueryError(f"{name!r} is the name of two {kind.split()[0]}s", span, "give each one a name of its own")
        return self.names.attribute(name, kind, span)

    def _node(self, variable: str, span: Span | None) -> str:
        attribute = self.names.attribute(variable, "node", span)
        self.share(attribute)
        return attribute

    def _labels(self, attribute: str, node: tree.NodePattern) -> None:
        labels = [Atom(label, (attribute,), span=node.span) for label in node.labels]
        if node.any_label and len(labels) > 1:
            self.filter(Call("or", tuple(map(Holds, labels)), node.span), node.span)
        else:
            self.atoms += labels
        self._properties(attribute, node.properties)

    def _properties(self, attribute: str, properties: tuple[tuple[str, tree.CypherExpression], ...]) -> None:
        for name, value in properties:
            if isinstance(value, tree.Literal) and value.value is None:
                raise QueryError("a comparison with null is never true", value.span, f"write WHERE a.{name} IS NULL")
            self.filter(Call(EQUAL.text, (Property(attribute, name, value.span), self.value(value)), value.span), value.span)

    def relationship(
        self, relationship: tree.RelationshipPattern, left: str, right: str, clause: int | None, path: str | None = None
    ) -> Atom:
        """Return the atom of a relationship between two attributes, in a path that may have a name."""
        if relationship.hops is not None:
            return self._hops(relationship, (left, right), clause, path)
        ends = (right, left) if relationship.direction == "in" else (left, right)
        row: tuple[str, ...] = ()
        needs_row = bool(relationship.properties) or path in self.names.used
        if relationship.variable is not None:
            row = (self.names.attribute(relationship.variable, "relationship", relationship.span),)
            self.names.types.setdefault(row[0], relationship.types)
            self.share(row[0])
            needs_row |= relationship.variable in self.names.used
        elif needs_row:
            row = (self.names.fresh(),)
        self._properties(row[0] if row else "", relationship.properties)
        pattern = Pattern(relationship.types, rows=not needs_row, either=relationship.direction == "either", clause=clause)
        relation = relationship.types[0] if relationship.types else "edge"
        return Atom(relation, (*ends, *row), pattern=pattern, span=relationship.span)

    def _hops(
        self, relationship: tree.RelationshipPattern, ends: tuple[str, str], clause: int | None, path: str | None
    ) -> Atom:
        """Return the atom of a relationship of several hops: a trail, which differs from the others of its clause as well."""
        assert relationship.hops is not None
        is_backward = relationship.direction == "in"
        name: tuple[str, ...] = ()
        if relationship.variable is not None:
            name = (self._new(relationship.variable, LIST, relationship.span),)
            self.names.types[name[0]] = relationship.types
            member = Member("relationship", name[0], relationship.types, name[0])
            self.names.lists[name[0], "relationship"] = PathList.of_relationships([member])
        elif relationship.properties or path is not None:
            name = (self.names.fresh(),)
        elif is_backward:  # nobody asks in which order
            is_backward, ends = False, ends[::-1]
        self._properties(name[0] if name else "", relationship.properties)
        either = relationship.direction == "either"
        pattern = Pattern(relationship.types, either=either, backward=is_backward, clause=clause)
        relation = relationship.types[0] if relationship.types else "edge"
        return Atom(relation, (*ends, *name), pattern=pattern, hops=bounded_hops(relationship), span=relationship.span)

    def any_vertex(self, attribute: str, span: Span | None) -> None:
        """Add an attribute that may be any vertex."""
        self.atoms.append(Atom("vertex", (attribute,), pattern=Pattern(("vertex",)), span=span))
