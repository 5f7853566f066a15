"""Plots of the skew study: critical paths over the number of workers, and loads exchange by exchange."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bigjoin_bench.report.plots import styled
from bigjoin_bench.report.skew_cells import BASE, Cell, path, tuples

COLUMNS = 3


def draw_paths(cells: Sequence[Cell], names: Sequence[str], folder: Path | None) -> list[Path]:
    """Draw, for each question, the critical path of each strategy over the number of workers, and an even share beside it."""
    alike: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        alike.setdefault((cell.title, cell.batch), []).append(cell)
    shown = {title: mine for (title, _), mine in alike.items() if len(mine) > 1}
    if folder is None or not shown:
        return []
    pyplot = styled(folder)
    rows = -(-len(shown) // COLUMNS)
    figure, every = pyplot.subplots(rows, COLUMNS, figsize=(10, 2.6 * rows), layout="constrained", squeeze=False)
    for axes in every.flat[len(shown) :]:
        axes.set_axis_off()
    for axes, (title, mine) in zip(every.flat, shown.items(), strict=False):
        for number, name in enumerate(names):
            taking_part = sorted((cell for cell in mine if name in cell.lines), key=lambda cell: cell.workers)
            points = [(cell.workers, cell.lines[name]) for cell in taking_part]
            axes.plot([w for w, _ in points], [path(line) for _, line in points], "o-", color=f"C{number}", label=name)
            even = [tuples(line) / w for w, line in points]
            axes.plot([w for w, _ in points], even, "--", color=f"C{number}", alpha=0.5, label=f"{name}, an even share")
        axes.set_xscale("log")
        axes.set_yscale("log")
        workers = sorted({cell.workers for cell in mine})
        axes.set_xticks(workers, [str(w) for w in workers])
        axes.xaxis.set_minor_formatter("")
        axes.set_title(title, fontsize=9)
        axes.grid(alpha=0.3)
    every[0][0].legend(frameon=False, fontsize=7)
    figure.supxlabel("workers", fontsize=9)
    figure.supylabel("critical path, tuples", fontsize=9)
    file = folder / "critical-paths.svg"
    _save(figure, pyplot, file)
    return [file]


def draw_loads(cells: Sequence[Cell], names: Sequence[str], folder: Path | None) -> list[Path]:
    """Draw, for each question in all three numbers of workers, the most and the mean that workers received in each exchange."""
    files = []
    settings: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        if BASE in cell.lines:
            settings.setdefault((cell.title, cell.batch), []).append(cell)
    for (title, _), mine in settings.items():
        if folder is None or len(mine) < COLUMNS:
            continue
        pyplot = styled(folder)
        figure, every = pyplot.subplots(1, len(mine), figsize=(10, 2.6), layout="constrained", sharey=True)
        for axes, cell in zip(every, sorted(mine, key=lambda cell: cell.workers), strict=True):
            for number, name in enumerate(names):
                if name in cell.lines:
                    _loads(axes, cell, name, f"C{number}")
            axes.set_yscale("log")
            axes.set_title(f"{title}, {cell.workers} workers", fontsize=9)
            axes.set_xlabel("exchange")
            axes.grid(alpha=0.3)
        every[0].set_ylabel("tuples of a worker")
        every[-1].legend(frameon=False, fontsize=7)
        file = folder / f"loads-{title.lower().replace(', ', '-').replace(' ', '-').replace('.', '-')}.svg"
        _save(figure, pyplot, file)
        files.append(file)
    return files


def _loads(axes: Any, cell: Cell, name: str, color: str) -> None:
    loads = cell.lines[name].figures["loads"]
    numbers = range(1, len(loads) + 1)
    mark = "o-" if len(loads) < 20 else "-"
    axes.plot(numbers, [max(1, most) for most, _ in loads], mark, color=color, markersize=3, label=f"{name}, most")
    axes.plot(numbers, [max(1.0, mean) for _, mean in loads], "--", color=color, alpha=0.6, label=f"{name}, mean")


def _save(figure: Any, pyplot: Any, file: Path) -> None:
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)
