"""Watched queries: which queries can be watched, their delta plans, and the columns of their signed matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from bigjoin.errors import BigjoinError, QueryError
from bigjoin.index.directory import Index
from bigjoin.index.manifest_entries import RELATION_NAME
from bigjoin.joins.bind import result_columns
from bigjoin.joins.changes import with_change
from bigjoin.languages import Flags, Text, read
from bigjoin.local.matches import schema_of
from bigjoin.planner import delta_branches, delta_plan
from bigjoin.query.delta import DeltaPlan
from bigjoin.query.query import Query
from bigjoin.query.statistics import Statistics

Watchable: TypeAlias = "Text | Mapping[str, Text]"
"""A query, or queries by name."""


@dataclass(frozen=True)
class Watched:
    """A query that is watched, for its matches or only for their number."""

    query: Query
    listing: bool = True

    def plans(self, statistics: Statistics) -> list[DeltaPlan]:
        """Return the delta queries of the query, or of each query that it is the sum of."""
        return [delta_plan(branch, statistics, listing=self.listing) for branch in delta_branches(self.query, statistics)]

    def schema(self, plans: Sequence[DeltaPlan], index: Index) -> pa.Schema:
        """Return the columns of the signed matches of all plans."""
        known: dict[str, pa.Field] = {}
        for plan in plans:
            order = plan.query.attributes
            fields = schema_of(result_columns(plan.query, order, index), len(order))
            known = {**{field.name: field for field in fields}, **known}
        return with_change(pa.schema([known[name] for name in self.query.columns if name in known]))


def watchable(queries: Watchable | None, flags: Flags, *, listing: bool) -> dict[str, Watched]:
    """Return queries by name, ready to be watched; raise QueryError for those that cannot be."""
    named = queries if isinstance(queries, Mapping) else {} if queries is None else {"": queries}
    found = {}
    for name, query in named.items():
        statement = read(query, **flags)
        if (more := statement.beyond_query) is not None:
            is_sql = statement.unread is not None
            hint = "write it as a rule" if is_sql else "leave it out, or use it on what the watch writes"
            raise QueryError(f"{more} has no incremental meaning, so it cannot be watched", hint=hint)
        asked = statement.query
        if name and name != asked.name and not RELATION_NAME.fullmatch(name):
            raise BigjoinError(f"{name!r} cannot name a query: use letters, digits and _")
        if asked.deduplicate and asked.projects:
            raise QueryError("deduplicated rows cannot be watched: how often a row is there would have to be kept")
        if taken := {"change", "epoch"} & set(asked.columns):
            raise QueryError(f"{min(taken)!r} is a column of every watch's output", hint="give the attribute another name")
        if not asked.head:
            raise QueryError(f"the head of {asked.name!r} is empty, so matches have no columns", hint="list attributes")
        found[name or asked.name] = Watched(asked, listing)
    return found
