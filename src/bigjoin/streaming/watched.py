"""Watched queries: which queries can be watched, their delta plans, and the columns of their signed matches."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
from bigjoin.planner import delta_branches, delta_plan, is_replaced
from bigjoin.query.delta import DeltaPlan
from bigjoin.query.query import Query
from bigjoin.query.statistics import Statistics
from bigjoin.streaming.grouped_changes import GroupChanges
from bigjoin.streaming.grouped_query import GroupedQuery, grouped_query
from bigjoin.streaming.output import QUARANTINE, STAGING

Watchable: TypeAlias = "Text | Mapping[str, Text]"
"""A query, or queries by name."""


@dataclass(frozen=True)
class Watched:
    """A query that is watched, for its matches or only for their number."""

    query: Query
    listing: bool = True
    groups: GroupedQuery | None = None
    """How its matches are grouped, if they are."""
    is_named: bool = False
    """Whether somebody has given it its name."""

    @property
    def text(self) -> str:
        """What is watched, as it is called in an index and in the folder of its output."""
        return str(self.query) if self.groups is None else self.groups.text

    def plans(self, statistics: Statistics, *, replaced: bool = False) -> list[DeltaPlan]:
        """Return the delta queries of the query, or of each query that it is the sum of.

        `replaced` is about epochs that replace properties of vertices.
        """
        listing = self.listing or self.groups is not None
        branches = delta_branches(self._listed(statistics), statistics)
        return [delta_plan(branch, statistics, listing=listing, replaced=replaced) for branch in branches]

    def reads(self, properties: Collection[str], statistics: Statistics) -> bool:
        """Tell whether the query reads any of some properties of vertices."""
        listing = self.listing or self.groups is not None
        branches = delta_branches(self._listed(statistics), statistics)
        return any(is_replaced(branch, properties, statistics, listing=listing) for branch in branches)

    def _listed(self, statistics: Statistics) -> Query:
        """Return the query whose matches are found: with what its groups are made of, if it has some."""
        return self.query if self.groups is None else self.groups.listed(statistics)[0]

    def changes(self, plans: Sequence[DeltaPlan], index: Index) -> GroupChanges | None:
        """Return what follows the groups of the query, which are not known yet; None if it has none."""
        if self.groups is None:
            return None
        matches = self.schema(plans, index).remove(0)
        return GroupChanges(self.groups, matches, self.groups.listed(index.statistics)[1])

    def schema(self, plans: Sequence[DeltaPlan], index: Index) -> pa.Schema:
        """Return the columns of the signed matches of all plans."""
        known: dict[str, pa.Field] = {}
        for plan in plans:
            order = plan.query.attributes
            fields = schema_of(result_columns(plan.query, order, index), len(order))
            known = {**{field.name: field for field in fields}, **known}
        return with_change(pa.schema([known[name] for name in self.query.columns if name in known]))


def watchable(
    queries: Watchable | None,
    flags: Flags,
    *,
    listing: bool,
    by: str | Sequence[str] | None = None,
    unnamed: Collection[str] = (),
) -> dict[str, Watched]:
    """Return queries by name, ready to be watched; raise QueryError for those that cannot be.

    With `by`, the matches of each are counted by these keys. Whoever gives a mapping has named its queries, except for those
    that are `unnamed`, which go by their own names.
    """
    named = queries if isinstance(queries, Mapping) else {} if queries is None else {"": queries}
    found = {}
    for name, query in named.items():
        statement = read(query, **flags)
        groups = grouped_query(statement, by)
        asked = statement.query if groups is None else groups.query
        if name and name != asked.name and not RELATION_NAME.fullmatch(name):
            raise BigjoinError(f"{name!r} cannot name a query: use letters, digits and _")
        if taken := {"change", "epoch"} & set(asked.columns if groups is None else groups.columns):
            raise QueryError(f"{min(taken)!r} is a column of every watch's output", hint="give the attribute another name")
        if not statement.query.head and groups is None:
            raise QueryError(f"the head of {asked.name!r} is empty, so matches have no columns", hint="list attributes")
        found[name or asked.name] = Watched(asked, listing, groups, is_named=bool(name) and name not in unnamed)
    if len(found) > 1 and (taken := found.keys() & {QUARANTINE, STAGING}):
        raise BigjoinError(f"{min(taken)!r} is a folder of the output: give the query another name")
    return found
