"""Real events replayed in the order of time, with a sliding window: the counts that are kept are those of static runs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from bigjoin.compiled.loops import Counting
from bigjoin.indexing import build_index
from bigjoin.languages import parse
from bigjoin.planner import count_plan
from bigjoin.streaming.monitor import Monitor
from bigjoin.streaming.watched import Watched
from bigjoin.streaming.window import Window

FIVE = ["triangle", "4-clique", "diamond", "house", "5-clique"]
DAY = 86_400


def events_of(file):
    """Events (src, dst, time) in the order of time."""
    names = pyarrow.csv.ReadOptions(column_names=["src", "dst", "time"])
    table = pyarrow.csv.read_csv(file, names, pyarrow.csv.ParseOptions(delimiter=" "))
    return table.sort_by("time").combine_chunks()


def static_count(table, directed, query, path):
    """The count of a fresh index of some edges."""
    index = build_index(table, path, directed=directed)
    plan = count_plan(query, index.statistics)
    found = 0
    for term in plan.terms:
        counting = Counting(term, plan.query, index)
        found += term.times * counting.count(counting.ranges(4))
    return found // plan.divisor


@pytest.mark.parametrize(
    ("name", "days", "batch", "directed", "queries"),
    [
        pytest.param("CollegeMsg", 14, 6000, False, FIVE[:3], id="CollegeMsg-undirected"),
        pytest.param("CollegeMsg", 14, 6000, False, FIVE[3:], id="CollegeMsg-undirected-large", marks=pytest.mark.slow),
        pytest.param("CollegeMsg", 14, 6000, True, FIVE, id="CollegeMsg-directed", marks=pytest.mark.slow),
        pytest.param("CollegeMsg", 60, 1000, False, FIVE, id="CollegeMsg-many-epochs", marks=pytest.mark.slow),
        pytest.param("sx-mathoverflow", 90, 10_000, True, FIVE, id="sx-mathoverflow-directed", marks=pytest.mark.slow),
        pytest.param("sx-mathoverflow", 90, 10_000, False, FIVE, id="sx-mathoverflow-undirected", marks=pytest.mark.slow),
    ],
)
def test_counts_over_a_sliding_window_are_those_of_static_runs(name, days, batch, directed, queries, shared_data, tmp_path):
    events = events_of(shared_data / "temporal" / f"{name}.txt")
    times = events["time"].to_numpy()
    build_index(events.slice(0, 0), tmp_path / "index", directed=directed)
    watched = {f"q{i}": Watched(parse(query, unique=not directed), listing=False) for i, query in enumerate(queries)}
    monitor = Monitor(
        tmp_path / "index", watched, spark=None, initial=lambda *_: 0, window=Window("time", days * DAY), order="time"
    )
    starts = range(0, len(events), batch)
    checked = {len(starts) // 4, len(starts) // 2, len(starts) - 1}
    for number, start in enumerate(starts):
        part = events.slice(start, batch)
        epoch = monitor.apply(part.append_column("op", pa.array(["+"] * len(part))))
        if number in checked:
            seen = times[: start + len(part)]
            alive = np.flatnonzero(seen > seen.max() - days * DAY)
            live = events.take(pa.array(alive)).select(["src", "dst"])
            for key, watch in watched.items():
                wanted = static_count(live, directed, watch.query, tmp_path / f"static-{number}-{key}")
                assert epoch.queries[key].count == wanted, (watch.query.name, number)
    assert epoch.fate.expired
