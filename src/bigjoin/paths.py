"""Sources by their names: which are remote, and which are compressed in a way that Spark reads."""

from __future__ import annotations

import re
from pathlib import Path

COMPRESSED = (".gz", ".bz2", ".deflate")
UNREADABLE = (".zip", ".xz", ".zst", ".7z", ".rar", ".lz4", ".lzma", ".tar", ".tgz")


def is_remote(source: str) -> bool:
    """Tell a URL, such as hdfs://..., from a path of this machine."""
    return re.match(r"[a-z][a-z0-9+.-]+://", source) is not None


def format_suffix(source: str) -> str:
    """Return the suffix that says the format, below that of a compression."""
    path = Path(source.lower())
    return Path(path.stem).suffix if path.suffix in COMPRESSED else path.suffix
