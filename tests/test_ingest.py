"""Building an index, stage by stage, against the plainest possible reading of the same tables."""

from __future__ import annotations

import datetime
import resource
import tempfile
import uuid
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bigjoin import indexing
from bigjoin.defaults import PART_SIZE
from bigjoin.errors import BigjoinError, SourceError
from bigjoin.index import dictionary
from bigjoin.index.directory import Index
from bigjoin.index.stage_runner import in_turn
from bigjoin.index.writer import verify, writing
from bigjoin.ingest import assembly, radix, scan, sorting, table, tries
from bigjoin.ingest import build as build_module
from bigjoin.ingest import held as held_module
from bigjoin.ingest import ids as ids_module
from bigjoin.ingest.copy import copy
from bigjoin.ingest.held import can_hold
from bigjoin.ingest.ids import MergedIds, sort_order
from bigjoin.ingest.scan import ScannedChunk
from bigjoin.ingest.sorting import SortedKeys
from bigjoin.ingest.text import WIDEST_ID, Fault, Findings
from bigjoin.languages import parse
from bigjoin.memory import MachineMemory
from bigjoin.quota import Quota, within
from bigjoin.relations import Relations
from bigjoin.spark.tasks import decode, encode
from bigjoin.streaming.monitor import Monitor

KINDS = {
    "long": lambda n: n - 5,
    "far": lambda n: (n - 5) * 10**15,
    "text": lambda n: f"v{n}" if n % 3 else f"v{n}" * 5,
    "decimal": lambda n: Decimal(n) / 4,
    "date": lambda n: datetime.date(2020, 1, 1) + datetime.timedelta(days=n),
}


PART = 4
"""Cut everything after a few rows, so that every stage has several parts."""


@pytest.fixture(autouse=True)
def tiny_pieces(monkeypatch):
    monkeypatch.setattr(table, "BATCH_ROWS", 3)
    monkeypatch.setattr(ids_module, "RANGE_IDS", 6)
    monkeypatch.setattr(assembly, "IDS_WRITTEN_TOGETHER", 3)
    monkeypatch.setattr(build_module, "MAX_INTEGERS_OF_ANY_TABLE", 20)


def build_index(*arguments, held=False, **options):
    """Build in files, or with all edges held in memory and sorted by kernels however few they are."""
    with pytest.MonkeyPatch.context() as patch:
        if held:
            patch.setattr(table, "PART_SIZE", PART)
            patch.setattr(held_module, "MIN_ROWS_HELD", 0)
            for module in (radix, scan, sorting, tries):
                patch.setattr(module, "MIN_KEYS_BY_DIGIT", 1)
            for module in (radix, held_module, tries):
                patch.setattr(module, "BLOCK_KEYS", 5)
        return indexing.build_index(*arguments, part_size=PART_SIZE if held else PART, **options)


def decoded(index: Index, relation: str, columns: tuple[int, ...]) -> list[tuple]:
    """The tuples of a trie in the relation's own column order, with ids."""
    trie = index.trie(relation, columns)
    found = dict(zip(columns, trie.tuples(np.arange(len(trie))), strict=True))
    ids = index.dictionaries["vertex"]
    return sorted(zip(*(ids.decode(found[c]).to_pylist() if c < 2 else found[c].tolist() for c in sorted(found)), strict=True))


