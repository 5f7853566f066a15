"""How sources are read: the options that say it, the rules that judge it, and the notes that tell what was taken."""

from __future__ import annotations

import bz2
import gzip
import json
import warnings
from datetime import datetime
from decimal import Decimal
from io import BytesIO, TextIOWrapper
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bigjoin as bj
from bigjoin.errors import ReadingWarning
from bigjoin.index.directory import VERTEX
from bigjoin.ingest.files import open_edges, open_vertices, read_relation, read_whole
from bigjoin.local.matches import file_writer
from bigjoin.output import assemble
from bigjoin.reading import ReadingOptions
from bigjoin.storage import place_of
from tests.test_cli import refused, run_here
from tests.test_files import rows_of, written
from tests.test_index import edges_of

PAYMENTS = "kind,payer,payee,amount\npays,ann,bob,5\npays,bob,cat,7\n"
PAID = [("ann", "bob"), ("bob", "cat")]


@pytest.fixture(autouse=True)
def strictly():
    """Guesses are errors here, whoever makes them, unless a test expects one."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReadingWarning)
        yield


# Options


@pytest.mark.parametrize(
    ("content", "said", "rows"),
    [
        (PAYMENTS, {"src": "payer", "dst": "payee"}, [("ann", "bob", "pays", 5), ("bob", "cat", "pays", 7)]),
        (PAYMENTS, {"header": True, "src": 3, "dst": 2}, [("bob", "ann", "pays", 5), ("cat", "bob", "pays", 7)]),
        (PAYMENTS, {"src": "2", "dst": "payee", "columns": ["amount"]}, None),
        (PAYMENTS, {"columns": ["payer", "payee", "amount"]}, [("ann", "bob", 5), ("bob", "cat", 7)]),
        ("src,b,c\n1,2,3\n", {"dst": "c"}, [(1, 3, 2)]),
        ("a,b\n1,2\n", {"src": "b"}, [(2, 1)]),
        ("ann,bob\nbob,cat\n", {"header": False}, [("ann", "bob"), ("bob", "cat")]),
        ("1,2\n2,3\n", {"header": True, "src": 1, "dst": 2}, [(2, 3)]),
        ("ann,5,bob\n", {"src": 1, "dst": 3}, [("ann", "bob", 5)]),
        ("ann,5,bob\n", {"columns": ["src", "w", "dst"]}, [("ann", "bob", 5)]),
        ("ann,5,bob\n", {"columns": ["a", "w", "b"], "src": "b", "dst": "a"}, [("bob", "ann", 5)]),
        ("src;dst;w\n1;2;0,5\n", {"delimiter": ";"}, [(1, 2, "0,5")]),
        ("src|dst\n1|2\n", {"delimiter": "|"}, [(1, 2)]),
        ("Ann Lee\tBob Ray\n", {"header": False}, [("Ann Lee", "Bob Ray")]),
        ("urn|1,urn|2\nurn|2,urn|3\n", {"delimiter": ",", "header": False}, [("urn|1", "urn|2"), ("urn|2", "urn|3")]),
    ],
)
def test_options_say_how_a_file_is_read(tmp_path, content, said, rows):
    source = written(tmp_path / "edges.csv", content)
    if rows is None:
        with pytest.raises(bj.SourceError, match="amount was given for columns; edges need two"):
            open_edges(source, **said)
        return
    opened = open_edges(source, **said)
    assert rows_of(opened) == rows
    with bj.Graph(source, **said) as graph:
        assert sorted(edges_of(graph.index)) == sorted({row[:2] for row in rows})


@pytest.mark.parametrize(
    ("name", "first", "below", "header", "judged"),
    [
        ("e.csv", "src,dst", "a,b", True, False),
        ("e.txt", "From To", "a b", True, False),
        ("e.csv", "ann,bob", "bob,cat", True, True),
        ("e.tsv", "ann\tbob", "bob\tcat", True, True),
        ("e.txt", "ann bob", "bob cat", False, True),
        ("e.txt", "payer payee", "1 2", True, True),
        ("e.csv", "1,2", "2,3", False, False),
        ("e.csv", "ann,1", "bob,2", False, False),
        ("e.csv", "2024-01-31,x", "2024-01-31,x", False, False),
        ("e.csv", "00112233-4455-6677-8899-aabbccddeeff,x", "a,b", False, False),
    ],
)
def test_which_first_lines_are_headers(tmp_path, name, first, below, header, judged):
    entry = open_edges(written(tmp_path / name, f"{first}\n{below}\n")).reading
    assert (entry.header, entry.judged) == (header, first if judged else None)


def test_plain_edge_lists_are_no_guess(tmp_path):
    for name, content in [("a.txt", "1 2\n2 3\n"), ("a.csv", "1,2\n"), ("b.csv", "src,dst\na,b\n")]:
        bj.Graph(written(tmp_path / name, content)).close()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "1 2 7\n", "there is no header; column 1 is src, column 2 is dst; properties: c3"),
        ("a.csv", "ann,bob\nbob,cat\n", "the first line, 'ann,bob', is the header .* ann is src, bob is dst"),
        ("a.txt", "ann bob\n", "the first line, 'ann bob', is not a header .* column 1 is src, column 2 is dst"),
    ],
)
def test_guesses_are_warnings_at_the_line_that_asked(tmp_path, name, content, message):
    with pytest.warns(ReadingWarning, match=message) as caught:
        bj.Graph(written(tmp_path / name, content)).close()
    assert [one.filename for one in caught] == [__file__]


def test_two_named_columns_are_the_ends_with_a_warning():
    for edges in (pa.table({"a": [1], "b": [2]}), pd.DataFrame({"a": [1], "b": [2]}), {"a": [1], "b": [2]}):
        with pytest.warns(ReadingWarning, match="the table: a is src, b is dst"):
            graph = bj.Graph(edges)
        assert edges_of(graph.index) == [(1, 2)]
        assert edges_of(bj.Graph(edges, src="b", dst="a").index) == [(2, 1)]


def test_options_apply_to_every_relation_and_to_vertices(tmp_path):
    one, two = (written(tmp_path / f"{n}.csv", f"payer;payee;sum\n{n};9;1\n") for n in (1, 2))
    people = written(tmp_path / "people.csv", "person;age\n1;30\n")
    graph = bj.Graph({"a": one, "b": two}, vertices=people, src="payer", dst="payee", id="person", delimiter=";")
    assert {name: entry.tuples for name, entry in graph.index.manifest.relations.items()} == {"a": 1, "b": 1}
    assert graph.index.manifest.domains[VERTEX].reading.keys == ("person",)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "latin-1", "utf-32", "cp1252"])
@pytest.mark.parametrize("packed", [False, True])
def test_other_encodings_are_read_if_they_are_named(tmp_path, encoding, packed):
    text = "src,dst\nÉmile,Zoé\n".encode(encoding)
    source = written(tmp_path / ("e.csv.gz" if packed else "e.csv"), gzip.compress(text) if packed else text)
    graph = bj.Graph(source, encoding=encoding)
    assert edges_of(graph.index) == [("Émile", "Zoé")]
    assert graph.index.manifest.relations["edge"].reading.source == source
    assert bj.Relations({"r": source}, encoding=encoding).schema("r").names == ["src", "dst"]


# JSON


@pytest.mark.parametrize("name", ["e.json", "e.jsonl", "e.ndjson", "e.json.gz", "e.jsonl.bz2"])
@pytest.mark.parametrize("as_list", [False, True])
def test_json_is_read_wherever_files_are(tmp_path, name, as_list):
    rows = [{"src": 2**62 + 1, "dst": 2, "w": "a,[b"}, {"src": 2, "dst": 3}]
    text = (json.dumps(rows, indent=1) if as_list else "\n".join(map(json.dumps, rows))).encode()
    packed = gzip.compress(text) if name.endswith("gz") else bz2.compress(text) if name.endswith("bz2") else text
    source = written(tmp_path / name, packed)
    assert rows_of(open_edges(source)) == [(2**62 + 1, 2, "a,[b"), (2, 3, None)]
    assert read_whole(source).to_pylist() == [{"w": None, **row} | {"w": row.get("w")} for row in rows]
    people = written(tmp_path / f"p{name}", packed.replace(b"src", b"id ")) if packed is text else None
    if people is not None:
        assert rows_of(open_vertices(people.replace("id ", "id"), id="id "))[1][0] == 2


# Relations


def test_relations_take_two_columns_or_some(tmp_path):
    source = written(tmp_path / "r.csv", PAYMENTS)
    assert bj.Relations({"r": source}).schema("r").names == ["kind", "payer", "payee", "amount"]
    assert bj.Relations({"r": source}, src="payer", dst="payee").schema("r").names == ["payer", "payee"]
    assert bj.Relations({"r": source}, columns=["amount", "kind"]).schema("r").names == ["amount", "kind"]
    table = pa.table({"a": [1], "b": [2], "c": [3]})
    assert bj.Relations({"r": table}, src=3, dst="a").schema("r").names == ["c", "a"]
    assert bj.Relations({"r": [(1, 2, 3)]}).schema("r").names == ["c1", "c2", "c3"]


def test_a_header_of_a_relation(tmp_path):
    words = written(tmp_path / "r.csv", "ann,bob\nbob,cat\n")
    table, entry = read_relation(words)
    assert (table.column_names, entry.header, entry.judged) == (["ann", "bob"], True, "ann,bob")
    table, entry = read_relation(words, ReadingOptions(header=False, columns=["x", "y"]))
    assert (table.column_names, table.num_rows, entry.header) == (["x", "y"], 2, False)
    assert read_relation(written(tmp_path / "s.csv", PAYMENTS))[1].judged is None
    assert read_relation(written(tmp_path / "s.txt", "a,b\nc,d\n"))[1].header is False


# Rows in Python


class Stream:
    """A table of a library that only hands out Arrow's stream."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


