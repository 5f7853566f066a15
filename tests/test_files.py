"""Reading files in pieces: every form of text and Parquet, against a reader that does the obvious, and what is refused."""

from __future__ import annotations

import bz2
import gzip
import pickle
import re
import subprocess
import uuid
import zlib
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bigjoin.errors import SourceError
from bigjoin.ingest import fields, parquet, text
from bigjoin.ingest.files import open_edges, open_vertices
from bigjoin.ingest.table import Table

EDGES = [(1, 2), (2, 3), (3, 1), (3, 3), (2, 3), (-4, 1)]
BLANKS = " \t\v\f"


def written(file: Path, content: bytes | str) -> str:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(file)


def rows_of(opened: Table) -> list[tuple]:
    """All rows, through pieces that have travelled, in batches that have the table's schema."""
    batches = [batch for split in opened.splits for batch in pickle.loads(pickle.dumps(split)).read()]
    assert all(batch.schema == opened.schema and 0 < batch.num_rows <= 2**20 for batch in batches)
    rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    assert opened.rows in (None, len(rows))
    return rows


def types_of(opened: Table) -> dict[str, str]:
    return {field.name: str(field.type) for field in opened.schema}


# Text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("edges.txt", "# comment\n% another\n1 2\n2\t3\n\n3   1\n3,3\n2 3\n-4 1 extra 5\n"),
        ("edges.txt", "\ufeff1 2\r\n2 3\r\n3 1\r\n3 3\r\n2 3\r\n-4 1\r\n"),
        ("edges.txt", "1 2\r2 3\r3 1\r3 3\r2 3\r-4 1"),
        ("edges.csv", "1,2,x\n2,3,y\n3,1,z\n3,3,\n2,3,v\n-4,1,u\n"),
        ("edges.csv", "weight,dst,src\n0.5,2,1\n1,3,2\n2,1,3\n3,3,3\n4,3,2\n5,1,-4\n"),
        ("edges.csv", '"1","2"\n"2",3\n3,1\n 3 ,3\n2,3\n-4, "1"\n'),
        ("edges.csv", "1 2\n2 3\n3 1\n3 3\n2 3\n-4 1\n"),
        ("edges.tsv", "source\ttarget\n1\t2\n2\t3\n3\t1\n3\t3\n2\t3\n-4\t1\n"),
        ("edges.tsv", "1\t 2\n \t \n\t# x\n2\t3 \n3\t1\n3\t3\t\n2\t3\n-4\t1\n"),
        ("edges.txt", "\t1\t2 \n 2 3\n3 1\n3 3\n2 3\n-4 1"),
        ("EDGES", "1,2\n2,3\n3,1\n3,3\n2,3\n-4,1"),
        ("edges.txt.gz", gzip.compress(b"1 2\n2 3\n3 1\n3 3\n2 3\n-4 1\n")),
        ("edges.gz", gzip.compress(b"1 2\n2 3\n3 1\n3") + gzip.compress(b" 3\n2 3\n-4 1\n")),
        ("edges.csv.bz2", bz2.compress(b"src,dst\n1,2\n2,3\n3,1\n3,3\n2,3\n-4,1\n")),
        ("edges.deflate", zlib.compress(b"1,2\n2,3\n3,1\n3,3\n2,3\n-4,1\n")),
    ],
)
@pytest.mark.parametrize("size", [1, 9, 2**24])
def test_edge_lists_in_every_form_and_any_pieces(tmp_path, monkeypatch, name, content, size):
    monkeypatch.setattr(text, "SPLIT_BYTES", size)
    opened = open_edges(written(tmp_path / name, content), properties=False)
    assert rows_of(opened) == EDGES
    assert types_of(opened) == {"src": "int64", "dst": "int64"}
    assert opened.span == (-4, 3)


@pytest.mark.parametrize("name", ["sp ace #1.txt", "bäd [1]*.txt", "co:lon.txt", "_hidden.txt", "100%25{a}.csv"])
def test_odd_paths(tmp_path, name):
    assert rows_of(open_edges(written(tmp_path / "sp ace [x]" / name, "1 2\n"))) == [(1, 2)]


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("edges.txt", "1 2\nalice bob\n", [("1", "2"), ("alice", "bob")]),
        ("edges.txt", "1.5 2.5\n1 2\n", [("1.5", "2.5"), ("1", "2")]),
        ("edges.txt", "007 7\n1 2\n", [("007", "7"), ("1", "2")]),
        ("edges.txt", "+5 7\n-0 2\n", [("+5", "7"), ("-0", "2")]),
        ("edges.txt", f"{2**63} 7\n", [(str(2**63), "7")]),
        ("edges.txt", f"{-(2**63) - 1} {10**25}\n", [(str(-(2**63) - 1), str(10**25))]),
        ("edges.txt", f"{2**63 - 1} {-(2**63)}\n", [(2**63 - 1, -(2**63))]),
        ("edges.csv", f'"{2**63 - 1}",-{2**63} \n', [(2**63 - 1, -(2**63))]),
        ("edges.csv", '"say ""hi""",b\n"c,d","a\\"\n', [('say "hi"', "b"), ("c,d", "a\\")]),
        ("edges.csv", '"a"x,b\nc"d,"e"f\n', [('"a"x', "b"), ('c"d', '"e"f')]),
        ("edges.tsv", '"a\tb"\tc d\n', [("a\tb", "c d")]),
        ("edges.txt", '"a b"\n', [('"a', 'b"')]),
        ("edges.txt", "é ü\n日本 😀\n", [("é", "ü"), ("日本", "😀")]),
    ],
)
def test_ids_come_back_as_they_were(tmp_path, name, content, wanted):
    opened = open_edges(written(tmp_path / name, content), header=False)
    assert rows_of(opened) == wanted
    assert (opened.span is None) == isinstance(wanted[0][0], str)


