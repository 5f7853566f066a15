"""What an epoch reports: the fate of its updates, and what they changed in the result of each query."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from bigjoin.errors import BigjoinError
from bigjoin.index.manifest_entries import CountsLine
from bigjoin.streaming.find import FoundChanges
from bigjoin.streaming.updates import Fate


@dataclass(kw_only=True)
class QueryChanges(FoundChanges):
    """What an epoch changed in one query's result."""

    count: int
    """How many matches there are after the epoch."""
    epoch: int
    schema: pa.Schema | None
    """The columns of the matches, if they were listed."""

    @property
    def table(self) -> pa.Table:
        """The signed matches: the epoch, the change (+1 or -1), and a column for each attribute of the head."""
        if self.schema is None:
            raise BigjoinError("the matches were counted, not listed")
        tables = [pq.read_table(file, partitioning=None) for file in self.files]
        rows = pa.concat_tables(tables) if tables else self.schema.empty_table()
        return rows.add_column(0, "epoch", pa.array([self.epoch] * len(rows), pa.int64()))


@dataclass
class Epoch:
    """What became of an epoch: its updates, and for each query what they changed."""

    number: int
    fate: Fate
    queries: dict[str, QueryChanges] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def _only(self) -> QueryChanges:
        if len(self.queries) != 1:
            raise BigjoinError(f"{len(self.queries)} queries are watched: look at one of them in `queries`")
        return next(iter(self.queries.values()))

    @property
    def count(self) -> int:
        """How many matches there are after the epoch, if one query is watched."""
        return self._only.count

    @property
    def created(self) -> int:
        """How many matches the epoch created, if one query is watched."""
        return self._only.created

    @property
    def destroyed(self) -> int:
        """How many matches the epoch destroyed, if one query is watched."""
        return self._only.destroyed

    @property
    def table(self) -> pa.Table:
        """The signed matches, if one query is watched."""
        return self._only.table

    @property
    def line(self) -> CountsLine:
        """The figures as a JSON object: a line of the output's counts."""
        figures = {n: {"created": c.created, "destroyed": c.destroyed, "count": c.count} for n, c in self.queries.items()}
        only: CountsLine = next(iter(figures.values())) if len(figures) == 1 else {"queries": figures}
        return {"epoch": self.number, **only, **vars(self.fate)}
