"""The suites: which graphs, questions and contenders each has, and what a reader must know about it."""

from __future__ import annotations

from dataclasses import dataclass

from bigjoin.errors import BigjoinError, did_you_mean
from bigjoin_bench.contenders import BATCHES, CAPACITY, CUBES, OURS, PAPER_SIZES, SIZES, SYNCS, WORKERS
from bigjoin_bench.graphs import (
    ATTRIBUTED,
    BUNDLED,
    DIRECTED,
    FRACTIONS,
    HUB,
    LABELLED,
    MULTIGRAPH,
    RAW,
    TABLES,
    TEXT,
    UNDIRECTED,
)
from bigjoin_bench.motifs import COMPARED, COUNTED, READ, TIMED
from bigjoin_bench.question import BY_EDGE, BY_VERTEX, DISTINCT, FIRST_ROWS, JOIN, UNIQUE, Question

PAPER = ("triangle", "4-clique", "diamond", "house", "5-clique")
"""The paper's five queries."""

REAL = (BUNDLED, "amazon0601", "twitter_combined")


@dataclass(frozen=True)
class Suite:
    """A table of graphs, questions and contenders. The first contender is bigjoin."""

    name: str
    title: str
    about: str
    graphs: tuple[str, ...]
    form: str
    questions: tuple[Question, ...]
    contenders: tuple[str, ...]
    quick: tuple[Question, ...] = ()
    """The questions of a quick run, about the bundled graph."""
    beside: tuple[str, ...] = ()
    """Contenders that are shown but left out of the ratios."""
    cut_off: float | None = None
    """Seconds after which a run is stopped, for suites that need more than the usual limit."""
    rounds: int | None = None
    """The largest number of warm runs, for suites whose runs have many epochs."""
    versus: bool = True
    """Whether bigjoin is compared with peers. If not, all contenders are variants of it, and the suite has its own table."""
    timed: bool = True
    """Whether its times mean anything. If not, the page has only the suite's own table."""

    @property
    def ours(self) -> str:
        return self.contenders[0]

    @property
    def peers(self) -> tuple[str, ...]:
        """The contenders that bigjoin is compared with."""
        return tuple(name for name in self.contenders[1:] if name not in self.beside)


def _asked(queries: tuple[str, ...], *meanings: str) -> tuple[Question, ...]:
    return tuple(Question(query, meaning) for query in queries for meaning in meanings or ("join",))


_TRIANGLE = _asked(("triangle",))
_TRIANGLE_ONCE = _asked(("triangle",), UNIQUE)
_CHANGING = "R-MAT 4 M"
_WALKS = "walks(a, b) := edge*1..64(a, b)"
_LONG_SECONDS = 3600.0
"""Seconds after which a run of many epochs, or of many estimates, is stopped."""

SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite(
            "directed",
            "The paper's five queries, directed",
            "Plain join semantics, counts only. DuckDB gets the query as a self join, and Kuzu gets it as a pattern, both "
            "unchanged. *DuckDB by hand* is what an expert who knows the answer would write: first the triangles, then joins "
            "of triangles, and an aggregate for the house. It is shown for comparison and left out of the ratio. Loops are "
            "dropped for all contenders.",
            REAL,
            DIRECTED,
            _asked(PAPER),
            (OURS, "duckdb", "kuzu", "duckdb-by-hand", "reading"),
            _asked(("triangle", "4-clique")),
            beside=("duckdb-by-hand", "reading"),
        ),
        Suite(
            "undirected",
            "The paper's five queries, undirected, each subgraph once",
            "DuckDB gets the best restrictions that we could write: vertices numbered by degree, cliques over edges that point "
            "upwards, comparisons for the other queries. *DuckDB by hand* also joins triangles instead of edges, and counts "
            "the diamond and the house with aggregates. It is shown for comparison and left out of the ratio.",
            REAL,
            UNDIRECTED,
            _asked(PAPER, UNIQUE),
            (OURS, "duckdb", "duckdb-by-hand", "reading"),
            _asked(PAPER[:3], UNIQUE),
            beside=("duckdb-by-hand", "reading"),
        ),
        Suite(
            "rmat",
            "Triangles, against libraries of graph algorithms",
            "Undirected, each triangle once, on an R-MAT graph with 16 million edges. Our time is that of the kernels in the "
            "slower task, without the time that Spark needs to start a job. networkit uses its fastest exact method (local "
            "clustering coefficients, turbo). SuiteSparse uses a masked plus-pair product with vertices ordered by degree. "
            "igraph (one thread) uses its transitivity.",
            ("R-MAT 16 M",),
            UNDIRECTED,
            _asked(("triangle",), UNIQUE),
            ("bigjoin-kernel", "networkit", "graphblas", "igraph"),
            _asked(("triangle",), UNIQUE),
        ),
        Suite(
            "index",
            "Building an index",
            "From Parquet to an index with forward and reverse lists and a dictionary, synced and verified. DuckDB runs "
            "`CREATE TABLE AS SELECT DISTINCT ... ORDER BY` in both directions, into a database file. Up to 67 million rows, "
            "the calling process builds the index in its memory, if that is large enough. Beyond that, Spark's tasks build it, "
            "and memory depends on the size of a part and the number of cores, not on the graph. *Limit* is the work that no "
            "program can avoid if it reads, sorts and writes, at the speeds of this machine: decoding the two columns, a radix "
            "sort of one 64-bit key for each row, and writing the index's bytes to the disk, each once and on all cores. "
            "GAPBS's converter, measured in turns with bigjoin and with two threads, took twice as long for R-MAT 16 M, which "
            "it reads as text. Its build alone, from memory to memory, took 0.8 of our time.",
            ("amazon0601", "R-MAT 16 M", "R-MAT 16 M, text ids", "Theory 28.7 M"),
            RAW,
            (Question("build"),),
            ("bigjoin-build", "duckdb-build", "build-limit"),
            beside=("build-limit",),
        ),
        Suite(
            "foil",
            "A vertex at a time against an edge at a time",
            "The same plans in our own framework, on one thread, with batches of prefixes. *A vertex at a time*: every step "
            "intersects all its extenders. *An edge at a time*: every step follows one edge and checks the others, as binary "
            "joins do. *Intermediate* counts what is built: prefixes in the first case, extensions along the one edge in the "
            "second. Queries are plain (vertices differ) or with symmetry broken. *Factorized* is how we count: loops, "
            "multiplied where they are independent; its intermediate figure is the number of values that the loops visit.",
            (BUNDLED,),
            UNDIRECTED,
            _asked(PAPER[:4], DISTINCT, UNIQUE),
            ("vertex-at-a-time", "edge-at-a-time", "factorized"),
            _asked(("triangle",), UNIQUE),
            versus=False,
        ),
        Suite(
            "spark",
            "Spark without bigjoin",
            "Directed triangles, in identical sessions. *Left-deep motif* joins edges and vertices from left to right, as "
            "GraphFrames' `find` does. Edges are cached in memory for both.",
            (BUNDLED,),
            DIRECTED,
            _TRIANGLE,
            (OURS, "spark-sql", "left-deep"),
            _TRIANGLE,
        ),
        Suite(
            "motifs",
            "Motifs, compared with left-deep joins",
            "`bigjoin.graphframes.GraphFrame(v, e).find(motif)`, compared with a stand-in for GraphFrames, whose jar is not "
            "available here: *left-deep joins* as GraphFrames plans them. They join term by term from left to right, with a "
            "struct column for each vertex, over tables that are cached in memory. Edges have no names, and the graph has no "
            "loops. *Rows* writes every column of every row to Spark's `noop` format, which keeps nothing; *count* is "
            "`.count()`. Both run in the session that bigjoin would start. The tables are so small that Spark broadcasts them.",
            ("wiki-Vote",),
            TABLES,
            _asked(tuple(TIMED), READ) + _asked(("triangle", "4-cycle", "4-clique"), COUNTED),
            ("motifs", "left-deep-joins"),
            rounds=3,
        ),
        Suite(
            "motifs-wide",
            "Motifs in a graph with many attributes",
            "The same, but each vertex has 58 attributes (28 integers, 20 doubles and 10 texts), which are part of each "
            "struct. So every row of a motif of four vertices has 236 values, and all of them are read. The other motifs are "
            "not measured here.",
            tuple(ATTRIBUTED),
            TABLES,
            _asked(("triangle", "cyclic triangle", "4-cycle", "chordal 4-cycle"), READ),
            ("motifs", "left-deep-joins"),
            rounds=1,
        ),
        Suite(
            "motifs-shuffled",
            "Motifs without broadcasts",
            "Here, left-deep joins may not broadcast a table, as if it were too large: both sides of every join are shuffled. "
            "Left-deep joins with broadcasts are shown for comparison. The graph is sparse, so that all of them finish.",
            ("p2p-Gnutella08",),
            TABLES,
            _asked(tuple(TIMED), READ),
            ("motifs", "left-deep-shuffled", "left-deep-joins"),
            beside=("left-deep-joins",),
            rounds=3,
        ),
        Suite(
            "motifs-rows",
            "Motifs give the rows of left-deep joins",
            "Motifs of every kind, on a published graph and two small ones: one with equal rows, parallel edges, loops and "
            "edges whose ends are not in the table of vertices, and one with text ids, labels and NULL. A question fails "
            "unless bigjoin and the stand-in have the same columns, and every row the same number of times.",
            ("citeseer", MULTIGRAPH, LABELLED),
            TABLES,
            _asked(COMPARED),
            ("same-rows",),
            rounds=0,
            versus=False,
            timed=False,
        ),
        Suite(
            "groups",
            "Counts by vertex and by edge",
            'Undirected triangles, each once, counted at each vertex (`graph.count("triangle", unique=True, by="a1")`) and at '
            'each edge in both orders (`by=("a1", "a2")`); *count* is the sum over all groups. Our time includes reading all '
            "rows through Spark. *Without Spark* is our count in two threads of one process, into a table. networkit uses "
            "local clustering coefficients (turbo) and its triangle scores of edges, which are arrays in memory. Spark SQL "
            "joins cached edges that point from low to high degree twice, and groups each triangle by its corners or its "
            "edges.",
            ("amazon0601",),
            UNDIRECTED,
            (Question("triangle", BY_VERTEX), Question("triangle", BY_EDGE)),
            ("groups", "groups-here", "groups-networkit", "groups-sql"),
            (Question("triangle", BY_VERTEX),),
            beside=("groups-here",),
        ),
        Suite(
            "groups-cycles",
            "4-cycles by edge",
            "Undirected 4-cycles, each once, counted at each edge in both orders. Spark SQL counts paths of two steps by their "
            "ends, and joins them to the edges.",
            (BUNDLED, "amazon0601"),
            UNDIRECTED,
            (Question("4-cycle", BY_EDGE),),
            ("groups", "groups-sql"),
            rounds=3,
        ),
        Suite(
            "partitioned",
            "Each worker owns a part of the index",
            "Undirected triangles, each once. Prefixes travel to the workers that own their keys. Spark SQL joins cached edges "
            "that point from low to high degree, with the best of several settings for partitions and broadcasts. *Moving its "
            "bytes* sends the same packed rows through the same jobs and exchanges, but does not read them. The shared "
            "strategy, which needs the whole index on every machine, is shown for comparison.",
            (BUNDLED, "amazon0601", "R-MAT 4 M"),
            UNDIRECTED,
            _asked(("triangle",), UNIQUE),
            ("bigjoin-partitioned", "spark-sql-oriented", "moving", OURS),
            beside=("moving", OURS),
        ),
        Suite(
            "batches",
            "Memory follows B', not the output",
            "Directed diamonds under the partitioned strategy with eight workers, counted one by one.",
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
            "Directed 4-cliques of a denser graph under the partitioned strategy with eight workers.",
            ("twitter_combined",),
            DIRECTED,
            _asked(("4-clique",)),
            tuple(f"batch-{size}" for size in BATCHES),
            cut_off=600.0,
            versus=False,
        ),
        Suite(
            "workers",
            "Index and load by number of workers",
            "Undirected triangles, each once, on the same two cores for any number of workers. The table shows what each "
            "worker would hold and receive on a cluster.",
            ("R-MAT 4 M",),
            UNDIRECTED,
            _asked(("triangle",), UNIQUE),
            tuple(f"workers-{many}" for many in WORKERS),
            versus=False,
        ),
        Suite(
            "seeds",
            "Counting what a few vertices reach",
            "Directed, plain join semantics. `a1` is restricted to a few vertices, which are drawn again for each run. "
            "*Reached* are the edges that leave the seeds, and those that leave the vertices at their ends, each as often as "
            "it is reached. Times are those of a count through Spark, whose job takes a tenth of a second or more however "
            "little there is to do. Two more columns are CPU times of the same count in one thread of the calling process: one "
            "includes turning ids into codes, planning the query, and binding and running the loops; the other is the loops "
            "alone.",
            ("amazon0601",),
            DIRECTED,
            _asked(PAPER[:3], *(f"{many:,} seeds" for many in (1, 10, 100, 1_000, 10_000, 100_000))),
            ("seeded",),
            _asked(("triangle",), "10 seeds", "1,000 seeds"),
            versus=False,
        ),
        Suite(
            "estimates",
            "Estimates beside counts",
            "Each subgraph once, undirected. A count is estimated a hundred times, each time with other random numbers. "
            "*Inside* is how often the 95 % interval holds the count. *Half-width* is the median of half its width, as a share "
            "of the count. *Exact* is how often the join was so small that it was counted. Times are the median of an "
            "estimate, and the best of a count through Spark, in turns in one process.",
            (BUNDLED, "amazon0601", "twitter_combined", "wiki-Vote", "Email-Enron"),
            UNDIRECTED,
            _asked(PAPER, UNIQUE),
            ("estimated",),
            _asked(("house",), UNIQUE),
            cut_off=_LONG_SECONDS,
            versus=False,
            rounds=0,
        ),
        Suite(
            "shares",
            "One round of copies against rounds over one index",
            "Directed, plain join semantics, with the given number of workers, on the same two cores. *Shares* (Hypercube) "
            "sends every edge to all workers that could need it for one of the query's atoms. Each worker then joins what it "
            "received, with our own loops. The sizes of its axes are chosen for the least load. bigjoin sends prefixes, in "
            "rounds, and stores every edge with one worker in each direction.",
            (BUNDLED, "amazon0601"),
            DIRECTED,
            _asked(("triangle", "4-clique", "diamond")),
            tuple(f"{kind}-{many}" for many in CUBES for kind in ("dealt", "shares")),
            versus=False,
        ),
        Suite(
            "triangles-stored",
            "Symmetries and stored triangles",
            "Undirected, like the paper's comparison with SEED. *Plain* counts every match once for each automorphism of the "
            "query. *SYM* counts each subgraph once. *SYM-TR* does so, too, but with `tri` materialized: 4-cliques, houses and "
            "5-cliques are then joins of triangles. Times are those of counts through Spark. *Explored* counts what the plan's "
            "steps visit, prefix by prefix as in the paper: prefixes built before the last step, and proposed candidates.",
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
            "Wall time of `bigjoin count triangle FILE --master local[2]` on a text file of 100,000 edges, in a new process "
            "each time, with the index in the cache after the first run. The master sends the question to Spark, which has to "
            "start; without it, this question stays in the process (see the next table). It is compared with a process that "
            "starts a Spark session, counts one row, and exits.",
            (BUNDLED,),
            TEXT,
            _TRIANGLE,
            ("bigjoin-start", "spark-start"),
        ),
        Suite(
            "shell",
            "Questions from a shell",
            "Wall time of a whole process, from its start to its answer. The graph is on disk in the form that each system "
            "keeps: `bigjoin count QUERY FILE` in threads and in Spark's tasks, with the index in the cache, and Python with "
            "DuckDB or Kuzu over a database file. *Imports alone* is a process that imports NumPy, numba and Arrow, and ends.",
            (BUNDLED, "wiki-Vote"),
            DIRECTED,
            (*_asked(("triangle", "4-clique")), Question("triangle", FIRST_ROWS)),
            ("shell-local", "shell-shared", "shell-duckdb", "shell-kuzu", "shell-imports"),
            (*_TRIANGLE, Question("triangle", FIRST_ROWS)),
            beside=("shell-shared", "shell-imports"),
            rounds=3,
        ),
        Suite(
            "cost",
            "COST: the cores needed to outperform one thread",
            "The bare kernels in one thread, without Spark, compared with the same kernels through Spark. Only jobs of 5 s and "
            "more count; shorter ones are shown.",
            REAL,
            DIRECTED,
            _asked(("4-clique", "house", "5-clique")),
            ("one-thread", "spark-one", "spark-two"),
            versus=False,
        ),
        Suite(
            "cliques",
            "Sets as bits: cliques and houses, each once",
            "Counted through Spark, and in threads of one process: with sets as bits where that should be faster, and with "
            "lists alone. kClist, its authors' program in C, finds the same numbers of 5-, 6- and 7-cliques of soc-Epinions1 "
            "and of 6-cliques of twitter_combined.",
            (BUNDLED, "twitter_combined"),
            UNDIRECTED,
            _asked(("4-clique", "5-clique", "6-clique", "7-clique", "house"), UNIQUE),
            (OURS, "bits", "lists", "reading"),
            versus=False,
        ),
        Suite(
            "cliques-directed",
            "Sets as bits: directed cliques and houses",
            "The same for directed joins, with rows of bits for each direction.",
            (BUNDLED, "twitter_combined"),
            DIRECTED,
            _asked(("4-clique", "5-clique", "house")),
            (OURS, "bits", "lists", "reading"),
            versus=False,
        ),
        Suite(
            "planning",
            "Planning alone",
            "Processor seconds from a query to its plan, without running it: plans that find matches, plans that count them, "
            "and plans that watch them (all delta queries). `edge*1..64` is a sum of 64 queries.",
            (BUNDLED,),
            UNDIRECTED,
            _asked((*PAPER, "9-clique", "12-clique", "25-cycle", "60-path", "20-star", "30-star"), UNIQUE) + _asked((_WALKS,)),
            ("plan-static", "plan-count", "plan-delta"),
            versus=False,
        ),
        Suite(
            "write",
            "Writing matches",
            "All directed triangles, written to one Parquet file. Our time includes the join. pyarrow writes the same table "
            "from memory, with as many threads, each half to its own file.",
            ("twitter_combined",),
            DIRECTED,
            _TRIANGLE,
            ("bigjoin-write", "pyarrow-write"),
        ),
        Suite(
            "updates",
            "Counting in a graph that changes",
            "Undirected, each subgraph once. A stream of Parquet files inserts edges, 100,000 updates per file and one file "
            "per epoch, under the strategy `shared`. The count is maintained, and must equal that of a new index of all edges. "
            "Times are the mean of ten epochs, as Spark reports them for a trigger: reading the file, the epoch, its commit "
            "and Spark's checkpoint. The *no-op* is a stream over the same files whose batches are one Python job that returns "
            "its input. A count of all matches in an existing index is shown for comparison.",
            (_CHANGING,),
            UNDIRECTED,
            _asked(("triangle", "4-clique", "diamond"), UNIQUE),
            ("watching", "no-op", OURS),
            beside=(OURS,),
            cut_off=_LONG_SECONDS,
            rounds=3,
        ),
        Suite(
            "updates-single",
            "The smallest epoch",
            "The same with one edge per epoch, the mean of thirty epochs. The watching process runs such a small epoch itself, "
            "without Python tasks, which the no-op has. Both include Spark's own work for a batch.",
            (_CHANGING,),
            UNDIRECTED,
            _TRIANGLE_ONCE,
            ("watching-single", "no-op-single"),
            cut_off=_LONG_SECONDS,
            rounds=3,
        ),
        Suite(
            "updates-written",
            "Writing what changed",
            "The undirected triangles that 100,000 updates per epoch create, written to the output folder of a watch and "
            "committed. Our time includes the join and Spark. pyarrow writes the same table from memory to one Parquet file, "
            "in one thread and without syncing it. *Count* is the number of rows of all epochs.",
            (_CHANGING,),
            UNDIRECTED,
            _TRIANGLE_ONCE,
            ("changes-written", "pyarrow-changes"),
            cut_off=_LONG_SECONDS,
            rounds=3,
        ),
        Suite(
            "updates-many",
            "One epoch after another",
            "A thousand epochs of a thousand updates, counting triangles: does an epoch take longer, the more epochs came "
            "before it? The no-op shows what Spark's own log of the stream adds.",
            (_CHANGING,),
            UNDIRECTED,
            _TRIANGLE_ONCE,
            ("watching-many", "no-op-many"),
            cut_off=_LONG_SECONDS,
            rounds=0,
        ),
        Suite(
            "updates-size",
            "Small and large epochs",
            "Undirected triangles, counted by `graph.apply` in one process without Spark, starting with a quarter of the "
            "graph. Times are the mean of a hundred epochs of up to 1,000 updates, of ten larger ones, and of two of the "
            "largest. Each epoch is durable before the next one begins. Memory is the peak of the process.",
            (_CHANGING,),
            UNDIRECTED,
            _TRIANGLE_ONCE,
            tuple(f"epoch-{size}" for size in SIZES),
            cut_off=_LONG_SECONDS,
            rounds=0,
            versus=False,
        ),
        Suite(
            "updates-latency",
            "One edge at a time",
            "Directed triangles, counted by `graph.apply` in one process. All edges but 301 are there; each of these is an "
            "epoch of its own. *Group* makes several epochs durable together, *epoch* each of them before it is reported, and "
            "*none* all of them at the end. *One fsync* appends 4 KiB to a file and waits for the same disk, as often.",
            (BUNDLED,),
            DIRECTED,
            _TRIANGLE,
            (*(f"latency-{sync}" for sync in SYNCS), "synced"),
            cut_off=_LONG_SECONDS,
            rounds=3,
            versus=False,
        ),
        Suite(
            "updates-paper",
            "Beside the paper's own program",
            "Every edge arrives as an update, in random order, in epochs of 1,000 and of 10,000. *dataflow-join* is the "
            "program that the paper's authors wrote (Rust, timely dataflow), with two workers, in memory: nothing that it "
            "finds survives it. bigjoin counts with `graph.apply` in one process, and keeps graph and count on disk. With "
            "*group* several epochs are made durable together, with *epoch* each before it is reported. Times are those of "
            "all epochs, until the last is durable. With several workers, the program adds up a little less than there is: it "
            "ends before all of them have said what they counted last. So its count is shown, and not compared.",
            (BUNDLED,),
            DIRECTED,
            _asked(PAPER[:2]),
            tuple(
                name for size in PAPER_SIZES for name in (f"paper-group-{size}", f"paper-epoch-{size}", f"dataflow-join-{size}")
            ),
            cut_off=_LONG_SECONDS,
            rounds=3,
            versus=False,
        ),
        Suite(
            "updates-all",
            "From an empty graph",
            "Every edge arrives as an update, 10,000 per epoch, and undirected triangles are counted in each epoch, by "
            "`graph.apply` in one process. This is compared with building an index of all edges from a Parquet file and "
            "counting once, in one process, too.",
            (BUNDLED, _CHANGING),
            UNDIRECTED,
            _TRIANGLE_ONCE,
            ("watching-all", "anew"),
            cut_off=_LONG_SECONDS,
            rounds=1,
        ),
        Suite(
            "updates-stars",
            "Stars at a hub",
            "A hub with 100,000 leaves in a sparse random graph. An epoch deletes an edge of the hub, or inserts it again, "
            "and counts stars by `graph.apply` in one process: all of them (*join*), or each set of edges once (*unique*). "
            "Every count is checked against a formula of the degrees; most have more than 64 bits. A *lookup* asks "
            "`graph.exists` whether the hub has an edge to a given leaf, from the text of the question to the answer. A "
            "*bare* lookup turns two ids into codes, and searches one list of the index in memory for one of them.",
            (HUB,),
            UNDIRECTED,
            _asked(("3-star", "5-star", "8-star"), JOIN, UNIQUE),
            ("stars", "lookups", "lookups-bare"),
            cut_off=_LONG_SECONDS,
            rounds=3,
            versus=False,
        ),
        Suite(
            "updates-diamonds",
            "Diamonds and houses in a graph that changes",
            "Undirected, each subgraph once, counted by `graph.apply` in one process, with 100,000 updates per epoch. Three "
            "quarters of the graph are there first. Times are the mean of four epochs.",
            (_CHANGING,),
            UNDIRECTED,
            _asked(("diamond", "house"), UNIQUE),
            ("applied-large",),
            cut_off=_LONG_SECONDS,
            rounds=0,
            versus=False,
        ),
        Suite(
            "updates-window",
            "Two thousand epochs with a sliding window",
            "Undirected triangles, counted. An epoch inserts 1,000 edges, and those of a hundred epochs before expire. The "
            "index is compacted whenever it is worn. Superseded files are removed after every hundred epochs, as `bigjoin "
            "vacuum` does: otherwise they stay for up to an hour, for processes that still read them. At ten points, the "
            "count is that of a new index of the edges in the window. Memory is what the process holds, without mapped files.",
            (_CHANGING,),
            UNDIRECTED,
            _TRIANGLE_ONCE,
            ("sliding",),
            cut_off=_LONG_SECONDS,
            rounds=0,
            versus=False,
        ),
        Suite(
            "updates-capacity",
            "A graph that changes, by number of workers",
            "Undirected triangles, counted, strategy `partitioned`, 100,000 updates per epoch, the mean of three epochs: for "
            "parts of a graph and different numbers of workers, on the same two cores, and what each worker would hold on a "
            "cluster.",
            (*FRACTIONS, _CHANGING),
            UNDIRECTED,
            _TRIANGLE_ONCE,
            tuple(f"capacity-{many}" for many in CAPACITY),
            cut_off=_LONG_SECONDS,
            rounds=1,
            versus=False,
        ),
    )
}
"""Name -> suite, in the order in which they run and appear on the page."""


def get(name: str) -> Suite:
    """Return a suite; raise BigjoinError if there is none of that name."""
    if name not in SUITES:
        hint = did_you_mean(name, list(SUITES)) or f"choose one of {', '.join(SUITES)}"
        raise BigjoinError(f"there is no suite {name!r}; {hint}")
    return SUITES[name]
