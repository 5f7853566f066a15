"""What matches are counted by: the keys of a count by groups, and the statement that lists them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from bigjoin.errors import QueryError
from bigjoin.languages.keys import Key, parse_keys
from bigjoin.query.expressions import attributes_of
from bigjoin.query.statement import QueryBlock, Statement


def group_keys(by: str | Sequence[str], statement: Statement) -> tuple[Key, ...]:
    """Return what the rows of a statement are grouped by."""
    if statement.grouping is not None:
        raise QueryError("the query has groups of its own", hint="leave 'by' out, or list attributes instead of aggregates")
    if statement.skip or statement.limit is not None:
        hint = "leave SKIP and LIMIT out, and cut the result"
        raise QueryError("groups are counted over all rows of a query, and this one keeps some", hint=hint)
    blocks = [block for each in statement.blocks for block in _with_optional(each)]
    names = [a for block in blocks for atom in block.query.atoms if not atom.negated for a in atom.attributes]
    keys = parse_keys(by, [name for name in dict.fromkeys(names) if not name.startswith("_")])
    if len(blocks) > len(statement.blocks) and any(len({*attributes_of(term)}) > 1 for _, term in keys):
        raise QueryError("a key of several attributes cannot be combined with OPTIONAL MATCH", hint="group by the attributes")
    return keys


def _with_optional(block: QueryBlock) -> Iterator[QueryBlock]:
    yield block
    for sub in block.subpatterns:
        if sub.kind == "optional":
            yield from _with_optional(sub.block)


def listing_keys(statement: Statement, keys: Sequence[Key]) -> Statement:
    """Return the statement whose rows have the keys as columns.

    Where equal rows count once, those that differ in what the statement lists besides the keys stay apart.
    """
    names, terms = tuple(name for name, _ in keys), tuple(term for _, term in keys)
    if is_distinct(statement):
        if len(statement.blocks) > 1:
            raise QueryError("distinct rows of a pattern of several lengths or directions cannot be counted by groups")
        rest = [term for term in statement.head or statement.query.head if term not in terms]
        terms, names = (*terms, *rest), (*names, *(f"_{i}" for i, _ in enumerate(rest)))
    blocks = tuple(
        replace(block, query=replace(block.query, head=terms, names=names), elements=()) for block in statement.blocks
    )
    listed = replace(statement, blocks=blocks, order=(), count_column=None, columns=names)
    return replace(listed, head=terms, names=names) if any(block.subpatterns for block in blocks) else listed


def is_distinct(statement: Statement) -> bool:
    """Tell whether equal rows of a statement count once."""
    return statement.deduplicate or any(block.query.deduplicate for block in statement.blocks)
