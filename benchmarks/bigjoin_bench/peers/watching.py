"""bigjoin watching queries while a stream of updates changes the graph, checked against the graph that comes of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from bigjoin import __version__
from bigjoin.errors import BigjoinError
from bigjoin.graph import Graph
from bigjoin.index.directory import Index
from bigjoin.index.manifest_file import LOCK
from bigjoin.indexing import build_index
from bigjoin_bench.feeds import after_first
from bigjoin_bench.memory import Peak
from bigjoin_bench.peers.streams import ONCE, Streamed, finished
from bigjoin_bench.question import Answer, Input, Question


class Watching(Streamed):
    """Keeps the count of a query through every epoch."""

    def __init__(self, **feed: Any) -> None:
        super().__init__(**feed)
        self.prepared: dict[Question, tuple[Path, int, int]] = {}

    def version(self) -> str:
        return __version__

    def load(self, graph: Input) -> None:
        """Write the updates, and build the index of the edges that are there first."""
        super().load(graph)
        self.undirected = graph.undirected
        self.index = self._build(self.first, "index").path

    def run(self, question: Question) -> Answer:
        """Watch until all updates are applied; the count is that of an index that is built anew, or this is an error."""
        if question not in self.prepared:
            self.prepared[question] = self._prepare(question)
        index, before, after = self.prepared[question]
        place = self.place()
        _link(index, place / "index")
        try:
            with Peak() as peak:
                times, figures = self.watched(question, place)
            count = _kept(place / "index")
        finally:
            shutil.rmtree(place)
        if count != after:
            raise BigjoinError(f"{question.title}: {count:,} matches were kept, and there are {after:,}")
        figures |= {"updates": self.feed.updates, "epochs": times, "changed": after - before, "process": peak.bytes}
        return Answer(self.answer(before, after), fmean(after_first(times)), figures)

    def watched(self, question: Question, place: Path) -> tuple[list[float], dict[str, Any]]:
        """Run the stream over the index of a place; return the seconds of each epoch, and figures."""
        graph = Graph.open(place / "index", spark=self.spark)
        options = {"checkpoint": str(place / "checkpoint"), "trigger": ONCE, **self.options(place), **question.flags}
        return finished(graph.watch(question.query, self.stream(), strategy="shared", **options)), {}

    def options(self, place: Path) -> dict[str, Any]:
        """Return what else `watch` is given."""
        del place
        return {}

    def answer(self, before: int, after: int) -> int | None:
        """Return the count that contenders have to agree on, if all of them end with the whole graph."""
        del before
        return after if self.feed.base is None else None

    def _prepare(self, question: Question) -> tuple[Path, int, int]:
        """Return an index that knows how many matches there are first, this number, and that of an index of all edges."""
        index = self.place() / "index"
        _link(self.index, index)
        nothing = self.first.slice(0, 0).append_column("op", pa.array([], pa.string()))
        graph = Graph.open(index, spark=self.spark)
        before = graph.apply(nothing, question.query, listing=False, strategy="shared", **question.flags).count  # type: ignore[arg-type]
        everything = self._build(pa.concat_tables([self.first, self.later]), "final").path
        after = int(Graph.open(everything, spark=self.spark).count(question.query, **question.flags))  # type: ignore[call-overload]
        shutil.rmtree(everything)
        return index, before, after

    def _build(self, edges: pa.Table, name: str) -> Index:
        return build_index(edges, self.scratch / name, directed=not self.undirected, spark=self.spark)


class Partitioned(Watching):
    """Each worker a part of the index; what runs told of their workers is in the figures."""

    def __init__(self, *, workers: int, **feed: Any) -> None:
        super().__init__(**feed)
        self.workers = workers

    def watched(self, question: Question, place: Path) -> tuple[list[float], dict[str, Any]]:
        """Apply each batch as an epoch; `watch` does the same, and keeps what runs told to itself."""
        graph = Graph.open(place / "index", spark=self.spark)
        runs: list[dict[str, Any]] = []

        def apply(frame: DataFrame, batch: int) -> None:
            del batch
            how = {"strategy": "partitioned", "workers": self.workers, "listing": False}
            epoch = graph.apply(frame.toArrow(), question.query, **how, **question.flags)  # type: ignore[arg-type]
            counted = [ran for changes in epoch.queries.values() for ran in changes.figures]
            for ran in counted:
                tuples = ran.index_tuples()
                runs.append({**ran.stats, "index_tuples": {"max": int(tuples.max()), "mean": float(tuples.mean())}})

        stream = self.stream().writeStream.foreachBatch(apply).trigger(**ONCE)
        times = finished(stream.option("checkpointLocation", str(place / "checkpoint")).start())
        figures: dict[str, Any] = {
            name: {kind: max(run[name][kind] for run in runs) for kind in ("max", "mean")}  # the graph grows
            for name in ("index_tuples", "load")
        }
        return times, figures | {"peak_memory": max(run["peak_memory"] for run in runs)}


def _link(index: Path, target: Path) -> None:
    """Have an index in another place too; its files never change."""
    shutil.copytree(index, target, copy_function=os.link, ignore=shutil.ignore_patterns(LOCK))


def _kept(path: Path) -> int:
    """Return the count of the only query that an index is watched with."""
    (watched,) = Index.open(path).manifest.watched.values()
    return int(watched.count)
