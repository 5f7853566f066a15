"""The one entry through which generated source is compiled.

numba keeps machine code on disk only for functions that come from a file. So the source is written once, to a file named by its
hash, and imported from there: workers and later runs find it compiled.
"""

from __future__ import annotations

import importlib.util
import sys
import uuid
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from bigjoin.kernels.jit import cache_folder


@cache
def load(source: str) -> Any:
    """Return the function `run` that a module's source defines."""
    name = f"plan_{sha256(source.encode()).hexdigest()[:24]}"
    file = Path(cache_folder()) / "plans" / f"{name}.py"
    if not file.exists() or file.read_text(encoding="utf-8") != source:
        file.parent.mkdir(parents=True, exist_ok=True)
        aside = file.with_name(f".{uuid.uuid4().hex}.py")
        aside.write_text(source, encoding="utf-8")
        aside.replace(file)
    qualified = f"bigjoin.kernels.{name}"
    spec = importlib.util.spec_from_file_location(qualified, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[qualified] = module
    spec.loader.exec_module(module)
    return module.run
