"""What users see when something else fails: a process of Spark's, a stream; and how much of their input is repeated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import bigjoin as bj
from bigjoin.errors import CARET_WIDTH, MAX_LINE_LENGTH, MAX_LINES, BigjoinError, QueryError, SourceError, Span, bounded, shown
from bigjoin.spark.failures import plain_error
from tests.test_cli import BIGJOIN, refused, run_here

LONG = 100_000
BOUND = 4_000
"""Characters of a message with a few hundred of each thing that it repeats."""


# How much is repeated


def test_a_long_text_is_shown_by_its_ends():
    assert shown("a" * MAX_LINE_LENGTH) == "a" * MAX_LINE_LENGTH
    text = shown("a" * LONG + "z")
    assert len(text) <= MAX_LINE_LENGTH
    assert text.startswith("aaa")
    assert text.endswith("az")
    many = bounded("\n".join(f"line {n} {'x' * n}" for n in range(1000)))
    assert many.count("\n") < MAX_LINES
    assert len(many) <= MAX_LINES * (MAX_LINE_LENGTH + 1)
    assert bounded(many) == many


@pytest.mark.parametrize("at", [0, 1, 59, 60, 61, LONG // 2, LONG - 61, LONG - 1])
@pytest.mark.parametrize("width", [1, 5, LONG])
def test_a_caret_points_at_the_same_text_in_a_long_line(at, width):
    text = "".join(chr(33 + n % 90) for n in range(LONG))
    line, carets = Span(f"first\n{text}\nlast", 6 + at, 6 + min(at + width, LONG)).caret().split("\n")
    assert len(line) <= CARET_WIDTH + 10
    assert len(carets) <= len(line)
    first, last = carets.index("^"), carets.rindex("^")
    assert text[at:].startswith(line[first : last + 1])
    assert carets.strip() == "^" * (last + 1 - first)


def test_a_caret_under_a_short_line_is_as_ever():
    assert Span("q(a) :=\n\tedge(a, b) x", 20, 21).caret() == "   edge(a, b) x\n  " + " " * 12 + "^"
    assert Span("abc", 1, 2).caret() == "  abc\n   ^"
    assert Span("abc", 3, 3).caret() == "  abc\n     ^"


def test_every_error_of_ours_is_bounded():
    long = "x" * LONG
    for error in (BigjoinError(long), SourceError(f"there is no file {long}: look elsewhere"), QueryError(long, hint=long)):
        assert len(str(error)) < 2 * MAX_LINE_LENGTH + 20
    assert str(SourceError(f"there is no file {long}: look elsewhere")).endswith("look elsewhere")


NAMES = "x" * LONG
HOSTILE = {
    "a name": NAMES,
    "brackets": "(" * LONG,
    "a half rule": f"q(a,b) := edge(a,b), {NAMES}",
    "an attribute": f"q({NAMES}) := edge(a,b)",
    "a relation": f"q(a,b) := {NAMES}(a,b)",
    "a text": f"q(a,b) := edge(a,b), a.name = '{NAMES}",
    "lines": "q(a,b) := edge(a,b)," + "\n" * LONG + "?",
    "words": "edge " * (LONG // 5),
    "another alphabet": "ж" * LONG,
    "controls": "\x1b[31m" * (LONG // 5),
}


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("where", ["query", "where", "select"])
def test_a_long_query_is_not_repeated(tmp_path, text, where):
    (tmp_path / "edges.csv").write_text("src,dst,amount\n1,2,3\n")
    given = {
        "query": [HOSTILE[text]],
        "where": ["2-path", "--where", HOSTILE[text]],
        "select": ["2-path", "--select", HOSTILE[text]],
    }
    done = run_here("count", given[where][0], "edges.csv", *given[where][1:], cwd=tmp_path)
    assert refused(done)
    assert 10 < len(done.stderr) < BOUND


ARGUMENTS = {
    "a source": ["count", "triangle", NAMES],
    "a source of many folders": ["count", "triangle", "x/" * (LONG // 2)],
    "a relation": ["count", "q(a,b) := r(a,b)", "--relation", NAMES],
    "a relation's path": ["count", "q(a,b) := r(a,b)", "--relation", f"r={NAMES}"],
    "a strategy": ["count", "triangle", "edges.csv", "--strategy", NAMES],
    "a number": ["count", "triangle", "edges.csv", "--workers", NAMES],
    "a master": ["count", "triangle", "edges.csv", "--master", NAMES],
    "a host": ["count", "triangle", "edges.csv", "--master", f"spark://{NAMES}:1"],
    "a host of another alphabet": ["count", "triangle", "edges.csv", "--master", f"spark://{'ж' * LONG}:1"],
    "a port": ["count", "triangle", "edges.csv", "--master", f"spark://localhost:{'9' * LONG}"],
    "a port that is none": ["count", "triangle", "edges.csv", "--master", "spark://localhost:99999"],
    "a setting": ["count", "triangle", "edges.csv", "--conf", NAMES],
    "a file of a setting": ["count", "triangle", "edges.csv", "--conf", f"a=@{NAMES}"],
    "a command": [NAMES],
    "an option": ["count", "triangle", "edges.csv", f"--{NAMES}"],
    "an output": ["find", "triangle", "edges.csv", "-o", f"{NAMES}.csv"],
    "an output of no kind": ["find", "triangle", "edges.csv", "-o", f"out.{NAMES}"],
    "an index": ["index", "edges.csv", NAMES],
    "a name": ["index", "edges.csv", "new", "--name", f"?{NAMES}"],
    "columns": ["index", "edges.csv", "new", "--columns", NAMES],
    "labels": ["index", "edges.csv", "new", "--vertices", "edges.csv", "--labels", NAMES],
    "types": ["index", "edges.csv", "new", "--types", NAMES],
    "a materialised query": ["index", "edges.csv", "new", "--materialize", NAMES],
    "a watched query": ["watch", NAMES, "new", "--updates", "."],
    "updates": ["watch", "triangle", "new", "--updates", NAMES],
    "a window": ["watch", "triangle", "old", "--updates", "updates", "--once", "--window", NAMES, "--time", "amount"],
    "an order": ["watch", "triangle", "old", "--updates", "updates", "--once", "--order", NAMES],
    "stars": ["generate", "theory", "new", "--stars", NAMES],
    "probabilities": ["generate", "rmat", "new", "--scale", "3", "--probabilities", NAMES],
    "a suite": ["bench", NAMES],
}


@pytest.mark.filterwarnings("default::UserWarning")  # notes are bounded, too
@pytest.mark.parametrize("given", ARGUMENTS)
def test_long_arguments_are_not_repeated(tmp_path, given):
    (tmp_path / "edges.csv").write_text("src,dst,amount\n1,2,3\n")
    (tmp_path / "updates").mkdir()
    (tmp_path / "updates" / "1.csv").write_text("src,dst,amount,op\n1,3,5,+\n")
    if "old" in ARGUMENTS[given]:
        assert run_here("index", "edges.csv", "old", cwd=tmp_path).returncode == 0
    done = run_here(*ARGUMENTS[given], cwd=tmp_path)
    assert refused(done)
    assert 10 < len(done.stderr) < BOUND


@pytest.mark.filterwarnings("default::UserWarning")
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("title.csv", f"{NAMES},dst\n1,2\n"),
        ("value.csv", f"src,dst\n1,{NAMES}\n2\n"),
        ("line.txt", f"1 2\n{NAMES}\n"),
        ("titles.csv", f"src,src,{NAMES}\n1,2,3\n"),
        ("ids.csv", f"src,dst\n1,2\n{'9' * LONG},3\n"),
        ("bytes.txt", "\udcff" * LONG),
    ],
)
def test_long_values_of_a_file_are_not_repeated(tmp_path, name, content):
    (tmp_path / name).write_text(content, errors="surrogateescape")
    done = run_here("count", "q(a,b) := edge(a,b), a.missing = 1", name, cwd=tmp_path)
    assert refused(done)
    assert 10 < len(done.stderr) < BOUND


# What fails elsewhere


def test_an_error_of_a_task_is_raised_as_it_was_there():
    said = (
        "Job aborted ... PythonException: Traceback (most recent call last):\n  File x\nbigjoin.errors.SourceError: first\n\n"
        "During handling ...\nbigjoin.errors.QueryError: what\n  where\n  ^\nhint: do\n SQLSTATE: 39000\n\tat org.apache"
    )
    found = plain_error(RuntimeError(said))
    assert type(found) is QueryError
    assert str(found) == "what\n  where\n  ^\nhint: do"
    assert type(plain_error(RuntimeError("bigjoin.errors.LaterError: of another version"))) is BigjoinError
    assert plain_error(RuntimeError("something else")) is None
    assert plain_error(ConnectionRefusedError(111, "Connection refused")) is None  # not py4j's


def children(process, word):
    """Return the processes below one whose arguments have a word in them."""
    parents = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(file.parent.name)] = int(file.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    below, found = {process}, []
    while more := {child for child, parent in parents.items() if parent in below} - below:
        below |= more
    for child in below - {process}:
        try:
            if word in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(child)
        except OSError:
            continue
    return sorted(found)


def killed_while_counting(folder, victim, *, patience=120.0):
    """Count something that takes long, kill a process below it, and return what the command says."""
    edges = "".join(f"{a} {b}\n" for a in range(1, 420) for b in range(a))
    (folder / "edges.txt").write_text(edges)
    command = [
        str(BIGJOIN),
        "count",
        "--quiet",
        "q(a,b,c,d,e) := edge(a,b), edge(b,c), edge(c,d), edge(d,e), edge(e,a)",
        "edges.txt",
    ]
    environment = {**os.environ, "BIGJOIN_CACHE": str(folder / "cache")}
    options = ["--undirected", "--distinct", "--master", "local[2]"]
    client = subprocess.Popen(
        [*command, *options], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + patience
    while not (workers := children(client.pid, b"pyspark.daemon")[1:]):  # the first of them only starts others
        assert client.poll() is None, client.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(1.0)
    os.kill(victim(client.pid, workers), signal.SIGKILL)
    out, err = client.communicate(timeout=patience)
    return subprocess.CompletedProcess(command, client.returncode, out, err)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    ("victim", "sentence"),
    [
        (lambda _, workers: workers[-1], "a process that ran one of Spark's tasks was killed or has crashed"),
        (lambda client, _: children(client, b"SparkSubmit")[-1], "Spark's JVM was killed or has crashed"),
    ],
    ids=["worker", "jvm"],
)
def test_a_process_that_is_killed_is_one_sentence(tmp_path, victim, sentence):
    done = killed_while_counting(tmp_path, victim)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"bigjoin: {sentence}, most likely because it ran out of memory: ")
    assert done.stderr.count("\n") == 1


CONNECT = """
import os, signal, sys, threading, time
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote("local[2]").getOrCreate()
import bigjoin as bj
from tests.test_failures import children
edges = [(a, b) for a in range(1, 420) for b in range(a)]
graph = bj.Graph(spark.createDataFrame(edges, "src long, dst long"), directed=False)

