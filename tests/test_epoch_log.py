"""The log of epochs: whatever becomes of its end, an index opens as a whole epoch; nothing that was synced is lost unseen."""

from __future__ import annotations

import errno
import shutil
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import bigjoin as bj
from bigjoin.errors import IndexFormatError, OutputError
from bigjoin.index import epoch_log
from bigjoin.index.directory import Index
from bigjoin.index.epoch_log import ALIGNMENT_BYTES, LogEnd, encoded, entries, logged_changes
from bigjoin.index.manifest_changes import (
    DomainChange,
    ManifestChange,
    PublicationsChange,
    RelationChange,
    changed,
    publications_after,
    publications_change,
)
from bigjoin.index.manifest_entries import PublicationEntry
from bigjoin.index.manifest_file import MANIFEST, manifest_without_log, read_manifest
from bigjoin.index.writer import vacuum, verify
from bigjoin.indexing import build_index
from bigjoin.storage.local import LocalStorage
from bigjoin.streaming import commit
from bigjoin.streaming.compaction import without_runs

WEDGES = "q(a, b, c) := edge(a, b), edge(b, c), not edge(a, c)"


def history(seed: int, epochs: int, *, names: int = 12, updates: int = 6) -> list[list[tuple[str, str, str]]]:
    """Updates of some epochs, with ids that appear later and come back."""
    random = Random(seed)
    vertices = [f"v{i}" for i in range(names)]
    return [
        [(random.choice(vertices), random.choice(vertices), random.choice("++-")) for _ in range(random.randrange(updates))]
        for _ in range(epochs)
    ]


def states(epochs) -> list[set[tuple[str, str]]]:
    """The edges before the first epoch and after each: deletions come first, and apply to what is there."""
    found = [{("v0", "v1")}]
    for updates in epochs:
        gone = {(a, b) for a, b, op in updates if op == "-"}
        came = {(a, b) for a, b, op in updates if op == "+"}
        found.append((found[-1] - gone) | came)
    return found


def wedges(edges) -> int:
    return sum((a, c) not in edges for a, b in edges for x, c in edges if x == b)


def table(updates) -> pa.Table:
    columns = [[row[i] for row in updates] for i in range(3)]
    return pa.table({name: pa.array(column, pa.string()) for name, column in zip(("src", "dst", "op"), columns, strict=True)})


def begun(path: Path) -> Path:
    build_index(pa.table({"src": ["v0"], "dst": ["v1"]}), path)
    return path


def edges_of(path: Path) -> set[tuple[str, str]]:
    index = without_runs(Index.open(path))
    ids = index.dictionaries["vertex"].ids.to_pylist()
    trie = index.trie("edge", (0, 1))
    return {(ids[a], ids[b]) for a, b in zip(*trie.tuples(np.arange(len(trie))), strict=True)}


def log_of(path: Path) -> Path:
    (log,) = path.glob(f"build-*/{commit.LOG_NAME}")
    return log


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    """An index whose epochs lie in its log, the states of the graph, and where the record of each epoch ends."""
    path = begun(tmp_path_factory.mktemp("logged") / "index")
    epochs = history(1, 12)
    graph, ends = bj.Graph.open(path), []
    for updates in epochs:
        graph.apply(table(updates))
        ends.append(log_of(path).stat().st_size)
    assert ends[0] == 0  # the first epoch begins the log
    return path, states(epochs), ends


def opened(path: Path, wanted: list[set[tuple[str, str]]]) -> int:
    """Return the epoch that an index opens at, whose edges must be those of that epoch."""
    epoch = Index.open(path).epoch
    assert edges_of(shutil.copytree(path, path.with_name("read"), dirs_exist_ok=True)) == wanted[epoch]
    shutil.rmtree(path.with_name("read"))
    return epoch


