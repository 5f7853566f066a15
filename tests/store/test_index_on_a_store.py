"""An index, the output of a watch and results on real stores, by every command and call; two writers at once. No Spark."""

from __future__ import annotations

import csv
import json
import os
import random
import subprocess
import sys
import uuid

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bigjoin as bj
from bigjoin.index.writer import vacuum, verify
from bigjoin.storage import place_of
from tests.store.rivals import ROOT, Rival

pytestmark = pytest.mark.store
DATA = ROOT / "src" / "bigjoin" / "data" / "soc-Epinions1.txt.gz"
RACES = int(os.environ.get("BIGJOIN_TEST_RACES", "30"))
TRIANGLES, CLIQUES = 1_624_481, 5_803_397
"""As others have published them."""
EDGES = [(1, 2), (2, 3), (3, 1), (3, 4), (4, 1), (1, 3)]


@pytest.fixture
def on_s3(s3, monkeypatch):
    """The URL of a new folder; the environment says how it is opened."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return f"{s3.url}/{uuid.uuid4().hex}"


@pytest.fixture
def on_hdfs(hdfs):
    return f"{hdfs.url}/{uuid.uuid4().hex}"


@pytest.fixture(params=["s3", "hdfs"])
def url(request):
    return request.getfixturevalue(f"on_{request.param}")


def cycles(edges):
    """Count the directed cycles of three by trying all."""
    found = set(edges)
    return sum((b, c) in found and (c, a) in found for a, b in found for x, c in found if x == b)


def bigjoin(*arguments, environment=None, check=True, timeout=300):
    """Run the command line."""
    done = subprocess.run(
        [sys.executable, "-m", "bigjoin", *map(str, arguments)],
        env=dict(os.environ if environment is None else environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    assert not check or done.returncode == 0, done.stderr
    return done


def written_updates(folder, epochs, seed=1):
    """Write files of random updates, and return the edges after each epoch."""
    folder.mkdir()
    chosen, edges, states = random.Random(seed), set(EDGES), []
    for number in range(1, epochs + 1):
        changed = {(a, b) for a, b in (chosen.sample(range(1, 7), 2) for _ in range(4))}
        with (folder / f"{number:03}.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["src", "dst", "op"])
            rows.writerows((a, b, "-" if (a, b) in edges else "+") for a, b in sorted(changed))
        edges ^= changed
        states.append(set(edges))
    return states


def check_output(output, states, query="cycle"):
    """Check that an output reports every epoch once, and that its signed matches add up to what there is."""
    whole = bj.read_output(output, query)
    assert whole.epochs == list(range(1, len(states) + 1))
    rows, held = whole.table().to_pylist(), {}
    before = set(EDGES)
    names = [name for name in rows[0] if name not in ("epoch", "change")]
    for a, b in before:
        for c in {y for x, y in before if x == b and (y, a) in before}:
            held[a, b, c] = 1
    for epoch, edges in enumerate(states, 1):
        for row in rows:
            if row["epoch"] == epoch:
                match = tuple(row[name] for name in names)
                held[match] = held.get(match, 0) + row["change"]
        wanted = {(a, b, c) for a, b in edges for x, c in edges if x == b and (c, a) in edges}
        assert {match for match, count in held.items() if count} == wanted
        assert set(held.values()) <= {0, 1}


def test_a_graph_is_counted_as_it_was_published(on_s3):
    url = f"{on_s3}/graph.index"
    bigjoin("index", DATA, url, "--undirected", "--quiet")
    counted = bigjoin("count", "triangle", url, "--unique", "--strategy", "local", "--quiet")
    assert int(counted.stdout) == TRIANGLES
    bigjoin("verify", url)
    shards = bj.build_index(url, f"{on_s3}/shards.index", shards=3)
    assert bj.Graph.open(shards.path).count("4-clique", unique=True, strategy="local") == CLIQUES


def test_every_command_of_a_watch(url, tmp_path):
    index, output = f"{url}/graph.index", f"{url}/out"
    bj.build_index(EDGES, index)
    states = written_updates(tmp_path / "updates", 7)
    watch = ("watch", "cycle=3-cycle", index, "--updates", tmp_path / "updates", "--strategy", "local", "--once")
    bigjoin(*watch, "--output", output, "--keep-epochs", 20)
    check_output(output, states)
    bigjoin(*watch, "--output", output, "--keep-epochs", 20)
    check_output(output, states)
    told = json.loads(bigjoin("status", index, "--output", output, "--json").stdout)
    assert told["epoch"] == len(states)
    bigjoin("replay", "cycle=3-cycle", index, "--output", f"{url}/again", "--first", 1)
    check_output(f"{url}/again", states)
    verify(bj.Graph.open(index).index)
    vacuum(place_of(index))
    assert bj.Graph.open(index).count("3-cycle", strategy="local") == cycles(states[-1])
    assert bj.Graph.open(index, epoch=3).count("3-cycle", strategy="local") == cycles(states[2])


def test_results_are_stored_and_written(url, tmp_path):
    index = f"{url}/graph.index"
    bj.build_index(EDGES, index)
    graph = bj.Graph.open(index)
    assert graph.materialize("cycle", "q(a, b, c) := edge(a, b), edge(b, c), edge(c, a)") == cycles(EDGES)
    assert bj.Graph.open(index).count("q(a, b, c) := cycle(a, b, c)", strategy="local") == cycles(EDGES)
    graph.write("3-cycle", f"{url}/cycles.parquet", strategy="local")
    with fsspec.open(f"{url}/cycles.parquet", "rb") as file:
        assert len(pq.read_table(pa.BufferReader(file.read()))) == cycles(EDGES)


def edges_of(graph):
    return {(row["a"], row["b"]) for row in graph.arrow("q(a, b) := edge(a, b)", strategy="local").read_all().to_pylist()}


@pytest.fixture
def rivals(url):
    """Two processes that write at once."""
    both = [Rival(os.environ), Rival(os.environ)]
    yield both
    for one in both:
        one.end()


def at_once(rivals, what, url, given):
    for rival, edges in zip(rivals, given, strict=True):
        rival.begin(what, url, sorted(edges))
    return [rival.told() for rival in rivals]


def test_of_two_writers_one_is_told(url, rivals):
    """Each epoch and each index that was promised is there, and none that was refused; a refusal is a sentence."""
    index, edges, chosen, refusals = f"{url}/graph.index", set(EDGES), random.Random(3), {"build": 0, "epoch": 0}
    bj.build_index(EDGES, index)
    epoch = 0
    for race in range(RACES):
        what = "build" if race % 3 == 0 else "epoch"
        given = [{tuple(chosen.sample(range(1, 9), 2)) for _ in range(5)} for _ in rivals]
        if what == "epoch":
            at_once(rivals, "open", index, [[], []])
        told = at_once(rivals, what, index, given)
        assert not [one for one in told if "failed" in one], told
        done = [mine for one, mine in zip(told, given, strict=True) if "done" in one]
        refused = [one["refused"] for one in told if "refused" in one]
        assert done, told
        assert all("another process has written the index" in one for one in refused), told
        refusals[what] += len(refused)
        graph = bj.Graph.open(index)
        verify(graph.index)
        if what == "build":
            edges = next((mine for mine in done if cycles(mine) == graph.count("3-cycle", strategy="local")), None)
            assert edges is not None, told
            assert (graph.index.epoch, graph.edge_count) == (0, len(edges))
            epoch = 0
        else:
            epoch += len(done)
            edges = edges.union(*done)
            assert graph.index.epoch == epoch, told
            assert edges_of(graph) == edges, told
            assert graph.count("3-cycle", strategy="local") == cycles(edges), told
    assert all(refusals.values()), "no two of them were at once"
