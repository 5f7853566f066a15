"""Where things lie: a path of this machine, or a URL of a store such as `s3://bucket/graph.index`.

Both answer to the methods of `pathlib`; a URL is a `UPath`, which fsspec opens. Only a URL makes this process import those.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeAlias, cast
from urllib.parse import unquote, urlsplit

from bigjoin.errors import SourceError, first_line
from bigjoin.paths import check_local, is_remote

Place: TypeAlias = Path
"""A `Path`, or a `UPath`, which has its methods but is none; so only what looks inside a path asks which of them it has."""

_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "abfs": "azure", "abfss": "azure", "az": "azure"}
"""The extra of bigjoin that installs what opens a kind of URL."""


def is_on_store(place: object) -> bool:
    """Tell a place on a store from one in the local file system."""
    return not isinstance(place, Path)


def place_of(given: str | Place, options: Mapping[str, Any] | None = None) -> Place:
    """Return the place that a path or a URL names; `options` are what fsspec needs to open its store, such as credentials."""
    if isinstance(given, Path):
        check_local(given, "a Path is", SourceError)  # pathlib has taken a slash away from a URL
        return given
    text = str(given)
    if not is_remote(text):
        return Path(text)
    scheme = text.partition(":")[0]
    if scheme == "file":
        return Path(unquote(urlsplit(text).path))
    if "@" in text.partition("://")[2].partition("/")[0] and not scheme.startswith(("abfs", "az")):
        hidden = re.sub(r"//[^/]*@", "//...@", text)
        raise SourceError(f"{hidden} holds credentials: pass them as storage_options=, or where fsspec looks for them")
    from upath import UPath

    known = dict(getattr(given, "storage_options", {}))
    try:
        place = UPath(text.rstrip("/"), **{**known, **(options or {})})
        place.fs  # noqa: B018 - what opens it may be missing
    except ImportError as error:
        extra = _EXTRAS.get(scheme)
        hint = f'pip install "bigjoin[{extra}]"' if extra is not None else first_line(error)
        raise SourceError(f"{text} cannot be opened, as what opens {scheme}:// is not installed: {hint}") from None
    except Exception as error:  # any store has its own
        raise SourceError(f"{text} cannot be opened: {first_line(error)}") from None
    return cast("Place", place)


def place_like(given: str | Place, other: Place) -> Place:
    """Return a place, opened with the options of another one if both are on the same kind of store."""
    if isinstance(given, str) and is_on_store(other) and is_remote(given):
        opened: Any = other
        if _client_of(given.partition(":")[0]) == _client_of(opened.protocol):
            return place_of(given, opened.storage_options)
    return place_of(given)


def _client_of(scheme: str) -> str:
    """Return what opens a kind of URL: s3:// and s3a:// are the same store."""
    return _EXTRAS.get(scheme, scheme)


def remove_folder(place: Place) -> None:
    """Remove a folder of scratch with what is in it, if it is there."""
    if not is_on_store(place):
        shutil.rmtree(place, ignore_errors=True)
        return
    opened: Any = place
    with suppress(Exception):  # whoever needs scratch there in some days removes it
        opened.fs.rm(opened.path, recursive=True)


def make_folder(place: Place) -> Place:
    """Create a folder in one that exists, where folders are created."""
    if not is_on_store(place):
        place.mkdir()
    return place


@contextmanager
def readable(place: Place) -> Iterator[str | IO[bytes]]:
    """Give what Arrow reads a file from: its path, or on a store the opened object."""
    if not is_on_store(place):
        yield str(place)
        return
    with place.open("rb") as source:
        yield source


@contextmanager
def writable(place: Place) -> Iterator[str | IO[bytes]]:
    """Give what Arrow writes a file to: its path, or on a store an object, which exists once it was written."""
    if not is_on_store(place):
        yield str(place)
        return
    with place.open("wb") as sink:
        yield sink
