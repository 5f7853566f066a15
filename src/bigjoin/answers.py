"""What verbs answer besides DataFrames: a number of matches and an explanation, with the figures of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from bigjoin.local.strategy import Ask, Outcome
from bigjoin.planner.agm import agm_bound
from bigjoin.query.statement import Statement


class Count(int):
    """The number of matches: an int, with the figures of the run that found it."""

    seconds: float
    strategy: str
    why: str
    """Why the strategy was chosen."""
    workers: int
    _ran: Outcome
    _asked: Ask

    @classmethod
    def of(cls, ran: Outcome, asked: Ask, strategy: str, seconds: float, why: str) -> Count:
        """Return the count of a run, with its figures."""
        count = cls(ran.matches)
        count._ran, count._asked = ran, asked
        count.strategy, count.why, count.workers, count.seconds = strategy, why, ran.workers, seconds
        return count

    def cut(self, statement: Statement) -> Count:
        """Return what SKIP and LIMIT of a statement leave of it."""
        left = statement.cut(self)
        ran = self._ran if left == self else replace(self._ran, matches=left)
        return Count.of(ran, self._asked, self.strategy, self.seconds, self.why)

    @cached_property
    def stats(self) -> dict[str, Any]:
        """The rounds, steps, memory and seconds of the run, the tuples that workers hold, and the AGM bound."""
        tuples = self._ran.index_tuples()
        held = {"max": int(tuples.max()), "mean": float(tuples.mean())}
        agm = sum(agm_bound(query, self._asked.index.statistics) for query in self._asked.queries)
        stats = {**self._ran.stats, "index_tuples": held, "agm": agm}
        seeds = self._asked.seeds
        return {**stats, "seeds": seeds} if seeds else stats


class Explanation(str):
    """A plan and its estimates, as text; with the `stats` of the run, if there was one."""

    __slots__ = ("stats",)
    stats: dict[str, Any] | None


def added(counts: Sequence[Count]) -> Count:
    """Return the sum of counts, with the figures of all their runs."""
    if len(counts) == 1:
        return counts[0]
    figures = [count._ran.stats for count in counts]
    stats = dict(figures[0])
    for name in ("rounds", "exchanges", "bytes", "tuples", "critical_path", "kernels_compiled"):
        if name in stats:
            stats[name] = sum(one[name] for one in figures)
    for name in ("load", "waiting", "balance"):
        if name in stats:
            stats[name] = {part: max((one[name][part] for one in figures), key=_known) for part in stats[name]}
    if "exchange_loads" in stats:
        stats["exchange_loads"] = [load for one in figures for load in one["exchange_loads"]]
    stats["peak_memory"] = max(one["peak_memory"] for one in figures)
    stats["seconds"] = {part: sum(one["seconds"][part] for one in figures) for part in ("plan", "run")}
    stats["steps"] = [step for one in figures for step in one["steps"]]
    first, seconds = counts[0], sum(count.seconds for count in counts)
    ran = replace(first._ran, matches=sum(counts), stats=stats)
    return Count.of(ran, first._asked, first.strategy, seconds, first.why)


def _known(figure: float | None) -> float:
    """Return a figure, or a smaller number than any figure if it is None."""
    return -1.0 if figure is None else figure
