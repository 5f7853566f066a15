"""Ask several questions as one: the queries of a sum, if their plans begin alike and every task has the whole index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bigjoin.compiled.loops import Counting, TreeListing
from bigjoin.joins.bind import result_columns
from bigjoin.local.strategy import Ask
from bigjoin.planner import plan_tree
from bigjoin.query.nest import PlanTree


def asked_as_tree(asks: Sequence[Ask], *, counting: bool) -> Ask | None:
    """Return the question that stands for all of them, or None if each is answered faster, or can only be, by itself."""
    first = asks[0]
    if len(asks) < 2 or first.factorized or any(ask.meaning.given != first.meaning.given for ask in asks):
        return None
    tree = plan_tree([ask.meaning for ask in asks], counting=counting)
    if tree is None or not (counting or _has_same_columns(tree, first)):
        return None
    loops = Counting(tree.nest, tree.scope, first.index) if counting else TreeListing(tree, first.index)
    return None if loops.is_too_large else replace(first, tree=tree)


def _has_same_columns(tree: PlanTree, ask: Ask) -> bool:
    """Tell whether the rows of all queries can stand below each other."""
    columns = (result_columns(query, order, ask.index) for query, order in zip(tree.queries, tree.orders, strict=True))
    return len({tuple((column.name, column.type) for column in each) for each in columns}) == 1