def kill():
    while not (workers := children(os.getpid(), b"pyspark.daemon")[1:]):
        time.sleep(0.05)
    time.sleep(1.0)
    os.kill(workers[-1], signal.SIGKILL)

threading.Thread(target=kill, daemon=True).start()
try:
    graph.count("q(a,b,c,d,e) := edge(a,b), edge(b,c), edge(c,d), edge(d,e), edge(e,a)", distinct=True)
except bj.errors.LostError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.spark
def test_a_worker_that_is_killed_under_connect_is_one_sentence():
    root = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", CONNECT], cwd=root, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.startswith("a process that ran one of Spark's tasks was killed or has crashed, "), done.stderr[-3000:]


def failing_stream(spark, folder):
    """A stream whose first batch has an update that says neither + nor -."""
    (folder / "updates").mkdir()
    (folder / "updates" / "0.csv").write_text("src,dst,op\n4,1,?\n")
    (folder / "edges.txt").write_text("1 2\n2 3\n3 1\n")
    frame = spark.readStream.schema("src long, dst long, op string").option("header", True)
    graph = bj.Graph(str(folder / "edges.txt"), spark=spark)
    stream = frame.csv(str(folder / "updates"))
    return graph.watch("triangle", stream, output=str(folder / "out"), trigger={"availableNow": True})


