"""What the path of a source tells: whether it is remote, compressed, of a known format, and a regular file at all."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from bigjoin.errors import BigjoinError, OutputError, SourceError, reason

COMPRESSED_SUFFIXES = (".gz", ".bz2", ".deflate")
UNREADABLE_SUFFIXES = (".zip", ".xz", ".zst", ".7z", ".rar", ".lz4", ".lzma", ".tar", ".tgz")

TABLE_PREFIX = "table:"
"""What a source begins with that is a table of Spark's catalogs; the rest is its name there."""

_URL = re.compile(r"(?:^|.*/)(([a-z][a-z0-9+.-]+):)/+(.*)", re.DOTALL)


class NamedPath(str):
    """A path of this machine that messages call by another name."""

    __slots__ = ("shown",)
    shown: str

    def __new__(cls, path: str, shown: str) -> NamedPath:
        named = super().__new__(cls, path)
        named.shown = shown
        return named


def shown_name(source: str) -> str:
    """Return what messages call a source."""
    return source.shown if isinstance(source, NamedPath) else source


def shown_path(path: object) -> str:
    """Return a path as it is seen from the current folder, if that holds it; a URL as it is."""
    here = Path.cwd()
    if not isinstance(path, Path):
        return str(path)
    return str(path.relative_to(here)) if path.is_absolute() and path.is_relative_to(here) else str(path)


def check_local(target: str | Path, what: str, kind: type[BigjoinError] = OutputError) -> None:
    """Refuse a URL where only a path of this machine will do, also one that `pathlib` has taken for a relative path."""
    found = _URL.fullmatch(str(target))
    if found is not None and not Path(str(target)[: found.end(1)]).is_dir():
        scheme, rest = found[2], found[3]
        url = f"{scheme}:{'///' if scheme == 'file' else '//'}{rest}"
        hint = f"write /{rest}" if scheme == "file" else "name a path of this machine"
        raise kind(f"{url} is a URL, and {what} on this machine alone: {hint}")


def is_remote(source: str) -> bool:
    """Tell what Spark reads, a URL such as hdfs://... or a table, from a path of this machine."""
    return re.match(rf"{TABLE_PREFIX}|[a-z][a-z0-9+.-]+://", source) is not None


def format_suffix(source: str) -> str:
    """Return the suffix that names the format, without that of a compression."""
    path = Path(source.lower())
    return Path(path.stem).suffix if path.suffix in COMPRESSED_SUFFIXES else path.suffix


def check_regular(source: str | Path) -> None:
    """Refuse what is neither a file nor a folder of files before it is opened: opening a pipe would wait for its writer.

    A path that does not exist passes, as the caller reports it better. Hidden names in a folder are not checked.
    """
    if is_remote(str(source)):
        return
    path = Path(source)
    try:
        str(source).encode()
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            for entry in path.iterdir():
                if not is_hidden(entry.name):
                    _check_entry(entry)
        elif not stat.S_ISREG(mode):
            raise SourceError(f"{source} is {_kind(mode)}: save what it gives as a file, which can be read twice")
    except FileNotFoundError:
        return
    except UnicodeEncodeError:
        raise SourceError(f"the name {str(source)!r} is not UTF-8: rename the file") from None
    except ValueError:
        raise SourceError(f"{str(source)!r} is no path: it holds a zero character") from None
    except OSError as error:
        raise SourceError(f"{source} cannot be read: {reason(error)}") from None


def check_parent(target: Path) -> None:
    """Refuse to write a file or folder where its parent is missing, or cannot be written to."""
    folder = target.absolute().parent
    if not folder.is_dir():
        raise OutputError(f"there is no directory {folder} to write {target.name} in")
    if not os.access(folder, os.W_OK):
        raise OutputError(f"the directory {folder} cannot be written to")


def is_hidden(name: str) -> bool:
    """Tell a file that writers leave with the data, such as _SUCCESS, from a partition whose name begins with _."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _check_entry(path: Path) -> None:
    if path.is_symlink() and not path.exists():
        raise SourceError(f"{path} is a link that leads nowhere: remove it, or what it stands for is missing")
    if not path.is_symlink() or not path.is_dir():  # a linked folder might contain itself
        check_regular(path)


def _kind(mode: int) -> str:
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
    return kinds.get(stat.S_IFMT(mode), "no file")
