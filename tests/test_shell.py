"""The shell as users meet it: scripts, pipes, and a terminal at which somebody types."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import bigjoin as bj
from tests.test_cli import BIGJOIN, run_here
from tests.test_local import NO_SPARK

EDGES = "src,dst,amount\n1,2,10.5\n2,3,20\n3,1,30\n3,4,40\n4,1,50\n1,3,60\n"
EPINIONS = Path(bj.__file__).with_name("data") / "soc-Epinions1.txt.gz"
ENDLESS = (
    "q(a, b, c, d, e, f, g) := edge(a, b), edge(b, c), edge(c, d), edge(d, e), edge(e, f), edge(f, g), "
    "(a + b + c + d + e + f + g) % 7 = 1"
)
"""Takes days on the dense graph below."""
MAX_SHOWN = 20_000
"""Characters of a screen that are looked at: more scroll by."""
PATIENCE = 60.0
"""Seconds to wait for something on a screen, on a machine that does other things, too."""


@pytest.fixture(autouse=True)
def no_master(monkeypatch):
    for name in ("SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME", "BIGJOIN_CONF"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "edges.csv").write_text(EDGES)
    (tmp_path / "people.csv").write_text("id,name\n1,ann\n2,bob\n3,cat\n4,dan\n")
    return tmp_path


@pytest.fixture(scope="module")
def dense(tmp_path_factory) -> Path:
    draw = np.random.default_rng(1)
    ends = draw.integers(0, 2000, (2, 300_000))
    path = tmp_path_factory.mktemp("dense") / "dense.index"
    bj.build_index(pa.table({"src": ends[0], "dst": ends[1]}), path, directed=False)
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A home of its own for what the shell keeps; compiled kernels are kept there, too."""
    return tmp_path_factory.mktemp("home")


def script(folder: Path, text: str, *arguments: object):
    """Run a script in this process."""
    (folder / "script.bj").write_text(text)
    return run_here("shell", *arguments, "-f", "script.bj", cwd=folder)


def answers(folder: Path, text: str, *arguments: object) -> str:
    """Return what a script prints that has no errors."""
    done = script(folder, text, *arguments, "--quiet")
    assert (done.returncode, re.sub(r"\d+ match(es)? in .*\n", "", done.stderr)) == (0, "")
    return done.stdout


# Scripts


def test_questions_in_every_language(folder):
    text = """# three cycles, in five languages
3-cycle

q(a, b, c) := edge(a, b), edge(b, c),
    edge(c, a)
(a)-[]->(b); (b)-[]->(c);
(c)-[]->(a)
MATCH (a)-[]->(b)-[]->(c)-[]->(a)
RETURN count(*) AS n;
SELECT count(*) AS n FROM edge a JOIN edge b ON a.dst = b.src
JOIN edge c ON b.dst = c.src AND c.dst = a.src;
"""
    lines = answers(folder, text, "edges.csv").splitlines()
    cycles = {("1", "2", "3"), ("2", "3", "1"), ("3", "1", "2"), ("1", "3", "4"), ("3", "4", "1"), ("4", "1", "3")}
    assert lines[0] == "a1,a2,a3"
    assert {tuple(line.split(",")) for line in lines[1:7]} == cycles
    assert lines[7] == "a,b,c"
    assert {tuple(line.split(",")) for line in lines[8:14]} == cycles
    assert lines[14] == "a.id,b.id,c.id"
    assert {tuple(line.split(",")) for line in lines[15:21]} == cycles
    assert lines[21:] == ["n", "6", "n", "6"]


def test_commands_are_those_of_the_command_line(folder):
    text = r"""
\count 3-cycle
\exists 4-clique
\by a1 2-path
\estimate 3-cycle
\explain 3-cycle
\count
\set where 3
"""
    done = script(folder, text, "edges.csv", "--quiet", "--keep-going")
    assert done.stdout.startswith("6\nfalse\na1,count\n")
    assert "estimated" not in done.stdout
    assert "3-cycle(a1, a2, a3) := edge(a1, a2), edge(a2, a3), edge(a3, a1)" in done.stdout
    assert done.stdout.endswith("\n6\n")
    assert done.returncode == 2
    assert done.stderr.startswith("bigjoin: script.bj:8: there is no setting 'where'; there are strategy, workers, ")


def test_settings_hold_until_they_are_unset(folder):
    text = r"""
\set unique on
\count 3-cycle
\count --distinct 3-cycle
\unset unique
\count 3-cycle
\set limit 2
3-cycle
\set format json
\count 3-cycle
\find --limit 1 q(a) := edge(a, _)
\set $least 35
\unset limit
\set format csv
MATCH (a)-[e]->(b) WHERE e.amount > $least RETURN a, b ORDER BY a, b;
"""
    lines = answers(folder, text, "edges.csv").splitlines()
    assert lines[:3] == ["2", "2", "6"]
    assert lines[3] == "a1,a2,a3"
    assert len(lines[4:6]) == 2
    assert json.loads(lines[6])["count"] == 6
    assert json.loads(lines[7]).keys() == {"a"}
    assert lines[8:] == ["a,b", "1,3", "3,4", "4,1"]


