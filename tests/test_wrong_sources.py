"""Wrong sources: every message is kept as a golden text, and says by itself what is wrong and what to write instead.

`python -m tests.test_wrong_sources` writes the golden texts anew: read what changed.
"""

from __future__ import annotations

import gzip
import re
import subprocess
import warnings
from contextlib import chdir
from dataclasses import dataclass, field
from io import BytesIO, TextIOWrapper
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bigjoin as bj
from bigjoin.errors import ReadingWarning
from tests.test_cli import BIGJOIN, run_here

GOLDEN = Path(__file__).with_name("wrong_sources.txt")
PAYMENTS = "relationship,payer,payee\npays,A1,B2\npays,B2,C3\n"


def parquet(**columns) -> bytes:
    sink = BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


@dataclass(frozen=True)
class Wrong:
    """A source for `bigjoin index NAME new OPTIONS`, or something that Python passes to Graph."""

    name: str
    content: bytes | str = ""
    options: tuple[str, ...] = ()
    further: dict[str, str] = field(default_factory=dict)


FILES = {
    "three columns and no ends": Wrong("payments.csv", PAYMENTS),
    "three columns, and two that share a type": Wrong("calls.csv", "note,caller,callee\nx,1,2\ny,2,3\n"),
    "an unknown src": Wrong("payments.csv", PAYMENTS, ("--src", "pyaer", "--dst", "payee")),
    "an unknown dst without a similar one": Wrong("payments.csv", PAYMENTS, ("--src", "payer", "--dst", "zzz")),
    "src alone": Wrong("payments.csv", PAYMENTS, ("--src", "payer")),
    "one column twice": Wrong("payments.csv", PAYMENTS, ("--src", "payer", "--dst", "2")),
    "a position out of range": Wrong("payments.csv", PAYMENTS, ("--src", "2", "--dst", "4")),
    "position zero": Wrong("payments.csv", PAYMENTS, ("--src", "0", "--dst", "1")),
    "a name without a header": Wrong("edges.txt", "1 2 5\n2 3 6\n", ("--src", "payer", "--dst", "payee")),
    "a name where there shall be no header": Wrong("payments.csv", PAYMENTS, ("--no-header", "--src", "payer", "--dst", "3")),
    "a header of the wrong columns": Wrong("two.csv", "ann,bob\nbob,cat\n", ("--columns", "src,dst")),
    "only a header": Wrong("edges.csv", "src,dst\n"),
    "only one line of words": Wrong("edges.csv", "ann,bob\n"),
    "too many names": Wrong("edges.txt", "1 2\n", ("--columns", "src,dst,weight")),
    "too few names": Wrong("edges.txt", "1 2 3\n", ("--columns", "src")),
    "a name given twice": Wrong("edges.txt", "1 2 3\n", ("--columns", "a,a,b")),
    "an unknown column": Wrong("edges.csv", "src,dst,w\n1,2,3\n", ("--columns", "src,dts")),
    "semicolons": Wrong("edges.csv", "src;dst;w\n1;2;0,5\n"),
    "semicolons and decimal commas": Wrong("edges.csv", "1;2;0,5\n2;3;0,25\n"),
    "pipes": Wrong("edges.csv", "src|dst\n1|2\n"),
    "semicolons in a text file": Wrong("edges.txt", "1;2\n2;3\n"),
    "a delimiter that is not there": Wrong("edges.csv", "src,dst\n1,2\n", ("--delimiter", ";")),
    "a long delimiter": Wrong("edges.csv", "src||dst\n1||2\n", ("--delimiter", "||")),
    "an unknown encoding": Wrong("edges.csv", "src,dst\n1,2\n", ("--encoding", "utf16x")),
    "the wrong encoding": Wrong("edges.csv", "src,dst\né,b\n".encode("latin-1"), ("--encoding", "ascii")),
    "UTF-16 with a mark": Wrong("edges.csv", "src,dst\n1,2\n".encode("utf-16")),
    "UTF-16 LE": Wrong("edges.csv", "src,dst\n1,2\n".encode("utf-16-le")),
    "UTF-16 BE": Wrong("edges.csv", "src,dst\n1,2\n".encode("utf-16-be")),
    "Latin-1": Wrong("edges.csv", "src,dst\nanné,bob\n".encode("latin-1")),
    "an empty file": Wrong("edges.csv", ""),
    "only comments": Wrong("edges.txt", "# nothing\n"),
    "one column": Wrong("edges.txt", "1\n2\n"),
    "one named column": Wrong("edges.csv", "person\nann\n"),
    "a line with too many fields": Wrong("edges.csv", "src,dst\n1,2\n3,4,5\n"),
    "NULL ids": Wrong("edges.csv", "src,dst\n1,2\n,3\n"),
    "a gzip file that is cut off": Wrong("edges.txt.gz", gzip.compress(b"1 2\n" * 5000, mtime=0)[:-9]),
    "a gzip file without its suffix": Wrong("edges.txt", gzip.compress(b"1 2\n", mtime=0)),
    "a Parquet file that is cut off": Wrong("edges.parquet", parquet(src=[1], dst=[2])[:-9]),
    "a Parquet file with the suffix of text": Wrong("edges.csv", parquet(src=[1], dst=[2])),
    "a zip archive": Wrong("edges.zip", b"PK\x03\x04"),
    "a spreadsheet with the suffix of text": Wrong("edges.csv", b"PK\x03\x04\x14\0"),
    "a compression that is not read": Wrong("edges.txt.zst", b"\x28\xb5\x2f\xfd"),
    "Parquet without ends": Wrong("p.parquet", parquet(when=[0.5], payer=["a"], payee=["b"])),
    "Parquet with a delimiter": Wrong("edges.parquet", parquet(src=[1], dst=[2]), ("--delimiter", ";")),
    "Parquet with a header": Wrong("edges.parquet", parquet(src=[1], dst=[2]), ("--header",)),
    "float ids": Wrong("edges.parquet", parquet(src=[1.5], dst=[2.5])),
    "bool ids": Wrong("edges.parquet", parquet(src=[True], dst=[False])),
    "ids of two types": Wrong("edges.parquet", parquet(src=[1], dst=["b"])),
    "NULL ids in Parquet": Wrong("edges.parquet", parquet(src=[1, None], dst=[2, 3])),
    "JSON without ends": Wrong("edges.json", '{"when": 0.5, "payer": "a", "payee": "b"}\n'),
    "JSON with lists for ids": Wrong("edges.json", '{"src": [1], "dst": 2}\n'),
    "JSON that is not objects": Wrong("edges.json", "[1, 2]\n"),
    "JSON of several types": Wrong("edges.jsonl", '{"src": 1, "dst": 2}\n{"src": "x", "dst": 2}\n'),
    "JSON without some ids": Wrong("edges.jsonl", '{"src": 1, "dst": 2}\n{"src": 3}\n'),
    "JSON that is cut off": Wrong("edges.json", '[{"src": 1, "dst": 2},\n{"src": 1'),
    "empty JSON": Wrong("edges.json", ""),
    "JSON with a header": Wrong("edges.json", '{"src": 1, "dst": 2}\n', ("--no-header",)),
    "no such file": Wrong("nowhere.txt", "1 2\n", further={"remove": "nowhere.txt"}),
    "vertices without an id": Wrong(
        "edges.txt", "1 2\n", ("--vertices", "people.csv"), {"people.csv": "account,age\n1,35\n2,40\n"}
    ),
    "vertices with an unknown id": Wrong(
        "edges.txt", "1 2\n", ("--vertices", "people.csv", "--id", "acount"), {"people.csv": "account,age\n1,35\n2,40\n"}
    ),
    "vertices with semicolons": Wrong("edges.txt", "1 2\n", ("--vertices", "people.csv"), {"people.csv": "id;age\n1;35\n"}),
}