class Networkx:
    """What NetworkX's graphs have, as far as it is asked for."""

    def __init__(self, edges, nodes, directed):
        self._edges, self._nodes, self._directed = edges, nodes, directed

    def edges(self, data):
        return self._edges

    def nodes(self, data):
        return self._nodes

    def is_directed(self):
        return self._directed

    def is_multigraph(self):
        return False


RECORDS = np.array([(1, 2, 0.5), (2, 3, 1.5)], [("src", "i8"), ("dst", "i8"), ("w", "f8")])


@pytest.mark.parametrize(
    "edges",
    [
        [(1, 2), (2, 3)],
        [[1, 2], [2, 3]],
        ((1, 2), (2, 3)),
        {(1, 2), (2, 3)},
        iter([(1, 2), (2, 3)]),
        [{"src": 1, "dst": 2}, {"dst": 3, "src": 2, "w": 5}],
        {"src": [1, 2], "dst": [2, 3]},
        {"src": np.array([1, 2]), "dst": pa.array([2, 3])},
        np.array([[1, 2], [2, 3]]),
        np.array([[1, 2], [2, 3]], np.uint16, order="F"),
        RECORDS,
        Stream(pa.table({"src": [1, 2], "dst": [2, 3]})),
        pa.record_batch({"src": [1, 2], "dst": [2, 3]}),
        pa.table({"src": [1, 2], "dst": [2, 3]}).to_reader(),
        Networkx([(1, 2, {}), (2, 3, {"w": 1})], [(1, {"name": "a"}), (2, {}), (3, {}), (4, {})], True),
    ],
    ids=lambda edges: type(edges).__name__,
)
def test_rows_in_every_form(edges):
    graph = bj.Graph(edges)
    assert edges_of(graph.index) == [(1, 2), (2, 3)]
    assert graph.vertex_count == (4 if isinstance(edges, Networkx) else 3)


