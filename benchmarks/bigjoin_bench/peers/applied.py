"""bigjoin applying tables of updates as epochs in this process, without Spark, and building an index instead."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa

from bigjoin import __version__
from bigjoin.defaults import LOCAL, SyncName
from bigjoin.errors import BigjoinError
from bigjoin.graph import Graph
from bigjoin.indexing import build_index
from bigjoin_bench.feeds import Feed, after_first
from bigjoin_bench.memory import Peak
from bigjoin_bench.question import Answer, Input, Question


class Changing:
    """An index that epochs change: each run begins with a copy of it."""

    undirected: bool
    index: Path

    def __init__(self, *, threads: int, sync: SyncName = "epoch") -> None:
        del threads  # delta queries of a small epoch are one thread's
        self.sync = sync
        self._folder = tempfile.TemporaryDirectory(prefix="bigjoin-bench-")
        self.scratch = Path(self._folder.name)

    def version(self) -> str:
        return __version__

    def build(self, edges: pa.Table, name: str) -> Path:
        """Build an index of edges in the scratch folder, in the place of one of that name."""
        place = self.scratch / name
        shutil.rmtree(place, ignore_errors=True)
        build_index(edges, place, directed=not self.undirected)
        return place

    @contextmanager
    def copied(self) -> Iterator[Graph]:
        """Give a graph that may be changed."""
        place = self.scratch / "graph"
        shutil.copytree(self.index, place)
        try:
            with Graph.open(place) as graph:
                yield graph
        finally:
            shutil.rmtree(place)

    def epochs(self, graph: Graph, question: Question, tables: Iterable[pa.Table]) -> Iterator[tuple[int, float]]:
        """Apply tables one after another; give the count after each, and how long it took until it was reported."""
        how: dict[str, Any] = {"listing": False, "sync": self.sync, "strategy": LOCAL, **question.flags}
        for table in tables:
            begun = time.perf_counter()
            count = graph.apply(table, question.query, **how).count
            yield count, time.perf_counter() - begun

    def count_anew(self, question: Question, edges: pa.Table) -> int:
        """Return the count of a new index of edges."""
        with Graph.open(self.build(edges, "anew")) as graph:
            return int(graph.count(question.query, strategy=LOCAL, **question.flags))  # type: ignore[call-overload]

    @staticmethod
    def check(question: Question, count: int, expected: int) -> None:
        """Raise BigjoinError if a count that was kept is not the one that there should be."""
        if count != expected:
            raise BigjoinError(f"{question.title}: {count:,} matches were kept, and there are {expected:,}")


class Applied(Changing):
    """Keeps the count of a query through every epoch; `total` takes the time until all are durable, and not that of one."""

    def __init__(self, *, threads: int, sync: SyncName = "epoch", total: bool = False, **feed: Any) -> None:
        super().__init__(threads=threads, sync=sync)
        self.feed, self.total = Feed(**feed), total
        self.after: dict[Question, int] = {}

    def load(self, graph: Input) -> None:
        """Build the index of the edges that are there first."""
        self.undirected = graph.undirected
        self.first, self.later = self.feed.split(graph)
        self.index = self.build(self.first, "index")

    def run(self, question: Question) -> Answer:
        """Apply all updates; the count is that of an index that is built anew, or this is an error."""
        tables = self.feed.tables(self.later)
        with Peak() as peak, self.copied() as graph:
            ((before, _),) = self.epochs(graph, question, [tables[0].slice(0, 0)])
            started = time.perf_counter()
            counts, times = map(list, zip(*self.epochs(graph, question, tables), strict=True))
            graph.flush()
            seconds = time.perf_counter() - started
        if question not in self.after:
            self.after[question] = self.count_anew(question, pa.concat_tables([self.first, self.later]))
        count = counts[-1]
        self.check(question, count, self.after[question])
        figures = {"updates": self.feed.updates, "epochs": times, "changed": count - before, "process": peak.bytes}
        both_end_alike = self.feed.base is None
        return Answer(count if both_end_alike else None, seconds if self.total else fmean(after_first(times)), figures)


class Anew:
    """No updates: an index of all edges is built, and matches are counted in it."""

    def __init__(self, *, threads: int) -> None:
        self.threads = threads

    def version(self) -> str:
        return __version__

    def load(self, graph: Input) -> None:
        """Remember the file: building is part of what is measured."""
        self.graph = graph

    def run(self, question: Question) -> Answer:
        """Build and count; the time of counting alone is a figure."""
        with closing(Graph(self.graph.path, directed=not self.graph.undirected, properties=False)) as graph:
            how: dict[str, Any] = {"strategy": LOCAL, "workers": self.threads, **question.flags}
            found = graph.count(question.query, **how)
            return Answer(int(found), figures={"counting": found.seconds})
