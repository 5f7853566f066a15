"""Nothing of an index is trusted before it was verified: damaged files, crafted arrays, altered manifests, links and paths.

Damages and mutations are drawn, and tried by a process of its own, so that one that ends a process is seen as such.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import xxhash

import bigjoin as bj
from bigjoin.errors import IndexFormatError, OutputError
from bigjoin.index import records, trust, verification
from bigjoin.index.checksums import SEAL_BLOCK_BYTES, differs, file_entry
from bigjoin.index.directory import Index
from bigjoin.index.manifest_entries import PublicationEntry
from bigjoin.index.manifest_file import MANIFEST
from bigjoin.index.typed_json import WrongFieldError, from_json, to_json
from bigjoin.index.writer import locked, verify
from bigjoin.indexing import build_index
from bigjoin.languages import parse
from bigjoin.local.threads import count_here
from bigjoin.storage import storage_at
from bigjoin.streaming.compaction import without_runs
from bigjoin.streaming.output import WatchOutput
from tests.altered import altered, as_version_2, digest, example, sealed_again, watching

TRIANGLE = "q(a, b, c) := edge(a, b), edge(b, c), edge(a, c)"


@pytest.fixture
def index(tmp_path) -> Index:
    rng = np.random.default_rng(3)
    pairs = rng.integers(0, 60, (600, 2))
    return build_index(pa.table({"src": pairs[:, 0], "dst": pairs[:, 1]}), tmp_path / "index")


@pytest.fixture(autouse=True)
def forgetful(monkeypatch, tmp_path):
    """Every test has notes of its own, and none in memory."""
    monkeypatch.setattr(records, "_remembered", {})
    folder = tmp_path / "notes"
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(records, "private_folder", lambda name: folder)


# Damage, drawn


def drawn(kind: str, first: int, last: int) -> None:
    """Try damages or mutations in a process of their own, and tell which of them did not end as they should."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.altered", kind, str(first), str(last)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert f"{last - first} tried" in done.stdout


@pytest.mark.parametrize("kind", ["damages", "mutations", "crafts"])
def test_what_is_altered_is_told_or_harmless(kind):
    drawn(kind, 0, 200)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["damages", "mutations", "crafts"])
@pytest.mark.parametrize("part", range(4))
def test_thousands_of_alterations_are_told_or_harmless(kind, part):
    drawn(kind, 200 + 500 * part, 700 + 500 * part)


# Crafted arrays, with the right checksums


def crafted(index: Index, part: str, change) -> Index:
    """Change an array of an index, and seal it again."""
    name = next(name for name in index.manifest.files if part in name)
    array = np.load(index.path / name)
    np.save(index.path / name, change(array))
    sealed_again(index.path)
    return Index.open(index.path)


def outside(array):
    array[1] = 1 << 30
    return array


def fallen(array):
    array[2], array[3] = array[3], array[2]
    return array


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("0-1.values", outside, "do not rise, or hold codes"),
        ("0-1.values", fallen, "do not rise, or hold codes"),
        ("0-1.values", lambda a: a.astype(np.int64), "holds int64 instead of uint32"),
        ("0-1.values", lambda a: a.astype(">u4"), "holds >u4 instead of uint32"),
        ("0-1.values", lambda a: a[:-1], "do not fit together"),
        ("0-1.values", lambda a: a.reshape(1, -1), "is not a NumPy file"),
        ("1-0.offsets", outside, "lead outside its values"),
        ("1-0.offsets", fallen, "lead outside its values"),
        ("1-0.offsets", lambda a: a[1:], "offsets in column order 1, 0 are"),
        ("1-0.offsets", lambda a: a[:0], "do not fit together"),
        ("1-0.offsets", lambda a: np.append(np.append(a[:1], a[1] + 1), a[2:]), "column orders hold different pairs|lists"),
        ("ranks", outside, "are not a permutation"),
        ("ranks", lambda a: np.append(a[:-1], a[0]), "are not a permutation"),
        ("ranks", lambda a: a[::-1].copy(), "are not in the order of its ids"),
        ("ranks", lambda a: a.astype(np.int32), "holds int32 instead of"),
    ],
)
def test_soundness_alone_protects_kernels(index, part, change, message):
    found = crafted(index, part, change)
    with pytest.raises(IndexFormatError, match=message):
        verify(found)
    again = Index.open(index.path)  # and whoever reads it is told the same
    with pytest.raises(IndexFormatError, match="is damaged"):
        _ = again.dictionaries if part == "ranks" else count_here(again, parse(TRIANGLE))


