"""What the suites of changing graphs show beyond times: updates and changed matches per second, early and late in a stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean, median

import numpy as np

from bigjoin_bench.contenders import CONTENDERS, PAPER_SIZES
from bigjoin_bench.feeds import after_first
from bigjoin_bench.report.cells import MISSING, by_cell, megabytes, milliseconds, seconds, table
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
            line.query,
            f"{line.figures['updates']:,} updates",
            milliseconds(line.seconds) if line.seconds < 1 else seconds(line.seconds),
            f"{updates_a_second(line):,.0f}",
            *_changed(line),
            megabytes(line.figures["process"]),
        ]
        for line in lines
        if line.seconds
    ]
    titles = ["query", "epoch", "time", "updates per second", "changed matches per epoch", "per second", "peak of the process"]
    return table(titles, rows, words=2)


def latency(lines: Sequence[Line]) -> str:
    """Return the middle and the worst of the times of small epochs."""
    rows = []
    for line in lines:
        if times := after_first(line.figures.get("epochs", [])):
            shown = map(milliseconds, np.percentile(times, [50, 99]).tolist())
            rows.append([CONTENDERS[line.contender].label, f"{len(times):,}", *shown, milliseconds(max(times))])
    return table(["sync", "epochs", "p50", "p99", "longest"], rows)


def beside_the_program(lines: Sequence[Line]) -> str:
    """Return the times of the paper's own program, ours, and the ratios."""
    rows = []
    for (graph, query, _), cell in by_cell(lines).items():
        for size in PAPER_SIZES:
            theirs, *ours = (cell.get(f"{name}-{size}") for name in ("dataflow-join", "paper-group", "paper-epoch"))
            took = None if theirs is None else theirs.seconds
            mine = [None if line is None else line.seconds for line in ours]
            if took is None and not any(mine):
                continue
            ratios = (f"{own / took:.2f}" if own and took else MISSING for own in mine)
            counted = MISSING if theirs is None or took is None else f"{theirs.figures['counted']:,}"
            rows.append([graph, query, f"{size:,}", *map(seconds, (took, *mine)), *ratios, counted])
    titles = ["graph", "query", "updates an epoch", "dataflow-join", "group", "epoch", "group / theirs", "epoch / theirs"]
    return table([*titles, "it counted"], rows, words=2)


def stars(lines: Sequence[Line]) -> str:
    """Return the time of an epoch at a hub beside that of lookups there."""
    rows = []
    for (_, query, meaning), cell in by_cell(lines).items():
        ours, *lookups = (cell.get(name) for name in ("stars", "lookups", "lookups-bare"))
        if ours is None or not ours.seconds:
            continue
        middle = median(after_first(ours.figures["epochs"]))
        times = [None if line is None else line.seconds for line in lookups]
        ratios = (f"{middle / other:.2f}" if other else MISSING for other in times)
        rows.append([f"{query}, {meaning}", f"{int(ours.count or 0):,}", *map(milliseconds, (middle, *times)), *ratios])
    titles = ["query", "count", "epoch, p50", "100 lookups", "100 bare lookups", "epoch / lookups", "epoch / bare lookups"]
    return table(titles, rows)


def fifths(lines: Sequence[Line]) -> str:
    """Return the means of what was sampled in the first fifth of all epochs, and in the last one."""
    parts = []
    for line in lines:
        if not line.seconds:
            continue
        figures, samples = line.figures, line.figures["samples"]
        series: list[tuple[str, list[float], Callable[[float], str]]] = [
            ("time of an epoch", figures["epochs"], milliseconds),
            ("memory of the process", [sample["memory"] for sample in samples], lambda mean: megabytes(round(mean))),
            ("files of the index", [sample["files"] for sample in samples], lambda mean: f"{mean:,.1f}"),
            ("bytes of the index", [sample["bytes"] for sample in samples], lambda mean: f"{mean / 2**20:,.2f} MB"),
        ]
        rows = []
        for name, values, shown in series:
            fifth = max(1, len(values) // 5)
            first, last = fmean(values[:fifth]), fmean(values[-fifth:])
            rows.append([name, shown(first), shown(last), f"{last / first:.2f}" if first else MISSING])
        said = f"{len(figures['epochs']):,} epochs, {figures['compactions']:,} compactions; "
        said += f"the count was that of a new index at {figures['rebuilt']} of {figures['rebuilt']} points."
        parts += [said, table(["mean of the", "first fifth", "last fifth", "last / first"], rows)]
    return "\n\n".join(parts)


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
    "updates-latency": latency,
    "updates-paper": beside_the_program,
    "updates-all": from_empty,
    "updates-stars": stars,
    "updates-diamonds": sizes,
    "updates-window": fifths,
    "updates-capacity": capacity,
}
"""Suite -> its table."""


def _changed(line: Line) -> tuple[str, str]:
    """Return the matches that an epoch changes, and how many of them per second."""
    each = line.figures["changed"] / len(line.figures["epochs"])
    return f"{each:,.0f}", f"{each / (line.seconds or float('nan')):,.0f}"
