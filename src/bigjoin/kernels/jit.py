"""Compile kernels, keep their machine code on disk, and count how many had to be compiled.

numba has a cache of its own, but it unpickles whatever lies in its folder, and it fails on a damaged file or a full disk. Here
each signature of a kernel is a file that only this user can have written and that begins with a checksum. A file that does not
match its checksum is compiled again, and one that cannot be written is done without.

The machine code of a function contains that of its helpers, including helpers in other files, so the folder is named by a hash
of the sources of all kernels.
"""

from __future__ import annotations

import os
import pickle
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import numba

from bigjoin.private import made_private, private_folder, read_private, write_private

# Kernels allocate nothing, so their arrays need no reference counts. Counting takes an atomic addition for each array in each
# call of a helper, which is longer than a short search (45 ns against 5). The option is not public; without it kernels are
# correct but slower.
_NO_REFERENCE_COUNTS: dict[str, bool] = {}
with suppress(ImportError):
    from numba.core.options import DefaultOptions

    _NO_REFERENCE_COUNTS = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}

_Function = TypeVar("_Function", bound=Callable[..., Any])
_kernels: list[Any] = []


def kernel(function: _Function) -> _Function:
    """Compile a function on its first call, without the GIL, and keep the machine code on disk."""
    compiled: _Function = numba.njit(nogil=True, **_NO_REFERENCE_COUNTS)(function)
    if (folder := cache_folder()) is not None and hasattr(compiled, "_cache"):
        compiled._cache = KernelCache(function, folder)
    _kernels.append(compiled)
    return compiled


helper = kernel
"""A function that only kernels call. It is compiled in the same way; the other name tells the reader."""


def has_machine_code(compiled: Any, arguments: Sequence[Any]) -> bool:
    """Tell whether a kernel can be called with arguments of these types without being compiled first."""
    if not hasattr(compiled, "overloads"):  # without the JIT
        return True
    signature = tuple(map(compiled.typeof_pyval, arguments))
    kept = compiled._cache
    return signature in compiled.overloads or (isinstance(kept, KernelCache) and kept.has(signature, compiled.targetctx))


def compilations() -> int:
    """Return how many functions this process had to compile because the cache did not have them."""
    return sum(sum(k.stats.cache_misses.values()) for k in _kernels if hasattr(k, "stats"))


class KernelCache:
    """The cache of one function, in the form that numba's dispatcher expects. If anything fails, there is no machine code."""

    def __init__(self, function: Callable[..., Any], folder: Path) -> None:
        self.function, self.folder = function, folder

    @property
    def cache_path(self) -> str:
        return str(self.folder)

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return what was compiled for a signature, or None; remove a file that cannot be used."""
        _make_ready(target)
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

    def has(self, signature: Any, target: Any) -> bool:
        """Tell whether there is a file for a signature."""
        return self._file(self._key(signature, target.codegen())).exists()

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep what was compiled for a signature, if there is space and other processes can use it."""
        with suppress(Exception):
            from numba.core.serialize import dumps

            if not compiled.library.has_dynamic_globals and not any(not lifted.can_cache for lifted in compiled.lifted):
                key = self._key(signature, compiled.codegen)
                entry = dumps((key, compiled._reduce()))
                write_private(self._file(key), sha256(entry).digest() + entry)

    @property
    def _name(self) -> str:
        return f"{self.function.__module__}.{self.function.__qualname__}".replace("<", "").replace(">", "")

    def _key(self, signature: Any, codegen: Any) -> tuple[Any, ...]:
        """Return everything that machine code depends on besides the sources of kernels."""
        versions = (numba.__version__, sys.implementation.cache_tag, numba.config.BOUNDSCHECK)
        return (self._name, sha256(self.function.__code__.co_code).hexdigest(), signature, codegen.magic_tuple(), versions)

    def _file(self, key: tuple[Any, ...]) -> Path:
        return self.folder / f"{self._name}-{sha256(repr(key).encode()).hexdigest()[:24]}.kernel"


def _make_ready(target: Any) -> None:
    """Give kept machine code the functions of numba's runtime, which is all that it needs.

    numba's own cache calls `refresh`, which imports everything that numba can compile, SciPy's linear algebra included: a fifth
    of a second. When something does have to be compiled, the compiler calls it.
    """
    from numba.core.runtime import rtsys

    rtsys.initialize(target)


@cache
def cache_folder() -> Path | None:
    """Return the folder for these sources, in NUMBA_CACHE_DIR or in bigjoin's part of the user's cache folder.

    Machine code is executed, so nobody else may be able to write to the folder. If there is none like that, return None: then
    every process compiles for itself.
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