@st.composite
def graphs(draw):
    vertices = draw(st.integers(1, 12))
    ends = st.one_of(st.none(), st.integers(0, vertices)) if draw(st.booleans()) else st.integers(0, vertices)
    return draw(st.lists(st.tuples(ends, ends, st.one_of(st.none(), st.integers(0, 3))), max_size=40))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    graphs(),
    st.sampled_from(sorted(KINDS)),
    st.booleans(),
    st.sampled_from([1, 2, 5]),
    st.sampled_from(["plain", "parallel", "properties"]),
    st.booleans(),
    st.booleans(),
)
def test_an_index_holds_what_its_tables_hold(rows, kind, directed, shards, keep, listed, held):
    spell = KINDS[kind]
    known = [(spell(a), spell(b), w) for a, b, w in rows if a is not None and b is not None]
    columns = {n: [None if r[i] is None else spell(r[i]) for r in rows] for i, n in enumerate(("src", "dst"))}
    if not known:
        return
    if keep == "properties":
        columns["weight"] = pa.array([w for _, _, w in rows], pa.int64())
    vertices = None
    if listed:
        shown = sorted({spell(3), spell(99), *(a for a, _, _ in known[:2])})
        labels = ["odd" if i % 2 else None for i in range(len(shown))]
        vertices = pa.table({"id": shown, "label": pa.array(labels, pa.string()), "size": list(range(len(shown)))})
        if vertices.schema.field(0).type != pa.table(columns).schema.field(0).type:
            return  # decimals of another precision
    proper = known if directed else [(a, b, w) for a, b, w in known if a != b]
    edges = {(a, b) for a, b, _ in proper}
    edges = edges if directed else edges | {(b, a) for a, b in edges}
    with tempfile.TemporaryDirectory() as folder:
        index = build_index(
            pa.table(columns),
            Path(folder) / "index",
            vertices=vertices,
            directed=directed,
            shards=shards,
            parallel=keep == "parallel",
            drop_nulls=True,
            held=held,
        )
        verify(index)
        assert decoded(index, "edge", (0, 1)) == sorted(edges)
        assert decoded(index, "edge", (1, 0)) == sorted(edges)
        degrees = Counter(a for a, _ in edges) + Counter(b for _, b in edges if directed)
        everybody = sorted({*degrees, *(vertices["id"].to_pylist() if listed else ())})
        wanted = sorted(everybody, key=lambda v: (-degrees[v], v))
        assert index.dictionaries["vertex"].ids.to_pylist() == wanted
        assert index.dictionaries["vertex"].ranks.tolist() == [everybody.index(v) for v in wanted]
        source = index.manifest.relations["edge"].source
        loops = sum(a == b for a, b, _ in known)
        kept = len(edges) if directed else len(edges) // 2
        assert (source.rows, source.nulls) == (len(rows), len(rows) - len(known))
        assert (source.loops, source.duplicates) == (loops, len(proper) - kept)
        check_rows(index, known, directed, keep)
        if listed:
            of_vertices = dict(
                zip(vertices["id"].to_pylist(), zip(labels, vertices["size"].to_pylist(), strict=True), strict=True)
            )
            found = index.properties("vertex")
            assert found["size"].to_pylist() == [of_vertices.get(v, (None, None))[1] for v in wanted]
            odd = index.trie("odd", (0,)).values.tolist() if "odd" in labels else []
            assert odd == [code for code, v in enumerate(wanted) if of_vertices.get(v, (None,))[0] == "odd"]
        with writing(Path(folder) / "again") as writer:
            content = copy(index, writer.folder, in_turn, directed=directed, shards=shards + 1, part=PART)
            again = writer.commit(content)
        verify(again)
        assert again.shards == shards + 1
        assert decoded(again, "edge", (0, 1)) == sorted(edges)
        assert decoded(again, "edge", (1, 0)) == sorted(edges)
        check_rows(again, known, directed, keep)


