"""docs/skew.md: what skew does to each strategy, in tables and sentences that are made of the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median

from bigjoin_bench.report.cells import MISSING, seconds, table
from bigjoin_bench.report.page import where
from bigjoin_bench.report.plots import can_plot
from bigjoin_bench.report.skew_cells import (
    BASE,
    Cell,
    Figure,
    busy,
    cells_of,
    each_explored,
    imbalance,
    path,
    sent_bytes,
    strategies_of,
    tuples,
)
from bigjoin_bench.report.skew_plots import draw_loads, draw_paths
from bigjoin_bench.report.skew_targets import MANY, targets
from bigjoin_bench.results import Line
from bigjoin_bench.skew.inputs import INPUTS
from bigjoin_bench.skew.relations import SAFETY

_INTRODUCTION = f"""# Skew

*Written by `bigjoin bench --report` from `results.jsonl`; do not edit. `bigjoin bench skew` measures again.*

`partitioned` is the paper's BiGJoin: one worker owns a key, so a key that everybody asks for is one worker's load.
`balanced` is its BiGJoin-S (section 3.4): lookups are dealt by hashes of all that they name, and work is dealt evenly.
`heavy-light` is ours, between the two: only keys that have much of a relation, or of the first step's work, are dealt out.
The paper proves that the second has no skew, does not measure it, and leaves open how lopsided real graphs are and when
that hurts. This page measures it.

The same two cores run all workers, whatever their number, so times do not show what a cluster would gain. Loads do:

- **Load** is what a worker receives in one exchange, in tuples: prefixes, candidates, requests or answers.
- **Critical path** is the load of the busiest worker, added up over all exchanges. If tuples are what costs, a cluster
  takes as long as that.
- **Imbalance** is the critical path over an even share of all that travelled. It is 1 where workers always receive the
  same.
- **Busy** is the time of all tasks together: the total work.

A request of many prefixes of a worker for the same key is one tuple under `balanced`, and an answer that something is not
held is none. Under `partitioned` each candidate is a tuple, though candidates that share a list travel as one list. So
bytes stand beside tuples.

Lopsided inputs run with B' = {SAFETY} w max(w, log₂(IN x MaxOut)), {SAFETY} times what theorem 3.4 asks for, MaxOut being
the AGM bound; real graphs with the default B'. A setting that is otherwise says so. Every count was compared with a
closed formula or a published number, and with the `shared` strategy, before a figure was kept.
"""

_THEOREM = """## What theorem 3.4 says, and what was seen

If B'/w is at least max(w, log(IN x MaxOut)), each worker receives O(B') in each round, with probability 1 - O(1/IN),
under any skew. The proof has these parts, and each was watched:

- Balance gives each worker the same number of candidates to within one (*dealt*: the largest difference).
- A batch of B = w B' candidates gives the next step at most 2B prefixes (*new*), and no more than 4B wait at a step
  (*waiting*).
- Workers put equal requests together, so a key is asked for at most w times; hashes then deal keys to workers, which is
  throwing balls into bins. *Lookups* is the most requests that a worker got in an exchange of a full batch, over B', or
  over the mean if that is more. Each run draws its hashes anew, so the worst is shown of all runs
  ever measured, with their median and number (of the first two measurements only the worst of ten runs is known).

The last is the only one that is a matter of luck. *Same keys* is its worst case: all workers ask for the same B' keys.
Where a batch never was full, a dash stands for lookups: the bound is not put to the test there. With 224 workers a full
batch has 45 M candidates."""

_HURTS = """## When it hurts

A path is never shorter than what the most wanted key alone brings to its owner. So a key hurts `partitioned` when its
share of all that travels is more than a worker's, 1/w, and from there on more workers do not shorten the path. On *One
key*, *One owner* and *Funnel* that is so from 16 workers on.

A hub need not be such a key. Where each subgraph is counted once (`unique`), symmetries are broken by degree, and of a
hub's list only the part before it is read. Compare the imbalance of all triangles with that of unique ones: the same
graph and pattern, with symmetries and without. Workers looked at one by one (soc-Epinions1 and Theory 175 K; not part of
the results) agree: in all triangles the owner of the largest hub was the busiest in each exchange; in unique ones it was
some other worker, and the owners of the eight largest hubs received 0.9 to 1.3 times the mean. What is left of the
imbalance there was not explained.