def test_several_relations_of_rows_and_rows_with_names():
    graph = bj.Graph({"follows": [(1, 2)], "pays": [(2, 3)]}, vertices=[1, 2, 3, 4])
    assert (graph.vertex_count, graph.edge_count) == (4, 2)
    assert edges_of(bj.Graph([(5, 1, 2)], columns=["w", "src", "dst"]).index) == [(1, 2)]
    assert edges_of(bj.Graph([(1, 2, 5)], columns=["a", "b", "w"]).index) == [(1, 2)]
    assert edges_of(bj.Graph([(5, 1, 2)], src=2, dst=3).index) == [(1, 2)]


def test_an_undirected_graph_of_networkx_asks_for_its_direction():
    graph = Networkx([(1, 2, {})], [(1, {}), (2, {})], False)
    with pytest.warns(ReadingWarning, match="undirected, and its edges are read in one direction"):
        bj.Graph(graph)
    assert bj.Graph(graph, directed=False).edge_count == 1


def test_vertices_and_edges_in_either_order():
    edges, vertices = pd.DataFrame({"src": [1], "dst": [2]}), pd.DataFrame({"id": [1, 2, 3], "name": ["a", "b", "c"]})
    for graph in (bj.Graph(vertices, edges), bj.Graph(edges, vertices)):
        assert (graph.vertex_count, edges_of(graph.index)) == (3, [(1, 2)])