def test_one_id_of_text_makes_all_text_wherever_it_stands(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "SPLIT_BYTES", 64)
    source = written(tmp_path / "edges.txt", "".join(f"{i} {i + 1}\n" for i in range(100)) + "x 1\n")
    opened = open_edges(source)
    assert len(opened.splits) > 5
    assert rows_of(opened) == [(str(i), str(i + 1)) for i in range(100)] + [("x", "1")]
    assert [split.rows for split in opened.splits] == [sum(b.num_rows for b in split.read()) for split in opened.splits]


@pytest.mark.parametrize("size", [16, 2**24])
def test_properties_have_the_type_that_all_their_fields_allow(tmp_path, monkeypatch, size):
    monkeypatch.setattr(text, "SPLIT_BYTES", size)
    lines = [
        "src,dst,int,double,bool,day,time,zone,code,long,none,text",
        "1,2,5,1,true,2024-01-31,2024-01-31 10:00:00,2024-01-31T10:00:00Z,01234,1,,x",
        "2,3,,0.5,FALSE,2024-02-29,2024-02-29,2024-01-31T10:00:00+02:00,12345,12345678901234567890,,5",
        '3,1,-7,-1e3,,,"2024-01-31T10:00:00.5",,00001,,,"a ""b"", c"',
        "4,1",
    ]
    opened = open_edges(written(tmp_path / "edges.csv", "\n".join(lines)))
    assert types_of(opened) == {
        "src": "int64",
        "dst": "int64",
        "int": "int64",
        "double": "double",
        "bool": "bool",
        "day": "date32[day]",
        "time": "timestamp[us]",
        "zone": "timestamp[us, tz=UTC]",
        "code": "string",
        "long": "string",
        "none": "string",
        "text": "string",
    }
    ten = datetime(2024, 1, 31, 10)
    first, second, third, fourth = rows_of(opened)
    assert first == (1, 2, 5, 1.0, True, date(2024, 1, 31), ten, ten.replace(tzinfo=UTC), "01234", "1", None, "x")
    assert second[2:7] == (None, 0.5, False, date(2024, 2, 29), datetime(2024, 2, 29))
    assert second[7:] == (ten.replace(hour=8, tzinfo=UTC), "12345", "12345678901234567890", None, "5")
    assert third[2:] == (-7, -1000.0, None, None, ten.replace(microsecond=500_000), None, "00001", None, None, 'a "b", c')
    assert fourth == (4, 1, *[None] * 10)


@pytest.mark.parametrize(
    ("content", "kind", "values"),
    [
        ("1 2 7\n1 2 0.5\n1 2 x\n", "string", ["7", "0.5", "x"]),
        ("1 2 7\n1 2\n1 2 .5\n", "double", [7.0, None, 0.5]),
        ("1 2 1234567890123456\n1 2 0.5\n", "string", ["1234567890123456", "0.5"]),
        ("1 2 true\n1 2 1\n", "string", ["true", "1"]),
        ("1 2 2024-01-31\n1 2 2024-02-30\n", "string", ["2024-01-31", "2024-02-30"]),
        ("1 2 nan\n1 2 -inf\n", "double", ["nan", "-inf"]),
    ],
)
@pytest.mark.parametrize("size", [1, 2**24])
def test_further_columns_without_titles(tmp_path, monkeypatch, content, kind, values, size):
    monkeypatch.setattr(text, "SPLIT_BYTES", size)
    opened = open_edges(written(tmp_path / "edges.txt", content))
    assert opened.keys == ("c1", "c2")
    assert types_of(opened) == {"src": "int64", "dst": "int64", "c3": kind}
    assert [str(row[2]) for row in rows_of(opened)] == [str(value) for value in values]


@pytest.mark.parametrize(("name", "separator"), [("edges.txt", " "), ("edges.csv", ",")])
def test_titles_that_are_guessed_are_told(tmp_path, name, separator):
    titles = f"FromNodeId{separator}ToNodeId"
    opened = open_edges(written(tmp_path / name, f"# x\n{titles}\n1{separator}2\n"))
    assert opened.reading.judged == titles
    assert opened.reading.is_guess
    assert opened.keys == ("FromNodeId", "ToNodeId")
    assert rows_of(opened) == [(1, 2)]


