"""The archive of the JVM's classes: the JVM believes whatever it says, so nothing but a whole archive reaches it."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from bigjoin.spark import class_archive

STARTED = """
from bigjoin.spark.session import get_session
session = get_session("local[1]")
print(session.range(3).count(), session._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments())
"""


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(class_archive.SWITCH, raising=False)
    for name in (*class_archive._OPTIONS, *class_archive._SETTINGS_FOLDERS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(class_archive, "private_folder", lambda name: _made(tmp_path / "bigjoin" / name))
    monkeypatch.setattr(class_archive, "_missing", set())
    return _made(tmp_path / "bigjoin" / "classes")


@pytest.fixture
def archive(folder):
    """Return a file that has the name of an archive and the checksum that the name says."""
    made = folder / "content"
    made.write_bytes(b"classes" * 1000)
    return made.rename(folder / f"{class_archive._key()}-{class_archive._checksum(made)}.jsa")


def _made(folder):
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def test_a_whole_archive_is_used(archive):
    assert f"-XX:SharedArchiveFile={archive} " in class_archive.java_options({})
    assert not class_archive._missing


@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_a_damaged_archive_is_removed_and_not_used(archive, damage):
    content = archive.read_bytes()
    archive.write_bytes({"cut": content[:5000], "changed": content[:-1] + b"!", "empty": b""}[damage])
    assert class_archive.java_options({}) == ""
    assert not archive.exists()
    assert class_archive._missing


def test_an_archive_that_is_changed_after_it_was_verified_is_noticed(archive):
    assert class_archive.java_options({})
    archive.write_bytes(archive.read_bytes()[:-10] + b"0123456789")
    assert class_archive.java_options({}) == ""


def test_an_archive_is_not_followed_through_a_link(archive, tmp_path):
    elsewhere = archive.rename(tmp_path / "elsewhere")
    archive.symlink_to(elsewhere)
    assert class_archive.java_options({}) == ""


def test_the_archive_of_another_java_is_not_used(archive, monkeypatch, tmp_path):
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("another")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert class_archive.java_options({}) == ""
    assert archive.exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (class_archive.SWITCH, "off"),
        ("SPARK_SUBMIT_OPTS", "-Xmx1g"),
        ("JAVA_TOOL_OPTIONS", "-Xshare:off"),
        ("JAVA_HOME", "/nowhere"),
    ],
)
def test_archives_can_be_turned_off(archive, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert class_archive.java_options({}) == ""
    assert not class_archive._missing


@pytest.mark.parametrize("setting", class_archive._SETTINGS)
def test_settings_of_the_jvm_rule_archives_out(archive, setting):
    assert class_archive.java_options({setting: "anything"}) == ""


def test_a_folder_of_settings_rules_archives_out(archive, monkeypatch, tmp_path):
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").touch()
    assert class_archive.java_options({}) == ""
    assert not class_archive._missing
    assert "folder of settings" in class_archive.make()


def test_no_archive_is_begun_where_there_is_no_space(folder, monkeypatch):
    monkeypatch.setattr(class_archive, "MIN_FREE_BYTES", 1 << 62)
    monkeypatch.setattr(class_archive, "_write", lambda aside: pytest.fail("begun"))
    (folder / "making-1").touch()
    assert "less than 1 GB" in class_archive.make()
    assert [file.name for file in folder.iterdir()] == ["lock"]


def test_an_archive_that_could_not_be_finished_is_removed(folder, monkeypatch):
    monkeypatch.setattr(class_archive, "_write", lambda aside: aside.write_bytes(b"half") == 0)
    assert "did not write" in class_archive.make()
    assert {file.name for file in folder.iterdir()} == {"lock", f"{class_archive._key()}.failed"}
    assert class_archive.java_options({}) == ""
    assert not class_archive._missing


def test_only_the_newest_archives_are_kept(folder, monkeypatch):
    monkeypatch.setattr(class_archive, "_write", lambda aside: aside.write_bytes(b"classes") > 0)
    for age in (30, 20, 10):
        (old := folder / f"of{age}-0.jsa").touch()
        os.utime(old, (time.time() - age, time.time() - age))
    assert class_archive.make().startswith("made ")
    assert {file.name.partition("-")[0] for file in folder.glob("*.jsa")} == {"of10", class_archive._key()}
    assert class_archive.make() == "the archive of classes is there"


def test_nobody_is_waiting_at_a_pipe(folder, monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("started"))
    assert class_archive.java_options({}) == ""
    class_archive.make_in_background()


@pytest.mark.slow
def test_a_session_starts_from_the_archive_that_was_made(tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-m", "bigjoin.spark.class_archive"], env=environment, check=True, timeout=300)
    (archive,) = (tmp_path / "bigjoin" / "classes").glob("*.jsa")
    done = subprocess.run([sys.executable, "-c", STARTED], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("3 ")
    assert f"-XX:SharedArchiveFile={archive}" in done.stdout
