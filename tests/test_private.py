"""Folders that only this user can write to, kernels that are kept there, and users without a home or a name."""

from __future__ import annotations

import hashlib
import os
import pickle
import random
import stat
import subprocess
import sys
import tempfile
from functools import cache
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

from bigjoin.indexing import build_index
from bigjoin.private import is_private, private_folder, read_private, user_cache, write_private
from tests.oracles.naive import matches
from tests.test_cli import BIGJOIN

SOMEBODY = 54321
"""A user whom the system does not know."""
EDGES = [(a, b) for a, b in product(range(6), repeat=2) if (7 * a + 3 * b) % 5 < 3]
TRIANGLES = len(matches({"edge": EDGES}, ["a", "b", "c"], [("edge", pair, False) for pair in ("ab", "bc", "ac")]))

COUNT = """
import sys
from bigjoin.index.directory import Index
from bigjoin.compiled.loops import Counting
from bigjoin.kernels.jit import cache_folder, compilations
from bigjoin.languages import parse
from bigjoin.planner import count_plan
index = Index.open(sys.argv[1])
plan = count_plan(parse("q(a, b, c) := edge(a, b), edge(b, c), edge(a, c)"), index.statistics)
total = 0
for term in plan.terms:
    counting = Counting(term, plan.query, index)
    total += term.times * counting.count(counting.ranges(4))
print(total // plan.divisor, compilations(), cache_folder())
"""

ALONE = """
import numpy as np
from bigjoin.kernels.generated import load
from bigjoin.kernels.jit import cache_folder
from bigjoin.kernels.lists import lower_bound
run = load("from bigjoin.kernels.jit import kernel\\n\\n@kernel\\ndef run(n):\\n    return n * n\\n")
print(lower_bound(np.array([1, 3, 5, 7], np.uint32), 0, 4, 5), run(12), cache_folder())
"""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A cache folder and a temporary folder of one's own."""
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    home.mkdir()
    temporary.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    private_folder.cache_clear()
    yield home / "bigjoin", temporary / f"bigjoin-{os.geteuid()}"
    private_folder.cache_clear()


def found(name="notes"):
    private_folder.cache_clear()
    return private_folder(name)


# Folders


def test_a_private_folder_is_this_user_s_alone(places):
    folder = found()
    assert folder == places[0] / "notes"
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(places[0].stat().st_mode) == 0o700


def test_a_cache_that_a_umask_left_open_is_closed(places):
    places[0].mkdir()
    places[0].chmod(0o775)
    assert found() == places[0] / "notes"
    assert stat.S_IMODE(places[0].stat().st_mode) == 0o755


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777, 0o1777])
def test_a_folder_that_others_may_write_to_is_not_believed(places, mode):
    (places[0] / "notes").mkdir(parents=True)
    (places[0] / "notes").chmod(mode)
    assert found() == places[1] / "notes"
    (places[1] / "notes").chmod(mode)
    assert found() is None


@as_root
def test_a_folder_of_somebody_else_is_not_believed(places):
    for place, other in zip(places, (places[1] / "notes", None), strict=True):
        (place / "notes").mkdir(parents=True, exist_ok=True)
        os.chown(place / "notes", SOMEBODY, SOMEBODY)
        assert found() == other
    for place in places:
        os.chown(place, SOMEBODY, SOMEBODY)
    assert found("others") is None