def test_runs_of_updates_are_checked_too(tmp_path):
    graph = bj.Graph.open(example(tmp_path / "index", "updated"))
    name = graph.index.runs[-1].deltas
    with np.load(graph.index.path / name) as archive:
        arrays = dict(archive)
    for change in ("inserted", "deleted"):
        for wrong in (1 << 20, 0):  # no code at all; or a pair twice, or one that is there already, or not there
            altered_arrays = {key: array.copy() for key, array in arrays.items()}
            key = next(key for key, array in arrays.items() if change in key and array.shape[1] > 1)
            altered_arrays[key][:, 0] = wrong or altered_arrays[key][:, 1]
            np.savez(graph.index.path / name, **altered_arrays)
            sealed_again(graph.index.path)
            with pytest.raises(IndexFormatError, match=r"make no sense|makes sense"):
                bj.Graph.open(graph.index.path).apply(pa.table({"src": ["a"], "dst": ["b"], "op": ["+"]}))


def test_one_trie_serves_only_orders_whose_columns_mean_the_same(tmp_path):
    path = example(tmp_path / "index", "rich")
    manifest = json.loads((path / MANIFEST).read_text())
    rows = manifest["relations"]["edge"]["rows"]
    altered(path, manifest, ["relations", "edge", "rows", "orders", "2,0,1"], rows["orders"]["0,1,2"])
    with pytest.raises(IndexFormatError, match=r"it has the files of an order|rows have one column order"):
        Index.open(path)


def test_orders_that_differ_do_no_harm_when_they_are_changed(tmp_path, monkeypatch):
    """A crafted index may hold other tuples in one order than in another; an update that fits only one is refused."""
    monkeypatch.setattr(verification, "COMPARED_TUPLES", 1)
    rng = np.random.default_rng(1)
    index = build_index(
        pa.table({"src": rng.integers(0, 300, 20_000), "dst": rng.integers(0, 300, 20_000)}), tmp_path / "index"
    )

    def moved(values):
        offsets = np.load(index.path / next(name for name in index.manifest.files if "1-0.offsets" in name))
        for node in range(len(offsets) - 1):  # another code in most lists, where there is room between two
            mine = values[offsets[node] : offsets[node + 1]]
            at = next((i for i in range(len(mine) - 1) if mine[i + 1] - mine[i] > 1), None)
            if at is not None:
                mine[at] += 1
        return values

    found = crafted(index, "1-0.values", moved)
    ids = found.base.dictionaries["vertex"].ids.to_pylist()
    forward = np.load(index.path / next(name for name in index.manifest.files if "0-1.values" in name))
    offsets = np.load(index.path / next(name for name in index.manifest.files if "0-1.offsets" in name))
    gone = [(ids[code], ids[value]) for code in range(100) for value in forward[offsets[code] : offsets[code + 1]]]
    table = pa.table({"src": [a for a, _ in gone], "dst": [b for _, b in gone], "op": ["-"] * len(gone)})
    with pytest.raises(IndexFormatError, match=r"make no sense in column order|hold different tuples"):
        bj.Graph.open(index.path).apply(table)


