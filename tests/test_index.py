"""The index directory: what is written is what is read, and whatever is wrong with it has a name."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pytest
import xxhash

from bigjoin.errors import IndexFormatError, OutputError, SourceError
from bigjoin.index import writer as writer_module
from bigjoin.index.directory import Index
from bigjoin.index.manifest_entries import DegreesEntry, SourceEntry
from bigjoin.index.manifest_file import MANIFEST
from bigjoin.index.shards import Shards
from bigjoin.index.writer import locked, vacuum, verify, writing
from bigjoin.indexing import build_index, undirected_copy
from bigjoin.storage import LocalStorage

SRC, DST = [5, 5, 5, 7, 9, 9, 5], [7, 9, 9, 9, 9, 1, 7]


def table(src, dst):
    return pa.table({"src": src, "dst": dst})


@pytest.fixture
def index(tmp_path):
    return build_index(table(SRC, DST), tmp_path / "index")


def edges_of(index):
    trie = index.trie("edge", (0, 1))
    ids = index.dictionaries["vertex"]
    columns = [ids.decode(column).to_pylist() for column in trie.tuples(np.arange(len(trie)))]
    return sorted(zip(*columns, strict=True))


def test_edges_are_a_set_and_loops_are_kept(index):
    assert edges_of(index) == [(5, 7), (5, 9), (7, 9), (9, 1), (9, 9)]
    relation = index.statistics.relations["edge"]
    assert (relation.tuples, relation.loops, relation.symmetric) == (5, 1, False)
    assert index.statistics.domains == {"vertex": 4}


def test_codes_fall_with_degree_and_ties_follow_the_ids(index):
    # degrees: 9 has 5 (its loop counts twice), 5 and 7 have 2, 1 has 1
    assert index.dictionaries["vertex"].ids.to_pylist() == [9, 5, 7, 1]
    assert index.dictionaries["vertex"].ranks.tolist() == [3, 1, 2, 0]
    assert index.manifest.degrees == DegreesEntry((0, 1, 2, 1), ((0, 5), (1, 2), (2, 2), (3, 1)))


def test_forward_and_reverse_hold_the_same_edges(index):
    reverse = index.trie("edge", (1, 0))
    dst, src = reverse.tuples(np.arange(len(reverse)))
    ids = index.dictionaries["vertex"]
    assert sorted(zip(ids.decode(src).to_pylist(), ids.decode(dst).to_pylist(), strict=True)) == edges_of(index)


def test_the_symmetric_closure_is_the_undirected_graph(index, tmp_path):
    closure = undirected_copy(index, tmp_path / "closure")
    assert edges_of(closure) == sorted({(5, 7), (7, 5), (5, 9), (9, 5), (7, 9), (9, 7), (9, 1), (1, 9)})
    assert closure.statistics.relations["edge"].loops == 0
    assert edges_of(undirected_copy(closure, tmp_path / "again")) == edges_of(closure)


def test_constants_are_found_in_the_dictionary(index):
    ids = index.dictionaries["vertex"]
    assert [ids.code(value) for value in (9, 5, 7, 1, 4)] == [0, 1, 2, 3, None]
    assert [ids.smaller(value) for value in (-1, 1, 1.5, 9, 10)] == [0, 0, 1, 3, 4]
    assert ids.smaller(9, or_equal=True) == 4
    assert (ids.comparable("x"), ids.comparable(2.5)) == (False, True)


def test_null_ids_are_refused_unless_they_are_to_be_dropped(tmp_path):
    edges = table([1, None, None, 4], [2, 3, None, 5])
    with pytest.raises(SourceError, match="2 of the 4 edges of the table have a NULL id"):
        build_index(edges, tmp_path / "index")
    assert not (tmp_path / "index").exists()
    index = build_index(edges, tmp_path / "index", drop_nulls=True)
    assert edges_of(index) == [(1, 2), (4, 5)]
    assert index.manifest.relations["edge"].source == SourceEntry(rows=4, nulls=2, loops=0, duplicates=0)


def test_the_lists_take_eight_bytes_an_edge_and_sixteen_a_vertex(tmp_path):
    rng = np.random.default_rng(1)
    index = build_index(table(rng.integers(0, 1000, 50_000), rng.integers(0, 1000, 50_000)), tmp_path / "index")
    lists = sum(e.bytes for name, e in index.manifest.files.items() if "offsets" in name or "values" in name)
    assert lists <= 9 * index.statistics.relations["edge"].tuples + 16 * index.statistics.domains["vertex"]


def test_numpy_and_arrow_alone_can_read_it(index):
    manifest = json.loads((index.path / MANIFEST).read_text())
    order = manifest["relations"]["edge"]["orders"]["0,1"]["levels"][0]
    offsets, values = (np.load(index.path / order[part]) for part in ("offsets", "values"))
    with pa.memory_map(str(index.path / manifest["domains"]["vertex"]["ids"][0])) as source:
        ids = pa.ipc.open_file(source).read_all()["id"].to_pylist()
    lists = {ids[code]: sorted(ids[v] for v in values[offsets[code] : offsets[code + 1]]) for code in range(len(ids))}
    assert lists == {5: [7, 9], 7: [9], 9: [1, 9], 1: []}
    for name, entry in manifest["files"].items():
        assert [xxhash.xxh3_64_hexdigest((index.path / name).read_bytes())] == entry["blocks"]


# Shards


@pytest.mark.parametrize("size", [0, 1, 2, 5, 10, 17])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 30])
def test_every_code_has_one_place_and_shards_are_slices(size, count):
    shards = Shards(count, size)
    codes = np.arange(size, dtype=np.uint32)
    nodes = shards.nodes(codes)
    assert sorted(nodes.tolist()) == codes.tolist()
    assert shards.codes(nodes).tolist() == codes.tolist()
    for shard in range(count):
        mine = shards.codes(np.arange(shards.first(shard), shards.first(shard + 1)))
        assert mine.tolist() == [code for code in range(size) if code % count == shard]


@pytest.mark.parametrize("shards", [2, 3, 16])
def test_shards_change_where_lists_lie_and_nothing_else(index, tmp_path, shards):
    dealt = build_index(table(SRC, DST), tmp_path / "dealt", shards=shards)
    assert verify(dealt) == dealt.bytes
    assert dealt.shards == shards
    assert edges_of(dealt) == edges_of(index)
    for columns in ((0, 1), (1, 0)):
        one, other = index.trie("edge", columns), dealt.trie("edge", columns)
        for code in range(4):
            nodes = [trie.nodes([np.array([code], np.uint32)], 1)[0] for trie in (one, other)]
            lists = [t.values[t.offsets[n] : t.offsets[n + 1]].tolist() for t, n in zip((one, other), nodes, strict=True)]
            assert lists[0] == lists[1]
        assert one.roots().values.tolist() == other.roots().values.tolist()


# Safety


def test_a_new_build_replaces_the_old_one_and_readers_keep_theirs(index):
    before, travelled = Index.open(index.path), pickle.dumps(index)
    build_index(table([1], [2]), index.path)
    assert edges_of(Index.open(index.path)) == [(1, 2)]
    assert len(edges_of(before)) == 5
    assert len(edges_of(pickle.loads(travelled))) == 5  # a task that begins only now


def test_superseded_files_go_with_the_vacuum(index):
    build_index(table([1], [2]), index.path)
    assert len(list(index.path.glob("build-*"))) == 2
    assert vacuum(index.path) > 0
    assert len(list(index.path.glob("build-*"))) == 1
    assert edges_of(Index.open(index.path)) == [(1, 2)]
    assert vacuum(index.path) == 0


def test_superseded_files_go_by_themselves_after_a_while(index, monkeypatch):
    build_index(table([1], [2]), index.path)
    monkeypatch.setattr(writer_module.time, "time", lambda: 4e9)
    build_index(table([3], [4]), index.path)
    assert len(list(index.path.glob("build-*"))) == 2
    assert edges_of(Index.open(index.path)) == [(3, 4)]


def test_a_build_that_fails_leaves_the_old_index(index):
    def build_half():
        with writing(index.path) as writer:
            np.save(writer.folder / "half.npy", np.arange(3))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        build_half()
    assert len(edges_of(Index.open(index.path))) == 5
    assert len(list(index.path.glob("build-*"))) == 1


def test_an_interrupt_just_after_the_commit_does_no_harm(index, monkeypatch):
    before = (index.path / "manifest.json").read_bytes()

    def interrupted(self, name=""):
        if (index.path / "manifest.json").read_bytes() != before:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "sync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            build_index(table([1], [2]), index.path)
    assert edges_of(Index.open(index.path)) == [(1, 2)]
    verify(Index.open(index.path))


@pytest.mark.parametrize("version", [1, 99])
def test_the_index_of_another_version_stays_until_a_new_one_is_complete(index, version):
    manifest = json.loads((index.path / MANIFEST).read_text()) | {"version": version}
    (index.path / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(SourceError):
        build_index(table([1, None], [2, 3]), index.path)
    assert all((index.path / name).is_file() for name in manifest["files"])
    assert edges_of(build_index(table([1], [2]), index.path)) == [(1, 2)]


def test_a_build_that_fails_leaves_nothing_where_nothing_was(tmp_path):
    with pytest.raises(RuntimeError), writing(tmp_path / "new"):
        raise RuntimeError
    assert not (tmp_path / "new").exists()


def test_a_full_disk_is_called_that(index):
    for error in (OSError("508837 requested and 392688 written"), OSError(28, "No space left on device")):
        with pytest.raises(OutputError, match="cannot be written: No space left on device"), writing(index.path):
            raise error
    assert len(edges_of(Index.open(index.path))) == 5
    assert len(list(index.path.glob("build-*"))) == 1


def test_a_build_that_was_killed_can_be_repeated(tmp_path):
    (tmp_path / "index" / "build-0123456789ab").mkdir(parents=True)
    (tmp_path / "index" / ".manifest.json.0123").write_text("{")
    with pytest.raises(IndexFormatError, match=r"is not an index: it has no manifest\.json"):
        Index.open(tmp_path / "index")
    build_index(table([1], [2]), tmp_path / "index")
    assert edges_of(Index.open(tmp_path / "index")) == [(1, 2)]
    assert len(list((tmp_path / "index").glob("build-*"))) == 1
    assert not list((tmp_path / "index").glob(".manifest*"))


def test_a_second_writer_is_refused(index):
    with locked(index.path), pytest.raises(IndexFormatError, match=rf"another process \(process {os.getpid()} on .*is writing"):
        build_index(table([1], [2]), index.path)
    assert len(edges_of(Index.open(index.path))) == 5
    build_index(table([1], [2]), index.path)


def test_a_lock_ends_with_its_process(index, tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from bigjoin.index.writer import locked\n"
        "with locked(Path(sys.argv[1])): Path(sys.argv[2]).touch(); time.sleep(60)"
    )
    other = subprocess.Popen([sys.executable, "-c", code, str(index.path), str(tmp_path / "ready")])
    while not (tmp_path / "ready").exists():
        assert other.poll() is None
        time.sleep(0.05)
    with pytest.raises(IndexFormatError, match=f"process {other.pid} on"):
        build_index(table([1], [2]), index.path)
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert edges_of(build_index(table([1], [2]), index.path)) == [(1, 2)]


def test_other_directories_are_not_overwritten(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(IndexFormatError, match="exists and is not an index"):
        build_index(table([1], [2]), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_folders_of_somebody_else_are_left_alone(tmp_path, index):
    for folder in (tmp_path / "project" / "build-release", index.path / "build-mine"):
        folder.mkdir(parents=True)
        (folder / "precious").touch()
    with pytest.raises(IndexFormatError, match="exists and is not an index"):
        build_index(table([1], [2]), tmp_path / "project")
    build_index(table([1], [2]), index.path)
    vacuum(index.path)
    assert (tmp_path / "project" / "build-release" / "precious").exists()
    assert (index.path / "build-mine" / "precious").exists()


def test_a_damaged_index_is_not_copied(index, tmp_path):
    file = index.path / values_file(index)
    file.write_bytes(file.read_bytes()[:-1] + b"\x01")
    with pytest.raises(IndexFormatError, match="its checksum differs"):
        build_index(index.path, tmp_path / "copy", shards=2)
    assert not (tmp_path / "copy").exists()


def test_a_foreign_manifest_is_not_overwritten(tmp_path):
    (tmp_path / MANIFEST).write_text('{"name": "my web app"}')
    with pytest.raises(IndexFormatError, match="exists and is not an index"):
        build_index(table([1], [2]), tmp_path)
    assert (tmp_path / MANIFEST).read_text() == '{"name": "my web app"}'


# Damage


@pytest.mark.parametrize("part", ["0-1.values", "1-0.offsets", "ranks", "ids"])
@pytest.mark.parametrize("at", [-4, -8, 6, 0])
def test_altered_files_of_the_right_size_are_named(index, part, at):
    assert verify(index) == index.bytes
    name = next(name for name in index.manifest.files if part in name)
    content = bytearray((index.path / name).read_bytes())
    content[at : at + 4 or None] = b"\xff\xff\xff\x7f"
    (index.path / name).write_bytes(content)
    with pytest.raises(IndexFormatError, match=f"is damaged: {name} is not what was written: its checksum differs"):
        verify(Index.open(index.path))


@pytest.mark.parametrize("part", ["0-1.values", "1-0.offsets", "ranks"])
def test_lists_that_lead_astray_are_found_even_with_a_checksum(index, part):
    name = next(name for name in index.manifest.files if part in name)
    array = np.load(index.path / name)
    array[1] = 1 << 30
    np.save(index.path / name, array)
    with pytest.raises(IndexFormatError, match="is damaged"):
        verify(Index.open(index.path))


def test_a_manifest_with_missing_parts_is_refused(index):
    manifest = json.loads((index.path / MANIFEST).read_text())
    for key in ("files", "domains", "relations", "shards"):
        (index.path / MANIFEST).write_text(json.dumps({k: v for k, v in manifest.items() if k != key}))
        with pytest.raises(IndexFormatError, match=r"is damaged: manifest\.json is not what was written"):
            Index.open(index.path)
    for change in ({"files": {"../../etc/passwd": 1}}, {"shards": 3}, {"epoch": 5}):
        (index.path / MANIFEST).write_text(json.dumps({**manifest, **change}))
        with pytest.raises(IndexFormatError, match=r"is damaged: manifest\.json is not what was written"):
            Index.open(index.path)


def test_a_version_that_was_vacuumed_away_says_so(index):
    before = Index.open(index.path)
    build_index(table([1], [2]), index.path)
    vacuum(index.path)
    with pytest.raises(IndexFormatError, match=r"is gone: the graph was closed, or .* open the index again"):
        edges_of(before)


def values_file(index):
    return next(name for name in index.manifest.files if "values" in name)


def test_a_missing_file_is_named(index):
    (index.path / values_file(index)).unlink()
    with pytest.raises(IndexFormatError, match=r"0-1\.values\.npy is missing"):
        Index.open(index.path)


def test_a_truncated_file_is_named(index):
    file = index.path / values_file(index)
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(IndexFormatError, match=r"0-1\.values\.npy has \d+ bytes instead of"):
        Index.open(index.path)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "other", "version": 1}', '{"format": "bigjoin-index"}'])
def test_a_manifest_that_is_none_is_refused(index, text):
    (index.path / MANIFEST).write_text(text)
    with pytest.raises(IndexFormatError, match="is not a bigjoin manifest"):
        Index.open(index.path)


@pytest.mark.parametrize(
    ("version", "message"), [(99, "and this bigjoin reads up to 5: upgrade bigjoin"), (1, "no longer read: build it again")]
)
def test_other_format_versions_are_refused(index, version, message):
    manifest = json.loads((index.path / MANIFEST).read_text())
    (index.path / MANIFEST).write_text(json.dumps({**manifest, "version": version}))
    with pytest.raises(IndexFormatError, match=f"has format version {version}, .*{message}"):
        Index.open(index.path)