def test_only_the_first_line_is_a_line_of_titles(tmp_path):
    opened = open_edges(written(tmp_path / "edges.csv", "src,dst\na,b\nsrc,dst\n"))
    assert rows_of(opened) == [("a", "b"), ("src", "dst")]


def test_titles_that_are_missing_or_taken_become_places(tmp_path):
    source = written(tmp_path / "edges.csv", "node,node,,x,x,dst\n1,2,3,4,5,6\n")
    with pytest.raises(SourceError, match=r"has 6 columns, and none is called src or dst: node, c2, c3, x, c5, dst"):
        open_edges(source)
    with pytest.warns(match="column 'dst' is left out: another"):
        opened = open_edges(source, src=1, dst=2)
    assert types_of(opened).keys() == {"src", "dst", "c3", "x", "c5"}
    assert rows_of(opened) == [(1, 2, 3, 4, 5)]


@pytest.mark.parametrize(
    ("content", "columns", "names", "rows"),
    [
        ("6,2,4,99\n6,5,2,98\n", ["src", "dst", "rating", "time"], "src dst rating time", [(6, 2, 4, 99), (6, 5, 2, 98)]),
        ("6,2,4,99\n", ["time", "dst", "src"], "src dst time", [(4, 2, 6)]),
        ("6,2,4,99\n", ["payer", "payee", "sum"], "src dst sum", [(6, 2, 4)]),
        ("src,dst,w,t\n6,2,4,99\n", ["dst", "src", "t"], "src dst t", [(2, 6, 99)]),
        ("who,whom,w\nann,bob,5\n", ["whom", "who"], "src dst", [("bob", "ann")]),
    ],
)
def test_columns_name_or_pick(tmp_path, content, columns, names, rows):
    opened = open_edges(written(tmp_path / "edges.csv", content), columns=columns)
    assert opened.schema.names == names.split()
    assert rows_of(opened) == rows


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["src", "dts"], "has no column 'dts'; did you mean 'dst'?"),
        (["src", "zzzzz"], "has no column 'zzzzz'; it has src, dst, w"),
        (["src"], "src was given for columns; edges need two, src and dst"),
        (["src", "src"], "the column 'src' is given twice"),
    ],
)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_columns_that_are_not_there_are_refused(tmp_path, columns, message, form):
    source = written(tmp_path / "edges.csv", "src,dst,w\n1,2,3\n")
    if form == "parquet":
        source = str(tmp_path / "edges.parquet")
        pq.write_table(pa.table({"src": [1], "dst": [2], "w": [3]}), source)
    with pytest.raises(SourceError, match=re.escape(message)):
        open_edges(source, columns=columns)