COMMANDS = {
    "an index at a URL that nothing opens": ["index", "edges.txt", "nothing://bucket/idx"],
    "an index at a URL with credentials": ["index", "edges.txt", "s3://key:secret@bucket/idx"],
    "results at a URL that nothing opens": ["find", "triangle", "edges.txt", "-o", "nothing://bucket/out.csv"],
    "updates at a URL": ["watch", "triangle", "i", "--updates", "s3://bucket/updates", "--once"],
    "matches at a URL": ["watch", "triangle", "i", "--updates", ".", "--output", "nothing://bucket/out", "--once"],
    "information about a URL": ["info", "memory://bucket/idx"],
    "standard input twice": ["index", "-", "new", "--vertices", "-"],
    "empty standard input": ["index", "-", "new"],
    "how an index is read": ["count", "triangle", "i", "--src", "a", "--dst", "b"],
    "a relation of unknown columns": ["count", "q(a,b) := r(a,b)", "--relation", "r=edges.csv", "--src", "x", "--dst", "y"],
    "a delimiter that a relation lacks": ["count", "q(a,b) := r(a,b)", "--relation", "r=edges.csv", "--delimiter", ";"],
}

PAIR = pa.table({"src": [1], "dst": [2]})
OBJECTS = {
    "a list of triples": lambda: bj.Graph([(1, 2, 5)]),
    "a list of numbers": lambda: bj.Graph([1, 2, 3]),
    "a list of words": lambda: bj.Graph(["ab", "bc"]),
    "rows of two widths": lambda: bj.Graph([(1, 2), (1, 2, 3)]),
    "values of two types": lambda: bj.Graph([(1, 2), ("a", 3)]),
    "more names than values": lambda: bj.Graph([(1, 2, 5)], columns=["src", "dst", "a", "b"]),
    "an array of three columns": lambda: bj.Graph(np.zeros((4, 3), int)),
    "an array of one dimension": lambda: bj.Graph(np.arange(4)),
    "an array of floats": lambda: bj.Graph(np.zeros((4, 2))),
    "columns of two lengths": lambda: bj.Graph({"src": [1, 2], "dst": [3]}),
    "a number": lambda: bj.Graph(5),
    "None": lambda: bj.Graph(None),
    "dictionaries without ends": lambda: bj.Graph([{"a": 1, "b": 2, "c": 3}]),
    "a frame with a column twice": lambda: bj.Graph(pd.DataFrame([[1, 2, 3]], columns=["src", "dst", "src"])),
    "a frame of many columns": lambda: bj.Graph(pd.DataFrame({"payer": [1], "payee": [2], "amount": [0.5]})),
    "a frame with a header": lambda: bj.Graph(PAIR, header=True),
    "src that is no column": lambda: bj.Graph(PAIR, src=["src"]),
    "columns as one text": lambda: bj.Graph(PAIR, columns="src,dst"),
    "two tables of edges": lambda: bj.Graph(PAIR, PAIR),
    "a misspelt argument of Graph": lambda: bj.Graph(PAIR, direced=False),
    "a misspelt argument of Relations": lambda: bj.Relations({"r": PAIR}, delimeter=";"),
    "a misspelt argument of build_index": lambda: bj.build_index(PAIR, "i", shard=2),
    "relations without names": lambda: bj.Relations([PAIR]),
    "a relation of unknown columns": lambda: bj.Relations({"r": PAIR}, src="a", dst="b").schema("r"),
    "an index at a URL that nothing opens": lambda: bj.build_index(PAIR, "nothing://bucket/idx"),
    "the index of a URL": lambda: bj.Graph.open("memory://bucket/idx"),
}


