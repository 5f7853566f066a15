"""An archive of the JVM's classes, with which Spark starts in six tenths of the time.

Most of what a JVM does in its first seconds is to read, verify and link thousands of Spark's classes. It can keep the result in
a file and map it the next time (Java calls this class data sharing). The file fits one installation of Java and one folder of
jars, so it cannot be part of the package. It is made by `python -m bigjoin.spark.class_archive`, which `make setup` runs, and
by a command on a terminal that had to start Spark without one: in the background, after it has answered.

The JVM does not check the content of an archive: one that was cut off crashes it, one that was changed may do anything. So an
archive lies in a folder that only this user can write to, is complete under its final name, and its checksum is part of that
name. Who sets options of the JVM, or gives it a folder of settings, which it cannot have together with an archive, gets none.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import xxhash

from bigjoin.defaults import CONF_VARIABLE
from bigjoin.errors import BigjoinError
from bigjoin.index.records import claim_of, is_noted, note
from bigjoin.private import made_private, private_folder

SWITCH = "BIGJOIN_CLASS_ARCHIVE"
"""The environment variable that turns archives off."""
MIN_FREE_BYTES = 1 << 30
"""Free bytes below which no archive is made: it takes some 160 MB."""
MAX_ARCHIVES = 2
"""Archives that are kept: those made last."""
RETRY_SECONDS = 30 * 86_400
"""Seconds after which an archive that could not be made is tried again."""
EXIT_SECONDS = 120
"""Seconds that a JVM may take to write its archive when it ends."""
_TO_STDERR = "-Xlog:disable -Xlog:all=warning:stderr"
"""A JVM that cannot use an archive says so on the standard output, which belongs to answers."""
_OPTIONS = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
"""Environment variables with options of the JVM."""
_SETTINGS = ("spark.driver.extraClassPath", "spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
"""Settings that change what the JVM loads, or how."""
_SETTINGS_FOLDERS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
_MAKING = "making-"

_missing: set[str] = set()
"""The keys of archives that a JVM was started without."""


def java_options(settings: Mapping[str, str]) -> str:
    """Return the options with which a JVM starts from its archive; none without one, or if the user sets options."""
    if any("-X" in os.environ.get(name, "") for name in _OPTIONS) or any(name in settings for name in _SETTINGS):
        return ""
    if (folder := _folder()) is None or (key := _key()) is None:
        return ""
    if (archive := _archive(folder, key)) is not None:
        return f"-XX:SharedArchiveFile={archive} -Xshare:auto {_TO_STDERR}"
    if not _has_failed(folder, key):
        _missing.add(key)
    return ""


def make_in_background() -> None:
    """Start a process that makes the archive which this process has missed, if a person sits here, who will ask again."""
    if _missing and sys.stderr is not None and sys.stderr.isatty():
        none = subprocess.DEVNULL
        with suppress(OSError):
            command = [sys.executable, "-P", "-m", __name__]  # -P: modules in the current folder are not ours
            subprocess.Popen(command, cwd="/", start_new_session=True, stdin=none, stdout=none, stderr=none)


def make() -> str:
    """Make the archive for this Java and these jars, unless there is one; return a sentence about what has become of it."""
    if (folder := _folder()) is None:
        return f"no archive of classes: {SWITCH} turns it off, or there is no private folder without spaces for it"
    if (key := _key()) is None:
        return "no archive of classes: there is no Java, or Spark has a folder of settings, which rules it out"
    if _archive(folder, key) is not None:
        return "the archive of classes is there"
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return "another process is making the archive of classes"
    try:
        _remove(folder.glob(f"{_MAKING}*"))  # nobody else is making one
        if shutil.disk_usage(folder).free < MIN_FREE_BYTES:
            return f"no archive of classes: {folder} has less than 1 GB left"
        aside = folder / f"{_MAKING}{uuid.uuid4().hex}"
        if not _write(aside):
            _remove([aside])
            (folder / f"{key}.failed").touch()
            return "no archive of classes: this Java did not write one"
        made = aside.rename(folder / f"{key}-{_checksum(aside)}.jsa")
        _remove(sorted(folder.glob("*.jsa"), key=lambda file: file.stat().st_mtime)[:-MAX_ARCHIVES])
        return f"made {made}"
    finally:
        os.close(lock)


def _write(archive: Path) -> bool:
    """Start a session, have it do what questions do, and let its JVM write the archive when it ends."""
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={archive} {_TO_STDERR}"
    for name in (CONF_VARIABLE, "SPARK_DRIVER_MEMORY"):  # a JVM with 32 GB or more has other archives
        os.environ.pop(name, None)
    from pyspark import SparkContext
    from pyspark.sql import functions as F

    from bigjoin.spark.session import get_session

    session = get_session("local[2]")
    rows = session.range(0, 8, 1, 2).mapInArrow(lambda batches: batches, "id long")
    rows.toArrow()
    rows.repartition(2, F.col("id")).groupBy((F.col("id") % 2).alias("key")).agg(F.count("*")).orderBy("key").collect()
    gateway = SparkContext._gateway
    session.stop()
    if gateway is None or (jvm := getattr(gateway, "proc", None)) is None:
        return False
    gateway.shutdown()
    jvm.stdin.close()
    try:
        return jvm.wait(EXIT_SECONDS) == 0 and archive.exists()
    except subprocess.TimeoutExpired:
        jvm.kill()
        return False


def _archive(folder: Path, key: str) -> Path | None:
    """Return the archive of a key, if there is one and it is whole."""
    for archive in folder.glob(f"{key}-*.jsa"):
        with suppress(OSError):
            found, checksum = archive.lstat(), archive.stem.rpartition("-")[2]
            claim = claim_of("class archive", [(str(archive), checksum, (found.st_ino, found.st_size, found.st_ctime_ns))])
            if is_noted(claim):
                return archive
            if _checksum(archive) == checksum:
                note(claim, found.st_size)
                return archive
            archive.unlink()
    return None


def _has_failed(folder: Path, key: str) -> bool:
    """Tell whether an archive could not be made some time ago."""
    with suppress(OSError):
        return time.time() - (folder / f"{key}.failed").stat().st_mtime < RETRY_SECONDS
    return False


def _checksum(archive: Path) -> str:
    with open(os.open(archive, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:  # noqa: PTH123 - not through a link
        return hashlib.file_digest(file, xxhash.xxh3_128).hexdigest()


def _remove(files: Iterable[Path]) -> None:
    for file in files:
        with suppress(OSError):
            file.unlink()


def _folder() -> Path | None:
    """Return the folder of archives, or None if they are off; an option of the JVM ends at a space, a path in it at a colon."""
    base = private_folder("classes")
    if base is None or set(str(base)) & set(" :\t") or os.environ.get(SWITCH, "").lower() in ("off", "0", "no", "false"):
        return None
    return made_private(base)


def _key() -> str | None:
    """Return a hash of the Java and the jars that a session will have; None without, or with a folder of settings."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        return None
    from pyspark.find_spark_home import _find_spark_home

    spark = Path(_find_spark_home())
    with suppress(OSError):
        folders = [spark / "conf", *(Path(os.environ[name]) for name in _SETTINGS_FOLDERS if os.environ.get(name))]
        if any(folder.is_dir() and any(folder.iterdir()) for folder in folders) or os.environ.get("SPARK_DIST_CLASSPATH"):
            return None
        jars = sorted((entry.path, *_state(Path(entry))) for entry in os.scandir(spark / "jars"))
        real = Path(java).resolve(strict=True)
        return hashlib.sha256(repr((str(real), _state(real), jars)).encode()).hexdigest()[:16]
    return None


def _state(file: Path) -> tuple[int, int]:
    found = file.stat()
    return found.st_size, found.st_mtime_ns


if __name__ == "__main__":
    os.nice(19)
    try:
        sys.stderr.write(f"bigjoin: {make()}\n")
    except (BigjoinError, OSError) as error:
        sys.exit(f"bigjoin: no archive of classes: {error}")
