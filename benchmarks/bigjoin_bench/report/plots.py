"""A plot for each suite: times of all contenders on a logarithmic scale, or curves where they differ in a number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any

from bigjoin_bench.contenders import CONTENDERS
from bigjoin_bench.report.cells import by_cell
from bigjoin_bench.report.tables import present
from bigjoin_bench.report.updates import updates_a_second
from bigjoin_bench.results import Line
from bigjoin_bench.suites import Suite

INSTALL = "plots are left out: pip install matplotlib"
MARKS = "osD^vP"


def can_plot() -> bool:
    """Tell whether matplotlib is there."""
    return find_spec("matplotlib") is not None


def draw(suite: Suite, lines: Sequence[Line], file: Path) -> None:
    """Draw a suite: curves, where its contenders differ in a number, or else times beside each other."""
    styled(file.parent)
    if suite.name in CURVES:
        curves(suite, lines, file)
    elif suite.name in PANELS:
        panels(suite, lines, file)
    elif suite.name == "updates-many":
        over_epochs(lines, file)
    elif suite.name == "updates-window":
        over_samples(lines, file)
    elif suite.name == "seeds":
        over_reach(lines, file)
    else:
        plot(suite, lines, file)


def styled(folder: Path) -> Any:
    """Return pyplot, set up to draw the same lines into the same file each time, and make the folder of the plots."""
    import matplotlib as mpl
    from matplotlib import pyplot

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "bigjoin", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    folder.mkdir(parents=True, exist_ok=True)
    return pyplot


CURVES: dict[str, tuple[str, tuple[tuple[str, Callable[[Line], float]], ...]]] = {
    "workers": (
        "workers",
        (
            ("index tuples of a worker, max", lambda line: line.figures["index_tuples"]["max"]),
            ("mean", lambda line: line.figures["index_tuples"]["mean"]),
            ("tuples received by a worker in a round, max", lambda line: line.figures["load"]["max"]),
            ("mean", lambda line: line.figures["load"]["mean"]),
        ),
    ),
    **{
        name: (
            "B'",
            (
                ("seconds", lambda line: line.seconds or float("nan")),
                ("peak memory of a process, GB", lambda line: line.figures["peak_memory"] / 2**30),
            ),
        )
        for name in ("batches", "batches-cliques")
    },
}
"""Suite -> what its contenders' names end with, and the curves over it."""


PANELS: dict[str, tuple[str, tuple[tuple[str, Callable[[Line], float]], ...]]] = {
    "updates-size": (
        "updates an epoch",
        (
            ("updates a second", updates_a_second),
            ("peak memory of the process, MB", lambda line: line.figures["process"] / 2**20),
        ),
    ),
    "updates-capacity": (
        "workers",
        (
            ("updates a second", updates_a_second),
            ("index tuples of a worker, max", lambda line: line.figures["index_tuples"]["max"]),
            ("peak memory of a task's process, MB", lambda line: line.figures["peak_memory"] / 2**20),
        ),
    ),
}
"""Suite -> what its contenders' names end with, and what is drawn over it, each on its own scale, a curve a graph."""

DECADE = 10
"""How far figures lie apart, at least, that are drawn on a logarithmic scale."""

STRETCH = 20
"""Epochs whose mean is one point of a curve."""


def curves(suite: Suite, lines: Sequence[Line], file: Path) -> None:
    """Draw figures over the number that contenders differ in, both on logarithmic scales."""
    from matplotlib import pyplot

    title, series = CURVES[suite.name]
    measured = sorted((int(line.contender.rpartition("-")[2]), line) for line in lines if line.figures)
    figure, axes = pyplot.subplots(figsize=(6, 3.5))
    for number, (label, value) in enumerate(series):
        style = "o-" if label != "mean" else "s--"
        axes.plot([x for x, _ in measured], [value(line) for _, line in measured], style, color=f"C{number}", label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks([x for x, _ in measured], [f"{x:,}" for x, _ in measured])
    axes.xaxis.set_minor_formatter("")
    axes.set_xlabel(title)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(file, bbox_inches="tight", metadata={"Date": None})
    pyplot.close(figure)


def panels(suite: Suite, lines: Sequence[Line], file: Path) -> None:
    """Draw figures beside each other over the number that contenders differ in, with a curve for each graph."""
    from matplotlib import pyplot

    title, shown = PANELS[suite.name]
    figure, every = pyplot.subplots(1, len(shown), figsize=(4.2 * len(shown), 3.2), layout="constrained")
    for axes, (label, value) in zip(every, shown, strict=True):
        seen: list[float] = []
        for graph in dict.fromkeys(line.graph for line in lines):
            mine = [line for line in lines if line.graph == graph and line.figures]
            points = sorted((int(line.contender.rpartition("-")[2]), value(line)) for line in mine)
            axes.plot([x for x, _ in points], [y for _, y in points], "o-", label=graph)
            seen += [y for _, y in points if y == y]  # what did not finish is NaN
        axes.set_xscale("log")
        if seen and max(seen) > DECADE * min(seen):
            axes.set_yscale("log")
        else:
            axes.set_ylim(0, 1.1 * max(seen, default=1.0))
        axes.set_xticks([x for x, _ in points], [f"{x:,}" for x, _ in points])
        axes.xaxis.set_minor_formatter("")
        axes.set_xlabel(title)
        axes.set_title(label, fontsize=9)
        axes.grid(alpha=0.3)
    every[0].legend(frameon=False)
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)


