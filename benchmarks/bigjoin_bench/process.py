"""The outside of a contender's process: ask, wait, watch its memory, and cut it off."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bigjoin_bench.memory import end, family, held
from bigjoin_bench.question import Input, Question

_FOLDER = str(Path(__file__).parents[1])
"""Where a contender's process, and the Spark workers below it, find this package."""

LOOK = 0.1
"""Seconds between two looks at memory; finding the processes costs more, and happens every tenth time."""


class CutOff(Exception):  # noqa: N818 - it is an outcome, not a mistake
    """A contender took longer than it may; its process is gone."""


class Failed(Exception):  # noqa: N818
    """A contender could not answer, and says why; its process is gone."""


@dataclass(frozen=True)
class Reply:
    """An answer from the process, and the most memory that was seen until it came."""

    said: dict[str, Any]
    memory: int


class Process:
    """A contender's process, ready for questions once it has told its version."""

    def __init__(self, name: str, *, threads: int, patience: float, command: list[str] | None = None) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the process
        self._scratch = tempfile.mkdtemp(prefix="bigjoin-bench-")  # a process that is killed does not tidy up
        scratch = {"TMPDIR": self._scratch, "SPARK_LOCAL_DIRS": self._scratch}
        path = os.pathsep.join(filter(None, (_FOLDER, os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, **scratch, "PYTHONPATH": path, "OMP_NUM_THREADS": str(threads), "PYTHONWARNINGS": "ignore"}
        self._child = subprocess.Popen(
            command or [sys.executable, "-m", "bigjoin_bench.worker", name, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
            start_new_session=True,  # an interrupt is for us to pass on
        )
        self._buffer = b""
        started = time.perf_counter()
        self.version: str = self._reply(patience).said["version"]
        self.start = time.perf_counter() - started

    @property
    def alive(self) -> bool:
        return self._child.poll() is None

    def load(self, graph: Input, *, patience: float) -> Reply:
        """Load a graph; raise CutOff or Failed."""
        return self._ask({"load": graph.as_json()}, patience)

    def run(self, question: Question, *, patience: float) -> Reply:
        """Answer a question; raise CutOff or Failed."""
        return self._ask({"run": question.as_json()}, patience)

    def close(self) -> None:
        """End the process and all that it started."""
        if self.alive:
            end(self._child.pid)
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout, self._log):
            if pipe is not None:
                pipe.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _ask(self, request: dict[str, Any], patience: float) -> Reply:
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps(request).encode() + b"\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            raise self._failure("ended") from None
        return self._reply(patience)

    def _reply(self, patience: float) -> Reply:
        assert self._child.stdout is not None
        deadline = time.perf_counter() + patience
        members: list[int] = []
        memory = looks = 0
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._child.stdout], [], [], LOOK)
            if ready:
                got = os.read(self._child.stdout.fileno(), 1 << 16)
                if not got:
                    raise self._failure("ended without an answer")
                self._buffer += got
                continue
            if time.perf_counter() > deadline:
                self.close()
                raise CutOff
            members = list(family(self._child.pid)) if looks % 10 == 0 else members
            memory = max(memory, held(members))
            looks += 1
        memory = max(memory, held(family(self._child.pid)))
        line, _, self._buffer = self._buffer.partition(b"\n")
        said = json.loads(line)
        if "error" in said:
            raise self._failure(said["error"])
        return Reply(said, memory)

    def _failure(self, reason: str) -> Failed:
        """Return the error that says why, with the last line that the process wrote if it said nothing itself."""
        self._log.seek(0)
        last = [line.strip() for line in self._log.read().splitlines() if line.strip()][-1:]
        self.close()
        return Failed(reason if not last or last[0] in reason or "Error" in reason else f"{reason}: {last[0][:200]}")