def test_more_names_than_columns_are_refused(tmp_path):
    with pytest.raises(SourceError, match=r"3 columns are named, src, dst, weight, and the first line of .* has 2"):
        open_edges(written(tmp_path / "edges.txt", "1 2\n"), columns=["src", "dst", "weight"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("edges.txt", "", "has no edges: it is empty, or holds only comments"),
        ("edges.txt", "# nothing\n\n", "has no edges: it is empty, or holds only comments"),
        ("edges.csv", "src,dst\n", "has no edges: nothing follows its header"),
        ("edges.csv.gz", gzip.compress(b"src,dst\n# x\n"), "has no edges: nothing follows its header"),
        (
            "edges.txt",
            "1 2\n3\n4 5\n",
            r"1 of 3 lines .* do not have two columns, for example '3' \(line 2\); an edge is 'src dst'",
        ),
        ("edges.csv", "1,2\n3,\n4,5\n", r"1 of 3 lines .* do not have two columns, for example '3,'"),
        ("edges.csv", '1,2\n"",3\r\n4\n', r"2 of 3 lines .* do not have two columns, for example '\"\",3'"),
        ("edges.tsv", "1\t2\n\t3\t4\n", r"1 of 2 lines .* do not have two columns"),
        ("edges.txt", "alone\n", r"1 of 1 lines .* do not have two columns, for example 'alone'"),
        (
            "edges.txt",
            "é a\nü a\n".encode("latin-1"),
            "2 lines of .* are not UTF-8 text, the first is line 1: say which encoding the file has, as in --encoding latin-1",
        ),
        ("edges.txt", b"1 2 \xff\n3 4\n", "1 lines of .* are not UTF-8 text"),
        (
            "edges.csv",
            "src,dst\n1,2\n\n# x\n3,4,5\n6,7,8\n",
            r"line 5 of .* more fields than there are names in the header \(2\): '3,4,5'",
        ),
        ("edges.csv", "src,dst,name\r\n1,2,a\r\n3,4,b, c\r\n", r"line 3 of .* there are names in the header \(3\): '3,4,b, c'"),
        ("edges.csv", 'src,dst,n\r1,2,"a,b"\r3,4,",",x', r"line 3 of .* there are names in the header \(3\)"),
        ("edges.tsv", "1\t2\t3\n1\t2\t3\t\t \n1\t2\t\t\t4", r"line 3 of .* fields in its first line \(3\)"),
        ("edges.txt", "\ufeff1 2\n1 3\n1 4 0.5\n", r"line 3 of .* fields in its first line \(2\): '1 4 0\.5'"),
        ("edges.txt.gz", gzip.compress(b"1 2\n" * 500 + b"1 2 3"), r"line 501 of .* fields in its first line \(2\)"),
        ("edges.csv", "1,2,3\n4,5,6," + 1000 * "x", r"line 2 of .*: '4,5,6,x+ \.\.\. x+'; the rest"),
        ("edges.csv", 'src,dst,n\n1,2,"a""b\n3,4,5"\n', r"""does not close in its line, .*, '1,2,"a""b' \(line 2\)"""),
        ("edges.csv", 'src,dst,"n\n1,2,3"\n', r"does not close in its line, .*, 'src,dst,\"n' \(line 1\)"),
        ("edges.csv", 'src,dst,n\n1,2,"a,b" c\n', r"or not at the end of its field, '1,2,\"a,b\" c' \(line 2\)"),
        ("edges.txt", "1 2\n1 3\0\n", "has a zero byte in line 2: it is no text, or not UTF-8"),
        ("edges.txt", "1 2\n1 3\n".encode("utf-16-le"), "is UTF-16-LE text: read it with --encoding utf-16-le"),
        ("edges.txt.gz", gzip.compress(b"1 2\n" * 500)[:-4], "cannot be read: Unexpected end of input"),
        ("edges.txt.bz2", bz2.compress(b"1 2\n" * 500)[:-4], "cannot be read: Unexpected end of input"),
        ("edges.deflate", zlib.compress(b"1 2\n" * 500)[:-4], "cannot be read: Unexpected end of input"),
        ("edges.txt.gz", b"1 2\n3 4\n", "cannot be read: zlib inflate failed"),
        ("edges.txt.xz", b"\xfd7zXZ", r"does not read \.xz; use \.gz"),
        ("edges.parquet", b"PAR1 this is no parquet", r"cannot be read: .*edges\.parquet is not a Parquet file"),
        ("edges.pq", b"", "is not a Parquet file: it is empty"),
    ],
)
@pytest.mark.parametrize("size", [3, 2**24])
def test_bad_files_are_refused(tmp_path, monkeypatch, name, content, message, size):
    monkeypatch.setattr(text, "SPLIT_BYTES", size)
    with pytest.raises(SourceError, match=message):
        open_edges(written(tmp_path / name, content))


@pytest.mark.parametrize("columns", [None, ["dst", "src"]])
def test_fields_that_nobody_reads_are_looked_at_all_the_same(tmp_path, columns):
    """A comma, or a line break in quotes, would move what stands behind it into the columns that are read."""
    for content in ("name,src,dst\na,1,2\nb,c,1,2\n", 'src,dst,name\n1,2,"a\n3,4"\n'):
        source = written(tmp_path / "edges.csv", content)
        with pytest.raises(SourceError, match=r"more fields than|does not close"):
            open_edges(source, columns=columns, properties=False)


def test_comments_may_be_in_any_encoding(tmp_path):
    assert rows_of(open_edges(written(tmp_path / "edges.txt", b"# \xff\xfe\n1 2\n"))) == [(1, 2)]


@pytest.mark.parametrize("name", ["edges.txt", "edges.txt.gz"])
def test_what_is_no_text_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch, name):
    monkeypatch.setattr(text, "SPLIT_BYTES", 2**17)
    monkeypatch.setattr(text, "MAX_LINE_BYTES", 2**18)
    content = b"1 2\n" + b"x" * 2**20
    with pytest.raises(SourceError, match="has a line of more than"):
        open_edges(written(tmp_path / name, gzip.compress(content) if name.endswith("gz") else content))


def test_missing_files_and_foreign_folders_are_refused(tmp_path):
    with pytest.raises(SourceError, match="there is no file"):
        open_edges(str(tmp_path / "nowhere.txt"))
    written(tmp_path / "folder" / "edges.csv", "1,2\n")
    written(tmp_path / "folder" / "_temporary.parquet", "x")
    with pytest.raises(SourceError, match=r"neither an index \(it has no manifest.json\) nor a folder of Parquet"):
        open_edges(str(tmp_path / "folder"))


def test_a_file_that_changes_between_opening_and_reading_is_noticed(tmp_path):
    opened = open_edges(written(tmp_path / "edges.txt", "1 2\n"))
    written(tmp_path / "edges.txt", "a b\n")
    with pytest.raises(SourceError, match="has changed while it was read"):
        list(opened.splits[0].read())
    (tmp_path / "edges.txt").unlink()
    with pytest.raises(SourceError, match=r"cannot be read: .*No such file"):
        list(opened.splits[0].read())


