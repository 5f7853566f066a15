"""A watched query: its delta plans, and the columns of its signed matches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from bigjoin.index.directory import Index
from bigjoin.joins.bind import outputs
from bigjoin.joins.changes import with_change
from bigjoin.planner import delta_plan
from bigjoin.query.delta import DeltaPlan
from bigjoin.query.optional import branches
from bigjoin.query.query import Query
from bigjoin.query.statistics import Statistics
from bigjoin.spark.matches import schema_of


@dataclass(frozen=True)
class Watched:
    """A query that is watched, for its matches or only for their number."""

    query: Query
    listing: bool = True

    def plans(self, statistics: Statistics) -> list[DeltaPlan]:
        """Return the delta queries of the query, or of each query that it is the sum of."""
        return [delta_plan(branch, statistics, listing=self.listing) for branch in branches(self.query)]

    def schema(self, plans: Sequence[DeltaPlan], index: Index) -> pa.Schema:
        """Return the columns of the signed matches of all plans."""
        known: dict[str, pa.Field] = {}
        for plan in plans:
            order = plan.query.attributes
            fields = schema_of(outputs(plan.query, order, index), len(order))
            known = {**{field.name: field for field in fields}, **known}
        return with_change(pa.schema([known[name] for name in self.query.columns]))
