"""Builds and watches that are killed at any moment, and servers too: nothing is lost, and nothing is there twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest

import bigjoin as bj
from bigjoin.index.manifest_file import is_index
from bigjoin.index.writer import vacuum, verify
from bigjoin.storage import place_of
from tests.store.rivals import ROOT
from tests.store.test_index_on_a_store import EDGES, bigjoin, check_output, cycles, edges_of, on_s3, written_updates

pytestmark = [pytest.mark.store, pytest.mark.slow]
KILLS = int(os.environ.get("BIGJOIN_TEST_KILLS", "100"))
EPOCHS = 40
SERVER_SHARE = 5
"""The server is killed, too, in every so many rounds."""

__all__ = ["on_s3"]

WARM = """
import sys
import bigjoin.cli.main, bigjoin.graph, s3fs, upath, pyarrow.parquet
print("ready", flush=True)
sys.stdin.readline()
bigjoin.cli.main.main()
"""


def started(*arguments):
    """Start a command that waits to be told to begin, since most of its time goes into imports."""
    process = subprocess.Popen(
        [sys.executable, "-c", WARM, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    process.stdin.write("go\n")
    process.stdin.flush()
    return process


def killed(process, seconds):
    """Kill a process after some time, unless it has ended; return whether it was still running."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    said = process.communicate()[1]
    assert process.returncode in (0, -signal.SIGKILL, 2), said
    assert "Traceback" not in said, said
    return process.returncode == -signal.SIGKILL


def test_killed_watches_lose_nothing_and_report_nothing_twice(s3, on_s3, tmp_path):
    index, output, chosen = f"{on_s3}/graph.index", f"{on_s3}/out", random.Random(KILLS)
    hits, rounds = 0, 0
    while hits < KILLS // 2:
        rounds += 1
        assert rounds < 4 * KILLS
        folder = tmp_path / f"updates-{rounds}"
        index, output = f"{on_s3}/{rounds}/graph.index", f"{on_s3}/{rounds}/out"
        bj.build_index(EDGES, index)
        states = written_updates(folder, EPOCHS, seed=rounds)
        watch = ("watch", "cycle=3-cycle", index, "--updates", folder, "--output", output, "--strategy", "local", "--once")
        for _ in range(6):
            if hits % SERVER_SHARE == 4:
                process = started(*watch)
                time.sleep(chosen.uniform(0, 3))
                s3.kill()
                time.sleep(chosen.uniform(0, 0.3))
                hits += killed(process, 0)
                s3.start()
            else:
                hits += killed(started(*watch), chosen.uniform(0.2, 4))
            graph = bj.Graph.open(index)
            verify(graph.index)
            epoch = graph.index.epoch
            whole = bj.read_output(output).epochs if epoch and place_of(output).exists() else []
            assert whole == list(range(1, len(whole) + 1))
            assert epoch - 1 <= len(whole) <= epoch
            assert edges_of(graph) == (states[epoch - 1] if epoch else set(EDGES))
        bigjoin(*watch)
        check_output(output, states)
        vacuum(place_of(index))
        graph = bj.Graph.open(index)
        verify(graph.index)
        assert graph.count("3-cycle", strategy="local") == cycles(states[-1])


def test_killed_builds_leave_a_whole_index_or_none(s3, on_s3, tmp_path):
    chosen, hits, rounds, known = random.Random(KILLS), 0, 0, None
    index = f"{on_s3}/graph.index"
    while hits < KILLS - KILLS // 2:
        rounds += 1
        assert rounds < 10 * KILLS
        edges = {(a, b) for a, b in (chosen.sample(range(1, 30), 2) for _ in range(60))}
        source = tmp_path / "edges.csv"
        source.write_text("src,dst\n" + "".join(f"{a},{b}\n" for a, b in sorted(edges)))
        process = started("index", source, index)
        if rounds % SERVER_SHARE == 4:
            time.sleep(chosen.uniform(0, 1))
            s3.kill()
            hits += killed(process, 0)
            s3.start()
        else:
            hits += killed(process, chosen.uniform(0, 1.2))
        if known is None and not is_index(place_of(index)):
            assert process.returncode
            continue
        graph = bj.Graph.open(index)
        verify(graph.index)
        found = edges_of(graph)
        assert found in (edges, known)
        assert process.returncode or found == edges
        known = found


def test_two_watches_of_one_output_report_every_epoch_once(on_s3, tmp_path):
    """As when a machine is taken to be gone and replaced, and is not."""
    index, output = f"{on_s3}/graph.index", f"{on_s3}/out"
    bj.build_index(EDGES, index)
    states = written_updates(tmp_path / "updates", EPOCHS)
    watch = (
        "watch",
        "cycle=3-cycle",
        index,
        "--updates",
        tmp_path / "updates",
        "--output",
        output,
        "--strategy",
        "local",
        "--once",
    )
    for _ in range(20):
        both = [started(*watch), started(*watch)]
        ends = [(process.communicate()[1], process.returncode) for process in both]
        for said, code in ends:
            assert code in (0, 2), said
            assert not code or "another process has written the index" in said, said
        if not any(code for _, code in ends):
            break
    check_output(output, states)
    assert edges_of(bj.Graph.open(index)) == states[-1]
