"""The Spark session: the active one, or a local one that logs nothing to the terminal."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bigjoin.defaults import CONF_VARIABLE
from bigjoin.errors import SessionError
from bigjoin.notebook import progress_bar
from bigjoin.storage import Place, is_on_store, place_of
from bigjoin.storage.scratch import scratch_directory, temporary
from bigjoin.storage.store_scratch import scratch_on_store

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

JAVA_VERSION = 17
EXECUTOR_COUNT_SECONDS = 30.0
"""Seconds after which a cluster is asked again how many tasks it runs at once."""
SOCKET_NAME = f".{uuid.uuid4()}.sock"
"""A socket name of the form that Spark uses."""
DAEMON_SETTING = "spark.python.daemon.module"
"""The setting for the module that Spark forks Python workers from."""
CONNECT_SECONDS = 10.0
"""Seconds that a master may take to accept a connection."""
_NOT_TAKEN = (
    "it is running, but does not accept this client; it may have another version, or require a secret: "
    "--conf spark.authenticate=true --conf spark.authenticate.secret=@FILE"
)
_starting = threading.Lock()
"""Threads that need a session at the same time get the same one; starting it redirects the standard error of the process."""
_INSTALL = f"install Java {JAVA_VERSION} or newer (for example: apt-get install openjdk-17-jre-headless) and set JAVA_HOME"


def get_session(master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Return the active Spark session, or start one.

    Args:
        master: Where Spark runs, such as `"local[4]"`, `"spark://host:7077"` or `"sc://host:15002"`. By default, the active
            session, or a local one.
        conf: Spark's settings. They take precedence over bigjoin's own. A running session ignores settings that it cannot
            change.
    """
    with _starting:
        active = active_session()
        if active is not None and master is None and not conf:
            return active
        with progress_bar("starting Spark"):
            return _start(master, {**_inherited(), **(conf or {})})


def active_session() -> SparkSession | None:
    """Return the session of this thread or, in a thread that has none of its own, that of the process; None without any."""
    if "pyspark" not in sys.modules:  # which takes half a second to import
        return None
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def time_zone(spark: SparkSession) -> str:
    """Return the time zone of a session."""
    return spark.conf.get("spark.sql.session.timeZone", "UTC") or "UTC"


def has_master() -> bool:
    """Tell whether the environment says where Spark is: then questions are for that, and not for this process."""
    return who_names_a_master() is not None


def who_names_a_master() -> str | None:
    """Return the name of what says in the environment where Spark is: a variable or a file."""
    given = _given_master(_inherited())
    return None if given is None else given.said_by


class _GivenMaster(NamedTuple):
    """Where Spark is, and what says so."""

    url: str
    said_by: str


def _given_master(conf: Mapping[str, str]) -> _GivenMaster | None:
    """Return the master that settings, which come from BIGJOIN_CONF, or the environment name."""
    if found := conf.get("spark.master") or conf.get("spark.remote"):
        return _GivenMaster(found, CONF_VARIABLE)
    if found := os.environ.get("SPARK_REMOTE"):
        return _GivenMaster(found, "SPARK_REMOTE")
    arguments = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    if said := re.search(r"(?:--(?:master|remote)[ =]|spark\.(?:master|remote)=)\s*['\"]?([^\s'\"]+)", arguments):
        return _GivenMaster(str(said[1]), "PYSPARK_SUBMIT_ARGS")
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else None)
    with suppress(OSError):
        if folder is not None:
            settings = (Path(folder) / "spark-defaults.conf").read_text(encoding="utf-8", errors="replace")
            said = re.search(r"^\s*spark\.(?:master|remote)\s*[\s=]\s*(\S+)", settings, re.MULTILINE)
            return None if said is None else _GivenMaster(str(said[1]), "spark-defaults.conf")
    return None


