"""What was typed in earlier sessions: a file that only this user can read and write. Without a place for it, nothing is kept.

An entry is written when it is handed over, in one piece, so it survives whatever ends the shell. Lines of an entry begin with a
tab, and an empty line ends it. What begins with a space is not kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from bigjoin.private import private_folder, read_private, write_private

MAX_ENTRIES = 5000
"""Entries that are kept when a session begins; older ones are forgotten."""
MAX_ENTRY_CHARACTERS = 1 << 16
"""A longer text was pasted, and is not kept."""


def history_file() -> Path | None:
    """Return the file, or None if there is no folder for it that is this user's alone."""
    folder = private_folder("shell")
    return None if folder is None else folder / "history"


def entries_of(file: Path | None) -> list[str]:
    """Return the entries of earlier sessions, the oldest first; none if they cannot be read, or could be somebody else's."""
    if file is None:
        return []
    try:
        content = read_private(file)
    except OSError:
        return []
    found = _read(content)
    if len(found) > MAX_ENTRIES:
        found = found[-MAX_ENTRIES:]
        with suppress(OSError):
            write_private(file, "".join(map(_written, found)).encode(errors="replace"))
    return found


def keep(file: Path | None, text: str) -> bool:
    """Add an entry to the file, and tell whether it is there; the shell goes on without."""
    if file is None or text.startswith(" ") or len(text) > MAX_ENTRY_CHARACTERS:
        return False
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        opened = os.open(file, flags, 0o600)
        try:
            os.write(opened, _written(text).encode(errors="replace"))
        finally:
            os.close(opened)
    except OSError:
        return False
    return True


def _written(text: str) -> str:
    return "".join(f"\t{line}\n" for line in text.split("\n")) + "\n"


def _read(content: bytes) -> list[str]:
    found: list[str] = []
    lines: list[str] = []
    for line in content.decode(errors="replace").split("\n"):
        if line.startswith("\t"):
            lines.append(line[1:])
        elif lines:
            found.append("\n".join(lines))
            lines = []
    return found


def without_repeats(texts: Iterable[str]) -> list[str]:
    """Return texts without those that repeat the one before."""
    kept: list[str] = []
    for text in texts:
        if not kept or kept[-1] != text:
            kept.append(text)
    return kept
