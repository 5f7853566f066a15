"""The strategies that work in rounds, with exchanges, by name. The other one, shared, needs none."""

from __future__ import annotations

from bigjoin.spark import balanced, partitioned
from bigjoin.spark.results import Run

IN_ROUNDS: dict[str, Run] = {
    "partitioned": partitioned.run,
    "heavy-light": partitioned.run_heavy_light,
    "balanced": balanced.run,
}