If `partitioned` is not lopsided, no other can be much shorter: its imbalance (in brackets above, where an aim was missed) is
what there is to gain. The Theory graphs have many hubs, of many sizes, with many owners.

Where the path of `partitioned` does not fall, no cluster is large enough for it. Where it does, what `balanced` gains in
the path has to be weighed against what it sends and does in all: the table below has both."""


KINDS = ("requests", "answers", "deal")
"""What travels under the balanced strategy."""


def write_skew(lines: Sequence[Line], folder: Path) -> Path | None:
    """Write skew.md, and its plots in a folder of that name; return the page, if anything was measured."""
    cells = cells_of(lines)
    if not cells:
        return None
    names = strategies_of(cells)
    skewed, real = [cell for cell in cells if cell.is_skewed], [cell for cell in cells if not cell.is_skewed]
    pictures = folder / "skew" if can_plot() else None
    parts = [_INTRODUCTION, "## In short", targets(cells), _summary(real, names), "## Inputs", inputs(cells)]
    parts += [_THEOREM, invariants(cells)]
    parts += ["## Critical paths, on lopsided inputs", paths(skewed, names), *_picture(*draw_paths(cells, names, pictures))]
    if kinds := by_kind(cells):
        parts += ["## Where balanced is not even", _KINDS, kinds]
    parts += ["## Load, exchange by exchange", _LOADS, *_picture(*draw_loads(cells, names, pictures))]
    parts += ["## Communication", communication(cells, names), _HURTS]
    parts += ["## Real graphs", overhead(real, names), "## Index entries", _INDEX, index_entries(cells, names), _DOUBTS]
    parts.append(where([line for cell in cells for line in cell.lines.values()]))
    page = folder / "skew.md"
    folder.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join(part.strip("\n") for part in parts if part) + "\n")
    return page


_KINDS = """Imbalance by what travels, 64 workers. The hashes of the theorem even out what a worker is asked. Not what it asks:
workers have the same number of candidates, but where many of these share a key one request does for all of them, and a
worker whose candidates differ sends more requests, and gets more answers. Nor the ranges that are dealt: one prefix with
many candidates is one tuple, and many with one are many. None of this breaks the theorem, which bounds all three by B',
and says nothing of how far below that the others are."""

_LOADS = """A line is the busiest worker's load, a broken line the mean. `partitioned` has few exchanges, `balanced` some
for every batch, in pairs of requests and answers (the first 60 are shown): what matters is how far a line is from its
mean."""

_INDEX = """What a worker holds, of all lists that the plan reads. `balanced` has three indices (counts, positions, pairs),
evenly dealt. Under `partitioned` a hub's list lies with one worker, and lists without a key (projections, which only
relations have) with every worker."""

_DOUBTS = """## What this does not show

- Two cores are no cluster: that a shorter path is a shorter time is an assumption, which holds where receiving a tuple
  costs the same everywhere. Busy seconds are measured, and include Python and Spark at work for each exchange of each
  round: many small rounds cost `balanced` much more than its tuples say.
- The graph of 28.7 M edges is not part of a usual run: `bigjoin bench skew --graph "Theory 28.7 M"` measures it. It has
  three thousand million candidates, which `balanced` looks up one by one.
- A few runs do not tell how often lookups go beyond a number. Keys that all workers ask for, drawn some thousand times without
  the rest (not part of the results): neighbours give 1.00 to 1.01, as they are dealt in turn; keys of which no two are
  near each other gave more than 1.2 in a quarter of all draws for 16 workers (median 1.17), in one of seventeen for 64
  (1.15), and in none of sixty for 224 (1.10). The theorem's constant is not 1, and a larger B' brings it closer to that.
