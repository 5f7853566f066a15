"""The Spark session: the active one, or a quiet local one."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bigjoin.errors import OutputError, SessionError, reason
from bigjoin.scratch import scratch_folder

JAVA_VERSION = 17
EXECUTORS = 30.0
"""Seconds after which a cluster is asked again how many tasks it runs at once."""
SOCKET = f".{uuid.uuid4()}.sock"
"""A socket's name as Spark makes them."""
PATIENCE = 10.0
"""Seconds that a master may take to accept a connection."""
_INSTALL = f"install Java {JAVA_VERSION} or newer (for example: apt-get install openjdk-17-jre-headless) and set JAVA_HOME"


def get_session(master: str | None = None) -> SparkSession:
    """Return the active session, or start a local one; `master` asks for a new session there."""
    active = SparkSession.getActiveSession()
    if active is not None and master is None:
        return active
    return _start(master)


def _start(master: str | None) -> SparkSession:
    # Workers run this Python, whatever "python3" is on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("bigjoin")
    if master is not None:
        _check_master(master)
    if master is not None and master.startswith("sc://"):
        return builder.remote(master).getOrCreate()
    check_java()
    cores = os.cpu_count() or 1
    own = scratch_directory("spark")
    settings = {
        "spark.driver.memory": os.environ.get("SPARK_DRIVER_MEMORY", "4g"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.sql.warehouse.dir": str(scratch_directory("warehouse")),
    }
    if master is not None and not master.startswith("local"):
        mine = ["spark.driver.memory", "spark.sql.shuffle.partitions"]
        if not re.match(r"spark://(127\.|localhost\b)", master):  # a cluster on this machine reaches the driver as a local one
            mine += ["spark.driver.host", "spark.driver.bindAddress"]
        for key in mine:
            del settings[key]
    elif "PYSPARK_UDS_MODE" not in os.environ and can_name_sockets(folder := _temporary("sockets", None)):
        # A small answer over TCP to a task in Python may wait 40 ms for an acknowledgement.
        settings["spark.python.unix.domain.socket.enabled"] = "true"
        settings["spark.python.unix.domain.socket.dir"] = str(folder)
    for key, value in settings.items():
        builder = builder.config(key, value)
    log = own / "spark.log"
    try:
        with _stderr_to(log):
            return builder.master(master or f"local[{cores}]").getOrCreate()
    except Exception as error:
        said = [line for line in log.read_text(errors="replace").splitlines() if re.search(r"Exception|Error", line)]
        reason = said[-1].strip() if said else str(error).strip().splitlines()[0]
        raise SessionError(f"Spark did not start with master {master or 'local'}: {reason}") from error


def _check_master(master: str) -> None:
    """Refuse what is no master, and one that does not answer, rather than wait for minutes."""
    if not re.match(r"local$|local\[(\d+|\*)(,\d+)?\]$|local-cluster\[|yarn$|(spark|k8s|sc)://", master):
        raise SessionError(f"{master!r} is no Spark master; for example local[2], spark://HOST:7077, yarn or sc://HOST:15002")
    if address := re.match(r"(spark|sc)://\[?([^/;:\],]+)\]?(?::(\d+))?", master):
        host, port = address[2], int(address[3] or (7077 if address[1] == "spark" else 15002))
        try:
            socket.create_connection((host, port), timeout=PATIENCE).close()
        except OSError as error:
            raise SessionError(f"there is no Spark at {master}: {error.strerror or error}") from None


def end_jvm() -> None:
    """End a JVM that this process has started and may not have connected to yet, so that an interrupt leaves none behind."""
    for task in Path("/proc/self/task").glob("*/children"):
        for child in task.read_text().split():
            with suppress(OSError):
                if b"spark" in Path(f"/proc/{child}/cmdline").read_bytes():
                    os.kill(int(child), signal.SIGTERM)


def check_java() -> None:
    """Raise SessionError, in one sentence, if Spark could not start for want of a Java that it can use."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        where = f"JAVA_HOME is {home}, and {java} does not exist" if home else "there is no 'java' on the PATH"
        raise SessionError(f"Spark needs Java, but {where}: {_INSTALL}.")
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    except OSError as error:
        raise SessionError(f"Spark needs Java, but {java} does not run ({error.strerror}): {_INSTALL}.") from None
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    if version is None:
        raise SessionError(f"Spark needs Java, but '{java} -version' does not say a version: {_INSTALL}.")
    if int(version[1]) < JAVA_VERSION:
        raise SessionError(f"Spark needs Java {JAVA_VERSION} or newer, but {java} is Java {version[1]}: {_INSTALL}.")


def can_name_sockets(folder: Path) -> bool:
    """Tell whether sockets can be in a folder: not with a long path, nor on every file system."""
    try:
        with socket.socket(socket.AF_UNIX) as trial:
            trial.bind(str(folder / SOCKET))
            (folder / SOCKET).unlink()
    except (AttributeError, OSError):
        return False
    return True


def parallelism(spark: SparkSession) -> int:
    """Return how many tasks run at once: the cores of a local session, or what Spark would cut a range into."""
    master = spark.conf.get("spark.master", "") or ""
    if local := re.fullmatch(r"local\[(\d+)(?:,\d+)?\]", master):
        return int(local[1])
    asked = int(time.monotonic() / EXECUTORS)  # executors may still be coming
    return _range_partitions(spark, asked)


@lru_cache(maxsize=8)
def _range_partitions(spark: SparkSession, _: int) -> int:
    partitions = spark.range(1 << 16).select(F.spark_partition_id().alias("p")).distinct().count()
    return max(1, partitions)


def scratch_directory(purpose: str) -> Path:
    """Return a new directory that is removed when Python exits, or after that if it is killed."""
    return _temporary(purpose, os.environ.get("BIGJOIN_SCRATCH"))


def common_directory(spark: SparkSession, beside: Path, purpose: str) -> Path:
    """Return a new directory that every executor sees: in $BIGJOIN_SCRATCH, on one machine anywhere, else beside an index."""
    master = spark.conf.get("spark.master", "") or ""
    here = master.startswith("local") or "BIGJOIN_SCRATCH" in os.environ
    return scratch_directory(purpose) if here else _temporary(purpose, str(beside.parent))


def _temporary(purpose: str, folder: str | None) -> Path:
    try:
        return scratch_folder(purpose, folder)
    except OSError as error:
        message = f"cannot make a scratch folder in {folder or tempfile.gettempdir()}: {reason(error)}"
        raise OutputError(f"{message}; set BIGJOIN_SCRATCH to a folder that every executor can write to") from None


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Send file descriptor 2 to a file while the JVM starts: it inherits it, and its chatter stays off the terminal."""
    sys.stderr.flush()
    saved = os.dup(2)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.dup2(log, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(log)