@pytest.mark.parametrize("wrong", ["twice", "null", "view"])
def test_ids_that_came_later_are_checked_too(tmp_path, wrong):
    path = example(tmp_path / "index", "updated")
    index = Index.open(path)
    domain = index.manifest.domains["vertex"]
    late = path / domain.ids[-1]
    ids = index.table([domain.ids[-1]], "id")["id"].to_pylist()
    ids[0] = {"twice": index.table([domain.ids[0]], "id")["id"][0].as_py(), "null": None, "view": ids[0]}[wrong]
    table = pa.table({"id": pa.array(ids, pa.string_view() if wrong == "view" else pa.string())})
    with pa.OSFile(str(late), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    sealed_again(path)
    with pytest.raises(IndexFormatError, match="is damaged"):
        verify(Index.open(path))
    with pytest.raises(IndexFormatError, match="is damaged"):
        bj.Graph.open(path).apply(pa.table({"src": ["a"], "dst": ["b"], "op": ["+"]}))


# Notes


def test_a_note_is_revoked_by_what_contradicts_it(index, monkeypatch):
    """Bits rot without the system's knowledge: what `bigjoin verify` finds is not believed again."""
    monkeypatch.setattr(records, "MIN_NOTED_BYTES", 0)
    records._remembered.clear()
    Index.open(index.path).trie("edge", (0, 1))
    found = crafted(index, "0-1.values", fallen)
    verified = records.is_noted
    monkeypatch.setattr(records, "is_noted", lambda claim: True)
    with pytest.raises(IndexFormatError, match="do not rise"):
        verify(found)
    monkeypatch.setattr(records, "is_noted", verified)
    with pytest.raises(IndexFormatError, match="do not rise"):
        Index.open(index.path).trie("edge", (0, 1))


def test_what_was_made_of_unverified_files_is_not_taken_for_verified(index, monkeypatch):
    monkeypatch.setattr(records, "MIN_NOTED_BYTES", 0)
    crafted(index, "0-1.values", fallen)
    graph = bj.Graph.open(index.path, verify=False)
    graph.apply(pa.table({"src": [1000], "dst": [1001], "op": ["+"]}))
    without_runs(graph.index)  # compacted, with checksums of its own
    with pytest.raises(IndexFormatError, match="is damaged"):
        verify(Index.open(index.path))
    with pytest.raises(IndexFormatError, match="is damaged"):
        count_here(Index.open(index.path), parse(TRIANGLE))


def test_files_are_read_whole_once_on_a_machine(index, monkeypatch):
    monkeypatch.setattr(records, "MIN_NOTED_BYTES", 0)
    looked: list[str] = []
    original = trust.damaged_files
    monkeypatch.setattr(
        trust, "damaged_files", lambda contents, entries: looked.extend(contents) or original(contents, entries)
    )
    for expected in (True, False, False):
        records._remembered.clear()
        looked.clear()
        Index.open(index.path).trie("edge", (0, 1))
        assert bool(looked) is expected
    file = next(index.path / name for name in index.manifest.files if "0-1.values" in name)
    os.utime(file)  # touched, be it in no way that changes its content
    records._remembered.clear()
    Index.open(index.path).trie("edge", (0, 1))
    assert [Path(name).name for name in looked] == ["edge.0-1.values.npy"]


def test_notes_lie_outside_the_index_and_last_for_a_while(index, monkeypatch, tmp_path):
    monkeypatch.setattr(records, "MIN_NOTED_BYTES", 0)
    records._remembered.clear()
    before = sorted(p.name for p in index.path.rglob("*"))
    Index.open(index.path).trie("edge", (0, 1))
    assert sorted(p.name for p in index.path.rglob("*")) == before
    notes = list((tmp_path / "notes").iterdir())
    assert notes
    records._remembered.clear()
    old = time.time() - records.NOTE_SECONDS - 1
    for note in notes:
        os.utime(note, (old, old))
    assert not any(records.is_noted(note.name) for note in notes)
    records._sweep(tmp_path / "notes")
    assert not list((tmp_path / "notes").iterdir())


def test_what_was_sealed_here_is_not_read_again_and_linking_keeps_that(index, monkeypatch):
    def refuse(*_):
        raise AssertionError("read again")

    built = build_index(pa.table({"src": [1, 2, 3], "dst": [2, 3, 1]}), index.path.parent / "other")
    monkeypatch.setattr(trust, "damaged_files", lambda contents, entries: refuse() if contents else [])
    assert count_here(Index.open(built.path), parse("q(a, b) := edge(a, b)")) == 3
    graph = bj.Graph.open(built.path)
    assert graph.undirected().edges == 3  # its ids are the same files, under other names
    assert count_here(Index.open(built.path), parse("q(a, b) := edge(a, b)")) == 3


def test_damage_after_a_note_is_seen(index, monkeypatch):
    monkeypatch.setattr(records, "MIN_NOTED_BYTES", 0)
    count = count_here(Index.open(index.path), parse(TRIANGLE))
    assert count > 0
    file = next(index.path / name for name in index.manifest.files if "0-1.values" in name)
    stamps = file.stat()
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(stamps.st_atime_ns, stamps.st_mtime_ns))
    with pytest.raises(IndexFormatError, match="its checksum differs"):
        count_here(Index.open(index.path), parse(TRIANGLE))
    assert isinstance(count_here(Index.open(index.path, verify=False), parse("q(a, b) := edge(a, b)")), int)