def check_rows(index: Index, known: list[tuple], directed: bool, keep: str) -> None:
    if keep == "plain":
        assert index.statistics.relations["edge"].rows is None
        return
    rows = [(a, b, eid) for eid, (a, b, _) in enumerate(known) if directed or a != b]
    rows += [] if directed else [(b, a, eid) for a, b, eid in rows]
    assert decoded(index, "edge", (0, 1, 2)) == sorted(rows)
    assert index.statistics.domains["edge edge"] == len(known)
    if keep == "properties":
        assert index.properties("edge edge")["weight"].to_pylist() == [w for _, _, w in known]


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(), st.booleans(), st.sampled_from([1, 3]))
def test_wide_codes_give_the_same_index(rows, directed, shards):
    rows = [(a, b) for a, b, _ in rows if a is not None and b is not None]
    if not rows:
        return
    edges = pa.table({"src": [a for a, _ in rows], "dst": [b for _, b in rows]})
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for narrow in (2**32, 2):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(dictionary, "CODES_IN_32_BITS", narrow)
                index = build_index(edges, Path(folder) / str(narrow), directed=directed, shards=shards, parallel=True)
                verify(index)
            found.append([decoded(index, "edge", columns) for columns in ((0, 1), (1, 0), (0, 1, 2))])
            assert index.trie("edge", (0, 1)).values.dtype == index.manifest.codes
        assert index.manifest.codes == ("uint64" if max(index.statistics.domains.values()) >= 2 else "uint32")
    assert found[0] == found[1]


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("spell", [int, lambda n: n * 10**13 - 10**18, str], ids=["close", "far", "text"])
def test_edges_in_memory_and_in_files_give_the_same_bytes(tmp_path, monkeypatch, directed, shards, spell):
    monkeypatch.setattr(ids_module, "RANGE_IDS", 1 << 13)
    monkeypatch.setattr(table, "BATCH_ROWS", 1 << 12)
    monkeypatch.setattr(assembly, "IDS_WRITTEN_TOGETHER", 1 << 12)
    monkeypatch.setattr(held_module, "MIN_ROWS_HELD", 1)
    for module in (radix, scan, sorting, tries):
        monkeypatch.setattr(module, "MIN_KEYS_BY_DIGIT", 1 << 11)
    drawn = (20_000 * np.random.default_rng(5).random((2, 20_000)) ** 3).astype(int)
    drawn[0, ::3] = 7  # a hub
    edges = pa.table({name: [spell(v) for v in end.tolist()] for name, end in zip(("src", "dst"), drawn, strict=True)})
    options = {"directed": directed, "shards": shards}
    held = indexing.build_index(edges, tmp_path / "held", **options)
    with within(Quota(memory="1MB"), watched=False):  # too little for the edges
        filed = indexing.build_index(edges, tmp_path / "filed", **options)
    parts = indexing.build_index(edges, tmp_path / "parts", part_size=3000, **options)
    verify(held)
    wanted, *others = (
        {Path(name).name: entry for name, entry in index.manifest.files.items()} for index in (held, filed, parts)
    )
    assert others == [wanted, wanted]


def test_what_memory_cannot_hold_is_built_in_files(monkeypatch):
    many = held_module.MAX_ROWS_HELD
    gigabytes = MachineMemory(1 << 36, 1 << 36)
    monkeypatch.setattr(held_module, "machine_memory", lambda: gigabytes)
    assert can_hold(many)
    assert not can_hold(many + 1)
    assert not can_hold(held_module.MIN_ROWS_HELD - 1)
    with within(Quota(memory=many * held_module.BYTES_PER_HELD_ROW - 1), watched=False):
        assert not can_hold(many)
    monkeypatch.setattr(held_module, "machine_memory", lambda: replace(gigabytes, left=many * held_module.BYTES_PER_HELD_ROW))
    assert not can_hold(many)


@pytest.mark.parametrize(
    ("ids", "kind"),
    [
        (pa.array([1, 2, 3], pa.int32()), "int32"),
        (pa.array([1, 2, 3], pa.int8()), "int8"),
        (pa.array([1, 2, 3], pa.uint32()), "int64"),
        (pa.array(["a", "b", "c"]), "string"),
        (pa.array(["a", "b", "c"]).dictionary_encode(), "string"),
        (pa.array([Decimal("1.50"), Decimal("2.00"), Decimal("10.25")]), "decimal128(4, 2)"),
        (pa.array([b"\x00", b"\xff", b"ab"]), "binary"),
        (pa.array([datetime.date(2020, 1, i) for i in (1, 2, 3)]), "date32[day]"),
    ],
)
def test_ids_of_any_type_come_back_as_they_were(tmp_path, ids, kind):
    index = build_index(pa.table({"src": ids, "dst": ids.take(pa.array([1, 2, 0]))}), tmp_path / "index")
    values = ids.to_pylist()
    assert decoded(index, "edge", (0, 1)) == sorted(zip(values, [values[1], values[2], values[0]], strict=True))
    assert index.manifest.domains["vertex"].type == kind


def test_uuids_come_back_as_text(tmp_path):
    ids = [uuid.UUID(int=i * 2**100 + 7) for i in (5, 9, 1)]
    wanted = sorted((str(ids[i]), str(ids[(i + 1) % 3])) for i in range(3))
    frame = pd.DataFrame({"src": ids, "dst": [ids[1], ids[2], ids[0]]})
    assert decoded(build_index(frame, tmp_path / "pandas"), "edge", (0, 1)) == wanted
    column = pa.array([i.bytes for i in ids], pa.binary(16)).cast(pa.uuid())
    arrow = pa.table({"src": column, "dst": column.take(pa.array([1, 2, 0]))})
    assert decoded(build_index(arrow, tmp_path / "arrow"), "edge", (0, 1)) == wanted


