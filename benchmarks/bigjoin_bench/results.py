"""Lines of JSON: one for each contender, question and graph, with the commit, the versions and the machine."""

from __future__ import annotations

import json
import math
import os
import platform
import re
import statistics
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import bigjoin


@dataclass(frozen=True)
class Line:
    """What one contender did with one question on one graph, in one run."""

    run: str
    """When the run started, in UTC: the lines of one run can be compared."""
    suite: str
    graph: str
    query: str
    meaning: str
    contender: str
    version: str
    count: str | None
    cold: float | None
    warm: list[float]
    over: float | None = None
    """The seconds after which it was cut off."""
    failure: str | None = None
    load: float | None = None
    memory: dict[str, int] = field(default_factory=dict)
    """Peaks in bytes, while loading and while running."""
    figures: dict[str, Any] = field(default_factory=dict)
    commit: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)

    @property
    def seconds(self) -> float | None:
        """The median of the warm runs, else the only run; None if it did not finish."""
        if self.over is not None or self.failure is not None or self.cold is None:
            return None
        return statistics.median(self.warm) if self.warm else self.cold


def append(file: Path, lines: Iterable[Line]) -> None:
    """Add lines to a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as out:
        out.writelines(json.dumps(asdict(line)) + "\n" for line in lines)


def read(file: Path) -> list[Line]:
    """Return the lines of a file; a field that is not known (any more) is ignored."""
    known = {f.name for f in fields(Line)}
    rows = (json.loads(text) for text in file.read_text().splitlines() if text.strip()) if file.exists() else ()
    return [Line(**{name: value for name, value in row.items() if name in known}) for row in rows]


def newest(lines: Iterable[Line]) -> list[Line]:
    """Keep, for each suite and graph, the lines of the run that measured it last."""
    lines = list(lines)
    last: dict[tuple[str, str], str] = {}
    for line in lines:
        last[line.suite, line.graph] = max(last.get((line.suite, line.graph), ""), line.run)
    return [line for line in lines if line.run == last[line.suite, line.graph]]


def ratio(peer: Line, ours: Line) -> float | None:
    """Return the peer's time over ours, or None if either did not finish."""
    if peer.seconds is None or ours.seconds is None:
        return None
    return peer.seconds / ours.seconds


def geometric_mean(ratios: Iterable[float | None]) -> float | None:
    """Return the mean of those that are known."""
    known = [r for r in ratios if r is not None]
    return math.exp(statistics.fmean(map(math.log, known))) if known else None


def commit() -> str:
    """Return the commit that is measured, with a plus if the sources differ from it; empty outside a checkout."""
    folder = Path(bigjoin.__file__).parent

    def git(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", *arguments], capture_output=True, text=True, check=False, cwd=folder)

    try:
        found = git("rev-parse", "--short", "HEAD").stdout.strip()
        return found + ("+" if found and git("diff", "--quiet", "HEAD", "--", ".").returncode else "")
    except OSError:
        return ""


def versions() -> dict[str, str]:
    """Return the versions of what bigjoin itself runs on."""
    return {"python": platform.python_version()} | {n: version(n) for n in ("bigjoin", "pyspark", "numba", "numpy", "pyarrow")}


def machine(threads: int) -> dict[str, Any]:
    """Return what the machine is, and how many of its cores are used."""
    info = Path("/proc/cpuinfo")
    model = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE) if info.exists() else None
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "threads": threads,
        "cores": os.cpu_count(),
        "cpu": model[1] if model else platform.processor() or platform.machine(),
        "memory": memory,
        "system": platform.system(),
    }
