"""An index and the output of a watch on a store of objects: fsspec's store in memory, which has neither rename nor append.

The same with real servers, and with workers that share nothing else, is in tests/store.
"""

from __future__ import annotations

import json
import random
import shutil
import uuid
from contextlib import suppress

import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import bigjoin as bj
from bigjoin.changing_verbs import monitor_of
from bigjoin.errors import BigjoinError, IndexFormatError, OutputError, SourceError
from bigjoin.index.manifest_file import TakenIndexError, read_manifest
from bigjoin.index.writer import building, freeable, vacuum, verify
from bigjoin.storage import TakenError, place_of, storage_at
from bigjoin.storage.store_cache import StoreCache, store_cache
from bigjoin.streaming.find import ListShare
from bigjoin.streaming.monitor import Monitor
from bigjoin.streaming.update_files import watch_folder
from bigjoin.streaming.watched import watchable

EDGES = [(1, 2), (2, 3), (3, 1), (3, 4), (4, 1), (1, 3)]


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Give the URL of an empty store; there is a cache of its own."""
    monkeypatch.setenv("BIGJOIN_CACHE", str(tmp_path / "cache"))
    url = f"memory://{uuid.uuid4().hex}"
    yield url
    with suppress(FileNotFoundError):
        MemoryFileSystem().rm(url.removeprefix("memory:/"), recursive=True)


def objects(url):
    """The names of all objects below a URL."""
    root = url.removeprefix("memory:/")
    return sorted(name.removeprefix(f"{root}/") for name in MemoryFileSystem().find(root))


def triangles(edges):
    found = set(edges)
    return sum((b, c) in found and (c, a) in found for a, b in found for c in {y for x, y in found if x == b})


def test_an_index_is_built_opened_and_asked(store):
    url = f"{store}/graph.index"
    built = bj.build_index(EDGES, url)
    assert str(built.path) == url
    graph = bj.Graph.open(url)
    assert graph.count("3-cycle", strategy="local") == triangles(EDGES)
    assert [name for name in objects(store) if "manifest" in name] == ["graph.index/manifest-00000000000000000001.json"]
    verify(graph.index)


def test_files_are_copied_once_and_copied_again_when_they_are_gone(store, tmp_path):
    url = f"{store}/graph.index"
    bj.build_index(EDGES, url)
    shutil.rmtree(tmp_path / "cache" / "bigjoin-store")
    (tmp_path / "cache" / "bigjoin-store").mkdir(mode=0o700)
    before = store_cache().fetched
    assert bj.Graph.open(url).count("3-cycle", strategy="local") == triangles(EDGES)
    fetched = store_cache().fetched - before
    assert 0 < fetched <= bj.Graph.open(url).index.bytes
    assert bj.Graph.open(url).count("3-cycle", strategy="local") == triangles(EDGES)
    assert store_cache().fetched - before == fetched


def test_every_commit_is_the_next_number(store):
    url = f"{store}/graph.index"
    bj.build_index(EDGES, url)
    graph = bj.Graph.open(url)
    edges = set(EDGES)
    for number, (edge, op) in enumerate([((2, 4), "+"), ((4, 3), "+"), ((3, 1), "-")], 1):
        (edges.add if op == "+" else edges.remove)(edge)
        epoch = graph.apply([{"src": edge[0], "dst": edge[1], "op": op}], "3-cycle")
        assert (epoch.number, epoch.count) == (number, triangles(edges))
        assert epoch.durable
        assert read_manifest(place_of(url)).number == number + 1
    again = bj.Graph.open(url)
    assert again.index.epoch == 3
    assert again.count("3-cycle", strategy="local") == triangles(edges)
    assert read_manifest(place_of(url)).number == 5, "the first static query compacts the index"
    assert graph.apply([{"src": 3, "dst": 1, "op": "+"}], "3-cycle").count == triangles({*edges, (3, 1)})


def test_two_writers_cannot_both_win(store):
    url = place_of(f"{store}/graph.index")
    bj.build_index(EDGES, url)
    with building(url) as writer:
        manifest = read_manifest(url)
        bj.build_index(EDGES[:3], url)
        with pytest.raises(
            TakenIndexError, match=r"another process has written the index memory://.* meanwhile: open it again"
        ):
            writer.commit(manifest, kept=manifest.files)
    assert bj.Graph.open(url).edge_count == 3
    folders = {name.split("/")[1] for name in objects(store) if "/build-" in name}
    assert folders == set(read_manifest(url).all_folders) | {entry.folder for entry in read_manifest(url).superseded}


def test_a_writer_that_stood_still_for_long_does_not_come_back(store, monkeypatch):
    monkeypatch.setattr("bigjoin.storage.store.EARLIER_KEPT", 2)
    storage = storage_at(f"{store}/x")
    for number in range(5):
        assert storage.commit("m.json", b"%d" % number, after=number) == number + 1
    for name in storage.outdated("m.json"):
        storage.remove(name)
    assert [name for name in objects(store) if "m-" in name] == [f"x/m-{number:020}.json" for number in (3, 4, 5)]
    for after in (0, 1, 2, 3, 4):
        with pytest.raises(TakenError):
            storage.commit("m.json", b"late", after=after)
    assert storage.current("m.json").content == b"4"
    assert storage.commit("m.json", b"4", after=4) == 5, "the answer to the same commit was lost"


def test_a_commit_counts_if_somebody_has_built_on_it_at_once(store, monkeypatch):
    storage = storage_at(f"{store}/x")
    newest = type(storage)._newest

    def after_another(self, name):
        monkeypatch.setattr(type(storage), "_newest", newest)
        storage_at(f"{store}/x").commit(name, b"theirs", after=1)
        return newest(self, name)

    monkeypatch.setattr(type(storage), "_newest", after_another)
    assert storage.commit("m.json", b"mine", after=0) == 1
    assert storage.current("m.json").content == b"theirs"
    assert storage.read("m-00000000000000000001.json") == b"mine"


def test_a_monitor_goes_on_with_its_own_version(store, monkeypatch):
    """Somebody commits the next epoch before the one who has committed this one opens the index again."""
    url = f"{store}/graph.index"
    bj.build_index(EDGES, url)
    graph = bj.Graph.open(url)
    graph.apply([{"src": 2, "dst": 4, "op": "+"}], "3-cycle")
    commit = type(graph.index.storage).commit

    def then_another(self, *given, **named):
        number = commit(self, *given, **named)
        monkeypatch.setattr(type(self), "commit", commit)
        other = bj.Graph.open(url)
        assert other.index.epoch == 2
        other.apply([{"src": 4, "dst": 2, "op": "+"}])
        return number

    monkeypatch.setattr(type(graph.index.storage), "commit", then_another)
    epoch = graph.apply([{"src": 4, "dst": 3, "op": "+"}], "3-cycle")
    edges = [*EDGES, (2, 4), (4, 3)]
    assert (epoch.number, epoch.count) == (2, triangles(edges))
    with suppress(TakenIndexError):
        graph.apply([{"src": 7, "dst": 8, "op": "+"}], "3-cycle")
    epoch = graph.apply([{"src": 3, "dst": 2, "op": "+"}], "3-cycle")
    assert epoch.count == triangles([*edges, (4, 2), (3, 2)])


def test_nothing_is_removed_while_nobody_can_tell_what_was_committed(store, monkeypatch):
    """The store creates the manifest, and then does not answer any more."""
    url = f"{store}/graph.index"
    storage = type(storage_at(url))

    def commit_and_fail(self, *given, **named):
        commit(self, *given, **named)
        lost.setattr(storage, "current", fail)
        raise OSError(5, "connection lost")

    def fail(*_):
        raise OSError(5, "connection lost")

    commit = storage.commit
    with monkeypatch.context() as lost:
        lost.setattr(storage, "commit", commit_and_fail)
        with pytest.raises(OutputError, match="cannot be written: connection lost"):
            bj.build_index(EDGES, url)
    assert bj.Graph.open(url).count("3-cycle", strategy="local") == triangles(EDGES)


def meanwhile(graph, monkeypatch, act):
    """Let somebody else act once, in the middle of the next epoch of a graph."""
    monitor = graph._monitor[1]
    find = monitor._find

    def acted(*given):
        monkeypatch.setattr(monitor, "_find", find)
        act()
        return find(*given)

    monkeypatch.setattr(monitor, "_find", acted)


def test_an_epoch_goes_on_after_somebody_compacts(store, monkeypatch):
    url = f"{store}/graph.index"
    bj.build_index(EDGES, url)
    graph = bj.Graph.open(url)
    graph.apply([{"src": 2, "dst": 4, "op": "+"}], "3-cycle")
    meanwhile(graph, monkeypatch, lambda: bj.Graph.open(url).count("3-cycle", strategy="local"))
    epoch = graph.apply([{"src": 4, "dst": 3, "op": "+"}], "3-cycle")
    assert (epoch.number, epoch.count) == (2, triangles([*EDGES, (2, 4), (4, 3)]))


def test_an_epoch_is_refused_after_somebody_elses(store, monkeypatch):
    url = f"{store}/graph.index"
    bj.build_index(EDGES, url)
    graph = bj.Graph.open(url)
    graph.apply([{"src": 2, "dst": 4, "op": "+"}], "3-cycle")
    meanwhile(graph, monkeypatch, lambda: bj.Graph.open(url).apply([{"src": 7, "dst": 8, "op": "+"}]))
    with pytest.raises(TakenIndexError):
        graph.apply([{"src": 4, "dst": 3, "op": "+"}], "3-cycle")
    assert graph.apply([{"src": 4, "dst": 3, "op": "+"}], "3-cycle").number == 3, "who asks again knows the other's epoch"


def files_of_updates(folder, seed, epochs):
    """Write random updates, and return the edges after each epoch."""
    folder.mkdir()
    random.seed(seed)
    edges, states = set(EDGES), []
    for number in range(1, epochs + 1):
        lines = ["src,dst,op"]
        for _ in range(4):
            edge = (random.randint(1, 6), random.randint(1, 6))
            if edge[0] == edge[1] or any(line.startswith(f"{edge[0]},{edge[1]},") for line in lines):
                continue
            lines.append(f"{edge[0]},{edge[1]},{'-' if edge in edges else '+'}")
            edges ^= {edge}
        (folder / f"{number:03}.csv").write_text("\n".join(lines) + "\n")
        states.append(set(edges))
    return states


def watch(url, output, updates, query="3-cycle"):
    run = {"strategy": "local", "workers": None, "batch_size": None}
    watched = watchable({"cycle": query}, {}, listing=True)
    monitor = monitor_of(bj.Graph.open(url), watched, run, output=place_of(output))
    watch_folder(monitor, updates, once=True)
    monitor.finish()


def test_a_watch_reports_whole_epochs(store, tmp_path):
    url, output = f"{store}/graph.index", f"{store}/out"
    bj.build_index(EDGES, url)
    states = files_of_updates(tmp_path / "updates", 7, 9)
    watch(url, output, tmp_path / "updates")
    whole = bj.read_output(output)
    assert whole.query == "cycle"
    assert whole.epochs == list(range(1, 10))
    rows = whole.table()
    total = triangles(EDGES)
    for epoch, edges in enumerate(states, 1):
        total += sum(row["change"] for row in rows.filter(pa.compute.equal(rows["epoch"], epoch)).to_pylist())
        assert total == triangles(edges)
    assert bj.read_output(output, "cycle", first=3, last=4).epochs == [3, 4]
    assert not [name for name in objects(store) if "_staging" in name]
    counts = [json.loads(storage_at(output).read(f"_counts/epoch={epoch}.json")) for epoch in whole.epochs]
    assert [line["epoch"] for line in counts] == whole.epochs


def test_what_a_killed_watch_has_left_is_finished(store, tmp_path, monkeypatch):
    """An epoch is committed, and the process ends while its files are moved: readers see the epoch once it is whole."""
    url, output = f"{store}/graph.index", f"{store}/out"
    bj.build_index(EDGES, url)
    states = files_of_updates(tmp_path / "updates", 11, 4)

    class Killed(BaseException):
        pass

    def killed(*_):
        raise Killed

    monkeypatch.setattr("bigjoin.streaming.output.WatchOutput.publish", killed)
    with pytest.raises(Killed):
        watch(url, output, tmp_path / "updates")
    monkeypatch.undo()
    monkeypatch.setenv("BIGJOIN_CACHE", str(tmp_path / "cache"))
    assert bj.Graph.open(url).index.epoch == 1
    assert bj.read_output(output).epochs == []
    watch(url, output, tmp_path / "updates")
    whole = bj.read_output(output)
    assert whole.epochs == [1, 2, 3, 4]
    assert triangles(EDGES) + sum(whole.table()["change"].to_pylist()) == triangles(states[-1])


def test_a_watch_leaves_alone_what_another_one_has_staged(store, tmp_path, monkeypatch):
    """A second watch of the same output starts while the first is about to commit: what that commits is there."""
    url, output = f"{store}/graph.index", f"{store}/out"
    bj.build_index(EDGES, url)
    states = files_of_updates(tmp_path / "updates", 5, 4)
    commit = Monitor._commit

    def started_meanwhile(self, *given):
        monkeypatch.setattr(Monitor, "_commit", commit)
        run = {"strategy": "local", "workers": None, "batch_size": None}
        other = monitor_of(bj.Graph.open(url), watchable({"cycle": "3-cycle"}, {}, listing=True), run, output=place_of(output))
        with other.writing():
            pass
        return commit(self, *given)

    monkeypatch.setattr(Monitor, "_commit", started_meanwhile)
    watch(url, output, tmp_path / "updates")
    whole = bj.read_output(output)
    assert whole.epochs == [1, 2, 3, 4]
    assert triangles(EDGES) + sum(whole.table()["change"].to_pylist()) == triangles(states[-1])
    assert not [name for name in objects(store) if "_staging" in name]


def test_what_nobody_commits_is_removed_when_it_is_old(store, tmp_path, monkeypatch):
    url, output = f"{store}/graph.index", f"{store}/out"
    bj.build_index(EDGES, url)
    files_of_updates(tmp_path / "updates", 5, 1)
    watch(url, output, tmp_path / "updates")
    storage_at(output).publish("_staging/0123456789ab/cycle/epoch=2/part-0.parquet", b"")
    watch(url, output, tmp_path / "updates")
    assert [name for name in objects(store) if "_staging" in name]
    monkeypatch.setattr("bigjoin.streaming.output.ABANDONED_SECONDS", -1.0)
    watch(url, output, tmp_path / "updates")
    assert not [name for name in objects(store) if "_staging" in name]


@pytest.mark.parametrize("where", ["on a store", "here"])
def test_what_a_task_has_left_that_was_tried_again_is_not_reported(store, tmp_path, monkeypatch, where):
    url, output = (f"{store}/graph.index", f"{store}/out") if where == "on a store" else (tmp_path / "index", tmp_path / "out")
    bj.build_index(EDGES, url)
    states = files_of_updates(tmp_path / "updates", 7, 4)
    share = ListShare.__call__
    monkeypatch.setattr(ListShare, "__call__", lambda *given: (share(*given), share(*given))[1])
    watch(url, output, tmp_path / "updates")
    whole = bj.read_output(output)
    assert whole.epochs == [1, 2, 3, 4]
    assert triangles(EDGES) + sum(whole.table()["change"].to_pylist()) == triangles(states[-1])


def test_local_outputs_are_read_alike(tmp_path):
    bj.build_index(EDGES, tmp_path / "index")
    states = files_of_updates(tmp_path / "updates", 3, 3)
    watch(tmp_path / "index", tmp_path / "out", tmp_path / "updates")
    whole = bj.read_output(tmp_path / "out")
    assert whole.epochs == [1, 2, 3]
    assert triangles(EDGES) + sum(whole.table()["change"].to_pylist()) == triangles(states[-1])
    with pytest.raises(OutputError, match="has no query 'other': it has cycle"):
        bj.read_output(tmp_path / "out", "other")
    with pytest.raises(OutputError, match="is not the output of a watch"):
        bj.read_output(tmp_path / "index")


def test_builds_that_nobody_names_are_left_alone_until_they_are_old(store, monkeypatch):
    url = place_of(f"{store}/graph.index")
    bj.build_index(EDGES, url)
    storage = storage_at(url)
    storage.publish("build-0123456789ab/x.npy", b"somebody is writing this")
    assert vacuum(url) == 0
    assert freeable(url) == 0
    monkeypatch.setattr("bigjoin.index.writer.ABANDONED_SECONDS", -1.0)
    assert vacuum(url) == len(b"somebody is writing this")
    assert bj.Graph.open(url).count("3-cycle", strategy="local") == triangles(EDGES)


def test_a_damaged_object_is_refused(store, tmp_path):
    url = f"{store}/graph.index"
    index = bj.build_index(EDGES, url)
    shutil.rmtree(tmp_path / "cache" / "bigjoin-store")
    (tmp_path / "cache" / "bigjoin-store").mkdir(mode=0o700)
    name = next(name for name in index.manifest.files if name.endswith("values.npy"))
    storage = storage_at(url)
    content = bytearray(storage.read(name))
    content[-1] ^= 1
    storage.publish(name, bytes(content))
    with pytest.raises(IndexFormatError, match="is not what was written: its checksum differs"):
        bj.Graph.open(url).count("3-cycle", strategy="local")
    storage.publish(name, bytes(content[:-1]))
    with pytest.raises(IndexFormatError, match=r"has \d+ bytes instead of \d+"):
        bj.Graph.open(url)
    storage.remove(name)
    with pytest.raises(IndexFormatError, match="is missing"):
        bj.Graph.open(url)


def test_an_index_is_copied_to_a_store_and_back(store, tmp_path):
    bj.build_index(EDGES, tmp_path / "index")
    there = bj.build_index(tmp_path / "index", f"{store}/graph.index", shards=3)
    assert there.shards == 3
    back = bj.build_index(f"{store}/graph.index", tmp_path / "back", directed=False)
    assert bj.Graph.open(back.path).count("triangle", unique=True, strategy="local") == 2


def test_results_are_stored_on_a_store(store):
    url = f"{store}/graph.index"
    bj.build_index(EDGES, url, directed=False)
    graph = bj.Graph.open(url)
    assert graph.materialize("tri", "q(a, b, c) := edge(a, b), edge(b, c), edge(a, c)") == 12
    assert bj.Graph.open(url).count("q(a, b, c) := tri(a, b, c), a < b, b < c", strategy="local") == 2


def test_the_cache_makes_room_for_what_is_new(tmp_path):
    cache = StoreCache(tmp_path, 100)

    def content(size):
        return lambda file: file.write_bytes(b"x" * size)

    kept = cache.map("a", content(60)).content
    assert cache.bytes == 60
    assert len(cache.map("b", content(60)).content) == 60
    assert cache.bytes == 60, "the first one has made room"
    assert bytes(kept) == b"x" * 60, "but who has mapped it can read it"
    assert cache.fetched == 120
    cache.map("b", content(60))
    assert cache.fetched == 120


def test_using_a_copy_does_not_change_it(tmp_path):
    """What was verified is known by the status of its file."""
    cache = StoreCache(tmp_path, 100)
    fetch = lambda file: file.write_bytes(b"x")  # noqa: E731
    known = cache.map("a", fetch).status
    assert cache.map("a", fetch).status == known


def test_a_copy_that_makes_room_at_once_is_used(tmp_path):
    """Two files where one has room, used by turns and linked."""
    cache = StoreCache(tmp_path / "cache", 1)
    cache.folder.mkdir()
    for content in (b"aa", b"bb", b"aa"):
        fetch = lambda file, content=content: file.write_bytes(content)  # noqa: E731
        assert bytes(cache.map(content.decode(), fetch).content) == content
        cache.map("other", lambda file: file.write_bytes(b"cc"))
        target = tmp_path / f"linked-{uuid.uuid4().hex}"
        cache.link(content.decode(), fetch, target)
        assert target.read_bytes() == content
    assert cache.bytes <= 2
    assert not [entry.name for entry in cache.folder.iterdir() if entry.name.startswith(".fetched")]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://key:secret@bucket/x", r"s3://\.\.\.@bucket/x holds credentials"),
        ("nothing://bucket/x", "nothing://bucket/x cannot be opened"),
        ("memory://nowhere/x", "there is no index at memory://nowhere/x"),
    ],
)
def test_mistakes_are_told_in_a_sentence(url, said):
    with pytest.raises(BigjoinError, match=said) as told:
        bj.Graph.open(url)
    assert "secret" not in str(told.value)


def test_a_missing_client_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "gcsfs", None)
    with pytest.raises(SourceError, match=r'pip install "bigjoin\[gcs\]"'):
        place_of("gs://bucket/x")
