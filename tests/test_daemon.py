"""The process that Spark's workers are forked from."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from unittest import mock

import pytest

from bigjoin.spark import daemon

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in Linux's files")

PRELOADED = """
import os, sys
from bigjoin.spark import daemon
os.environ.update(daemon._NO_THREADS)
daemon.preload()
print(daemon.threads(), "numba" in sys.modules, "bigjoin.spark.shared" in sys.modules)
"""


def test_what_is_preloaded_starts_no_thread():
    said = subprocess.run([sys.executable, "-W", "ignore", "-c", PRELOADED], capture_output=True, text=True, timeout=100)
    assert said.stdout.split() == ["1", "True", "True"], said.stderr


def test_a_process_with_another_thread_gives_its_place_to_spark_s_own_daemon(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["daemon", "pyspark.worker"])
    end = threading.Event()
    other = threading.Thread(target=end.wait)

    class ReplacedError(Exception):
        pass

    before = dict(os.environ)
    with (
        mock.patch.object(daemon, "preload", other.start),
        mock.patch.object(os, "execve", side_effect=ReplacedError) as replaced,
        pytest.raises(ReplacedError),
    ):
        daemon.main()
    end.set()
    for name in daemon._NO_THREADS:
        monkeypatch.delenv(name)
    assert replaced.call_args.args == (sys.executable, [sys.executable, "-m", "pyspark.daemon", "pyspark.worker"], before)


@pytest.mark.spark
def test_workers_are_forked_from_it(spark):
    def parent(batches):
        import pyarrow as pa

        command = Path(f"/proc/{os.getppid()}/cmdline").read_text().split("\0")
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"said": [" ".join(command)]})

    (row,) = spark.range(0, 1, 1, 1).mapInArrow(parent, "said string").collect()
    assert "bigjoin.spark.daemon" in row["said"]