def test_links_and_files_are_no_folders(places, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    places[0].mkdir()
    (places[0] / "notes").symlink_to(tmp_path / "elsewhere")
    places[1].symlink_to(tmp_path / "elsewhere")
    assert not is_private(places[1])
    assert found() is None
    places[1].unlink()
    places[1].write_text("")
    assert found() is None


def test_a_user_may_move_the_cache_to_a_larger_disk(places, tmp_path):
    (tmp_path / "larger").mkdir(mode=0o700)
    places[0].symlink_to(tmp_path / "larger")
    assert found() == tmp_path / "larger" / "notes"


def test_a_temporary_folder_in_which_others_can_rename_is_not_used(places, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    assert found() == places[1] / "notes"
    places[1].parent.chmod(0o777)
    assert found() is None
    places[1].parent.chmod(0o1777)
    assert found() == places[1] / "notes"


@pytest.mark.parametrize(("home", "wanted"), [("/somewhere", Path("/somewhere/.cache/bigjoin")), ("here", None)])
def test_what_is_no_path_says_nothing(monkeypatch, home, wanted):
    monkeypatch.setenv("HOME", home)
    for relative in ("", "cache"):
        monkeypatch.setenv("XDG_CACHE_HOME", relative)
        assert user_cache() == wanted


def test_only_files_that_nobody_else_can_have_written_are_read(tmp_path):
    file = tmp_path / "file"
    write_private(file, b"mine")
    assert read_private(file) == b"mine"
    assert [f.name for f in tmp_path.iterdir()] == ["file"]
    (tmp_path / "link").symlink_to(file)
    os.mkfifo(tmp_path / "pipe", 0o600)
    for other in ("link", "pipe", "."):
        with pytest.raises(OSError, match=r"symbolic|another user|directory"):
            read_private(tmp_path / other)
    file.chmod(0o620)
    with pytest.raises(PermissionError, match="another user"):
        read_private(file)
    file.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(file, SOMEBODY, SOMEBODY)
        with pytest.raises(PermissionError, match="another user"):
            read_private(file)


# Kernels


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    path = tmp_path_factory.mktemp("private") / "index"
    src, dst = zip(*EDGES, strict=True)
    build_index(pa.table({"src": src, "dst": dst}), path)
    return path


def run(program, *arguments, before=(), cwd=None, unset=(), **environment):
    kept = {key: value for key, value in os.environ.items() if key not in (*unset, "NUMBA_CACHE_DIR")}
    command = [*before, sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(
        command, env={**kept, **environment}, cwd=cwd, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def counted(index, home, **environment):
    """Count triangles in a process of its own; return how many functions it compiled, and where it kept them."""
    count, compiled, folder = run(COUNT, index, **{"XDG_CACHE_HOME": str(home), **environment}).stdout.split()
    assert int(count) == TRIANGLES
    return int(compiled), Path(folder)


@pytest.fixture(scope="module")
def kept(index, tmp_path_factory):
    """A cache with the kernels of a count, how many these are, and their files."""
    home = tmp_path_factory.mktemp("kept")
    compiled, folder = counted(index, home)
    assert counted(index, home) == (0, folder)
    files = {file: file.read_bytes() for file in folder.iterdir()}
    assert compiled == len(files) > 5
    return home, files


def flipped(content):
    """One bit of the machine code itself, which would run all the same."""
    at = len(content) // 2
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


DAMAGES = {
    "empty": lambda content: b"",
    "short": lambda content: content[:17],
    "half": lambda content: content[: len(content) // 2],
    "random": lambda content: random.Random(len(content)).randbytes(len(content)),
    "flipped": flipped,
    "longer": lambda content: content + b"\0",
}


@pytest.mark.parametrize(
    "damage", [pytest.param(name, marks=() if name in ("empty", "flipped") else pytest.mark.slow) for name in DAMAGES]
)
def test_damaged_kernels_are_compiled_again(index, kept, damage):
    home, files = kept
    for file, content in files.items():
        file.write_bytes(DAMAGES[damage](content))
    assert counted(index, home)[0] == len(files)
    assert counted(index, home)[0] == 0


def test_a_kernel_in_another_one_s_place_is_not_run(index, kept):
    home, files = kept
    for file, content in zip(files, [*list(files.values())[1:], next(iter(files.values()))], strict=True):
        file.write_bytes(content)
    assert counted(index, home)[0] == len(files)
    assert counted(index, home)[0] == 0


class Planted:
    """What runs when it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


def plant(files, marker, mode=0o600, owner=None):
    entry = pickle.dumps(Planted(marker))
    for file in files:
        file.write_bytes(hashlib.sha256(entry).digest() + entry)
        file.chmod(mode)
        if owner is not None:
            os.chown(file, owner, owner)


@pytest.mark.parametrize(
    ("mode", "owner", "runs"),
    [
        (0o600, None, True),  # whoever can write as this user needs no kernels to run code; and the test does what it says
        (0o620, None, False),
        pytest.param(0o602, None, False, marks=pytest.mark.slow),
        pytest.param(0o644, SOMEBODY, False, marks=as_root),
    ],
)
def test_code_that_others_have_planted_does_not_run(index, kept, tmp_path, mode, owner, runs):
    home, files = kept
    plant(files, tmp_path / "marker", mode, owner)
    counted(index, home)
    assert (tmp_path / "marker").exists() == runs
    assert counted(index, home)[0] == 0


@as_root
def test_a_folder_that_others_have_planted_is_not_used(index, kept, tmp_path):
    """The home cannot be written to, and somebody made the temporary folder before us."""
    planted = tmp_path / "temporary" / f"bigjoin-{os.geteuid()}" / "kernels" / next(iter(kept[1])).parent.name
    planted.mkdir(parents=True)
    (tmp_path / "temporary").chmod(0o1777)
    for file in kept[1]:
        (planted / file.name).touch()
    plant(planted.iterdir(), tmp_path / "marker")  # files of ours, in a folder that is not
    os.chown(planted.parents[1], SOMEBODY, SOMEBODY)
    done = run(COUNT, index, XDG_CACHE_HOME="/proc/nowhere", TMPDIR=str(tmp_path / "temporary"))
    assert done.stdout.split() == [str(TRIANGLES), str(len(kept[1])), "None"]
    assert not (tmp_path / "marker").exists()


def test_numba_s_own_setting_is_held_to_the_same(tmp_path):
    chosen = tmp_path / "chosen"
    chosen.mkdir(mode=0o700)
    home = {"XDG_CACHE_HOME": str(tmp_path / "home")}
    done = run(ALONE, **home, NUMBA_CACHE_DIR=str(chosen))
    assert done.stdout.startswith(f"2 144 {chosen}/")
    assert done.stderr == ""
    chosen.chmod(0o777)
    done = run(ALONE, **home, NUMBA_CACHE_DIR=str(chosen))
    assert done.stdout.startswith(f"2 144 {tmp_path / 'home'}/")
    assert f"NUMBA_CACHE_DIR is not used: {chosen} is not a folder that this user, and nobody else, can write to" in done.stderr


# Users without a home or a name, disks without room


@cache
def works(*command):
    return subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0


def nameless():
    """Return what makes a command run for a user whom the system does not know."""
    prefix = ("unshare", "--user", f"--map-user={SOMEBODY}", f"--map-group={SOMEBODY}")
    if not works(*prefix):
        pytest.skip("this system does not let users have namespaces")
    return prefix


def mounted(*mounts):
    """Return what makes a command run with some folders mounted, each (options, path), and with /proc as its own."""
    prefix = ("unshare", "--user", "--map-root-user", "--mount")
    script = " && ".join(f"mount -t tmpfs -o {options} tmpfs '{path}'" for options, path in mounts)
    if not works(*prefix, "sh", "-c", f"{script} && true"):
        pytest.skip("this system does not let users mount")
    return (*prefix, "sh", "-c", f'{script} && exec "$@"', "sh")


def test_a_user_without_a_home_or_a_name_has_kernels(tmp_path):
    tmp_path.chmod(0o700)
    done = run(ALONE, before=nameless(), unset=("HOME", "XDG_CACHE_HOME"), TMPDIR=str(tmp_path))
    assert done.stdout.startswith(f"2 144 {tmp_path}/bigjoin-{SOMEBODY}/kernels/")


def test_without_any_folder_every_process_compiles_for_itself():
    if any(place.startswith(("/tmp/", "/var/tmp/")) for place in (sys.executable, __file__)):
        pytest.skip("bigjoin itself lies below a temporary folder, which is to be hidden")
    read_only = mounted(("ro", "/tmp"), ("ro", "/var/tmp"))
    done = run(ALONE, before=read_only, cwd="/proc", unset=("XDG_CACHE_HOME", "TMPDIR"), HOME="/proc/nowhere")
    assert done.stdout == "2 144 None\n"


@pytest.mark.parametrize(
    "room", [pytest.param("size=4k", marks=pytest.mark.slow), "size=64k", pytest.param("nr_inodes=6", marks=pytest.mark.slow)]
)
def test_a_full_disk_keeps_nobody_from_counting(index, tmp_path, room):
    disk = tmp_path / "disk"
    disk.mkdir(mode=0o700)
    done = run(COUNT, index, before=mounted((f"{room},mode=0700", disk)), XDG_CACHE_HOME=str(disk))
    assert done.stdout.split()[0] == str(TRIANGLES)


@pytest.mark.slow
@pytest.mark.spark
def test_a_user_without_a_home_or_a_name_counts_by_spark(tmp_path):
    (tmp_path / "edges.txt").write_text("".join(f"{a} {b}\n" for a, b in EDGES))
    unknown = {
        key: value for key, value in os.environ.items() if key not in ("HOME", "XDG_CACHE_HOME", "BIGJOIN_CACHE", "USER")
    }
    for strategy in ("shared", "partitioned"):
        query = "q(a, b, c) := edge(a, b), edge(b, c), edge(a, c)"
        command = [*nameless(), str(BIGJOIN), "count", query, "edges.txt", "--strategy", strategy]
        done = subprocess.run(
            command, cwd=tmp_path, env={**unknown, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{TRIANGLES}\n", "")
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"bigjoin-{SOMEBODY}", "edges.txt"]


@pytest.mark.slow
@pytest.mark.spark
def test_a_machine_that_does_not_know_its_own_name_counts_by_spark(tmp_path):
    (tmp_path / "edges.txt").write_text("".join(f"{a} {b}\n" for a, b in EDGES))
    prefix = ("unshare", "--user", "--map-root-user", "--uts")
    if not works(*prefix):
        pytest.skip("this system does not let users have namespaces")
    query = "q(a, b, c) := edge(a, b), edge(b, c), edge(a, c)"
    named = (*prefix, "sh", "-c", 'hostname nobody-knows-this && exec "$@"', "sh")
    command = [*named, str(BIGJOIN), "count", query, "edges.txt", "--strategy", "shared", "--quiet"]
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_LOCAL_IP"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{TRIANGLES}\n"), done.stderr