@pytest.mark.parametrize(("limit", "value"), [("MAX_LOG_RECORDS", 4), ("MAX_LOG_BYTES", 3000), ("", 0)])
@pytest.mark.parametrize("seed", range(3))
def test_epochs_in_a_log_are_what_brute_force_says(tmp_path, monkeypatch, limit, value, seed):
    """Logs end and others begin, and runs are merged; counts and edges stay right, also for who opens it again."""
    if limit:
        monkeypatch.setattr(commit, limit, value)
    path, random, epochs = begun(tmp_path / "index"), Random(seed), history(seed, 40)
    graph, known = bj.Graph.open(path), states(epochs)
    for number, updates in enumerate(epochs, 1):
        epoch = graph.apply(table(updates), WEDGES, listing=bool(random.randrange(2)))
        assert epoch.count == wedges(known[number])
        assert (epoch.created, epoch.destroyed) >= (0, 0)
        if random.random() < 0.1:
            graph = bj.Graph.open(path)
        if random.random() < 0.1:
            assert graph.count(WEDGES, strategy="local") == wedges(known[number])  # which compacts it
        if random.random() < 0.1:
            verify(Index.open(path))
        if random.random() < 0.1:
            vacuum(path)
            graph = bj.Graph.open(path)
    assert Index.open(path).epoch == len(epochs)
    assert edges_of(path) == known[-1]


def test_a_log_that_was_cut_anywhere_opens_as_a_whole_epoch(tmp_path, logged):
    path, known, ends = logged
    content = log_of(path).read_bytes()
    places = {*ends, *(end + more for end in ends for more in (1, 40, ALIGNMENT_BYTES, 200)), *range(0, len(content), 997)}
    for place in sorted(place for place in places if place <= len(content)):
        copy = Path(shutil.copytree(path, tmp_path / "copy"))
        log_of(copy).write_bytes(content[:place])
        epoch = opened(copy, known)
        assert epoch == max(number for number, end in enumerate(ends, 1) if end <= place)
        done = bj.Graph.open(copy).apply(table([("v0", "new", "+")]))  # the next writer goes on from there
        assert done.number == epoch + 1
        assert edges_of(copy) == known[epoch] | {("v0", "new")}
        shutil.rmtree(copy)


def test_a_log_that_was_cut_at_any_byte_says_what_its_whole_records_say(logged):
    path, _, ends = logged
    begun_with, content = manifest_without_log(path), log_of(path).read_bytes()
    for place in range(len(content) + 1):
        found = logged_changes(content[:place])
        assert found.end.place == ends[found.end.records]
        assert max(end for end in ends if end <= place) <= found.end.place < place + ALIGNMENT_BYTES  # it may lack zeros
    for number, end in enumerate(ends, 1):
        assert logged_changes(content[:end]).applied_to(begun_with).epoch == number


def test_what_was_synced_and_is_damaged_is_told(tmp_path, logged):
    """Only the last record may be taken for one that was never finished."""
    path, known, ends = logged
    content, random = log_of(path).read_bytes(), Random(2)
    told = 0
    for _ in range(150):
        copy = Path(shutil.copytree(path, tmp_path / "copy"))
        damaged, at = bytearray(content), random.randrange(len(content))
        damaged[at] ^= 1 << random.randrange(8)
        log_of(copy).write_bytes(damaged)
        if at >= ends[-2]:
            assert opened(copy, known) in (len(known) - 2, len(known) - 1)
        else:
            try:
                assert opened(copy, known) == len(known) - 1  # what lies between records means nothing
            except IndexFormatError as error:
                assert "damaged: in its log" in str(error)  # noqa: PT017
                told += 1
        shutil.rmtree(copy)
    assert told > 100


def test_a_log_belongs_to_its_index(tmp_path, logged):
    path, _, _ = logged
    other = begun(tmp_path / "other")
    graph = bj.Graph.open(other)
    for updates in history(2, 3):
        graph.apply(table(updates))
    shutil.copyfile(log_of(path), log_of(other))
    with pytest.raises(IndexFormatError, match=r"damaged: in its log .*, after is "):
        Index.open(other)
    log_of(other).unlink()
    with pytest.raises(IndexFormatError, match="is missing"):
        Index.open(other)


