"""The strategy local: threads of this process answer, and nothing imports Spark. When `auto` takes it, and what it refuses."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bigjoin as bj
from bigjoin import queryable
from bigjoin.errors import BigjoinError, NeedsSparkError, QueryMemoryError, QueryTimeoutError, RowLimitError
from bigjoin.graph import Graph
from bigjoin.local import worth
from bigjoin.planner import count_plan
from bigjoin.query.statement import SortKey
from bigjoin.spark.session import has_master, who_names_a_master, zone_of_machine
from bigjoin.table_rows import distinct, in_order
from tests.drawn_expressions import edges
from tests.test_aggregates import agrees

NO_SPARK = """
import atexit, os, sys
def look():
    loaded = sorted(name for name in sys.modules if name.split(".")[0] in ("pyspark", "py4j", "pandas"))
    if loaded:
        os.write(2, f"LOADED {loaded[:3]}".encode())
atexit.register(look)
sys.argv[0] = "bigjoin"
from bigjoin.__main__ import main
main()
"""

EDGES = "1,2\n2,3\n3,1\n3,4\n4,1\n1,3\n"

MASTERS = ("SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME", "BIGJOIN_CONF")


@pytest.fixture(autouse=True)
def no_master(monkeypatch):
    for name in MASTERS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def source(tmp_path) -> Path:
    file = tmp_path / "edges.csv"
    file.write_text("src,dst\n" + EDGES)
    return file


def run(*arguments: object, without: str = "LOADED", **environment: str) -> subprocess.CompletedProcess:
    """Run a command; unless `without` is empty, nothing of Spark or pandas may be imported meanwhile."""
    done = subprocess.run(
        [sys.executable, "-c", NO_SPARK, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
        check=False,
    )
    if without:
        assert without not in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    return done


def graph(directed: bool = True) -> Graph:
    rows = [line.split(",") for line in EDGES.split()]
    return bj.Graph(pa.table({"src": [int(a) for a, _ in rows], "dst": [int(b) for _, b in rows]}), directed=directed)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["count", "triangle"], "2\n"),
        (["count", "triangle", "--undirected", "--unique"], "2\n"),
        (["count", "triangle", "--undirected", "--where", "a1 < 3"], "6\n"),
        (["count", "--exists", "4-clique"], "false\n"),
        (["count", "2-path", "--by", "a1"], "a1,count\n1,3\n3,3\n2,2\n4,2\n"),
        (["count", "MATCH (a)-[]->(b) RETURN a, count(*) AS n"], "4\n"),
        (["find", "triangle", "--where", "a1 < a2"], "a1,a2,a3\n1,2,3\n"),
        (["find", "triangle", "--json", "--where", "a1 < a3"], '{"a1": 1, "a2": 2, "a3": 3}\n'),
        (["find", "2-cycle", "--limit", "1", "--select", "a1 + 1 as more"], "a1,a2,more\n"),
        (["find", "2-path", "--sample", "1", "--random-state", "1"], "a1,a2,a3\n"),
        (["find", "(a)-[e]->(b); (b)-[]->(a)"], "a.id,e.src,e.dst,b.id\n"),
        (["find", "MATCH (a)-[]->(b) RETURN a, count(*) AS n ORDER BY n DESC, a LIMIT 2"], "a,n\n1,2\n3,2\n"),
        (["find", "MATCH (a)-[]->(b) RETURN DISTINCT b ORDER BY b SKIP 1"], "b\n2\n3\n4\n"),
        (["find", "MATCH (a)-[*1..2]->(b) WHERE id(a) = 4 RETURN a, b ORDER BY b"], "a,b\n4,1\n4,2\n4,3\n"),
        (["find", "select src, sum(dst) as s from edge group by src having sum(dst) > 2 order by s"], "src,s\n2,3\n"),
        (["find", "triangle", "--factorized"], '{"a1": '),
        (["estimate", "2-path"], "10\n"),
        (["explain", "triangle"], "tri"),
        (["explain", "triangle", "--analyze"], "tri"),
    ],
    ids=lambda given: " ".join(given)[:60] if isinstance(given, list) else "",
)
def test_no_command_imports_spark(arguments, said, source, tmp_path):
    command, *others = arguments
    strategy = [] if command == "estimate" or len(" ".join(others)) % 2 else ["--strategy", "local"]
    done = run(command, *others, source, *strategy, "--quiet", BIGJOIN_CACHE=str(tmp_path / "cache"))
    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout if command == "explain" else done.stdout.startswith(said)


def test_files_and_indices_need_no_spark(source, tmp_path):
    for suffix in ("parquet", "csv", "jsonl"):
        output = tmp_path / f"found.{suffix}"
        assert run("find", "2-path", source, "-o", output).returncode == 0
        assert output.exists()
    assert pq.read_table(tmp_path / "found.parquet").num_rows == 10
    groups = tmp_path / "groups.parquet"
    assert run("count", "2-path", "--by", "a1", source, "-o", groups).returncode == 0
    assert pq.read_table(groups).to_pylist()[0] == {"a1": 1, "count": 3}
    assert run("index", source, tmp_path / "index").returncode == 0
    for command in ("info", "verify", "vacuum"):
        assert run(command, tmp_path / "index").returncode == 0
    assert run("count", "triangle", tmp_path / "index").stdout == "2\n"
    assert run("count", "triangle", tmp_path / "index", "--undirected").stdout == "12\n"
    assert run("count", "q(a,b) := r(a,b), r(b,a)", "--relation", f"r={source}").stdout == "2\n"
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("1\n")
    assert run("count", "2-path", source, "--seeds", f"a1={seeds}").stdout == "3\n"


@pytest.mark.parametrize("strategy", ["local", "auto"])
def test_a_watch_needs_no_spark(strategy, source, tmp_path):
    assert run("index", source, tmp_path / "index").returncode == 0
    (updates := tmp_path / "updates").mkdir()
    (updates / "1.csv").write_text("src,dst,op\n4,2,+\n3,1,-\n")
    output = tmp_path / "output"
    options = ["--updates", updates, "--output", output, "--once", "--strategy", strategy]
    done = run("watch", "triangle", tmp_path / "index", *options)
    assert done.stdout == "1 epoch, 2 updates, +1 -1 matches; triangle 2\n"
    done = run("watch", "2-path", tmp_path / "index", "--updates", updates, "--once", "--adopt", "--strategy", strategy)
    assert done.returncode == 0


def test_importing_bigjoin_imports_no_spark():
    code = (
        "import sys, bigjoin as bj\n"
        "for name in bj.__all__:\n"
        "    if name not in ('StreamError', 'register'): getattr(bj, name)\n"
        "table = {'src': [1, 2, 3], 'dst': [2, 3, 1]}\n"
        "graph = bj.Graph(table)\n"
        "assert graph.count('3-cycle', strategy='local') == 3\n"
        "assert graph.arrow('3-cycle').read_all().num_rows == 3\n"
        "assert bj.Relations({'r': table}).count('q(a,b) := r(a,b)', strategy='local') == 3\n"
        "import pyarrow as pa\n"
        "updates = pa.table({'src': [1], 'dst': [3], 'op': ['+']})\n"
        "assert graph.apply(updates, 'triangle', strategy='local').count == 1\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('pyspark', 'py4j')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_kept_machine_code_is_loaded_without_what_compiles_it(source):
    assert run("count", "triangle", source).stdout == "2\n"
    looking = NO_SPARK.replace("if name.split", 'if name == "numba.np.arraymath" or name.split')
    done = subprocess.run(
        [sys.executable, "-c", looking, "count", "triangle", str(source), "--quiet"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("2\n", "")


def test_what_is_chosen_is_said(source):
    facts = json.loads(run("count", "triangle", source, "--json").stdout)
    assert (facts["count"], facts["strategy"]) == (2, "local")
    assert facts["why"] == "less than 0.1 s of work, and Spark takes 10 s to start"
    assert facts["workers"] >= 1
    assert facts["stats"]["steps"]
    facts = json.loads(run("count", "triangle", source, "--json", "--strategy", "local", "--workers", "3").stdout)
    assert (facts["strategy"], facts["why"]) == ("local", "as asked for")
    said = run("explain", "triangle", source).stdout
    assert "strategy: local (less than 0.1 s of work, and Spark takes 10 s to start)" in said


@pytest.mark.parametrize(
    ("options", "variables", "why"),
    [
        (["--master", "spark://nowhere:7077"], {}, "--master is given"),
        (["--conf", "spark.executor.memory=2g"], {}, "--conf is given"),
        ([], {"SPARK_REMOTE": "sc://nowhere;token=s3cret"}, "SPARK_REMOTE names a master"),
        ([], {"PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"}, "PYSPARK_SUBMIT_ARGS names a master"),
        ([], {"BIGJOIN_CONF": '{"spark.master": "yarn"}'}, "BIGJOIN_CONF names a master"),
    ],
)
def test_a_master_is_given_as_a_reason(options, variables, why, source):
    said = run("explain", "triangle", source, *options, **variables).stdout
    assert f"strategy: shared (with Spark, as {why}; the index has " in said
    assert "s3cret" not in said


def test_what_was_asked_for_needs_no_other_reason(source):
    said = run("explain", "triangle", source, "--master", "yarn", "--strategy", "partitioned").stdout
    assert "strategy: partitioned (as asked for)" in said


def test_a_master_in_sparks_defaults_is_given_as_a_reason(source, tmp_path):
    (tmp_path / "spark-defaults.conf").write_text("spark.master spark://nowhere:7077\n")
    said = run("explain", "triangle", source, SPARK_CONF_DIR=str(tmp_path)).stdout
    assert "strategy: shared (with Spark, as spark-defaults.conf names a master; the index has " in said


def test_what_takes_longer_than_a_start_is_left_to_spark(monkeypatch):
    here = graph()
    here.stay_here(lambda: pytest.fail("nothing runs"))
    assert (
        here._ask(bj.graph.read("triangle").query, counting=True, strategy="auto", workers=None, batch_size=None).strategy
        == "local"
    )
    monkeypatch.setattr(worth, "CANDIDATES_PER_SECOND", 1e-3)
    asked = here._ask(bj.graph.read("triangle").query, counting=True, strategy="auto", workers=None, batch_size=None)
    assert asked.strategy == "shared"
    assert asked.why.startswith("about ")
    assert "more than the 10 s that Spark takes to start" in asked.why
    assert "strategy: shared (about" in here.explain("triangle")
    for limit, strategy in ((3, "local"), (None, "shared")):
        asked = here._ask(bj.graph.read("triangle").query, limit=limit, strategy="auto", workers=None, batch_size=None)
        assert asked.strategy == strategy


@pytest.mark.parametrize("limit", [{"limit": 3}, {}], ids=["given", "in the query"])
def test_a_limit_keeps_a_question_here(limit, monkeypatch):
    """Also one that the query itself has, which may be the only one where rows go to a pipe."""
    monkeypatch.setattr(worth, "CANDIDATES_PER_SECOND", 1e-3)
    here = graph()
    here.stay_here(lambda: pytest.fail("Spark starts"))
    query = "MATCH (a)-[]->(b)-[]->(c) RETURN a, c" + " LIMIT 3" * (not limit)
    assert here.arrow(query, **limit).read_all().num_rows == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SPARK_REMOTE", "sc://nowhere"),
        ("PYSPARK_SUBMIT_ARGS", "--master yarn pyspark-shell"),
        ("PYSPARK_SUBMIT_ARGS", "--conf spark.master=yarn pyspark-shell"),
        ("BIGJOIN_CONF", '{"spark.master": "yarn"}'),
    ],
)
def test_a_master_in_the_environment_is_one(name, value, monkeypatch):
    assert not has_master()
    monkeypatch.setenv(name, value)
    assert has_master()
    assert who_names_a_master() == name


def test_a_master_in_sparks_defaults_is_one(monkeypatch, tmp_path):
    (tmp_path / "conf").mkdir()
    file = tmp_path / "conf" / "spark-defaults.conf"
    for variable, folder in (("SPARK_CONF_DIR", tmp_path / "conf"), ("SPARK_HOME", tmp_path)):
        monkeypatch.setenv(variable, str(folder))
        for text, is_one in (
            ("spark.master                     spark://master:7077\n", True),
            ("spark.driver.memory 5g\nspark.master=yarn\n", True),
            ("# spark.master yarn\n", False),
            ("spark.master.rest.enabled true\n", False),
            ("", False),
        ):
            file.write_text(text)
            assert has_master() == is_one
            assert who_names_a_master() == (file.name if is_one else None)
        file.unlink()
        assert not has_master()
        monkeypatch.delenv(variable)


@pytest.mark.parametrize(
    ("given", "zone"),
    [("Europe/Berlin", "Europe/Berlin"), (":Asia/Tokyo", "Asia/Tokyo"), ("nowhere", "UTC"), ("Etc/UTC", "UTC")],
)
def test_times_are_in_the_zone_of_the_machine(given, zone, monkeypatch):
    monkeypatch.setenv("TZ", given)
    assert zone_of_machine() == zone
    monkeypatch.setenv("BIGJOIN_CONF", '{"spark.sql.session.timeZone": "Asia/Kolkata"}')
    assert zone_of_machine() == "Asia/Kolkata"


def test_a_given_master_is_asked(source):
    for options, environment in (
        (["--master", "spark://127.0.0.1:1"], {}),
        ([], {"BIGJOIN_CONF": '{"spark.master": "spark://127.0.0.1:1"}'}),
    ):
        done = run("count", "triangle", source, *options, without="", **environment)
        assert done.returncode == 2
        assert "there is no Spark at spark://127.0.0.1:1" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["count", "triangle", "--master", "local[1]"], "--strategy local has no Spark: leave out --master, or"),
        (["count", "triangel"], "triangel"),
        (["count", "q(a) := edge(a, b), b <"], "^"),
        (["count", "triangle", "--where", "a9 < 3"], "a9"),
        (["find", "triangle", "--max-rows", "0"], "max_rows"),
        (["find", "2-path", "-o", "found.txt"], "cannot tell the format"),
        (["find", "MATCH (a)-[]->(b) OPTIONAL MATCH (b)-[]->(c)-[]->(d) RETURN a, d"], "this OPTIONAL MATCH is Spark's work"),
        (["count", "MATCH (a)-[]->(b) WHERE EXISTS {(b)-[]->(c)-[]->(a)} RETURN a"], "several relationships is Spark's work"),
        (["find", "MATCH (a)-[]->(b) RETURN a, collect(b) AS all"], "'collect(b)' is Spark's work"),
        (["count", "2-path", "--by", "a9"], "a9"),
        (["count", "2-path", "--memory", "1"], "memory"),
    ],
    ids=lambda given: " ".join(given)[:40] if isinstance(given, list) else "",
)
def test_mistakes_are_a_sentence(arguments, message, source):
    command, query, *others = arguments
    done = run(command, query, source, *others, "--strategy", "local", "--quiet")
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""


def test_a_missing_source_is_a_sentence():
    done = run("count", "triangle", "/nowhere/edges.csv", "--strategy", "local")
    assert (done.returncode, done.stderr) == (2, "bigjoin: there is no file or directory /nowhere/edges.csv\n")


def test_rows_come_as_record_batches():
    here = graph()
    found = here.arrow("2-path", strategy="local", workers=2)
    assert isinstance(found, pa.RecordBatchReader)
    assert found.schema == pa.schema([(name, pa.int64()) for name in ("a1", "a2", "a3")])
    assert found.read_all().num_rows == 10
    assert here.arrow("2-path", limit=2).read_all().num_rows == 2
    nothing = here.arrow("4-clique", strategy="local")
    assert (nothing.schema.names, nothing.read_all().num_rows) == (["a1", "a2", "a3", "a4"], 0)
    seeded = here.arrow("2-path", seeds={"a1": [4]}).read_all().to_pydict()
    assert (seeded["a2"], sorted(seeded["a3"])) == ([1, 1], [2, 3])
    counts = here.arrow("2-path", by="a1").read_all()
    assert counts.to_pydict() == {"a1": [1, 3, 2, 4], "count": [3, 3, 2, 2]}
    assert here.arrow("2-path", sample=4, random_state=1).read_all().num_rows == 4
    pandas = pytest.importorskip("pandas")
    assert isinstance(here.arrow("2-path").read_pandas(), pandas.DataFrame)
    structs = here.arrow("(a)-[]->(b); (b)-[]->(a)").read_all()
    assert sorted(row["a"]["id"] for row in structs.to_pylist()) == [1, 3]


def test_a_reader_that_is_forgotten_ends_the_search():
    numbers = list(range(600))
    many = bj.Graph(
        {"src": [a for a in numbers for _ in range(20)], "dst": [(a * 7 + k) % 600 for a in numbers for k in range(20)]}
    )
    before = threading.active_count()
    found = many.arrow("4-path", strategy="local", batch_size=1 << 10)
    assert next(iter(found)).num_rows
    del found
    until = time.monotonic() + 20
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.05)
    assert threading.active_count() <= before


def test_a_program_may_end_before_it_has_read_everything():
    code = (
        "import bigjoin as bj\n"
        "pairs = [(a, a * 7 % 600 + k) for a in range(600) for k in range(20)]\n"
        "graph = bj.Graph({'src': [a for a, _ in pairs], 'dst': [b for _, b in pairs]})\n"
        "found = graph.arrow('4-path', strategy='local', batch_size=1 << 10)\n"
        "print(next(iter(found)).num_rows)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "1024\n")


def test_dataframes_are_sparks():
    here = graph()
    with pytest.raises(BigjoinError, match=r"use graph\.arrow"):
        here.find("triangle", strategy="local")
    with pytest.raises(BigjoinError, match=r"use graph\.arrow"):
        here.count("triangle", by="a1", strategy="local")


def test_limits_end_a_query():
    numbers = range(1500)
    pairs = [(a, (a * 31 + k * k) % 1500) for a in numbers for k in range(60)]
    many = bj.Graph({"src": [a for a, _ in pairs], "dst": [b for _, b in pairs]})
    started = time.monotonic()
    with pytest.raises(QueryTimeoutError):
        many.arrow("6-path", strategy="local", timeout=0.5).read_all()
    with pytest.raises(QueryTimeoutError):
        many.count(
            "q(a,b,c,d,e) := edge(a,b), edge(b,c), edge(c,d), edge(d,e), (a + b + c + d + e) % 7 = 1",
            strategy="local",
            timeout=0.5,
        )
    assert time.monotonic() - started < 60
    with pytest.raises(QueryMemoryError):
        many.arrow("MATCH (a)-[]->(b)-[]->(c)-[]->(d) RETURN a, b, c, d ORDER BY d", strategy="local", memory="60MB").read_all()
    with pytest.raises(RowLimitError):
        many.arrow("2-path", strategy="local", max_rows=1000).read_all()
    cancel = threading.Event()
    threading.Timer(0.3, cancel.set).start()
    with pytest.raises(BigjoinError, match="cancelled"):
        many.arrow("6-path", strategy="local", cancel=cancel).read_all()


@pytest.mark.parametrize("command", [["count", "--where", "(a1 + a2 + a3 + a4 + a5 + a6) % 7 = 1"], ["find"]])
def test_an_interrupt_ends_a_command(command, tmp_path):
    file, numbers = tmp_path / "edges.csv", range(1500)
    file.write_text("src,dst\n" + "".join(f"{a},{(a * 31 + k * k) % 1500}\n" for a in numbers for k in range(60)))
    arguments = [command[0], "5-path", str(file), *command[1:], "--strategy", "local", "--quiet"]
    started = subprocess.Popen(
        [sys.executable, "-c", NO_SPARK, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    time.sleep(8)
    assert started.poll() is None
    started.send_signal(signal.SIGINT)
    _, said = started.communicate(timeout=60)
    assert (started.returncode, said.strip()) == (130, "bigjoin: interrupted")


def test_a_count_is_planned_once_for_each_version_of_the_index(tmp_path, monkeypatch):
    planned = []
    monkeypatch.setattr(queryable, "count_plan", lambda meaning: planned.append(meaning.query.name) or count_plan(meaning))
    bj.build_index(pa.table({"src": [1, 2, 3], "dst": [2, 3, 1]}), tmp_path / "index")
    with bj.Graph.open(tmp_path / "index") as changing:
        asked = [changing.count("3-cycle", strategy="local") for _ in range(2)]
        assert asked == [3, 3]
        assert changing.count("3-cycle", strategy="local", where="a1 = 1") == 1
        assert len(planned) == 2
        changing.apply(pa.table({"src": [3], "dst": [1], "op": ["-"]}))
        assert changing.count("3-cycle", strategy="local") == 0
    assert len(planned) == 3


def test_progress_is_reported():
    numbers = range(3000)
    many = bj.Graph(
        {"src": [a for a in numbers for _ in range(40)], "dst": [(a * 31 + k * k) % 3000 for a in numbers for k in range(40)]}
    )
    shares: list[float] = []
    query = "q(a,b,c,d) := edge(a,b), edge(b,c), edge(c,d), (a + b + c + d) % 7 = 1"
    assert many.count(query, strategy="local", progress=shares.append) > 0
    assert all(0 <= share <= 1 for share in shares)


@pytest.fixture(scope="module")
def drawn_source():
    table = edges(random.Random(3), rows=60)
    connection = duckdb.connect()
    connection.register("e", table)
    return Tables(table), connection


class Tables(bj.Graph):
    """A graph whose `find` answers without Spark, as far as drawn questions look at it."""

    def find(self, query, **options):
        return Rows(self.arrow(query, strategy="local", **options).read_all())


class Rows:
    def __init__(self, table):
        self.table = table

    def collect(self):
        return [tuple(row) for row in zip(*(column.to_pylist() for column in self.table.columns), strict=True)]


@pytest.mark.parametrize("start", [0, 40, pytest.param(1000, marks=pytest.mark.slow)])
def test_drawn_groups_are_those_of_duckdb(drawn_source, start):
    assert sum(agrees(seed, drawn_source) for seed in range(start, start + 40)) > 20


def test_groups_mean_what_they_mean_in_spark():
    nan = float("nan")
    edge = {
        "src": [1, 1, 1, 2, 2, 3],
        "dst": [2, 3, 4, 3, 4, 4],
        "x": [0.0, -0.0, nan, nan, None, None],
        "d": [Decimal("1.10"), Decimal("2.20"), None, Decimal("3.30"), None, None],
    }
    here = bj.Graph(pa.table({**edge, "d": pa.array(edge["d"], pa.decimal128(10, 2))}))

    def rows(text):
        return here.arrow(text, strategy="local").read_all()

    found = rows(
        "select src, max(x) as most, min(x) as least, count(x) as n, count(distinct x) as k from edge group by src order by src"
    )
    most, least, n, k = (found[name].to_pylist() for name in ("most", "least", "n", "k"))
    assert most[0] != most[0]  # NaN is larger than any number
    assert most[1] != most[1]
    assert most[2] is None
    assert (least[0], least[2], n, k) == (0.0, None, [3, 1, 0], [2, 1, 0])  # and there is one zero
    assert least[1] != least[1]
    found = rows("select sum(d) as s, min(d) as m from edge")
    assert found.schema.field("s").type == pa.decimal128(20, 2)
    assert found.to_pylist() == [{"s": Decimal("6.60"), "m": Decimal("1.10")}]
    with pytest.raises(NeedsSparkError, match=r"avg\(edge\.d\)|avg"):
        rows("select avg(d) from edge")
    assert rows("select count(*) as n, sum(src) as s from edge where src > 9").to_pylist() == [{"n": 0, "s": None}]
    with pytest.raises(BigjoinError, match="64 bits"):
        rows("select sum(src * 3000000000000000000) from edge")
    found = rows("select x, count(*) as n from edge group by x order by x")
    assert (found["n"].to_pylist(), found["x"].to_pylist()[:2]) == ([2, 2, 2], [None, 0.0])


def test_orders_are_those_of_spark():
    nan = float("nan")
    table = pa.table({"x": [2.0, nan, None, -0.0, 1.0], "n": [1, 2, 3, 4, 5]})

    def order(**how):
        return in_order(table, [SortKey("x", **how)])["n"].to_pylist()

    assert order() == [4, 5, 1, 2, 3]
    assert order(descending=True) == [3, 2, 1, 5, 4]
    assert order(nulls_first=True) == [3, 4, 5, 1, 2]
    assert order(descending=True, nulls_first=False) == [2, 1, 5, 4, 3]
    twice = pa.table({"x": [nan, nan, 0.0, -0.0, None, None], "s": ["a", "a", "b", "b", "c", "c"]})
    assert distinct(twice).num_rows == 3


def test_threads_follow_the_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    assert graph().count("2-path", strategy="local").workers <= 3


@pytest.mark.spark
def test_every_strategy_gives_the_same_batches(spark):
    rows = [line.split(",") for line in EDGES.split()]
    here = bj.Graph({"src": [int(a) for a, _ in rows], "dst": [int(b) for _, b in rows]}, spark=spark)
    wanted = Counter(map(str, here.arrow("2-path", strategy="local").read_all().to_pylist()))
    for strategy in ("auto", "shared", "partitioned", "balanced"):
        assert Counter(map(str, here.arrow("2-path", strategy=strategy).read_all().to_pylist())) == wanted
    nothing = here.arrow("4-clique", strategy="shared")
    assert (nothing.schema.names, nothing.read_all().num_rows) == (["a1", "a2", "a3", "a4"], 0)
    assert here.arrow("2-path", by="a1", strategy="shared").read_all().to_pydict() == {
        "a1": [1, 3, 2, 4],
        "count": [3, 3, 2, 2],
    }
    text = "MATCH (a)-[]->(b) OPTIONAL MATCH (b)-[]->(c)-[]->(d) RETURN a, d"
    assert here.arrow(text).read_all().num_rows == here.find(text).count()
    assert here.count("triangle").strategy == "shared"


def test_groups_are_not_limited_as_matches_are():
    few = bj.Graph({"src": [1, 2, 3], "dst": [2, 3, 1]})
    for option in ({"limit": 1}, {"sample": 1}, {"max_rows": 1}, {"factorized": True}):
        with pytest.raises(BigjoinError, match="is for matches, and by= gives groups"):
            few.arrow("triangle", by="a1", strategy="local", **option)


def test_a_sum_that_could_overflow_unseen_is_left_to_spark():
    wide = pa.table({"src": [1, 2], "dst": [2, 1], "d": pa.array([Decimal(10**37)] * 2, pa.decimal128(38))})
    with pytest.raises(BigjoinError, match="is Spark's work"):
        bj.Graph(wide).arrow("MATCH (a)-[e]->(b) RETURN sum(e.d) AS s", strategy="local").read_all()
    narrow = wide.set_column(2, "d", pa.array([Decimal("1.25")] * 2, pa.decimal128(10, 2)))
    found = bj.Graph(narrow).arrow("MATCH (a)-[e]->(b) RETURN sum(e.d) AS s", strategy="local").read_all()
    assert found.to_pylist() == [{"s": Decimal("2.50")}]
