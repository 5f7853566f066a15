"""What an epoch reports: the fate of its updates, and what they changed in the result of each query."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from bigjoin.errors import BigjoinError
from bigjoin.html_tables import table, titled
from bigjoin.index.manifest_entries import CountsLine
from bigjoin.storage.arrays import read_parquet
from bigjoin.streaming.find import FoundChanges
from bigjoin.streaming.updates import Fate

_OTHER_FATES = {
    "present": "present already",
    "absent": "absent already",
    "cancelled": "cancelled",
    "loops": "loops dropped",
    "late": "late",
    "expired": "expired",
    "bad": "bad",
}
"""What else may become of updates, and how it is called."""


@dataclass(kw_only=True)
class QueryChanges(FoundChanges):
    """What an epoch changed in one query's result."""

    count: int
    """How many matches there are after the epoch."""
    epoch: int
    schema: pa.Schema | None
    """The columns of the matches, if they were listed."""

    def __repr__(self) -> str:
        return f"QueryChanges of epoch {self.epoch:,}: {self.told}"

    def _repr_html_(self) -> str:
        rows = [(self.created, self.destroyed, self.count)]
        return titled(f"Changes of epoch {self.epoch:,}", None, table(rows, ("created", "destroyed", "matches now")))

    @property
    def told(self) -> str:
        """The figures, in a few words."""
        return f"+{self.created:,} -{self.destroyed:,}, now {self.count:,}"

    @property
    def figures_line(self) -> dict[str, int]:
        """The figures by their names: a part of a line of the output's counts."""
        groups = {} if self.groups is None else {"groups": self.groups}
        return {"created": self.created, "destroyed": self.destroyed, "count": self.count, **groups}

    @property
    def table(self) -> pa.Table:
        """The signed matches: the epoch, the change (+1 or -1), and a column for each attribute of the head."""
        if self.schema is None:
            raise BigjoinError("the matches were counted, not listed")
        tables = [read_parquet(file) for file in self.files]
        rows = pa.concat_tables(tables) if tables else self.schema.empty_table()
        return rows.add_column(0, "epoch", pa.array([self.epoch] * len(rows), pa.int64()))


@dataclass
class Epoch:
    """What an epoch of updates did: what became of the updates, and how they changed the result of each query.

    If one query is watched, `created`, `destroyed`, `count` and `table` are about that query. If there are several, look at
    `queries["name"]`, which has the same four.
    """

    number: int
    """The number of the epoch. Epochs of an index are numbered from 1."""
    fate: Fate
    """How many updates there were, and what became of them: `inserted`, `deleted`, `present`, `absent` and so on."""
    queries: dict[str, QueryChanges] = field(default_factory=dict)
    """What changed, for each query by its name."""
    seconds: float = 0.0
    """How long the epoch took."""
    durable: bool = False
    """Whether the epoch would survive a power failure by now. With `sync="group"` or `"none"` it may have to wait for that."""
    is_plain: bool = field(default=True, repr=False)
    """Whether `line` has the figures of a single query by themselves, because nobody has given the query a name."""

    def __repr__(self) -> str:
        queries = (f"{name} {changes.told}" for name, changes in self.queries.items())
        return f"Epoch {self.number:,}: {'; '.join([self._updates, *queries])}"

    def _repr_html_(self) -> str:
        rows = [(name, c.created, c.destroyed, c.count) for name, c in self.queries.items()]
        changes = [table(rows, ("query", "created", "destroyed", "matches now"))] if rows else []
        return titled(f"Epoch {self.number:,}", f"{self._updates}, {self.seconds:.2f} s", *changes)

    @property
    def _updates(self) -> str:
        """What became of the updates; what was of no effect is only mentioned if there was any."""
        fate = vars(self.fate)
        always = [f"{self.fate.inserted:,} inserted, {self.fate.deleted:,} deleted"]
        return ", ".join([*always, *(f"{fate[name]:,} {what}" for name, what in _OTHER_FATES.items() if fate[name])])

    @property
    def _only(self) -> QueryChanges:
        if len(self.queries) != 1:
            raise BigjoinError(f"{len(self.queries)} queries are watched: look at one of them in `queries`")
        return next(iter(self.queries.values()))

    @property
    def count(self) -> int:
        """How many matches there are after the epoch."""
        return self._only.count

    @property
    def created(self) -> int:
        """How many matches the epoch created."""
        return self._only.created

    @property
    def destroyed(self) -> int:
        """How many matches the epoch destroyed."""
        return self._only.destroyed

    @property
    def table(self) -> pa.Table:
        """The signed matches as an Arrow table: the epoch, the change (+1 or -1), and the columns of the head."""
        return self._only.table

    @property
    def line(self) -> CountsLine:
        """The figures as a JSON object: a line of the output's counts."""
        figures = {name: changes.figures_line for name, changes in self.queries.items()}
        only: CountsLine = next(iter(figures.values())) if self.is_plain and len(figures) == 1 else {"queries": figures}
        return {"epoch": self.number, **only, **vars(self.fate)}
