"""What a Cypher text means: its MATCH clauses become one query, and what a query cannot say becomes subpatterns.

Relationships of one MATCH clause differ from each other, and each row of the source is a relationship (`query/spelled_out.py`).
A pattern in a condition becomes an atom where one atom can say it: a negated atom, or one that reads pairs. Otherwise it is a
pattern of its own, whose matches keep or drop rows. An OPTIONAL MATCH of one relationship becomes an optional atom in the same
way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bigjoin.errors import QueryError
from bigjoin.languages import cypher_tree as tree
from bigjoin.languages.cypher import parse_cypher
from bigjoin.languages.cypher_patterns import BlockBuilder
from bigjoin.languages.cypher_scope import AGGREGATES, LATER, Names, check_parameters, later, used_relationships, variables_of
from bigjoin.query.statement import QueryBlock, SortKey, Statement
from bigjoin.query.terms import Constant, Property, Term, Value, attribute_of

COUNT_COLUMN = "count"
"""The column of `RETURN count(*)`, unless it has another name."""


def parse(text: str, parameters: Mapping[str, Value]) -> Statement:
    """Return what a Cypher text asks for."""
    read = parse_cypher(text)
    check_parameters(read, parameters)
    assert read.returns is not None
    names = Names(text, used_relationships(read), parameters)
    whole = BlockBuilder(names)
    clauses = list(read.clauses)
    optional_names: set[str] = set()
    for number, clause in enumerate(clauses):
        if not clause.optional:
            _refuse_names(clause, optional_names)
            whole.match(clause, number)
        elif not whole.atoms:
            raise QueryError(f"a query that begins with OPTIONAL MATCH is {LATER}", clause.span, "begin with MATCH")
        else:
            optional_names |= whole.match_optionally(clause, number, clauses[:number] + clauses[number + 1 :])
    return _Returned(whole, names, optional_names).statement(read.returns, text)


@dataclass
class _Returned:
    """Turns RETURN into the columns of a statement."""

    whole: BlockBuilder
    names: Names
    optional: set[str]

    def statement(self, returns: tree.ReturnClause, text: str) -> Statement:
        """Return the statement of a block and a RETURN clause."""
        block = self.whole.block()
        skip, limit = self._number(returns.skip, "SKIP") or 0, self._number(returns.limit, "LIMIT")
        if (counted := self._counted(returns)) is not None:
            return Statement("cypher", text, (block,), count_column=counted, skip=skip, limit=limit)
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
                    later("count() of what may be missing", item.span, "count(*) counts rows")
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
            if name.casefold() in map(str.casefold, items):
                hint = "give one of them another name with AS; columns do not tell upper case from lower case"
                raise QueryError(f"two columns are called {name!r}", item.span, hint)
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
        is_aggregate = isinstance(expression, tree.Call) and expression.name.casefold() in AGGREGATES
        if is_aggregate or isinstance(expression, tree.CountStar):
            later("an aggregate other than count(*) alone", expression.span, "group and count the DataFrame")
        if isinstance(expression, (tree.Literal, tree.Parameter)):
            later("a constant as a column", expression.span, "return variables and properties")
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


def _own(head: tuple[Term, ...], block: QueryBlock) -> tuple[Term, ...]:
    """Return the terms that the query of a block binds itself."""
    own = block.query.bound
    return tuple(term for term in head if attribute_of(term) in own)


def _refuse_names(clause: tree.MatchClause, optional: set[str]) -> None:
    if late := sorted(variables_of(clause) & optional):
        hint = "move this MATCH before the OPTIONAL MATCH"
        later(f"a MATCH that names {late[0]!r}, which may be missing,", clause.span, hint)