def zone_of_machine() -> str:
    """Return the time zone that a session on this machine would have."""
    if chosen := _inherited().get("spark.sql.session.timeZone"):
        return chosen
    link = os.environ.get("TZ", "").removeprefix(":") or str(Path("/etc/localtime").resolve())
    name = link.split("zoneinfo/")[-1]
    with suppress(OSError, ValueError, KeyError):  # TZ may be anything
        from zoneinfo import ZoneInfo

        return "UTC" if name == "Etc/UTC" else ZoneInfo(name).key
    return "UTC"


def _inherited() -> dict[str, str]:
    """Return the settings for sessions that the environment contains."""
    try:
        return {str(key): str(value) for key, value in json.loads(os.environ.get(CONF_VARIABLE) or "{}").items()}
    except (ValueError, AttributeError):
        raise SessionError(
            f'{CONF_VARIABLE} is not a JSON object of settings, such as {{"spark.executor.memory": "4g"}}'
        ) from None


def _start(master: str | None, conf: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    from bigjoin.spark.class_archive import java_options
    from bigjoin.spark.jvm import launch, needs_launch, redacted, submit_options

    # Workers run this Python, not whatever "python3" is on their path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("bigjoin")
    if master is None and (given := _given_master(conf)) is not None:
        master = given.url
    conf = {name: value for name, value in conf.items() if name not in ("spark.master", "spark.remote")}
    if master is not None:
        _check_master(master)
    if master is not None and master.startswith("sc://"):
        return builder.remote(master).config(map={**conf}).getOrCreate()
    check_java()
    cores = os.cpu_count() or 1
    own = scratch_directory("spark")
    settings = {
        "spark.app.name": "bigjoin",
        "spark.master": master or f"local[{cores}]",
        "spark.driver.memory": os.environ.get("SPARK_DRIVER_MEMORY", "4g"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.sql.warehouse.dir": str(scratch_directory("warehouse")),
        DAEMON_SETTING: "bigjoin.spark.daemon",
    }
    if master is not None and not master.startswith("local"):
        mine = ["spark.driver.memory", "spark.sql.shuffle.partitions"]
        if not re.match(r"spark://(127\.|localhost\b)", master):  # a cluster on this machine reaches the driver at 127.0.0.1
            mine += ["spark.driver.host", "spark.driver.bindAddress"]
        for key in mine:
            del settings[key]
    elif "PYSPARK_UDS_MODE" not in os.environ and can_name_sockets(folder := temporary("sockets", None)):
        # Over TCP, a small message to a task in Python may wait 40 ms for an acknowledgement.
        settings["spark.python.unix.domain.socket.enabled"] = "true"
        settings["spark.python.unix.domain.socket.dir"] = str(folder)
    settings |= conf
    if settings.get("spark.driver.bindAddress") == "127.0.0.1":  # or Spark looks up this machine's name, which it may not find
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    log = own / "spark.log"
    try:
        with _stderr_to(log), submit_options(java_options(settings)):
            if needs_launch(settings):
                launch(settings, home=own)
            session = builder.config(map={**settings}).getOrCreate()
    except Exception as error:
        lines = log.read_text(errors="replace")
        said = [line for line in lines.splitlines() if re.search(r"Exception|Error", line)]
        said += re.findall(r"^(?:: |Caused by: )(.+)", str(error), re.MULTILINE)  # the JVM's error, below py4j's own text
        said += [_NOT_TAKEN] if "All masters are unresponsive" in lines else []
        reason = redacted(said[-1] if said else str(error).strip().splitlines()[0], settings).strip()
        raise SessionError(f"Spark did not start with master {master or 'local'}: {reason}") from error
    threading.Thread(target=_start_workers, args=(session,), daemon=True, name="bigjoin-workers").start()
    return session


def _start_workers(session: SparkSession) -> None:
    """Have Spark start its Python workers, which takes them a second, while the first query is still being planned."""
    with suppress(Exception):  # nobody waits for this, and the session may be stopped meanwhile
        # Nothing comes back: Python may end meanwhile, and a thread that it stops inside Arrow aborts the process.
        session.range(0, 1, 1, 1).mapInArrow(_unchanged, "id long").write.format("noop").mode("overwrite").save()


def _unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def _check_master(master: str) -> None:
    """Raise SessionError for an invalid master, and for one that does not answer instead of waiting for minutes."""
    if not re.match(r"local$|local\[(\d+|\*)(,\d+)?\]$|local-cluster\[|yarn$|(spark|k8s|sc)://", master):
        examples = "local[2], spark://HOST:7077, yarn or sc://HOST:15002"
        raise SessionError(f"{master!r} is not a Spark master; for example {examples}")
    if address := re.match(r"(spark|sc)://\[?([^/;:\],]+)\]?(?::(\d+))?", master):
        port = address[3] or (7077 if address[1] == "spark" else 15002)
        try:
            socket.create_connection((address[2], int(port)), timeout=CONNECT_SECONDS).close()
        except (OSError, ValueError, OverflowError) as error:  # the host or the port may be invalid
            raise SessionError(f"there is no Spark at {master}: {getattr(error, 'strerror', None) or error}") from None


def end_jvm() -> None:
    """Terminate a JVM that this process has started but may not have connected to yet, so that an interrupt leaves none."""
    for task in Path("/proc/self/task").glob("*/children"):
        for child in task.read_text().split():
            with suppress(OSError):
                if b"spark" in Path(f"/proc/{child}/cmdline").read_bytes():
                    os.kill(int(child), signal.SIGTERM)


def check_java() -> None:
    """Raise SessionError, in one sentence, if there is no Java that Spark can use."""
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
        raise SessionError(f"Spark needs Java, but '{java} -version' does not print a version: {_INSTALL}.")
    if int(version[1]) < JAVA_VERSION:
        raise SessionError(f"Spark needs Java {JAVA_VERSION} or newer, but {java} is Java {version[1]}: {_INSTALL}.")


def can_name_sockets(folder: Path) -> bool:
    """Tell whether a folder can hold sockets: its path may be too long, or its file system may not support them."""
    try:
        with socket.socket(socket.AF_UNIX) as trial:
            trial.bind(str(folder / SOCKET_NAME))
            (folder / SOCKET_NAME).unlink()
    except (AttributeError, OSError):
        return False
    return True


def parallelism(spark: SparkSession) -> int:
    """Return how many tasks run at once: the cores of a local session, or the partitions that Spark gives a range."""
    master = spark.conf.get("spark.master", "") or ""
    if local := re.fullmatch(r"local\[(\d+)(?:,\d+)?\]", master):
        return int(local[1])
    asked = int(time.monotonic() / EXECUTOR_COUNT_SECONDS)  # ask again from time to time: executors may still be starting
    return _range_partitions(spark, asked)


@lru_cache(maxsize=8)
def _range_partitions(spark: SparkSession, _: int) -> int:
    from pyspark.sql import functions as F

    partitions = spark.range(1 << 16).select(F.spark_partition_id().alias("p")).distinct().count()
    return max(1, partitions)


def common_directory(spark: SparkSession, beside: Place, purpose: str) -> Place:
    """Return a new directory that every executor sees: a scratch directory if the session is local, otherwise next to an index.

    If BIGJOIN_SCRATCH is set, it is always in there, also if that is on a store.
    """
    place = place_of(os.environ.get("BIGJOIN_SCRATCH") or "")
    if is_on_store(place):
        return scratch_on_store(place, purpose)
    if is_local(spark) or "BIGJOIN_SCRATCH" in os.environ:
        return scratch_directory(purpose)
    return temporary(purpose, str(beside.parent)) if isinstance(beside, Path) else scratch_on_store(beside.parent, purpose)


def is_local(spark: SparkSession) -> bool:
    """Tell whether a session's tasks run on this machine, as threads of the JVM that this process has started."""
    return (spark.conf.get("spark.master", "") or "").startswith("local")


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Point file descriptor 2 to a file while the JVM starts, which inherits it: its messages stay off the terminal."""
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
