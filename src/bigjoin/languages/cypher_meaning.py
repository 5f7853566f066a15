"""What a Cypher text means: its MATCH clauses become one query, and what a query cannot say becomes subpatterns.

Relationships of one MATCH clause differ from each other, and each row of the source is a relationship (`query/spelled_out.py`).
A pattern in a condition becomes an atom where one atom can say it: a negated atom, or one that reads pairs. Otherwise it is a
pattern of its own, whose matches keep or drop rows. An OPTIONAL MATCH of one relationship becomes an optional atom in the same
way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from itertools import count
from typing import Any, NoReturn

from bigjoin.errors import QueryError, Span, did_you_mean
from bigjoin.languages import cypher_tree as tree
from bigjoin.languages.cypher import parse_cypher
from bigjoin.query.operators import EQUAL, OPERATORS
from bigjoin.query.optional import MAX_OPTIONAL_ATOMS
from bigjoin.query.query import Atom, Comparison, Pattern, Query
from bigjoin.query.statement import Block, SortKey, Statement, Subpattern
from bigjoin.query.terms import Constant, Operand, Property, Term, Value

COUNT_COLUMN = "count"
"""The column of `RETURN count(*)`, unless it has another name."""

_LATER = "not supported yet"


def parse(text: str, parameters: Mapping[str, Value]) -> Statement:
    """Return what a Cypher text asks for."""
    read = parse_cypher(text)
    _check_parameters(read, parameters)
    assert read.returns is not None
    names = _Names(text, _used_relationships(read), parameters)
    whole = _Builder(names)
    clauses = [clause for clause in read.clauses if isinstance(clause, tree.MatchClause)]
    optional_names: set[str] = set()
    for number, clause in enumerate(clauses):
        if not clause.optional:
            _refuse_names(clause, optional_names)
            whole.match(clause, number)
        elif not whole.atoms:
            raise QueryError(f"a query that begins with OPTIONAL MATCH is {_LATER}", clause.span, "begin with MATCH")
        else:
            optional_names |= whole.match_optionally(clause, number, clauses[:number] + clauses[number + 1 :])
    return _Returned(whole, names, optional_names).statement(read.returns, text)


@dataclass
class _Names:
    """The attribute of every variable, and fresh ones."""

    text: str
    used: frozenset[str]
    """Relationships that are named outside of their patterns, so that they need an id."""
    parameters: Mapping[str, Value]
    attributes: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def attribute(self, variable: str, kind: str, span: Span | None) -> str:
        """Return the attribute of a variable; refuse one that is a node here and a relationship there."""
        if self.kinds.setdefault(variable, kind) != kind:
            raise QueryError(f"{variable!r} is a {self.kinds[variable]} elsewhere, and a {kind} here", span, "use two names")
        if variable not in self.attributes:
            name = variable if variable.isidentifier() and not variable.startswith("_") else f"v{len(self.attributes)}"
            while name in self.attributes.values():
                name += "_"
            self.attributes[variable] = name
        return self.attributes[variable]

    def fresh(self) -> str:
        """Return an attribute that nobody names."""
        return f"_{next(self._numbers)}"


class _Builder:
    """Gathers the atoms, filters and subpatterns of a block."""

    def __init__(self, names: _Names, outer: _Builder | None = None) -> None:
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
    def known(self) -> set[str]:
        """The attributes that have a value in its rows, or in what its optional patterns add."""
        inside = (a for sub in self.subpatterns if sub.kind == "optional" for a in _bound(sub.block))
        return self.bound.union(inside)

    def block(self) -> Block:
        """Return what was gathered."""
        query = Query("match", (), tuple(self.atoms), tuple(self.filters), cross_product=True)
        return Block(query, tuple(self.subpatterns))

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
            _later(path.function, path.span)
        if path.variable is not None:
            _later("a path variable", path.span, "name the nodes and relationships instead")
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
            _later("a choice of labels", node.span, "ask for each label by itself")
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
            _later("a relationship of several hops", relationship.span, "write each hop: (a)-[]->()-[]->(b)")
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
        if (atom := self._optional_atom(clause, others)) is not None:
            self.atoms.append(atom)
        else:
            inner = _Builder(self.names, self)
            inner.match(clause, number)
            inner.bind_shared()
            self.subpatterns.append(Subpattern(inner.block(), tuple(inner.shared), "optional"))
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
        elsewhere = {v for other in others for v in _variables(other)}
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

    def bind_shared(self) -> None:
        """Bind the shared attributes that only conditions name: a vertex to any, a relationship as around this block."""
        for attribute in self.shared:
            if attribute in self.bound:
                continue
            around = self.outer
            while around is not None:
                row = next((a for a in around.atoms if len(a.attributes) == 3 and a.attributes[2] == attribute), None)
                if row is not None:
                    self.atoms.append(replace(row, attributes=(self.names.fresh(), self.names.fresh(), attribute)))
                    break
                around = around.outer
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
            case _:
                _unsupported(expression)

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
                _later("NOT before several conditions", part.span, "negate each of them, and ask twice")
            case _:
                _unsupported(part)

    def _has_labels(self, expression: tree.HasLabels, *, negated: bool) -> None:
        several = len(expression.labels) > 1
        if several and (negated or expression.any_label):
            _later("a choice of labels", expression.span, "ask for each label by itself")
        attribute = self._operand(expression.subject)
        if not isinstance(attribute, str):
            _unsupported(expression.subject)
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
            _later("a comparison of two constants", compare.span, "compare a property")
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
                return _constant(value, expression.span)
            case tree.Parameter(name):
                return _constant(self.names.parameters[name], expression.span, f"${name}")
            case _:
                _unsupported(expression)

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
        inner = _Builder(self.names, self)
        inner.match(tree.MatchClause(patterns, where, False, span=expression.span), -1)
        inner.bind_shared()
        kind: Any = "not exists" if negated else "exists"
        self.subpatterns.append(Subpattern(inner.block(), tuple(inner.shared), kind))

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
        if not negated and (either or len(relationship.types) > 1):
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


@dataclass
class _Returned:
    """Turns RETURN into the columns of a statement."""

    whole: _Builder
    names: _Names
    optional: set[str]

    def statement(self, returns: tree.ReturnClause, text: str) -> Statement:
        """Return the statement of a block and a RETURN clause."""
        block = self.whole.block()
        skip, limit = self._number(returns.skip, "SKIP") or 0, self._number(returns.limit, "LIMIT")
        if (counted := self._counted(returns)) is not None:
            return Statement("cypher", text, (block,), counted=counted, skip=skip, limit=limit)
        items = self._items(returns)
        keys = self._keys(returns, items)
        hidden = {name: term for name, (term, _) in keys.items() if name not in items}
        columns = {**items, **hidden}
        order = tuple(SortKey(name, descending) for name, (_, descending) in keys.items())
        natural = tuple(term.column if isinstance(term, Property) else term for term in columns.values())
        renamed = tuple(columns) if block.subpatterns or tuple(columns) != natural else ()
        head = tuple(columns.values())
        plain = returns.distinct and not block.subpatterns
        query = replace(block.query, head=head, names=renamed, deduplicate=plain)
        return Statement(
            "cypher",
            text,
            (replace(block, query=query if not block.subpatterns else replace(query, head=_own(head, block))),),
            head=head,
            names=tuple(columns),
            columns=tuple(items),
            order=order,
            skip=skip,
            limit=limit,
            deduplicate=returns.distinct and bool(block.subpatterns),
        )

    def _counted(self, returns: tree.ReturnClause) -> str | None:
        """Return the name of the column if all that is returned is the number of rows."""
        if len(returns.items) != 1 or returns.star:
            return None
        (item,) = returns.items
        match item.expression:
            case tree.CountStar():
                return item.alias or COUNT_COLUMN
            case tree.Call(name, (tree.Variable(variable),), False) if name.casefold() == "count":
                if variable in self.optional:
                    _later("count() of what may be missing", item.span, "count(*) counts rows")
                return item.alias or COUNT_COLUMN
            case _:
                return None

    def _items(self, returns: tree.ReturnClause) -> dict[str, Term]:
        """Return the terms that are returned, by the names of their columns."""
        if returns.star:
            items = {variable: self._term(tree.Variable(variable)) for variable in sorted(self.names.attributes)}
        else:
            items = {}
        for item in returns.items:
            term = self._term(item.expression)
            natural = term.column if isinstance(term, Property) else self._variable(term)
            name = item.alias or natural
            if name in items:
                raise QueryError(f"two columns are called {name!r}", item.span, "give one of them another name with AS")
            items[name] = term
        return items

    def _variable(self, attribute: str) -> str:
        return next(variable for variable, known in self.names.attributes.items() if known == attribute)

    def _keys(self, returns: tree.ReturnClause, items: Mapping[str, Term]) -> dict[str, tuple[Term, bool]]:
        """Return what rows are sorted by: columns that are returned, or further ones."""
        keys: dict[str, tuple[Term, bool]] = {}
        for number, sort in enumerate(returns.order):
            if isinstance(sort.expression, tree.Variable) and sort.expression.name in items:
                name = sort.expression.name
                keys.setdefault(name, (items[name], sort.descending))
                continue
            term = self._term(sort.expression)
            name = next((name for name, known in items.items() if known == term), f"_sort{number}")
            if name not in items and returns.distinct:
                hint = "return it as well, or leave DISTINCT out"
                raise QueryError("rows that are DISTINCT are sorted by what is returned", sort.span, hint)
            keys.setdefault(name, (term, sort.descending))
        return keys

    def _term(self, expression: tree.Expression) -> Term:
        """Return what a column holds: a variable or a property."""
        if isinstance(expression, (tree.CountStar,)) or (
            isinstance(expression, tree.Call) and expression.name.casefold() in _AGGREGATES
        ):
            _later("an aggregate beside other columns", expression.span, "return count(*) alone, or group the DataFrame")
        if isinstance(expression, (tree.Literal, tree.Parameter)):
            _later("a constant as a column", expression.span, "return variables and properties")
        operand = self.whole._operand(expression)
        assert not isinstance(operand, Constant)
        return operand

    def _number(self, given: tree.Literal | tree.Parameter | None, clause: str) -> int | None:
        if given is None:
            return None
        value = self.names.parameters[given.name] if isinstance(given, tree.Parameter) else given.value
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise QueryError(f"{clause} takes a whole number, not {value!r}", given.span, f"for example {clause} 10")
        return value


_AGGREGATES = ("count", "sum", "avg", "min", "max", "collect", "stdev", "stdevp", "percentilecont", "percentiledisc")

_UNSUPPORTED: tuple[tuple[type[tree.CypherPart], str, str], ...] = (
    (tree.Or, "OR", "ask for each side by itself, and unite the results"),
    (tree.Xor, "XOR", "ask for each side by itself, and unite the results"),
    (tree.In, "IN", "compare with one value, or filter the result"),
    (tree.IsNull, "IS NULL", "filter the result: a comparison is never true of NULL"),
    (tree.StringMatch, "a comparison of parts of text", "filter the result"),
    (tree.Arithmetic, "arithmetic", "filter the result, or add a column to the source"),
    (tree.Negative, "arithmetic", "filter the result, or add a column to the source"),
    (tree.Case, "CASE", "add a column to the result"),
    (tree.ListLiteral, "a list", "compare with one value"),
    (tree.MapLiteral, "a map", "compare properties one by one"),
    (tree.Subscript, "an index into a list", "compare properties"),
    (tree.SubList, "a part of a list", "compare properties"),
    (tree.CountStar, "an aggregate in a condition", "filter the result"),
)


def _unsupported(expression: tree.Expression) -> NoReturn:
    """Refuse an expression, by name."""
    if isinstance(expression, tree.Call):
        what = (
            "an aggregate in a condition" if expression.name.casefold() in _AGGREGATES else f"the function {expression.name}()"
        )
        _later(what, expression.span, "compare variables, properties and constants")
    for kind, name, hint in _UNSUPPORTED:
        if isinstance(expression, kind):
            _later(name, expression.span, hint)
    if isinstance(expression, tree.PropertyAccess):
        _later("a property of a property", expression.span, "properties are flat: a.name")
    hint = "compare it with something, as in a.age > 30"
    raise QueryError("this is no condition", expression.span, hint)


def _later(what: str, span: Span | None, hint: str | None = None) -> NoReturn:
    raise QueryError(f"{what} is {_LATER}", span, hint)


def _constant(value: Any, span: Span | None, name: str = "a value") -> Constant:
    if value is None:
        raise QueryError("a comparison with null is never true", span, "leave the condition out, or filter the result")
    if isinstance(value, (date, datetime)):
        return Constant(value.isoformat(sep=" ") if isinstance(value, datetime) else value.isoformat())
    if hasattr(value, "item") and not isinstance(value, (bool, int, float, str)):
        value = value.item()  # a NumPy scalar
    if not isinstance(value, (bool, int, float, str)):
        raise QueryError(f"{name} is a {type(value).__name__}", span, "give a number, text, true or false, a date or a time")
    return Constant(value)


def _is_plain(path: tree.PathPattern) -> bool:
    """Tell whether a pattern is one relationship without anything that would need a query of its own."""
    if path.function is not None or path.variable is not None or len(path.relationships) != 1:
        return False
    (relationship,) = path.relationships
    if relationship.hops is not None or relationship.properties:
        return False
    return not any(node.labels or node.properties for node in path.nodes)


def _bound(block: Block) -> Iterator[str]:
    for atom in block.query.atoms:
        if not atom.negated:
            yield from atom.attributes
    for sub in block.subpatterns:
        if sub.kind == "optional":
            yield from _bound(sub.block)


def _own(head: tuple[Term, ...], block: Block) -> tuple[Term, ...]:
    """Return the terms that the query of a block binds itself."""
    own = {a for atom in block.query.atoms if not atom.negated for a in atom.attributes}
    return tuple(term for term in head if (term.attribute if isinstance(term, Property) else term) in own)


def _walk(part: tree.CypherPart) -> Iterator[tree.CypherPart]:
    yield part
    for child in part.children:
        yield from _walk(child)


def _variables(part: tree.CypherPart) -> set[str]:
    """Return the variables that a part of a query names."""
    found = set()
    for each in _walk(part):
        if isinstance(each, tree.Variable):
            found.add(each.name)
        elif isinstance(each, (tree.NodePattern, tree.RelationshipPattern, tree.PathPattern)) and each.variable is not None:
            found.add(each.variable)
    return found


def _used_relationships(query: tree.CypherQuery) -> frozenset[str]:
    """Return the relationships that expressions name, or several patterns: they need an id."""
    patterns = [part.variable for part in _walk(query) if isinstance(part, tree.RelationshipPattern) and part.variable]
    named = {part.name for part in _walk(query) if isinstance(part, tree.Variable)}
    star = set(patterns) if query.returns is not None and query.returns.star else set()
    return frozenset(v for v in patterns if v in named or v in star or patterns.count(v) > 1)


def _check_parameters(query: tree.CypherQuery, given: Mapping[str, Value]) -> None:
    """Refuse parameters that are not given, and given ones that the text does not have."""
    used = {part.name: part for part in _walk(query) if isinstance(part, tree.Parameter)}
    for name, part in used.items():
        if name not in given:
            hint = did_you_mean(name, given) or f"give parameters={{{name!r}: ...}} (--param {name}=VALUE)"
            raise QueryError(f"the parameter ${name} has no value", part.span, hint)
    if unused := sorted(given.keys() - used.keys()):
        hint = did_you_mean(unused[0], used) or "leave it out"
        raise QueryError(f"the query has no parameter ${unused[0]}", hint=hint)


def _refuse_names(clause: tree.MatchClause, optional: set[str]) -> None:
    if late := sorted(_variables(clause) & optional):
        hint = "move this MATCH before the OPTIONAL MATCH"
        _later(f"a MATCH that names {late[0]!r}, which may be missing,", clause.span, hint)
