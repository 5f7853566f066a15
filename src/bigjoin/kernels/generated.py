"""The one entry through which generated source is compiled.

numba keeps machine code on disk only for functions that come from a file. So the source is written once, to a file named by its
hash, and imported from there: workers and later runs find it compiled.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import uuid
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from bigjoin.kernels.jit import cache_folder

KEPT = 512
"""Functions that a process keeps."""


@lru_cache(maxsize=KEPT)
def load(source: str) -> Any:
    """Return the function `run` that a module's source defines."""
    name = f"plan_{sha256(source.encode()).hexdigest()[:24]}"
    try:
        file = _written(source, Path(cache_folder()) / "plans" / f"{name}.py")
    except OSError:  # a full disk, or a folder that is not ours: compile for this process alone
        file = _written(source, Path(tempfile.mkdtemp(prefix="bigjoin-plan-")) / f"{name}.py")
    spec = importlib.util.spec_from_file_location(qualified := f"bigjoin.kernels.{name}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[qualified] = module  # where numba looks for the module of cached machine code
    return module.run


def _written(source: str, file: Path) -> Path:
    """Return the file with a source in it, whole whoever else writes it at the same time."""
    if not file.exists() or file.read_text(encoding="utf-8") != source:
        file.parent.mkdir(parents=True, exist_ok=True)
        aside = file.with_name(f".{uuid.uuid4().hex}.py")
        aside.write_text(source, encoding="utf-8")
        aside.replace(file)
    return file