@pytest.mark.parametrize(
    ("content", "keys", "names", "rows"),
    [
        ("ID,age\n1,5\n", ("ID",), ["id", "age"], [(1, 5)]),
        ("age,Node\n5,ann\n", ("Node",), ["id", "age"], [("ann", 5)]),
        ("ann lee,5\nbob,\n", ("c1",), ["id", "c2"], [("ann lee", 5), ("bob", None)]),
        ("person\nbob\n", ("person",), ["id"], [("bob",)]),
        ("vertex\nann lee\n", ("vertex",), ["id"], [("ann lee",)]),
    ],
)
def test_vertices(tmp_path, content, keys, names, rows):
    opened = open_vertices(written(tmp_path / "people.csv", content))
    assert (opened.keys, opened.schema.names) == (keys, names)
    assert rows_of(opened) == rows
    pq.write_table(pa.Table.from_batches(b for s in opened.splits for b in s.read()), tmp_path / "people.parquet")
    assert rows_of(open_vertices(str(tmp_path / "people.parquet"))) == rows


def test_titles_above_numbers_and_lines_without_id(tmp_path):
    source = written(tmp_path / "people.csv", "account,age\nA1,35\n")
    with pytest.raises(SourceError, match=r"2 columns, and none is called id: account, age; say which it is: --id account"):
        open_vertices(source)
    opened = open_vertices(source, id="account")
    assert rows_of(opened) == [("A1", 35)]
    assert not opened.reading.is_guess
    with pytest.raises(SourceError, match=r"1 of 2 lines of .* have no id, for example ',7'"):
        open_vertices(written(tmp_path / "people.csv", "id,age\n1,5\n,7\n"))
    with pytest.raises(SourceError, match="has no vertices: it is empty"):
        open_vertices(written(tmp_path / "people.csv", ""))


# Text, against a reader that does the obvious


def obvious_fields(line: str, separator: str | None) -> list[str]:
    if separator is None:
        return re.split(r"[ \t\v\f,]+", line)
    blanks = BLANKS.replace(separator, "")
    fields, rest = [], line
    while True:
        quoted = re.match(rf'[{blanks}]*"((?:[^"]|"")*)"[{blanks}]*(?={separator}|\Z)', rest)
        found = quoted or re.match(rf"([^{separator}]*)", rest)
        field = (found[1].replace('""', '"') if quoted else found[1]).strip(blanks)
        fields.append(Unclosed(field) if not quoted and re.fullmatch('"([^"]|"")*', field) else field)
        rest = rest[found.end() :]
        if not rest:
            return fields
        rest = rest[1:]


class Unclosed(str):
    """A field whose quotes do not close."""


def is_integer(field: str) -> bool:
    return re.fullmatch(r"0|-?[1-9][0-9]*", field) is not None and -(2**63) <= int(field) < 2**63


def is_double(field: str) -> bool:
    return re.fullmatch(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]+)?", field) is not None


def obvious(name: str, content: str) -> list[tuple] | str:
    """The rows of a text file, or a part of what is said against it."""
    suffix = name.split(".")[1]
    separator = {"csv": ",", "tsv": "\t"}.get(suffix)
    lines = [re.sub(r"^([ \t\v\f]*\ufeff)+", "", line) for line in re.split(r"[\r\n]", content)]
    lines = [line for line in lines if line.strip(BLANKS) and line.strip(BLANKS)[0] not in "#%"]
    if not lines:
        return "has no edges"
    if separator is not None and separator not in lines[0].strip(BLANKS):
        separator = "\t" if "\t" in lines[0].strip(BLANKS) else None
    blanks = BLANKS.replace(separator, "") if separator else BLANKS
    table = [obvious_fields(line.strip(blanks), separator) for line in lines]
    titles = [title.lower() for title in table[0]]
    named = "src" in titles and "dst" in titles
    places = (titles.index("src"), titles.index("dst")) if named else (0, 1)
    words = all(re.fullmatch(r"[^\W\d][\w .-]*", title) for title in table[0][:2])
    above = len(table) > 1 and all(re.fullmatch(r"[+-]?\d+", f) for f in table[1][:2])
    is_data = any(re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+)?", title) for title in table[0]) or not all(table[0][:2])
    titled = named or (not is_data and (suffix != "txt" or (words and above)))
    if titled and not named and len(table[0]) != 2:
        return rf"has {len(table[0])} columns?,"
    width = len(table[0])
    rows = table[1:] if titled else table
    if not rows:
        return "has no edges"
    padded = [row + [""] * (max(2, width) - len(row)) for row in rows]
    taken = {table[0].index(name) for name in ("src", "dst") if titled and name in table[0]}
    order = [*places, *(i for i in range(width) if i not in places and i not in taken)]
    columns = [[row[i] for row in padded] for i in order]
    if any(isinstance(field, Unclosed) for row in table for field in row):
        return "has a quote that opens and does not close"
    if short := sum(not src or not dst for src, dst in zip(*columns[:2], strict=True)):
        return f"{short} of {len(rows)} lines"
    if any(field for row in rows for field in row[max(2, width) :]):
        return "has more fields than there are"
    if all(map(is_integer, columns[0] + columns[1])):
        columns[:2] = [[int(field) for field in column] for column in columns[:2]]
    for i in range(2, len(columns)):
        values = [field for field in columns[i] if field]
        kind = int if values and all(map(is_integer, values)) else float if values and all(map(is_double, values)) else str
        columns[i] = [kind(field) if field else None for field in columns[i]]
    return list(zip(*columns, strict=True))