def test_several_relations_share_one_dictionary(tmp_path):
    follows = pa.table({"src": ["ann", "bob"], "dst": ["bob", "cy"]})
    pays = pa.table({"src": ["cy", "cy"], "dst": ["ann", "ann"], "amount": [5, 7]})
    index = build_index({"follows": follows, "pays": pays}, tmp_path / "index")
    assert decoded(index, "follows", (0, 1)) == [("ann", "bob"), ("bob", "cy")]
    assert decoded(index, "pays", (0, 1)) == [("cy", "ann")]
    assert decoded(index, "pays", (0, 1, 2)) == [("cy", "ann", 0), ("cy", "ann", 1)]
    assert index.properties("pays edge")["amount"].to_pylist() == [5, 7]
    assert sorted(index.statistics.domains) == ["pays edge", "vertex"]


def test_each_type_of_edge_is_a_relation_beside_the_whole(tmp_path):
    edges = pa.table({"src": [1, 1, 2, 3], "dst": [2, 2, 3, 1], "type": ["pays", "knows", "pays", None], "w": [5, 6, 7, 8]})
    index = build_index(edges, tmp_path / "index", types="type")
    verify(index)
    assert decoded(index, "edge", (0, 1)) == [(1, 2), (2, 3), (3, 1)]
    assert decoded(index, "pays", (0, 1)) == [(1, 2), (2, 3)]
    assert decoded(index, "knows", (0, 1, 2)) == [(1, 2, 0)]
    assert index.properties("pays edge")["w"].to_pylist() == [5, 7]
    odd = edges.set_column(2, "type", pa.array(["pays", "two words", "pays", "pays"]))
    with pytest.warns(UserWarning, match="type 'two words' is left out"):
        assert sorted(build_index(odd, tmp_path / "odd", types="type").statistics.relations) == ["edge", "pays"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"edges": pa.table({"src": [1.5], "dst": [2.5]})}, SourceError, "is double; ids are .*: cast it"),
        ({"edges": pa.table({"src": [1], "dst": ["x"]})}, SourceError, "differ in type"),
        ({"edges": pa.table({"only": [1]})}, SourceError, "edges need two, src and dst"),
        ({"edges": {}}, BigjoinError, "there are no edges"),
        (
            {"edges": pa.table({"src": [1], "dst": [2], "w": [1]}), "types": "kind"},
            SourceError,
            "has no column 'kind' for types; its further columns are: w",
        ),
        (
            {"edges": pa.table({"src": [1], "dst": [2], "kind": ["edge"]}), "types": "kind"},
            BigjoinError,
            "there would be two relations 'edge'",
        ),
        ({"edges": {"a b": pa.table({"src": [1], "dst": [2]})}}, BigjoinError, "'a b' cannot name a relation"),
        (
            {"edges": pa.table({"src": [1], "dst": [2]}), "shards": 0},
            BigjoinError,
            "shards is 0; it must be at least 1, and at most",
        ),
        (
            {"edges": pa.table({"src": [1], "dst": [2]}), "vertices": pa.table({"id": ["x"]})},
            SourceError,
            "the ids of the table are string, and those of the table are int64: cast one of them",
        ),
        (
            {"edges": pa.table({"src": [1], "dst": [2]}), "vertices": pa.table({"id": [1, 2, 1], "x": [1, 2, 3]})},
            SourceError,
            "1 ids of the table come more than once, for example 1: a vertex is one row",
        ),
        (
            {"edges": pa.table({"src": [1], "dst": [2]}), "vertices": pa.table({"id": [1], "x": [1]}), "labels": "kind"},
            SourceError,
            "has no column 'kind' for labels; its further columns are: x",
        ),
        (
            {"edges": pa.table({"src": [1], "dst": [2]}), "vertices": pa.table({"id": [1], "label": ["edge"]})},
            SourceError,
            "the label 'edge' has the name of a relation",
        ),
    ],
)
def test_tables_that_cannot_be_indexed_are_refused(tmp_path, arguments, error, message):
    with pytest.raises(error, match=message):
        build_index(path=tmp_path / "index", **arguments)
    assert not (tmp_path / "index").exists()


def test_a_relation_may_be_called_vertex(tmp_path):
    edges = pa.table({"src": [1, 2, 3], "dst": [2, 3, 1], "w": [10, 20, 30]})
    index = build_index({"vertex": edges}, tmp_path / "index", vertices=pa.table({"id": [1, 2, 3], "w": [7, 8, 9]}))
    assert index.properties("vertex edge")["w"].to_pylist() == [10, 20, 30]
    assert sorted(index.properties("vertex")["w"].to_pylist()) == [7, 8, 9]


