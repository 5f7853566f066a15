"""What docs/watching.md and docs/index-format.md say of graphs that change, run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import bigjoin as bj
from bigjoin.cli.main import cli

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "updates").mkdir()
    return tmp_path


def run(*arguments):
    done = CliRunner().invoke(cli, [*arguments, "--quiet"])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_command_of_the_guide(folder):
    (folder / "updates" / "001.csv").write_text("src,dst,op\n1,2,+\n2,3,+\n3,1,+\n")
    (folder / "updates" / "002.csv").write_text("src,dst,op\n3,1,-\n3,4,+\n4,1,+\n")
    command, told = re.search(r"^\$ bigjoin (watch .*)\n(.*)$", (DOCS / "watching.md").read_text(), re.MULTILINE).groups()
    assert run(*command.split()) == told + "\n"
    signed = {
        (name, epoch): sorted((row["change"], row["a1"] + row["a2"] + row["a3"]) for row in rows.to_pylist())
        for name in ("3-cycle", "four")
        for epoch in (1, 2)
        for rows in [pq.read_table(folder / "cycles" / name / f"epoch={epoch}", partitioning=None)]
    }
    assert signed[("3-cycle", 1)] == [(1, 6)]
    assert signed[("3-cycle", 2)] == [(-1, 6)]
    assert signed[("four", 1)] == []
    assert [change for change, _ in signed[("four", 2)]] == [1]
    lines = [json.loads(line) for line in (folder / "cycles" / "_counts.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2]


def test_a_window_over_the_relation_that_has_the_column(folder):
    (folder / "pays.csv").write_text("src,dst,day\n1,2,2024-05-01\n")
    (folder / "knows.csv").write_text("src,dst\n1,2\n")
    run("index", "pays.csv", "bank.index", "--name", "pays", "--relation", "knows=knows.csv")
    (folder / "updates" / "1.csv").write_text("src,dst,op,day,relation\n2,1,+,2024-05-02,pays\n")
    (folder / "updates" / "2.csv").write_text("src,dst,op,day,relation\n3,1,+,2024-05-03,pays\n2,1,+,,knows\n")
    options = ["--updates", "updates", "--once", "--window", "2 days", "--time", "day"]
    told = run("watch", "q(a,b,e) := pays(a,b,e)", "bank.index", *options)
    assert told == "2 epochs, 3 updates, +2 -1 matches; q 2\n"


def test_runs_are_read_as_the_format_says(folder):
    bj.build_index(pa.table({"src": [1, 2], "dst": [2, 3]}), folder / "graph.index")
    graph = bj.Graph.open(folder / "graph.index")
    wanted = {(1, 2), (2, 3)}
    for epoch in ([(3, 1, "+"), (4, 4, "+")], [(1, 2, "-"), (7, 1, "+")], [(1, 2, "+"), (4, 4, "-"), (9, 7, "+")]):
        src, dst, op = zip(*epoch, strict=True)
        graph.apply(pa.table({"src": src, "dst": dst, "op": op}))
        for a, b, change in epoch:
            (wanted.add if change == "+" else wanted.discard)((a, b))
    manifest = json.loads((folder / "graph.index" / "manifest.json").read_text())
    parts = manifest["domains"]["vertex"]["ids"]
    ids = [i for part in parts for i in pa.ipc.open_file(folder / "graph.index" / part).read_all()["id"].to_pylist()]
    level = manifest["relations"]["edge"]["orders"]["0,1"]["levels"][0]
    offsets, values = (np.load(folder / "graph.index" / level[part]) for part in ("offsets", "values"))
    of_the_tries = [(a, int(b)) for a in range(len(offsets) - 1) for b in values[offsets[a] : offsets[a + 1]]]
    code = re.search(r"```python\n(edges = .*?)```", (DOCS / "index-format.md").read_text(), re.DOTALL)[1]
    names = {"manifest": manifest, "np": np, "of_the_tries": of_the_tries}
    exec(code, names)
    assert {(ids[a], ids[b]) for a, b in names["edges"]} == wanted
    assert len(ids) == manifest["domains"]["vertex"]["size"] > manifest["domains"]["vertex"]["stored"] == 3
    assert manifest["relations"]["edge"]["tuples"] == len(wanted)
    assert manifest["epoch"] == 3