def test_without_a_private_folder_a_process_verifies_for_itself(index, monkeypatch):
    monkeypatch.setattr(records, "private_folder", lambda name: None)
    assert count_here(Index.open(index.path), parse(TRIANGLE)) == count_here(index, parse(TRIANGLE))


def test_a_slice_can_be_verified_alone(tmp_path):
    file = tmp_path / "large.npy"
    np.save(file, np.arange(3 * SEAL_BLOCK_BYTES // 8 + 5))
    entry = file_entry(storage_at(tmp_path).map(file.name).content)
    assert len(entry.blocks) == 4
    content = bytearray(file.read_bytes())
    assert list(entry.blocks) == [
        xxhash.xxh3_64_hexdigest(content[at : at + SEAL_BLOCK_BYTES]) for at in range(0, len(content), SEAL_BLOCK_BYTES)
    ]
    content[2 * SEAL_BLOCK_BYTES + 7] ^= 1
    file.write_bytes(content)
    mapped = storage_at(tmp_path).map("large.npy").content
    assert differs(mapped, entry)
    assert [
        differs(mapped, entry, at, at + 10) for at in (0, SEAL_BLOCK_BYTES, 2 * SEAL_BLOCK_BYTES, 3 * SEAL_BLOCK_BYTES)
    ] == [
        False,
        False,
        True,
        False,
    ]


# Formats


def test_an_index_of_the_older_format_opens_and_is_verified(tmp_path):
    path = example(tmp_path / "index", "updated")
    wanted = bj.Graph.open(path)
    counts = [(wanted.vertices, wanted.edges)]
    as_version_2(path)
    graph = bj.Graph.open(path)
    assert graph.index.manifest.version == 2
    assert [(graph.vertex_count, graph.edge_count)] == counts
    assert verify(graph.index) == graph.index.bytes
    done = graph.apply(pa.table({"src": ["a"], "dst": ["zz"], "op": ["+"]}))  # and goes on as the new one
    assert (done.fate.inserted, graph.index.manifest.version) == (1, 4)
    assert verify(Index.open(path)) > 0
    name = next(name for name in graph.index.manifest.files if "values" in name)
    content = bytearray((path / name).read_bytes())
    content[-1] ^= 1
    (path / name).write_bytes(content)
    with pytest.raises(IndexFormatError, match="its checksum differs"):
        verify(Index.open(path))


def test_a_wrong_field_is_named(index):
    manifest = json.loads((index.path / MANIFEST).read_text())
    cases = {
        "relations.edge.tuples is 'many', which is not a whole number": ("relations", "edge", "tuples", "many"),
        "shards is -1, which is not between 1 and": ("shards", -1),
        "domains.vertex.size is missing": ("domains", "vertex", {"type": "int64"}),
        "surprise is not a known field": ("surprise", 1),
        "relations.edge.symmetric is 0, which is not true or false": ("relations", "edge", "symmetric", 0),
        "a name in files is '../etc/passwd', which is not a file of a build": (
            "files",
            "../etc/passwd",
            {"bytes": 1, "blocks": ["00"]},
        ),
        "loops is 0, and": ("relations", "edge", "loops", 0),
        "superseded[0].folder is '..', which is not the folder of a build": ("superseded", [{"folder": "..", "at": 0.0}]),
    }
    for message, (*path, value) in cases.items():
        altered(index.path, manifest, path, value)
        with pytest.raises(IndexFormatError, match="is damaged") as told:
            verify(Index.open(index.path))
        assert message in str(told.value)


def test_figures_of_any_size_survive_the_manifest():
    line = {"epoch": 1, "queries": {"one": {"count": 10**40}, "two": {"count": -(10**40)}}}
    entry = PublicationEntry("identity", ("one/epoch=1", "two/epoch=1"), line)
    assert from_json(PublicationEntry, json.loads(json.dumps(to_json(entry)))) == entry
    for wrong in (True, 1.5, "1", None, [1], {"one": 1}, {"one": {"two": {}}}):
        with pytest.raises(WrongFieldError, match=r"line\.count"):
            from_json(PublicationEntry, {"output": "x", "folders": [], "line": {"epoch": 1, "count": wrong}})


# Links, locks and other people's folders


def test_nothing_inside_an_index_is_opened_through_links(index, tmp_path):
    foreign = tmp_path / "somebody's file"
    foreign.write_text("mine")
    lock = index.path / ".lock"
    for make in (lock.symlink_to, lock.hardlink_to):
        lock.unlink(missing_ok=True)
        make(foreign)
        with pytest.raises(IndexFormatError, match=r"\.lock is "), locked(index.path):
            pass
        assert foreign.read_text() == "mine"
    lock.unlink()
    lock.write_text("something of somebody's that is longer than any name of a process " * 3)
    with pytest.raises(IndexFormatError, match=r"\.lock is not a lock of bigjoin"), locked(index.path):
        pass
    assert "somebody" in lock.read_text()
    lock.unlink()
    lock.mkdir()
    with pytest.raises((IndexFormatError, OutputError), match=r"cannot be locked|is not a regular file"), locked(index.path):
        pass
    lock.rmdir()
    (index.path / ".manifest.json.d").mkdir()
    with locked(index.path):
        assert f"process {os.getpid()} on" in lock.read_text()
    assert not lock.read_text().strip()
    name = next(name for name in index.manifest.files if "0-1.values" in name)
    copy = tmp_path / "copy"
    shutil.copy(index.path / name, copy)
    (index.path / name).unlink()
    (index.path / name).symlink_to(copy)
    with pytest.raises(IndexFormatError):
        count_here(Index.open(index.path), parse(TRIANGLE))


def test_a_folder_or_a_manifest_that_is_a_link_is_refused(index, tmp_path):
    folder = next(iter(index.manifest.files)).split("/")[0]
    (index.path / folder).rename(tmp_path / "elsewhere")
    (index.path / folder).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(IndexFormatError, match="is a link: nothing inside an index is opened through links"):
        count_here(Index.open(index.path), parse(TRIANGLE))
    shutil.copy(index.path / MANIFEST, tmp_path / "manifest")
    (index.path / MANIFEST).unlink()
    (index.path / MANIFEST).symlink_to(tmp_path / "manifest")
    with pytest.raises(IndexFormatError, match="is a link"):
        Index.open(index.path)
    (index.path / MANIFEST).unlink()
    os.mkfifo(index.path / MANIFEST)
    with pytest.raises(IndexFormatError, match="is not a regular file"):
        Index.open(index.path)


def test_the_directory_itself_may_be_a_link(index, tmp_path):
    (tmp_path / "link").symlink_to(index.path)
    assert count_here(Index.open(tmp_path / "link"), parse(TRIANGLE)) == count_here(index, parse(TRIANGLE))


def test_a_manifest_names_no_folder_that_is_written_to(tmp_path):
    """What an index has staged is published where the caller says, if that folder is the one, and nowhere else."""
    path = example(tmp_path / "index", "plain")
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "_counts.jsonl").write_text('{"epoch": 0}\n')
    (victim / "_staging" / "epoch=1").mkdir(parents=True)
    bj.Graph.open(path).apply(pa.table({"src": ["a"], "dst": ["first"], "op": ["+"]}), TRIANGLE)
    manifest = json.loads((path / MANIFEST).read_text())
    for entry in (
        {"publications": [{"output": str(victim), "folders": ["epoch=1"], "line": {"epoch": 1}}]},
        {"version": 2, "output": {"path": str(victim), "folders": ["epoch=1"], "line": {"epoch": 1}}},
    ):
        (path / MANIFEST).write_text(json.dumps(digest({**manifest, **entry})))
        bj.Graph.open(path).apply(pa.table({"src": ["a"], "dst": ["new"], "op": ["+"]}), TRIANGLE)
        assert (victim / "_counts.jsonl").read_text() == '{"epoch": 0}\n'
        assert not (victim / "epoch=1").exists()
    for folder in ("../epoch=1", "epoch=1/../../x", "/tmp/epoch=1", "a/b/epoch=1"):
        entry = {"publications": [{"output": "x", "folders": [folder], "line": {"epoch": 1}}]}
        (path / MANIFEST).write_text(json.dumps(digest({**manifest, **entry})))
        with pytest.raises(IndexFormatError, match="is not the folder of an epoch"):
            bj.Graph.open(path)
    deep: dict = {}
    for _ in range(600):
        deep = {"deeper": deep}
    for line in ({"epoch": 10**300}, {"epoch": 2}, {"epoch": 1, "queries": deep}, {"epoch": 1, "queries": [1]}):
        entry = {"publications": [{"output": "x", "folders": ["epoch=1"], "line": line}]}
        (path / MANIFEST).write_text(json.dumps(digest({**manifest, **entry})))
        with pytest.raises(IndexFormatError, match="publications"):
            bj.Graph.open(path)


def test_an_output_with_a_link_for_its_counts_is_not_followed(tmp_path):
    path, output, foreign = example(tmp_path / "index", "plain"), tmp_path / "out", tmp_path / "foreign"
    monitor = watching(path, output)
    monitor.apply(pa.table({"src": ["a"], "dst": ["n1"], "op": ["+"]}))
    (output / "_counts.jsonl").rename(foreign)
    (output / "_counts.jsonl").symlink_to(foreign)
    before = foreign.read_text()
    with pytest.raises((OutputError, IndexFormatError)):
        monitor.apply(pa.table({"src": ["a"], "dst": ["n2"], "op": ["+"]}))
    assert foreign.read_text() == before


def test_what_is_staged_waits_until_its_folder_is_named_again(tmp_path, monkeypatch):
    """A process that dies between the commit and the renaming loses nothing, whoever writes the index in between."""
    path, one, two = example(tmp_path / "index", "plain"), tmp_path / "one", tmp_path / "two"

    def died(output, entry, publish=WatchOutput.publish):
        if entry.line["epoch"] == 2:
            raise KeyboardInterrupt
        publish(output, entry)

    watching(path, one).apply(pa.table({"src": ["a"], "dst": ["n0"], "op": ["+"]}))
    with monkeypatch.context() as patch:
        patch.setattr(WatchOutput, "publish", died)
        with pytest.raises(KeyboardInterrupt):
            watching(path, one).apply(pa.table({"src": ["a"], "dst": ["n1"], "op": ["+"]}))
    assert [entry.line["epoch"] for entry in Index.open(path).manifest.publications] == [2]
    bj.Graph.open(path).apply(pa.table({"src": ["a"], "dst": ["n2"], "op": ["+"]}))  # names no folder
    watching(path, two).apply(pa.table({"src": ["a"], "dst": ["n3"], "op": ["+"]}))  # names another
    assert [entry.line["epoch"] for entry in Index.open(path).manifest.publications] == [2, 4]
    assert not (one / "epoch=2").exists()
    assert (two / "epoch=4").is_dir()
    moved = tmp_path / "moved"  # wherever it lies now
    one.rename(moved)
    watching(path, moved).apply(pa.table({"src": ["a"], "dst": ["n4"], "op": ["+"]}))
    lines = [json.loads(line)["epoch"] for line in (moved / "_counts.jsonl").read_text().splitlines()]
    assert lines == [1, 2, 5]
    assert sorted(p.name for p in moved.glob("epoch=*")) == ["epoch=1", "epoch=2", "epoch=5"]
    assert not list((moved / "_staging").glob("*")) if (moved / "_staging").exists() else True


def test_a_watch_that_ends_leaves_nothing_on_the_list(tmp_path):
    path = example(tmp_path / "index", "plain")
    for number in range(3):
        monitor = watching(path, tmp_path / f"out{number}")
        monitor.apply(pa.table({"src": ["a"], "dst": [f"n{number}"], "op": ["+"]}))
        monitor.finish()
    assert not Index.open(path).manifest.publications
    assert [len((tmp_path / f"out{number}" / "_counts.jsonl").read_text().splitlines()) for number in range(3)] == [1, 1, 1]


def test_an_older_output_is_finished_wherever_it_lies_now(tmp_path, monkeypatch):
    path, output = example(tmp_path / "index", "plain"), tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(WatchOutput, "publish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            watching(path, output).apply(pa.table({"src": ["a"], "dst": ["n0"], "op": ["+"]}))
    about = json.loads((output / "_bigjoin.json").read_text())
    del about["identity"]
    (output / "_bigjoin.json").write_text(json.dumps(about))
    manifest = json.loads((path / MANIFEST).read_text())
    (entry,) = manifest.pop("publications")
    old = {"path": str(output), "folders": entry["folders"], "line": entry["line"]}
    (path / MANIFEST).write_text(json.dumps(digest({**manifest, "output": old})))
    as_version_2(path)
    output.rename(tmp_path / "moved")
    watching(path, tmp_path / "moved").apply(pa.table({"src": ["a"], "dst": ["n1"], "op": ["+"]}))
    assert sorted(p.name for p in (tmp_path / "moved").glob("epoch=*")) == ["epoch=1", "epoch=2"]