def test_options_of_the_command_line_are_settings(folder):
    assert answers(folder, "\\count 3-cycle\n", "edges.csv", "--unique") == "2\n"
    assert answers(folder, "\\count triangle\n", "edges.csv", "--undirected", "--unique") == "2\n"
    assert answers(folder, "\\unset unique\n\\count 3-cycle\n", "edges.csv", "--unique", "--distinct") == "6\n"
    shown = answers(folder, "\\set\n", "edges.csv", "--strategy", "local", "--memory", "1GB", "--json")
    rows = {row["setting"]: row["value"] for row in map(json.loads, shown.splitlines())}
    assert rows["strategy"] == "local"
    assert rows["format"] == "json"
    assert rows["quiet"] == "on"
    assert rows["timing"] == "off"


def test_the_last_question_is_asked_again(folder):
    text = "q(a, b) := edge(a, b),\n a < b\n\\count\n\\output out.csv\n\\define up =\nup\n\\count up\n\\find --limit 1\n"
    lines = answers(folder, text, "edges.csv").splitlines()
    assert lines[0] == "a,b"
    assert lines[5] == "4"
    assert lines[6] == "a,b"
    assert lines[11] == "4"
    assert len(lines) == 14
    assert sorted((folder / "out.csv").read_text().splitlines()) == ["1,2", "1,3", "2,3", "3,4", "a,b"]


def test_results_go_to_files(folder):
    text = r"""
\output "two words.parquet" q(a, b) := edge(a, b)
\o --limit 2 out.json q(a, b) := edge(a, b)
\find -o out.csv 3-cycle
\count --by a1 -o groups.csv 2-path
"""
    done = script(folder, text, "edges.csv")
    assert done.returncode == 0
    assert done.stdout == ""
    assert "6 matches in two words.parquet" in done.stderr
    assert pq.read_table(folder / "two words.parquet").num_rows == 6
    assert len((folder / "out.json").read_text().splitlines()) == 2
    assert len((folder / "out.csv").read_text().splitlines()) == 7
    assert (folder / "groups.csv").read_text().startswith("a1,count\n")


def test_a_table_on_a_pipe_if_that_is_wanted(folder):
    text = "\\set format table\nq(a) := edge(a, 2)\n\\by a q(a) := edge(a, b)\n"
    shown = answers(folder, text, "edges.csv")
    assert re.search(r"┃ a ┃.*│ 1 │", shown, re.DOTALL)
    assert "┃ a ┃ count ┃" in shown


def test_relations_of_any_arity(folder):
    (folder / "lives.csv").write_text("who,city\n1,Ghent\n2,Bruges\n3,Ghent\n")
    text = r"""
\relation lives lives.csv
\relation edge edges.csv
\relations
\count q(p, q) := lives(p, c), lives(q, c), edge(src: p, dst: q)
SELECT l.city, count(*) AS n FROM lives l JOIN edge e ON e.src = l.who GROUP BY l.city ORDER BY n;
"""
    lines = answers(folder, text).splitlines()
    assert lines[0] == "relation,what,columns,source"
    assert list(csv.reader(lines[1:3])) == [
        ["lives", "relation", "who int64, city string", "lives.csv"],
        ["edge", "relation", "src int64, dst int64, amount double", "edges.csv"],
    ]
    assert list(csv.reader(lines[3:])) == [["2"], ["city", "n"], ["Bruges", "1"], ["Ghent", "4"]]
    named = answers(folder, "\\count q(p) := lives(p, 'Ghent')\n", "--relation", "lives=lives.csv")
    assert named == "2\n"


def test_sources_take_each_others_place(folder):
    text = r"""
\count triangle
\open edges.csv --undirected
\count --unique triangle
\open edges.csv --src dst --dst src
\count q(a) := edge(a, 1)
\relation r people.csv
\count q(a) := r(a, _)
\count triangle
\open nowhere.csv
\relations
"""
    done = script(folder, text, "--keep-going")
    assert done.stdout.splitlines()[:3] == ["2", "2", "4"]
    errors = [line for line in done.stderr.splitlines() if "script.bj" in line]
    assert [line.split(": ", 2)[1:] for line in errors] == [
        ["script.bj:2", "nothing is open: \\open PATH opens a graph, and \\relation NAME PATH adds a relation"],
        ["script.bj:9", "there is no relation 'edge'"],
        ["script.bj:10", "there is no file or directory nowhere.csv"],
    ]
    assert "note: edges.csv: the first line is the header; src and dst by name" in done.stderr
    assert "note: edges.csv is closed: questions are about relations now" in done.stderr
    assert "note: people.csv: " in done.stderr
    assert '"id int64, name string"' in done.stdout  # what was open stays open


