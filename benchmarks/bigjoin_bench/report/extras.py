"""What single suites show beyond times: the paper's tables beside ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bigjoin_bench.contenders import CONTENDERS, OURS
from bigjoin_bench.motifs import TIMED
from bigjoin_bench.report import paper
from bigjoin_bench.report.cells import MISSING, by_cell, seconds, table
from bigjoin_bench.report.updates import TABLES
from bigjoin_bench.results import Line

LONG = 5.0
"""Seconds of one thread from which on a job counts for COST."""


def index_and_run(lines: Sequence[Line]) -> str:
    """Return index time against run time of the directed suite, with the paper's EmptyHeaded figures beside it."""
    rows = [
        [line.graph, line.query, CONTENDERS[line.contender].label, *_against(line.load, line.seconds)]
        for line in lines
        if line.query in ("triangle", "diamond") and line.contender in (OURS, "duckdb", "kuzu")
    ]
    for query, graph, run, index, our_run, our_index in paper.EMPTY_HEADED:
        rows.append([f"{graph}, in the paper", query, "EmptyHeaded", *_against(index, run)])
        rows.append([f"{graph}, in the paper", query, "BiGJoinT", *_against(our_index, our_run)])
    return "### Index time against run time\n\n" + table(
        ["graph", "query", "system", "index", "run", "index / run"], rows, words=3
    )


def speed(lines: Sequence[Line]) -> str:
    """Return how many rows per second go into an index."""
    rows = [
        [
            line.graph,
            f"{line.figures['rows']:,}",
            CONTENDERS[line.contender].label,
            f"{line.figures['rows'] / line.seconds / 1e6:.1f} M",
        ]
        for line in lines
        if line.seconds
    ]
    return "\n\n".join([table(["graph", "rows", "system", "rows per second"], rows), *_limits(lines)])


def _limits(lines: Sequence[Line]) -> list[str]:
    """Return the parts of what a build cannot do without, and how many times as long ours takes."""
    rows = []
    for (graph, _, _), cell in by_cell(lines).items():
        limit, ours = cell.get("build-limit"), cell.get("bigjoin-build")
        if limit is not None and limit.seconds and ours is not None and ours.seconds:
            parts = [seconds(limit.figures[part]) for part in ("read", "sort", "write", "copy")]
            speeds = f"{limit.figures['bytes'] / 1e6:,.0f} MB"
            rows.append([graph, *parts, speeds, seconds(limit.seconds), f"{ours.seconds / limit.seconds:.1f}"])
    titles = ["graph", "read", "sort", "write", "for comparison: copy the keys", "index", "limit", "bigjoin / limit"]
    return ["What the limit consists of:", table(titles, rows)] if rows else []


def intermediate(lines: Sequence[Line]) -> str:
    """Return intermediate results beside each other, with the paper's Arabesque and SEED tables."""
    rows = []
    for (graph, query, meaning), cell in by_cell(lines).items():
        ways = [cell.get(name) for name in ("vertex-at-a-time", "edge-at-a-time", "factorized")]
        rows.append([f"{query}, {'symmetry broken' if meaning == 'unique' else 'plain'}", graph, *_foil(ways)])
    for query, run, built, our_run, ours in paper.ARABESQUE:
        figures = f"{ours:,.0f}", f"{built:,.0f}", MISSING, seconds(our_run), seconds(run), MISSING
        rows.append([f"{query}, BiGJoinT and Arabesque", "LJ, in the paper", *figures])
    titles = ["query", "graph", "intermediate, vertex", "edge", "factorized", "time, vertex", "edge", "factorized"]
    seed = [[query, *map(seconds, times)] for query, *times in paper.SEED]
    broken = [
        [query, seconds(plain), seconds(unique), f"{plain / unique:.1f}"] for query, plain, unique in _both_meanings(lines)
    ]
    return "\n\n".join(
        [
            table(titles, rows, words=2),
            "What breaking symmetry gains, a vertex at a time:",
            table(["query", "plain", "symmetry broken", "plain / broken"], broken),
            "And in the paper (LJ, 160 cores), where plain queries are directed and the house is factorized:",
            table(["query", "SEED+O", "BiGJoinT", "symmetry broken", "and triangles indexed"], seed),
        ]
    )