PIECES = ["1", "-2", "30", "0", "007", "+5", "-0", "a", "é", "x y", "0.5", "-1.25", str(2**63 - 1), str(-(2**63)), str(2**63)]
ODD = ['"', '""', "#", "%", "\ufeff", "-", "src", "dst", "\v", "\f", "'", '"q"', '"a,b"', '"1"']


@st.composite
def files(draw):
    """A file that is mostly in order: fields and separators of one kind; or one that is not."""
    suffix = draw(st.sampled_from(["txt", "csv", "tsv"]))
    wild = draw(st.booleans())
    usual = {"txt": [" ", "\t", ",", " , "], "csv": [",", ", "], "tsv": ["\t"]}[suffix]
    separators = st.sampled_from([*usual, " ", ",", "\t", ""] if wild else usual)
    ids = st.sampled_from(draw(st.sampled_from([PIECES[:4], PIECES])) + (ODD if wild else []))
    line = st.lists(st.tuples(ids, separators), min_size=0 if wild else 2, max_size=5).map(lambda p: "".join(map("".join, p)))
    if not wild:
        line = line.map(lambda text: text.rstrip(BLANKS + ","))
    comments = st.sampled_from(["", "# a b", "% 1 2", "  ", "\t#x"])
    titles = [draw(st.sampled_from(["src,dst", "dst,w,src", "a,b,c"])).replace(",", usual[0])] if draw(st.booleans()) else []
    lines = titles + draw(st.lists(st.one_of(line, line, line, comments), max_size=8))
    ends = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    return f"edges.{suffix}", draw(st.sampled_from(["", "\ufeff"])) + ends.join(lines) + draw(st.sampled_from(["", ends]))


@pytest.mark.filterwarnings("ignore:.*is left out")
@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files(), st.sampled_from([1, 5, 20, 2**24]), st.sampled_from([1, 3, 2**16]), st.booleans())
def test_any_text_is_read_as_the_obvious_reader_reads_it(tmp_path, file, split, batch, packed):
    name, content = file
    wanted = obvious(name, content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "SPLIT_BYTES", split)
        patch.setattr(fields, "BATCH_ROWS", batch)
        source = written(tmp_path / (f"{name}.gz" if packed else name), gzip.compress(content.encode()) if packed else content)
        if isinstance(wanted, str):
            with pytest.raises(SourceError, match=wanted):
                open_edges(source)
        else:
            assert rows_of(open_edges(source)) == wanted
            assert rows_of(open_edges(source, properties=False)) == [row[:2] for row in wanted]


def test_published_edge_lists_have_as_many_rows_as_lines(shared_data):
    files = [*shared_data.glob("static/*.txt"), *shared_data.glob("temporal/*.txt"), *shared_data.glob("temporal/*.csv")]
    assert files
    for file in files:
        lines = int(subprocess.run(["grep", "-vc", "^#", str(file)], capture_output=True, check=True).stdout)
        opened = open_edges(str(file))
        assert sum(batch.num_rows for split in opened.splits for batch in split.read()) == opened.rows == lines
        assert {str(kind) for kind in opened.schema.types} == {"int64"}


# Parquet


def parquet_of(path: Path, columns: dict, **options) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path, **options)
    return str(path)


@pytest.mark.parametrize("size", [1, 2, 4, 2**20])
@pytest.mark.parametrize("group", [1, 3, 100])
@pytest.mark.parametrize("batch", [1, 2, 2**16])
def test_row_groups_are_joined_and_cut(tmp_path, monkeypatch, size, group, batch):
    monkeypatch.setattr(parquet, "SPLIT_ROWS", size)
    monkeypatch.setattr(parquet, "BATCH_ROWS", batch)
    columns = {"id1": [s for s, _ in EDGES], "w": [0.5] * 6, "id2": pa.array([d for _, d in EDGES], pa.int32())}
    opened = open_edges(parquet_of(tmp_path / "edges.parquet", columns, row_group_size=group), columns=["id1", "id2", "w"])
    assert rows_of(opened) == [(*edge, 0.5) for edge in EDGES]
    assert (opened.rows, opened.span, opened.keys) == (6, (-4, 3), ("id1", "id2"))
    assert all(split.rows <= max(size, 1) for split in opened.splits)
    assert len(opened.splits) >= 6 / max(size, group) if size < 6 else len(opened.splits) == 1


