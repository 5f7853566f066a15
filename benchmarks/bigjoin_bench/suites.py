"""The suites: which graphs, which questions, which contenders, and what a reader has to know about them."""

from __future__ import annotations

from dataclasses import dataclass

from bigjoin.errors import BigjoinError, did_you_mean
from bigjoin_bench.contenders import BATCHES, CAPACITY, CUBES, OURS, SIZES, WORKERS
from bigjoin_bench.graphs import BUNDLED, DIRECTED, FRACTIONS, RAW, TEXT, UNDIRECTED
from bigjoin_bench.question import DISTINCT, UNIQUE, Question

PAPER = ("triangle", "4-clique", "diamond", "house", "5-clique")
"""The paper's five queries."""

REAL = (BUNDLED, "amazon0601", "twitter_combined")


@dataclass(frozen=True)
class Suite:
    """A table of graphs, questions and contenders, the first of which is ours."""

    name: str
    title: str
    about: str
    graphs: tuple[str, ...]
    form: str
    questions: tuple[Question, ...]
    contenders: tuple[str, ...]
    quick: tuple[Question, ...] = ()
    """What a quick run asks, about the bundled graph."""
    beside: tuple[str, ...] = ()
    """Contenders that are shown, and left out of the ratios."""
    cut_off: float | None = None
    """Seconds that a run may take, where the usual ones are too few for the least of ours."""
    rounds: int | None = None
    """Warm runs at most, where one run is many epochs."""
    versus: bool = True
    """Whether ours is measured against peers; else all of them are ours, and a table of the suite's own compares them."""

    @property
    def ours(self) -> str:
        return self.contenders[0]

    @property
    def peers(self) -> tuple[str, ...]:
        """The contenders that ours is measured against."""
        return tuple(name for name in self.contenders[1:] if name not in self.beside)


def _asked(queries: tuple[str, ...], *meanings: str) -> tuple[Question, ...]:
    return tuple(Question(query, meaning) for query in queries for meaning in meanings or ("join",))


_TRIANGLE = _asked(("triangle",))
_TRIANGLE_ONCE = _asked(("triangle",), UNIQUE)
_CHANGING = "R-MAT 4 M"
_LONG = 3600.0
"""Seconds that a stream of many epochs may take."""

SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite(
            "directed",
            "The paper's five queries, directed",
            "Plain join semantics, counts only. DuckDB and Kuzu get the query as it is, as a self join and as a "
            "pattern. *DuckDB by hand* is what somebody would write who knows the answer: triangles first, then joins "
            "of triangles, and an aggregate for the house; it is shown beside the others and left out of the ratio. "
            "Loops are dropped for everybody.",
            REAL,
            DIRECTED,
            _asked(PAPER),
            (OURS, "duckdb", "kuzu", "duckdb-by-hand"),
            _asked(("triangle", "4-clique")),
            beside=("duckdb-by-hand",),
        ),
        Suite(
            "undirected",
            "The paper's five queries, undirected, each subgraph once",
            "DuckDB gets the best restrictions that we could write: vertices numbered by degree, cliques over edges that "
            "point upwards, comparisons for the others. *DuckDB by hand* also joins triangles instead of edges, and counts "
            "the diamond and the house by aggregates; it is shown beside it and left out of the ratio.",
            REAL,
            UNDIRECTED,
            _asked(PAPER, UNIQUE),
            (OURS, "duckdb", "duckdb-by-hand"),
            _asked(PAPER[:3], UNIQUE),
            beside=("duckdb-by-hand",),
        ),
        Suite(
            "rmat",
            "Triangles, against libraries of graph algorithms",
            "Undirected, each triangle once, of an R-MAT graph with 16 million edges. Ours is the time of the kernels "
            "in the slower task, without Spark's start of a job. networkit goes through its fastest exact form (local "
            "clustering coefficients, turbo), SuiteSparse through a masked product by plus-pair with vertices by "
            "degree, igraph (one thread) through its transitivity.",
            ("R-MAT 16 M",),
            UNDIRECTED,
            _asked(("triangle",), UNIQUE),
            ("bigjoin-kernel", "networkit", "graphblas", "igraph"),
            _asked(("triangle",), UNIQUE),
        ),
        Suite(
            "index",
            "Building an index",
            "From Parquet to an index with forward and reverse lists and a dictionary, synced and verified, beside "
            "DuckDB's `CREATE TABLE AS SELECT DISTINCT ... ORDER BY` in both directions, into a database file. Up to "
            "six million rows the calling process builds the index on its own cores, beyond that Spark's tasks do. "
            "Memory follows the size of a part and the number of cores, not the graph.",
            ("amazon0601", "R-MAT 16 M", "R-MAT 16 M, text ids", "Theory 28.7 M"),
            RAW,
            (Question("build"),),
            ("bigjoin-build", "duckdb-build"),
        ),
        Suite(
            "foil",
            "A vertex at a time against an edge at a time",
            "The same plans in our own framework, one thread, batches of prefixes: once with every step intersecting "
            "all its extenders, once with every step following one edge and checking the others, as binary joins do. "
            "*Intermediate* is what is built: prefixes there, extensions along the one edge here. Plain (vertices "
            "differ) and with symmetry broken. *Factorized* is how we count: loops, multiplied where they are independent; "
            "intermediate are the values that they go through.",
            (BUNDLED,),
            UNDIRECTED,
            _asked(PAPER[:4], DISTINCT, UNIQUE),
            ("vertex-at-a-time", "edge-at-a-time", "factorized"),
            _asked(("triangle",), UNIQUE),
            versus=False,
        ),
        Suite(
            "spark",
            "What Spark does without us",
            "Directed triangles, in equal sessions. *Left-deep motif* joins edges and vertices from left to right, as "
            "GraphFrames' `find` does. Edges are cached in memory for both.",
            (BUNDLED,),
            DIRECTED,
            _TRIANGLE,
            (OURS, "spark-sql", "left-deep"),
            _TRIANGLE,
        ),
        Suite(
            "partitioned",
            "Each worker a part of the index",
            "Undirected triangles, each once, with prefixes that travel to the owners of their keys. Spark SQL joins edges "
            "that point from low to high degree, cached, with the best of several settings for partitions and broadcasts. "
            "*Moving its bytes* sends the same packed rows through the same jobs and exchanges, and looks at none of them. "
            "Beside it the shared strategy, which needs the whole index on every machine.",
            (BUNDLED, "amazon0601", "R-MAT 4 M"),
            UNDIRECTED,
            _asked(("triangle",), UNIQUE),
            ("bigjoin-partitioned", "spark-sql-oriented", "moving", OURS),
            beside=("moving", OURS),
        ),
        Suite(
            "batches",
            "Memory follows B', not the output",
            "Directed diamonds under the partitioned strategy, eight workers, counted one by one.",
            (BUNDLED,),
            DIRECTED,
            _asked(("diamond",)),
            tuple(f"batch-{size}" for size in BATCHES),
            cut_off=600.0,
            versus=False,
        ),
        Suite(
            "batches-cliques",
            "Memory follows B': 4-cliques",
            "Directed 4-cliques of a denser graph under the partitioned strategy, eight workers.",
            ("twitter_combined",),
            DIRECTED,
            _asked(("4-clique",)),
            tuple(f"batch-{size}" for size in BATCHES),
            cut_off=600.0,
            versus=False,
        ),
        Suite(
            "workers",
            "The index and the load, dealt to workers",
            "Undirected triangles, each once, with the same two cores whatever the number of workers: what each of them would "
            "hold and receive on a cluster.",
            ("R-MAT 4 M",),
            UNDIRECTED,
            _asked(("triangle",), UNIQUE),
            tuple(f"workers-{many}" for many in WORKERS),
            versus=False,
        ),
        Suite(
            "shares",
            "One round of copies against rounds over one index",
            "Directed, plain join semantics, with as many workers as are named, on the same two cores. *Shares* (Hypercube) "
            "sends every edge to all workers that could need it for one of the query's atoms, and each then joins what it got, "
            "with our own loops; the numbers of places on its axes give the least load. Ours sends prefixes, in rounds, and "
            "every edge lies with one worker in each direction.",
            (BUNDLED, "amazon0601"),
            DIRECTED,
            _asked(("triangle", "4-clique", "diamond")),
            tuple(f"{kind}-{many}" for many in CUBES for kind in ("dealt", "shares")),
            versus=False,
        ),
        Suite(
            "triangles-stored",
            "Symmetries and stored triangles",
            "Undirected, like the paper's comparison with SEED. *Plain* counts every match as often as the query has "
            "automorphisms, *SYM* each subgraph once, *SYM-TR* too, with `tri` materialised: 4-cliques, houses and 5-cliques "
            "are joins of triangles then. Times are those of counts through Spark. *Explored* is what the plan's steps go "
            "through, prefix by prefix as in the paper: prefixes that are built before the last step, and candidates that are "
            "proposed.",
            (BUNDLED, "amazon0601"),
            UNDIRECTED,
            _asked(("4-clique", "house", "5-clique"), UNIQUE),
            ("plain", "sym", "sym-tr"),
            cut_off=600.0,
            versus=False,
        ),
        Suite(
            "cold",
            "From the shell to the answer",
            "Wall time of `bigjoin count triangle FILE` on a text file of 100,000 edges, a new process each time, "
            "with the index in the cache since the first; beside a process that starts a Spark session, counts one "
            "row, and ends.",
            (BUNDLED,),
            TEXT,
            _TRIANGLE,
            ("bigjoin-start", "spark-start"),
        ),
        Suite(
            "cost",
            "COST: cores that it takes to outperform one thread",
            "The kernels bare in one thread, without Spark, against the same through Spark. Jobs of 5 s and more "
            "count; shorter ones are shown.",
            REAL,
            DIRECTED,
            _asked(("4-clique", "house", "5-clique")),
            ("one-thread", "spark-one", "spark-two"),
            versus=False,
        ),
        Suite(
            "write",
            "Writing matches",
            "All directed triangles to one Parquet file, join included, beside pyarrow writing the same table from "
            "memory, with as many threads, each half of it to its own file.",
            ("twitter_combined",),
            DIRECTED,
            _TRIANGLE,
            ("bigjoin-write", "pyarrow-write"),
        ),
        Suite(
            "updates",
            "Counts of a graph that changes",
            "Undirected, each subgraph once. Edges are inserted by a stream of Parquet files of 100,000 updates, a file an "
            "epoch, strategy `shared`; the count is kept, and has to be that of a new index of all edges. Times are those "
            "that Spark gives for a trigger: reading the file, the epoch, its commit and Spark's checkpoint, the mean of "
            "ten epochs. The *no-op* is a stream over the same files whose batches are one job in Python that gives back "
            "what it gets. Beside them a count of all matches in an index that is there.",
            (_CHANGING,),
            UNDIRECTED,
            _asked(("triangle", "4-clique", "diamond"), UNIQUE),
            ("watching", "no-op", OURS),
            beside=(OURS,),
            cut_off=_LONG,
            rounds=3,
        ),
        Suite(
            "updates-single",
            "The least that an epoch takes",
            "The same with one edge an epoch, the mean of thirty epochs. So small an epoch is run by the process that watches, "
            "without tasks in Python, which the no-op has; what both share is Spark's own work for a batch.",
            (_CHANGING,),
            UNDIRECTED,
            _TRIANGLE_ONCE,
            ("watching-single", "no-op-single"),
            cut_off=_LONG,
            rounds=3,
        ),
        Suite(
            "updates-written",
            "Writing what changed",
            "Undirected triangles that 100,000 updates an epoch create, written to the output folder of a watch and committed, "
            "join and Spark included; beside pyarrow writing the same table from memory to one Parquet file, in one thread and "
            "without syncing it. *Count* is the rows of all epochs.",
            (_CHANGING,),
            UNDIRECTED,
            _TRIANGLE_ONCE,
            ("changes-written", "pyarrow-changes"),
            cut_off=_LONG,
            rounds=3,
        ),
        Suite(
            "updates-many",
            "One epoch after another",
            "A thousand epochs of a thousand updates, triangles counted: whether an epoch takes longer the more there were "
            "before it. The no-op shows what Spark's own log of the stream adds.",
            (_CHANGING,),
            UNDIRECTED,
            _TRIANGLE_ONCE,
            ("watching-many", "no-op-many"),
            cut_off=_LONG,
            rounds=0,
        ),
        Suite(
            "updates-size",
            "Updates in small portions and in large ones",
            "Undirected triangles, counted, a quarter of the graph there first: ten epochs of each size, two of the largest. "
            "Memory is the peak of the process that finds the changes, without the JVM's.",
            (_CHANGING,),
            UNDIRECTED,
            _TRIANGLE_ONCE,
            tuple(f"epoch-{size}" for size in SIZES),
            cut_off=_LONG,
            rounds=0,
            versus=False,
        ),
        Suite(
            "updates-all",
            "From an empty graph",
            "Every edge comes as an update, 100,000 an epoch, triangles counted in each; against building an index of all "
            "edges and counting once.",
            (_CHANGING,),
            UNDIRECTED,
            _TRIANGLE_ONCE,
            ("watching-all", "anew"),
            cut_off=_LONG,
            rounds=1,
        ),
        Suite(
            "updates-capacity",
            "A graph that changes, dealt to workers",
            "Undirected triangles, counted, strategy `partitioned`, 100,000 updates an epoch, the mean of three epochs: "
            "parts of a graph, and workers, on the same two cores, and what each worker would hold on a cluster.",
            (*FRACTIONS, _CHANGING),
            UNDIRECTED,
            _TRIANGLE_ONCE,
            tuple(f"capacity-{many}" for many in CAPACITY),
            cut_off=_LONG,
            rounds=1,
            versus=False,
        ),
    )
}
"""Name -> suite, in the order in which they run and are shown."""


def get(name: str) -> Suite:
    """Return a suite; raise BigjoinError that names those there are."""
    if name not in SUITES:
        hint = did_you_mean(name, list(SUITES)) or f"there are {', '.join(SUITES)}"
        raise BigjoinError(f"there is no suite {name!r}; {hint}")
    return SUITES[name]
