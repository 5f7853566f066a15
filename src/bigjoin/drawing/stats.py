"""The figures of a run as HTML: what each step looked at, how evenly work was spread, and everything else in one table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bigjoin.html_tables import Cell, bar, folded, table, titled
from bigjoin.markup import Markup
from bigjoin.memory import shown_size

SPREAD = {
    "tasks": "seconds of a task",
    "load": "tuples that a worker received in a round",
    "index_tuples": "tuples of the index that a worker has",
}
"""Figures that are a maximum and a mean: over tasks or workers."""

PLAIN = {
    "workers": "workers",
    "rounds": "rounds",
    "exchanges": "exchanges",
    "tuples": "tuples sent",
    "bytes": "bytes sent",
    "critical_path": "tuples on the critical path",
    "kernels_compiled": "kernels compiled",
    "agm": "AGM bound: matches at most",
}
"""Figures that are one number, and what they are called."""

OWN_TABLES = frozenset({*SPREAD, *PLAIN, "busy", "exchange_loads", "peak_memory", "seconds", "seeds", "steps"})
"""Figures that have a place of their own; the others follow as they are called."""

MAX_SHOWN_EXCHANGES = 50
"""Exchanges whose loads are shown."""


def stats_html(stats: Mapping[str, Any]) -> Markup:
    """Return the figures of a run as tables and bars."""
    parts = [_steps(stats.get("steps", ())), _spread(stats), table(list(_figures(stats)))]
    if seeds := stats.get("seeds"):
        parts.append(table([(one["relation"], one["tuples"], one["held"]) for one in seeds], ("seeds", "tuples", "known")))
    loads = stats.get("exchange_loads", ())
    if len(loads) > 1:
        parts.append(folded(f"{len(loads):,} exchanges, and what workers received in each", _exchanges(loads)))
    return titled("Stats", _seconds(stats), *parts)


def _seconds(stats: Mapping[str, Any]) -> str | None:
    seconds = stats.get("seconds")
    return None if seconds is None else f"{seconds['run']:.2f} s, after {seconds['plan']:.2f} s of planning"


def _steps(steps: Sequence[Mapping[str, Any]]) -> Markup:
    """Return what each step of a plan, or each loop of a sum of nests, looked at and kept."""
    if not steps:
        return Markup()
    most = max(step["candidates"] for step in steps)
    rows = [
        (_place(number, step), step["candidates"], step["prefixes"], bar(step["candidates"], of=most))
        for number, step in enumerate(steps)
    ]
    return table(rows, ("step", "candidates", "prefixes", ""))


def _place(number: int, step: Mapping[str, Any]) -> str:
    """Return which step it is: its number, or that of its sum, and the attribute that it binds."""
    return f"{step.get('term', number) + 1}: {step['attribute']}"


def _spread(stats: Mapping[str, Any]) -> Markup:
    """Return how evenly work was spread: the longer a bar, the closer the mean is to the maximum."""
    found = {name: stats[name]["seconds"] if name == "tasks" else stats[name] for name in SPREAD if name in stats}
    rows = [
        (SPREAD[name], float(of["max"]), float(of["mean"]), bar(of["mean"], of=of["max"]))
        for name, of in found.items()
        if of["max"]
    ]
    return table(rows, ("", "max", "mean", "mean / max")) if rows else Markup()


def _figures(stats: Mapping[str, Any]) -> Iterator[tuple[Cell, Cell]]:
    """Give every other figure, with what it is called."""
    for name, told in PLAIN.items():
        if stats.get(name):
            yield told, float(stats[name]) if name == "agm" else stats[name]
    if "tasks" in stats:
        yield "tasks", stats["tasks"]["count"]
    if stats.get("peak_memory"):
        yield "memory of a task, at most", shown_size(stats["peak_memory"])
    for name, value in stats.items():
        if name not in OWN_TABLES:
            parts = value.items() if isinstance(value, Mapping) else [("", value)]
            told = ", ".join(f"{part} {_short(figure)}".strip() for part, figure in parts)
            yield name.replace("_", " "), told


def _short(figure: object) -> str:
    return f"{figure:,}" if isinstance(figure, int) else f"{figure:,.3g}" if isinstance(figure, float) else str(figure)


def _exchanges(loads: Sequence[Mapping[str, Any]]) -> Markup:
    """Return what workers received in each of the first exchanges."""
    first = loads[:MAX_SHOWN_EXCHANGES]
    most = max(load["max"] for load in first)
    rows = [
        (number, load["max"], float(load["mean"]), bar(load["mean"], of=most, mark=load["max"]))
        for number, load in enumerate(first, start=1)
    ]
    return table(rows, ("exchange", "max", "mean", "mean, and | max"))
