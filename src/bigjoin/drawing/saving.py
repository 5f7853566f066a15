"""Pictures and pages as files, which appear when they are complete."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bigjoin.errors import OutputError
from bigjoin.paths import check_local, check_parent

SVG_SUFFIXES, HTML_SUFFIXES = (".svg",), (".html", ".htm")


def check_picture(target: Path, suffixes: tuple[str, ...] = SVG_SUFFIXES + HTML_SUFFIXES, sources: Iterable[str] = ()) -> None:
    """Raise OutputError if a picture should not or cannot be written there; it must not replace one of its sources."""
    check_local(target, "pictures are written")
    if target.suffix.lower() not in suffixes:
        known = " or ".join(dict.fromkeys((suffixes[0], *(s for s in suffixes if s == ".html"))))
        raise OutputError(f"cannot tell the format of {target}: end its name in {known}")
    if target.is_dir():
        raise OutputError(f"{target} is a directory; name a file in it")
    if target.exists() and not target.is_file():
        raise OutputError(f"{target} is a pipe or a device, and pictures are files: name another")
    if any(target.exists() and Path(source).exists() and target.samefile(source) for source in sources):
        raise OutputError(f"{target} is the source itself; write to another file")
    check_parent(target)


def save(target: Path, text: str) -> None:
    """Write a file, which replaces an existing one once it is complete."""
    from bigjoin.storage import storage_at  # which imports Arrow, and most pictures are only shown

    storage_at(target.absolute().parent).publish(target.name, text.encode())