def test_a_full_disk_leaves_the_epoch_before(tmp_path, monkeypatch):
    path = begun(tmp_path / "index")
    epochs = history(3, 6)
    graph, known = bj.Graph.open(path), states(epochs)
    for updates in epochs[:3]:
        graph.apply(table(updates))
    write = LocalStorage.write_from

    def full(self, name, position, content, *, sync=True):
        write(self, name, position, content[: len(content) // 2], sync=False)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(LocalStorage, "write_from", full)
        with pytest.raises(OutputError, match="cannot be written: No space left"):
            graph.apply(table(epochs[3]))
    assert Index.open(path).epoch == 3
    for updates in epochs[3:]:
        graph.apply(table(updates))
    assert Index.open(path).epoch == 6
    assert edges_of(path) == known[-1]


def test_a_reader_keeps_its_version_while_the_log_grows(tmp_path):
    path = begun(tmp_path / "index")
    epochs = history(4, 9)
    graph, known = bj.Graph.open(path), states(epochs)
    for updates in epochs[:4]:
        graph.apply(table(updates))
    reader = Index.open(path)
    for updates in epochs[4:]:
        graph.apply(table(updates))
    assert reader.epoch == 4
    verify(reader)
    assert Index.open(path).epoch == 9
    assert edges_of(path) == known[-1]


def test_another_process_may_write_in_between(tmp_path):
    path = begun(tmp_path / "index")
    epochs = history(5, 10)
    one, two, known = bj.Graph.open(path), bj.Graph.open(path), states(epochs)
    for number, updates in enumerate(epochs, 1):
        epoch = (one, two)[number % 2].apply(table(updates), WEDGES)
        assert (epoch.number, epoch.count) == (number, wedges(known[number]))


def test_the_manifest_file_is_replaced_once_for_many_epochs(tmp_path):
    path = begun(tmp_path / "index")
    graph = bj.Graph.open(path)
    graph.apply(table([("a", "b", "+")]))
    first = (path / MANIFEST).stat().st_ino
    for updates in history(6, 70):
        graph.apply(table(updates))
    assert (path / MANIFEST).stat().st_ino == first
    assert logged_changes(log_of(path).read_bytes()).end.records == 70


def test_the_size_of_a_record_does_not_grow(tmp_path, monkeypatch):
    """Neither with the epochs before it, nor with what they have added."""
    monkeypatch.setattr(commit, "MAX_LOG_RECORDS", 1000)
    path = begun(tmp_path / "index")
    graph, ends = bj.Graph.open(path), [0]
    for number in range(10, 310):
        graph.apply(table([("v0", f"w{number}", "+")]), sync="none")
        ends.append(log_of(path).stat().st_size)
    sizes = np.diff(ends)[1:]
    assert max(sizes[-50:]) <= max(sizes[:50]) + ALIGNMENT_BYTES  # a number may get another digit
    graph.flush()
    assert len(edges_of(path)) == 301


def test_a_log_is_folded_into_a_manifest_with_one_run(tmp_path, monkeypatch):
    monkeypatch.setattr(commit, "MAX_LOG_RECORDS", 10)
    path, epochs = begun(tmp_path / "index"), history(7, 60, names=40, updates=12)
    graph, known, begins = bj.Graph.open(path), states(epochs), set()
    for number, updates in enumerate(epochs, 1):
        graph.apply(table(updates))
        now = Index.open(path)
        assert now.epoch == number
        begins.add(manifest_without_log(path).epoch)
        assert all(entry.offset is None for entry in manifest_without_log(path).files.values())
    assert begins == {1, 12, 23, 34, 45, 56}
    assert len(manifest_without_log(path).runs) <= 4
    verify(Index.open(path))
    assert edges_of(path) == known[-1]


ALTERED = {
    "after": {"after": "another"},
    "domains": {"domains": {"nowhere": DomainChange(1)}},
    "domains.vertex.size": {"domains": {"vertex": DomainChange(1, stored=2)}},
    "relations": {"relations": {"nothing": RelationChange(1)}},
    "relations.edge.rows": {"relations": {"edge": RelationChange(1, rows=1)}},
    "dropped": {"dropped": ("edge",), "relations": {"edge": RelationChange(1)}},
    "publications": {"publications": PublicationsChange(1, 1)},
    "epochs": {"epoch": 0},
}


@pytest.mark.parametrize("what", [*ALTERED, "run.parts", "files", "no files", "offset", "text", "list", "field"])
def test_a_record_that_does_not_fit_is_damage(tmp_path, what):
    """Its checksums are right, and it follows the record before: so it was written, but not by us."""
    path = begun(tmp_path / "index")
    graph = bj.Graph.open(path)
    for updates in [[("a", "b", "+")], [("b", "c", "+")], [("c", "d", "+")]]:
        graph.apply(table(updates))
    content = log_of(path).read_bytes()
    end = logged_changes(content).end
    before = read_manifest(path)
    run = before.runs[-1]
    names = {"deltas": "build-000000000000/x.npz", "ids": "build-000000000000/x.arrow"}
    sound = ManifestChange(
        before.identity,
        "next",
        before.created,
        before.epoch + 1,
        run=replace(run, epochs=(before.epoch + 1,) * 2, deltas=names["deltas"], parts={"vertex/ids": names["ids"]}),
        files=entries(dict.fromkeys(names.values(), b"abc"), end),
    )
    assert changed(before, sound).epoch == 4
    assert sound.run is not None
    change = replace(sound, **ALTERED.get(what, {}))
    if what == "run.parts":
        change = replace(sound, run=replace(sound.run, parts={"edge/levels": names["ids"]}))
    elif what == "files":
        change = replace(sound, files={run.deltas: before.files[run.deltas]})
    elif what == "no files":
        change = replace(sound, files={})
    elif what == "offset":
        change = replace(sound, files={name: replace(entry, offset=10**6) for name, entry in sound.files.items()})
    record, _ = encoded(change, dict.fromkeys(names.values(), b"abc"), end, synced=end.place)
    if what in ("text", "list", "field"):
        text = {"text": b"{", "list": b"[]", "field": b'{"after":1}'}[what]
        record, _ = encoded_text(text, end)
    log_of(path).write_bytes(content + record)
    with pytest.raises(IndexFormatError, match=r"damaged: .*its log"):
        Index.open(path)


def encoded_text(text: bytes, end: LogEnd) -> tuple[bytes, LogEnd]:
    """Return a record whose change is some text."""

    class Encoder:
        def encode(self, _):
            return text.decode()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(epoch_log, "_ENCODER", Encoder())
        return encoded(ManifestChange("", "", "", 0), {}, end, synced=end.place)


def test_what_is_left_behind_a_new_record_does_not_follow_it(tmp_path):
    """A group of records was lost in part, and the first one was written anew: the others are whole, but of another past."""
    path = begun(tmp_path / "index")
    graph = bj.Graph.open(path)
    graph.apply(table([]))
    copy = Path(shutil.copytree(path, tmp_path / "copy"))
    for updates in [[("a", "b", "+")], [("b", "c", "+")], [("c", "d", "+")]]:
        graph.apply(table(updates), sync="none")
    lost = log_of(path).read_bytes()
    bj.Graph.open(copy).apply(table([("a", "x", "+")]))
    new = log_of(copy).read_bytes()
    assert logged_changes(lost).end.records == 3
    log_of(copy).write_bytes(new + lost[len(new) :])
    assert logged_changes(lost[: len(new)]).end.place == len(new)  # the records are of one size
    assert Index.open(copy).epoch == 2
    assert edges_of(copy) == {("v0", "v1"), ("a", "x")}
    graph.flush()


def test_publications_change_in_one_place():
    """Whatever the lists are, what is written makes one the other; usual changes are written shortly."""
    random, some = Random(8), [PublicationEntry(f"o{i}", (), {"epoch": i}) for i in range(12)]
    for _ in range(300):
        old = tuple(random.sample(some, random.randrange(6)))
        new = (
            tuple(random.sample(some, random.randrange(6))) if random.random() < 0.5 else (*old[random.randrange(3) :], some[0])
        )
        change = publications_change(old, new)
        assert publications_after(old, change) == new
    assert publications_change(tuple(some[:5]), tuple(some[:6])) == PublicationsChange(5, 5, (some[5],))
    assert publications_change(tuple(some[:5]), (some[0], *some[2:6])) == PublicationsChange(1, 2, (some[5],))
