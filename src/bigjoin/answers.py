"""What verbs answer besides DataFrames: a number of matches and an explanation, with the figures of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bigjoin.errors import BigjoinError
from bigjoin.explain import as_text
from bigjoin.explained import Explained
from bigjoin.html_tables import titled
from bigjoin.local.strategy import Ask, Outcome
from bigjoin.planner.agm import agm_bound
from bigjoin.query.statement import Statement

if TYPE_CHECKING:
    from bigjoin.drawing.drawing import Drawing


class Stats(dict[str, Any]):
    """The figures of a run, as a dictionary, which a notebook shows as tables and bars."""

    def _repr_html_(self) -> str:
        from bigjoin.drawing.stats import stats_html

        return stats_html(self)


class Count(int):
    """The number of matches. It is an int, and has the figures of the run that found it."""

    seconds: float
    """How long the query took, without starting Spark."""
    strategy: str
    """The strategy that the query ran under."""
    why: str
    """Why this strategy was chosen."""
    workers: int
    """The number of tasks or threads, or of owners of keys."""
    _ran: Outcome
    _asked: Ask

    @classmethod
    def of(cls, ran: Outcome, asked: Ask, strategy: str, seconds: float, why: str) -> Count:
        """Return the count of a run, with its figures."""
        count = cls(ran.matches)
        count._ran, count._asked = ran, asked
        count.strategy, count.why, count.workers, count.seconds = strategy, why, ran.workers, seconds
        return count

    def _repr_html_(self) -> str | None:
        if not hasattr(self, "strategy"):  # not of a run
            return None
        return titled(f"{self:,}", f"{'match' if self == 1 else 'matches'}, {self.strategy}, {self.seconds:.2f} s")

    def cut(self, statement: Statement) -> Count:
        """Return what SKIP and LIMIT of a statement leave of it."""
        left = statement.cut(self)
        ran = self._ran if left == self else replace(self._ran, matches=left)
        return Count.of(ran, self._asked, self.strategy, self.seconds, self.why)

    def draw_loads(self) -> Drawing:
        """Draw what workers, or tasks, had to do: the most that one of them got, beside the mean.

        Under strategies that exchange prefixes, these are tuples that workers received; under the others, seconds of tasks.

        Examples:
            >>> graph = bj.Graph([(1, 2), (2, 3), (3, 1), (3, 4)], directed=False)
            >>> graph.count("triangle", strategy="local").draw_loads()
            Drawing('loads under local')
        """
        from bigjoin.drawing.load_plot import load_plot

        if not hasattr(self, "strategy"):
            raise BigjoinError("this number is of no run: draw the loads of what count returns")
        return load_plot(self.stats, strategy=self.strategy)

    @cached_property
    def stats(self) -> Stats:
        """The figures of the run: rounds, steps, memory, seconds, the tuples that workers hold, and the AGM bound."""
        tuples = self._ran.index_tuples()
        held = {"max": int(tuples.max()), "mean": float(tuples.mean())}
        agm = sum(agm_bound(query, self._asked.index.statistics) for query in self._asked.queries)
        stats = Stats({**self._ran.stats, "index_tuples": held, "agm": agm})
        if seeds := self._asked.seeds:
            stats["seeds"] = seeds
        return stats


class Explanation(str):
    """What `explain` says of a query: a text, which notebooks show with pictures.

    It is a `str`. After `explain(..., analyze=True)`, `stats` are the figures of the run; otherwise, they are None.

    Examples:
        >>> explanation = bj.Graph([(1, 2), (2, 3), (3, 1)]).explain("triangle")
        >>> print(explanation.splitlines()[0])
        triangle(a1, a2, a3) := edge(a1, a2), edge(a1, a3), edge(a2, a3)
        >>> explanation.save("triangle.html")
    """

    __slots__ = ("explained", "stats")
    explained: Explained | None
    """What it explains, as values."""
    stats: Stats | None

    def __new__(cls, text: str, explained: Explained | None = None, stats: Stats | None = None) -> Explanation:
        explanation = super().__new__(cls, text)
        explanation.explained, explanation.stats = explained, stats
        return explanation

    @classmethod
    def of(cls, explained: Explained, stats: Stats | None = None) -> Explanation:
        """Return the explanation of what is planned."""
        return cls(as_text(explained), explained, stats)

    @property
    def html(self) -> str:
        """The explanation as a complete page: the pattern, the attribute order, the steps with their sizes, and the text."""
        from bigjoin.drawing.explanation import explanation_page, text_page

        text = str.__str__(self)
        return text_page("explain", text) if self.explained is None else explanation_page(self.explained, text)

    def save(self, path: str | Path) -> None:
        """Write the page to a file.

        Args:
            path: A file that ends in `.html`. It appears when it is complete, and replaces an existing one.
        """
        from bigjoin.drawing.saving import HTML_SUFFIXES, check_picture, save

        check_picture(Path(path), HTML_SUFFIXES)
        save(Path(path), self.html)

    def _repr_html_(self) -> str | None:
        from bigjoin.drawing.explanation import explanation_fragment

        return None if self.explained is None else explanation_fragment(self.explained, str.__str__(self))

    def __repr__(self) -> str:
        return str.__str__(self)


def added(counts: Sequence[Count]) -> Count:
    """Return the sum of counts, with the figures of all their runs."""
    if len(counts) == 1:
        return counts[0]
    figures = [count._ran.stats for count in counts]
    stats = dict(figures[0])
    for name in ("rounds", "exchanges", "bytes", "tuples", "critical_path", "kernels_compiled"):
        if name in stats:
            stats[name] = sum(one[name] for one in figures)
    for name in ("load", "waiting", "balance"):
        if name in stats:
            stats[name] = {part: max((one[name][part] for one in figures), key=_known) for part in stats[name]}
    if "exchange_loads" in stats:
        stats["exchange_loads"] = [load for one in figures for load in one["exchange_loads"]]
    stats["peak_memory"] = max(one["peak_memory"] for one in figures)
    stats["seconds"] = {part: sum(one["seconds"][part] for one in figures) for part in ("plan", "run")}
    stats["steps"] = [step for one in figures for step in one["steps"]]
    first, seconds = counts[0], sum(count.seconds for count in counts)
    ran = replace(first._ran, matches=sum(counts), stats=stats)
    return Count.of(ran, first._asked, first.strategy, seconds, first.why)


def _known(figure: float | None) -> float:
    """Return a figure, or a smaller number than any figure if it is None."""
    return -1.0 if figure is None else figure
