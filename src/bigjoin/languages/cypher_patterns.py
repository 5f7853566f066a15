"""Patterns and conditions of a Cypher text become the atoms, filters and subpatterns of a block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bigjoin.errors import QueryError, Span
from bigjoin.languages import cypher_tree as tree
from bigjoin.languages.cypher_scope import Names, constant_of, later, unsupported, variables_of
from bigjoin.query.operators import EQUAL, NOT_EQUAL, OPERATORS
from bigjoin.query.optional import MAX_OPTIONAL_ATOMS
from bigjoin.query.query import Atom, Comparison, Pattern, Query
from bigjoin.query.statement import QueryBlock, Subpattern
from bigjoin.query.terms import Constant, Operand, Property


class BlockBuilder:
    """Gathers the atoms, filters and subpatterns of a block."""

    def __init__(self, names: Names, outer: BlockBuilder | None = None) -> None:
        self.names, self.outer = names, outer
        self.atoms: list[Atom] = []
        self.filters: list[Comparison] = []
        self.subpatterns: list[Subpattern] = []
        self.shared: dict[str, None] = {}
        """The attributes that it has in common with the block around it."""

    @property
    def bound(self) -> set[str]:
        """The attributes that have a value in its rows."""
        return {a for atom in self.atoms if not atom.negated for a in atom.attributes}

    @property
    def all_atoms(self) -> Iterator[Atom]:
        """Its atoms, and those of its optional patterns."""
        yield from self.atoms
        for sub in self.subpatterns:
            for block in sub.block.walk() if sub.kind == "optional" else ():
                yield from block.query.atoms

    @property
    def known(self) -> set[str]:
        """The attributes that have a value in its rows, or in what its optional patterns add."""
        inside = (a for sub in self.subpatterns if sub.kind == "optional" for a in _bound(sub.block))
        return self.bound.union(inside)

    def block(self) -> QueryBlock:
        """Return what was gathered."""
        query = Query("match", (), tuple(self.atoms), tuple(self.filters), cross_product=True)
        return QueryBlock(query, tuple(self.subpatterns))

    # Patterns

    def match(self, clause: tree.MatchClause, number: int) -> None:
        """Add the patterns of a clause, and its conditions."""
        several = sum(len(path.relationships) for path in clause.patterns) > 1
        alone: dict[str, Span | None] = {}
        for path in clause.patterns:
            self._path(path, number if several else None, alone)
        for attribute, span in alone.items():
            if attribute not in self.bound:
                self._any_vertex(attribute, span)
        if clause.where is not None:
            self.where(clause.where)

    def _path(self, path: tree.PathPattern, clause: int | None, alone: dict[str, Span | None]) -> None:
        if path.function is not None:
            later(path.function, path.span)
        if path.variable is not None:
            later("a path variable", path.span, "name the nodes and relationships instead")
        ends = []
        for node in path.nodes:
            attribute = self.names.fresh() if node.variable is None else self._node(node.variable, node.span)
            ends.append(attribute)
            alone.setdefault(attribute, node.span)
            self._labels(attribute, node)
        for i, relationship in enumerate(path.relationships):
            self.atoms.append(self._relationship(relationship, ends[i], ends[i + 1], clause))

    def _node(self, variable: str, span: Span | None) -> str:
        attribute = self.names.attribute(variable, "node", span)
        self._share(attribute)
        return attribute

    def _share(self, attribute: str) -> None:
        """Note that an attribute comes from around this block, and around those in between."""
        if self.outer is not None and attribute in self.outer.reachable:
            self.shared[attribute] = None
            if attribute not in self.outer.known:
                self.outer._share(attribute)

    @property
    def reachable(self) -> set[str]:
        """The attributes that a pattern inside may share."""
        return self.known | (self.outer.reachable if self.outer is not None else set())

    def _labels(self, attribute: str, node: tree.NodePattern) -> None:
        if node.any_label and len(node.labels) > 1:
            later("a choice of labels", node.span, "ask for each label by itself")
        for label in node.labels:
            self.atoms.append(Atom(label, (attribute,), span=node.span))
        self._properties(attribute, node.properties)

    def _properties(self, attribute: str, properties: tuple[tuple[str, tree.Expression], ...]) -> None:
        for name, value in properties:
            span = value.span
            self.filters.append(Comparison(Property(attribute, name, span), EQUAL.text, self._constant(value), span=span))

    def _relationship(self, relationship: tree.RelationshipPattern, left: str, right: str, clause: int | None) -> Atom:
        """Return the atom of a relationship between two attributes."""
        if relationship.hops is not None:
            later("a relationship of several hops", relationship.span, "write each hop: (a)-[]->()-[]->(b)")
        ends = (right, left) if relationship.direction == "in" else (left, right)
        row: tuple[str, ...] = ()
        needs_row = bool(relationship.properties)
        if relationship.variable is not None:
            row = (self.names.attribute(relationship.variable, "relationship", relationship.span),)
            self._share(row[0])
            needs_row |= relationship.variable in self.names.used
        elif relationship.properties:
            row = (self.names.fresh(),)
        self._properties(row[0] if row else "", relationship.properties)
        pattern = Pattern(relationship.types, rows=not needs_row, either=relationship.direction == "either", clause=clause)
        relation = relationship.types[0] if relationship.types else "edge"
        return Atom(relation, (*ends, *row), pattern=pattern, span=relationship.span)

    def _any_vertex(self, attribute: str, span: Span | None) -> None:
        self.atoms.append(Atom("vertex", (attribute,), pattern=Pattern(("vertex",)), span=span))

    # Optional patterns

    def match_optionally(self, clause: tree.MatchClause, number: int, others: list[tree.MatchClause]) -> set[str]:
        """Add an OPTIONAL MATCH, as an atom if one can say it; return the variables that only it binds."""
        before = set(self.names.attributes)
        known = set(self.names.attributes.values())
        if (atom := self._optional_atom(clause, others)) is not None:
            self.atoms.append(atom)
        else:
            inner = BlockBuilder(self.names, self)
            inner.match(clause, number)
            inner.bind_shared(multiplies=True)
            self.subpatterns.append(Subpattern(inner.block(), tuple(inner.shared), "optional"))
        self.names.optional |= set(self.names.attributes.values()) - known
        return set(self.names.attributes) - before

    def _optional_atom(self, clause: tree.MatchClause, others: list[tree.MatchClause]) -> Atom | None:
        """Return the optional atom that says the same as a clause, if there is one."""
        if clause.where is not None or len(clause.patterns) != 1 or self.subpatterns:
            return None
        (path,) = clause.patterns
        if not _is_plain(path):
            return None
        if sum(atom.optional for atom in self.atoms) >= MAX_OPTIONAL_ATOMS:
            return None
        firm = {a for atom in self.atoms if not (atom.negated or atom.optional) for a in atom.attributes}
        named = [node.variable for node in path.nodes if node.variable is not None]
        is_bound = [v is not None and self.names.attributes.get(v) in firm for v in (node.variable for node in path.nodes)]
        elsewhere = {v for other in others for v in variables_of(other)}
        new = [
            v for v in (*named, path.relationships[0].variable) if v is not None and self.names.attributes.get(v) not in firm
        ]
        if not any(is_bound) or any(v in elsewhere for v in new) or len(set(new)) < len(new):
            return None
        ends = [
            self.names.fresh() if node.variable is None else self.names.attribute(node.variable, "node", node.span)
            for node in path.nodes
        ]
        atom = self._relationship(path.relationships[0], ends[0], ends[1], None)
        return replace(atom, optional=True, span=clause.span)

    def bind_shared(self, *, multiplies: bool) -> None:
        """Bind the shared attributes that only conditions name, by what the block around this one says about them.

        Where rows would multiply, only atoms between shared attributes may be repeated here. What then is left is any vertex.
        """
        around = [] if self.outer is None else [a for a in self.outer.atoms if not (a.negated or a.optional or a.columns)]
        for atom in around:
            ends = atom.attributes[:2]
            inside = self.shared.keys() >= set(ends) if multiplies else bool(self.shared.keys() & set(ends))
            if inside and not self.bound.issuperset(self.shared):
                pattern = atom.pattern and replace(atom.pattern, rows=False, clause=None)
                self.atoms.append(replace(atom, attributes=ends, pattern=pattern))
        for attribute in self.shared:
            if attribute in self.bound:
                continue
            outside = self.outer
            while outside is not None:
                row = next((a for a in outside.all_atoms if len(a.attributes) == 3 and a.attributes[2] == attribute), None)
                if row is not None:
                    self.atoms.append(
                        replace(row, attributes=(self.names.fresh(), self.names.fresh(), attribute), optional=False)
                    )
                    break
                outside = outside.outer
            else:
                self._any_vertex(attribute, None)

    # Conditions

    def where(self, expression: tree.Expression) -> None:
        """Add a condition: conjuncts become filters, atoms or subpatterns."""
        match expression:
            case tree.And(parts):
                for part in parts:
                    self.where(part)
            case tree.Compare():
                self.filters.append(self._comparison(expression))
            case tree.HasLabels():
                self._has_labels(expression, negated=False)
            case tree.ExistsPattern(patterns, where):
                self._exists(patterns, where, expression, negated=False)
            case tree.PatternPredicate(path):
                self._exists((path,), None, expression, negated=False)
            case tree.Not(part):
                self._where_not(part)
            case tree.Literal(value) if value is True:
                return
            case tree.Literal(value) if value is False:
                attribute = next(a for atom in self.atoms if not atom.negated for a in atom.attributes)
                self.filters.append(Comparison(attribute, NOT_EQUAL.text, attribute, span=expression.span))
            case _:
                unsupported(expression)

    def _where_not(self, part: tree.Expression) -> None:
        match part:
            case tree.Not(inner):
                self.where(inner)
            case tree.Or(parts):
                for each in parts:
                    self._where_not(each)
            case tree.Compare(left, operator, right):  # under ternary logic too: both are unknown, or one is true
                negated = OPERATORS[operator].negated
                self.filters.append(self._comparison(tree.Compare(left, negated, right, span=part.span)))
            case tree.HasLabels():
                self._has_labels(part, negated=True)
            case tree.ExistsPattern(patterns, where):
                self._exists(patterns, where, part, negated=True)
            case tree.PatternPredicate(path):
                self._exists((path,), None, part, negated=True)
            case tree.And():
                later("NOT before several conditions", part.span, "negate each of them, and ask twice")
            case _:
                unsupported(part)

    def _has_labels(self, expression: tree.HasLabels, *, negated: bool) -> None:
        several = len(expression.labels) > 1
        if several and (negated or expression.any_label):
            later("a choice of labels", expression.span, "ask for each label by itself")
        attribute = self._operand(expression.subject)
        if not isinstance(attribute, str):
            unsupported(expression.subject)
        self.atoms += [Atom(label, (attribute,), negated=negated, span=expression.span) for label in expression.labels]

    def _comparison(self, compare: tree.Compare) -> Comparison:
        left, right = self._operand(compare.left), self._operand(compare.right)
        operator = OPERATORS[compare.operator]
        whole = [side for side in (compare.left, compare.right) if isinstance(side, tree.Variable)]
        for side in whole:
            kind = self.names.kinds.get(side.name)
            other = compare.right if side is compare.left else compare.left
            if not isinstance(other, tree.Variable) or not operator.symmetric:
                hint = f"compare id({side.name}), or a property such as {side.name}.name"
                raise QueryError(f"{side.name!r} is a {kind}, which only equals another {kind}", compare.span, hint)
            if self.names.kinds.get(other.name) != kind:
                raise QueryError("a node and a relationship are never equal", compare.span, "compare nodes with nodes")
        if isinstance(left, Constant) and isinstance(right, Constant):
            later("a comparison of two constants", compare.span, "compare a property")
        return Comparison(left, operator.text, right, span=compare.span)

    def _operand(self, expression: tree.Expression) -> Operand:
        """Return one side of a comparison: an attribute, a property or a constant."""
        match expression:
            case tree.Variable(name):
                return self._seen(name)
            case tree.PropertyAccess(tree.Variable(name), key):
                return Property(self._seen(name), key, expression.span)
            case tree.Call(name, (tree.Variable(variable),), False) if name.casefold() in ("id", "elementid"):
                return self._seen(variable)
            case _:
                return self._constant(expression)

    def _seen(self, variable: str) -> str:
        attribute = self.names.attributes[variable]
        self._share(attribute)
        return attribute

    def _constant(self, expression: tree.Expression) -> Constant:
        match expression:
            case tree.Literal(value):
                return constant_of(value, expression.span)
            case tree.Parameter(name):
                return constant_of(self.names.parameters[name], expression.span, f"${name}")
            case _:
                unsupported(expression)

    def _exists(
        self,
        patterns: tuple[tree.PathPattern, ...],
        where: tree.Expression | None,
        expression: tree.Expression,
        *,
        negated: bool,
    ) -> None:
        """Add a pattern that has to match, or must not."""
        if where is None and len(patterns) == 1 and (atom := self._exists_atom(patterns[0], negated=negated)) is not None:
            self.atoms.append(atom)
            return
        inner = BlockBuilder(self.names, self)
        inner.match(tree.MatchClause(patterns, where, False, span=expression.span), -1)
        inner.bind_shared(multiplies=False)
        if negated and (missing := sorted(self.names.optional & inner.shared.keys() - self.bound)):
            later(f"a negated pattern about {missing[0]!r}, which may be missing,", expression.span, "name it in the pattern")
        self.subpatterns.append(Subpattern(inner.block(), tuple(inner.shared), "not exists" if negated else "exists"))

    def _exists_atom(self, path: tree.PathPattern, *, negated: bool) -> Atom | None:
        """Return the atom that says whether a relationship is there, if a single one can."""
        if not _is_plain(path):
            return None
        (relationship,) = path.relationships
        variables = [node.variable for node in path.nodes]
        bound = [v is not None and self.names.attributes.get(v) in self.bound for v in variables]
        is_known = [v is not None and self.names.attributes.get(v) in self.reachable for v in variables]
        if not any(bound) or bound != is_known or relationship.variable in self.names.used:
            return None
        either = relationship.direction == "either"
        if either and not negated and not all(bound):
            return None
        if relationship.variable is not None and relationship.variable in self.names.attributes:
            return None
        ends = [
            self.names.attributes[v] if known and v is not None else self.names.fresh()
            for v, known in zip(variables, bound, strict=True)
        ]
        if len({v for v in variables if v is not None}) < sum(v is not None for v in variables) and not all(bound):
            return None
        columns = ["src", "dst"]
        if relationship.direction == "in":
            ends, bound = ends[::-1], bound[::-1]
        pattern = Pattern(relationship.types, rows=False, either=either)
        relation = relationship.types[0] if relationship.types else "edge"
        atom = Atom(relation, tuple(ends), negated=negated, pattern=pattern, span=path.span)
        if negated or all(bound):
            return atom
        place = bound.index(True)
        return replace(atom, attributes=(ends[place],), columns=(columns[place],))


def _is_plain(path: tree.PathPattern) -> bool:
    """Tell whether a pattern is one relationship without anything that would need a query of its own."""
    if path.function is not None or path.variable is not None or len(path.relationships) != 1:
        return False
    (relationship,) = path.relationships
    if relationship.hops is not None or relationship.properties:
        return False
    return not any(node.labels or node.properties for node in path.nodes)


def _bound(block: QueryBlock) -> Iterator[str]:
    yield from block.query.bound
    for sub in block.subpatterns:
        if sub.kind == "optional":
            yield from _bound(sub.block)
