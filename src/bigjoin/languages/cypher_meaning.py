"""What a Cypher text means: its MATCH clauses become one query, and what a query cannot say becomes subpatterns and stages.

Relationships of one MATCH clause differ from each other, and each row of the source is a relationship (`query/spelled_out.py`).
A pattern in a condition becomes an atom where one atom can say it: a negated atom, or one that reads pairs. Otherwise it is a
pattern of its own, whose matches keep or drop rows. An OPTIONAL MATCH of one relationship becomes an optional atom in the same
way.

A WITH that only passes variables and values on changes what names mean, and nothing else. One that groups, sorts, cuts or
removes duplicates is a stage of the rows that the patterns find, and only WITH and RETURN may follow it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from bigjoin.errors import QueryError
from bigjoin.languages import cypher_tree as tree
from bigjoin.languages.cypher import parse_cypher
from bigjoin.languages.cypher_expressions import ExpressionReader
from bigjoin.languages.cypher_functions import AGGREGATES
from bigjoin.languages.cypher_patterns import BlockBuilder
from bigjoin.languages.cypher_projections import ColumnReader, Projection, natural_name
from bigjoin.languages.cypher_scope import (
    LATER,
    Names,
    check_parameters,
    later,
    used_relationships,
    variables_of,
)
from bigjoin.query.expressions import Call, Expression, attributes_of
from bigjoin.query.query import column_of
from bigjoin.query.statement import RowStage, Statement
from bigjoin.query.terms import ParameterValue, Property

COUNT_COLUMN = "count"
"""The column of `RETURN count(*)`, unless it has another name."""


def parse(text: str, parameters: Mapping[str, ParameterValue]) -> Statement:
    """Return what a Cypher text asks for."""
    read = parse_cypher(text)
    check_parameters(read, parameters)
    assert read.returns is not None
    names = Names(text, used_relationships(read), parameters)
    meaning = _Meaning(text, names, BlockBuilder(names))
    for number, clause in enumerate(read.clauses):
        if isinstance(clause, tree.WithClause):
            meaning.pass_on(clause)
        else:
            meaning.match(clause, number, read.clauses)
    return meaning.returned(read.returns)


@dataclass
class _Meaning:
    """A text in the making: the matches of its patterns, and the stages that their rows go through."""

    text: str
    names: Names
    whole: BlockBuilder
    stages: list[tuple[Projection, Expression | None]] = field(default_factory=list)
    """WITH clauses that change rows, each with its condition."""

    @property
    def rows(self) -> ExpressionReader:
        """What reads expressions of the rows so far."""
        return ColumnReader(self.stages[-1][0]) if self.stages else self.whole

    @property
    def variables(self) -> list[str]:
        return list(self.stages[-1][0].items) if self.stages else [*self.names.attributes, *self.names.values]

    # Clauses

    def match(self, clause: tree.MatchClause, number: int, clauses: tuple[tree.MatchClause | tree.WithClause, ...]) -> None:
        """Add the patterns of a clause."""
        if self.stages:
            hint = "put all patterns before the WITH, or ask twice"
            later("MATCH after a WITH that groups, sorts, cuts, filters or removes duplicates", clause.span, hint)
        if clause.optional:
            if not self.whole.atoms:
                raise QueryError(f"a query that begins with OPTIONAL MATCH is {LATER}", clause.span, "begin with MATCH")
            last = max(i for i, other in enumerate(clauses) if isinstance(other, tree.MatchClause))
            self.whole.match_optionally(clause, number, [other for i, other in enumerate(clauses) if i <= last and i != number])
            return
        missing = {variable for variable, attribute in self.names.attributes.items() if attribute in self.names.optional}
        missing |= {name for name, value in self.names.values.items() if self.names.may_be_missing(value)}
        if late := sorted(variables_of(clause) & missing):
            hint = "move this MATCH before the OPTIONAL MATCH"
            later(f"a MATCH that names {late[0]!r}, which may be missing,", clause.span, hint)
        self.whole.match(clause, number)

    def pass_on(self, clause: tree.WithClause) -> None:
        """Add a WITH: what names mean from here on, or one more stage."""
        projection = Projection(clause.projection, self.rows, self.variables, inner=True)
        if not self.stages and projection.passes_on_alone and not self._is_about_missing(clause.where, projection):
            values = {name: term for name, term in projection.items.items() if name not in projection.elements}
            self.names.pass_on(projection.elements, values)
            if clause.where is not None and not self.whole.atoms:
                later("WHERE before the first MATCH", clause.where.span, "write it after the MATCH")
            if clause.where is not None:
                self.whole.where(clause.where)
            return
        if not self.whole.atoms:
            later("a WITH of this kind before the first MATCH", clause.span, "begin with MATCH")
        where = None if clause.where is None else ColumnReader(projection).value(clause.where)
        self.stages.append((projection, where))

    def _is_about_missing(self, where: tree.CypherExpression | None, projection: Projection) -> bool:
        """Tell whether a condition is about something that only an OPTIONAL MATCH binds."""
        named = [] if where is None else [projection.items.get(name) for name in variables_of(where)]
        return any(term is not None and self.names.may_be_missing(term) for term in named)

    # RETURN

    def returned(self, returns: tree.ReturnClause) -> Statement:
        """Return the statement of all clauses and RETURN."""
        skip, limit = self._number(returns.skip, "SKIP") or 0, self._number(returns.limit, "LIMIT")
        if (counted := self._counted(returns)) is not None:
            return replace(self._rows(None), count_column=counted, skip=skip, limit=limit)
        last = Projection(returns, self.rows, self.variables, inner=False)
        found = self._rows(last.inputs)
        (block,) = found.blocks
        in_query = last.deduplicates and not (found.before or block.subpatterns)
        block = replace(block, query=replace(block.query, deduplicate=in_query))
        return replace(
            found,
            blocks=(block,),
            columns=tuple(last.items),
            grouping=last.grouping,
            deduplicate=last.deduplicates and not in_query,
            order=last.order,
            skip=skip,
            limit=limit,
        )

    def _counted(self, returns: tree.ReturnClause) -> str | None:
        """Return the name of the column if all that is returned is a number: of rows, or of values, which then are the rows."""
        if len(returns.items) != 1 or returns.star:
            return None
        (item,) = returns.items
        match item.expression:
            case tree.CountStar():
                return item.alias or COUNT_COLUMN
            case tree.FunctionCall(name, (argument,), distinct) if name.casefold() == "count" and not _aggregates(argument):
                variable = self.rows.element(argument)
                is_there = variable is not None and not self.stages and not self.names.may_be_missing(self.rows.read(argument))
                if distinct or not is_there:
                    there = tree.IsNull(tree.Variable(_COUNTED), negated=True, span=item.span)
                    values = tree.ReturnClause((tree.ReturnItem(argument, _COUNTED, span=item.span),), distinct=distinct)
                    self.pass_on(tree.WithClause(values, there, span=item.span))
                return item.alias or (COUNT_COLUMN if variable and not distinct else natural_name(item))
        return None

    def _rows(self, inputs: tuple[tuple[str, Expression], ...] | None) -> Statement:
        """Return what finds rows with some columns; None if only their number is wanted."""
        if not self.stages:
            return self._found(inputs or ())
        found = self._found(self.stages[0][0].inputs)
        stages = [*found.before]
        for number, (projection, where) in enumerate(self.stages):
            skip = self._number(projection.clause.skip, "SKIP") or 0
            limit = self._number(projection.clause.limit, "LIMIT")
            stages.append(projection.stage(skip, limit, where, computed=number > 0))
        return replace(found, before=(*stages, *([] if inputs is None else [RowStage(inputs)])))

    def _found(self, inputs: tuple[tuple[str, Expression], ...]) -> Statement:
        """Return what finds columns of matches; those that are about something that may be missing are computed afterwards."""
        block = self.whole.block()
        firm = {a for atom in block.query.positive for a in atom.attributes}
        columns: dict[str, Expression] = {}
        computed: dict[str, Expression] = {}
        terms: dict[Expression, str] = {}
        for name, expression in inputs:
            if _is_term(expression) or firm.issuperset(attributes_of(expression)):
                columns[name], computed[name] = expression, name
                continue
            for term in _terms(expression):
                columns[terms.setdefault(term, f"_t{len(terms)}")] = term
            computed[name] = _over(terms, expression)
        head, names = tuple(columns.values()), tuple(columns)
        is_natural = not block.subpatterns and names == tuple(map(column_of, head))
        own = [(name, term) for name, term in columns.items() if block.query.bound.issuperset(attributes_of(term))]
        mine = columns if not block.subpatterns else dict(own)
        query = replace(block.query, head=tuple(mine.values()), names=() if is_natural else names)
        stages = (RowStage(tuple(computed.items())),) if terms else ()
        return Statement("cypher", self.text, (replace(block, query=query),), head=head, names=names, before=stages)

    def _number(self, given: tree.Literal | tree.Parameter | None, clause: str) -> int | None:
        if given is None:
            return None
        value = self.names.parameters[given.name] if isinstance(given, tree.Parameter) else given.value
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise QueryError(f"{clause} takes a whole number, not {value!r}", given.span, f"for example {clause} 10")
        return value


_COUNTED = "counted"


def _aggregates(part: tree.CypherPart) -> bool:
    """Tell whether there is an aggregate in an expression."""
    if isinstance(part, tree.CountStar) or (isinstance(part, tree.FunctionCall) and part.name.casefold() in AGGREGATES):
        return True
    return any(map(_aggregates, part.children))


def _is_term(expression: Expression) -> bool:
    """Tell whether an expression is looked up, and not computed; what is about a path is known where the path is."""
    if isinstance(expression, Call):
        is_size = expression.function == "length" and isinstance(expression.arguments[0], str)
        return is_size or expression.function in ("type", "relation") or expression.entry.of_path
    return isinstance(expression, str | Property)


def _terms(expression: Expression) -> Iterator[Expression]:
    """Give what an expression is computed from."""
    if _is_term(expression):
        yield expression
    elif isinstance(expression, Call):
        for argument in expression.arguments:
            yield from _terms(argument)


def _over(names: Mapping[Expression, str], expression: Expression) -> Expression:
    """Return an expression of columns, given the column of each term."""
    if _is_term(expression):
        return names[expression]
    if isinstance(expression, Call):
        return replace(expression, arguments=tuple(_over(names, argument) for argument in expression.arguments))
    return expression
