"""What is no file, no text, or too much of something is refused with a sentence: nothing waits, dies or raises a traceback."""

from __future__ import annotations

import gzip
import math
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import bigjoin as bj
from bigjoin.errors import QueryError, SourceError
from bigjoin.indexing import build_index
from bigjoin.ingest.delimited import read_delimited
from bigjoin.ingest.files import open_edges, open_vertices, read_whole
from bigjoin.languages import parse
from bigjoin.streaming.update_files import read_file, updates_in
from tests.test_cli import BIGJOIN, refused, run

EDGES = pa.table({"src": [1, 2], "dst": [2, 3]})


# Neither a file nor a folder


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def listening(path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))  # whose length has a bound
    return path


READERS = {
    "edges": open_edges,
    "vertices": open_vertices,
    "relation": read_whole,
    "updates": lambda path: read_file(Path(path)),
    "index": lambda path: build_index(path, Path(path).with_name("index")),
    "vertices of an index": lambda path: build_index(EDGES, Path(path).with_name("index"), vertices=path),
    "one of several": lambda path: build_index({"a": EDGES, "b": path}, Path(path).with_name("index")),
    "graph": bj.Graph,
    "relations": lambda path: bj.Relations({"r": path}).schema("r"),
    "apply": lambda path: bj.Graph(EDGES).apply(path),
}


@pytest.mark.parametrize("kind", [pipe, listening, lambda _: Path("/dev/null")], ids=["pipe", "socket", "device"])
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_file_is_refused_at_once(tmp_path, reader, kind):
    path = kind(tmp_path / "edges.csv")
    with pytest.raises(SourceError, match=f"{path} is a (pipe|socket|device): save what it gives as a file"):
        READERS[reader](str(path))


@pytest.mark.parametrize("reader", [name for name in READERS if name not in ("updates", "apply")])
def test_so_is_a_folder_that_holds_one(tmp_path, reader):
    (tmp_path / "folder" / "below").mkdir(parents=True)
    pipe(tmp_path / "folder" / "below" / "a.parquet")
    with pytest.raises(SourceError, match=r"a\.parquet is a pipe"):
        READERS[reader](str(tmp_path / "folder"))
    (tmp_path / "folder" / "below" / "a.parquet").unlink()
    (tmp_path / "folder" / "b.parquet").symlink_to("nowhere")
    with pytest.raises(SourceError, match=r"b\.parquet is a link that leads nowhere"):
        READERS[reader](str(tmp_path / "folder"))


def test_a_folder_of_updates_holds_files(tmp_path):
    (tmp_path / "1.csv").write_text("src,dst,op\n1,2,+\n")
    pipe(tmp_path / "notes")  # nobody reads that
    assert [file.name for file in updates_in(tmp_path)] == ["1.csv"]
    pipe(tmp_path / "2.csv")
    with pytest.raises(SourceError, match=r"2\.csv is a pipe"):
        updates_in(tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [
        ["count", "triangle", "pipe"],
        pytest.param(["find", "triangle", "pipe"], marks=pytest.mark.slow),
        pytest.param(["explain", "triangle", "pipe"], marks=pytest.mark.slow),
        ["count", "q(a,b) := r(a,b)", "--relation", "r=pipe"],
        pytest.param(["index", "pipe", "new"], marks=pytest.mark.slow),
        ["index", "edges.txt", "new", "--vertices", "pipe"],
        pytest.param(["index", "edges.txt", "new", "--relation", "r=pipe"], marks=pytest.mark.slow),
        ["count", "triangle", "folder"],
        ["watch", "triangle", "graph.index", "--updates", "updates", "--once"],
        pytest.param(["watch", "triangle", "graph.index", "--updates", "pipe", "--once"], marks=pytest.mark.slow),
    ],
)
def test_the_command_line_refuses_pipes(tmp_path, arguments):
    (tmp_path / "edges.txt").write_text("1 2\n")
    build_index(EDGES, tmp_path / "graph.index")
    for folder in ("folder", "updates"):
        (tmp_path / folder).mkdir()
    for path in ("pipe", "folder/a.parquet", "updates/1.csv"):
        pipe(tmp_path / path)
    started = time.monotonic()
    assert refused(run(*arguments, cwd=tmp_path, JAVA_HOME="/nowhere"), "pipe")
    assert time.monotonic() - started < 60


