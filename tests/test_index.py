"""The index directory: what is written is what is read, and whatever is wrong with it has a name."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from bigjoin.errors import IndexFormatError, SourceError
from bigjoin.index.build import build_graph, copy_graph
from bigjoin.index.dictionary import Dictionary
from bigjoin.index.directory import MANIFEST, Index, writing
from bigjoin.index.trie import build_trie


@pytest.fixture
def index(tmp_path):
    src, dst = [5, 5, 5, 7, 9, 9, 5], [7, 9, 9, 9, 9, 1, 7]
    return build_graph(pa.array(src), pa.array(dst), tmp_path / "index", directed=True)


def edges_of(index):
    trie = index.extensions("edge", (0, 1))
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


def test_forward_and_reverse_hold_the_same_edges(index):
    reverse = index.extensions("edge", (1, 0))
    dst, src = reverse.tuples(np.arange(len(reverse)))
    ids = index.dictionaries["vertex"]
    assert sorted(zip(ids.decode(src).to_pylist(), ids.decode(dst).to_pylist(), strict=True)) == edges_of(index)


def test_the_symmetric_closure_is_the_undirected_graph(index, tmp_path):
    closure = copy_graph(index, tmp_path / "closure", directed=False)
    assert edges_of(closure) == sorted({(5, 7), (7, 5), (5, 9), (9, 5), (7, 9), (9, 7), (9, 1), (1, 9)})
    assert closure.statistics.relations["edge"].loops == 0
    assert edges_of(copy_graph(index, tmp_path / "copy", directed=True)) == edges_of(index)
    assert edges_of(copy_graph(closure, tmp_path / "again", directed=True)) == edges_of(closure)


def test_constants_are_found_in_the_dictionary(index):
    ids = index.dictionaries["vertex"]
    assert [ids.code(value) for value in (9, 5, 7, 1, 4)] == [0, 1, 2, 3, None]
    assert [ids.smaller(value) for value in (-1, 1, 1.5, 9, 10)] == [0, 0, 1, 3, 4]
    assert ids.smaller(9, or_equal=True) == 4
    assert (ids.comparable("x"), ids.comparable(2.5)) == (False, True)


def test_null_ids_are_refused(tmp_path):
    with pytest.raises(SourceError, match="1 ids are NULL"):
        build_graph(pa.array([1, None]), pa.array([2, 3]), tmp_path / "index", directed=True)
    assert not (tmp_path / "index").exists()


def test_a_new_build_replaces_the_old_one_and_readers_keep_theirs(index):
    before = Index.open(index.path)
    build_graph(pa.array([1]), pa.array([2]), index.path, directed=True)
    assert edges_of(Index.open(index.path)) == [(1, 2)]
    assert len(edges_of(before)) == 5


def test_a_build_that_fails_leaves_the_old_index(index):

    def build_half():
        with writing(index.path) as writer:
            writer.array("half", np.arange(3))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        build_half()
    assert len(edges_of(Index.open(index.path))) == 5
    assert len(list(index.path.glob("build-*"))) == 1


def test_a_build_that_fails_leaves_nothing_where_nothing_was(tmp_path):
    with pytest.raises(RuntimeError), writing(tmp_path / "new"):
        raise RuntimeError
    assert not (tmp_path / "new").exists()


def test_a_build_that_was_killed_can_be_repeated(tmp_path):
    (tmp_path / "index" / "build-0123").mkdir(parents=True)
    with pytest.raises(IndexFormatError, match=r"is not an index: it has no manifest\.json"):
        Index.open(tmp_path / "index")
    build_graph(pa.array([1]), pa.array([2]), tmp_path / "index", directed=True)
    assert edges_of(Index.open(tmp_path / "index")) == [(1, 2)]


def test_files_of_a_task_that_ran_twice_do_not_become_part_of_the_index(tmp_path):
    with writing(tmp_path / "index") as writer:
        writer.domain("vertex", Dictionary(pa.array([7, 8]), np.array([0, 1], np.uint32)))
        (writer.folder / "piece-0.values").write_bytes(b"half")
        index = writer.commit()
    assert not any("piece" in name for name in index.manifest["files"])
    assert not list(index.path.rglob("piece-*"))


@pytest.mark.parametrize("arity", [1, 2, 3])
def test_relations_of_any_arity_are_read_as_they_were_written(tmp_path, arity):
    rng = np.random.default_rng(arity)
    columns = [rng.integers(0, 4, 20).astype(np.uint32) for _ in range(arity)]
    wanted = build_trie(columns, 4)
    with writing(tmp_path / "index") as writer:
        writer.domain("id", Dictionary(pa.array([4, 5, 6, 7]), np.arange(4, dtype=np.uint32)))
        writer.relation("r", domains=("id",) * arity, symmetric=False, loops=0)
        writer.order("r", tuple(range(arity)), wanted)
        index = writer.commit()
    everything = np.arange(len(wanted))
    for width in range(1, arity + 1):
        found = index.check().extensions("r", tuple(range(width)))
        tuples = sorted(set(zip(*(c.tolist() for c in columns[:width]), strict=True)))
        assert list(zip(*(c.tolist() for c in found.tuples(everything[: len(found)])), strict=True)) == tuples


def test_other_directories_are_not_overwritten(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(IndexFormatError, match="exists and is not an index"):
        build_graph(pa.array([1]), pa.array([2]), tmp_path, directed=True)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_foreign_manifest_is_not_overwritten(tmp_path):
    (tmp_path / MANIFEST).write_text('{"name": "my web app"}')
    with pytest.raises(IndexFormatError, match="exists and is not an index"):
        build_graph(pa.array([1]), pa.array([2]), tmp_path, directed=True)
    assert (tmp_path / MANIFEST).read_text() == '{"name": "my web app"}'


@pytest.mark.parametrize("part", ["values", "offsets", "ranks", "ids"])
@pytest.mark.parametrize("at", [-4, -8, 6, 0])
def test_files_of_the_right_size_with_nonsense_in_them_are_found_out(index, part, at):
    name = next(name for name in index.manifest["files"] if part in name)
    content = bytearray((index.path / name).read_bytes())
    content[at : at + 4 or None] = b"\xff\xff\xff\x7f"
    (index.path / name).write_bytes(content)
    try:
        survived = edges_of(Index.open(index.path).check())
    except IndexFormatError as error:
        assert "is damaged" in str(error)  # noqa: PT017
    else:  # an id may change its value without anything being wrong to see; nothing may crash or lose its shape
        assert part == "ids"
        assert len(survived) == 5


def test_a_manifest_with_missing_parts_is_refused(index):
    manifest = json.loads((index.path / MANIFEST).read_text())
    for key in ("files", "domains", "relations"):
        (index.path / MANIFEST).write_text(json.dumps({k: v for k, v in manifest.items() if k != key}))
        with pytest.raises(IndexFormatError, match=f"lacks {key}"):
            Index.open(index.path)
    (index.path / MANIFEST).write_text(json.dumps({**manifest, "files": {"../../etc/passwd": 1}}))
    with pytest.raises(IndexFormatError, match="outside its directory"):
        Index.open(index.path)


def values_file(index):
    return next(name for name in index.manifest["files"] if "values" in name)


def test_a_missing_file_is_named(index):
    (index.path / values_file(index)).unlink()
    with pytest.raises(IndexFormatError, match=r"values0\.npy is missing"):
        Index.open(index.path)


def test_a_truncated_file_is_named(index):
    file = index.path / values_file(index)
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(IndexFormatError, match=r"values0\.npy has \d+ bytes instead of"):
        Index.open(index.path)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "other", "version": 1}', '{"format": "bigjoin-index"}'])
def test_a_manifest_that_is_none_is_refused(index, text):
    (index.path / MANIFEST).write_text(text)
    with pytest.raises(IndexFormatError, match="is not a bigjoin manifest"):
        Index.open(index.path)


def test_a_newer_format_is_refused(index):
    manifest = json.loads((index.path / MANIFEST).read_text())
    (index.path / MANIFEST).write_text(json.dumps({**manifest, "version": 99}))
    with pytest.raises(IndexFormatError, match="has format version 99, and this bigjoin reads up to 1: upgrade bigjoin"):
        Index.open(index.path)