- The bound of theorem 3.4 is about full batches. With 224 workers only inputs of more than 45 M candidates have one.
- In *One owner* values are as frequent as each other, since codes go by frequency: an adversary has to know that. Without
  it, values that many prefixes have get the smallest codes, and these are dealt to workers in turn."""


def inputs(cells: Sequence[Cell]) -> str:
    """Return what was joined."""
    rows = {}
    for cell in cells:
        line = next(iter(cell.lines.values()))
        title = INPUTS[cell.graph].title if cell.graph in INPUTS else ""
        rows[cell.title] = [cell.title, title, f"{line.figures['input']:,}", f"{int(line.count or 0):,}"]
    return table(["input", "", "tuples", "matches"], rows.values(), words=2)


def invariants(cells: Sequence[Cell]) -> str:
    """Return what theorem 3.4 bounds, where its batch size was used, and the worst of all other settings in one row."""
    rows = []
    for cell in cells:
        if cell.by_theorem and (line := cell.lines.get("balanced")) is not None:
            rows.append([cell.title, str(cell.workers), f"{line.figures['batch_size']:,}", *_bounds([line], cell.draws)])
    others = [cell for cell in cells if not cell.by_theorem and "balanced" in cell.lines]
    if others:
        lucky = [draw for cell in others for draw in cell.draws]
        rows.append(["all others, default B'", "", "", *_bounds([cell.lines["balanced"] for cell in others], lucky)])
    titles = ["input", "workers", "B'", "rounds", "dealt", "lookups / B'", "median, runs", "new / B", "waiting / B"]
    return table(titles, rows)


def paths(cells: Sequence[Cell], names: Sequence[str]) -> str:
    """Return critical paths, how far they are from even, and how much shorter than partitioned's."""
    others = [name for name in names if name != BASE]
    rows = [
        [
            cell.title,
            cell.setting,
            *_shown(cell, names, path, "{:,.0f}"),
            *_shown(cell, names, imbalance, "{:.2f}"),
            *(_inverse(cell.over(name, path)) for name in others),
        ]
        for cell in cells
    ]
    titles = [*(f"path, {n}" for n in names), *(f"imbalance, {n}" for n in names), *(f"{BASE} / {n}" for n in others)]
    return table(["input", "workers", *titles], rows)


def by_kind(cells: Sequence[Cell]) -> str:
    """Return how even requests, answers and deals are; empty where lines do not say."""
    rows = []
    for cell in cells:
        line = cell.lines.get("balanced")
        kinds = line.figures.get("kinds") if line is not None and cell.workers == MANY else None
        if line is not None and kinds:
            each = [f"{kinds[k][0] / max(1e-9, kinds[k][1]):.2f}" if k in kinds else MISSING for k in KINDS]
            total = sum(most for most, _ in kinds.values())
            shares = [f"{kinds[k][0] / total:.0%}" if k in kinds else MISSING for k in KINDS]
            rows.append([cell.title, cell.setting, *each, *shares])
    titles = ["input", "workers", *KINDS, *(f"{kind}, of the path" for kind in KINDS)]
    return table(titles, rows) if rows else ""


def communication(cells: Sequence[Cell], names: Sequence[str]) -> str:
    """Return what travelled over what travels under partitioned, and the constants that bound it on these inputs."""
    others = [name for name in names if name != BASE]
    said = []
    for name in others:
        most, where_most = _most(cells, name, tuples)
        sent, where_sent = _most(cells, name, sent_bytes)
        said.append(
            f"Over all of these, `{name}` sends at most {most:.2f} times the tuples of `{BASE}` ({where_most}), "
            f"and {sent:.1f} times the bytes ({where_sent})."
        )
    said.append(
        "In bytes no constant is to be expected: candidates that share a list travel as one list under `partitioned`, however "
        "many prefixes propose it, and are looked up pair by pair under `balanced`. *Same keys* is made of such lists."
    )
    for name in names:
        most_each = max(each_explored(cell.lines[name]) for cell in cells if name in cell.lines)
        said.append(f"For each prefix and candidate, `{name}` sends {most_each:.2f} tuples at most.")
    rows = [
        [
            cell.title,
            cell.setting,
            *_shown(cell, names, lambda line: tuples(line) / 1e6, "{:,.2f} M"),
            *(_ratio(cell.over(name, tuples)) for name in others),
            *(_ratio(cell.over(name, sent_bytes)) for name in others),
        ]
        for cell in cells
    ]
    titles = [*(f"tuples, {n}" for n in names), *(f"{n}, tuples" for n in others), *(f"{n}, bytes" for n in others)]
    return f"{' '.join(said)}\n\n{table(['input', 'workers', *titles], rows)}"


