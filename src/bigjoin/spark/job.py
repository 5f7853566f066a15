"""A job of a strategy that works in rounds: a plan over an index, and its workers. It is all that travels to tasks."""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from bigjoin.dataflow.heavy import Heavy, HeavyItinerary
from bigjoin.defaults import MAX_WORKERS, WORKERS_PER_CORE
from bigjoin.errors import BigjoinError
from bigjoin.index.overlay import AskedIndex
from bigjoin.joins.bind import BoundPlan, bind
from bigjoin.joins.changes import Signed, with_change
from bigjoin.joins.itinerary import Itinerary
from bigjoin.joins.phase import Phase
from bigjoin.local.matches import schema_of
from bigjoin.query.plan import Plan
from bigjoin.storage import Place

MAX_BOUND_PLANS = 8
"""Jobs whose bound plan a process keeps: tasks of several queries take turns in it."""


@dataclass(frozen=True)
class Job:
    """A plan over an index, and the workers and tasks that execute it."""

    plan: Plan
    index: AskedIndex | Phase
    workers: int
    tasks: int
    batch_size: int
    limit: int | None = None
    output: tuple[Place, str] | None = None
    """The folder and the suffix of the files that matches are written to; None if they are counted."""
    signed: Signed | None = None
    """How matches are reported, for the plan of a delta query."""
    heavy: Heavy | None = None
    """The keys that are dealt out over all workers, if any."""
    max_rows: int | None = None
    """How many matches there may be; more are an error."""
    sample: tuple[int, int] | None = None
    """If only a sample of the matches is written: its size, and the salt of the hashes that decide."""
    streams: bool = False
    """Whether matches are read as they are found, so that a round has to find a limited number of them."""
    folder: Place = Path()
    """Where prefixes wait: a folder that every task sees."""
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def bound(self) -> BoundPlan:
        """The plan bound to the index; each process binds it once."""
        if (known := _bound.get(self.name)) is not None:
            return known
        found = bind(self.plan, self.index)
        with _binding:
            _bound[self.name] = found
            while len(_bound) > MAX_BOUND_PLANS:
                del _bound[next(iter(_bound))]
        return found

    @property
    def itinerary(self) -> Itinerary:
        """Where prefixes go if keys have owners."""
        return Itinerary(self.bound) if self.heavy is None else HeavyItinerary(self.bound, self.heavy, self.batch_size)

    @property
    def is_counted(self) -> bool:
        """Whether matches are counted and not written."""
        return self.output is None

    @property
    def schema(self) -> pa.Schema:
        """The columns of the matches."""
        found = schema_of(self.bound.columns, len(self.plan.attributes))
        return found if self.signed is None else with_change(found)

    def hosted(self, task: int) -> range:
        """Return the workers that a task hosts."""
        return range(task, self.workers, self.tasks)


_bound: dict[str, BoundPlan] = {}
"""The bound plans of the latest jobs in this process, by their names: each stage of a job arrives as a task of its own."""
_binding = threading.Lock()


def worker_count(index: AskedIndex, asked: int | None, cores: int) -> int:
    """Return the number of workers: as asked for, or one for each shard of the index, or some for each core."""
    many = asked or (index.shards if index.shards > 1 else WORKERS_PER_CORE * cores)
    if many > MAX_WORKERS:
        raise BigjoinError(f"workers is {many}; it must be at most {MAX_WORKERS:,}")
    return many
