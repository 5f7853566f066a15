"""Contenders in turn on one question: the first run of each is cold, the others are warm; counts must agree."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bigjoin_bench.process import CutOff, Failed, Reply
from bigjoin_bench.question import Question


@dataclass(frozen=True)
class Limits:
    """How long a contender may take, and how often it runs."""

    rounds: int = 5
    """Warm runs of each contender."""
    cut_off: float = 120.0
    once: float = 20.0
    """What takes longer than this does not run again."""
    deadline: float | None = None
    """When everything has to have ended, on time.monotonic's clock."""

    load: float = 300.0
    """Seconds that loading may take."""

    @property
    def patience(self) -> float:
        """Seconds that a run may take, starting now."""
        return self._left(self.cut_off)

    @property
    def load_patience(self) -> float:
        """Seconds that loading may take, starting now."""
        return self._left(self.load)

    def _left(self, seconds: float) -> float:
        return seconds if self.deadline is None else max(0.0, min(seconds, self.deadline - time.monotonic()))

    @property
    def expired(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline


class Seat(Protocol):
    """A contender that has loaded its graph; `run` raises CutOff or Failed."""

    name: str

    def run(self, question: Question, *, patience: float) -> Reply:
        """Answer a question."""


@dataclass
class Times:
    """What one contender did with one question."""

    cold: float | None = None
    warm: list[float] = field(default_factory=list)
    over: float | None = None
    """The seconds after which it was cut off."""
    failure: str | None = None
    count: int | None = None
    memory: int = 0
    figures: dict[str, Any] = field(default_factory=dict)

    def wants_more(self, limits: Limits) -> bool:
        longest = max([self.cold or 0.0, *self.warm])
        return self.over is None and self.failure is None and longest <= limits.once and not limits.expired


class CountsDiffer(Exception):  # noqa: N818
    """Contenders disagree about a count, so none of their times means anything."""


def compare(
    seats: Sequence[Seat], question: Question, limits: Limits, say: Callable[[str], None] = lambda _: None
) -> dict[str, Times]:
    """Return each contender's times; raise CountsDiffer if two finished counts are not the same.

    Every other round goes backwards, so that nobody always runs after the same neighbour.
    """
    times = {seat.name: Times() for seat in seats}
    for number in range(limits.rounds + 1):
        for seat in seats if number % 2 == 0 else reversed(seats):
            mine = times[seat.name]
            if not mine.wants_more(limits):
                continue
            _take_turn(seat, question, limits, mine)
            _check(question, times)
            say(f"{seat.name} {_shown(mine)}")
    return times


def _take_turn(seat: Seat, question: Question, limits: Limits, times: Times) -> None:
    patience = limits.patience
    try:
        reply = seat.run(question, patience=patience)
    except CutOff:
        if times.cold is None:  # a warm run that is cut off by the deadline of everything leaves the others as they are
            times.over = patience
        return
    except Failed as failure:
        times.failure = str(failure)
        return
    said = reply.said
    count = None if said["count"] is None else int(said["count"])
    if times.cold is not None and count != times.count:
        raise CountsDiffer(f"{question.title}: {seat.name} counted {times.count}, and then {count}")
    times.count = count
    times.memory = max(times.memory, reply.memory)
    times.figures = said["figures"]
    if times.cold is None:
        times.cold = said["seconds"]
    else:
        times.warm.append(said["seconds"])


def _check(question: Question, times: dict[str, Times]) -> None:
    counts = {name: t.count for name, t in times.items() if t.count is not None}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} {count:,}" for name, count in counts.items())
        raise CountsDiffer(f"{question.title}: the counts differ: {listed}")


def _shown(times: Times) -> str:
    if times.over is not None:
        return f"> {times.over:.0f} s"
    if times.failure is not None:
        return times.failure
    return f"{(times.warm or [times.cold or 0.0])[-1]:.3f} s{'' if times.warm else ' cold'}"