def test_relations_with_ids_of_like_types_share_a_dictionary(tmp_path):
    narrow = pa.table({"src": pa.array([1], pa.int32()), "dst": pa.array([2], pa.int32())})
    wide = pa.table({"src": [2**40], "dst": [1]})
    index = build_index({"a": narrow, "b": wide}, tmp_path / "index")
    assert (decoded(index, "a", (0, 1)), decoded(index, "b", (0, 1))) == ([(1, 2)], [(2**40, 1)])
    (tmp_path / "numbers.txt").write_text("1 2\n2 3\n")
    (tmp_path / "words.txt").write_text("1 x\n")
    index = build_index({"a": tmp_path / "numbers.txt", "b": tmp_path / "words.txt"}, tmp_path / "text")
    assert (decoded(index, "a", (0, 1)), decoded(index, "b", (0, 1))) == ([("1", "2"), ("2", "3")], [("1", "x")])


def test_zoned_times_are_ids_by_their_instant(tmp_path):
    """In the hour that a clock goes through twice, wall clocks do not tell instants apart."""
    start = datetime.datetime(2023, 10, 28, 23, tzinfo=datetime.UTC)
    times = [start + datetime.timedelta(minutes=10 * i) for i in range(24)]
    column = pa.array(times, pa.timestamp("us", "Europe/Berlin"))
    edges = pa.table({"src": column, "dst": column.take(pa.array([(i * 7 + 3) % 24 for i in range(24)]))})
    index = build_index(edges, tmp_path / "index")
    assert index.statistics.domains["vertex"] == 24
    assert index.statistics.relations["edge"].tuples == 24
    stored = index.dictionaries["vertex"].ids.cast(pa.int64()).to_pylist()
    assert [stored[i] for i in np.argsort(index.dictionaries["vertex"].ranks)] == sorted(stored)


MOMENT = 1_700_000_000_000_000_000
"""In nanoseconds."""


def edges_between(ids, folder):
    build_index(pa.table({"src": ids, "dst": ids[::-1]}), folder / "index")


def edges_of_parquet(ids, folder):
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"src": ids, "dst": ids[::-1]}), folder / "edges.parquet")
    build_index(folder / "edges.parquet", folder / "index")


def vertices_beside_edges(ids, folder):
    ends = pa.array([MOMENT, MOMENT + 1000]).cast(ids.type)
    build_index(pa.table({"src": ends, "dst": ends}), folder / "index", vertices=pa.table({"id": ids, "n": range(len(ids))}))


def updates_of_edges(ids, folder):
    ends = pa.array([MOMENT, MOMENT + 1000]).cast(ids.type)
    index = build_index(pa.table({"src": ends, "dst": ends}), folder / "index")
    watching = Monitor(index.path, {}, spark=None, initial=lambda *_: 0)
    watching.apply(pa.table({"src": ids, "dst": ids[::-1], "op": ["+"] * len(ids)}))


def relations_of_times(ids, folder):
    del folder
    Relations({"r": pa.table({"x": ids, "y": range(len(ids))})})._index_for(parse("q(a,b) := r(a,b)"))


SOURCES = [edges_between, edges_of_parquet, vertices_beside_edges, updates_of_edges, relations_of_times]


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("source", SOURCES)
def test_times_that_are_no_whole_microseconds_are_refused_as_ids(source, zone, tmp_path):
    """Results have microseconds, so that two such ids could come back as one."""
    kind = pa.timestamp("ns", zone)
    source(pa.array([MOMENT, None, MOMENT + 1000]).cast(kind).drop_null(), tmp_path)  # these are whole
    finer = pa.array([MOMENT, MOMENT + 2000, MOMENT + 2001]).cast(kind)
    said = r"holds 2023-11-1\d .*:20.000002001.* in whole microseconds"
    if source is updates_of_edges:  # of which each row is good or bad by itself
        said = r"the ids of the graph are timestamp.us.*: cast it; row 1 has 2023-11-1\d .*:20.000002001"
    with pytest.raises(SourceError, match=rf"column '(src|dst|id|x)' of .* {said}"):
        source(finer, tmp_path / "finer")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_come_back_as_they_were(unit, tmp_path):
    whole = [1_700_000_000 + i for i in range(4)]
    ids = pa.array([second * 10 ** (3 * ["s", "ms", "us", "ns"].index(unit)) for second in whole]).cast(pa.timestamp(unit))
    index = build_index(pa.table({"src": ids[:3], "dst": ids[1:]}), tmp_path / "index")
    wanted = [datetime.datetime.fromtimestamp(second, datetime.UTC).replace(tzinfo=None) for second in whole]
    assert decoded(index, "edge", (0, 1)) == list(pairwise(wanted))
    assert index.dictionaries["vertex"].type == pa.timestamp("us")