def cost(lines: Sequence[Line]) -> str:
    """Return the cores that it takes to outperform one thread."""
    rows = []
    for (graph, query, _), cell in by_cell(lines).items():
        alone = cell["one-thread"].seconds if "one-thread" in cell else None
        through = [(cores, cell[name].seconds) for cores, name in ((1, "spark-one"), (2, "spark-two")) if name in cell]
        if alone is None:
            continue
        faster = [str(cores) for cores, found in through if found is not None and found < alone]
        shares = [f"{found / alone:.2f}" if found is not None else MISSING for _, found in through]
        needed = "too short" if alone < LONG else faster[0] if faster else "more than 2"
        rows.append([graph, query, seconds(alone), *shares, needed])
    rows += [["TW, in the paper", f"triangle, {name}", "", "", "", str(cores)] for name, cores in paper.COST.items()]
    return table(["graph", "query", "one thread", "1 core / one thread", "2 cores / one thread", "COST"], rows, words=2)


def exchanges(lines: Sequence[Line]) -> str:
    """Return what travelled, and the time against that of moving it and of not having to."""
    rows = []
    for (graph, query, _), cell in by_cell(lines).items():
        ours, moving, shared = (cell.get(name) for name in ("bigjoin-partitioned", "moving", OURS))
        if ours is None or ours.seconds is None:
            continue
        ratios = [f"{ours.seconds / other.seconds:.2f}" if other and other.seconds else MISSING for other in (moving, shared)]
        figures = ours.figures
        sent = f"{figures['tuples'] / 1e6:,.1f} M", f"{figures['bytes'] / 1e6:,.1f} MB", str(figures["rounds"])
        rows.append([graph, query, *sent, *ratios])
    titles = ["graph", "query", "tuples sent", "bytes sent", "rounds", "time / moving the bytes", "time / shared"]
    return table(titles, rows, words=2)


def motifs(lines: Sequence[Line]) -> str:
    """Return what was asked, and the bytes that were written for shuffles."""
    names = dict.fromkeys(line.contender for line in lines)
    rows = []
    for (graph, query, meaning), cell in by_cell(lines).items():
        written = [cell[name].figures.get("shuffled") if name in cell else None for name in names]
        rows.append([graph, f"{query}, {meaning}", *map(_megabytes, written)])
    labels = (CONTENDERS[name].label for name in names)
    asked = [[query, f"`{TIMED[query]}`"] for query in dict.fromkeys(line.query for line in lines)]
    return "\n\n".join(
        [
            "Bytes that were written for shuffles, as Spark counts them (what is broadcast does not count):",
            table(["graph", "query", *labels], rows, words=2),
            "The motifs:",
            table(["query", "motif"], asked, words=2),
        ]
    )


def same_rows(lines: Sequence[Line]) -> str:
    """Return how many rows each motif has in each graph; where both sides did not have the same, say so."""
    graphs = list(dict.fromkeys(line.graph for line in lines))
    found = {(line.query, line.graph): "differ" if line.failure else f"{int(line.count or 0):,}" for line in lines}
    queries = dict.fromkeys(line.query for line in lines)
    rows = [[f"`{query}`", *(found.get((query, graph), MISSING) for graph in graphs)] for query in queries]
    same = sum(line.failure is None and line.count is not None for line in lines)
    said = f"The rows are the same for {same:,} of {len(lines):,} questions. How many there are:"
    return f"{said}\n\n{table(['motif', *graphs], rows)}"


def batches(lines: Sequence[Line]) -> str:
    """Return the memory of runs with different B'."""
    rows = []
    for line in lines:
        f = line.figures
        if line.seconds is None:
            continue
        rows.append(
            [
                CONTENDERS[line.contender].label,
                seconds(line.seconds),
                f"{f['peak_memory'] / 1e6:,.0f} MB",
                f"{f['load']['mean']:,.0f}",
                f"{f['load']['max']:,}",
                f"{f['waiting']['prefixes']:,}",
                f"{f['waiting']['bytes'] / 1e6:,.1f} MB",
                f"{int(line.count or 0):,}",
            ]
        )
    titles = ["", "time", "peak of a process", "load of a worker, mean", "max", "waiting prefixes", "on disk", "matches"]
    return table(titles, rows)


