"""How a number is shown, and lines by the cell that they belong to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bigjoin_bench.results import Line, ratio

MISSING = "-"


def table(titles: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """Return a Markdown table; all columns but the first few hold numbers."""
    marks = ["---"] * words + ["---:"] * (len(titles) - words)
    return (
        "\n".join(f"| {' | '.join(cells)} |" for cells in (titles, marks, *rows))
        .replace("| --- ", "|---")
        .replace("| ---: ", "|---:")
    )


SHORT = 0.01
"""Seconds below which a time is shown in milliseconds."""


def seconds(value: float | None) -> str:
    """Return a time, with as many digits as it deserves."""
    if value is None:
        return MISSING
    if value < SHORT:
        return f"{_milliseconds(value)} ms"
    return f"{value:.3f} s" if value < 0.1 else f"{value:.2f} s" if value < 100 else f"{value:.0f} s"


def milliseconds(value: float | None) -> str:
    """Return a time that is short."""
    return MISSING if value is None else f"{1000 * value:,.2f} ms"


def time_of(line: Line | None) -> str:
    """Return the median and the spread of the warm runs; '>' where it was cut off."""
    if line is None:
        return MISSING
    if line.over is not None:
        return f"> {line.over:.0f} s"
    if line.failure is not None:
        return "failed"
    if not line.warm:
        return f"{seconds(line.cold)} (once)"
    short = _milliseconds if (line.seconds or 0.0) < SHORT else _short  # in the unit of the median
    return f"{seconds(line.seconds)} ({short(min(line.warm))} to {short(max(line.warm))})"


def cold_of(line: Line | None) -> str:
    """Return the time of the first run."""
    return MISSING if line is None else f"> {line.over:.0f} s" if line.over is not None else seconds(line.cold)


def megabytes(value: int | None) -> str:
    """Return a size."""
    return f"{value / 2**20:,.0f} MB" if value else MISSING


def ratio_of(peers: Sequence[Line], ours: Line | None) -> str:
    """Return the time of the fastest peer over ours; '>' where no peer finished."""
    if ours is None or ours.seconds is None:
        return MISSING
    if (best := best_of(peers)) is not None:
        return f"{ratio(best, ours) or 0:.1f}"
    cut_off = [peer.over for peer in peers if peer.over is not None]
    return f"> {min(cut_off) / ours.seconds:.1f}" if cut_off else MISSING


def best_of(peers: Sequence[Line]) -> Line | None:
    """Return the fastest of those that finished."""
    return min((peer for peer in peers if peer.seconds is not None), key=lambda peer: peer.seconds or 0.0, default=None)


def by_cell(lines: Iterable[Line]) -> dict[tuple[str, str, str], dict[str, Line]]:
    """Return lines by graph, query and meaning, and then by contender, in the order of the lines."""
    cells: dict[tuple[str, str, str], dict[str, Line]] = {}
    for line in lines:
        cells.setdefault((line.graph, line.query, line.meaning), {})[line.contender] = line
    return cells


def _milliseconds(value: float) -> str:
    thousands = 1000 * value
    return f"{thousands:.2f}" if 0 < thousands < 1 else f"{thousands:.1f}" if 0 < thousands < 10 else f"{thousands:.0f}"


def _short(value: float) -> str:
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}"