def test_what_is_there_is_listed(folder):
    bj.build_index(str(folder / "edges.csv"), folder / "pays.index", vertices=str(folder / "people.csv"))
    text = "\\define ring = q(a) := edge(a, b), edge(b, a)\n\\relations\n\\queries\n"
    rows = list(csv.reader(answers(folder, text, "pays.index").splitlines()))
    assert rows[0] == ["relation", "what", "columns", "tuples", "rows"]
    assert rows[1] == ["edge", "edges", "src int64, dst int64, amount double", "6", "6"]
    assert rows[2] == ["vertex", "vertices", "id int64, name string", "4", ""]
    assert rows[3:5] == [["query", "means"], ["ring", "q(a) := edge(a, b), edge(b, a)"]]
    assert ["triangle", "edge(a1, a2), edge(a1, a3), edge(a2, a3)"] in rows


def test_an_error_names_file_and_line_and_ends_a_script(folder):
    text = "\\count 3-cycle\n\nq(a, b) :=\n  edge(a b)\n\\count 3-cycle\n"
    done = script(folder, text, "edges.csv", "--quiet")
    assert (done.returncode, done.stdout) == (2, "6\n")
    assert done.stderr.startswith(
        "bigjoin: script.bj:3: the query cannot be read: unexpected 'b'\n    edge(a b)\n           ^\n"
    )
    done = script(folder, text, "edges.csv", "--quiet", "--keep-going")
    assert (done.returncode, done.stdout) == (2, "6\n6\n")


def test_files_are_included(folder):
    (folder / "inner.bj").write_text("\\count 3-cycle\n\\count nothing\n\\count 2-path\n")
    (folder / "loop.bj").write_text("\\include loop.bj\n")
    text = "\\define own = 2-cycle\n\\i inner.bj\n\\count own\n"
    done = script(folder, text, "edges.csv", "--quiet")
    assert (done.returncode, done.stdout) == (2, "6\n")
    assert done.stderr.startswith("bigjoin: inner.bj:2: there is no query named 'nothing'")
    assert done.stderr.count("bigjoin: ") == 1
    done = script(folder, text, "edges.csv", "--quiet", "--keep-going")
    assert done.stdout == "6\n2\n"
    assert "includes itself" in script(folder, "\\include loop.bj\n", "edges.csv", "--quiet").stderr
    assert "No such file or directory: nowhere" in script(folder, "\\include nowhere\n", "--quiet").stderr


def test_quit_ends_a_script(folder):
    (folder / "inner.bj").write_text("\\quit\n")
    assert answers(folder, "\\count 3-cycle\n\\q\n\\count 3-cycle\n", "edges.csv") == "6\n"
    assert answers(folder, "\\include inner.bj\n\\count 3-cycle\n", "edges.csv") == ""
    assert answers(folder, "\\count 3-cycle\nexit\n\\nonsense\n", "edges.csv") == "6\n"


MEAN = [
    "q(",
    "q(a, b) := nothing(a, b)",
    "q(a, b) := edge(a, b, c, d)",
    "q(a, b, c, d) := edge(a, b), edge(c, d)",
    "q(a) := edge(a, b), z < 5",
    "\\count --by nothing triangle",
    "\\count --sample 5 triangle",
    "\\find --limit -1 triangle",
    "\\find --limit",
    "\\find --strategy magic triangle",
    "\\find --sample 5 --factorized triangle",
    "\\output out.xlsx triangle",
    "\\output nowhere/out.csv triangle",
    "\\output edges.csv",
    "\\output",
    "\\open",
    "\\open edges.csv more.csv",
    "\\open edges.csv --delimiter xx",
    "\\open /dev/zero",
    "\\open .",
    "\\open 'not closed",
    "\\relation only-one",
    "\\relation 1x edges.csv",
    "\\relation r nowhere.csv",
    "\\set strategy",
    "\\set strategy nonsense",
    "\\set timeout 0",
    "\\unset",
    "\\unset nothing",
    "\\define",
    "\\define triangle = house",
    "\\define x = q(a := edge(a, b)",
    "\\define 5x = triangle",
    "\\timing perhaps",
    "\\history many",
    "\\help nothing",
    "\\include",
    "\\draw triangle",
    "\\explain++ triangle",
    "\\count+ triangle",
    "\\nonsense",
    "\\",
    "relations",
    "count triangle",
    "MATCH (a)-[]->(b) RETURN;",
    "MATCH (a) DELETE a;",
    "SELECT * FROM nothing;",
    "SELECT 1 +;",
    "INSERT INTO edge VALUES (1, 2);",
    "(a)-[]->(b",
    "(a)-[]->(a)-[]->(b)",
    "g.V().out()",
    "é💥",
    "\x00\x01\x1b[31m",
    "-- only a comment ; \\x",
    "'" * 50,
    "q(a) := edge(a, b), a = " + "(" * 500,
    "x" * 5000,
]


def test_mean_input_is_a_sentence_each(folder):
    """Whatever is asked, the answer is a sentence that names its line, and the next question is answered."""
    text = "".join(f"{line}\n\n\\count 3-cycle\n" for line in MEAN)
    done = script(folder, text, "edges.csv", "--quiet", "--keep-going")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "BIGJOIN_DEBUG" not in done.stderr, done.stderr
    assert done.stdout.count("6\n") >= len(MEAN)
    told = [int(number) for number in re.findall(r"^bigjoin: script\.bj:(\d+): \S", done.stderr, re.MULTILINE)]
    silent = [line for number, line in enumerate(MEAN) if 3 * number + 1 not in told]
    assert silent == ["-- only a comment ; \\x"]
    assert len(told) == len(MEAN) - 1
    assert max(map(len, done.stderr.splitlines())) < 1000