def test_folders_are_read_in_the_order_of_paths(tmp_path):
    parquet_of(tmp_path / "e.parquet" / "b" / "2.parquet", {"dst": pa.array([5], pa.int64()), "src": pa.array([4], pa.int16())})
    parquet_of(tmp_path / "e.parquet" / "1.parquet", {"src": pa.array([1], pa.int32()), "dst": pa.array([2], pa.int16())})
    parquet_of(tmp_path / "e.parquet" / "_metadata", {"x": [1]})
    parquet_of(tmp_path / "e.parquet" / ".hidden" / "3.parquet", {"x": [1]})
    written(tmp_path / "e.parquet" / "_SUCCESS", "")
    opened = open_edges(str(tmp_path / "e.parquet"))
    assert types_of(opened) == {"src": "int64", "dst": "int64"}
    assert rows_of(opened) == [(1, 2), (4, 5)]
    assert opened.span == (1, 5)


def test_partitions_are_columns(tmp_path):
    for kind, year in (("a b", "2024"), ("__HIVE_DEFAULT_PARTITION__", "2025")):
        parquet_of(tmp_path / f"kind={kind.replace(' ', '%20')}" / f"year={year}" / "x.parquet", {"src": [1], "dst": [2]})
    opened = open_edges(str(tmp_path))
    assert types_of(opened) == {"src": "int64", "dst": "int64", "kind": "string", "year": "int64"}
    assert rows_of(opened) == [(1, 2, None, 2025), (1, 2, "a b", 2024)]
    opened = open_edges(str(tmp_path), columns=["year", "src"])
    assert (rows_of(opened), opened.span) == ([(2025, 1), (2024, 1)], None)


def test_files_that_differ_are_named(tmp_path):
    parquet_of(tmp_path / "1.parquet", {"src": [1], "dst": [2], "w": [1]})
    parquet_of(tmp_path / "2.parquet", {"src": [1], "dst": [2], "v": [1]})
    with pytest.raises(SourceError, match=r"2\.parquet and .*1\.parquet do not have the same columns: only one has 'v', 'w'"):
        open_edges(str(tmp_path))
    parquet_of(tmp_path / "2.parquet", {"src": [1], "dst": [2], "w": ["x"]})
    with pytest.raises(SourceError, match=r"column 'w' .* is int64 in .*1\.parquet and string in .*2\.parquet"):
        open_edges(str(tmp_path))
    assert rows_of(open_edges(str(tmp_path), properties=False)) == [(1, 2), (1, 2)]
    written(tmp_path / "3.parquet", (tmp_path / "2.parquet").read_bytes()[:-10])
    with pytest.raises(SourceError, match=r"cannot be read: .*3\.parquet is not a Parquet file, or is cut off"):
        open_edges(str(tmp_path))


ONE, TWO = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff"), uuid.uuid4()


@pytest.mark.parametrize(
    ("src", "dst", "kind", "row"),
    [
        (pa.array([1], pa.int8()), pa.array([2], pa.int8()), "int8", (1, 2)),
        (pa.array([1], pa.int8()), pa.array([2], pa.uint8()), "int16", (1, 2)),
        (pa.array([1], pa.uint16()), pa.array([2], pa.uint16()), "int32", (1, 2)),
        (pa.array([1], pa.uint32()), pa.array([2], pa.int32()), "int64", (1, 2)),
        (pa.array([1], pa.uint64()), pa.array([2**63 - 1], pa.uint64()), "int64", (1, 2**63 - 1)),
        (pa.array([1]), pa.array([None], pa.int64()), "int64", (1, None)),
        (pa.array(["a"], pa.large_string()), pa.array(["b"]).dictionary_encode(), "string", ("a", "b")),
        (pa.array(["a"], pa.string_view()), pa.array(["é"]), "string", ("a", "é")),
        (pa.array([ONE.bytes], pa.uuid()), pa.array([TWO.bytes], pa.uuid()), "string", (str(ONE), str(TWO))),
        (pa.array([ONE.bytes], pa.uuid()), pa.array([None], pa.uuid()), "string", (str(ONE), None)),
        (pa.array([b"ab"], pa.binary(2)), pa.array([b"c"], pa.large_binary()), "binary", (b"ab", b"c")),
        (pa.array([bytes(16)], pa.binary(16)), pa.array([b"c"]), "binary", (bytes(16), b"c")),
        (
            pa.array([Decimal("1.5")], pa.decimal128(5, 1)),
            pa.array([Decimal("2.25")], pa.decimal256(40, 2)),
            "decimal128(38, 2)",
            (Decimal("1.50"), Decimal("2.25")),
        ),
        (
            pa.array([date(2024, 1, 2)]),
            pa.array([date(2024, 1, 3)], pa.date64()),
            "date32[day]",
            (date(2024, 1, 2), date(2024, 1, 3)),
        ),
        (
            pa.array([datetime(2024, 1, 2)], pa.timestamp("ms")),
            pa.array([datetime(2024, 1, 3)], pa.timestamp("us")),
            "timestamp[us]",
            (datetime(2024, 1, 2), datetime(2024, 1, 3)),
        ),
    ],
)
def test_ids_of_every_type(tmp_path, src, dst, kind, row):
    opened = open_edges(parquet_of(tmp_path / "edges.parquet", {"src": src, "dst": dst}))
    assert types_of(opened) == {"src": kind, "dst": kind}
    assert rows_of(opened) == [row]


