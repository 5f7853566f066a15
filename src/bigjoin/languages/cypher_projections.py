"""WITH and RETURN: columns of rows, groups of rows, and what they are sorted by.

A projection is over the matches of the patterns, whose columns are expressions of attributes, or over the rows of another one,
whose columns have names. A node or a relationship that a WITH passes on is the column of its id; properties of it that later
clauses ask for are carried along as further columns, which do not make more groups or distinct rows, since the id decides them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NoReturn, TypeAlias

from bigjoin.errors import QueryError, Span
from bigjoin.languages import cypher_tree as tree
from bigjoin.languages.cypher_expressions import ExpressionReader
from bigjoin.languages.cypher_lists import ListReader
from bigjoin.languages.cypher_paths import PathList
from bigjoin.languages.cypher_scope import LIST, PATH, later
from bigjoin.languages.groups import has_aggregate
from bigjoin.query.expressions import Call, Expression
from bigjoin.query.grouping import Aggregate, Grouping
from bigjoin.query.operators import EQUAL
from bigjoin.query.statement import RowStage, SortKey
from bigjoin.query.terms import Constant

Projected: TypeAlias = Any
"""An expression in which aggregates may stand for values."""


class Projection:
    """A WITH or a RETURN, over rows that `rows` reads expressions of."""

    def __init__(self, clause: tree.ReturnClause, rows: ExpressionReader, variables: list[str], *, inner: bool) -> None:
        self.clause, self.rows = clause, rows
        self.inner = inner
        """Whether it is a WITH: then its columns have names that nobody sees."""
        self.elements: dict[str, str] = {}
        """The columns that are nodes or relationships: what each is called before."""
        self._ambiguous: Span | None = None
        """Where something is that its ids alone do not tell apart."""
        self.items: dict[str, Projected] = {}
        """What is passed on, by name: expressions, which may hold aggregates."""
        for variable in sorted(variables) if clause.star else ():
            self._add(variable, tree.Variable(variable), None)
        for item in clause.items:
            self._add(item.alias or natural_name(item), item.expression, item.span)
        self.grouped = any(map(has_aggregate, self.items.values()))
        self.keys: dict[Expression, str] = {}
        self.aggregates: dict[Aggregate, str] = {}
        self.columns: dict[str, Expression] = {}
        """What its columns are, by their names: expressions of what `inputs` has."""
        if self.grouped:
            for term in self.items.values():
                if not has_aggregate(term):
                    self._key(term)
        self.labels = {name: f"_c{number}" if inner else name for number, name in enumerate(self.items)}
        """The column of each name."""
        for name, term in self.items.items():
            self.columns[self.labels[name]] = self._output(term, None)
        self._keep_apart()
        self.order = tuple(self._sort_keys())

    # Columns

    def _add(self, name: str, expression: tree.CypherExpression, span: Span | None) -> None:
        taken = [known for known in self.items if known == name or (not self.inner and known.casefold() == name.casefold())]
        if taken:
            hint = "give one of them another name with AS; columns do not tell upper case from lower case"
            raise QueryError(f"two columns are called {name!r}", span, hint)
        if (element := self.rows.element(expression)) is not None:
            self.elements[name] = element
            if self.rows.kind(element) == PATH and not self.inner:
                hint = f"return nodes({element}), relationships({element}) or length({element})"
                later("a path as a column", span or self.clause.span, hint)
        if isinstance(self.rows, ListReader) and self.rows.is_ambiguous(expression):
            self._ambiguous = span or self.clause.span
        self.items[name] = self._read(expression, self.rows)

    @staticmethod
    def _read(expression: tree.CypherExpression, reader: ExpressionReader) -> Any:
        reader.takes_aggregates = True
        try:
            return reader.read(expression)
        finally:
            reader.takes_aggregates = False

    def _key(self, term: Expression) -> str:
        return self.keys.setdefault(term, f"_k{len(self.keys)}")

    def _output(self, term: Any, span: Span | None) -> Expression:
        """Return a column over what `inputs` has: of groups, keys and aggregates."""
        if not self.grouped:
            return term  # type: ignore[no-any-return]
        if isinstance(term, Aggregate):
            return self.aggregates.setdefault(term, f"_v{len(self.aggregates)}")
        if term in self.keys:
            return self.keys[term]
        if isinstance(term, Constant):
            return term
        if self.rows.owner(term) in self.keys:
            return self._key(term)
        if isinstance(term, Call):
            return replace(term, arguments=tuple(self._output(argument, span or term.span) for argument in term.arguments))
        hint = "return it as well, so that rows are grouped by it, or aggregate it, as in max(...)"
        message = f"'{term}' is neither returned by itself nor aggregated"
        raise QueryError(message, getattr(term, "span", None) or span or self.clause.span, hint)

    def _keep_apart(self) -> None:
        """Group and compare relationships of several types by their type as well: the rows of each have their own numbers."""
        if not (self.grouped or self.clause.distinct):
            return
        if self._ambiguous is not None:
            hint = "give the relationships one type, and return nodes(p) or relationships(p) of a path"
            later("a group or DISTINCT of a path, or of relationships of several types", self._ambiguous, hint)
        for element in dict.fromkeys(self.elements.values()):
            if self.rows.kind(element) == "relationship":
                kind = self.rows.relation_of(element)
                if not isinstance(kind, Constant):
                    self.carried(kind)

    def carried(self, term: Expression) -> str:
        """Return the column of a term that the columns decide anyway, as a property of a node that is passed on."""
        wanted = self._key(term) if self.grouped else term
        known = next((name for name, column in self.columns.items() if column == wanted), None)
        name = known or f"_c{len(self.columns)}"
        self.columns[name] = wanted
        return name

    # What rows are sorted by

    def _sort_keys(self) -> Iterator[SortKey]:
        seen = set()
        for number, sort in enumerate(self.clause.order):
            term = self._read(sort.expression, _SortReader(self))
            if has_aggregate(term) and not self.grouped:
                hint = "return an aggregate as well, or write WITH before"
                raise QueryError("rows that are not grouped have no aggregate to be sorted by", sort.span, hint)
            if self.clause.distinct and not self.grouped and not self._is_decided(term):
                hint = "return it as well, or leave DISTINCT out"
                raise QueryError("rows that are DISTINCT are sorted by what is returned", sort.span, hint)
            wanted = self._output(term, sort.span)
            name = next((name for name, column in self.columns.items() if column == wanted), f"_sort{number}")
            self.columns[name] = wanted
            if name not in seen:
                seen.add(name)
                yield SortKey(name, sort.descending)

    def _is_decided(self, term: Any) -> bool:
        """Tell whether the columns decide the value of a term."""
        if isinstance(term, Constant) or term in self.items.values():
            return True
        if (owner := self.rows.owner(term)) is not None:
            return owner in self.items.values()
        return isinstance(term, Call) and all(map(self._is_decided, term.arguments))

    # What becomes of it

    @property
    def inputs(self) -> tuple[tuple[str, Expression], ...]:
        """What it needs of each row, by name: its columns, or its keys and what it aggregates."""
        if not self.grouped:
            return tuple(self.columns.items())
        arguments = (
            (name, aggregate.argument) for aggregate, name in self.aggregates.items() if aggregate.argument is not None
        )
        return (*((name, key) for key, name in self.keys.items()), *arguments)

    @property
    def grouping(self) -> Grouping | None:
        """How rows are grouped, if they are."""
        if not self.grouped:
            return None
        keys = tuple((name, key) for key, name in self.keys.items())
        aggregates = tuple((name, aggregate) for aggregate, name in self.aggregates.items())
        return Grouping(keys, aggregates, tuple(self.columns.items()))

    @property
    def deduplicates(self) -> bool:
        return self.clause.distinct and not self.grouped

    @property
    def passes_on_alone(self) -> bool:
        """Whether each row stays one row, in any order."""
        clause = self.clause
        return not (self.grouped or clause.distinct or clause.order or clause.skip or clause.limit)

    def stage(self, skip: int, limit: int | None, where: Expression | None, *, computed: bool) -> RowStage:
        """Return what becomes of rows, unless its inputs are computed already."""
        columns = self.inputs if computed else ()
        return RowStage(columns, self.grouping, self.deduplicates, self.order, skip, limit, where)


def natural_name(item: tree.ReturnItem) -> str:
    """Return what a column without an alias is called: a plain word that Spark does not have to quote."""
    match item.expression:
        case tree.Variable(name):
            return name
        case tree.CountStar():
            return "count"
    words = re.sub(r"\bdistinct\b", "distinct", item.text, flags=re.IGNORECASE)
    return re.sub(r"\W+", "_", words).strip("_") or "column"


class _SortReader(ListReader):
    """Reads what ORDER BY says: names of columns come before those of variables."""

    def __init__(self, projection: Projection) -> None:
        self.of, self.rows, self.parameters = projection, projection.rows, projection.rows.parameters

    def path_list(self, name: str, kind: str, span: Span | None) -> PathList:
        assert isinstance(self.rows, ListReader)
        return self.rows.path_list(self._known(name) or name, kind, span)

    def variable(self, name: str, span: Span | None) -> Expression:
        return self.of.items[name] if name in self.of.items else self.rows.variable(name, span)

    def _known(self, name: str) -> str | None:
        """Return the variable that a name is, None if it is a value."""
        return self.of.elements.get(name) if name in self.of.items else name

    def property_of(self, name: str, key: str, span: Span | None) -> Expression:
        return self.rows.property_of(self._known(name) or name, key, span)

    def kind(self, name: str) -> str | None:
        known = self._known(name)
        return None if known is None else self.rows.kind(known)

    def type_of(self, name: str, span: Span | None) -> Expression:
        return self.rows.type_of(self._known(name) or name, span)

    def relation_of(self, name: str) -> Expression:
        return self.rows.relation_of(self._known(name) or name)

    def pattern(self, expression: tree.CypherExpression) -> Expression:
        return self.rows.pattern(expression)


class ColumnReader(ListReader):
    """Reads expressions of the rows that a WITH gives: its columns, and properties of what it passes on."""

    def __init__(self, projection: Projection) -> None:
        self.of, self.parameters = projection, projection.rows.parameters
        self._owners: dict[Expression, str] = {}

    def path_list(self, name: str, kind: str, span: Span | None) -> PathList:
        del kind
        self._refuse_list(name, PATH, span)

    def value(self, expression: tree.CypherExpression) -> Any:
        of = self.of.elements.get(expression.name) if isinstance(expression, tree.Variable) else None
        if of is not None and self.of.rows.kind(of) == LIST:
            self._refuse_list(of, "list", expression.span)
        return super().value(expression)

    @staticmethod
    def _refuse_list(name: str, kind: str, span: Span | None) -> NoReturn:
        size = "length" if kind == PATH else "size"
        hint = f"say it before, and pass it on as a value, as in WITH {size}({name}) AS hops, count(*) AS n"
        later(f"the {kind} {name!r} after a WITH that groups, sorts, cuts or removes duplicates", span, hint)

    @property
    def variables(self) -> list[str]:
        return list(self.of.items)

    def variable(self, name: str, span: Span | None) -> Expression:
        del span
        return self.of.labels[name]

    def property_of(self, name: str, key: str, span: Span | None) -> Expression:
        return self._carried(self.of.rows.property_of(self.of.elements[name], key, span), name)

    def _carried(self, term: Expression, name: str) -> str:
        column = self.of.carried(term)
        self._owners[column] = self.of.labels[name]
        return column

    def owner(self, term: Expression) -> Expression | None:
        return self._owners.get(term)

    def kind(self, name: str) -> str | None:
        kind = self.of.rows.kind(self.of.elements[name]) if name in self.of.elements else None
        return None if kind == LIST else kind  # which is a value from here on

    def type_of(self, name: str, span: Span | None) -> Expression:
        found = self.of.rows.type_of(self.of.elements[name], span)
        return found if isinstance(found, Constant) else self._carried(found, name)

    def relation_of(self, name: str) -> Expression:
        found = self.of.rows.relation_of(self.of.elements[name])
        return found if isinstance(found, Constant) else self._carried(found, name)

    def compared_elements(self, comparison: Call, left: str, right: str) -> Call:
        """Return a comparison of ids, and of the relations of relationships that may be of several."""
        if self.kind(left) != "relationship":
            return comparison
        relations = self.relation_of(left), self.relation_of(right)
        if relations[0] == relations[1]:
            return comparison
        both = (comparison, Call(comparison.function, relations, comparison.span))
        return Call("and" if comparison.function == EQUAL.text else "or", both, comparison.span)

    def pattern(self, expression: tree.CypherExpression) -> Expression:
        hint = "put the pattern before the WITH, or pass all variables on without aggregates, DISTINCT, ORDER BY and LIMIT"
        later("a pattern or a label after WITH", expression.span, hint)
