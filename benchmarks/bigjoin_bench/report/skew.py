"""docs/skew.md: what skew does to each strategy, in tables and sentences made from the results."""

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
from bigjoin_bench.report.skew_targets import TARGET_WORKERS, targets
from bigjoin_bench.results import Line
from bigjoin_bench.skew.inputs import INPUTS
from bigjoin_bench.skew.relations import SAFETY

_INTRODUCTION = f"""# Skew

*Written by `bigjoin bench --report` from `results.jsonl`; do not edit. `bigjoin bench skew` measures again.*

Data is skewed if a few keys have most of the tuples, as the hubs of a social network do. On a cluster, the workers that own
these keys may then have much more to do than the others. This page measures how much, under three strategies:

- `partitioned` is the paper's BiGJoin. Each key has one owner, so a key that every worker needs puts all its load on one
  worker.
- `balanced` is the paper's BiGJoin-S (section 3.4). Lookups are placed by a hash of everything they name, and work is dealt
  evenly.
- `heavy-light` is our own, and in between. It spreads only those keys that hold much of a relation, or much of the first
  step's work.

The paper proves that BiGJoin-S has no skew, but does not measure it. It also leaves open how skewed real graphs are, and when
that hurts.

The same two cores run any number of workers, so times do not show what a cluster would gain. Loads do:

- **Load** is what a worker receives in one exchange, in tuples: prefixes, candidates, requests or answers.
- **Critical path** is the load of the busiest worker, summed over all exchanges. If tuples dominate the cost, this is how
  long a cluster takes.
- **Imbalance** is the critical path divided by an even share of everything sent. It is 1 if all workers always receive
  the same.
- **Busy** is the time of all tasks together: the total work.

Tuples alone would not be a fair comparison. Under `balanced`, a worker's requests for the same key travel as one tuple, and a
negative answer costs none. Under `partitioned`, each candidate counts as a tuple, although candidates that share a list
travel as one list. So the tables show bytes as well as tuples.

Skewed inputs run with B' = {SAFETY} w max(w, log₂(IN x MaxOut)), {SAFETY} times what theorem 3.4 requires, where MaxOut
is the AGM bound. Real graphs run with the default B'. Other settings are marked. A figure was kept only if the count agreed
with a closed formula or a published number, and with the `shared` strategy.
"""

_THEOREM = """## What theorem 3.4 says, and what was measured

Theorem 3.4 says: if B'/w is at least max(w, log(IN x MaxOut)), each worker receives O(B') in each round, with probability
1 - O(1/IN), under any skew. The proof has these parts, and each was measured:

- Balance gives all workers the same number of candidates to within one (*dealt*: the largest difference).
- A batch of B = w B' candidates gives the next step at most 2B prefixes (*new*), and no more than 4B wait at a step
  (*waiting*).
- A worker combines equal requests, so a key is requested at most w times. Hashes then distribute keys over workers, as if
  balls were thrown into bins. *Lookups* is the largest number of requests that a worker received in an exchange of a full
  batch, divided by B', or by the mean if that is larger. Each run draws new hashes, so the table shows the maximum of all
  runs ever measured, with their median and number (of the first two measurements, only the maximum of ten runs is known).

Only the last part depends on chance. *Same keys* is its worst case: all workers request the same B' keys. If no batch was
ever full, the bound is not tested, and the table shows a dash for lookups. With 224 workers, a full batch has 45 M
candidates."""

_HURTS = """## When it hurts

The most requested key sends all its load to one owner, and no path is shorter than that. So a key hurts `partitioned` when
its share of everything sent exceeds a worker's share, 1/w. From there on, more workers do not shorten the path. On *One
key*, *One owner* and *Funnel*, this happens from 16 workers on.

A hub is not always such a key. If each subgraph is counted once (`unique`), symmetries are broken by degree, and only the
part of a hub's list before the hub itself is read. To see this, compare the imbalance of all triangles with that of unique
triangles: the same graph and pattern, with symmetries and without. We also looked at individual workers (soc-Epinions1 and
Theory 175 K; not part of the results). For all triangles, the owner of the largest hub was the busiest in each exchange.
For unique triangles it was another worker, and the owners of the eight largest hubs received 0.9 to 1.3 times the mean. We
have no explanation for the rest of the imbalance there.

If `partitioned` is not skewed, no other strategy can have a much shorter path: its imbalance (in brackets above, where an
aim was missed) is all there is to gain. The Theory graphs have many hubs, of many sizes, with many owners.

If more workers do not shorten the path of `partitioned`, no cluster is large enough for it. If they do, weigh two things:
how much `balanced` shortens the path, and how much more it sends and does in total. The table below has both."""


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
    parts += ["## Critical paths on skewed inputs", paths(skewed, names), *_picture(*draw_paths(cells, names, pictures))]
    if kinds := by_kind(cells):
        parts += ["## Where balanced is uneven", _KINDS, kinds]
    parts += ["## Load, exchange by exchange", _LOADS, *_picture(*draw_loads(cells, names, pictures))]
    parts += ["## Communication", communication(cells, names), _HURTS]
    parts += ["## Real graphs", overhead(real, names), "## Index entries", _INDEX, index_entries(cells, names), _DOUBTS]
    parts.append(where([line for cell in cells for line in cell.lines.values()]))
    page = folder / "skew.md"
    folder.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join(part.strip("\n") for part in parts if part) + "\n")
    return page


