"""What the suites of changing graphs show beyond times: updates and changed matches per second, early and late in a stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from bigjoin_bench.contenders import CONTENDERS
from bigjoin_bench.report.cells import MISSING, by_cell, megabytes, seconds, table
from bigjoin_bench.results import Line

DECADES = ((2, 10), (11, 100), (101, 1_000))
"""Epochs whose times are put together, from the first that is measured."""


def updates_a_second(line: Line) -> float:
    """Return how many updates an epoch takes in, by its time; NaN if it did not finish."""
    return line.figures["updates"] / line.seconds if line.seconds else float("nan")


def throughput(lines: Sequence[Line]) -> str:
    """Return updates and changed matches per second, and the time of an epoch relative to the no-op."""
    rows = []
    for (graph, query, _), cell in by_cell(lines).items():
        ours, bare = ([line for name, line in cell.items() if name.startswith(kind)] for kind in ("watching", "no-op"))
        if not ours or not ours[0].seconds:
            continue
        over = f"{ours[0].seconds / bare[0].seconds:.2f}" if bare and bare[0].seconds else MISSING
        rows.append([graph, query, f"{updates_a_second(ours[0]):,.0f}", *_changed(ours[0]), over])
    titles = ["graph", "query", "updates per second", "changed matches per epoch", "per second", "epoch / no-op"]
    return table(titles, rows, words=2)


def written(lines: Sequence[Line]) -> str:
    """Return rows written per second, and the time relative to pyarrow."""
    rows = []
    for (graph, query, _), cell in by_cell(lines).items():
        ours, peer = cell.get("changes-written"), cell.get("pyarrow-changes")
        if ours is None or peer is None or not ours.seconds or not peer.seconds:
            continue
        each, speed = _changed(ours)
        rows.append([graph, query, each, speed, _changed(peer)[1], f"{ours.seconds / peer.seconds:.2f}"])
    titles = ["graph", "query", "rows per epoch", "rows per second, bigjoin", "pyarrow", "time / pyarrow's"]
    return table(titles, rows, words=2)


def decades(lines: Sequence[Line]) -> str:
    """Return the time of an update early and late in a stream."""
    rows = []
    for line in lines:
        times = line.figures.get("epochs", [])
        stretches = [times[first - 1 : last] for first, last in DECADES]
        if not all(stretches):
            continue
        means = [fmean(stretch) for stretch in stretches]
        each = [f"{1e6 * mean / line.figures['updates']:,.0f} µs" for mean in means]
        rows.append([CONTENDERS[line.contender].label, *each, f"{means[-1] / means[0]:.2f}", seconds(max(times[1:]))])
    titles = ["time per update", *(f"epochs {first:,} to {last:,}" for first, last in DECADES), "last / first", "longest epoch"]
    return table(titles, rows)


def sizes(lines: Sequence[Line]) -> str:
    """Return the speed and the memory of epochs of different sizes."""
    rows = [
        [
            CONTENDERS[line.contender].label,
            seconds(line.seconds),
            f"{updates_a_second(line):,.0f}",
            *_changed(line),
            megabytes(line.figures["process"]),
        ]
        for line in lines
        if line.seconds
    ]
    titles = ["epoch", "time", "updates per second", "changed matches per epoch", "per second", "peak of the process"]
    return table(titles, rows)


def from_empty(lines: Sequence[Line]) -> str:
    """Return the time of all epochs over that of a static run, with the index and without."""
    rows = []
    for (graph, query, _), cell in by_cell(lines).items():
        ours, anew = cell.get("watching-all"), cell.get("anew")
        if ours is None or anew is None or not ours.seconds or not anew.seconds:
            continue
        epochs, counting = len(ours.figures["epochs"]), anew.figures["counting"]
        both = f"{ours.seconds / anew.seconds:.1f}", f"{ours.seconds / counting:.1f}"
        rows.append([graph, query, str(epochs), seconds(ours.seconds), seconds(anew.seconds), seconds(counting), *both])
    titles = ["graph", "query", "epochs", "all epochs", "built and counted", "counted", "epochs / both", "epochs / counted"]
    return table(titles, rows, words=2)


def capacity(lines: Sequence[Line]) -> str:
    """Return throughput, and what each worker holds."""
    rows = []
    for line in lines:
        held = line.figures.get("index_tuples")
        if not line.seconds or held is None:
            continue
        sizes = f"{held['mean']:,.0f}", f"{held['max']:,}", f"{line.figures['load']['max']:,}"
        speed = f"{updates_a_second(line):,.0f}", _changed(line)[1]
        memory = megabytes(line.figures["peak_memory"])
        rows.append([line.graph, CONTENDERS[line.contender].label, seconds(line.seconds), *speed, *sizes, memory])
    titles = ["graph", "", "epoch", "updates per second", "changed matches per second", "index tuples of a worker, mean", "max"]
    return table([*titles, "most received in a round", "peak of a task's process"], rows, words=2)


TABLES: dict[str, Callable[[Sequence[Line]], str]] = {
    "updates": throughput,
    "updates-single": throughput,
    "updates-written": written,
    "updates-many": decades,
    "updates-size": sizes,
    "updates-all": from_empty,
    "updates-capacity": capacity,
}
"""Suite -> its table."""


def _changed(line: Line) -> tuple[str, str]:
    """Return the matches that an epoch changes, and how many of them per second."""
    each = line.figures["changed"] / len(line.figures["epochs"])
    return f"{each:,.0f}", f"{each / (line.seconds or float('nan')):,.0f}"
