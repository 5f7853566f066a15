"""The strategies that work in rounds, with exchanges, by name. The other one, shared, needs none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bigjoin.defaults import EXCHANGE_BATCH_SIZE
from bigjoin.spark import balanced, partitioned
from bigjoin.spark.results import Run


def _proposals(workers: int) -> int:
    """Return B', whatever the number of workers: how much a round moves has a bound of its own."""
    del workers
    return EXCHANGE_BATCH_SIZE


@dataclass(frozen=True)
class Strategy:
    """How a job is run, and B' for so many workers if nobody says another."""

    run: Run
    batch_size: Callable[[int], int] = _proposals


IN_ROUNDS = {
    "partitioned": Strategy(partitioned.run),
    "heavy-light": Strategy(partitioned.run_heavy_light),
    "balanced": Strategy(balanced.run, balanced.batch_size),
}