_KINDS = """The table shows the imbalance by what travels, for 64 workers. The hashes of the theorem even out the requests that
a worker receives, but two other things stay uneven:

- The requests that a worker sends. All workers have the same number of candidates. If many of a worker's candidates share a
  key, one request serves them all. If they differ, the worker sends more requests and gets more answers.
- The ranges that are dealt. One prefix with many candidates is one tuple, while many prefixes with one candidate each are
  many tuples.

This does not contradict the theorem. It bounds all three by B', but does not say how far below B' they are."""

_LOADS = """A solid line is the load of the busiest worker, and a dashed line is the mean. What matters is how far a line is
from its mean. `partitioned` has few exchanges. `balanced` has several for every batch, in pairs of requests and answers
(the first 60 are shown)."""

_INDEX = """The table shows what a worker holds, counting all lists that the plan reads. `balanced` has three indices (counts,
positions, pairs), evenly distributed. Under `partitioned`, a hub's list is stored with one worker. Lists without a key
(projections, which only relations have) are stored with every worker."""

_DOUBTS = """## What this does not show

- Two cores are not a cluster. We assume that a shorter path means a shorter time. This holds if receiving a tuple costs the
  same everywhere. Busy seconds are measured. They include the work of Python and Spark for each exchange of each round, so
  many small rounds cost `balanced` much more than its tuples suggest.
- The graph of 28.7 M edges is not part of a normal run: `bigjoin bench skew --graph "Theory 28.7 M"` measures it. It has
  three billion candidates, which `balanced` looks up one by one.
- A few runs do not show how often lookups exceed a given number. So we drew keys that all workers request, some thousand
  times, without the rest of the join (not part of the results). Neighbouring keys gave 1.00 to 1.01, because they are dealt
  in turn. Keys that are far apart gave more than 1.2 in a quarter of all draws for 16 workers (median 1.17), in one of
  seventeen for 64 (1.15), and in none of sixty for 224 (1.10). The theorem's constant is not 1; a larger B' brings it
  closer to 1.
- The bound of theorem 3.4 applies to full batches. With 224 workers, only inputs of more than 45 M candidates have one.
- In *One owner*, all values are equally frequent. That is deliberate: codes follow frequency, so otherwise the values that
  many prefixes share would get the smallest codes, and these go to different workers. An adversary has to know that."""


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
        kinds = line.figures.get("kinds") if line is not None and cell.workers == TARGET_WORKERS else None
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
            f"In all settings, `{name}` sends at most {most:.2f} times the tuples of `{BASE}` ({where_most}) "
            f"and {sent:.1f} times the bytes ({where_sent})."
        )
    said.append(
        "No constant bounds the bytes: under `partitioned`, candidates that share a list travel as one list, however many "
        "prefixes propose it, while `balanced` looks them up pair by pair. *Same keys* is made of such lists."
    )
    for name in names:
        most_each = max(each_explored(cell.lines[name]) for cell in cells if name in cell.lines)
        said.append(f"`{name}` sends at most {most_each:.2f} tuples for each prefix and candidate.")
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
    """Return how skewed real graphs are, and what it costs to even them out."""
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
    return f"Ratios are relative to `{BASE}`.\n\n{table(['graph', 'workers', *titles], rows)}"


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
    imbalances = [imbalance(cell.lines[BASE]) for cell in cells if BASE in cell.lines]
    said = (
        [f"On real graphs the imbalance of `{BASE}` is {min(imbalances):.2f} to {max(imbalances):.2f}."] if imbalances else []
    )
    for what, figure in (("shortest critical path", path), ("least busy time", busy)):
        wins = dict.fromkeys(names, 0)
        for cell in cells:
            wins[min(cell.lines, key=lambda name: figure(cell.lines[name]))] += 1
        listed = ", ".join(f"`{name}` in {won}" for name, won in wins.items())
        said.append(f"Among {len(cells)} settings, the {what} is that of {listed}.")
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