SENTENCE = (
    "column 'op' of batch 0 is '?' in row 1; it says + or -, insert or delete, 1 or -1, or = to replace properties; nothing of "
    "epoch 1 is applied: correct it, or leave out such rows with --on-bad-row skip or quarantine (on_bad_row=)"
)


def sentence_of(watching):
    """Wait for a stream that fails, and return what it says, in both ways to ask."""
    from pyspark.errors import StreamingQueryException

    with pytest.raises(StreamingQueryException) as raised:
        watching.awaitTermination()
    assert isinstance(raised.value, BigjoinError)
    assert "STREAM_FAILED" in str(raised.value.__cause__)
    failure = watching.exception()
    assert isinstance(failure, StreamingQueryException)
    assert not watching.isActive
    return str(raised.value).splitlines()[-1], str(failure).splitlines()[-1]


@pytest.mark.spark
def test_a_stream_that_fails_ends_with_our_sentence(spark, tmp_path):
    assert sentence_of(failing_stream(spark, tmp_path)) == (SENTENCE, SENTENCE)


@pytest.mark.spark
def test_a_stream_without_failure_has_no_exception(spark, tmp_path):
    (tmp_path / "updates").mkdir()
    (tmp_path / "updates" / "0.csv").write_text("src,dst,op\n4,1,+\n")
    (tmp_path / "edges.txt").write_text("1 2\n2 3\n3 1\n")
    graph = bj.Graph(str(tmp_path / "edges.txt"), spark=spark)
    stream = spark.readStream.schema("src long, dst long, op string").option("header", True).csv(str(tmp_path / "updates"))
    watching = graph.watch("triangle", stream, output=str(tmp_path / "out"), trigger={"availableNow": True})
    watching.awaitTermination()
    assert watching.exception() is None
    assert type(spark.streams).__name__ == "StreamingQueryManager"


STREAM = """
import os, sys
from pathlib import Path
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote("local[2]").getOrCreate()
from tests.test_failures import SENTENCE, failing_stream, sentence_of
assert sentence_of(failing_stream(spark, Path(sys.argv[1]))) == (SENTENCE, SENTENCE)
print("told")
"""


@pytest.mark.slow
@pytest.mark.spark
def test_a_stream_that_fails_under_connect_ends_with_our_sentence(tmp_path):
    root = Path(__file__).parents[1]
    command = [sys.executable, "-c", STREAM, str(tmp_path)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.endswith("told\n"), done.stderr[-3000:]
