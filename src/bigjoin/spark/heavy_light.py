"""The heavy-light strategy: partitioned, except for a few heavy keys that are dealt out over all workers.

The driver finds the heavy keys before the first round (`dataflow/heavy.py`). Light keys stay whole, with their owners.
"""

from __future__ import annotations

from dataclasses import replace

from bigjoin.dataflow.heavy import find_heavy
from bigjoin.spark.job import Job
from bigjoin.spark.partitioned import Partitioned, PartitionedRounds


class HeavyLight(Partitioned):
    """Heavy keys are dealt out over all workers, and light ones stay whole."""

    def rounds(self, job: Job) -> PartitionedRounds:
        """Return a run of a job, for which heavy keys are found first."""
        return super().rounds(replace(job, heavy=find_heavy(job.bound, job.workers)))