def test_words_of_the_shell_without_their_backslash_are_hinted_at(folder):
    done = script(folder, "relations\ncount 3-cycle\nrinf\n", "edges.csv", "--quiet", "--keep-going")
    assert done.stderr.count("hint: did you mean the command \\relations?") == 1
    assert "hint: did you mean the command \\count?" in done.stderr


def test_text_that_is_not_utf8_is_a_sentence(folder):
    (folder / "script.bj").write_bytes(b"\\count 3-cycle\n\xff\xfe\n")
    done = run_here("shell", "edges.csv", "-f", "script.bj", "--quiet", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "6\n")
    assert done.stderr == "bigjoin: script.bj:2: the line is not UTF-8\n"


def test_windows_files_are_scripts_too(folder):
    (folder / "script.bj").write_bytes(b"\xef\xbb\xbf\\count 3-cycle\r\nq(a) :=\r\n  edge(a, 2)\r\n")
    done = run_here("shell", "edges.csv", "-f", "script.bj", "--quiet", cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "6\na\n1\n", "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.csv"], "there is no file or directory nowhere.csv"),
        (["edges.csv", "-f", "nowhere.bj"], "No such file or directory: nowhere.bj"),
        (["edges.csv", "-f", "."], "Is a directory: ."),
        (["edges.csv", "--relation", "r=people.csv", "-f", "x"], "give either SOURCE or --relation, not both"),
        (["-", "-f", "-"], "- is the standard input, which can be read once"),
        (["edges.csv", "--strategy", "magic"], "'magic' is not one of"),
        (["--relation", "r=nowhere.csv", "-f", "x"], "there is no file or directory nowhere.csv"),
        (["--strategy", "local", "--master", "local[2]", "edges.csv", "-f", "ask.bj"], "--strategy local has no Spark"),
    ],
)
def test_what_cannot_begin_is_refused(folder, arguments, said):
    (folder / "ask.bj").write_text("triangle\n")
    done = run_here("shell", *arguments, "--quiet", cwd=folder)
    assert done.returncode == 2
    assert done.stdout == ""
    assert said in done.stderr


# Programs


def program(*arguments: object, text: str = "", cwd: Path, **environment: str) -> subprocess.CompletedProcess:
    """Run a shell as a program, with questions in its standard input; nothing of Spark may be imported."""
    command = [sys.executable, "-c", NO_SPARK, "shell", *map(str, arguments)]
    done = subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **environment},
        timeout=300,
        check=False,
    )
    assert "LOADED" not in done.stderr, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_a_pipe_is_a_script_and_needs_no_spark(folder):
    text = """\\count 3-cycle
3-cycle
\\estimate 2-path
\\explain+ 3-cycle
\\output out.parquet 3-cycle
\\relations
\\by a1 2-path
SELECT count(*) AS n FROM edge;
\\relation r people.csv
\\count q(a) := r(a, _)
\\set strategy local
\\count
"""
    done = program("edges.csv", "--quiet", text=text, cwd=folder)
    assert done.returncode == 0
    assert done.stdout.startswith("6\na1,a2,a3\n")
    assert done.stdout.endswith("\n4\n4\n")
    assert program("edges.csv", "--quiet", "-f", "-", text="\\count 3-cycle\n", cwd=folder).stdout == "6\n"
    done = program("--quiet", text="\\open -\n1,2\n", cwd=folder)
    assert (done.returncode, done.stderr) == (
        2,
        "bigjoin: the standard input:1: - is the standard input, from which the commands come\n",
    )
    (folder / "script.bj").write_text("\\count 3-cycle\n")
    assert program("-", "--quiet", "-f", "script.bj", text=EDGES, cwd=folder).stdout == "6\n"


class Asker:
    """A program that asks a shell through pipes, and reads each answer before it asks again."""

    def __init__(self, *arguments: object, cwd: Path) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = [str(BIGJOIN), "shell", *map(str, arguments)]
        self.process = subprocess.Popen(command, cwd=cwd, text=True, bufsize=1, **pipes)

    def ask(self, text: str) -> str:
        """Return the first line of the answer, which is an error if nothing else comes."""
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        (ready, *_), _, _ = select.select([self.process.stdout, self.process.stderr], [], [], PATIENCE)
        return ready.readline().strip()

    def end(self) -> tuple[int, str]:
        """Return the exit code, and what else was said."""
        _, said = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, said


def test_a_program_gets_each_answer_before_it_asks_again(folder):
    asker = Asker("edges.csv", "--quiet", cwd=folder)
    assert [asker.ask("\\count 3-cycle") for _ in range(3)] == ["6"] * 3
    assert asker.end() == (0, "")


def test_a_reader_that_has_seen_enough_ends_the_script(dense):
    command = f"'{BIGJOIN}' shell '{dense}' --quiet -f - | head -3"
    text = "q(a, b, c, d) := edge(a, b), edge(b, c), edge(c, d)\n" * 50
    started = time.monotonic()
    done = subprocess.run(["sh", "-c", command], input=text, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, len(done.stdout.splitlines()), done.stderr) == (0, 3, "")
    assert time.monotonic() - started < PATIENCE


