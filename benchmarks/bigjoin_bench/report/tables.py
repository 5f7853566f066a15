"""The tables that every suite has: warm times with a ratio, cold times, and what loading takes."""

from __future__ import annotations

from collections.abc import Sequence

from bigjoin_bench.contenders import CONTENDERS
from bigjoin_bench.report.cells import best_of, by_cell, cold_of, megabytes, ratio_of, seconds, table, time_of
from bigjoin_bench.results import Line, geometric_mean, ratio
from bigjoin_bench.suites import Suite


def warm(suite: Suite, lines: Sequence[Line]) -> str:
    """Return medians and spreads beside each other, and the fastest peer's time over ours."""
    names = present(suite, lines)
    several = len({line.meaning for line in lines}) > 1
    rows = [
        [
            graph,
            f"{query}, {meaning}" if several else query,
            _count(list(cell.values())),
            *(time_of(cell.get(name)) for name in names),
            *([ratio_of([cell[name] for name in suite.peers if name in cell], cell.get(suite.ours))] if suite.versus else []),
        ]
        for (graph, query, meaning), cell in by_cell(lines).items()
    ]
    return table(["graph", "query", "count", *labels(names), *(["best peer / ours"] if suite.versus else [])], rows, words=2)


def summary(suite: Suite, lines: Sequence[Line]) -> str:
    """Return how bigjoin compares with the best peer, with those beside it, and with what no program can do without."""
    if not suite.versus:
        return ""
    beside = [name for name in suite.beside if not CONTENDERS[name].is_floor]
    floors = [name for name in suite.beside if CONTENDERS[name].is_floor]
    said = [_ratios(suite, lines, "the best peer", suite.peers)]
    said += [_ratios(suite, lines, CONTENDERS[name].label, (name,)) for name in beside]
    said += [_over_floor(suite, lines, name) for name in floors]
    return " ".join(filter(None, said))


def _ratios(suite: Suite, lines: Sequence[Line], title: str, peers: Sequence[str]) -> str:
    """Return the least ratio of the best of these peers to us, and the geometric mean, over the cells that some finished."""
    ratios = []
    unfinished = 0
    for cell in by_cell(lines).values():
        ours, theirs = cell.get(suite.ours), [cell[name] for name in peers if name in cell]
        best = best_of(theirs)
        if ours is not None and best is not None:
            ratios.append(ratio(best, ours))
        elif theirs:
            unfinished += 1
    known = [r for r in ratios if r is not None]
    mean = geometric_mean(known)
    if mean is None:
        return ""
    left_out = f"; without {unfinished} that did not finish" if unfinished else ""
    return f"Ratio to {title}: at least {min(known):.2f}, geometric mean {mean:.2f} (of {len(known)}{left_out})."


def _over_floor(suite: Suite, lines: Sequence[Line], name: str) -> str:
    """Return the largest ratio of us to a floor, and the geometric mean."""
    pairs = [(cell[suite.ours], cell[name]) for cell in by_cell(lines).values() if {suite.ours, name} <= cell.keys()]
    known = [r for ours, floor in pairs if (r := ratio(ours, floor)) is not None]
    mean = geometric_mean(known)
    if mean is None:
        return ""
    most, middle = (f"{value:,.{0 if value >= 100 else 1}f}" for value in (max(known), mean))
    return f"bigjoin / {CONTENDERS[name].label}: at most {most}, geometric mean {middle} (of {len(known)})."


def cold(suite: Suite, lines: Sequence[Line]) -> str:
    """Return the times of first runs."""
    names = present(suite, lines)
    rows = [[graph, query, *(cold_of(cell.get(name)) for name in names)] for (graph, query, _), cell in by_cell(lines).items()]
    return table(["graph", "query", *labels(names)], rows, words=2)


def loading(suite: Suite, lines: Sequence[Line]) -> str:
    """Return what loading (or building an index) took, and the peaks of memory."""
    rows = []
    for graph in dict.fromkeys(line.graph for line in lines):
        for name in present(suite, lines):
            mine = [line for line in lines if (line.graph, line.contender) == (graph, name)]
            if mine:
                peaks = [max(line.memory.get(when, 0) for line in mine) for when in ("load", "run")]
                rows.append(
                    [graph, f"{CONTENDERS[name].label} {mine[0].version}", seconds(mine[0].load), *map(megabytes, peaks)]
                )
    return table(["graph", "contender", "load", "memory, loading", "memory, running"], rows, words=2)


def present(suite: Suite, lines: Sequence[Line]) -> list[str]:
    """Return the suite's contenders that took part."""
    taking_part = {line.contender for line in lines}
    return [name for name in suite.contenders if name in taking_part]


def labels(names: Sequence[str]) -> list[str]:
    """Return what contenders are called."""
    return [CONTENDERS[name].label for name in names]


def _count(lines: Sequence[Line]) -> str:
    counts = {line.count for line in lines if line.count is not None}
    return f"{int(counts.pop()):,}" if counts else ""