def prepared(folder: Path, wrong: Wrong) -> None:
    for name, content in {wrong.name: wrong.content, **wrong.further}.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    if "remove" in wrong.further:
        (folder / wrong.further["remove"]).unlink()


def message_of_file(name: str, folder: Path) -> str:
    wrong = FILES[name]
    prepared(folder, wrong)
    before = sorted(folder.iterdir())
    done = run_here("index", wrong.name, "new", *wrong.options, cwd=folder)
    assert (done.returncode, done.stdout) == (2, ""), done
    assert sorted(folder.iterdir()) == before
    return done.stderr


def message_of_command(name: str, folder: Path) -> str:
    (folder / "edges.txt").write_text("1 2\n")
    (folder / "edges.csv").write_text("p,q,r\n1,2,3\n")
    bj.build_index(PAIR, folder / "i")
    before = sorted(folder.iterdir())
    with mock.patch("sys.stdin", TextIOWrapper(BytesIO())):
        done = run_here(*COMMANDS[name], cwd=folder)
    assert (done.returncode, done.stdout) == (2, ""), done
    assert sorted(folder.iterdir()) == before
    return done.stderr


def message_of_object(name: str, folder: Path) -> str:
    with chdir(folder), pytest.raises(bj.BigjoinError) as raised:
        OBJECTS[name]()
    assert list(folder.iterdir()) == []
    return f"{type(raised.value).__name__}: {raised.value}\n"


GROUPS = {"file": (FILES, message_of_file), "command": (COMMANDS, message_of_command), "object": (OBJECTS, message_of_object)}
NAMES = [(group, name) for group, (wrong, _) in GROUPS.items() for name in wrong]


def said(group: str, name: str, folder: Path) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadingWarning)
        message = GROUPS[group][1](name, folder)
    return re.sub(r"\AUsage: .*\nTry .*\n\n|" + re.escape(str(folder)) + "/?", "", message)


@pytest.mark.parametrize(("group", "name"), NAMES, ids=[f"{group}: {name}" for group, name in NAMES])
def test_the_message_is_the_golden_one(group, name, tmp_path):
    golden = dict(re.findall(r"^## (.*)\n((?:(?!## ).*\n)*)", GOLDEN.read_text(), re.MULTILINE))
    message = said(group, name, tmp_path)
    assert message == golden[f"{group}: {name}"].rstrip("\n") + "\n", "run `python -m tests.test_wrong_sources`"
    assert "Traceback" not in message


def test_there_is_no_traceback_from_the_program(tmp_path):
    prepared(tmp_path, FILES["three columns and no ends"])
    command = [str(BIGJOIN), "count", "triangle", "payments.csv"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def write_golden() -> None:
    parts = []
    for group, name in NAMES:
        with TemporaryDirectory() as folder:
            parts.append(f"## {group}: {name}\n{said(group, name, Path(folder))}")
    GOLDEN.write_text("\n".join(parts))


if __name__ == "__main__":
    write_golden()
