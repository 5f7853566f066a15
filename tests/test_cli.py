"""The command line as users see it: the real program, its two streams and its exit code."""

from __future__ import annotations

import json
import logging
import os
import pty
import re
import subprocess
import sys
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from unittest import mock

import pytest

from bigjoin.cli.main import _follows_interrupt, main
from bigjoin.languages import Flags

BIGJOIN = Path(sys.executable).with_name("bigjoin")


def run(*arguments, cwd=None, **environment):
    command = [str(BIGJOIN), *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=300
    )


def run_here(*arguments, cwd):
    """Run a command in this process, so that it uses the tests' Spark session: for tests with many calls."""
    out, err, code = TextIOWrapper(BytesIO(), write_through=True), StringIO(), 0
    showing = warnings.showwarning
    with (
        chdir(cwd),
        redirect_stdout(out),
        redirect_stderr(err),
        mock.patch.object(sys, "argv", ["bigjoin", *map(str, arguments)]),
    ):
        try:
            main()
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        finally:
            logging.disable(logging.NOTSET)
            warnings.showwarning = showing
    return subprocess.CompletedProcess(arguments, code, out.buffer.getvalue().decode(), err.getvalue())


def refused(done, *sentences):
    """Check that a command was refused: one message, exit code 2, nothing on stdout, no traceback."""
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for sentence in sentences:
        assert sentence in done.stderr
    return True


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["count", "traingle", "edges.txt"], "did you mean 'triangle'?"),
        (["count", "q(a,b) := edge(a,b", "edges.txt"], "the text ends too early\n  q(a,b) := edge(a,b\n"),
        (["count", "triangle", "edges.txt", "--where", "z < 5"], "attribute 'z' in 'z < 5' is not bound by any atom"),
        (["count", "triangle", "nowhere.txt"], "there is no file or directory nowhere.txt"),
        (["count", "triangle", "empty.txt"], "empty.txt has no edges: it is empty"),
        (["count", "triangle", "edges.txt", "--strategy", "magic"], "'magic' is not one of"),
        (["count", "triangle", "edges.txt", "--workers", "0"], "--workers"),
        (["count", "triangle"], "Missing argument 'SOURCE'"),
        (["find", "triangle", "edges.txt", "-o", "out.xlsx"], "end its name in .parquet, .csv, .json or .jsonl"),
        (["find", "triangle", "edges.txt", "-o", "missing/out.csv"], "there is no directory"),
        (["explain", "q(a,b,c,d) := edge(a,b), edge(c,d)"], "the query is disconnected: no atom joins {a, b} and {c, d}"),
        (["explain", "triangle", "--analyze"], "--analyze needs a SOURCE"),
        (["index", "edges.txt", "edges.txt"], "edges.txt exists and is not an index"),
        (["index", "nowhere.txt", "new"], "there is no file or directory nowhere.txt"),
        (["cuont", "triangle", "edges.txt"], "No such command 'cuont'"),
        (["find", "triangle", "edges.csv", "-o", "edges.csv"], "edges.csv is the source itself"),
        (["count", "triangle", "edges.txt", "--master", "nonsense"], "'nonsense' is not a Spark master"),
        (["count", "triangle", "edges.txt", "--master", "spark://127.0.0.1:1"], "there is no Spark at spark://127.0.0.1:1"),
    ],
)
def test_mistakes_are_reported_before_spark_starts(tmp_path, arguments, sentence):
    (tmp_path / "edges.txt").write_text("1 2\n")
    (tmp_path / "edges.csv").write_text("1,2\n")
    (tmp_path / "empty.txt").write_text("")
    assert refused(run(*arguments, cwd=tmp_path, JAVA_HOME="/nowhere"), sentence)


