"""Programs that only these tests need: found where they are installed, or else fetched once into the user's cache folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

FETCH_SECONDS = 3600
"""A server may be compiled from its sources."""


class MissingToolError(Exception):
    """A program is not installed, and cannot be; the message says why."""


def tools() -> Path:
    """Return the folder for programs that these tests have fetched."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bigjoin" / "tools"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def fetched(name: str, *command: str, **environment: str) -> Path:
    """Return a file of the tools folder, which a command creates if it is not there."""
    file = tools() / name
    if not file.exists():
        if shutil.which(command[0]) is None:
            raise MissingToolError(f"{name} is not installed, and {command[0]}, which would fetch it, is not either")
        done = subprocess.run(
            ["nice", *command],
            cwd=tools(),
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=FETCH_SECONDS,
        )
        if done.returncode or not file.exists():
            raise MissingToolError(f"cannot fetch {name}: {(done.stderr or done.stdout)[-1000:]}")
    return file


def free_ports(count: int) -> list[int]:
    """Return ports of loopback at which nobody listens."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
