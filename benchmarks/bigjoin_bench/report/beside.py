"""docs/paper.md: each table and figure of the paper, the command that measures ours, and both figures beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bigjoin_bench.contenders import OURS
from bigjoin_bench.report import paper
from bigjoin_bench.report.cells import MISSING, by_cell, megabytes, seconds, table
from bigjoin_bench.report.extras import LONG
from bigjoin_bench.report.page import fill
from bigjoin_bench.results import Line, newest

PAGE_MARKER = "beside the paper"
"""The comment in the page between which the table stands."""

Row = tuple[str, str, str, str]
"""Where it is in the paper, the suite that measures it here, their figure, and ours."""


def fill_paper(page: Path, lines: Sequence[Line]) -> None:
    """Bring the table of the page up to date, where there is such a page."""
    if page.exists():
        fill(page, PAGE_MARKER, beside_the_paper(lines))


def beside_the_paper(lines: Sequence[Line]) -> str:
    """Return the table: a row for each figure of the paper that is measured here, too."""
    kept = newest(lines)
    of = {name: [line for line in kept if line.suite == name] for name in {line.suite for line in kept}}
    rows = [*_cost(of.get("cost", ())), *_from_empty(of.get("updates-all", ())), *_index(of.get("directed", ()))]
    rows += [*_intermediate(of.get("foil", ())), *_capacity(of.get("updates-capacity", ())), *_dealt(of.get("workers", ()))]
    rows += [*_throughput(of.get("updates", ())), *_stored(of.get("triangles-stored", ())), *_batches(of.get("batches", ()))]
    titles = ["in the paper", "command", "theirs", "ours"]
    return table(titles, [[where, f"`bigjoin bench {suite}`", *figures] for where, suite, *figures in rows], words=4)


def _cost(lines: Sequence[Line]) -> list[Row]:
    """Figure 4: the cores that it takes to outperform one thread."""
    ours = []
    for (graph, query, _), cell in by_cell(lines).items():
        alone, one, two = (cell[name].seconds if name in cell else None for name in ("one-thread", "spark-one", "spark-two"))
        if alone is not None and one is not None and two is not None and alone >= LONG:
            needed = "1" if one < alone else "2" if two < alone else "more than 2"
            ours.append(f"{graph}, {query}: {needed} ({seconds(alone)} in one thread, {seconds(two)} with 2 cores)")
    theirs = "; ".join(f"{name} {cores} cores" for name, cores in paper.COST.items())
    return [("Figure 4: COST", "cost", f"triangles of TW: {theirs}", "; ".join(ours))] if ours else []


def _from_empty(lines: Sequence[Line]) -> list[Row]:
    """Figure 4, too: a static graph as updates, against one that is loaded first."""
    took = []
    for (graph, query, _), cell in by_cell(lines).items():
        ours, anew = cell.get("watching-all"), cell.get("anew")
        if ours is not None and anew is not None and ours.seconds and anew.seconds:
            took.append(f"{graph}, {query}: {seconds(ours.seconds)} in epochs, {seconds(anew.seconds)} built and counted")
    theirs = "slower than loading them first"
    return [("Figure 4: all edges as updates", "updates-all", theirs, "; ".join(took))] if took else []


def _index(lines: Sequence[Line]) -> list[Row]:
    """Table 2: the time to build an index, and to run a query."""
    rows = []
    for query, theirs_on, run, index, their_run, their_index in paper.EMPTY_HEADED:
        ours = [
            f"{line.graph}: run {seconds(line.seconds)}, index {seconds(line.load)}"
            for line in lines
            if line.query == query and line.contender == OURS and line.seconds is not None
        ]
        said = f"BiGJoinT: run {seconds(their_run)}, index {seconds(their_index)}"
        said += f"; EmptyHeaded: run {seconds(run)}, index {seconds(index)}"
        if ours and theirs_on != "TW":
            rows.append((f"Table 2: {query}, {theirs_on}", "directed", said, "; ".join(ours)))
    return rows


def _intermediate(lines: Sequence[Line]) -> list[Row]:
    """Table 3: what an edge at a time builds, as a multiple of what a vertex at a time does."""
    rows = []
    cells = by_cell(lines)
    for query, run, built, our_run, ours in paper.ARABESQUE:
        said = []
        for (graph, asked, meaning), cell in cells.items():
            vertex, edge = cell.get("vertex-at-a-time"), cell.get("edge-at-a-time")
            if asked == query and vertex is not None and edge is not None and vertex.seconds and edge.seconds:
                more = edge.figures["intermediate"] / vertex.figures["intermediate"]
                how = "symmetry broken" if meaning == "unique" else "plain"
                said.append(f"{graph}, {how}: {more:.1f} x the prefixes, {edge.seconds / vertex.seconds:.1f} x the time")
        if said:
            theirs = f"Arabesque, LJ: {built / ours:.0f} x the prefixes of BiGJoinT, {run / our_run:.0f} x the time"
            rows.append((f"Table 3: {query}", "foil", theirs, "; ".join(said)))
    return rows


def _capacity(lines: Sequence[Line]) -> list[Row]:
    """Figure 5: epochs by the number of workers."""
    largest = [line for line in lines if line.seconds and "index_tuples" in line.figures]
    if not largest:
        return []
    graph = max(largest, key=lambda line: line.figures["index_tuples"]["mean"]).graph
    mine = sorted((line for line in largest if line.graph == graph), key=lambda line: -line.figures["index_tuples"]["mean"])
    first, last = mine[0], mine[-1]
    speeds = [line.figures["updates"] / (line.seconds or 1) for line in mine]
    changed = [line.figures["changed"] / len(line.figures["epochs"]) / (line.seconds or 1) for line in mine]
    speed = (
        f"{graph}, on 2 cores: {_from_to(speeds, 1e3, 'K')} updates, {_from_to(changed, 1e6, 'M')} changed triangles a second"
    )
    held = [f"{line.figures['index_tuples']['max']:,}" for line in (first, last)]
    workers = [line.contender.rpartition("-")[2] for line in (first, last)]
    index = f"{graph}: at most {held[0]} tuples with {workers[0]} worker, {held[1]} with {workers[1]}"
    memory = [line.figures["peak_memory"] for line in mine]
    process = f"{graph}: a process takes {_from_to(memory, 2**20, 'MB')} beside the mapped index"
    return [
        ("Figure 5a: updates", "updates-capacity", paper.CAPACITY["speed"], speed),
        ("Figure 5b: largest index", "updates-capacity", paper.CAPACITY["index"], index),
        ("Figure 5c: memory", "updates-capacity", paper.CAPACITY["memory"], process),
    ]


def _dealt(lines: Sequence[Line]) -> list[Row]:
    """Figure 5b for a static count: how even the loads are."""
    known = [line for line in lines if line.figures.get("load")]
    if not known:
        return []
    last = max(known, key=lambda line: int(line.contender.rpartition("-")[2]))
    load, held = last.figures["load"], last.figures["index_tuples"]
    workers = last.contender.rpartition("-")[2]
    even = f"the busiest receives {load['max'] / load['mean']:.2f} x the mean, and holds {held['max'] / held['mean']:.2f} x"
    return [
        ("Figure 5b: balance, 224 workers", "workers", paper.CAPACITY["balance"], f"{last.graph}, {workers} workers: {even}")
    ]


def _throughput(lines: Sequence[Line]) -> list[Row]:
    """Table 4: how many changed matches are reported in a second."""
    rows = []
    for query, took, speed in paper.COMMON_CRAWL:
        ours = [
            f"{line.graph}: {seconds(line.seconds)} a batch of {line.figures['updates'] // 1000} K, {changed / 1e6:,.0f} M/s"
            for line in lines
            if line.query == query and line.contender == "watching" and line.seconds
            for changed in [line.figures["changed"] / len(line.figures["epochs"]) / line.seconds]
        ]
        theirs = f"CC, 224 workers: {seconds(took)} a batch of 10 K, {speed / 1e6:,.0f} M/s"
        rows.append((f"Table 4: {query}", "updates", theirs, "; ".join(ours) or "not measured"))
    return rows if lines else []


def _stored(lines: Sequence[Line]) -> list[Row]:
    """Table 5: symmetries and stored triangles."""
    rows = []
    cells = by_cell(lines)
    for query, seed, plain, broken, indexed in paper.SEED:
        ours = []
        for (graph, asked, _), cell in cells.items():
            times = [seconds(cell[name].seconds) if name in cell else MISSING for name in ("plain", "sym", "sym-tr")]
            if asked == query:
                ours.append(f"{graph}: {' / '.join(times)}")
        if ours:
            theirs = f"LJ, 160 cores: {' / '.join(map(seconds, (plain, broken, indexed)))}; SEED+O {seconds(seed)}"
            rows.append((f"Table 5: {query} (plain / SYM / SYM-TR)", "triangles-stored", theirs, "; ".join(ours)))
    return rows


def _batches(lines: Sequence[Line]) -> list[Row]:
    """Figure 6: time and memory by B'."""
    ours = [
        f"{size // 1000:,} K: {seconds(line.seconds)}, {megabytes(line.figures['peak_memory'])}"
        for line in lines
        for size in [int(line.contender.rpartition("-")[2])]
        if line.seconds
    ]
    if not ours:
        return []
    return [("Figure 6: batch size B'", "batches", paper.BATCH_SIZE, f"{lines[0].graph}, {lines[0].query}; {'; '.join(ours)}")]


def _from_to(values: Sequence[float], unit: float, name: str) -> str:
    """Return the least and the largest of some values."""
    return f"{min(values) / unit:,.0f} to {max(values) / unit:,.0f} {name}"
