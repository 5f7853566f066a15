"""Run suites: graphs are prepared, contenders load them, take turns, and what they did is written down at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from bigjoin_bench.contenders import CONTENDERS
from bigjoin_bench.graphs import BUNDLED, AbsentError, Library
from bigjoin_bench.process import CutOff, Failed, Process, Reply
from bigjoin_bench.question import Input, Question
from bigjoin_bench.results import Line, append, commit, machine, versions
from bigjoin_bench.rounds import CountsDiffer, Limits, Times, compare
from bigjoin_bench.suites import Suite

QUICK = Limits(rounds=2, cut_off=10.0, once=10.0)
QUICK_SECONDS = 140.0
"""After so long a quick run asks nothing new, so that it ends within three minutes."""

START = 120.0
"""Seconds that a contender may take to start."""


@dataclass
class Loaded:
    """A contender with its graph; where it was cut off, it starts and loads again for the next question."""

    name: str
    graph: Input
    threads: int
    limits: Limits
    load: float | None = None
    memory: int = 0
    version: str = ""
    _process: Process | None = field(default=None, repr=False)

    def run(self, question: Question, *, patience: float) -> Reply:
        """Answer a question; raise CutOff or Failed."""
        return self.ready().run(question, patience=patience)

    def ready(self) -> Process:
        """Return the process, started and loaded."""
        if self._process is None or not self._process.alive:
            self.close()
            self._process = Process(self.name, threads=self.threads, patience=min(START, self.limits.load_patience))
            reply = self._process.load(self.graph, patience=self.limits.load_patience)
            if self.load is None:
                self.load, self.memory = reply.said["seconds"], reply.memory
            self.version = self._process.version
        return self._process

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.close()
            self._process = None


@dataclass
class Bench:
    """A run: where results go, how long things may take, and whom to tell."""

    file: Path
    library: Library
    limits: Limits = field(default_factory=Limits)
    threads: int = 2
    say: Callable[[str], None] = lambda _: None
    stamp: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    wrong: list[str] = field(default_factory=list)
    """Questions whose counts differed: their times were not kept."""

    def run(self, suites: Iterable[Suite], graphs: Sequence[str] = ()) -> list[Line]:
        """Run suites, on some graphs or on all of theirs, and return the new lines."""
        lines: list[Line] = []
        for suite in suites:
            for name in suite.graphs:
                if graphs and name not in graphs:
                    continue
                if self.limits.expired:
                    self.say(f"{suite.name} on {name} is skipped: time is up")
                    continue
                try:
                    graph = self.library.get(name, suite.form)
                except AbsentError as absent:
                    self.say(str(absent))
                    continue
                lines += self._on_graph(suite, graph)
        return lines

    def _on_graph(self, suite: Suite, graph: Input) -> Iterator[Line]:
        limits = self.limits if suite.cut_off is None else replace(self.limits, cut_off=suite.cut_off)
        if suite.rounds is not None:
            limits = replace(limits, rounds=min(limits.rounds, suite.rounds))
        with self._seated(suite, graph) as seats:
            for question in suite.questions if seats else ():
                title = f"{suite.name}, {graph.name}, {question.title}"
                if self.limits.expired:
                    self.say(f"{title} is skipped: time is up")
                    continue
                try:
                    times = compare(seats, question, limits, self._telling(title))
                except CountsDiffer as differ:
                    self.say(f"{title}: nothing is kept: {differ}")
                    self.wrong.append(str(differ))
                    continue
                found = [self._line(suite, question, seat, times[seat.name]) for seat in seats]
                append(self.file, found)
                yield from found

    def _telling(self, title: str) -> Callable[[str], None]:
        return lambda what: self.say(f"{title}: {what}")

    @contextmanager
    def _seated(self, suite: Suite, graph: Input) -> Iterator[list[Loaded]]:
        """Give the contenders that could load the graph, and end them all afterwards."""
        seats: list[Loaded] = []
        try:
            for name in suite.contenders:
                if missing := CONTENDERS[name].missing:
                    self.say(missing)
                    continue
                if self.limits.expired:
                    continue
                seat = Loaded(name, graph, CONTENDERS[name].threads or self.threads, self.limits)
                seats.append(seat)
                try:
                    seat.ready()
                    self.say(f"{suite.name}, {graph.name}: {name} has loaded it in {seat.load or 0:.2f} s")
                except CutOff:
                    self.say(f"{suite.name}, {graph.name}: {name} is left out: it did not load it in time")
                    seats.remove(seat)
                except Failed as failure:
                    self.say(f"{suite.name}, {graph.name}: {name} is left out: {failure}")
                    seats.remove(seat)
            yield seats
        finally:
            for seat in seats:
                seat.close()

    def _line(self, suite: Suite, question: Question, seat: Loaded, times: Times) -> Line:
        return Line(
            run=self.stamp,
            suite=suite.name,
            graph=seat.graph.name,
            query=question.query,
            meaning=question.meaning,
            contender=seat.name,
            version=seat.version,
            count=None if times.count is None else str(times.count),
            cold=times.cold,
            warm=times.warm,
            over=times.over,
            failure=times.failure,
            load=seat.load,
            memory={"load": seat.memory, "run": times.memory},
            figures=times.figures,
            commit=commit(),
            versions=versions(),
            machine=machine(seat.threads),
        )


def quick(suites: Iterable[Suite]) -> tuple[list[Suite], Limits]:
    """Return what a quick run keeps of suites, and limits that let it end within three minutes from now."""
    kept = [replace(s, graphs=(BUNDLED,), questions=s.quick) for s in suites if s.quick]
    return kept, replace(QUICK, deadline=time.monotonic() + QUICK_SECONDS)
