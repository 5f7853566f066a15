"""Run a program on this machine as if it were another one: with private folders in place of those that programs write to.

The program and its children get a mount namespace. In it, the folders for temporary files and caches are others than outside,
empty at first, and nothing else can be written. What the program has to read can stay visible, such as this checkout.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

TEMPORARY = ["/tmp", "/var/tmp", "/dev/shm"]


def refusal() -> str | None:
    """Say why this machine gives a process no private folders; None if it does."""
    try:
        done = subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False)
    except FileNotFoundError as error:
        return f"{error.filename} is not installed"
    return done.stderr.decode().strip() or "unshare failed" if done.returncode else None


def in_private_folders(command: Iterable[str], folder: Path, visible: Iterable[Path]) -> list[str]:
    """Return the command that runs another one with private folders.

    Args:
        command: What runs.
        folder: Where the private folders lie. A file that the program calls `/tmp/name` is `folder / "tmp/name"` outside.
        visible: Folders that can still be read, even if they lie in one that is replaced.
    """
    replaced = _outermost(_written_by_programs())
    shown = [path for path in _outermost(visible) if any(path.is_relative_to(hidden) for hidden in replaced)]
    # The new folders cover the paths of those that they are made of, so all are opened first, and named by their descriptors.
    lines = ["set -e", f"exec 3<{shlex.quote(str(folder))}"]
    lines += [f"exec {number}<{shlex.quote(str(path))}" for number, path in enumerate(shown, 4)]
    for path in replaced:
        (folder / path.relative_to("/")).mkdir(parents=True, exist_ok=True)
        lines.append(_bind(f"3{path}", path))
    for number, path in enumerate(shown, 4):
        lines += [
            f"mkdir -p {shlex.quote(str(path))}",
            _bind(str(number), path),
            f"mount -o remount,bind,ro {shlex.quote(str(path))}",
        ]
        lines.append(f"exec {number}<&-")
    lines += ["exec 3<&-", "mount -o remount,bind,ro /", "cd /tmp", 'exec "$@"']
    return ["unshare", "--mount", "--propagation", "private", "bash", "-c", "\n".join(lines), "bash", *command]


def _bind(descriptor: str, path: Path) -> str:
    return f"mount --no-canonicalize --bind {shlex.quote(f'/proc/self/fd/{descriptor}')} {shlex.quote(str(path))}"


def _written_by_programs() -> list[Path]:
    """Return the folders for temporary files and caches, and those that the environment names for bigjoin."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    named = [os.environ.get(variable) for variable in ("BIGJOIN_CACHE", "BIGJOIN_SCRATCH", "NUMBA_CACHE_DIR")]
    return [Path(path) for path in (*TEMPORARY, tempfile.gettempdir(), cache, *named) if path and Path(path).is_dir()]


def _outermost(paths: Iterable[Path]) -> list[Path]:
    found = sorted({path.resolve() for path in paths})
    return [path for path in found if not any(path != other and path.is_relative_to(other) for other in found)]
