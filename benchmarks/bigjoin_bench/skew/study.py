"""Run the study: every strategy in every setting, in one session, with counts checked before a figure is kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bigjoin import __version__
from bigjoin.answers import Count
from bigjoin.defaults import EXCHANGE_BATCH_SIZE, STRATEGIES
from bigjoin.graph import Graph
from bigjoin.relations import Relations
from bigjoin.spark.session import get_session
from bigjoin_bench.graphs import AbsentError, Library
from bigjoin_bench.question import Question
from bigjoin_bench.results import Line, append, commit, machine, versions
from bigjoin_bench.skew.inputs import INPUTS, THEOREM, Asked, Input
from bigjoin_bench.skew.relations import theorem_batch

NAME = "skew"
"""What the study is called among the suites."""

CONTENDERS = tuple(name for name in ("partitioned", "balanced", "heavy-light") if name in STRATEGIES)
"""Strategies with exchanges."""

KEPT = 60
"""Exchanges of a run whose loads are kept one by one."""

ONCE = 8.0
"""Seconds beyond which a run is not repeated: loads are the same each time, and only times need a warm run."""


def inputs(names: Collection[str] = ()) -> list[Input]:
    """Return the inputs of some names; all but the long ones, if none is named."""
    return [given for given in INPUTS.values() if (given.name in names if names else not given.long)]


@dataclass
class Study:
    """A run of the study: where results go, and whom to tell."""

    file: Path
    library: Library
    rounds: int = 1
    """Warm runs of what is quick."""
    threads: int = 2
    say: Callable[[str], None] = lambda _: None
    contenders: Sequence[str] = CONTENDERS
    spark: SparkSession | None = None
    stamp: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    wrong: list[str] = field(default_factory=list)
    """Runs whose count was not the known one: their figures were not kept."""

    def run(self, chosen: Sequence[Input]) -> list[Line]:
        """Measure inputs, and return the new lines; those of an input are written down when all of them are there."""
        lines: list[Line] = []
        for given in chosen:
            spark = self.spark or get_session(f"local[{self.threads}]")
            started = time.perf_counter()
            try:
                source, counts = given.open(self.library, spark)
            except AbsentError as absent:
                self.say(str(absent))
                continue
            try:
                load = time.perf_counter() - started
                self.say(f"{given.name} is there after {load:.1f} s")
                found = [
                    line
                    for asked, count in zip(given.asked, counts, strict=True)
                    for line in self._asked(source, given, asked, count, load)
                ]
            finally:
                source.close()
            append(self.file, found)
            lines += found
        return lines

    def _asked(self, source: Graph | Relations, given: Input, asked: Asked, known: int, load: float) -> Iterator[Line]:
        question = asked.question
        flags: dict[str, Any] = question.flags
        shared = source.count(question.query, strategy="shared", **flags)
        title = f"{given.name}, {question.title}"
        if shared != known:
            self._refuse(f"{title}: {known:,} matches are known, and shared counts {int(shared):,}")
            return
        tuples = sum(relation.tuples for relation in shared._asked.index.statistics.relations.values())
        most = shared.stats["agm"]
        for workers, batch in asked.settings:
            size = theorem_batch(workers, tuples, most) if batch == THEOREM else EXCHANGE_BATCH_SIZE
            for strategy in self.contenders:
                counts: list[Count] = []
                runs = max(self.rounds + 1, given.draws if strategy == "balanced" else 1)
                while len(counts) < runs and (not counts or counts[0].seconds <= ONCE):
                    how: dict[str, Any] = {"strategy": strategy, "workers": workers, "batch_size": size, **flags}
                    counts.append(source.count(question.query, **how))
                what = f"{title}, {strategy}, {workers} workers, B' {size:,}"
                if any(count != known for count in counts):
                    self._refuse(f"{what}: {known:,} matches are known, and it counts {', '.join(map(str, counts))}")
                    continue
                self.say(f"{what}: {counts[-1].seconds:.2f} s, critical path {counts[-1].stats['critical_path']:,}")
                figures = {"strategy": strategy, "workers": workers, "batch": batch, "batch_size": size, "input": tuples}
                figures |= {"skewed": given.skewed, **figures_of(counts)}
                yield self._line(given, question, f"{strategy}-{workers}-{batch}", counts, load, figures)

    def _refuse(self, said: str) -> None:
        self.say(f"{said}; nothing is kept")
        self.wrong.append(said)

    def _line(
        self, given: Input, question: Question, contender: str, counts: Sequence[Count], load: float, figures: dict[str, Any]
    ) -> Line:
        return Line(
            run=self.stamp,
            suite=NAME,
            graph=given.name,
            query=question.query,
            meaning=question.meaning,
            contender=contender,
            version=__version__,
            count=str(counts[0]),
            cold=counts[0].seconds,
            warm=[count.seconds for count in counts[1:]],
            load=load,
            figures=figures,
            commit=commit(),
            versions=versions(),
            machine=machine(self.threads),
        )


def figures_of(counts: Sequence[Count]) -> dict[str, Any]:
    """Return what is kept of equal runs: the paper's communication, loads and memory, and what theorem 3.4 speaks of.

    Figures are the last run's; only of what hangs on the draw of hashes the worst is kept.
    """
    stats = counts[-1].stats
    tasks = stats["tasks"]
    kept = ("rounds", "exchanges", "tuples", "bytes", "critical_path", "index_tuples", "load", "agm", "peak_memory")
    balances = [count.stats["balance"] for count in counts if "balance" in count.stats]
    worst = {name: max(balance[name] or 0 for balance in balances) for name in balances[0]} if balances else {}
    return {
        **{name: stats[name] for name in kept},
        "explored": sum(step["prefixes"] + step["candidates"] for step in stats["steps"]),
        "busy": tasks["count"] * tasks["seconds"]["mean"],
        "loads": [[load["max"], round(load["mean"], 1)] for load in stats["exchange_loads"][:KEPT]],
        **({"balance": {**worst, "draws": [balance["lookups"] or 0 for balance in balances]}} if worst else {}),
        "kinds": kinds_of(stats["exchange_loads"]),
    }


def kinds_of(loads: Sequence[dict[str, Any]]) -> dict[str, list[float]]:
    """Return the most and the mean that workers received, added up over exchanges of a kind, where these say what they are."""
    kinds: dict[str, list[float]] = {}
    for load in loads:
        if (what := load.get("of")) is not None:
            kind = what if what == "deal" else "answers" if what.endswith("answers") else "requests"
            most, mean = kinds.get(kind, [0, 0.0])
            kinds[kind] = [most + load["max"], mean + load["mean"]]
    return kinds
