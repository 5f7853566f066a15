"""A power failure, imagined: what a disk may hold if only what was synced is sure to be there.

`Disk(root)` listens to the calls of this process that change files below a root. A file that is synced keeps its content, and a
folder that is synced keeps its names. Everything else may have reached the disk or not, each piece by itself and in any order.
`failed` makes a folder of what could be left.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from threading import RLock
from typing import IO, Any

BLOCK_BYTES = 512
"""A disk writes at least so many bytes at once."""


@dataclass
class Disk:
    """What is durable of the files below a root."""

    root: Path
    contents: dict[int, bytes] = field(default_factory=dict)
    """Of each file that was synced, by its number."""
    names: dict[int, dict[str, int]] = field(default_factory=dict)
    """Of each folder that was synced: the names in it, and what they lead to."""

    def __post_init__(self) -> None:
        self.kept: dict[int, IO[bytes] | int] = {}
        """Files and folders that are open, so that their numbers are not given to others."""
        self.sync_all()

    def sync_all(self) -> None:
        for folder, _, files in os.walk(self.root):
            self._keep(Path(folder))
            for file in files:
                self._keep(Path(folder, file))

    def _keep(self, path: Path) -> None:
        number = path.stat().st_ino
        if path.is_dir():
            self.names[number] = {entry.name: entry.inode() for entry in os.scandir(path)}
            if number not in self.kept:
                self.kept[number] = os.open(path, os.O_RDONLY)
        else:
            self.contents[number] = path.read_bytes()
            self.kept.setdefault(number, path.open("rb"))

    def has(self, file: int | str | Path) -> bool:
        """Tell whether a file, by its path or its descriptor, lies below the root."""
        path = Path(f"/proc/self/fd/{file}").readlink() if isinstance(file, int) else Path(file)
        return path == self.root or self.root in path.parents

    def synced(self, descriptor: int) -> None:
        """Note that a file or folder was synced."""
        self._keep(Path(f"/proc/self/fd/{descriptor}").readlink())

    def renamed(self, source: str | Path, target: str | Path) -> None:
        """Note that a file or folder has another name: a disk without a journal may have neither, or both."""

    def close(self) -> None:
        """Let go what is open."""
        for opened in self.kept.values():
            os.close(opened) if isinstance(opened, int) else opened.close()

    def failed(self, target: Path, random: Random) -> None:
        """Write what could be left after a power failure now."""
        now = {}
        for folder, folders, files in os.walk(self.root):
            for name in (*folders, *files):
                path = Path(folder, name)
                now[path.stat().st_ino] = path
        target.mkdir()
        self._restore(self.root.stat().st_ino, self.root, target, now, random)

    def _restore(self, number: int, folder: Path | None, target: Path, now: dict[int, Path], random: Random) -> None:
        durable = self.names.get(number, {})
        current = {} if folder is None else {entry.name: entry.inode() for entry in os.scandir(folder)}
        for name in sorted(durable.keys() | current.keys()):
            states = {durable.get(name), current.get(name)}
            chosen = random.choice(sorted(states, key=lambda state: state or 0))
            if chosen is None:
                continue
            path = now.get(chosen)
            if chosen in self.names or (path is not None and path.is_dir()):
                (target / name).mkdir()
                self._restore(chosen, path, target / name, now, random)
            else:
                durably = self.contents.get(chosen, b"")
                written = durably if path is None else path.read_bytes()  # it may have lost its name since
                (target / name).write_bytes(self._mixed(durably, written, random))

    def _mixed(self, old: bytes, new: bytes, random: Random) -> bytes:
        """Return what may be left of a file that was written over: some blocks of each, and either length."""
        if old == new:
            return new
        length = len(random.choice([old, new]))
        if random.random() < 0.3:
            return random.choice([old, new])
        blocks = []
        for at in range(0, length, BLOCK_BYTES):
            block = random.choice([old, new])[at : min(at + BLOCK_BYTES, length)]
            blocks.append(block.ljust(min(BLOCK_BYTES, length - at), b"\0"))
        return b"".join(blocks)


class JournaledDisk(Disk):
    """A disk whose file system has a journal: it renames as a whole, with the folders that lead there."""

    def renamed(self, source: str | Path, target: str | Path) -> None:
        """Note that a file or folder has its new name, and not its old one."""
        for folder in (Path(source).parent, *Path(target).parents):
            if self.has(folder):
                self._keep(folder)


def listen(disk: Disk, monkeypatch: Any, before: Callable[[], None]) -> None:
    """Tell the disk of every sync, and call `before` ahead of every step that changes what a failure could leave."""
    one_step, syncs, rename = RLock(), (os.fsync, os.fdatasync), os.rename

    def noted(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if not disk.has(arguments[0]):
            return call(*arguments, **named)
        with one_step:
            before()
            done = call(*arguments, **named)
            if call in syncs:
                disk.synced(arguments[0])
            if call is rename:
                disk.renamed(*arguments)
            return done

    for name in ("fsync", "fdatasync", "replace", "rename", "pwrite", "mkdir", "unlink"):
        monkeypatch.setattr(os, name, partial(noted, getattr(os, name)))
