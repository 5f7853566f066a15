"""All strategies by name. A new one is a file of its own, an entry here, and its name in `defaults.StrategyName`."""

from __future__ import annotations

from bigjoin.spark.balanced import Balanced
from bigjoin.spark.partitioned import HeavyLight, Partitioned
from bigjoin.spark.shared import Shared
from bigjoin.spark.strategy import Strategy

STRATEGIES: dict[str, type[Strategy]] = {
    "shared": Shared,
    "partitioned": Partitioned,
    "heavy-light": HeavyLight,
    "balanced": Balanced,
}
