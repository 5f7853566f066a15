"""Rows that cannot be read are refused with a sentence, left out, or written aside exactly once; columns are checked before."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bigjoin as bj
from bigjoin.changing_verbs import monitor_of
from bigjoin.errors import BigjoinError, ReadingWarning, SourceError
from bigjoin.index import writer
from bigjoin.index.directory import Index
from bigjoin.index.manifest_file import read_manifest
from bigjoin.index.stage_runner import in_turn
from bigjoin.index.writer import verify
from bigjoin.indexing import build_index
from bigjoin.languages import parse
from bigjoin.streaming.monitor import Monitor
from bigjoin.streaming.update_columns import UpdateColumns
from bigjoin.streaming.update_files import watch_folder
from bigjoin.streaming.watched import Watched, watchable
from bigjoin.streaming.window import Window
from tests.power import JournaledDisk, listen
from tests.test_cli import refused, run_here
from tests.test_exactly_once import Doomed

PAIRS = "q(a, b) := edge(a, b)"
TRIANGLE = "q(a, b, c) := edge(a, b), edge(b, c), edge(a, c)"


def edges_of(path: Path) -> list[tuple]:
    """The edges of an index, with their amounts if they have any, by way of the public API."""
    graph = bj.Graph.open(path)
    has_amount = "amount" in graph.index.statistics.properties.get("edge edge", {})
    query = "q(a, b, e.amount) := edge(a, b, e)" if has_amount else PAIRS
    return sorted(map(tuple, (row.values() for row in graph.arrow(query, strategy="local").read_all().to_pylist())), key=str)


# Random mixes of good and bad rows

INT_IDS = {"3": 3, "0": 0, "-7": -7, "12": 12, "5": 5}
BAD_IDS = ("x", "007", "+1", "1.5", "", " 3", "-0", "99999999999999999999")
INSERTS, DELETES, BAD_SIGNS = ("+", "insert", " Insert", "1", "+1"), ("-", "delete", "-1", "DELETE"), ("?", "", "upsert", "0")


def drawn_row(random: Random) -> tuple[dict, str | None]:
    """A row as text, and which column is bad first, if one is."""
    row = {
        "src": random.choice([*INT_IDS]),
        "dst": random.choice([*INT_IDS]),
        "op": random.choice([*INSERTS, *DELETES]),
        "relation": random.choice(["edge", "knows"]),
        "at": random.randrange(50),
    }
    bad = random.choice([None, None, "src", "dst", "op", "relation", "at"])
    wrong = {
        "src": (None, *BAD_IDS),
        "dst": (None, *BAD_IDS),
        "op": (None, *BAD_SIGNS),
        "relation": (None, "likes"),
        "at": (None,),
    }
    if bad is not None:
        row[bad] = random.choice(wrong[bad])
    return row, bad


def sorted_out(rows: list[tuple[dict, str | None]], held: dict[str, set], *, ordered: bool) -> dict[str, int]:
    """Apply the good rows to sets of pairs; return what became of them."""
    good = [row for row, bad in rows if bad is None or (bad == "at" and not ordered)]
    if ordered:
        good.sort(key=lambda row: row["at"])
    else:
        good.sort(key=lambda row: row["op"] not in DELETES)
    before = {name: set(pairs) for name, pairs in held.items()}
    for row in good:
        pair = INT_IDS[row["src"]], INT_IDS[row["dst"]]
        (held[row["relation"]].discard if row["op"] in DELETES else held[row["relation"]].add)(pair)
    inserted = sum(len(held[name] - before[name]) for name in held)
    deleted = sum(len(before[name] - held[name]) for name in held)
    return {"updates": len(rows), "bad": len(rows) - len(good), "inserted": inserted, "deleted": deleted}


@pytest.mark.parametrize("ordered", [False, True])
def test_good_rows_are_applied_and_bad_ones_counted(tmp_path, ordered):
    random = Random(17 + ordered)
    held: dict[str, set] = {"edge": {(3, 5), (5, 12)}, "knows": {(0, 3)}}
    relations = {name: pa.table({"src": [a for a, _ in pairs], "dst": [b for _, b in pairs]}) for name, pairs in held.items()}
    build_index(relations, tmp_path / "index")
    graph = bj.Graph.open(tmp_path / "index")
    kinds = pa.schema([(name, pa.int64() if name == "at" else pa.string()) for name in ("src", "dst", "op", "relation", "at")])
    for _ in range(60):
        rows = [drawn_row(random) for _ in range(random.randrange(1, 12))]
        table = pa.Table.from_pylist([row for row, _ in rows], schema=kinds)
        expected = sorted_out(rows, held, ordered=ordered)
        epoch = graph.apply(table, order="at" if ordered else None, on_bad_row="skip")
        fate = vars(epoch.fate)
        assert {name: fate[name] for name in expected} == expected
        effects = ("inserted", "deleted", "present", "absent", "cancelled", "loops", "late", "bad")
        assert sum(fate[name] for name in effects) == fate["updates"]
    for name, pairs in held.items():
        found = graph.arrow(f"q(a, b) := {name}(a, b)", strategy="local").read_all().to_pylist()
        assert {(row["a"], row["b"]) for row in found} == pairs


AMOUNTS = {"5": 5, "-3": -3, "0": 0, None: None}
BAD_AMOUNTS = ("many", "12.5", "", "1e3", "9223372036854775808")


def test_properties_that_cannot_be_cast_make_a_row_bad(tmp_path):
    random = Random(5)
    rows: Counter = Counter({(1, 2, 7): 1})
    build_index(pa.table({"src": [1], "dst": [2], "amount": [7]}), tmp_path / "index")
    graph = bj.Graph.open(tmp_path / "index")
    for number in range(1, 31):
        drawn = [(random.randrange(4), random.randrange(4), random.choice([*AMOUNTS, *BAD_AMOUNTS])) for _ in range(8)]
        good = [(a, b, AMOUNTS[amount]) for a, b, amount in drawn if amount in AMOUNTS]
        rows.update(good)
        table = pa.table(
            [*zip(*drawn, strict=True)], schema=pa.schema([("src", pa.int64()), ("dst", pa.int64()), ("amount", pa.string())])
        )
        epoch = graph.apply(table.append_column("op", pa.array(["+"] * 8)), on_bad_row="skip")
        assert (epoch.number, epoch.fate.bad, epoch.fate.inserted) == (number, 8 - len(good), len(good))
    assert Counter(edges_of(tmp_path / "index")) == rows


# Sentences

GRAPH = pa.table({"src": [1, 2], "dst": [2, 3], "amount": [5, 6], "day": pa.array([0, 1], pa.date32())})


def updates(**columns) -> pa.Table:
    return pa.table({"src": [3, 1, 2], "dst": [1, 4, 4], "op": ["+", "+", "+"], "amount": [1, 2, 3]} | columns)


TODO = "; nothing of epoch 1 is applied: correct it, or leave out such rows with --on-bad-row skip or quarantine (on_bad_row=)"


@pytest.mark.parametrize(
    ("table", "options", "sentence"),
    [
        (updates(dst=[1, None, 4]), {}, "column 'dst' of the table of updates is NULL in row 2: an edge has two ends"),
        (
            updates(src=["3", "007", "x"]),
            {},
            "column 'src' of the table of updates is string, and the ids of the graph are int64: cast it; row 2 has '007'; 1 "
            "more row is bad",
        ),
        (
            updates(op=["+", None, None]),
            {},
            "column 'op' of the table of updates is NULL in row 2; it says + or -, insert or delete, 1 or -1, or = to replace "
            "properties; 1 more row is bad",
        ),
        (
            updates(relation=["edge", "edge", "edgy"]),
            {},
            "the table of updates names the relation 'edgy' in row 3, which does not exist: did you mean 'edge'?",
        ),
        (updates(relation=["edge", None, "edge"]), {}, "column 'relation' of the table of updates is NULL in row 2"),
        (
            updates(amount=["1", "2", "many"]),
            {},
            "column 'amount' of the table of updates does not fit int64: row 3 has 'many'",
        ),
        (
            updates(t=[1, 2, None]),
            {"order": "t"},
            "column 't' of the table of updates is NULL in row 3: updates are ordered by it",
        ),
    ],
)
def test_an_epoch_with_a_bad_row_is_refused_with_the_row_and_what_to_do(table, options, sentence):
    with bj.Graph(GRAPH) as graph:
        with pytest.raises(SourceError) as raised:
            graph.apply(table, **options)
        assert str(raised.value) == sentence + TODO
        assert graph.index.epoch == 0
        epoch = graph.apply(table, on_bad_row="skip", **options)
        assert epoch.fate.bad == (2 if "1 more row" in sentence else 1)
        assert f"{epoch.fate.bad} bad" in repr(epoch)


@pytest.mark.parametrize("mode", ["fail", "skip"])
@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (updates().drop_columns(["src"]), "has no columns src and dst; its columns are: dst, op, amount; if others are meant"),
        (updates(src=[1.5, 2.0, 3.0]), "column 'src' of .* is double; ids are integers"),
        (
            updates(src=pa.array([1, 2, 3], pa.date32())),
            r"column 'src' of .* is date32\[day\], and the ids of the graph are int64",
        ),
        (updates(op=[True, True, False]), "column 'op' of .* is bool; it says"),
        (updates(relation=[1, 1, 1]), "column 'relation' of .* is int64, and names of relations are text"),
        (
            updates(day=[True, True, True]),
            r"column 'day' of .* is bool, and that of the graph is date32\[day\]: cast it",
        ),
        (updates(amount=[[1], [2], [3]]), "column 'amount' of .* is list<.*, and that of the graph is int64: cast it"),
        (updates(from_=[1, 2, 3]).rename_columns(["src", "dst", "op", "amount", "FROM"]), None),
        (
            updates(source=[1, 2, 3], target=[1, 2, 3]),
            "columns src and dst, and also source and target: say .* --src src --dst dst",
        ),
        (updates(OP=["+"] * 3).rename_columns(["src", "dst", "Op", "amount", "OP"]), "'Op' and 'OP': say which has .* --op Op"),
    ],
)
def test_columns_that_cannot_be_updates_are_refused_whatever_becomes_of_rows(table, sentence, mode):
    with bj.Graph(GRAPH) as graph:
        if sentence is None:
            with pytest.warns(UserWarning, match="FROM: the edges of the graph have no such column"):
                assert graph.apply(table, on_bad_row=mode).fate.inserted == 3
            return
        with pytest.raises(SourceError, match=sentence):
            graph.apply(table, on_bad_row=mode)
        assert graph.index.epoch == 0


@pytest.mark.parametrize("text", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
def test_text_may_be_of_any_kind_and_in_pieces(text):
    ids, signs = ["3", None, "x", "4"], ["+", "+", "insert", "?"]
    table = pa.table({"src": pa.array(ids, text), "dst": pa.array(["1", "1", "1", "1"], text), "op": pa.array(signs, text)})
    table = table.append_column("relation", pa.array(["edge"] * 4, text)).append_column(
        "amount", pa.array(["5", "y", "5", "5"], text)
    )
    with bj.Graph(GRAPH) as graph:
        assert graph.apply(table, on_bad_row="skip").fate.bad == 3
        fate = graph.apply(pa.concat_tables([table, table.slice(1), table.slice(0, 1)]), on_bad_row="skip").fate
        assert (fate.bad, fate.inserted) == (6, 2)


def test_columns_can_be_named():
    given = pa.table({"payer": [3, 1], "payee": [1, 2], "what": ["+", "-"], "src": ["a", "b"]})
    with bj.Graph(pa.table({"src": [1], "dst": [2]})) as graph:
        epoch = graph.apply(given, PAIRS, src="payer", dst="payee", op="what")
        assert (epoch.created, epoch.destroyed) == (1, 1)
        assert graph.apply(given.rename_columns(["payer", "Dst", "Op", "note"]), PAIRS, src="payer").fate.present == 1
        for named, sentence in [
            ({"src": "payr", "dst": "payee"}, "no column 'payr' for src; did you mean 'payer'?"),
            ({"src": "payer"}, r"src of .* is 'payer': say which column is dst, too, with --dst \(dst=\)"),
            ({"src": "payer", "dst": "payer"}, "'payer' of updates is named twice"),
            ({"src": "payer", "dst": "payee", "op": 3}, "op is 3; give the name of a column"),
        ]:
            with pytest.raises(SourceError, match=sentence):
                graph.apply(given, **named)


def test_a_property_is_not_taken_for_an_end():
    with bj.Graph(pa.table({"src": [1], "dst": [2], "source": [1], "target": [1]})) as graph:
        table = pa.table({"src": [3], "dst": [4], "source": [5], "target": [6], "op": ["+"]})
        assert graph.apply(table, PAIRS).table.to_pylist()[0] | {"a": 3, "b": 4} == graph_row(3, 4)


def graph_row(a, b):
    return {"epoch": 1, "change": 1, "a": a, "b": b}


def test_updates_without_op_are_insertions_and_that_is_said_once():
    with bj.Graph(pa.table({"src": [1], "dst": [2]})) as graph:
        with pytest.warns(ReadingWarning, match="has no column 'op', so every row is an insertion"):
            graph.apply(pa.table({"src": [1, 2], "dst": [2, 3]}))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            graph.apply(pa.table({"src": [4], "dst": [2]}))
        assert graph.count(PAIRS, strategy="local") == 3


def test_bad_rows_are_kept_only_where_there_is_a_folder():
    with bj.Graph(GRAPH) as graph:
        with pytest.raises(BigjoinError, match=r"give one \(output=, --output\) with on_bad_row='quarantine'"):
            graph.apply(updates(), on_bad_row="quarantine")
        with pytest.raises(BigjoinError, match="on_bad_row is 'skipp'; did you mean 'skip'"):
            graph.apply(updates(), on_bad_row="skipp")


# Whole numbers become doubles


@pytest.mark.parametrize("compacted", [False, True])
def test_whole_numbers_become_doubles_when_one_has_a_fraction(tmp_path, compacted):
    largest = 2**60  # a double is equal to it
    build_index(pa.table({"src": [1, 2], "dst": [2, 3], "amount": [5, largest], "n": [1, 2]}), tmp_path / "index")
    graph = bj.Graph.open(tmp_path / "index")
    query = "q(a, b, e.amount) := edge(a, b, e)"
    graph.apply(pa.table({"src": [7], "dst": [8], "op": ["+"], "amount": [12.0], "n": [4]}), query)
    assert graph.index.statistics.properties["edge edge"] == {"amount": "int64", "n": "int64"}
    if compacted:
        assert graph.count(query, strategy="local") == 3
    with pytest.warns(ReadingWarning, match="'amount': the column of the graph had whole numbers, and is double from now on"):
        epoch = graph.apply(
            pa.table({"src": [3, 4], "dst": [1, 1], "op": ["+", "+"], "amount": [12.5, 3.0], "n": [3, 3]}), query
        )
    assert (epoch.number, epoch.count) == (2, 5)
    assert sorted(row["e_amount" if "e_amount" in row else "e.amount"] for row in epoch.table.to_pylist()) == [3.0, 12.5]
    assert graph.index.statistics.properties["edge edge"] == {"amount": "double", "n": "int64"}
    assert edges_of(tmp_path / "index") == sorted(
        [(1, 2, 5.0), (2, 3, float(largest)), (7, 8, 12.0), (3, 1, 12.5), (4, 1, 3.0)], key=str
    )
    verify(Index.open(tmp_path / "index"))
    odd = pa.table({"src": [9, 9], "dst": [1, 2], "op": ["+", "+"], "amount": [2**53 + 1, 4], "n": [3, 3]})
    with pytest.raises(SourceError, match="does not fit double: row 1 has 9007199254740993"):
        graph.apply(odd, query)
    assert graph.apply(odd, query, on_bad_row="skip").fate.bad == 1
    epoch = graph.apply(pa.table({"src": [3], "dst": [1], "op": ["-"], "amount": [12.5]}), query)
    assert (epoch.destroyed, epoch.count) == (1, 5)


@pytest.mark.parametrize("inexact", [2**53 + 1, 2**63 - 1, -(2**62) - 1])
def test_a_whole_number_that_no_double_is_equal_to_stays(tmp_path, inexact):
    build_index(pa.table({"src": [1, 2], "dst": [2, 3], "amount": [5, inexact]}), tmp_path / "index")
    graph = bj.Graph.open(tmp_path / "index")
    table = pa.table({"src": [3, 4], "dst": [1, 1], "op": ["+", "+"], "amount": [12.5, 12.0]})
    with pytest.raises(
        SourceError, match=f"row 1 has 12.5; the column cannot become double, as an edge has {inexact}, which no"
    ):
        graph.apply(table, PAIRS)
    assert graph.apply(table, PAIRS, on_bad_row="skip").fate.bad == 1
    assert edges_of(tmp_path / "index") == sorted([(1, 2, 5), (2, 3, inexact), (4, 1, 12)], key=str)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("u.csv", "src,dst,amount\n3,1,12.5\n4,1,{}\n"),
        ("u.json", '{{"src": 3, "dst": 1, "amount": 12.5}}\n{{"src": 4, "dst": 1, "amount": {}}}\n'),
    ],
)
def test_a_fraction_in_a_file_does_not_round_the_whole_numbers_beside_it(tmp_path, name, content):
    build_index(GRAPH, tmp_path / "index")
    graph = bj.Graph.open(tmp_path / "index")
    (tmp_path / name).write_text(content.format(2**53 + 1))
    with pytest.raises(SourceError, match=r"has numbers with a fraction and others from 2\^53 on, which would be rounded"):
        graph.apply(tmp_path / name, on_bad_row="skip")
    (tmp_path / name).write_text(content.format(2**53 - 1))
    with pytest.warns(ReadingWarning):
        assert graph.apply(tmp_path / name).fate.inserted == 2
    assert {row[2] for row in edges_of(tmp_path / "index")} == {5.0, 6.0, 12.5, float(2**53 - 1)}


def test_an_epoch_that_is_refused_widens_nothing(tmp_path):
    build_index(GRAPH, tmp_path / "index")
    graph = bj.Graph.open(tmp_path / "index")
    with pytest.raises(SourceError, match="is NULL in row 1"):
        graph.apply(updates(src=[None, 1, 2], amount=[0.5, 1.5, 2.5]))
    with pytest.raises(SourceError, match="is 'x' in row 1"):
        graph.apply(updates(op=["x", "+", "+"], amount=[0.5, 1.0, 2.0]))
    assert graph.apply(updates(op=["x", "+", "+"], amount=[0.5, 1.0, 2.0]), on_bad_row="skip").fate.bad == 1
    assert Index.open(tmp_path / "index").statistics.properties["edge edge"]["amount"] == "int64"


def test_the_times_of_a_window_become_doubles(tmp_path):
    build_index(pa.table({"src": [1, 2], "dst": [2, 3], "t": [0, 6]}), tmp_path / "index")
    watching = Monitor(
        tmp_path / "index",
        {"q": Watched(parse(PAIRS))},
        spark=None,
        initial=lambda *_: 2,
        window=Window("t", 5),
        strategy="local",
        note=lambda text: None,
    )
    expected = [
        ({"src": [7], "dst": [8], "t": [6]}, 2),
        ({"src": [8], "dst": [9], "t": [10.5]}, 3),
        ({"src": [4], "dst": [4], "t": [11]}, 2),
    ]
    for columns, count in expected:  # what is 5 or more behind the latest is gone
        assert watching.apply(pa.table(columns | {"op": ["+"]})).count == count
    assert Index.open(tmp_path / "index").statistics.properties["edge edge"] == {"t": "double"}


@pytest.mark.parametrize("sync", ["group", "none"])
def test_epochs_that_wait_are_durable_before_a_column_is_widened(tmp_path, sync, monkeypatch):
    monkeypatch.setattr("bigjoin.streaming.monitor.GROUP_SECONDS", 1000.0)
    build_index(GRAPH, tmp_path / "index")
    graph = bj.Graph.open(tmp_path / "index")
    first = graph.apply(updates(), PAIRS, sync=sync)
    second = graph.apply(updates(src=[10, 11, 12]), PAIRS, sync=sync)
    with pytest.warns(ReadingWarning, match="double from now on"):
        third = graph.apply(updates(src=[20, 21, 22], amount=[0.5, 1.0, 2.0]), PAIRS, sync=sync)
    assert (first.durable, second.durable) == (True, True)
    graph.apply(updates(src=[30, 31, 32], amount=[0.5, 1.0, 2.0]), PAIRS, sync=sync)
    graph.flush()
    assert third.durable
    assert (Index.open(tmp_path / "index").epoch, len(edges_of(tmp_path / "index"))) == (4, 14)


# Exactly once

EDGES = [(a, (a + d) % 9, a) for a in range(9) for d in (1, 3)]
EPOCHS: list[list[tuple]] = [
    [("+", "0", "2", 1.0), ("+", "1", "x", 1.0), ("+", None, "3", 1.0), ("+", "2", "4", 2.0)],
    [("-", "0", "1", None), ("+", "4", "6", 3.0), ("+", "3", "5", 3.0)],
    [("?", "5", "5", 1.0), ("+", "5", "7", 12.5), ("+", "007", "7", 1.0), ("-", "0", "3", None)],
    [("+", "y", "y", 0.5), ("+", "y", "z", 0.5)],
]
"""With bad rows, without, with some and a fraction, and with nothing else."""
BAD_NUMBERS = {1: [2, 3], 3: [1, 3], 4: [1, 2]}


def good(update: tuple) -> bool:
    sign, src, dst, _ = update
    return sign in "+-" and all(end is not None and end.isdigit() and str(int(end)) == end for end in (src, dst))


def state(epochs: int) -> list[tuple]:
    rows = [tuple(edge) for edge in EDGES]
    for updates_ in EPOCHS[:epochs]:
        gone = {(int(src), int(dst)) for sign, src, dst, _ in filter(good, updates_) if sign == "-"}
        rows = [row for row in rows if row[:2] not in gone]
        rows += [(int(src), int(dst), amount) for sign, src, dst, amount in filter(good, updates_) if sign == "+"]
    return sorted(((a, b, float(amount)) for a, b, amount in rows), key=str)


def triangles(rows: list[tuple]) -> int:
    pairs = {row[:2] for row in rows}
    return sum((b, c) in pairs and (a, c) in pairs for a, b in pairs for c in range(9))


class Place:
    """An index, updates in files, and an output with bad rows beside it."""

    def __init__(self, path: Path) -> None:
        self.path, self.index, self.updates, self.output = path, path / "index", path / "updates", path / "out"

    def build(self) -> None:
        self.updates.mkdir(parents=True)
        build_index(pa.table([*zip(*EDGES, strict=True)], names=["src", "dst", "amount"]), self.index)
        for number, rows in enumerate(EPOCHS, 1):
            columns = dict(zip(("op", "src", "dst", "amount"), zip(*rows, strict=True), strict=True))
            kinds = [pa.string(), pa.string(), pa.string(), pa.float64()]
            table = pa.table([pa.array(c, kind) for c, kind in zip(columns.values(), kinds, strict=True)], names=[*columns])
            pq.write_table(table, self.updates / f"{number:03}.parquet")

    def watch(self) -> None:
        watching = Monitor(
            self.index,
            {"q": Watched(parse(TRIANGLE))},
            spark=None,
            initial=lambda *_: triangles(state(0)),
            output=self.output,
            strategy="local",
            on_bad_row="quarantine",
            note=lambda text: None,
        )
        watch_folder(watching, self.updates, once=True)

    def check(self, *, finished: bool) -> int:
        """Check that committed epochs are whole, but perhaps for the output of the last, and return how many there are."""
        committed = read_manifest(self.index).epoch
        folders = {int(f.name.partition("=")[2]): f for f in (self.output / "_quarantine").glob("epoch=*")}
        lines = (
            [json.loads(line) for line in counts.read_text().splitlines()]
            if (counts := self.output / "_counts.jsonl").exists()
            else []
        )
        assert [line["epoch"] for line in lines] == list(range(1, len(lines) + 1))
        assert committed - (not finished) <= len(lines) <= committed
        seen = {epoch for epoch in BAD_NUMBERS if epoch <= len(lines)}
        assert seen <= folders.keys() <= {epoch for epoch in BAD_NUMBERS if epoch <= committed}
        for epoch, folder in folders.items():
            bad = pq.read_table(folder, partitioning=None).to_pylist()
            assert [row["number"] for row in bad] == BAD_NUMBERS[epoch]
            assert {row["source"] for row in bad} == {str(self.updates / f"{epoch:03}.parquet")}
            rows = [tuple(json.loads(row["row"]).values()) for row in bad]
            assert rows == [EPOCHS[epoch - 1][number - 1] for number in BAD_NUMBERS[epoch]]
        for line in lines:
            assert line["bad"] == len(BAD_NUMBERS.get(line["epoch"], ()))
            assert line["count"] == triangles(state(line["epoch"]))
            assert (self.output / f"epoch={line['epoch']}").is_dir()
        return committed


def test_what_is_written_of_bad_rows(tmp_path):
    place = Place(tmp_path / "place")
    place.build()
    place.watch()
    assert place.check(finished=True) == len(EPOCHS)
    assert edges_of(place.index) == state(len(EPOCHS))
    bad = pq.read_table(place.output / "_quarantine", partitioning=None)
    assert bad.schema.names == ["reason", "row", "source", "number"]
    assert bad["reason"].to_pylist()[:3] == [
        "column 'dst' is 'x', and the ids of the graph are int64",
        "column 'src' is NULL: an edge has two ends",
        bad["reason"][2].as_py(),
    ]
    assert bad["reason"][2].as_py().startswith("column 'op' is '?'; it says + or -")
    assert not (place.output / "_staging").exists() or not list((place.output / "_staging").rglob("*.parquet"))
    shown = pq.read_table(place.output)  # readers of tables see matches alone
    assert {"a", "b", "c", "change"} <= set(shown.schema.names)
    assert "reason" not in shown.schema.names


def test_several_queries_share_the_bad_rows(tmp_path):
    place = Place(tmp_path / "place")
    place.build()
    graph = bj.Graph.open(place.index)

    def watching(names):
        return monitor_of(
            graph,
            watchable(dict.fromkeys(names, TRIANGLE), {}, listing=True),
            {"strategy": "local", "workers": None, "batch_size": None},
            output=place.output,
            on_bad_row="quarantine",
        )

    with pytest.raises(BigjoinError, match="'_quarantine' is a folder of the output: give the query another name"):
        watching(["one", "_quarantine"])
    monitor = watching(["one", "other"])
    monitor.note = lambda text: None
    watch_folder(monitor, place.updates, once=True)
    for name in ("one", "other"):
        assert sorted(f.name for f in (place.output / name).iterdir()) == [f"epoch={n}" for n in range(1, 5)]
    assert sorted(f.name for f in (place.output / "_quarantine").iterdir()) == [f"epoch={n}" for n in sorted(BAD_NUMBERS)]
    assert monitor.live.index.manifest.publications
    monitor.finish()
    assert not read_manifest(place.index).publications


def serve() -> None:
    """Watch in forks of this process, each killed at the step that is asked for."""
    os.fsync = os.fdatasync = lambda descriptor: None
    writer.in_threads = in_turn
    for line in sys.stdin:
        path, at = json.loads(line)
        child = os.fork()
        if not child:
            if at:
                Doomed(at, cleaning=False)
            Place(Path(path)).watch()
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)  # noqa: T201


@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_again_and_again_bad_rows_are_written_once(tmp_path, stride):
    """From the first step to the last: each process gets a few steps further than the one before it."""
    place, done = Place(tmp_path / "place"), []
    place.build()
    command = [sys.executable, "-c", "from tests.test_bad_rows import serve; serve()"]
    root = Path(__file__).parents[1]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        for at in range(1, 2000, stride):
            process.stdin.write(json.dumps([str(place.path), at]) + "\n")
            process.stdin.flush()
            status = int(process.stdout.readline())
            assert status in (0, -signal.SIGKILL)
            done.append(place.check(finished=status == 0))
            if status == 0:
                break
        process.stdin.close()
    assert status == 0
    assert len(done) > 45 // stride
    assert done == sorted(done)
    assert set(done) == set(range(len(EPOCHS) + 1))
    assert edges_of(place.index) == state(len(EPOCHS))


@pytest.mark.slow
def test_a_power_failure_neither_loses_nor_doubles_a_bad_row(tmp_path, monkeypatch):
    """Before every step that touches the disk, look at what a failure could leave there, and go on from it."""
    place, random, tried = Place(tmp_path / "place"), Random(3), 0
    place.build()
    disk = JournaledDisk(place.path)
    failing = True

    def fail() -> None:
        nonlocal tried, failing
        tried += 1
        if not failing or tried % 4:
            return
        failing = False  # what goes on from there is not interrupted
        left = tmp_path / "left"
        disk.failed(left, random)
        after = Place(left)
        after.updates = place.updates
        after.watch()
        assert after.check(finished=True) == len(EPOCHS)
        assert edges_of(after.index) == state(len(EPOCHS))
        shutil.rmtree(left)
        failing = True

    with monkeypatch.context() as patched:
        listen(disk, patched, fail)
        place.watch()
    assert tried > 60
    assert place.check(finished=True) == len(EPOCHS)


# bigjoin watch


def test_the_command_stops_with_a_sentence_and_goes_on_when_the_cause_is_mended(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "001.csv").write_text("payer,payee,amount\n1,2,5\n2,3,6\n1,3,7\n")
    (tmp_path / "in" / "002.csv").write_text("payer,payee,amount,op\n3,4,1,+\nx,4,2,+\n,5,3,+\n")
    (tmp_path / "in" / "003.csv").write_text("payer,payee,amount,op\n1,2,,-\n3,5,2.5,+\n")
    command = ("watch", TRIANGLE, "graph", "--updates", "in", "--output", "out", "--once", "--src", "payer", "--dst", "payee")
    done = run_here(*command, cwd=tmp_path)
    assert done.returncode == 2
    notes, last = done.stderr.strip().splitlines()[:-1], done.stderr.strip().splitlines()[-1]
    assert notes == [
        "bigjoin: note: in/001.csv has no column 'op', so every row is an insertion; if another column says so: --op (op=)"
    ]
    assert last == (
        "bigjoin: column 'payer' of in/002.csv is string, and the ids of the graph are int64: cast it; row 2 has 'x'; 1 more "
        "row is bad; nothing of epoch 2 is applied: correct it, or leave out such rows with --on-bad-row skip or quarantine "
        "(on_bad_row=)"
    )
    before = [json.loads(line) for line in (tmp_path / "out" / "_counts.jsonl").read_text().splitlines()]
    assert [(line["epoch"], line["count"], line["bad"]) for line in before] == [(1, 1, 0)]
    assert refused(
        run_here(*command[:5], "--once", "--on-bad-row", "quarantine", cwd=tmp_path), "in the output folder: give one"
    )
    done = run_here(*command, "--on-bad-row", "quarantine", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2 epochs, 5 updates (2 bad), +0 -1 matches; q 0\n"
    assert "'amount': the column of the graph had whole numbers, and is double from now on" in done.stderr
    assert edges_of(tmp_path / "graph") == sorted([(1, 3, 7.0), (2, 3, 6.0), (3, 4, 1.0), (3, 5, 2.5)], key=str)
    bad = pq.read_table(tmp_path / "out" / "_quarantine" / "epoch=2", partitioning=None).to_pylist()
    assert [(row["number"], json.loads(row["row"])["payee"]) for row in bad] == [(2, 4), (3, 5)]
    (tmp_path / "in" / "004.csv").write_text('payer,payee,op\n1,"2,+\n')
    done = run_here(*command, "--on-bad-row", "skip", cwd=tmp_path)  # a file that is malformed is no bad row
    assert refused(
        done, "line 2 of in/004.csv has a quote that opens and never closes; nothing of it is applied: replace it, and"
    )
    (tmp_path / "in" / "004.csv").write_text("payer,payee,op\n1,2,+\n")
    assert run_here(*command, "--quiet", cwd=tmp_path).stdout == "1 epoch, 1 update, +1 -0 matches; q 1\n"


def test_the_first_file_is_checked_before_anything_is_counted(tmp_path):
    build_index(GRAPH, tmp_path / "graph")
    (tmp_path / "in").mkdir()
    watching = Monitor(
        tmp_path / "graph",
        {"q": Watched(parse(TRIANGLE))},
        spark=None,
        initial=lambda *_: pytest.fail("counted"),
        order="t",
        columns=UpdateColumns(src="from"),
    )
    for name, columns, sentence in [
        ("1.parquet", {"from": [1], "to": [2], "op": ["+"]}, "1.parquet has no column 't' to order updates by"),
        ("1.parquet", {"from": [1.5], "to": [2], "t": [1], "op": ["+"]}, "column 'from' of .*1.parquet is double"),
        ("1.parquet", {"from": [1], "x": [2], "t": [1], "op": ["+"]}, "src of .* is 'from': say which column is dst, too"),
    ]:
        pq.write_table(pa.table(columns), tmp_path / "in" / name)
        with pytest.raises(SourceError, match=sentence):
            watch_folder(watching, tmp_path / "in", once=True)


# Spark


@pytest.mark.spark
def test_a_stream_is_checked_before_it_starts(tmp_path, spark):
    build_index(GRAPH, tmp_path / "index")
    (tmp_path / "in").mkdir()

    def watch(schema, **options):
        graph = bj.Graph.open(tmp_path / "index", spark=spark)
        frame = spark.readStream.schema(schema).parquet(str(tmp_path / "in"))
        graph.watch(PAIRS, frame, checkpoint=str(tmp_path / "checkpoint"), **options).stop()

    for schema, options, sentence in [
        ("a long, b long, op string", {}, "the stream has no columns src and dst; its columns are: a, b, op"),
        ("src double, dst long, op string", {}, "column 'src' of the stream is double; ids are"),
        (
            "src timestamp, dst long, op string",
            {},
            "column 'src' of the stream is timestamp.*, and the ids of the graph are int64",
        ),
        ("src long, dst long, op boolean", {}, "column 'op' of the stream is bool; it says"),
        ("src long, dst long, op string, relation int", {}, "column 'relation' of the stream is int32, and names"),
        ("src long, dst long, op string", {"order": "n"}, "the stream has no column 'n' to order updates by"),
        ("src long, dst long, op string", {"window": 5, "time": "amount"}, "the stream has no column 'amount' with the times"),
        ("src long, dst long, op string, amount array<int>", {}, "column 'amount' of the stream is list<.*: cast it"),
        ("src long, dst long, op string, day boolean", {}, "column 'day' of the stream is bool, and that of the graph"),
        ("src long, dst long, from long, to long", {}, "the stream has columns src and dst, and also from and to"),
        ("src long, dst long", {"op": "what"}, "the stream has no column 'what' for op"),
    ]:
        with pytest.raises(SourceError, match=sentence):
            watch(schema, **options)
    assert not (tmp_path / "checkpoint").exists()
    with pytest.warns(ReadingWarning, match="the stream has no column 'op', so every row is an insertion"):
        watch("payer string, payee string", src="payer", dst="payee")


@pytest.mark.spark
def test_a_stream_that_stops_at_a_bad_row_goes_on_when_that_is_mended(tmp_path, spark):
    build_index(pa.table({"src": [1, 2], "dst": [2, 3], "amount": [5, 6]}), tmp_path / "index")
    (tmp_path / "in").mkdir()
    rows = [
        [("1", "3", "+", 1.0)],
        [("3", "1", "+", 2.5), ("x", "1", "+", 1.0), ("2", None, "+", 1.0), ("1", "2", "-", None)],
        [("4", "1", "+", 1.0)],
    ]
    for number, batch in enumerate(rows):
        file = tmp_path / "in" / f"{number}.parquet"
        kinds = [("src", pa.string()), ("dst", pa.string()), ("op", pa.string()), ("amount", pa.float64())]
        pq.write_table(
            pa.table(
                [pa.array(c, k[1]) for c, k in zip(zip(*batch, strict=True), kinds, strict=True)], schema=pa.schema(kinds)
            ),
            file,
        )
        os.utime(file, (number, number))

    def stream(**options):
        frame = spark.readStream.schema("src string, dst string, op string, amount double").option("maxFilesPerTrigger", 1)
        graph = bj.Graph.open(tmp_path / "index", spark=spark)
        updates_ = frame.parquet(str(tmp_path / "in"))
        graph.watch(PAIRS, updates_, output=tmp_path / "out", trigger={"availableNow": True}, **options).awaitTermination()

    for _ in range(2):
        with pytest.raises(BigjoinError) as raised:
            stream()
        assert type(raised.value).__name__ == "StreamError"
        assert str(raised.value).splitlines()[-1] == (
            "column 'src' of batch 1 is string, and the ids of the graph are int64: cast it; row 2 has 'x'; 1 more row is bad; "
            "nothing of epoch 2 is applied: correct it, or leave out such rows with --on-bad-row skip or quarantine "
            "(on_bad_row=)"
        )
        assert read_manifest(tmp_path / "index").epoch == 1
    stream(on_bad_row="quarantine")
    lines = [json.loads(line) for line in (tmp_path / "out" / "_counts.jsonl").read_text().splitlines()]
    assert [(line["epoch"], line["created"], line["destroyed"], line["bad"]) for line in lines] == [
        (1, 1, 0, 0),
        (2, 1, 1, 2),
        (3, 1, 0, 0),
    ]
    bad = pq.read_table(tmp_path / "out" / "_quarantine", partitioning=None).to_pylist()
    assert [(row["source"], row["number"], json.loads(row["row"])["src"]) for row in bad] == [
        ("batch 1", 2, "x"),
        ("batch 1", 3, "2"),
    ]
    assert edges_of(tmp_path / "index") == sorted([(2, 3, 6.0), (1, 3, 1.0), (3, 1, 2.5), (4, 1, 1.0)], key=str)
    assert np.isclose(sum(row[2] for row in edges_of(tmp_path / "index")), 10.5)


def test_rows_about_vertices_can_be_bad_too(tmp_path):
    vertices = pa.table({"id": [1, 2], "label": ["a", "b"], "age": [10, 20]})
    build_index([(1, 2), (2, 1)], tmp_path / "index", vertices=vertices)
    graph = bj.Graph.open(tmp_path / "index")
    rows = pa.table(
        {
            "relation": ["vertex", "vertex", "vertex", "edge", "edge", "vertex"],
            "id": ["1", None, "x", None, None, "2"],
            "src": [None, None, None, 1, None, None],
            "dst": [None, None, None, 1, 2, None],
            "op": ["=", "=", "=", "+", "+", "="],
            "label": ["b", "b", "b", None, None, "b"],
            "age": ["11", "12", "13", None, None, "old"],
        }
    )
    fate = graph.apply(rows, on_bad_row="skip").fate
    assert (fate.bad, fate.replaced, fate.inserted) == (4, 1, 1)
    assert graph.arrow("q(a, a.age) := b(a)").read_all().sort_by("a").to_pylist() == [
        {"a": 1, "a_age": 11},
        {"a": 2, "a_age": 20},
    ]
    with pytest.raises(
        SourceError, match=r"column 'id' of the table of updates is NULL in row 1: it says which vertex is meant"
    ):
        graph.apply(pa.table({"id": pa.array([None], pa.int64()), "op": ["="], "age": [1]}))