# Notes


def test_a_note_says_how_a_source_was_read_also_from_the_cache(tmp_path):
    written(tmp_path / "pays.csv", PAYMENTS)
    said = ("--src", "payer", "--dst", "payee")
    note = "bigjoin: note: pays.csv: the first line is the header; payer is src, payee is dst; properties: kind, amount"
    note += "; ids are text\n"
    for _ in range(2):
        assert run_here("explain", "triangle", "pays.csv", *said, cwd=tmp_path).stderr == note
    assert run_here("explain", "triangle", "pays.csv", *said, "--quiet", cwd=tmp_path).stderr == ""
    refused(run_here("explain", "triangle", "pays.csv", cwd=tmp_path), "say which are the ends")
    other = run_here("explain", "triangle", "pays.csv", "--src", "payee", "--dst", "payer", cwd=tmp_path)
    assert "payee is src, payer is dst" in other.stderr
    assert run_here("index", "pays.csv", "i", *said, cwd=tmp_path).stderr == note
    assert run_here("explain", "triangle", "i", cwd=tmp_path).stderr == ""


def test_info_and_the_manifest_say_it_too(tmp_path):
    warnings.simplefilter("ignore", ReadingWarning)  # which the command line says in its own way
    written(tmp_path / "pays.csv", "payer,payee\nann,bob\n")
    written(tmp_path / "people.csv", "id,age\nann,5\n")
    built = run_here("index", "pays.csv", "i", "--vertices", "people.csv", cwd=tmp_path)
    sentence = (
        "the first line, 'payer,payee', is the header (if it is not: --no-header, header=False); payer is src, payee is dst"
    )
    assert f"pays.csv: {sentence}" in built.stderr
    assert "people.csv: the first line is the header; id by name; properties: age" in built.stderr
    shown = run_here("info", "i", cwd=tmp_path).stdout
    assert f"    read pays.csv: {sentence}\n" in shown
    assert "  vertices: read people.csv: the first line is the header; id by name; properties: age\n" in shown
    facts = json.loads(run_here("info", "i", "--json", cwd=tmp_path).stdout)
    assert facts["relations"]["edge"]["reading"] == {
        "source": "pays.csv",
        "keys": ["payer", "payee"],
        "properties": [],
        "header": True,
        "by_place": True,
        "judged": "payer,payee",
        "separator": None,
    }
    assert facts["vertices_reading"]["keys"] == ["id"]
    copied = bj.build_index(tmp_path / "i", tmp_path / "j", shards=2)
    assert copied.manifest.relations["edge"].reading.keys == ("payer", "payee")