CHANGING = {
    "beyond signed 64 bits": pa.array([2**63, 1], pa.uint64()),
    "beyond signed 64 bits: cast it": pa.array([2**63, 1], pa.uint64()).dictionary_encode(),
    "does not fit decimal128": pa.array([Decimal(10) ** 50, Decimal(1)], pa.decimal256(76, 0)),
    r"is decimal256\(76, 40\)": pa.array([Decimal("1e-40"), Decimal("2e-40")], pa.decimal256(76, 40)),
    "is double; ids are": pa.array([float("nan"), -0.0]),
    "is halffloat; ids are": pa.array(np.array([1, 2], np.float16)),
    "is bool; ids are": pa.array([True, False]),
    r"is duration\[ns\]; ids are": pa.array([1, 2]).cast(pa.duration("ns")),
    r"is time64\[ns\]; ids are": pa.array([1, 2]).cast(pa.time64("ns")),
    "does not fit date32": pa.array([86_400_005, 5]).cast(pa.timestamp("ms")).view(pa.date64()),
    r"does not fit timestamp\[us\]": pa.array([2**60, 5]).cast(pa.timestamp("s")),
}


@pytest.mark.parametrize("said", CHANGING)
def test_ids_that_would_change_on_the_way_are_refused(said, tmp_path):
    with pytest.raises(SourceError, match=f"column 'src' of the table .*{said}"):
        edges_between(CHANGING[said], tmp_path)


KEPT = {
    "dictionary": pa.array(["x", "é"]).dictionary_encode(),
    "string_view": pa.array(["x", "é"], pa.string_view()),
    "large_string": pa.array(["x", "é"], pa.large_string()),
    "binary_view": pa.array([b"x", b"\xff"], pa.binary_view()),
    "fixed_size_binary": pa.array([b"xy", b"\xff\x00"], pa.binary(2)),
    "uint64": pa.array([2**63 - 1, 1], pa.uint64()),
    "decimal256": pa.array([Decimal(10) ** 30, Decimal(1)], pa.decimal256(40, 0)),
    "date64": pa.array([datetime.date(2024, 5, 1), datetime.date(1, 1, 1)], pa.date64()),
}


@pytest.mark.parametrize("kind", KEPT)
def test_ids_of_unusual_types_come_back_as_they_were(kind, tmp_path):
    ids = KEPT[kind]
    one, other = ids.to_pylist()
    exchanged = pa.array([other, one]).dictionary_encode() if kind == "dictionary" else pa.array([other, one], ids.type)
    edges = pa.table({"src": ids, "dst": exchanged})
    index = build_index(edges, tmp_path / "index")
    assert sorted(decoded(index, "edge", (0, 1))) == sorted([(one, other), (other, one)])
    epoch = Monitor(index.path, {}, spark=None, initial=lambda *_: 0).apply(edges.append_column("op", pa.array(["-", "-"])))
    assert (epoch.fate.deleted, epoch.fate.absent) == (2, 0)


def test_updates_have_ids_of_the_sort_that_the_graph_has(tmp_path):
    """A time is no text, and a day no time: as they are spelled, they may be the ids of others."""
    day = datetime.date(2024, 5, 1)
    for ids, other in [
        (pa.array(["2024-05-01"]), pa.array([day])),
        (pa.array(["2024-05-01"]), pa.array([datetime.datetime(2024, 5, 1)], pa.timestamp("us"))),
        (pa.array([day]).cast(pa.timestamp("us")), pa.array([day])),
        (pa.array([day]), pa.array([Decimal(5)])),
    ]:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        index = build_index(pa.table({"src": ids, "dst": ids}), folder / "index")
        watching = Monitor(index.path, {}, spark=None, initial=lambda *_: 0)
        with pytest.raises(SourceError, match=r"column 'src' of the table of updates is .*, and the ids of the graph are"):
            watching.apply(pa.table({"src": other, "dst": other, "op": ["+"]}))
        assert watching.apply(pa.table({"src": ids.cast(pa.string()), "dst": ids, "op": ["-"]})).fate.deleted == 1


