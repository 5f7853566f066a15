"""Lines of the skew study by what can be compared: the same question, workers and batch size under several strategies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from bigjoin_bench.question import Question
from bigjoin_bench.results import Line, newest
from bigjoin_bench.skew.inputs import INPUTS, THEOREM
from bigjoin_bench.skew.relations import QUERY
from bigjoin_bench.skew.study import CONTENDERS, NAME

BASE = "partitioned"
"""What other strategies are measured against."""

Figure = Callable[[Line], float]


@dataclass(frozen=True)
class Cell:
    """One question about one input in one setting, and what each strategy did."""

    graph: str
    query: str
    meaning: str
    workers: int
    batch: str
    lines: dict[str, Line] = field(default_factory=dict)
    draws: list[float] = field(default_factory=list)
    """Lookups of a worker in a full batch, over B', at worst: of every run that was ever measured, since luck is part of it."""

    @property
    def title(self) -> str:
        return self.graph if self.query == QUERY else f"{self.graph}, {Question(self.query, self.meaning).title}"

    @property
    def is_skewed(self) -> bool:
        return all(line.figures["skewed"] for line in self.lines.values())

    @property
    def by_theorem(self) -> bool:
        return self.batch == THEOREM

    @property
    def setting(self) -> str:
        return f"{self.workers}{'' if self.by_theorem == self.is_skewed else f', {self.batch}'}"

    def over(self, strategy: str, figure: Figure) -> float | None:
        """Return a figure of a strategy over that of the one that all are measured against."""
        if strategy not in self.lines or BASE not in self.lines:
            return None
        base = figure(self.lines[BASE])
        return figure(self.lines[strategy]) / base if base else None


def cells_of(lines: Iterable[Line]) -> list[Cell]:
    """Return what the newest runs measured, in the order of the inputs."""
    cells: dict[tuple[str, str, str, int, str], Cell] = {}
    known, mine = list(INPUTS), [line for line in lines if line.suite == NAME]
    for line in newest(mine):
        cells.setdefault(_key(line), Cell(*_key(line))).lines[line.figures["strategy"]] = line
    for line in mine:
        if (balance := line.figures.get("balance")) and _key(line) in cells:
            draws = balance.get("draws") or [balance["lookups"]]
            cells[_key(line)].draws.extend(draw for draw in draws if draw)  # zero: no batch was full
    return sorted(cells.values(), key=lambda cell: known.index(cell.graph) if cell.graph in known else len(known))


def _key(line: Line) -> tuple[str, str, str, int, str]:
    return line.graph, line.query, line.meaning, line.figures["workers"], line.figures["batch"]


def strategies_of(cells: Sequence[Cell]) -> list[str]:
    """Return the strategies that took part."""
    return [name for name in CONTENDERS if any(name in cell.lines for cell in cells)]


def path(line: Line) -> float:
    """Return the critical path: what the busiest worker receives, added up over all exchanges."""
    return float(line.figures["critical_path"])


def tuples(line: Line) -> float:
    """Return what all workers received in all exchanges."""
    return float(line.figures["tuples"])


def sent_bytes(line: Line) -> float:
    """Return the bytes that travelled."""
    return float(line.figures["bytes"])


def busy(line: Line) -> float:
    """Return the seconds that tasks were at work, added up."""
    return float(line.figures["busy"])


def imbalance(line: Line) -> float:
    """Return the critical path over an even share of all that travelled: 1 if workers always receive the same."""
    return path(line) * float(line.figures["workers"]) / max(1.0, tuples(line))


def each_explored(line: Line) -> float:
    """Return the tuples that travel for each prefix and candidate."""
    return tuples(line) / max(1.0, float(line.figures["explored"]))