def test_results_do_not_replace_a_pipe(tmp_path):
    (tmp_path / "edges.txt").write_text("1 2\n")
    pipe(tmp_path / "out.csv")
    assert refused(run("find", "triangle", "edges.txt", "-o", "out.csv", cwd=tmp_path), "is a pipe or a device")


@pytest.mark.parametrize("name", ["a\0b", os.fsdecode(b"caf\xe9.txt")])
def test_names_that_no_reader_can_open_are_refused(tmp_path, name):
    if "\0" not in name:
        (tmp_path / name).write_text("1 2\n")
    with pytest.raises(SourceError, match=r"zero character|is not UTF-8"):
        bj.Graph(str(tmp_path / name))


def test_arguments_that_are_not_utf8_are_refused(tmp_path):
    (tmp_path / "edges.txt").write_text("1 2\n")
    for arguments in (["count", b"q(a) := edge(a,'\xff')", "edges.txt"], ["count", "triangle", b"caf\xe9.txt"]):
        done = subprocess.run([str(BIGJOIN), *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert refused(done, "is not UTF-8")


# Updates


def nested(depth: int) -> str:
    return '{"src": 1, "dst": 2, "op": "+"}\n\n{"src": 1, "dst": 2, "op": "+", "x": ' + "[" * depth + "]" * depth + "}\n"


@pytest.mark.parametrize("name", ["u.json", "u.jsonl", "u.ndjson.gz"])
def test_json_that_nests_deeply_is_refused_before_it_is_parsed(tmp_path, name):
    """In a process of its own: what is tested is that it lives."""
    text = nested(100_000).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    build_index(EDGES, tmp_path / "index")
    program = f"import bigjoin as bj; bj.Graph.open({str(tmp_path / 'index')!r}).apply({str(tmp_path / name)!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.search(r"SourceError: line 3 of .* nests objects or lists deeper than 64 levels: rows are flat", done.stderr)


def test_brackets_in_strings_do_not_nest(tmp_path):
    (tmp_path / "u.json").write_text('{"src": "[[' + '\\"' + "[{" * 500 + '", "dst": "b\\\\", "op": "+"}\n')
    assert read_file(tmp_path / "u.json").to_pylist() == [{"src": '[["' + "[{" * 500, "dst": "b\\", "op": "+"}]
    (tmp_path / "u.json").write_text(nested(60))
    assert read_file(tmp_path / "u.json").num_rows == 2


def test_a_row_may_be_longer_than_what_arrow_reads_at_once(tmp_path):
    note = "x" * (3 << 20)
    (tmp_path / "u.json").write_text('{"src": 1, "note": "a"}\n{"src": 2, "note": "' + note + '"}\n')
    assert read_file(tmp_path / "u.json").to_pylist() == [{"src": 1, "note": "a"}, {"src": 2, "note": note}]


@pytest.mark.parametrize("titles", ["src,dst,op", '"src","dst",op', "\ufeffsrc,dst,op"])
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_titles_alone_are_no_updates(tmp_path, titles, end):
    (tmp_path / "u.csv").write_bytes((titles + end).encode())
    assert read_file(tmp_path / "u.csv").to_pydict() == {"src": [], "dst": [], "op": []}


TITLES = "src,dst,op,amount,note\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("u.json", '{"src":1,"dst":2,"op":"+","amount":{"x":1}}', "line 1 of .* has an object for 'amount'"),
        ("u.json", '{"src":1,"dst":2,"op":"+"}\n\n{"src":1,"dst":2,"op":"+","note":[1]}', "line 3 of .* has a list for 'note'"),
        ("u.json", '{"src":[1],"dst":2,"op":"+"}', "line 1 of .* has a list for 'src'"),
        ("u.json", '{"src":1,"dst":2,"op":{}}', "line 1 of .* has an object for 'op'"),
        ("u.json", '{"src":1,"dst":2,"op":"+"}\n\n{"src":"x","dst":2}', "ids of the graph are int64: cast it; row 2 has 'x'"),
        ("u.json", '{"src":1,"dst":2}\n\n{"src":"x","dst":2,"src":3}', "line 3 of .* specified twice"),
        ("u.json", '{"src":1,"dst":2}\n\n{"src":{},"dst":2}', "line 3 of .* cannot be read: .*changed from number to object"),
        ("u.json", '{"src":1,"dst":2,"amount":5}\n{"src":1,"dst":2,"amount":"x"}', "does not fit int64: row 2 has 'x'"),
        ("u.json", '{"src":1,"dst":2,"op":"+"}\n{"src":1,"src":2}', "line 2 of .* specified twice"),
        ("u.json", '{"src":1,"dst":2,"op":"+"}\n{"src":1', "line 2 of .* cannot be read"),
        ("u.json", '{"src":1,"dst":2,"op":"+","amount":1e999}', "line 1 of .* too big"),
        ("u.json", "null\n", "line 1 of .* has 'null' outside an object"),
        ("u.json", '\ufeff{"src":1,"dst":2,"op":"+"}\n5', "line 2 of .* has '5' outside an object"),
        ("u.json", '// c\n{"src":1,"dst":2,"op":"+"}', "line 1 of .* has '// c' outside an object"),
        ("u.json", '[{"src":1,"dst":2,"op":"+"}] 5', "line 1 of .* has '5' outside an object"),
        ("u.json", '[{"src":1,"dst":2,"op":"+"},', "begins with a list of objects that does not end"),
        ("u.json", '{"src":1,"dst":2,"op":"+"}\n}', "line 2 of .* outside an object"),
        ("u.json", '{"src":1,"dst":2,"op":"+"}\n' * 60_000 + '{"src":[]}', "line 60,001 of .*changed from number to array"),
        ("u.json", b'{"src":1,"dst":2,"op":"+","note":"caf\xe9"}', "line 1 of .* is not UTF-8"),
        ("u.csv", TITLES + "1,2,+,5,a\n1,2,+,5,a,b\n", r"line 3 of .* Expected 5 columns, and it is '1,2,\+,5,a,b'"),
        ("u.csv", TITLES + '1,2,+,5,"a\nb"\n\n1,2,+,5\r\n', r"line 5 of .* Expected 5 columns, and it is '1,2,\+,5'"),
        ("u.csv", TITLES + "1,2,+,5,a\n" + "1,2,+,5,a,b" * 999, r"line 3 of .* it is '[^']{57} \.\.\. [^']{57}'$"),
        ("u.csv", TITLES + '1,2,+,5,"a\n1,3,+,6,b\n', "line 2 of .* has a quote that opens and never closes"),
        ("u.csv.gz", gzip.compress((TITLES + '1,2,+,5,a\n1,2,+,5,"a""\n').encode()), "line 3 of .* never closes"),
        ("u.tsv", "src\tdst\top\n1\t2\t+\t\n", "line 2 of .* Expected 3 columns"),
        ("u.csv", TITLES.encode() + b"1,2,+,5,caf\xe9\n", "line 2 of .* is not UTF-8"),
        ("u.csv", TITLES.encode() + b"1,2,+,5,a\0\n", "has a zero byte in line 2"),
        ("u.csv", TITLES.encode("utf-16"), "has a zero byte in line 1"),
        ("u.csv", TITLES + "007,2,+,5,a\n", "column 'src' of .* is string, and the ids of the graph are int64"),
        ("u.csv", TITLES + "1,2,+,many,a\n", "column 'amount' of .* does not fit int64"),
        ("u.csv", TITLES + "1,x,+,5,a\n", "column 'dst' of .* is string, and the ids of the graph are int64"),
    ],
)
def test_updates_that_would_be_misread_are_refused_with_their_line(tmp_path, name, content, message):
    graph = bj.Graph(EDGES.append_column("amount", pa.array([1, 2])).append_column("note", pa.array(["x", "y"])))
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(SourceError, match=message):
        graph.apply(tmp_path / name)
    assert graph.index.epoch == 0


