"""Who takes part: a line for each contender, with the adapter to run and the package that it needs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

from bigjoin_bench.question import Answer, Input, Question


class Adapter(Protocol):
    """One contender inside its process; making one imports its library or starts its session."""

    def version(self) -> str:
        """Return the version of what is measured."""

    def load(self, graph: Input) -> None:
        """Bring the edges into the form that queries read, however the contender likes it best."""

    def run(self, question: Question) -> Answer:
        """Answer a question about the loaded graph."""


@dataclass(frozen=True)
class Contender:
    """A contender by name: what tables call it, and where its adapter is."""

    label: str
    adapter: str
    """Module under bigjoin_bench.peers, a colon, the class."""
    package: str | None = None
    """What it imports, if that is optional."""
    install: str | None = None
    """What to pip install, where that has another name."""
    options: Mapping[str, Any] = field(default_factory=dict)
    threads: int | None = None
    """How many threads it uses, if it is not left to the suite."""
    program: str | None = None
    """The environment variable with the path of the program that it runs, if it is one that has to be compiled."""
    is_floor: bool = False
    """Whether it does only what every answer has to wait for. Our time is then compared with it, not the other way round."""

    @property
    def missing(self) -> str | None:
        """The line that says what to install or to compile, if the contender cannot take part."""
        if self.program is not None and not os.environ.get(self.program):
            option = self.program.removeprefix(PROGRAMS).lower().replace("_", "-")
            return f"{self.label} is left out: give the path of its program with --{option}, or in {self.program}"
        if self.package is None or find_spec(self.package) is not None:
            return None
        return f"{self.label} is left out: pip install {self.install or self.package}"

    def make(self, threads: int) -> Adapter:
        """Return the adapter, in the process that will run it."""
        module, name = self.adapter.split(":")
        adapter: Adapter = getattr(import_module(f"bigjoin_bench.peers.{module}"), name)(
            threads=self.threads or threads, **self.options
        )
        return adapter


OURS = "bigjoin"
PROGRAMS = "BIGJOIN_BENCH_"
"""What the environment variables begin with that have the paths of programs; the rest is the option of the command line."""
DATAFLOW_JOIN = f"{PROGRAMS}DATAFLOW_JOIN"
"""The paper's own program: the example `motif` of dataflow-join, compiled."""
BATCHES = (10_000, 100_000, 1_000_000)
WORKERS = (1, 14, 28, 56, 112, 224)
"""As in the paper's figure."""
CUBES = (8, 64, 512)
"""Workers that are the cells of a cube."""
EPOCH = {"updates": 100_000, "epochs": 11}
"""Updates as most suites of changing graphs have them; the first epoch is not measured."""
SINGLE = {"updates": 1, "epochs": 31}
MANY = {"updates": 1_000, "epochs": 1_001}
WRITTEN = {"updates": 100_000, "epochs": 5}
SIZES = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
"""Updates an epoch."""
PAPER_SIZES = (1_000, 10_000)
"""Updates an epoch where the paper's own program stands beside ours."""
SYNCS = ("group", "epoch", "none")
"""When an epoch is durable."""
ONE_EDGE = {"updates": 1, "epochs": 301}
HUB = {"leaves": 100}
"""How many neighbours of a hub are looked up, or leave it and come back."""
CAPACITY = (1, 4, 16, 64)
"""Workers of a graph that changes."""