def test_relations_have_notes_too(tmp_path):
    written(tmp_path / "r.csv", PAYMENTS)
    asked = ("explain", "q(a,b,c,d) := r(a,b,c,d)", "--relation", "r=r.csv")
    assert run_here(*asked, cwd=tmp_path).stderr == (
        "bigjoin: note: r.csv: the first line is the header; columns: kind, payer, payee, amount\n"
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"1 2\n2 3\n", "there is no header; column 1 is src, column 2 is dst"),
        (b'{"src": 1, "dst": 2}\n{"src": 2, "dst": 3}', "src and dst by name"),
        (b'\xef\xbb\xbf [{"src": 1, "dst": 2}, {"src": 2, "dst": 3}]', "src and dst by name"),
        (gzip.compress(b"1 2\n2 3\n"), "there is no header; column 1 is src, column 2 is dst"),
        (None, "src and dst by name"),
    ],
)
def test_standard_input_is_a_source(tmp_path, content, said):
    if content is None:
        pq.write_table(pa.table({"src": [1, 2], "dst": [2, 3]}), sink := BytesIO())
        content = sink.getvalue()
    with mock.patch("sys.stdin", TextIOWrapper(BytesIO(content))):
        done = run_here("index", "-", "i", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, f"bigjoin: note: the standard input: {said}\n")
    assert edges_of(bj.Graph.open(tmp_path / "i").index) == [(1, 2), (2, 3)]


# JSON lines as results


def test_parts_of_json_lines_are_joined(tmp_path):
    table = pa.table(
        {
            "a": [2**62 + 1, None],
            "at": [datetime(2024, 1, 31, 10), None],
            "sum": [Decimal("1.50"), None],
            "raw": [b"\x00\xff", None],
            "x": [float("nan"), 0.5],
            "list": [[1, 2], []],
            "é": ["ü", '"'],
        }
    )
    parts = [tmp_path / f"{i}.json" for i in range(2)]
    for part in parts:
        with file_writer(part, table.schema, ".json") as writer:
            writer.write_table(table)
    (tmp_path / "folder").mkdir()
    assemble(parts, table.schema, tmp_path / "out.json", tmp_path / "folder")
    lines = (tmp_path / "out.json").read_text().splitlines()
    wanted = {
        "a": 2**62 + 1,
        "at": "2024-01-31 10:00:00",
        "sum": "1.50",
        "raw": "00ff",
        "x": "nan",
        "list": [1, 2],
        "é": "ü",
    }
    assert len(lines) == 4
    assert json.loads(lines[2]) == wanted
    assert json.loads(lines[3])["x"] == 0.5


@pytest.mark.spark
@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_results_are_written_as_json_lines(spark, tmp_path, suffix):
    with bj.Graph([(1, 2), (2, 3), (1, 3)], spark=spark) as graph:
        assert graph.write("triangle", tmp_path / f"out.{suffix}") == 1
        assert json.loads((tmp_path / f"out.{suffix}").read_text()) == {"a1": 1, "a2": 2, "a3": 3}
        assert graph.write("2-star", tmp_path / f"f.{suffix}", factorized=True) > 0
        assert graph.write("triangle", tmp_path / f"none.{suffix}", limit=0) == 0
        assert graph.write("triangle", f"memory://results/out.{suffix}") == 1
        assert json.loads(place_of(f"memory://results/out.{suffix}").read_text()) == {"a1": 1, "a2": 2, "a3": 3}
        with pytest.raises(bj.SourceError, match="cannot be opened"):
            graph.write("triangle", f"nothing://bucket/out.{suffix}")
    assert rows_of(open_edges(str(tmp_path / f"out.{suffix}"), src="a1", dst="a2")) == [(1, 2, 3)]
