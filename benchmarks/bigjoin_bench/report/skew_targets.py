"""The aims of the strategies, and whether the results meet them: one row for each aim."""

from __future__ import annotations

from collections.abc import Sequence

from bigjoin_bench.report.cells import table
from bigjoin_bench.report.skew_cells import BASE, Cell, Figure, busy, path, sent_bytes, strategies_of, tuples

TARGET_WORKERS = 64
"""The number of workers at which paths are compared."""

MIN_PATH_RATIO, MAX_LOOKUPS = 5.0, 1.2
"""How many times shorter a path must be; the largest number of lookups, as a multiple of B'."""

MAX_WORK = {"balanced": 2.0, "heavy-light": 1.3}
"""The largest amount of work on real graphs, as a multiple of partitioned's."""


def targets(cells: Sequence[Cell]) -> str:
    """Return a table of aims: the target, the measured range, and where the target was missed."""
    balanced = [cell.lines["balanced"].figures["balance"] for cell in cells if "balanced" in cell.lines]
    full = [draw for cell in cells if cell.by_theorem for draw in cell.draws]
    rows = []
    if balanced:
        dealt = max(found["dealt"] for found in balanced)
        rows.append(_row("balanced: work dealt within", "1", f"{dealt}", dealt <= 1))
        for name, most in (("new", 2.0), ("waiting", 4.0)):
            share = max(found[name] for found in balanced)
            rows.append(_row(f"balanced: {name} prefixes, in B", f"at most {most:g}", f"{share:.2f}", share <= most))
    if full:
        worst = {cell.title: max(cell.draws) for cell in cells if cell.by_theorem and cell.draws}
        over = [f"{title} {most:.2f}" for title, most in worst.items() if most > MAX_LOOKUPS]
        said = f"missed on {', '.join(over)}" if over else "met"
        rows.append(
            ["balanced: lookups / B' in a full batch", f"at most {MAX_LOOKUPS}", f"{min(full):.2f} to {max(full):.2f}", said]
        )
    for name in strategies_of(cells):
        if name != BASE:
            rows += _against(name, cells)
    return table(["aim", "", "seen", ""], rows, words=4)


def _against(name: str, cells: Sequence[Cell]) -> list[list[str]]:
    skewed = [cell for cell in cells if cell.is_skewed and cell.workers == TARGET_WORKERS]
    real = [cell for cell in cells if not cell.is_skewed]
    title = f"{name}: critical path, times shorter than {BASE}'s, {TARGET_WORKERS} workers, skewed inputs"
    shorter = [(1 / ratio, f"{cell.title} ({_imbalance(cell):.1f})") for cell in skewed if (ratio := cell.over(name, path))]
    rows = []
    if shorter:
        missed = [f"{where} {times:.1f}" for times, where in shorter if times < MIN_PATH_RATIO]
        seen = f"{min(shorter)[0]:.1f} to {max(shorter)[0]:.1f}"
        said = f"missed on ({BASE}'s imbalance in brackets) {', '.join(missed)}" if missed else "met"
        rows.append([title, f"at least {MIN_PATH_RATIO:g}", seen, said])
    for what, some, figure, most in (
        ("tuples", cells, tuples, None),
        ("bytes", cells, sent_bytes, None),
        ("tuples, real graphs,", real, tuples, MAX_WORK[name]),
        ("busy seconds, real graphs,", real, busy, MAX_WORK[name]),
    ):
        rows += _at_most(f"{name}: {what} over {BASE}'s", name, some, figure, most)
    return rows


def _imbalance(cell: Cell) -> float:
    """Return how many times longer partitioned's path is than if all workers had received the same."""
    figures = cell.lines[BASE].figures
    return float(figures["critical_path"] * cell.workers / max(1, figures["tuples"]))


def _at_most(title: str, name: str, cells: Sequence[Cell], figure: Figure, most: float | None) -> list[list[str]]:
    ratios = [ratio for cell in cells if (ratio := cell.over(name, figure)) is not None]
    if not ratios:
        return []
    seen = f"{min(ratios):.2f} to {max(ratios):.2f}"
    if most is None:  # there is no target to meet
        return [[title, "a constant", seen, "see Communication"]]
    over = sum(ratio > most for ratio in ratios)
    return [[title, f"at most {most:g}", seen, f"missed in {over} of {len(ratios)}" if over else "met"]]


def _row(aim: str, wanted: str, seen: str, met: bool) -> list[str]:
    return [aim, wanted, seen, "met" if met else "missed"]
