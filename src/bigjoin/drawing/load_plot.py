"""What workers or tasks got to do: the most that one of them got, beside the mean. Of even loads, both are the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bigjoin.drawing.bars import BarGroup, SizeBar, bar_rows, largest, legend
from bigjoin.drawing.drawing import Drawing
from bigjoin.drawing.figure import FONT_SIZE, SMALL_SIZE, Figure, lines_of_text, stacked
from bigjoin.explained import RunStats

MAX_EXCHANGES_DRAWN = 32
"""Exchanges that have bars of their own; of more, neighbours share bars."""

MAX_LOADS_TOLD = 1000
"""Exchanges whose loads a run reports."""

LOAD_BAR_LENGTH = 300.0
LOAD_WIDTH = 620.0


def load_plot(stats: RunStats, *, strategy: str) -> Drawing:
    """Return the loads of a run as a picture."""
    return Drawing.of(load_figure(stats, strategy=strategy), f"loads under {strategy}")


def load_figure(stats: RunStats, *, strategy: str) -> Figure:
    """Return the loads of a run: those of its exchanges if prefixes travelled, otherwise the seconds of its tasks."""
    heading = lines_of_text([f"loads under {strategy}"], most=LOAD_WIDTH, size=FONT_SIZE, bold=True)
    kinds = legend([("most of any", True), ("mean of all", False)])
    figures = [heading, kinds]
    if "exchanges" in stats:
        figures += _of_exchanges(stats)
    figures += _of_tasks(stats)
    return stacked(figures, gap=12.0)


def _of_exchanges(stats: RunStats) -> list[Figure]:
    """Return what workers received: in each round, in each exchange, and what they hold of the index."""
    held, load = stats.get("index_tuples"), stats["load"]
    found = [_titled(f"tuples that a worker got in a round, of {stats['workers']:,} workers", [_pair("", load)])]
    found += [_titled("index tuples that a worker holds", [_pair("", held)])] if held else []
    loads: list[RunStats] = list(stats.get("exchange_loads", ()))
    if loads:
        together = -(-len(loads) // MAX_EXCHANGES_DRAWN)
        groups = [_pair(_name(loads, i, together), _most(loads[i : i + together])) for i in range(0, len(loads), together)]
        what = "exchange" if together == 1 else f"{together} exchanges"
        found.append(_titled(f"tuples received in each {what}, in the order of time", groups))
    left = stats["exchanges"] - len(loads)
    rounds = f"{stats['rounds']:,} round{'s' * (stats['rounds'] != 1)}"
    told = [f"{stats['exchanges']:,} exchange{'s' * (stats['exchanges'] != 1)} in {rounds}"]
    if left > 0:
        is_cut = len(loads) >= MAX_LOADS_TOLD
        told.append(f"the first {len(loads):,} are shown" if is_cut else f"in {left:,} of them, nobody received anything")
    return [*found, lines_of_text(told, most=LOAD_WIDTH, size=SMALL_SIZE, quiet=True)]


def _name(loads: Sequence[RunStats], first: int, together: int) -> str:
    """Return what an exchange, or several, are called: by their number, and the verb if a lookup has one."""
    last = min(len(loads), first + together)
    verb = f" {loads[first]['of']}" if together == 1 and "of" in loads[first] else ""
    return f"{first + 1:,}{verb}" if together == 1 else f"{first + 1:,} to {last:,}"


def _most(loads: Sequence[RunStats]) -> RunStats:
    return {"max": max(each["max"] for each in loads), "mean": sum(each["mean"] for each in loads) / len(loads)}


def _of_tasks(stats: RunStats) -> list[Figure]:
    """Return how long tasks took."""
    tasks = stats.get("tasks")
    if tasks is None:
        return []
    number = tasks["count"]
    busy = stats.get("busy", 1.0)
    seconds = {what: tasks["seconds"][what] for what in ("max", "mean")}
    shown = _pair("", seconds, unit=" s")
    name = f"seconds of {number:,} {'task' if number == 1 else 'tasks'}"
    told = (
        f"busy for {busy:.0%} of that time on average; {stats['peak_memory'] / 2**20:,.0f} MB a task at most"
        if stats.get("peak_memory")
        else ""
    )
    return [_titled(name, [shown]), lines_of_text([told] if told else [], most=LOAD_WIDTH, size=SMALL_SIZE, quiet=True)]


def _pair(name: str, load: Any, unit: str = "") -> BarGroup:
    texts = (
        (f"{load['max']:,.2f}{unit}", f"{load['mean']:,.2f}{unit}") if unit else (f"{load['max']:,}", f"{load['mean']:,.0f}")
    )
    return BarGroup(name, (SizeBar(float(load["max"]), text=texts[0]), SizeBar(float(load["mean"]), False, texts[1])))


def _titled(title: str, groups: Sequence[BarGroup]) -> Figure:
    bars = bar_rows(groups, most=largest(groups), logarithmic=False, length=LOAD_BAR_LENGTH)
    return stacked([lines_of_text([title], most=LOAD_WIDTH, size=FONT_SIZE), bars], gap=5.0)
