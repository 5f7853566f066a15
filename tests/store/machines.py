"""A Spark cluster whose workers share no folder with each other or with the driver: what they exchange goes through a store."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from cluster import Cluster

from bigjoin.private import private_folder

ROOT = Path(__file__).parents[2]
CORES = 1
MEMORY = "2g"


class Machines(Cluster):
    """Workers with a core and 2 GB each."""

    def __init__(self, workers: int = 2) -> None:
        super().__init__(workers=workers, cores=CORES, memory=MEMORY, isolated=True)

    @property
    def conf(self) -> dict[str, str]:
        """The settings of a client, which gets all workers before its first job."""
        size = {"spark.executor.memory": MEMORY, "spark.cores.max": str(self.workers * CORES)}
        size["spark.shuffle.readHostLocalDisk"] = "false"  # they have one address, but are to be machines of their own
        return {**super().conf, **size, "spark.driver.memory": "1g", "spark.scheduler.minRegisteredResourcesRatio": "1"}

    def __enter__(self) -> Machines:
        super().__enter__()
        if kernels := private_folder("kernels"):  # each machine would compile them for minutes
            for number in range(self.workers):
                home = self.folder / f"machine-{number}" / "tmp/home"
                shutil.copytree(kernels, home / ".cache" / "bigjoin" / "kernels")
        return self

    def environment(self, variables: Mapping[str, str] | None = None, conf: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment of a client: a session that it starts is on this cluster.

        The executors get the variables, too. Without any, they know no credentials.
        """
        given = variables or {}
        settings = {"spark.master": self.master, **self.conf, **{f"spark.executorEnv.{name}": given[name] for name in given}}
        return {**os.environ, **given, "BIGJOIN_CONF": json.dumps({**settings, **(conf or {})})}

    def run(
        self,
        program: str,
        *arguments: str,
        variables: Mapping[str, str] | None = None,
        conf: Mapping[str, str] | None = None,
        timeout: float = 300,
    ) -> str:
        """Run a Python program as a client, and return what it prints."""
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            cwd=ROOT,
            env=self.environment(variables, conf),
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
        assert done.returncode == 0, done.stderr[-5000:]
        return done.stdout