def test_a_question_that_is_repeated_takes_a_tenth_of_a_second(tmp_path):
    text = "\\timing on\n" + "\\count triangle\n" * 5 + "\\find --limit 10 triangle\n" * 5
    done = program(EPINIONS, "--undirected", "--unique", "--quiet", text=text, cwd=tmp_path)
    assert done.stdout.splitlines()[:5] == ["1624481"] * 5
    seconds = [float(found) for found in re.findall(r"^(\d+\.\d+) s$", done.stderr, re.MULTILINE)]
    assert len(seconds) == 10
    repeated = sorted(seconds[1:5] + seconds[6:])[4]
    assert repeated < 0.5, seconds  # 0.1 where nothing else runs


def test_an_interrupt_ends_a_script(dense, tmp_path):
    (tmp_path / "script.bj").write_text(f"\\count {ENDLESS}\n\\count triangle\n")
    for number in (signal.SIGINT, signal.SIGTERM):
        assert interrupted(number, 5, dense, "-f", "script.bj", "--keep-going", "--strategy", "local", cwd=tmp_path)


def interrupted(number: signal.Signals, seconds: float, *arguments: object, cwd: Path) -> bool:
    """Start a shell, send it a signal after some seconds, and tell whether it ends at once, with one sentence."""
    command = [str(BIGJOIN), "shell", *map(str, arguments), "--quiet"]
    started = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_for_handlers(started.pid)
        time.sleep(seconds)
        assert started.poll() is None
        started.send_signal(number)
        asked = time.monotonic()
        printed, said = started.communicate(timeout=PATIENCE)
    finally:
        started.kill()
    assert (started.returncode, printed, said.strip()) == (130, "", "bigjoin: interrupted")
    return time.monotonic() - asked < 20


def wait_for_handlers(pid: int) -> None:
    """Wait until a shell handles signals: before that, Python itself may overlook one while it starts."""
    status, until = Path(f"/proc/{pid}/status"), time.monotonic() + PATIENCE
    caught = 1 << (signal.SIGTERM - 1)
    while status.exists() and time.monotonic() < until:
        if int(re.findall(r"SigCgt:\s*(\w+)", status.read_text())[0], 16) & caught:
            return
        time.sleep(0.05)


def test_an_index_is_asked_as_it_is_now(folder):
    bj.build_index(str(folder / "edges.csv"), folder / "pays.index")
    asker, ask = Asker("pays.index", cwd=folder), "\\set quiet off\n\\count 3-cycle"
    assert asker.ask(ask) == "6"
    with bj.Graph.open(folder / "pays.index") as graph:
        graph.apply(pa.table({"src": [3], "dst": [1], "op": ["-"]}), strategy="local")
        assert asker.ask(ask) == "bigjoin: note: pays.index has changed, and is asked as it is now"
        assert asker.process.stdout.readline() == "3\n"
        graph.apply(pa.table({"src": [3, 2], "dst": [1, 4], "op": ["+", "+"]}), strategy="local")
    assert asker.ask(ask).startswith("bigjoin: note: ")
    assert asker.process.stdout.readline() == "9\n"
    assert asker.ask(ask) == "9"
    assert asker.end() == (0, "")


def test_an_index_that_is_gone_is_missed_until_it_is_back(folder):
    bj.build_index(str(folder / "edges.csv"), folder / "pays.index")
    asker = Asker("pays.index", "--quiet", "--keep-going", cwd=folder)
    assert asker.ask("\\count 3-cycle") == "6"
    (folder / "pays.index").rename(folder / "gone")
    for line in (2, 3):
        assert asker.ask("\\count 3-cycle") == f"bigjoin: the standard input:{line}: there is no index at pays.index"
    (folder / "gone").rename(folder / "pays.index")
    assert asker.ask("\\count 3-cycle") == "6"
    assert asker.end() == (2, "")


def test_questions_are_drawn(folder):
    text = r"""
\draw 3-cycle cycle.svg
\draw --matches 2 3-cycle matches.html
\draw --degrees degrees.svg
\explain --html plan.html 3-cycle
\count --loads loads.svg 3-cycle
\draw --matches 2 edges.csv
"""
    done = script(folder, text, "edges.csv", "--quiet")
    assert (done.returncode, done.stdout) == (2, "6\n")
    assert done.stderr.startswith("bigjoin: script.bj:7: \\draw needs a file at the end")
    for name in ("cycle.svg", "degrees.svg", "loads.svg"):
        assert (folder / name).read_text().startswith("<svg")
    for name in ("matches.html", "plan.html"):
        assert "<svg" in (folder / name).read_text()