def dealt(lines: Sequence[Line]) -> str:
    """Return what each worker holds and receives."""
    rows = []
    for line in lines:
        index, load = line.figures.get("index_tuples"), line.figures.get("load")
        if index and load:
            each = [f"{index['mean']:,.0f}", f"{index['max']:,}", f"{load['mean']:,.0f}", f"{load['max']:,}"]
            rows.append(
                [CONTENDERS[line.contender].label, *each, f"{load['max'] / max(1, load['mean']):.2f}", seconds(line.seconds)]
            )
    return table(["", "index tuples, mean", "max", "load, mean", "max", "load, max / mean", "time"], rows)


def copies(lines: Sequence[Line]) -> str:
    """Return what travelled and what workers held, by copies and by prefixes."""
    rows = []
    for line in lines:
        f, kind = line.figures, line.contender.partition("-")[0]
        if line.seconds is None or "index_tuples" not in f:
            continue
        held = f["index_tuples"]
        total = held["mean"] * int(line.contender.partition("-")[2])
        axes = "x".join(map(str, f["shares"])) if kind == "shares" else ""
        sizes = f"{f['tuples'] / 1e6:,.1f} M", f"{total / 1e6:,.2f} M", f"{held['mean']:,.0f}", f"{held['max']:,}"
        rows.append(
            [line.graph, line.query, CONTENDERS[line.contender].label, *sizes, str(f["rounds"]), axes, seconds(line.seconds)]
        )
    titles = [
        "graph",
        "query",
        "workers",
        "tuples sent",
        "tuples held by all",
        "by one, mean",
        "by one, max",
        "rounds",
        "cube",
        "time",
    ]
    return table(titles, rows, words=3)


def seeds(lines: Sequence[Line]) -> str:
    """Return how candidates and times follow what seeds reach."""
    rows = []
    for line in lines:
        f = line.figures
        if line.seconds is None or not f:
            continue
        sizes = (
            f"{f['reached']:,}",
            f"{f['candidates']:,}",
            f"{f['candidates'] / max(1, f['reached']):.2f}",
            f"{f['matches']:,}",
        )
        rows.append(
            [
                line.graph,
                line.query,
                f"{f['seeds']:,}",
                *sizes,
                seconds(line.seconds),
                *(f"{1000 * f[name]:,.1f} ms" for name in ("alone", "join")),
            ]
        )
    titles = ["graph", "query", "seeds", "reached", "candidates", "candidates / reached", "matches", "through Spark"]
    return table([*titles, "in one thread", "the join alone"], rows, words=2)


def estimates(lines: Sequence[Line]) -> str:
    """Return how good intervals are, cell by cell and in all, and what an estimate takes beside a count."""
    measured = [line for line in lines if line.seconds is not None and "inside" in line.figures]
    rows = []
    for line in measured:
        f = line.figures
        share = f"{(line.seconds or 0) / f['counting']:.3f}"
        width, times = f"{f['half_width']:.1%}", (seconds(line.seconds), seconds(f["counting"]), share)
        rows.append(
            [
                line.graph,
                line.query,
                f"{int(line.count or 0):,}",
                f"{f['inside']} of {f['runs']}",
                width,
                f"{f['exact']}",
                *times,
            ]
        )
    titles = ["graph", "query", "count", "inside", "half-width", "exact", "an estimate", "a count", "estimate / count"]
    inside, runs = (sum(line.figures[name] for line in measured) for name in ("inside", "runs"))
    narrow = sum(line.figures["half_width"] <= 0.1 for line in measured)
    said = (
        f"In all, the interval held the count in {inside:,} of {runs:,} runs. "
        f"In {narrow} of {len(measured)} cells, its half-width was at most 10 % of the count."
    )
    return f"{table(titles, rows, words=2)}\n\n{said}"


def groups(lines: Sequence[Line]) -> str:
    """Return what counting by groups costs beside a count of everything, in one process and in turn."""
    rows = []
    for line in lines:
        f = line.figures
        if line.seconds is not None and "ratio" in f:
            times = seconds(f["total"]), seconds(f["grouped"]), f"{f['ratio']:.2f}", seconds(f["read"])
            rows.append([line.graph, f"{line.query}, {line.meaning}", f"{f['matches']:,}", f"{f['groups']:,}", *times])
    titles = [
        "graph",
        "query",
        "matches",
        "groups",
        "everything",
        "by groups",
        "by groups / everything",
        "reading the rows",
    ]
    said = "A count of everything and one by groups, in turn in one process: medians, and the median of their ratio."
    return f"{said}\n\n{table(titles, rows, words=2)}"


