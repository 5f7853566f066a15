"""Scratch: a process that ends removes its own, and the next one what a killed one has left; never that of a live one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bigjoin.storage import local, scratch
from bigjoin.storage.scratch import remove_abandoned, scratch_folder

HOLDER = """
import sys
from bigjoin.storage.scratch import scratch_folder
folder = scratch_folder("test", sys.argv[1])
(folder / "large").write_bytes(b"x" * 1000)
print(folder, flush=True)
sys.stdin.readline()
"""


def holder(place: Path) -> tuple[subprocess.Popen, Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    return process, Path(process.stdout.readline().strip())


def test_a_process_that_ends_removes_its_own(tmp_path):
    process, folder = holder(tmp_path)
    assert (folder / "large").exists()
    process.communicate("\n", timeout=60)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_leaves_is_removed_by_the_next(tmp_path):
    alive, kept = holder(tmp_path)
    for _ in range(3):
        process, folder = holder(tmp_path)
        process.kill()
        process.wait()
        assert (folder / "large").exists()
    alive.send_signal(signal.SIGSTOP)  # one that does not move is alive, too
    mine = scratch_folder("test", tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([kept.parent, mine.parent])
    assert (kept / "large").exists()
    alive.send_signal(signal.SIGCONT)
    alive.communicate("\n", timeout=60)
    assert list(tmp_path.iterdir()) == [mine.parent]


def test_what_cannot_be_removed_now_is_removed_later(tmp_path):
    """A task that outlives its driver for a moment still writes there."""
    process, folder = holder(tmp_path)
    process.kill()
    process.wait()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local.shutil, "rmtree", lambda *_, **__: None)
        remove_abandoned(tmp_path)
    assert (folder / "large").exists()
    assert remove_abandoned(tmp_path) == 1
    assert list(tmp_path.iterdir()) == []


def test_one_folder_a_process(tmp_path):
    folders = [scratch_folder(purpose, tmp_path) for purpose in ("a", "b", "a")]
    assert len(set(folders)) == 3
    assert len(list(tmp_path.iterdir())) == 1
    assert remove_abandoned(tmp_path) == 0


@pytest.mark.parametrize("whose", ["nobody's", "another machine's", "a link", "a name of somebody else"])
def test_what_is_not_surely_ours_is_left_alone(tmp_path, whose):
    process, folder = holder(tmp_path)
    process.kill()
    process.wait()
    owned = folder.parent
    if whose == "nobody's":
        (owned / scratch.OWNER_FILE).unlink()
    elif whose == "another machine's":
        (owned / scratch.OWNER_FILE).write_text("elsewhere 0123")
    elif whose == "a link":
        outside = tmp_path.with_name(f"{tmp_path.name}-outside")
        owned.rename(outside)
        owned.symlink_to(outside)
        folder = outside / folder.name
    else:
        folder = owned.rename(tmp_path / "bigjoin-of-mine") / folder.name
    assert remove_abandoned(tmp_path) == 0
    assert (folder / "large").exists()


def test_a_fork_neither_removes_nor_uses_what_its_parent_has(tmp_path):
    mine = scratch_folder("test", tmp_path)
    child = os.fork()
    if not child:
        scratch._remove(os.getppid(), mine.parent)
        os._exit(0 if scratch_folder("test", tmp_path).parent != mine.parent and mine.exists() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert mine.exists()
    remove_abandoned(tmp_path)
    assert list(tmp_path.iterdir()) == [mine.parent]


def test_without_locks_nobody_removes_anything(tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError("no locks available")

    monkeypatch.setattr(local.fcntl, "flock", no_locks)
    mine = scratch_folder("test", tmp_path)
    monkeypatch.undo()
    assert remove_abandoned(tmp_path) == 0
    assert mine.exists()