def test_nothing_is_written_over_what_is_open(folder):
    for command in ("\\output edges.csv", "\\find -o edges.csv", "\\by a1 -o edges.csv"):
        done = script(folder, f"{command} 3-cycle\n", "edges.csv", "--quiet")
        assert (done.returncode, done.stderr) == (
            2,
            "bigjoin: script.bj:1: edges.csv is the source itself; write to another file\n",
        )
    done = script(folder, "\\relation r edges.csv\n\\output edges.csv q(a, b) := r(a, b, _)\n", "--quiet")
    assert "edges.csv is the source itself" in done.stderr
    assert (folder / "edges.csv").read_text() == EDGES


def test_a_file_that_has_changed_is_read_again_when_that_is_wanted(folder):
    asker = Asker("edges.csv", cwd=folder)
    assert asker.ask("\\set quiet off").startswith("bigjoin: note: edges.csv: the first line is the header")
    assert asker.ask("\\count 3-cycle") == "6"
    (folder / "edges.csv").write_text("src,dst\n1,2\n2,3\n3,1\n")
    assert asker.ask("\\count 3-cycle").endswith("edges.csv has changed since it was read: \\refresh reads it again")
    assert asker.process.stdout.readline() == "6\n"
    assert asker.ask("\\count 3-cycle") == "6"
    assert "the first line is the header" in asker.ask("\\refresh")
    assert asker.ask("\\count 3-cycle") == "3"
    assert asker.end() == (0, "")


# A terminal