def stored(lines: Sequence[Line]) -> str:
    """Return what was explored with and without symmetries and stored triangles, and the ratios."""
    rows = []
    for (graph, query, _), cell in by_cell(lines).items():
        ways = [cell.get(name) for name in ("plain", "sym", "sym-tr")]
        if any(way is None or way.seconds is None for way in ways[1:]):
            continue
        _, sym, tri = ways
        assert sym is not None
        assert tri is not None
        explored = [None if way is None or way.seconds is None else sum(way.figures.values()) for way in ways]
        shown = [MISSING if n is None else f"{n / 1e6:,.1f} M" for n in explored]
        times = [seconds(None if way is None else way.seconds) for way in ways]
        fewer = f"{explored[1] / explored[2]:.1f}" if explored[1] and explored[2] else MISSING
        prefixes = f"{sym.figures['prefixes'] / 1e6:,.1f} M", f"{tri.figures['prefixes'] / 1e6:,.1f} M"
        faster = f"{(sym.seconds or 0) / (tri.seconds or 1):.2f}"
        rows.append([graph, query, *times, faster, *shown, fewer, *prefixes])
    titles = ["graph", "query", "plain", "SYM", "SYM-TR", "SYM / SYM-TR", "explored: plain", "SYM", "SYM-TR", "SYM / SYM-TR"]
    return table([*titles, "prefixes: SYM", "SYM-TR"], rows, words=2)


def gained(lines: Sequence[Line]) -> str:
    """Return how many times as long lists alone take."""
    rows = []
    for (graph, query, _), cell in by_cell(lines).items():
        bits, lists = cell.get("bits"), cell.get("lists")
        if bits is not None and lists is not None and bits.seconds:
            longer = lists.seconds / bits.seconds if lists.seconds else None
            more = MISSING if lists.over is None else f"> {lists.over / bits.seconds:.0f}"
            rows.append([graph, query, more if longer is None else f"{longer:.1f}"])
    return "### What bits gain\n\n" + table(["graph", "query", "lists / bits"], rows, words=2)


EXTRAS: dict[str, Callable[[Sequence[Line]], str]] = {
    "index": speed,
    "motifs": motifs,
    "motifs-wide": motifs,
    "motifs-shuffled": motifs,
    "motifs-rows": same_rows,
    "partitioned": exchanges,
    "batches": batches,
    "batches-cliques": batches,
    "workers": dealt,
    "shares": copies,
    "seeds": seeds,
    "estimates": estimates,
    "groups": groups,
    "groups-cycles": groups,
    "triangles-stored": stored,
    "foil": intermediate,
    "cost": cost,
    "cliques": gained,
    "cliques-directed": gained,
    "directed": index_and_run,
    **TABLES,
}
"""Suite -> what it shows beyond the tables of all suites."""


def _megabytes(written: int | None) -> str:
    return MISSING if written is None else f"{written / 1e6:,.1f} MB"


def _against(index: float | None, run: float | None) -> tuple[str, str, str]:
    return seconds(index), seconds(run), f"{index / run:.2f}" if index is not None and run else MISSING


def _foil(ways: Sequence[Line | None]) -> list[str]:
    built = [None if line is None else line.figures.get("intermediate") for line in ways]
    times = [None if line is None else line.seconds for line in ways]
    cut = ["" if line is None or line.over is None else f"> {line.over:.0f} s" for line in ways]
    return [
        *(MISSING if n is None else f"{n:,}" for n in built),
        *(over or seconds(time) for over, time in zip(cut, times, strict=True)),
    ]


def _both_meanings(lines: Sequence[Line]) -> list[tuple[str, float, float]]:
    times: dict[str, dict[str, float]] = {}
    for line in lines:
        if line.contender == "vertex-at-a-time" and line.seconds is not None:
            times.setdefault(line.query, {})[line.meaning] = line.seconds
    return [(query, found["distinct"], found["unique"]) for query, found in times.items() if len(found) == 2]
