"""What the streaming query of a watch says of itself besides what Spark's does: what it watches, and how far it has come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bigjoin.errors import BigjoinError
from bigjoin.html_tables import table, titled
from bigjoin.index.contents import names
from bigjoin.index.manifest_file import read_manifest
from bigjoin.paths import shown_path
from bigjoin.storage import Place

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

MAX_FAILURE_CHARACTERS = 300
"""Of the error that ended a watch."""


@dataclass(frozen=True)
class WatchBeginning:
    """What is watched, and where the watch began."""

    index: Place
    queries: Mapping[str, str]
    """The text of each query, by its name."""
    output: Place | None
    epoch: int
    counts: Mapping[str, int]
    """How many matches there were."""


class WatchFacts:
    """What a watch says of itself. Its epochs may run in another process, so it looks at the index."""

    _beginning: WatchBeginning

    @property
    def queries(self) -> Mapping[str, str]:
        """The text of each query that is watched, by its name."""
        return self._beginning.queries

    @property
    def output(self) -> Place | None:
        """The folder that matches are written to, if there is one."""
        return self._beginning.output

    @property
    def epoch(self) -> int:
        """The number of the last epoch that is committed."""
        return read_manifest(self._beginning.index).epoch

    @property
    def counts(self) -> dict[str, int]:
        """How many matches each query has after that epoch."""
        began, now = self._beginning, read_manifest(self._beginning.index)
        if now.epoch == began.epoch:
            return dict(began.counts)
        known = {name: now.watched.get(text) for name, text in began.queries.items()}
        return {name: int(one.count) for name, one in known.items() if one is not None and one.epoch == now.epoch}

    def __repr__(self) -> str:
        return f"Watch of {names(list(self.queries))}: {self._state}"

    def _repr_html_(self) -> str:
        counts = self._known_counts()
        rows = [(name, text, counts.get(name)) for name, text in self.queries.items()]
        return titled("Watch", self._state, table(rows, ("name", "query", "matches now")))

    def _known_counts(self) -> dict[str, int]:
        try:
            return self.counts
        except BigjoinError:  # the index is gone
            return {}

    @property
    def _state(self) -> str:
        """Whether it runs, its epoch, its counts and its output, as far as Spark and the index still tell."""
        stream: Any = self
        try:
            running, failure = stream.isActive, stream.exception()
        except Exception:  # Spark's own, of many kinds
            running, failure = False, "its session has ended"
        told = "running" if running else "stopped" if failure is None else f"stopped: {failure}"[:MAX_FAILURE_CHARACTERS]
        output = f"; output in {shown_path(self.output)}" if self.output is not None else ""
        try:
            counts = ", ".join(f"{name} {count:,}" for name, count in self.counts.items())
            return f"{told}, epoch {self.epoch:,}{f'; {counts}' if counts else ''}{output}"
        except BigjoinError:
            return f"{told}; its index is gone{output}"


if TYPE_CHECKING:

    class Watch(WatchFacts, StreamingQuery):
        """What `Graph.watch` returns: Spark's streaming query, classic or of Spark Connect, with facts about the watch."""
