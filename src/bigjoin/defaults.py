"""Defaults, and the values that options may have. Imports neither Spark nor numba, so that --help is quick."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final, Literal, TypedDict, get_args

from bigjoin.errors import BigjoinError, did_you_mean

StrategyName = Literal["auto", "local", "shared", "partitioned", "heavy-light", "balanced"]
"""Where the steps of a query run; `auto` chooses one of the others. For type checkers: everything else reads STRATEGIES."""

SyncName = Literal["epoch", "group", "none"]
"""When epochs become durable: each before it is reported, several together within a bounded time, or when asked for."""

BadRowName = Literal["fail", "skip", "quarantine"]
"""What becomes of rows of updates that cannot be read: the epoch is refused, or they are left out, or written aside, too."""


@dataclass(frozen=True)
class StrategyEntry:
    """A strategy as the rest of the library finds it. Its class is imported when it is used, so that --help is quick."""

    help: str
    module: str
    class_name: str
    factorizes: bool = False
    """Whether it can find factorized matches."""
    in_rounds: bool = False
    """Whether workers own parts of the index, so that prefixes travel in rounds."""


LOCAL: Final = "local"
"""The strategy that needs no Spark."""

STRATEGIES: dict[str, StrategyEntry] = {
    LOCAL: StrategyEntry("threads of this process, without Spark", "bigjoin.local.threads", "Local", factorizes=True),
    "shared": StrategyEntry("every task maps the whole index", "bigjoin.spark.shared", "Shared", factorizes=True),
    "partitioned": StrategyEntry(
        "each worker owns a part, and prefixes travel", "bigjoin.spark.partitioned", "Partitioned", in_rounds=True
    ),
    "heavy-light": StrategyEntry(
        "partitioned, with the work of hubs spread over all workers",
        "bigjoin.spark.heavy_light",
        "HeavyLight",
        in_rounds=True,
    ),
    "balanced": StrategyEntry(
        "all work is spread, so that every worker gets the same share under any skew",
        "bigjoin.spark.balanced",
        "Balanced",
        in_rounds=True,
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
    sample: int | None
    random_state: int | None
    max_rows: int | None


class Limits(TypedDict, total=False):
    """What ends a query before its time, as keywords of every verb."""

    timeout: float | None
    memory: int | str | None
    cancel: threading.Event | None


def listing(
    run: RunOptions,
    *,
    limit: int | None = None,
    factorized: bool = False,
    sample: int | None = None,
    random_state: int | None = None,
    max_rows: int | None = None,
) -> ListOptions:
    """Return the options of a verb that lists all matches, but for what is said."""
    return ListOptions(limit=limit, factorized=factorized, sample=sample, random_state=random_state, max_rows=max_rows, **run)


def run_of(options: ListOptions) -> RunOptions:
    """Return how a verb runs that lists matches."""
    return RunOptions(strategy=options["strategy"], workers=options["workers"], batch_size=options["batch_size"])


BATCH_SIZE = 1 << 18
"""Matches that a task holds at once under `shared`, and B' for batches in one process."""

EXCHANGE_BATCH_SIZE = 1 << 21
"""B' where workers exchange prefixes: proposals alive in a worker. In larger batches more of them share a lookup."""

MAX_WORKERS = 1 << 20
"""The most tasks, or owners of keys: every task knows what each owner has."""

MAX_BATCH_SIZE = 1 << 30
"""The largest B': a worker numbers its proposals by 32 bits."""

MAX_KEPT_EPOCHS = 1 << 20
"""The most epochs before the last one that an index keeps."""

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
        raise BigjoinError("factorized matches are found by the local and shared strategies only; leave one of the two out")


def check_sync(sync: str) -> None:
    """Refuse an unknown way to make epochs durable."""
    names = get_args(SyncName)
    if sync not in names:
        hint = did_you_mean(sync, names) or f"choose one of {', '.join(names)}"
        raise BigjoinError(f"sync is {sync!r}; {hint}")


def check_on_bad_row(given: str, *, has_output: bool) -> None:
    """Refuse an unknown way to treat bad rows, and one that needs an output folder where there is none."""
    names = get_args(BadRowName)
    if given not in names:
        hint = did_you_mean(given, names) if isinstance(given, str) else None
        raise BigjoinError(f"on_bad_row is {given!r}; {hint or 'choose one of ' + ', '.join(names)}")
    if given == "quarantine" and not has_output:
        raise BigjoinError(
            "bad rows are kept beside the matches, in the output folder: give one (output=, --output) with "
            "on_bad_row='quarantine', or choose 'skip'"
        )


def check_random_state(given: int | None) -> None:
    """Refuse what is no seed of random numbers."""
    if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < 0):
        raise BigjoinError(f"random_state is {given!r}; it must be a whole number, 0 or more")


def check_numbers(
    *,
    workers: int | None = None,
    batch_size: int | None = None,
    limit: int | None = None,
    sample: int | None = None,
    max_rows: int | None = None,
    keep_epochs: int | None = None,
    epoch: int | None = None,
    first: int | None = None,
) -> None:
    """Refuse options that are not whole numbers or are out of range."""
    ranges = {
        "workers": (workers, 1, MAX_WORKERS),
        "batch_size": (batch_size, 1, MAX_BATCH_SIZE),
        "limit": (limit, 0, None),
        "sample": (sample, 0, None),
        "max_rows": (max_rows, 0, None),
        "keep_epochs": (keep_epochs, 0, MAX_KEPT_EPOCHS),
        "epoch": (epoch, 0, None),
        "first": (first, 1, None),
    }
    for name, (value, least, most) in ranges.items():
        if value is None:
            continue
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise BigjoinError(f"{name} is {value!r}; it must be a whole number")
        if value < least:
            raise BigjoinError(f"{name} is {value}; it must be at least {least}")
        if most is not None and value > most:
            raise BigjoinError(f"{name} is {value}; it must be at most {most:,}")
