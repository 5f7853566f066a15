"""Servers of a test: processes that can be killed, and started again at the same address with the same data."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.request
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path

START_SECONDS = 90.0
STOP_SECONDS = 20.0


class Server(ABC):
    """Processes with a folder of their own, for as long as a `with` block runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []

    @abstractmethod
    def start(self) -> None:
        """Start the processes, and return when they answer."""

    def kill(self) -> None:
        """End the processes at once, as `kill -9` does, or a power failure."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
        self.processes = []

    def stop(self) -> None:
        """Let the processes end by themselves."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
        self.kill()

    def __enter__(self) -> Server:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self, *command: str, **environment: str) -> None:
        with (self.folder / "log").open("ab") as log:
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **environment}))

    def _wait_for(self, url: str, content: bytes = b"") -> None:
        """Wait until a page of the server exists and contains some text."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            with suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
                if content in answer.read():
                    return
            if any(process.poll() is not None for process in self.processes):
                break
            time.sleep(0.1)
        raise RuntimeError(f"the server did not start; its log ends with:\n{(self.folder / 'log').read_text()[-2000:]}")