def over_reach(lines: Sequence[Line], file: Path) -> None:
    """Draw candidates, and times, over what seeds reach, by query; what is in proportion runs along the dotted line."""
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    measured = [line for line in lines if line.figures and line.seconds is not None]
    times: tuple[tuple[str, str, Callable[[Line], float]], ...] = (
        ("through Spark", "s--", lambda line: line.seconds or 0.0),
        ("in one thread", "o-", lambda line: line.figures["alone"]),
        ("the join alone", "^:", lambda line: line.figures["join"]),
    )
    for number, query in enumerate(dict.fromkeys(line.query for line in measured)):
        mine = sorted((line.figures["reached"], line) for line in measured if line.query == query)
        reached, color = [x for x, _ in mine], f"C{number}"
        left.plot(reached, [line.figures["candidates"] for _, line in mine], "o-", color=color, label=query)
        for label, style, value in times:
            shown = {"color": color, "label": "_" if number else label}
            right.plot(reached, [value(line) for _, line in mine], style, markersize=4, linewidth=1, **shown)
    ends = [min(line.figures["reached"] for line in measured), max(line.figures["reached"] for line in measured)]
    for axes, title, most in ((left, "candidates", "candidates"), (right, "seconds, by the colours of the queries", "join")):
        top = max(line.figures[most] for line in measured)
        axes.plot(ends, [top * x / ends[1] for x in ends], color="lightgray", linewidth=5, zorder=0, label="in proportion")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("edges that seeds reach")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=8)
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)


def over_epochs(lines: Sequence[Line], file: Path) -> None:
    """Draw the times of a stream's epochs one after another, by contender."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.5))
    for line in lines:
        axes.plot(*in_stretches(line.figures.get("epochs", [])), label=CONTENDERS[line.contender].label)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"epoch (means of {STRETCH})")
    axes.set_ylabel("seconds")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(file, bbox_inches="tight", metadata={"Date": None})
    pyplot.close(figure)


def in_stretches(epochs: Sequence[float]) -> tuple[list[int], list[float]]:
    """Return the middles of stretches of epochs, without the first epoch, and the means of their times."""
    times = epochs[1:]
    starts = range(0, len(times), STRETCH)
    return [start + STRETCH // 2 for start in starts], [fmean(times[start : start + STRETCH]) for start in starts]


def over_samples(lines: Sequence[Line], file: Path) -> None:
    """Draw the times of epochs, and what was sampled between them, beside each other."""
    from matplotlib import pyplot

    figure, every = pyplot.subplots(1, 3, figsize=(12, 3.2), layout="constrained")
    for line in lines:
        samples = line.figures.get("samples", [])
        numbers = [sample["epoch"] for sample in samples]
        every[0].plot(*in_stretches(line.figures.get("epochs", [])), label=line.graph)
        every[1].plot(numbers, [sample["memory"] / 2**20 for sample in samples])
        every[2].plot(numbers, [sample["files"] for sample in samples])
    titles = (f"seconds of an epoch (means of {STRETCH})", "memory of the process, MB", "files of the index")
    for axes, title in zip(every, titles, strict=True):
        axes.set_ylim(bottom=0)
        axes.set_xlabel("epoch")
        axes.set_title(title, fontsize=9)
        axes.grid(alpha=0.3)
    every[0].legend(frameon=False)
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)


def plot(suite: Suite, lines: Sequence[Line], file: Path) -> None:
    """Draw a suite; a line spans a contender's warm runs, an arrow points beyond a cut-off."""
    from matplotlib import pyplot

    cells = by_cell(lines)
    figure, axes = pyplot.subplots(figsize=(8, 1.2 + 0.3 * len(cells)))
    for number, name in enumerate(present(suite, lines)):
        color, label = f"C{number}", CONTENDERS[name].label
        for row, cell in enumerate(cells.values()):
            line = cell.get(name)
            if line is None or (line.seconds is None and line.over is None):
                continue
            if line.seconds is None:
                axes.plot(line.over, row, ">", color=color, fillstyle="none", markersize=5 + 3 * number, label=label)
            else:
                runs = line.warm or [line.seconds]
                axes.plot([min(runs), max(runs)], [row, row], color=color, linewidth=2, alpha=0.5)
                axes.plot(line.seconds, row, MARKS[number % len(MARKS)], color=color, label=label)
            label = "_"  # one entry in the legend
    several = len({line.meaning for line in lines}) > 1
    titles = [f"{graph}  {query}{f', {meaning}' if several else ''}" for graph, query, meaning in cells]
    axes.set_yticks(range(len(cells)), titles)
    axes.set_xscale("log")
    axes.set_xlabel("seconds (an open arrow: cut off there)")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.set_ylim(len(cells) - 0.5, -0.5)
    axes.grid(axis="x", alpha=0.3)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    figure.savefig(file, bbox_inches="tight", metadata={"Date": None})
    pyplot.close(figure)