def test_uuids_in_slices_and_among_nulls(tmp_path):
    ids = [None if i % 3 == 0 else uuid.UUID(int=i * 2**100 + i) for i in range(20)]
    column = pa.array([i and i.bytes for i in ids], pa.uuid())
    source = parquet_of(tmp_path / "edges.parquet", {"src": column, "dst": column})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "SPLIT_ROWS", 7)
        assert rows_of(open_edges(source)) == [(i and str(i),) * 2 for i in ids]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"src": [1.5], "dst": [2.5]}, "column 'src' of .* is double; ids are integers, text, .*: cast it"),
        ({"src": [1], "dst": [True]}, "column 'dst' of .* is bool; ids are .*: cast it"),
        ({"src": [1], "dst": [[1]]}, "column 'dst' of .* is list<.*; ids are .*: cast it"),
        ({"src": [1], "dst": ["x"]}, r"columns 'src' and 'dst' of .* differ in type \(int64, string\): cast one of them"),
        ({"src": [datetime(2024, 1, 1)], "dst": [datetime(2024, 1, 1, tzinfo=UTC)]}, "differ in type"),
        ({"only": [1]}, "has 1 column, 'only'; edges need two, src and dst"),
        ({"src": pa.array([2**64 - 1], pa.uint64()), "dst": [1]}, f"holds {2**64 - 1}, beyond signed 64 bits: cast it to text"),
    ],
)
def test_ids_of_other_types_are_refused(tmp_path, columns, message):
    with pytest.raises(SourceError, match=message):
        open_edges(parquet_of(tmp_path / "edges.parquet", columns))


def test_values_that_do_not_fit_are_shown(tmp_path):
    large = pa.array([2**64 - 1], pa.uint64())
    source = parquet_of(tmp_path / "edges.parquet", {"src": large, "dst": large}, write_statistics=False)
    assert open_edges(source).span is None
    with pytest.raises(SourceError, match=f"column 'src' of .* holds {2**64 - 1}"):
        rows_of(open_edges(source))
    many = pa.array([Decimal(10**45)], pa.decimal256(50, 2))
    with pytest.raises(SourceError, match=r"column 'src' of .* does not fit decimal128\(38, 2\)"):
        rows_of(open_edges(parquet_of(tmp_path / "edges.parquet", {"src": many, "dst": many})))


def test_properties_of_every_type(tmp_path):
    day = datetime(2024, 1, 2, 3, tzinfo=UTC)
    columns = {
        "small": pa.array([1, None], pa.uint8()),
        "src": [1, 2],
        "dst": [2, 3],
        "half": pa.array([0.5, None], pa.float16()),
        "flag": [True, None],
        "label": pa.array(["a", None]).dictionary_encode(),
        "id": pa.array([ONE.bytes, None], pa.uuid()),
        "price": pa.array([Decimal("1.5"), None]),
        "at": pa.array([day, None], pa.timestamp("us", "Europe/Paris")),
        "raw": [b"x", None],
        "list": [[1], None],
        "struct": [{"a": 1}, None],
        "a.b": [7, None],
    }
    with pytest.warns(UserWarning, match="column 'list', 'struct' is left out: its type is nested"):
        opened = open_edges(parquet_of(tmp_path / "edges.parquet", columns))
    names = ["src", "dst", "small", "half", "flag", "label", "id", "price", "at", "raw", "a.b"]
    assert opened.schema.names == names
    assert [str(kind) for kind in opened.schema.types[2:7]] == ["int16", "float", "bool", "string", "string"]
    first, second = rows_of(opened)
    assert first == (1, 2, 1, 0.5, True, "a", str(ONE), Decimal("1.5"), day, b"x", 7)
    assert second == (2, 3, *[None] * 9)


def test_an_empty_table_has_a_schema_and_no_pieces(tmp_path):
    opened = open_edges(
        parquet_of(tmp_path / "edges.parquet", pa.schema([("src", pa.int64()), ("dst", pa.int64())]).empty_table())
    )
    assert (opened.rows, opened.span, rows_of(opened)) == (0, None, [])


def test_damaged_pages_are_told(tmp_path):
    source = parquet_of(tmp_path / "edges.parquet", {"src": list(range(1000)), "dst": list(range(1000))})
    content = bytearray(Path(source).read_bytes())
    content[4:2000] = bytes(1996)
    opened = open_edges(written(Path(source), bytes(content)))
    with pytest.raises(SourceError, match="cannot be read: "):
        rows_of(opened)