def overhead(cells: Sequence[Cell], names: Sequence[str]) -> str:
    """Return how lopsided real graphs are, and what it costs to even them out."""
    others = [name for name in names if name != BASE]
    rows = [
        [
            cell.title,
            cell.setting,
            *_shown(cell, names, imbalance, "{:.2f}"),
            *(_ratio(cell.over(name, figure)) for name in others for figure in (path, tuples, sent_bytes, busy)),
            *(seconds(cell.lines[name].seconds) if name in cell.lines else MISSING for name in names),
        ]
        for cell in cells
    ]
    ratios = [f"{name}, {what}" for name in others for what in ("path", "tuples", "bytes", "busy")]
    titles = [*(f"imbalance, {n}" for n in names), *ratios, *(f"time, {n}" for n in names)]
    return f"Ratios are over `{BASE}`.\n\n{table(['graph', 'workers', *titles], rows)}"


def index_entries(cells: Sequence[Cell], names: Sequence[str]) -> str:
    """Return what workers hold."""
    rows = {}
    for cell in cells:
        held = [
            f"{cell.lines[name].figures['index_tuples'][which]:,.0f}" if name in cell.lines else MISSING
            for name in names
            for which in ("mean", "max")
        ]
        rows[cell.title, cell.workers] = [cell.title, str(cell.workers), *held]
    return table(["input", "workers", *(f"{name}, {which}" for name in names for which in ("mean", "max"))], rows.values())


def _summary(cells: Sequence[Cell], names: Sequence[str]) -> str:
    """Return which strategy has the shortest path and the least work on real graphs."""
    if not cells:
        return ""
    lopsided = [imbalance(cell.lines[BASE]) for cell in cells if BASE in cell.lines]
    said = [f"On real graphs the imbalance of `{BASE}` is {min(lopsided):.2f} to {max(lopsided):.2f}."] if lopsided else []
    for what, figure in (("shortest critical path", path), ("least busy time", busy)):
        wins = dict.fromkeys(names, 0)
        for cell in cells:
            wins[min(cell.lines, key=lambda name: figure(cell.lines[name]))] += 1
        listed = ", ".join(f"`{name}` in {won}" for name, won in wins.items())
        said.append(f"Of {len(cells)} settings on them, the {what} is that of {listed}.")
    return " ".join(said)


def _bounds(lines: Sequence[Line], draws: Sequence[float]) -> list[str]:
    found = {name: max(line.figures["balance"][name] for line in lines) for name in ("dealt", "new", "waiting")}
    rounds = str(lines[0].figures["rounds"]) if len(lines) == 1 else ""
    lookups = f"{max(draws):.2f}" if draws else MISSING
    middle = f"{median(draws):.2f}, {len(draws)}" if draws else MISSING
    return [rounds, str(found["dealt"]), lookups, middle, f"{found['new']:.2f}", f"{found['waiting']:.2f}"]


def _most(cells: Sequence[Cell], name: str, figure: Figure) -> tuple[float, str]:
    found = [
        (ratio, f"{cell.title}, {cell.workers} workers") for cell in cells if (ratio := cell.over(name, figure)) is not None
    ]
    return max(found, default=(0.0, ""))


def _shown(cell: Cell, names: Iterable[str], figure: Callable[[Line], float], form: str) -> list[str]:
    return [form.format(figure(cell.lines[name])) if name in cell.lines else MISSING for name in names]


def _ratio(value: float | None) -> str:
    return MISSING if value is None else f"{value:.2f}"


def _inverse(value: float | None) -> str:
    return f"{1 / value:.1f}" if value else MISSING


def _picture(*files: Path) -> list[str]:
    return [f"![{file.stem.replace('-', ' ')}]({file.parent.name}/{file.name})" for file in files]
