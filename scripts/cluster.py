"""Start a Spark standalone cluster on this machine, from PySpark's own jars: a master and workers, on loopback only.

    python scripts/cluster.py                         until Ctrl-C; prints the options by which a client finds it
    python scripts/cluster.py -- COMMAND ...          while a command runs; {cluster} in it stands for these options
    python scripts/cluster.py --isolated -- ...       with workers that share no folder, as on machines of their own (root only)

For example:

    python scripts/cluster.py --workers 2 -- bigjoin count triangle graph.index --strategy partitioned {cluster}

Other users of the machine can reach loopback, too, and whoever may submit to a cluster runs code as its owner. So clients and
workers prove that they know a secret, which lies in a file that only its owner can read, and in the environment of the
processes: never in arguments, which everybody sees. Spark's REST server, which knows no secrets, is off.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyspark
from private_folders import in_private_folders, refusal

PATIENCE = 60.0
"""Seconds that a process may take to start."""
SETTINGS = {"spark.authenticate": "true", "spark.master.rest.enabled": "false", "spark.ui.killEnabled": "false"}
"""Of the master and the workers."""
OF_THIS_MACHINE = re.compile("AWS_|AZURE_|BIGJOIN_|GOOGLE_|NUMBA_CACHE_DIR|XDG_")
"""Variables that another machine would not have: credentials, and names of folders."""


class Cluster:
    """A master and its workers, each a process of its own, for as long as a `with` block runs.

    Isolated workers, with their executors, write to private folders, which neither the driver nor another worker sees. Those of
    worker N lie in `machine-N` of the cluster's folder. Each worker has an address of its own: at one address,
    Spark's executors would read shuffled blocks from each other's folders.
    """

    def __init__(self, *, workers: int = 2, cores: int = 1, memory: str = "1g", isolated: bool = False) -> None:
        self.workers, self.cores, self.memory, self.isolated = workers, cores, memory, isolated
        self.processes: list[subprocess.Popen[bytes]] = []
        self.master = ""
        self._secret = secrets.token_hex(32)

    @property
    def conf(self) -> dict[str, str]:
        """The settings of a client."""
        return {"spark.authenticate": "true", "spark.authenticate.secret": self._secret}

    @property
    def options(self) -> list[str]:
        """The options of a client on the command line."""
        secret = f"spark.authenticate.secret=@{self.folder / 'secret'}"
        return ["--master", self.master, "--conf", "spark.authenticate=true", "--conf", secret]

    def __enter__(self) -> Cluster:
        self.folder = Path(tempfile.mkdtemp(prefix="bigjoin-cluster-"))  # which nobody else can look into
        try:
            (self.folder / "secret").touch(mode=0o600)
            (self.folder / "secret").write_text(self._secret)
            log = self._start("master", "--port", "0", "--webui-port", "0")
            self.master = _wait_for(log, r"(spark://127\.0\.0\.1:\d+)", 1)[0]
            size = ["--cores", str(self.cores), "--memory", self.memory]
            for number in range(self.workers):
                work = Path("/tmp/work") if self.isolated else self.folder / f"work-{number}"
                options = ["--work-dir", str(work), "--webui-port", "0", *size, self.master]
                self._start("worker", *options, machine=number if self.isolated else None)
            _wait_for(log, r"Registering worker", self.workers)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def executors(self) -> list[int]:
        """Return the ids of the processes that run tasks."""
        parents = {process.pid for process in self.processes}
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    parent = int(re.search(r"\nPPid:\s+(\d+)", (entry / "status").read_text())[1])  # type: ignore[index]
                    if parent in parents and b"CoarseGrainedExecutorBackend" in (entry / "cmdline").read_bytes():
                        found.append(int(entry.name))
                except (OSError, TypeError):
                    continue
        return found

    def _start(self, role: str, *options: str, machine: int | None = None) -> Path:
        home = Path(pyspark.__file__).parent
        log = self.folder / f"{role}-{len(self.processes)}.log"
        address = "127.0.0.1" if machine is None else f"127.0.0.{machine + 2}"
        environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": address, "SPARK_DAEMON_MEMORY": "512m"}
        environment["SPARK_LOCAL_DIRS"] = str(self.folder / "local")
        environment["SPARK_DAEMON_JAVA_OPTS"] = " ".join(f"-D{key}={value}" for key, value in SETTINGS.items())
        environment["_SPARK_AUTH_SECRET"] = self._secret
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}.{role.title()}", "--host", address]
        command += options
        if machine is not None:
            own = self.folder / f"machine-{machine}"
            for folder in ("tmp/home", "tmp/local"):
                (own / folder).mkdir(parents=True)
            command = in_private_folders(command, own, _programs())
            environment = {name: value for name, value in environment.items() if not OF_THIS_MACHINE.match(name)}
            environment |= {"HOME": "/tmp/home", "SPARK_LOCAL_DIRS": "/tmp/local", "TMPDIR": "/tmp"}
        with log.open("wb") as out:
            self.processes.append(subprocess.Popen(command, stdout=out, stderr=out, env=environment))
        return log


def _programs() -> list[Path]:
    """Return the folders of the code that workers run."""
    roots = [Path(__file__).parents[1], Path(sys.prefix), Path(sys.base_prefix), Path(pyspark.__file__).parent]
    return [*roots, *(Path(home) for home in [os.environ.get("JAVA_HOME")] if home)]


def _wait_for(log: Path, pattern: str, times: int) -> list[str]:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = re.findall(pattern, log.read_text(errors="replace"))
        if len(found) >= times:
            return found
        time.sleep(0.1)
    raise SystemExit(
        f"Spark did not start within {PATIENCE:.0f} s; its log ends with:\n{log.read_text(errors='replace')[-2000:]}"
    )


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cores", type=int, default=1, help="cores of each worker")
    parser.add_argument("--memory", default="1g", help="memory of each worker; an executor takes 1g unless told otherwise")
    parser.add_argument("--isolated", action="store_true", help="workers share no folder that can be written (root only)")
    parser.add_argument("command", nargs="*", help="what to run meanwhile; {cluster} becomes the options of a client")
    options = parser.parse_args()
    if options.workers < 1:
        parser.error("a cluster has at least one worker")
    if options.isolated and (reason := refusal()):
        parser.error(f"cannot give workers private folders: {reason}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with Cluster(workers=options.workers, cores=options.cores, memory=options.memory, isolated=options.isolated) as cluster:
        if options.command:
            parts = [cluster.options if part == "{cluster}" else [part] for part in options.command]
            command = [part.replace("{master}", cluster.master) for these in parts for part in these]
            try:
                return subprocess.run(command, check=False).returncode
            except OSError as error:
                parser.error(f"cannot run {command[0]}: {error.strerror}")
            except KeyboardInterrupt:
                return 130
        print(shlex.join(cluster.options), flush=True)  # noqa: T201
        try:
            signal.pause()
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
