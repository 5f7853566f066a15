"""Patterns and conditions of a Cypher text become the atoms, filters and subpatterns of a block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bigjoin.errors import QueryError, Span
from bigjoin.languages import cypher_tree as tree
from bigjoin.languages.cypher_paths import PathList
from bigjoin.languages.cypher_pattern_atoms import PatternAtoms
from bigjoin.languages.cypher_scope import LIST, PATH, Names, later, variables_of
from bigjoin.query.expressions import Call, Expression, Holds, anchored, attributes_of, folded
from bigjoin.query.operators import NOT_EQUAL
from bigjoin.query.optional import MAX_OPTIONAL_ATOMS
from bigjoin.query.query import Atom, Comparison, Pattern, Query, QueryFilter, conditions
from bigjoin.query.statement import QueryBlock, Subpattern
from bigjoin.query.terms import Constant, Property


class BlockBuilder(PatternAtoms):
    """Gathers the atoms, filters and subpatterns of a block."""

    def __init__(self, names: Names, outer: BlockBuilder | None = None) -> None:
        self.names, self.outer, self.parameters = names, outer, names.parameters
        self._in_condition = False
        self.atoms: list[Atom] = []
        self.filters: list[QueryFilter] = []
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
        query = Query("match", (), tuple(self.atoms), tuple(self.filters), cross_product=True, dialect="cypher")
        return QueryBlock(query, tuple(self.subpatterns))

    # Patterns

    def match(self, clause: tree.MatchClause, number: int) -> None:
        """Add the patterns of a clause, and its conditions."""
        relationships = [relationship for path in clause.patterns for relationship in path.relationships]
        several = len(relationships) > 1 or any(relationship.hops is not None for relationship in relationships)
        alone: dict[str, Span | None] = {}
        for path in clause.patterns:
            self.add_path(path, number if several else None, alone)
        for attribute, span in alone.items():
            if attribute not in self.bound:
                self.any_vertex(attribute, span)
        if clause.where is not None:
            self.where(clause.where)

    def share(self, attribute: str) -> None:
        """Note that an attribute comes from around this block, and around those in between."""
        if self.outer is not None and attribute in self.outer.reachable:
            self.shared[attribute] = None
            if attribute not in self.outer.known:
                self.outer.share(attribute)

    @property
    def reachable(self) -> set[str]:
        """The attributes that a pattern inside may share."""
        return self.known | (self.outer.reachable if self.outer is not None else set())

    # Optional patterns

    def match_optionally(self, clause: tree.MatchClause, number: int, others: list[tree.CypherPart]) -> None:
        """Add an OPTIONAL MATCH, as an atom if one can say it."""
        known = set(self.names.attributes.values())
        if named := next((path for path in clause.patterns if path.variable is not None), None):
            later("a path variable in OPTIONAL MATCH", named.span, "name its nodes and relationships instead")
        if (atom := self._optional_atom(clause, others)) is not None:
            self.atoms.append(atom)
        else:
            inner = BlockBuilder(self.names, self)
            inner.match(clause, number)
            inner.bind_shared(multiplies=True)
            self.subpatterns.append(Subpattern(inner.block(), tuple(inner.shared), "optional"))
        self.names.optional |= set(self.names.attributes.values()) - known

    def _optional_atom(self, clause: tree.MatchClause, others: list[tree.CypherPart]) -> Atom | None:
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
        atom = self.relationship(path.relationships[0], ends[0], ends[1], None)
        return replace(atom, optional=True, span=clause.span)

    def bind_shared(self, *, multiplies: bool) -> None:
        """Bind the shared attributes that only conditions name, by what the block around this one says about them.

        Where rows would multiply, only atoms between shared attributes may be repeated here. What then is left is any vertex.
        """
        outer = () if self.outer is None else self.outer.atoms
        around = [a for a in outer if not (a.negated or a.optional or a.columns or a.hops)]
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
                rows = (a for a in outside.all_atoms if len(a.attributes) == 3 and a.hops is None)
                row = next((a for a in rows if a.attributes[2] == attribute), None)
                if row is not None:
                    self.atoms.append(
                        replace(row, attributes=(self.names.fresh(), self.names.fresh(), attribute), optional=False)
                    )
                    break
                outside = outside.outer
            else:
                self.any_vertex(attribute, None)

    # Conditions

    def where(self, expression: tree.CypherExpression) -> None:
        """Add a condition: conjuncts become filters, atoms or subpatterns."""
        match expression:
            case tree.And(parts):
                for part in parts:
                    self.where(part)
            case tree.Not(tree.Or(parts)):
                for part in parts:
                    self.where(tree.Not(part, span=part.span))
            case tree.Not(tree.Not(part)):
                self.where(part)
            case tree.HasLabels(_, labels, any_label) if not any_label or len(labels) == 1:
                self.atoms += self._labelled(expression)
            case tree.Not(tree.HasLabels(_, (_,)) as inner):
                self.atoms += [replace(atom, negated=True) for atom in self._labelled(inner)]
            case tree.Quantifier("all" | "none" as kind):
                for _, said in self.of_each(expression):
                    self.filter(said if kind == "all" else Call("not", (said,), expression.span), expression.span)
            case tree.ExistsPattern(patterns, where):
                self._exists(patterns, where, expression, negated=False)
            case tree.PatternPredicate(path):
                self._exists((path,), None, expression, negated=False)
            case tree.Not(tree.ExistsPattern(patterns, where) as inner):
                self._exists(patterns, where, inner, negated=True)
            case tree.Not(tree.PatternPredicate(path) as inner):
                self._exists((path,), None, inner, negated=True)
            case _:
                self._in_condition = True
                self.filter(self.value(expression), expression.span)
                self._in_condition = False

    def filter(self, condition: Expression, span: Span | None) -> None:
        """Add what a condition means to the filters."""
        found = folded(condition)
        if isinstance(found, Constant):
            if found.value is not None and not isinstance(found.value, bool):
                raise QueryError("this is not a condition", span, "compare it with something, as in a.age > 30")
            some = self._some_attribute
            self.filters += [] if found.value else [Comparison(some, NOT_EQUAL.text, some, span=span)]
            return
        about = found if attributes_of(found) else anchored(found, self._some_attribute)
        more = conditions(about, "cypher", span)
        for one in more:
            missing = sorted(self.names.optional.intersection(one.attributes))
            if missing and not isinstance(one, Comparison):
                hint = "pass it on, as in WITH a, b WHERE b IS NULL, or compare its properties one by one"
                later(f"a condition of this kind about {missing[0]!r}, which may be missing,", one.span or span, hint)
        self.filters += more

    @property
    def _some_attribute(self) -> str:
        return next(a for atom in self.atoms if not atom.negated for a in atom.attributes)

    def _labelled(self, expression: tree.HasLabels) -> list[Atom]:
        """Return the atoms of labels that something is said to have."""
        subject = expression.subject
        if not isinstance(subject, tree.Variable) or self.kind(subject.name) != "node":
            raise QueryError("only nodes have labels", expression.span, "write a:Label, where (a) is a node of the pattern")
        attribute = self._seen(subject.name)
        return [Atom(label, (attribute,), span=expression.span) for label in expression.labels]

    # What expressions are made of

    def variable(self, name: str, span: Span | None) -> Expression:
        if self.kind(name) in (LIST, PATH):
            return self.path_list(name, "node" if self.kind(name) == PATH else "relationship", span).value
        if name not in self.names.values:
            return self._seen(name)
        paths = {member.path for of in self.names.lists.values() for member in of.members}
        for attribute in attributes_of(value := self.names.values[name]):
            if attribute in paths:
                self._check_reached(attribute, name, span)
            self.share(attribute)
        return value

    def property_of(self, name: str, key: str, span: Span | None) -> Expression:
        return Property(self._seen(name), key, span)

    def kind(self, name: str) -> str | None:
        return self.names.kinds.get(name) if name in self.names.attributes else None

    def path_list(self, name: str, kind: str, span: Span | None) -> PathList:
        found = self.names.lists.get((self.names.attributes[name], kind))
        if found is None:
            raise QueryError(f"the path {name!r} has no relationships", span, "it is one node")
        for member in (*found.members, found.first, found.last):
            if member.path is None:
                self.share(str(member.term))
            else:
                self._check_reached(member.path, name, span)
        return found

    def _check_reached(self, path: str, name: str, span: Span | None) -> None:
        """Refuse something about a path that another block has."""
        if path not in self.known:
            hint = "say it in the WHERE of the MATCH that has the path"
            later(f"a condition about {name!r}, which is about a path outside of this pattern,", span, hint)

    def type_of(self, name: str, span: Span | None) -> Expression:
        attribute = self._seen(name)
        types = self.names.types[attribute]
        is_sure = len(types) == 1 and attribute not in self.names.optional
        return Constant(types[0]) if is_sure else Call("type", (attribute,), span)

    def relation_of(self, name: str) -> Expression:
        attribute = self._seen(name)
        types = self.names.types[attribute]
        return Constant(types[0]) if len(types) == 1 else Call("relation", (attribute,))

    def pattern(self, expression: tree.CypherExpression) -> Expression:
        """Return a pattern or a label as a part of a condition, if atoms can say whether it is there."""
        if not self._in_condition:
            what = "a label" if isinstance(expression, tree.HasLabels) else "a pattern"
            later(f"{what} as a column", expression.span, "write it after WHERE")
        tests: list[Atom] = []
        match expression:
            case tree.HasLabels(_, _, any_label):
                tests = self._labelled(expression)
                both = Call("or" if any_label else "and", tuple(map(Holds, tests)), expression.span)
                return both if len(tests) > 1 else Holds(tests[0])
            case tree.ExistsPattern((path,), None) | tree.PatternPredicate(path):
                ways = [path]
                if any(relationship.direction == "either" for relationship in path.relationships):
                    turned = [tuple(replace(r, direction=d) for r in path.relationships) for d in ("out", "in")]
                    ways = [replace(path, relationships=relationships) for relationships in turned]
                found = [self._exists_atom(way, negated=False) for way in ways]
                tests = [atom for atom in found if atom is not None]
                if len(tests) == len(ways):
                    return Call("or", tuple(map(Holds, tests)), expression.span) if len(tests) > 1 else Holds(tests[0])
        hint = "a single relationship may stand there, as in a.x > 1 OR (a)-[:T]->(b), or any pattern by itself, beside AND"
        later("a pattern of this kind within OR, NOT or another condition", expression.span, hint)

    def _seen(self, variable: str) -> str:
        attribute = self.names.attributes[variable]
        self.share(attribute)
        return attribute

    def _exists(
        self,
        patterns: tuple[tree.PathPattern, ...],
        where: tree.CypherExpression | None,
        expression: tree.CypherExpression,
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
