"""Put a statement of groups together, in whatever language it was written: rows are grouped by what is not aggregated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bigjoin.errors import QueryError
from bigjoin.query.expressions import Call, Expression, attributes_of
from bigjoin.query.grouping import Aggregate, Grouping
from bigjoin.query.query import Query, column_of
from bigjoin.query.statement import Language, QueryBlock, SortKey, Statement


def grouped_statement(
    language: Language,
    text: str,
    query: Query | QueryBlock,
    columns: Sequence[tuple[str | None, Any]],
    having: Any = None,
    order: Sequence[tuple[Any, bool]] = (),
    limit: int | None = None,
    skip: int = 0,
    keys: Sequence[Any] | None = None,
) -> Statement:
    """Return the statement of a query whose rows are grouped.

    Columns are expressions, in which an `Aggregate` may stand for a value. Rows are grouped by the columns without aggregates,
    or by `keys` if these are given. Parts of other columns, of `having` and of the order are looked up among keys, aggregates
    and the names of columns.
    """
    block = query if isinstance(query, QueryBlock) else QueryBlock(query)
    own = [term for _, term in columns if not has_aggregate(term)] if keys is None else list(keys)
    names: dict[Any, str] = {key: f"_k{i}" for i, key in enumerate(dict.fromkeys(own))}
    found: dict[Aggregate, str] = {}
    shown = [name or _name_of(term) for name, term in columns]
    by_name = {name: term for name, (_, term) in zip(shown, columns, strict=True)}
    if twice := next((name for name in shown if shown.count(name) > 1), None):
        raise QueryError(f"two columns are called {twice!r}", hint="give one of them another name with 'as'")

    def of(term: Any) -> Expression:
        """Return a term over the names of keys and aggregates."""
        if isinstance(term, Aggregate):
            if term.function == "count" and term.argument in block.query.attributes:  # which are never NULL
                term = Aggregate("count")
            return found.setdefault(term, f"_v{len(found)}")
        if term in names:
            return names[term]
        if isinstance(term, Call):
            return replace(term, arguments=tuple(map(of, term.arguments)))
        if isinstance(term, str) and term in by_name:
            return of(by_name[term])
        if not isinstance(term, str) and not attributes_of(term):
            return term  # type: ignore[no-any-return]
        hint = "list it in the head, so that rows are grouped by it, or aggregate it, as in max(...)"
        raise QueryError(f"'{term}' is neither a column of the head nor an aggregate", getattr(term, "span", None), hint)

    outputs = [(name, of(term)) for name, (_, term) in zip(shown, columns, strict=True)]
    condition = None if having is None else of(having)
    sorting, hidden = [], []
    for number, (term, descending) in enumerate(order):
        wanted = of(term)
        name = next((name for name, known in outputs if known == wanted), f"_sort{number}")
        if name.startswith("_sort"):
            hidden.append((name, wanted))
        first = not descending if block.query.dialect == "sql" else None
        sorting.append(SortKey(name, descending, nulls_first=first))
    grouping = Grouping(
        tuple((name, key) for key, name in names.items()),
        tuple((name, aggregate) for aggregate, name in found.items()),
        (*outputs, *hidden),
        condition,
    )
    head, labels = _head(grouping)
    inner = replace(block, query=replace(block.query, head=head, names=labels))
    return Statement(
        language,
        text,
        (inner,),
        head=head if inner.subpatterns else (),
        names=labels if inner.subpatterns else (),
        columns=tuple(shown),
        order=tuple(sorting),
        skip=skip,
        limit=limit,
        grouping=grouping,
    )


def _head(grouping: Grouping) -> tuple[tuple[Expression, ...], tuple[str, ...]]:
    """Return what the matches have to tell: the keys, and what is aggregated."""
    arguments = [(name, a.argument) for name, a in grouping.aggregates if a.argument is not None]
    wanted = [*grouping.keys, *arguments]
    return tuple(term for _, term in wanted), tuple(name for name, _ in wanted)


def has_aggregate(term: Any) -> bool:
    """Tell whether a column has an aggregate in it."""
    return isinstance(term, Aggregate) or (isinstance(term, Call) and any(map(has_aggregate, term.arguments)))


def _name_of(term: Any) -> str:
    if isinstance(term, Aggregate):
        inside = "" if term.argument is None else f"_{column_of(term.argument)}"
        return f"{term.function.replace(' ', '_')}{inside}"
    return column_of(term)
