"""A store that fails, refuses, or has lost something: one clear sentence, exit code 2, and nothing half-written."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import fsspec
import pytest

import bigjoin as bj
from bigjoin.errors import BigjoinError, IndexFormatError
from bigjoin.index.writer import verify
from bigjoin.storage import place_of, storage_at
from tests.store.test_index_on_a_store import EDGES, bigjoin, cycles, on_s3

pytestmark = pytest.mark.store
PATIENCE_SECONDS = 90.0
"""How long a command may try to reach a store that is down; clients do so several times."""

__all__ = ["on_s3"]


@pytest.fixture
def edges(tmp_path):
    file = tmp_path / "edges.csv"
    file.write_text("src,dst\n" + "".join(f"{a},{b}\n" for a, b in EDGES))
    return file


def refusal(s3, *arguments, **variables):
    """Return the only sentence that a command says, which it has to refuse."""
    done = bigjoin(*arguments, "--quiet", environment={**os.environ, **variables}, check=False)
    assert done.returncode == 2, done.stderr
    assert not done.stdout
    assert s3.secret_key not in done.stderr
    *notes, said = done.stderr.strip().splitlines()
    assert all("note:" in note or not note.strip() for note in notes), done.stderr
    return said


def test_a_store_that_is_down(s3, on_s3, edges, tmp_path):
    index = f"{on_s3}/graph.index"
    bj.build_index(EDGES, index)
    (tmp_path / "updates").mkdir()
    (tmp_path / "updates" / "1.csv").write_text("src,dst\n7,8\n")
    s3.kill()
    try:
        watch = ("watch", "c=3-cycle", index, "--updates", tmp_path / "updates", "--once", "--output", f"{on_s3}/out")
        for command in (("verify", index), ("status", index), ("index", edges, f"{on_s3}/new.index"), watch):
            started = time.monotonic()
            assert "Could not connect" in refusal(s3, *command)
            assert time.monotonic() - started < PATIENCE_SECONDS
        with pytest.raises(BigjoinError, match="cannot be read: Could not connect"):
            bj.Graph.open(index)
        with pytest.raises(BigjoinError, match="cannot be read: Could not connect"):
            bj.build_index(EDGES, index)
    finally:
        s3.start()
    assert bj.Graph.open(index).count("3-cycle", strategy="local") == cycles(EDGES)


def test_wrong_credentials_and_a_missing_bucket(s3, on_s3, edges):
    index = f"{on_s3}/graph.index"
    bj.build_index(EDGES, index)
    for command in (("verify", index), ("index", edges, index), ("index", edges, f"{on_s3}/new.index")):
        assert "cannot be read" in refusal(s3, *command, AWS_SECRET_ACCESS_KEY="guessed")
    assert "there is no index at s3://no-such-bucket/x" in refusal(s3, "verify", "s3://no-such-bucket/x")
    said = refusal(s3, "index", edges, "s3://no-such-bucket/x")
    assert "the index s3://no-such-bucket/x cannot be written: The specified bucket does not exist" in said


def test_credentials_are_never_written_or_shown(s3, tmp_path, monkeypatch):
    for name in s3.environment:
        monkeypatch.delenv(name, raising=False)
    url = f"{s3.url}/with-options"
    index = bj.build_index(EDGES, url, storage_options=s3.storage_options)
    graph = bj.Graph.open(url, storage_options=s3.storage_options)
    graph.apply([{"src": 7, "dst": 8, "op": "+"}])
    for shown in (index, graph, graph.index, graph.index.storage, graph.index.manifest, graph.index.path):
        assert s3.secret_key not in repr(shown)
        assert s3.secret_key not in str(shown)
    store = fsspec.filesystem("s3", **s3.storage_options, use_listings_cache=False)
    found = store.find(url)
    assert found
    assert not [name for name in found if s3.secret_key.encode() in store.cat_file(name)]
    wrong = {**s3.storage_options, "secret": "guessed-by-somebody"}
    with pytest.raises(BigjoinError, match="cannot be read") as told:
        bj.Graph.open(url, storage_options=wrong)
    assert "guessed-by-somebody" not in str(told.value)


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda content: content[:-1], r"has \d+ bytes instead of \d+"),
        (lambda content: content[:-1] + bytes([content[-1] ^ 1]), "its checksum differs"),
        (None, "is missing"),
    ],
    ids=["cut off", "altered", "removed"],
)
def test_a_damaged_object_is_refused(on_s3, tmp_path, monkeypatch, harm, said):
    index = f"{on_s3}/graph.index"
    built = bj.build_index(EDGES, index)
    storage = storage_at(index)
    name = next(name for name in built.manifest.files if name.endswith("values.npy"))
    if harm is None:
        storage.remove(name)
    else:
        storage.publish(name, harm(storage.read(name)))
    monkeypatch.setenv("BIGJOIN_CACHE", str(tmp_path / "another-cache"))
    with pytest.raises(IndexFormatError, match=said):
        verify(bj.Graph.open(index).index)


def test_a_damaged_manifest_is_refused(s3, on_s3):
    index = f"{on_s3}/graph.index"
    bj.build_index(EDGES, index)
    storage = storage_at(index)
    (name,) = (name for name in storage.list() if name.startswith("manifest-"))
    content = storage.read(name)
    for harmed in (content[:-20], content.replace(b"edge", b"edgy"), b"", b"\xff"):
        storage.publish(name, harmed)
        assert "bigjoin manifest" in (told := refusal(s3, "verify", index)) or "damaged" in told
    bj.build_index(EDGES, index)
    assert bj.Graph.open(index).count("3-cycle", strategy="local") == cycles(EDGES)


def test_a_cache_smaller_than_any_file_is_shared(on_s3, tmp_path):
    """Several processes with one empty cache, which has room for nothing, count at once."""
    index = f"{on_s3}/graph.index"
    bj.build_index(EDGES, index)
    environment = {**os.environ, "BIGJOIN_CACHE": str(tmp_path / "small"), "BIGJOIN_CACHE_BYTES": "1"}
    command = [sys.executable, "-m", "bigjoin", "count", "3-cycle", index, "--strategy", "local", "--quiet"]
    counting = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [int(one.communicate()[0]) for one in counting] == [cycles(EDGES)] * 4
    left = [file for file in (tmp_path / "small" / "bigjoin-store").iterdir() if not file.name.startswith(".lock")]
    assert len(left) <= 1


def test_a_full_disk_of_the_cache(s3, on_s3, edges, tmp_path):
    index = f"{on_s3}/graph.index"
    bj.build_index(EDGES, index)
    blocked = tmp_path / "a-file"
    blocked.write_text("")
    assert str(blocked) in refusal(s3, "verify", index, BIGJOIN_CACHE=str(blocked))
    assert "No space left on device" in refusal_with_full_disk(s3, "verify", index)
    assert storage_at(place_of(index)).list()


def refusal_with_full_disk(s3, *arguments):
    """Run a command that cannot write a byte to a file of the cache."""
    program = (
        "import sys, errno, pathlib, bigjoin.storage.store as store\n"
        "def full(*_): raise OSError(errno.ENOSPC, 'No space left on device')\n"
        "store.StoreStorage.copy_to = full\n"
        "from bigjoin.__main__ import main\n"
        "main()\n"
    )
    environment = {**os.environ, "BIGJOIN_CACHE": os.environ["BIGJOIN_CACHE"] + "-full"}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert s3.secret_key not in done.stderr
    (said,) = done.stderr.strip().splitlines()
    return said