class Typist:
    """Somebody at a terminal: types, and reads what the screen has shown since."""

    def __init__(self, *arguments: object, cwd: Path, home: Path, columns: int = 100, **environment: str) -> None:
        inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
        variables = {**inherited, "TERM": "xterm", "XDG_CACHE_HOME": str(home), **environment}
        self.pid, self.screen = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execve(str(BIGJOIN), [str(BIGJOIN), "shell", *map(str, arguments)], variables)
        fcntl.ioctl(self.screen, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.shown, self._bytes = "", b""
        self.code: int | None = None

    def type(self, text: str) -> None:
        os.write(self.screen, text.encode())

    def ask(self, text: str) -> None:
        self.type(text + "\r")

    def read(self, *wanted: str, seconds: float = PATIENCE) -> str:
        """Wait until patterns have appeared, one after the other, and return what came until then."""
        until, read = time.monotonic() + seconds, ""
        for pattern in wanted:
            while (found := re.search(pattern, plain(self.shown), re.DOTALL)) is None:
                ready, _, _ = select.select([self.screen], [], [], max(0.0, until - time.monotonic()))
                try:
                    more = os.read(self.screen, 1 << 16) if ready else b""
                except OSError:  # the program has ended
                    more = b""
                assert more, f"waited for {pattern!r}, and got {plain(self.shown)!r}"
                for _ in range(more.count(b"\x1b[6n")):  # where is the cursor?
                    self.type("\x1b[1;1R")
                self._bytes += more
                whole = self._bytes.decode(errors="ignore")
                self.shown, self._bytes = (self.shown + whole)[-MAX_SHOWN:], self._bytes[len(whole.encode()) :]
            read += plain(self.shown)[: found.end()]
            self.shown = plain(self.shown)[found.end() :]
        return read

    def end(self) -> int:
        """Wait until the program has ended, and return its exit code."""
        until = time.monotonic() + PATIENCE
        while self.code is None and time.monotonic() < until:
            ready, _, _ = select.select([self.screen], [], [], 0.1)
            with suppress(OSError):
                self.shown += os.read(self.screen, 1 << 16).decode(errors="replace") if ready else ""
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        assert self.code is not None
        return self.code

    def seconds_busy(self) -> float:
        """Return the seconds of CPU time that the program has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> Typist:
        return self

    def __exit__(self, *_: object) -> None:
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.screen)


def plain(text: str) -> str:
    """Return what a terminal would show, without colours and moves of the cursor."""
    return re.sub(r"\x1b(\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[=>])|\r", "", text)


PROMPT = "bigjoin>"


def test_somebody_types(folder, home):
    with Typist("edges.csv", cwd=folder, home=home) as user:
        shown = user.read("help explains, Ctrl-D leaves", PROMPT, "Spark not started")
        assert "edges.csv: the first line is the header" in shown
        assert "edges.csv: 4 vertices, 6 edges, directed · auto" in shown
        user.ask("3-cycle")
        user.read("a1.*a2.*a3", r"\d\.\d{3} s", PROMPT)
        user.ask("q(a, b) :=")
        user.read(r"\.\.\. ", "an empty line ends it")
        user.ask("edge(a, b), a = 4")
        user.read("4 │ 1", PROMPT)
        user.ask("\\count")
        user.read("\n1\n", PROMPT)
        user.ask("MATCH (a)-[]->(b)")
        user.read(r"\.\.\. ")
        user.ask("RETURN count(*) AS number;")
        user.read("number.*6", PROMPT)
        user.ask("q(a b) := edge(a, b)")
        user.read("the query cannot be read: unexpected 'b'", r"\^", PROMPT)
        user.ask("quit")
        assert user.end() == 0


def test_somebody_pastes(folder, home):
    with Typist("edges.csv", "--quiet", cwd=folder, home=home) as user:
        user.read(PROMPT)
        user.type("\x1b[200~SELECT count(*) AS number\n\nFROM edge a\n  JOIN edge b ON a.dst = b.src;\n\x1b[201~")
        time.sleep(0.5)
        user.type("\r")
        user.read("number.*10", PROMPT)
        user.type("\x1b[200~\\set unique on\n\\count 3-cycle\n\\unset unique\n\\count 3-cycle\n\x1b[201~\r")
        user.read("\n2\n", "\n6\n", PROMPT)
        user.type("\x04")
        assert user.end() == 0


def test_somebody_completes_and_searches(folder, home):
    with Typist("edges.csv", "--quiet", cwd=folder, home=home) as user:
        user.read(PROMPT)
        user.type("\\cou\t")
        user.read(r"\\count")
        user.type(" 3-cy\t")
        user.read("3-cycle")
        user.type("\r")
        user.read("\n6\n", PROMPT)
        user.type("q(e) := edge(a, b, e), a = 4" + "\x1b[D" * len(") := edge(a, b, e), a = 4") + ".am\t")
        user.read(r"ount\)")  # the terminal may be told only what is new on the line
        user.type("\r")
        user.read("e_amount|amount", "50.0", PROMPT)
        user.type("\x12-cyc")
        user.read("3-cycle")
        user.type("\r")
        time.sleep(0.3)
        user.type("\r")
        user.read("\n6\n", PROMPT)
        user.type("\x1b[A")  # the entry before
        time.sleep(0.3)
        user.type("\r")
        user.read("\n6\n", PROMPT)
        os.kill(user.pid, signal.SIGKILL)
        os.waitpid(user.pid, 0)
        user.code = -signal.SIGKILL
    with Typist(cwd=folder, home=home) as user:
        user.read(PROMPT)
        user.ask("\\history 3")
        user.read(r"q\(e\.amount\) := edge\(a, b, e\), a = 4", r"\\count 3-cycle", PROMPT)
        user.type("\x04")
        assert user.end() == 0


def test_an_interrupt_clears_the_line(folder, home):
    with Typist("edges.csv", cwd=folder, home=home) as user:
        user.read(PROMPT)
        user.type("half a line\x03")
        user.read(PROMPT)
        user.ask("q(a) :=")
        user.read(r"\.\.\. ")
        user.type("\x03")
        user.read(PROMPT)
        user.type("\x03")
        user.read(PROMPT)
        user.ask("\\count 3-cycle")
        user.read("\n6\n", PROMPT)
        user.type("\x04")
        assert user.end() == 0


@pytest.mark.parametrize(
    "question",
    [
        f"\\count {ENDLESS}",
        f"\\set format csv\r\\set limit all\r{ENDLESS}",
        "\\output rows.csv q(a, b, c, d, e) := edge(a, b), edge(b, c), edge(c, d), edge(d, e)",
        f"\\by a {ENDLESS}",
        f"\\estimate --seconds 300 --precision 0.0000001 {ENDLESS}",
        "MATCH (a)-[]->(b)-[]->(c)-[]->(d) RETURN a, b, c, d ORDER BY d;",
    ],
    ids=["count", "rows", "file", "groups", "estimate", "sorted"],
)
def test_an_interrupt_cancels_what_runs_and_nothing_else(question, dense, home, tmp_path):
    with Typist(dense, "--strategy", "local", "--quiet", cwd=tmp_path, home=home) as user:
        user.read(PROMPT)
        user.ask("\\count triangle")
        user.read(r"\n(\d+)\n", PROMPT)
        user.ask(question)
        time.sleep(4)
        user.type("\x03")
        asked = time.monotonic()
        time.sleep(0.1)
        user.type("\x03")  # once more
        user.read("cancelled", PROMPT)
        assert time.monotonic() - asked < 20
        user.shown = ""
        user.ask("\\count triangle")
        user.read(r"\n(\d+)\n", PROMPT)
        busy = user.seconds_busy()
        time.sleep(2)
        assert user.seconds_busy() - busy < 0.5  # no thread goes on
        user.type("\x04")
        assert user.end() == 0
    assert [path.name for path in tmp_path.iterdir()] == []


def test_an_end_of_the_process_ends_the_shell(dense, home, tmp_path):
    for question in (None, f"\\count {ENDLESS}"):
        with Typist(dense, "--strategy", "local", cwd=tmp_path, home=home) as user:
            user.read(PROMPT)
            if question is not None:
                user.ask(question)
                time.sleep(3)
            os.kill(user.pid, signal.SIGTERM)
            assert user.end() == 130
            assert "Traceback" not in user.shown


def test_wide_rows_are_blocks_on_a_narrow_terminal(folder, home):
    with Typist("edges.csv", "--quiet", cwd=folder, home=home, columns=60) as user:
        user.read(PROMPT)
        columns = ", ".join(f"a + {number} as a_column_with_a_long_name_{number}" for number in range(5))
        user.ask(f"q({columns}) := edge(a, 2)")
        shown = user.read("row.*column.*value", "a_column_with_a_long_name_4", PROMPT)
        assert max(len(line) for line in shown.splitlines() if "│" in line) <= 60
        user.type("\x04")
        assert user.end() == 0


def test_a_terminal_shows_the_first_rows(dense, home, tmp_path):
    with Typist(dense, "--quiet", cwd=tmp_path, home=home) as user:
        user.read(PROMPT)
        user.ask("q(a, b) := edge(a, b)")
        user.read(r"the first 100 matches; \\set limit N shows more, \\output FILE writes all", PROMPT)
        user.ask("\\set format csv")
        user.read(PROMPT)
        user.ask("q(a, b) := edge(a, b)")
        user.read("a,b\n", "the first 100 matches", PROMPT)
        user.ask("\\set limit 3")
        user.read(PROMPT)
        user.ask("q(a, b) := edge(a, b)")
        assert "the first" not in user.read("a,b\n", r"\d\.\d{3} s", PROMPT)
        user.type("\x04")
        assert user.end() == 0


def test_a_shell_without_a_home_or_a_place_for_its_history(folder, tmp_path):
    nowhere = tmp_path / "file"
    nowhere.touch()
    with Typist("edges.csv", "--quiet", cwd=folder, home=nowhere, TMPDIR=str(tmp_path)) as user:
        user.read(PROMPT)
        user.ask("\\count 3-cycle")
        user.read("\n6\n", PROMPT)
        user.type("\x04")
        assert user.end() == 0


def test_a_terminal_that_can_only_print(folder, home):
    with Typist("edges.csv", "--quiet", cwd=folder, home=home, TERM="dumb") as user:
        user.read(PROMPT)
        user.ask("\\count 3-cycle")
        user.read("\n6\n", PROMPT)
        user.ask("q(a) :=")
        user.read(":=")
        user.ask("edge(a, 2)")
        user.read("│ 1 │", PROMPT)
        time.sleep(0.5)  # a key that is typed too soon is not yet one of the prompt
        user.type("\x04")
        assert user.end() == 0


# Spark


@pytest.mark.spark
def test_spark_starts_when_a_question_needs_it(folder, home):
    text = """\\count 3-cycle
MATCH (a)-[]->(b) OPTIONAL MATCH (b)-[]->(c) WHERE c.id > 3 RETURN a, b, c ORDER BY a, b, c;
\\count 3-cycle
\\set strategy shared
\\count 3-cycle
\\by a1 3-cycle
"""
    (folder / "script.bj").write_text(text)
    done = subprocess.run(
        [str(BIGJOIN), "shell", "edges.csv", "-f", "script.bj"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    notes = [line for line in done.stderr.splitlines() if "Spark" in line]
    assert notes == ["bigjoin: note: Spark starts: this OPTIONAL MATCH is its work"]
    lines = done.stdout.splitlines()
    assert lines[:2] == ["6", "a,b,c"]
    assert lines[8:10] == ["6", "6"]
    assert lines[10:] == ["a1,count", "1,2", "3,2", "2,1", "4,1"]


@pytest.mark.spark
@pytest.mark.parametrize("seconds", [1.5, pytest.param(10, marks=pytest.mark.slow)])
def test_an_interrupt_ends_a_script_that_waits_for_spark(dense, tmp_path, seconds):
    (tmp_path / "script.bj").write_text(f"\\count {ENDLESS}\n")
    assert interrupted(signal.SIGINT, seconds, dense, "-f", "script.bj", "--strategy", "shared", cwd=tmp_path)


@pytest.mark.spark
@pytest.mark.slow
def test_an_interrupt_cancels_a_question_of_spark(dense, home, tmp_path):
    with Typist(dense, "--quiet", cwd=tmp_path, home=home, columns=160) as user:
        user.read(PROMPT)
        user.ask("\\set strategy shared")
        user.read(PROMPT)
        user.ask(f"\\count {ENDLESS}")
        time.sleep(1.5)
        user.type("\x03")  # while Spark starts
        user.read("cancelled", PROMPT)
        user.read("Spark (starting|running)")
        user.ask("\\count triangle")
        (first,) = re.findall(r"\n(\d+)\n", user.read(r"\n(\d+)\n", PROMPT))
        user.ask(f"\\count {ENDLESS}")
        time.sleep(6)
        user.type("\x03")
        asked = time.monotonic()
        user.read("cancelled", PROMPT)
        assert time.monotonic() - asked < 20
        user.shown = ""
        user.ask("\\count triangle")
        (second,) = re.findall(r"\n(\d+)\n", user.read(r"\n(\d+)\n", PROMPT))
        assert first == second
        time.sleep(8)  # Spark kills workers that do not look at their quota within some seconds
        busy = seconds_of_family(user.pid)
        time.sleep(3)
        assert seconds_of_family(user.pid) - busy < 1.5  # no task goes on
        user.type("\x04")
        assert user.end() == 0


def seconds_of_family(pid: int) -> float:
    """Return the seconds of CPU time that a process and those that it has started have used so far."""
    total, waiting = 0.0, [pid]
    while waiting:
        current = waiting.pop()
        try:
            fields = Path(f"/proc/{current}/stat").read_text().rpartition(")")[2].split()
            waiting += [int(c) for task in Path(f"/proc/{current}/task").glob("*/children") for c in task.read_text().split()]
        except OSError:
            continue
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total