@pytest.mark.parametrize(
    "arguments", [["find", "triangle", "edges.txt", "--quiet"], ["count", "triangle", "edges.txt"], ["--help"]]
)
def test_a_closed_stdout_gives_one_sentence(tmp_path, arguments):
    command = ["sh", "-c", 'exec "$0" "$@" >&-', str(BIGJOIN), *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert refused(done, "bigjoin: the standard output is closed: redirect it to a file, or to /dev/null\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["2>&-", "<&- 2>&-"])
def test_closed_stdin_or_stderr_still_gives_an_answer(tmp_path, closed):
    (tmp_path / "edges.txt").write_text("1 2\n2 3\n1 3\n")
    command = [
        "sh",
        "-c",
        f'exec "$0" "$@" {closed}',
        str(BIGJOIN),
        "count",
        "triangle",
        "edges.txt",
        "--undirected",
        "--unique",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "1\n")


def test_missing_or_old_java_gives_one_sentence(tmp_path):
    (tmp_path / "edges.txt").write_text("1 2\n")
    shared = ("count", "triangle", "edges.txt", "--strategy", "shared")
    assert refused(run(*shared, cwd=tmp_path, JAVA_HOME="/nowhere"), "Spark needs Java, but JAVA_HOME")
    assert run("count", "triangle", "edges.txt", cwd=tmp_path, JAVA_HOME="/nowhere").stdout == "0\n"  # which needs no Spark
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    done = run(*shared, "--quiet", cwd=tmp_path, JAVA_HOME=str(tmp_path / "jdk"))
    assert refused(done, "Spark needs Java 17 or newer", "is Java 11")
    assert len(done.stderr.strip().splitlines()) == 1


def test_explain_needs_neither_source_nor_spark():
    done = run("explain", "triangle", "--undirected", "--unique", JAVA_HOME="/nowhere")
    assert done.returncode == 0
    assert "2. p2(a1, a2, a3) := p1(a1, a2), edge(a1, a3), edge(a2, a3), code(a3) < code(a2)" in done.stdout


@pytest.mark.parametrize("command", ["demo", "count", "find", "explain", "index", "info", "verify", "vacuum", "watch"])
def test_every_command_has_help(command):
    done = run(command, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: bigjoin {command}")


def test_every_flag_and_strategy_has_help():
    shown = {name.replace("-", "_") for name in re.findall(r"--([\w-]+)", run("count", "--help").stdout)}
    assert shown >= Flags.__annotations__.keys() - {"parameters"} | {"param"}


def test_info_verify_and_vacuum(tmp_path):
    (tmp_path / "edges.csv").write_text("src,dst\n1,2\n2,3\n")
    assert run_here("index", "edges.csv", "i", cwd=tmp_path).returncode == 0
    assert run_here("index", "edges.csv", "i", "--undirected", cwd=tmp_path).returncode == 0
    shown = run_here("info", "i", cwd=tmp_path)
    assert "3 vertices (ids: int64), 2 undirected edges" in shown.stdout
    facts = json.loads(run_here("info", "i", "--json", cwd=tmp_path).stdout)
    assert (facts["vertices"], facts["edges"], facts["shards"]) == (3, 2, 1)
    assert run_here("verify", "i", cwd=tmp_path).stdout.startswith("i is as it was written: ")
    verified = json.loads(run_here("verify", "i", "--json", cwd=tmp_path).stdout)
    assert verified == {"verified": True, "verified_bytes": facts["bytes"]}
    builds = len(list((tmp_path / "i").glob("build-*")))
    assert "MB freed in i" in run_here("vacuum", "i", cwd=tmp_path).stdout
    assert builds == 2
    assert len(list((tmp_path / "i").glob("build-*"))) == 1
    assert json.loads(run_here("vacuum", "i", "--json", cwd=tmp_path).stdout) == {"freed": 0}
    for command in ("info", "verify", "vacuum"):
        refused(run_here(command, "edges.csv", cwd=tmp_path), "edges.csv")
    next(file for file in (tmp_path / "i").glob("build-*/*.npy")).write_bytes(b"damaged")
    refused(run_here("verify", "i", cwd=tmp_path), "npy")


def test_the_options_that_became_commands_still_work_with_a_note(tmp_path):
    (tmp_path / "edges.csv").write_text("src,dst\n1,2\n2,3\n")
    built = run_here("index", "edges.csv", "i", "--verify", "--quiet", cwd=tmp_path)
    assert "rows a second, and verified\ni is now a SOURCE" in built.stdout
    assert built.stderr == "bigjoin: note: --verify is now a command of its own: bigjoin verify i\n"
    done = run_here("index", "i", "--info", "--verify", "--vacuum", cwd=tmp_path)
    assert done.stderr.count("is now a command of its own") == 3
    for part in ("3 vertices", "i is as it was written", "0.0 MB freed in i"):
        assert part in done.stdout
    facts = json.loads(run_here("index", "i", "--info", "--verify", "--vacuum", "--json", cwd=tmp_path).stdout)
    assert facts.keys() >= {"vertices", "verified", "verified_bytes", "freed"}
    refused(run_here("index", "i", cwd=tmp_path), "name the directory DIR")


@pytest.mark.spark
def test_count_find_and_index(spark, tmp_path):
    """Walk through the commands: first as programs, which start Spark each time, then in this session."""
    (tmp_path / "edges.csv").write_text("src,dst\n1,2\n2,3\n3,1\n1,3\n3,3\n")
    first = run("count", "3-cycle", "edges.csv", "--distinct", cwd=tmp_path)
    note = "bigjoin: note: edges.csv: the first line is the header; src and dst by name\n"
    assert (first.returncode, first.stdout, first.stderr) == (0, "3\n", note)

    # A second time, in a new process: the index comes from the cache, and no kernel is compiled again.
    absolute = str(tmp_path / "edges.csv")
    again = json.loads(run("count", "3-cycle", absolute, "--distinct", "--json", cwd=tmp_path).stdout)
    assert again["count"] == 3
    assert again["stats"]["kernels_compiled"] == 0
    assert {"count", "seconds", "strategy", "workers", "stats"} <= again.keys()

    found = run_here("find", "3-cycle", "edges.csv", "--unique", cwd=tmp_path)
    assert found.stdout.splitlines()[0] == "a1,a2,a3"
    assert sorted(found.stdout.splitlines()[1].split(",")) == ["1", "2", "3"]

    built = run_here("index", "edges.csv", "graph.index", cwd=tmp_path)
    assert "3 vertices (ids: int64), 5 directed edges" in built.stdout
    assert "5 rows read, 0 duplicates dropped, 1 loops kept" in built.stdout
    written = run_here("find", "triangle", "graph.index", "--undirected", "-o", "out.csv", cwd=tmp_path)
    assert written.returncode == 0
    assert written.stdout == ""
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 1 + 6
    assert sorted(p.name for p in tmp_path.iterdir()) == ["edges.csv", "graph.index", "out.csv"]

    (tmp_path / "edges.csv").write_text("src,dst\n1,2\n2\n")
    assert refused(run("count", "3-cycle", "edges.csv", cwd=tmp_path), "do not have two columns, for example '2'")


DEAF_MODULE = """
import os, signal
try:
    os.kill(os.getpid(), signal.{name})
    print("whole")
except BaseException:
    print("overlooked")
"""

IMPORTS_DEAF_MODULE = """
from bigjoin.cli.interrupts import spare_imports
spare_imports()
try:
    import deaf, time
    time.sleep(30)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupt_waits_for_the_end_of_an_import(name, tmp_path):
    (tmp_path / "deaf.py").write_text(DEAF_MODULE.format(name=name))
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS_DEAF_MODULE], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=25
    )
    assert done.stdout == "whole\ninterrupted\n"


def test_an_interrupt_that_is_ignored_stays_ignored():
    code = "import signal; signal.signal(2, signal.SIG_IGN); from bigjoin.cli.interrupts import spare_imports as spare; spare()"
    code += "; print(signal.getsignal(2).name)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=25)
    assert done.stdout == "SIG_IGN\n"


def test_a_window_is_over_the_relation_that_has_the_column(tmp_path):
    (tmp_path / "pays.csv").write_text("src,dst,day\n1,2,2024-05-01\n")
    (tmp_path / "knows.csv").write_text("src,dst\n1,2\n")
    run_here("index", "pays.csv", "bank.index", "--name", "pays", "--relation", "knows=knows.csv", "--quiet", cwd=tmp_path)
    (tmp_path / "updates").mkdir()
    (tmp_path / "updates" / "1.csv").write_text("src,dst,op,day,relation\n2,1,+,2024-05-02,pays\n")
    (tmp_path / "updates" / "2.csv").write_text("src,dst,op,day,relation\n3,1,+,2024-05-03,pays\n2,1,+,,knows\n")
    options = ["--updates", "updates", "--once", "--window", "2 days", "--time", "day", "--quiet"]
    told = run_here("watch", "q(a,b,e) := pays(a,b,e)", "bank.index", *options, cwd=tmp_path).stdout
    assert told == "2 epochs, 3 updates, +2 -1 matches; q 2\n"


def test_an_error_that_spark_raises_after_an_interrupt_is_an_interrupt():
    def collect():
        try:
            raise KeyboardInterrupt
        finally:
            raise OSError("broken pipe")

    with pytest.raises(OSError, match="broken pipe") as raised:
        collect()
    assert _follows_interrupt(raised.value)
    assert not _follows_interrupt(OSError("broken pipe"))


def test_rows_stay_on_stdout_while_progress_shows():
    program = """
import sys, time
import rich.console, rich.progress  # otherwise imported when the bar shows
from bigjoin.cli import progress
progress.DELAY_SECONDS = 0.01
with progress.Reporter(quiet=False) as report:
    report.stage("finding")
    time.sleep(0.3)  # a terminal that nobody reads has no space for much more
    print("a row")
"""
    terminal, stderr = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=stderr, check=True, env=environment)
    os.close(stderr)
    assert b"finding" in os.read(terminal, 1 << 16)
    os.close(terminal)
    assert done.stdout == b"a row\n"
