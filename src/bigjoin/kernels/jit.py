"""How kernels are compiled and where their machine code is kept, and a count of how many had to be compiled.

numba's own cache would do but for three things: it unpickles whatever lies in its folder, a damaged file makes every later
call fail, and so does a disk that is full. Here machine code is a file for each signature, which only this user can have
written, and which begins with a checksum: one that does not fit is compiled anew, and one that cannot be kept is not kept.

A function's machine code contains that of its helpers, also those of other files. So the folder is named by the sources of all
kernels together.
"""

from __future__ import annotations

import os
import pickle
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import numba

from bigjoin.private import made_private, private_folder, read_private, write_private

# Kernels allocate nothing, so arrays need no reference counts: an atomic addition for each array of each call of a helper
# takes longer than a short search (45 ns against 5). The option has no public name; without it kernels are right, and slower.
_UNCOUNTED: dict[str, Any] = {}
with suppress(ImportError):
    from numba.core.options import DefaultOptions

    _UNCOUNTED = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}

_Function = TypeVar("_Function", bound=Callable[..., Any])
_kernels: list[Any] = []


def kernel(function: _Function) -> _Function:
    """Compile a function on its first call, without the GIL, and keep the machine code on disk."""
    compiled: _Function = numba.njit(nogil=True, **_UNCOUNTED)(function)
    if (folder := cache_folder()) is not None and hasattr(compiled, "_cache"):
        compiled._cache = KernelCache(function, folder)
    _kernels.append(compiled)
    return compiled


helper = kernel
"""A function that kernels call: compiled like one, and named apart for the reader."""


def compilations() -> int:
    """Return how many functions this process had to compile because the cache did not have them."""
    return sum(sum(k.stats.cache_misses.values()) for k in _kernels if hasattr(k, "stats"))


class KernelCache:
    """The machine code of one function, as numba's dispatcher asks for it: where anything fails, there is none."""

    def __init__(self, function: Callable[..., Any], folder: Path) -> None:
        self.function, self.folder = function, folder

    @property
    def cache_path(self) -> str:
        return str(self.folder)

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return what was compiled for a signature, or None; what cannot be used is removed."""
        target.refresh()
        file = None
        try:
            key = self._key(signature, target.codegen())
            content = read_private(file := self._file(key))
            checksum, entry = content[:32], content[32:]
            if sha256(entry).digest() != checksum:
                raise ValueError(f"{file} is damaged")
            kept_for, reduced = pickle.loads(entry)
            if kept_for != key:
                raise ValueError(f"{file} is another function's")
            from numba.core.compiler import CompileResult

            return CompileResult._rebuild(target, *reduced)
        except FileNotFoundError:
            return None
        except Exception:
            with suppress(OSError):
                if file is not None:
                    file.unlink()
            return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep what was compiled for a signature; not on a full disk, nor what only this process can run."""
        with suppress(Exception):
            from numba.core.serialize import dumps

            if not compiled.library.has_dynamic_globals and not any(not lifted.can_cache for lifted in compiled.lifted):
                key = self._key(signature, compiled.codegen)
                entry = dumps((key, compiled._reduce()))
                write_private(self._file(key), sha256(entry).digest() + entry)

    def flush(self) -> None:
        """Forget what is kept, as numba does before it compiles a function again."""
        for file in self.folder.glob(f"{self._name}-*"):
            file.unlink(missing_ok=True)

    @property
    def _name(self) -> str:
        return f"{self.function.__module__}.{self.function.__qualname__}".replace("<", "").replace(">", "")

    def _key(self, signature: Any, codegen: Any) -> tuple[Any, ...]:
        """Return all that machine code depends on, besides the sources that name the folder."""
        versions = (numba.__version__, sys.implementation.cache_tag, numba.config.BOUNDSCHECK)
        return (self._name, sha256(self.function.__code__.co_code).hexdigest(), signature, codegen.magic_tuple(), versions)

    def _file(self, key: tuple[Any, ...]) -> Path:
        return self.folder / f"{self._name}-{sha256(repr(key).encode()).hexdigest()[:24]}.kernel"


@cache
def cache_folder() -> Path | None:
    """Return the folder for these sources, in NUMBA_CACHE_DIR or bigjoin's part of the user's cache folder; or None.

    Machine code is run, so it is a folder that nobody else can write to, or none: then every process compiles for itself.
    """
    base = _users_choice() or private_folder("kernels")
    sources = b"".join(file.read_bytes() for file in sorted(Path(__file__).parent.glob("*.py")))
    return None if base is None else made_private(base / sha256(sources).hexdigest()[:16])


def _users_choice() -> Path | None:
    if not (chosen := os.environ.get("NUMBA_CACHE_DIR")):
        return None
    with suppress(OSError, RuntimeError):
        folder = Path(chosen).resolve()
        folder.parent.mkdir(parents=True, exist_ok=True)
        if base := made_private(folder):
            return base
    warnings.warn(
        f"NUMBA_CACHE_DIR is not used: {chosen} is not a folder that this user, and nobody else, can write to",
        UserWarning,
        stacklevel=2,
    )
    return None
