"""The process that Spark forks Python workers from, which has imported beforehand what they all need.

Spark starts `python -m bigjoin.spark.daemon` instead of its own `pyspark.daemon` in sessions that bigjoin has started (the
setting is spark.python.daemon.module; set it to pyspark.daemon to have Spark's own). Otherwise each worker imports NumPy,
Arrow, numba and this library for itself, and numba looks through its tables of functions, before it can do anything.

A process may only fork while it has one thread: a lock that another thread holds would stay locked in the child. OpenBLAS and
Arrow's allocator start threads when they are loaded, unless they are told not to. If there are others all the same, Spark's own
daemon takes the place of this process.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

_NO_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""What keeps libraries from starting threads when they are loaded."""


def threads() -> int:
    """Return how many threads this process has; 0 where the system does not tell."""
    try:
        return len(list(Path("/proc/self/task").iterdir()))
    except OSError:
        return 0


def preload() -> None:
    """Import what workers need, and load a kernel."""
    import pyspark.worker  # noqa: F401

    import bigjoin.spark.shared  # noqa: F401
    from bigjoin.kernels.lists import warm_up

    warm_up()
    gc.collect()
    gc.freeze()  # workers share these pages until they write to them, and the collector would


def main() -> None:
    """Preload, and fork workers as Spark asks for them."""
    before = dict(os.environ)
    os.environ.update(_NO_THREADS)
    preload()
    if threads() != 1:
        os.execve(sys.executable, [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]], before)
    for name in _NO_THREADS:
        del os.environ[name]
    os.environ.update(before)
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