def test_missing_uuids_are_nulls(tmp_path):
    frame = pd.DataFrame({"src": [uuid.UUID(int=1), None, float("nan")], "dst": [uuid.UUID(int=2)] * 3})
    with pytest.raises(SourceError, match="2 of the 3 edges of the table have a NULL id"):
        build_index(frame, tmp_path / "index")


def test_lines_without_an_id_are_dropped_on_request(tmp_path):
    (tmp_path / "edges.csv").write_text("src,dst,w\n1,2,5\n,3,6\n4,,7\n")
    with pytest.raises(SourceError, match=r"2 of 3 lines .* do not have two columns"):
        build_index(tmp_path / "edges.csv", tmp_path / "index")
    index = build_index(tmp_path / "edges.csv", tmp_path / "index", drop_nulls=True)
    assert decoded(index, "edge", (0, 1)) == [(1, 2)]
    assert index.properties("edge edge")["w"].to_pylist() == [5]


def test_columns_can_be_chosen_wherever_edges_come_from(tmp_path):
    edges = pa.table({"a": [1], "b": [2], "c": [3], "d": [4]})
    index = build_index(edges, tmp_path / "index", columns=["c", "d", "a"])
    assert decoded(index, "edge", (0, 1)) == [(3, 4)]
    assert index.statistics.properties == {"edge edge": {"a": "int64"}}
    with pytest.raises(SourceError, match="has no column 'z'"):
        build_index(edges, tmp_path / "index", columns=["c", "z"])


def test_more_files_than_a_process_may_open(tmp_path):
    (tmp_path / "edges").mkdir()
    for i in range(120):
        pq.write_table(pa.table({"src": [f"v{i}"], "dst": [f"v{i + 1}"], "w": [i]}), tmp_path / "edges" / f"{i:03}.parquet")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len([*Path("/proc/self/fd").iterdir()]) + 60, before[1]))
    try:
        index = build_index(tmp_path / "edges", tmp_path / "index")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert len(decoded(index, "edge", (0, 1, 2))) == 120


@settings(max_examples=300, deadline=None)
@given(st.sets(st.text(alphabet=st.sampled_from("ab\x00é\U0001f600z"), max_size=14), min_size=1), st.text(max_size=3))
def test_text_is_sorted_by_code_point(texts, common):
    ids = [common + text for text in texts]
    assert [ids[i] for i in sort_order(pa.array(ids, pa.string()))] == sorted(ids)
    column = pa.array(["?", *ids])[1:]  # a slice, whose offsets do not begin at zero
    assert [ids[i] for i in sort_order(column)] == sorted(ids)


@pytest.mark.parametrize(
    "receipt",
    [
        SortedKeys("file", 2, ((0, 1), (2**40, 3)), "ranking"),
        ScannedChunk(1, 9, 8, 7, SortedKeys("file", 0, ()), "keys", None, {"r.a": "ids"}, {"r.a": "ranks"}),
        Findings(3, {"wide": Fault(1, 2, "a b c")}, (-WIDEST_ID, WIDEST_ID), (1, 3, 127)),
        MergedIds("ids", 4, "places", (1, 4)),
    ],
    ids=lambda receipt: type(receipt).__name__,
)
def test_receipts_of_stages_travel_as_json(receipt):
    assert decode(type(receipt), encode(receipt)) == receipt


def test_what_holds_no_rows_is_refused(tmp_path):
    with pytest.raises(BigjoinError, match="edges is a int; give a DataFrame, an Arrow table, a pandas frame, a list"):
        build_index(7, tmp_path / "index")


def test_ids_beyond_62_bits_are_read_from_text(tmp_path):
    rows = [(2**63 - 1, 2**63 - 2), (2**63 - 2, -(2**63)), (5, 2**63 - 1)]
    (tmp_path / "edges.txt").write_text("\n".join(f"{a} {b}" for a, b in rows))
    index = build_index(tmp_path / "edges.txt", tmp_path / "index")
    assert decoded(index, "edge", (0, 1)) == sorted(rows)
