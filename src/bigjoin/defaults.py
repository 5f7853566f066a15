"""Defaults, and the values that options may have. Imports neither Spark nor numba, so that --help is quick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict

from bigjoin.errors import BigjoinError, did_you_mean

StrategyName = Literal["auto", "shared", "partitioned", "heavy-light", "balanced"]
"""Where the steps of a query run; `auto` chooses one of the others. For type checkers: everything else reads STRATEGIES."""


@dataclass(frozen=True)
class StrategyEntry:
    """A strategy as the rest of the library finds it. Its class is imported when it is used, so that --help is quick."""

    help: str
    module: str
    class_name: str
    factorizes: bool = False
    """Whether it can find factorized matches."""


STRATEGIES: dict[str, StrategyEntry] = {
    "shared": StrategyEntry("every task maps the whole index", "bigjoin.spark.shared", "Shared", factorizes=True),
    "partitioned": StrategyEntry("each worker owns a part, and prefixes travel", "bigjoin.spark.partitioned", "Partitioned"),
    "heavy-light": StrategyEntry(
        "partitioned, with the work of hubs spread over all workers", "bigjoin.spark.heavy_light", "HeavyLight"
    ),
    "balanced": StrategyEntry(
        "all work is spread, so that every worker gets the same share under any skew", "bigjoin.spark.balanced", "Balanced"
    ),
}
"""All strategies, by name. A new one is a file of its own and an entry here."""


class RunOptions(TypedDict):
    """How any verb runs."""

    strategy: StrategyName
    workers: int | None
    batch_size: int | None


class ListOptions(RunOptions):
    """How a verb that lists matches runs."""

    limit: int | None
    factorized: bool


BATCH_SIZE = 1 << 18
"""Matches that a task holds at once under `shared`, and B' for batches in one process."""

EXCHANGE_BATCH_SIZE = 1 << 21
"""B' where workers exchange prefixes: proposals alive in a worker. In larger batches more of them share a lookup."""

MAX_BATCH_SIZE = 1 << 30
"""The largest B': a worker numbers its proposals by 32 bits."""

WORKERS_PER_CORE = 4
"""Workers for each core, if neither the user nor the shards of the index say how many."""

MAX_SHARDS = 1 << 20
"""The largest number of shards of an index."""

PART_SIZE = 1 << 21
"""Rows that a task of a build holds at once, roughly: its memory depends on this, not on the size of the graph."""

CONF_VARIABLE = "BIGJOIN_CONF"
"""The environment variable with settings for every session that bigjoin starts, as a JSON object."""


def check_strategy(strategy: str, *, factorized: bool = False) -> None:
    """Refuse an unknown strategy, and one that cannot find factorized matches if these are asked for."""
    names = ("auto", *STRATEGIES)
    if strategy not in names:
        hint = did_you_mean(strategy, names) or f"choose one of {', '.join(names)}"
        raise BigjoinError(f"there is no strategy {strategy!r}; {hint}")
    if factorized and strategy != "auto" and not STRATEGIES[strategy].factorizes:
        raise BigjoinError("factorized matches are found by the shared strategy only; leave one of the two out")


def check_numbers(*, workers: int | None = None, batch_size: int | None = None, limit: int | None = None) -> None:
    """Refuse options that are not whole numbers or are out of range."""
    ranges = {"workers": (workers, 1, None), "batch_size": (batch_size, 1, MAX_BATCH_SIZE), "limit": (limit, 0, None)}
    for name, (value, least, most) in ranges.items():
        if value is None:
            continue
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise BigjoinError(f"{name} is {value!r}; it must be a whole number")
        if value < least:
            raise BigjoinError(f"{name} is {value}; it must be at least {least}")
        if most is not None and value > most:
            raise BigjoinError(f"{name} is {value}; it must be at most {most:,}")
