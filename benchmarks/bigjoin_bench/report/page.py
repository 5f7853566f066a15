"""The page: every suite that was measured, with its tables and its plot."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from bigjoin_bench.report import tables
from bigjoin_bench.report.extras import EXTRAS
from bigjoin_bench.report.plots import can_plot, draw
from bigjoin_bench.results import Line, newest
from bigjoin_bench.suites import SUITES, Suite

_INTRODUCTION = """# Benchmarks

*Written by `bigjoin bench --report` from `results.jsonl`; do not edit.*

This page compares bigjoin with other systems, suite by suite. `bigjoin bench [NAME ...]` runs the suites on your machine;
`bigjoin bench --quick` takes less than three minutes. `make bench` also installs the other systems. Systems that are not
installed are skipped.

How it is measured:

- Every contender gets the same edges and the same question, in a process of its own. Contenders take turns. A time is kept only
  if the counts agree.
- The first run of a question is cold, and the others are warm. Tables show the median of the warm runs, with the minimum and
  the maximum. A question that takes more than 20 s runs only once. A run that takes too long (120 s, or what `--cut-off`
  says) is ended, shown as `>`, and left out of means.
- Loading (for bigjoin: building the index) is measured separately. Memory is the peak of what a contender's processes hold,
  without mapped files.
- Unless stated otherwise, bigjoin runs through Spark `local[2]` in a warm session, and peers use two threads if they can.
- Compare ratios, not seconds: machines differ, and a busy machine slows every contender.

`bigjoin bench skew` has its own page: [what skew does to each strategy](skew.md).
[benchmarks/README.md](../benchmarks/README.md) says where graphs come from, and how to add a system.
"""


def write_report(lines: Sequence[Line], folder: Path) -> Path:
    """Write benchmarks.md, and the plots in a folder of that name; return the page."""
    kept = newest(lines)
    parts = [_INTRODUCTION]
    for suite in SUITES.values():
        mine = _of(suite, kept)
        if mine:
            parts.append(section(suite, mine, folder / "benchmarks" / f"{suite.name}.svg" if can_plot() else None))
    if not kept:
        parts.append("Nothing has been measured yet.\n")
    page = folder / "benchmarks.md"
    folder.mkdir(parents=True, exist_ok=True)
    page.write_text("\n".join(parts))
    return page


def _of(suite: Suite, lines: Sequence[Line]) -> list[Line]:
    """Return the lines of a suite by graph, in the order of the suite and not in that of measuring."""
    places = {graph: place for place, graph in enumerate(suite.graphs)}
    mine = [line for line in lines if line.suite == suite.name]
    return sorted(mine, key=lambda line: places.get(line.graph, len(places)))


def section(suite: Suite, lines: Sequence[Line], picture: Path | None) -> str:
    """Return what a page says about a suite, and draw its picture."""
    parts = [f"## {suite.title}", f"`bigjoin bench {suite.name}`. {suite.about}"]
    if not suite.timed:
        return "\n\n".join([*parts, EXTRAS[suite.name](lines), where(lines)]) + "\n"
    parts.append(tables.warm(suite, lines))
    if said := tables.summary(suite, lines):
        parts.append(said)
    if picture is not None:
        draw(suite, lines, picture)
        parts.append(f"![{suite.title}]({picture.parent.name}/{picture.name})")
    if suite.name in EXTRAS:
        parts.append(EXTRAS[suite.name](lines))
    more = f"Cold, the first run of each:\n\n{tables.cold(suite, lines)}\n\n{tables.loading(suite, lines)}"
    parts.append(f'<details markdown="1"><summary>First runs, loading and memory</summary>\n\n{more}\n\n</details>')
    parts.append(where(lines))
    return "\n\n".join(parts) + "\n"


def fill(page: Path, marker: str, text: str) -> None:
    """Replace what stands between two comments of a page, if it has them."""
    pattern = rf"(<!-- {re.escape(marker)} -->\n).*?(\n<!-- /{re.escape(marker)} -->)"
    page.write_text(re.sub(pattern, lambda found: f"{found[1]}{text}{found[2]}", page.read_text(), flags=re.DOTALL))


def fill_readme(readme: Path, lines: Sequence[Line], graph: str) -> None:
    """Bring the tables of a README up to date: the directed queries on one graph, and building an index."""
    kept = newest(lines)
    for marker, name, graphs in (("benchmark", "directed", (graph,)), ("index build", "index", SUITES["index"].graphs)):
        mine = [line for line in _of(SUITES[name], kept) if line.graph in graphs]
        if {line.graph for line in mine} == set(graphs) and readme.exists():  # never less than it shows now
            fill(readme, marker, tables.warm(SUITES[name], mine))


def where(lines: Sequence[Line]) -> str:
    """Return when, of what and on which machine the lines of a section were measured."""
    commits = ", ".join(dict.fromkeys(line.commit for line in lines if line.commit)) or bigjoin_version(lines)
    days = ", ".join(dict.fromkeys(line.run[:10] for line in lines))
    first = lines[0]
    runs_on = ", ".join(f"{name} {version}" for name, version in first.versions.items() if name != "bigjoin")
    return f"<sub>{days}, {commits}; {first.machine.get('cpu')}, {first.machine.get('cores')} cores; {runs_on}</sub>"


def bigjoin_version(lines: Sequence[Line]) -> str:
    """Return the version, where there is no commit."""
    return f"bigjoin {lines[0].versions.get('bigjoin', '')}"