CONTENDERS: dict[str, Contender] = {
    OURS: Contender("bigjoin", "bigjoin:Bigjoin"),
    "bigjoin-kernel": Contender("bigjoin's kernels", "bigjoin:Bigjoin", options={"kernel_time": True}),
    "duckdb": Contender("DuckDB", "duckdb:DuckDB", "duckdb"),
    "duckdb-by-hand": Contender("DuckDB by hand", "duckdb:DuckDB", "duckdb", options={"by_hand": True}),
    "kuzu": Contender("Kuzu", "kuzu:Kuzu", "kuzu"),
    "networkit": Contender("networkit", "networkit:Networkit", "networkit"),
    "graphblas": Contender("SuiteSparse", "graphblas:GraphBLAS", "graphblas", "python-graphblas suitesparse-graphblas"),
    "igraph": Contender("igraph", "igraph:Igraph", "igraph"),
    "spark-sql": Contender("Spark SQL", "spark_joins:SparkSQL"),
    "left-deep": Contender("left-deep motif", "spark_joins:LeftDeepMotif"),
    "motifs": Contender("bigjoin", "motifs:Motifs"),
    "left-deep-joins": Contender("left-deep joins", "motifs:LeftDeepJoins"),
    "left-deep-shuffled": Contender("left-deep joins, shuffled", "motifs:LeftDeepJoins", options={"broadcasts": False}),
    "same-rows": Contender("both compared", "motifs:SameRows"),
    "bigjoin-partitioned": Contender("bigjoin, partitioned", "bigjoin:Bigjoin", options={"strategy": "partitioned"}),
    "moving": Contender("moving its bytes", "moving:Moving"),
    "spark-sql-oriented": Contender("Spark SQL", "spark_joins:OrientedSparkSQL"),
    **{
        f"batch-{size}": Contender(
            f"B' = {size:,}", "bigjoin:Bigjoin", options={"strategy": "partitioned", "workers": 8, "batch_size": size}
        )
        for size in BATCHES
    },
    **{
        f"workers-{many}": Contender(f"{many} workers", "bigjoin:Bigjoin", options={"strategy": "partitioned", "workers": many})
        for many in WORKERS
    },
    **{f"shares-{many}": Contender(f"Shares, {many}", "shares:Shares", options={"workers": many}) for many in CUBES},
    **{
        f"dealt-{many}": Contender(f"bigjoin, {many}", "bigjoin:Bigjoin", options={"strategy": "partitioned", "workers": many})
        for many in CUBES
    },
    "groups": Contender("bigjoin", "groups:Groups"),
    "groups-here": Contender("bigjoin, without Spark", "groups:GroupsHere"),
    "groups-networkit": Contender("networkit", "networkit:NetworkitGroups", "networkit"),
    "groups-sql": Contender("Spark SQL", "groups:SparkGroups"),
    "seeded": Contender("bigjoin", "seeded:Seeded"),
    "estimated": Contender("bigjoin", "estimated:Estimated"),
    "plain": Contender("plain", "stored:Variant"),
    "sym": Contender("SYM", "stored:Variant", options={"each_once": True}),
    "sym-tr": Contender("SYM-TR", "stored:Variant", options={"each_once": True, "materialized": "triangle"}),
    "bigjoin-build": Contender("bigjoin", "building:BigjoinBuild"),
    "duckdb-build": Contender("DuckDB", "building:DuckDBBuild", "duckdb"),
    "build-limit": Contender("limit", "build_limit:BuildLimit", is_floor=True),
    "bigjoin-start": Contender("bigjoin count", "starting:BigjoinStart"),
    "spark-start": Contender("Spark alone", "starting:SparkStart"),
    "shell-local": Contender("bigjoin", "shell:ShellBigjoin", options={"strategy": "local"}),
    "shell-shared": Contender("bigjoin, shared", "shell:ShellBigjoin", options={"strategy": "shared"}),
    "shell-duckdb": Contender("DuckDB", "shell:ShellDuckDB", "duckdb"),
    "shell-kuzu": Contender("Kuzu", "shell:ShellKuzu", "kuzu"),
    "shell-imports": Contender("imports alone", "shell:ShellImports", is_floor=True),
    "vertex-at-a-time": Contender("vertex at a time", "one_thread:Steps", threads=1),
    "edge-at-a-time": Contender("edge at a time", "one_thread:Steps", options={"edge_at_a_time": True}, threads=1),
    "factorized": Contender("factorized", "one_thread:Alone", threads=1),
    "plan-static": Contender("to find matches", "planning:Planning", options={"kind": "static"}, threads=1),
    "plan-count": Contender("to count them", "planning:Planning", options={"kind": "count"}, threads=1),
    "plan-delta": Contender("to watch them", "planning:Planning", options={"kind": "delta"}, threads=1),
    "one-thread": Contender("one thread, no Spark", "one_thread:Alone", threads=1),
    "reading": Contender("limit: reading the lists once", "reading:Reading", is_floor=True),
    "bits": Contender("bigjoin, threads", "threads:Threads"),
    "lists": Contender("the same, lists only", "threads:Threads", options={"lists": True}),
    "spark-one": Contender("Spark, 1 core", "bigjoin:Bigjoin", threads=1),
    "spark-two": Contender("Spark, 2 cores", "bigjoin:Bigjoin", threads=2),
    "bigjoin-write": Contender("bigjoin", "writing:BigjoinWrite"),
    "pyarrow-write": Contender("pyarrow", "writing:PyarrowWrite"),
    "watching": Contender("bigjoin, an epoch", "watching:Watching", options=EPOCH),
    "no-op": Contender("a no-op, a batch", "streams:NoOp", options=EPOCH),
    "watching-single": Contender("bigjoin, an epoch", "watching:Watching", options=SINGLE),
    "no-op-single": Contender("a no-op, a batch", "streams:NoOp", options=SINGLE),
    "watching-many": Contender("bigjoin, an epoch", "watching:Watching", options=MANY),
    "no-op-many": Contender("a no-op, a batch", "streams:NoOp", options=MANY),
    "changes-written": Contender("bigjoin, an epoch", "changes:ChangesWritten", options=WRITTEN),
    "pyarrow-changes": Contender("pyarrow, its table", "changes:PyarrowChanges", options=WRITTEN),
    **{
        f"epoch-{size}": Contender(
            f"{size:,} updates",
            "applied:Applied",
            options={"updates": size, "epochs": 3 if size > 100_000 else 11 if size > 1_000 else 101, "base": 0.25},
        )
        for size in SIZES
    },
    "watching-all": Contender("bigjoin, all epochs", "applied:Applied", options={"updates": 10_000, "total": True}),
    "anew": Contender("built and counted", "applied:Anew"),
    **{
        f"paper-{sync}-{size}": Contender(
            f"{sync}, {size:,} updates", "applied:Applied", options={"updates": size, "sync": sync, "total": True}
        )
        for size in PAPER_SIZES
        for sync in SYNCS[:2]
    },
    **{
        f"dataflow-join-{size}": Contender(
            f"dataflow-join, {size:,} updates", "dataflow_join:DataflowJoin", options={"updates": size}, program=DATAFLOW_JOIN
        )
        for size in PAPER_SIZES
    },
    **{f"latency-{sync}": Contender(sync, "applied:Applied", options={**ONE_EDGE, "sync": sync}) for sync in SYNCS},
    "synced": Contender("one fsync", "synced:Synced", options={"epochs": ONE_EDGE["epochs"]}),
    "stars": Contender("bigjoin, an epoch", "stars:Stars", options=HUB),
    "lookups": Contender("100 lookups", "stars:Lookups", options=HUB),
    "lookups-bare": Contender("100 bare lookups", "stars:Lookups", options={**HUB, "bare": True}),
    "applied-large": Contender("bigjoin, an epoch", "applied:Applied", options={"updates": 100_000, "epochs": 5, "base": 0.75}),
    "sliding": Contender(
        "bigjoin, an epoch", "sliding:Sliding", options={"updates": 1_000, "epochs": 2_000, "base": 0.0, "window": 100}
    ),
    **{
        f"capacity-{many}": Contender(
            f"{many} workers", "watching:Partitioned", options={"updates": 100_000, "epochs": 4, "workers": many}
        )
        for many in CAPACITY
    },
}
"""Every contender; suites name them."""