def test_columns_that_a_graph_does_not_have_may_be_nested(tmp_path):
    graph = bj.Graph(EDGES)
    (tmp_path / "u.json").write_text('{"src": 3, "dst": 1, "op": "+", "meta": {"from": ["a"]}}\n')
    assert graph.apply(tmp_path / "u.json", "3-cycle", unique=True).created == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x,y\n1,2\n\n3,4,5\n", "line 4 of .* Expected 2 columns, and it is '3,4,5'"),
        ("x|y\n1|2\n3\n", "line 3 of .* Expected 2 columns, and it is '3'"),
        ('x,y\n1,"2\n3,4\n', "line 2 of .* has a quote that opens and never closes"),
        (b"x,y\n1,\xff\n", "line 2 of .* is not UTF-8"),
        (b"x,y\r1,\0\n", "has a zero byte in line 2"),
    ],
)
def test_so_are_relations(tmp_path, content, message):
    (tmp_path / "r.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(SourceError, match=message):
        read_whole(str(tmp_path / "r.csv"))


def test_two_spellings_stay_two_ids(tmp_path):
    (tmp_path / "r.csv").write_text('x,y,z\n007,1,"a\nb"\n7,10,0\n-0,0,""\n')
    rows = read_whole(str(tmp_path / "r.csv")).to_pylist()
    assert rows == [{"x": "007", "y": 1, "z": "a\nb"}, {"x": "7", "y": 10, "z": "0"}, {"x": "-0", "y": 0, "z": ""}]


def test_large_files_with_line_breaks_in_quotes_are_read_whole(tmp_path):
    """Arrow cuts a file into blocks at line breaks, and has to know that some are in quotes."""
    lines = "".join(f'{i},"{"x" * (i % 50)}\n{i}"\n' for i in range(60_000))
    (tmp_path / "r.csv").write_text("a,b\n" + lines)
    table = read_delimited(tmp_path / "r.csv", ",")
    assert table["a"].to_pylist() == list(range(60_000))
    assert table["b"][59_999].as_py() == "x" * (59_999 % 50) + "\n59999"


# Queries


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (f"q(a,b) := edge(a,b), a < {'9' * 5000}", {}, "a number can have at most 600 digits"),
        (f"q(a) := edge(a,-{'9' * 5000})", {}, "a number can have at most 600 digits"),
        ("triangle", {"where": f"a1 > {'1' * 601}"}, "a number can have at most 600 digits"),
        ("q(a,b,e) := edge(a,b,e), e.t = '\ud800'", {}, "the query holds bytes that are not UTF-8"),
        ("triangle", {"where": "a1 = '\udcff'"}, "the query holds bytes that are not UTF-8"),
        ("q(a,b) := edge(a,b)\0", {}, "the query cannot be read: unexpected"),
        ("q(a,b) := " + "(" * 100_000, {}, "the query cannot be read: the text ends too early"),
    ],
)
def test_queries_with_too_much_of_something_point_at_it(text, options, message):
    with pytest.raises(QueryError, match=message) as raised:
        parse(text, **options)
    assert raised.value.span is not None
    assert "^" in str(raised.value)


def test_numbers_of_any_sensible_length_are_constants():
    assert parse("q(a,b,e) := edge(a,b,e), e.w < 1e999").filters[0].right.value == math.inf
    assert str(parse(f"q(a,b) := edge(a,b), a < {'9' * 599}").filters[0].right) == "9" * 599


@pytest.mark.parametrize("text", ["9" * 5000 + "-clique", "q(a0) := " + ", ".join(f"edge(a{i},a{i + 1})" for i in range(5000))])
def test_queries_that_are_too_large_are_refused(text):
    with pytest.raises(QueryError, match=r"there is no query named|the query has 5,001 attributes; at most 128"):
        parse(text)
