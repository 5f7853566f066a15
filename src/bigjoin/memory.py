"""Memory as the operating system counts it: what this process has, what the machine has left, and sizes as users write them.

What counts is memory that belongs to this process alone. Pages of files that it maps, such as those of an index, do not: the
system can drop them at any time, and several processes share them.
"""

from __future__ import annotations

import re
import resource
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from bigjoin.errors import BigjoinError

RESERVED_SHARE = 1 / 32
"""The share of a machine's memory below which it is about to run out."""

MIN_RESERVED_BYTES = 128 << 20
"""The same in bytes, for small machines and containers: a busy process takes this much in a tenth of a second."""

_STATM = Path("/proc/self/statm")
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?", re.IGNORECASE)


def size_in_bytes(given: int | str) -> int:
    """Return a size that is given as a number of bytes or as text, such as '2GB'; units are powers of 1024."""
    size = -1
    if isinstance(given, str) and (found := _SIZE.fullmatch(given.strip())):
        size = int(float(found[1]) * (1 << _UNITS[found[2].upper()]))
    elif hasattr(given, "__index__") and not isinstance(given, bool):
        size = int(given)
    if size <= 0:
        raise BigjoinError(
            f"memory is {given!r}; it must be a number of bytes, more than 0, or a size such as '512MB' or '2GB'"
        )
    return size


def shown_size(size: float) -> str:
    """Return a number of bytes as a person reads it."""
    return f"{size / 2**30:,.1f} GB" if size >= 1 << 30 else f"{size / 2**20:,.{0 if size >= 10 << 20 else 1}f} MB"


def process_memory() -> int:
    """Return the bytes that belong to this process alone; where the system does not tell, the most that it has ever had."""
    try:
        resident, shared = _STATM.read_text(encoding="ascii").split()[1:3]
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return (int(resident) - int(shared)) * resource.getpagesize()


@dataclass(frozen=True)
class MachineMemory:
    """The memory of a machine, or of the container that this process is in: its bytes, and how many of them are left."""

    size: int
    left: int

    @property
    def reserved(self) -> int:
        """The bytes that should be left."""
        return int(max(self.size * RESERVED_SHARE, MIN_RESERVED_BYTES))


def machine_memory(root: Path = Path("/")) -> MachineMemory | None:
    """Return the memory of the machine or the container, whichever has less left; None where the system does not tell."""
    found = [_machine(root), *map(_group, _groups(root))]
    return min((each for each in found if each is not None), key=lambda memory: memory.left, default=None)


def _machine(root: Path) -> MachineMemory | None:
    with suppress(OSError, ValueError, KeyError):
        lines = (line.split() for line in (root / "proc/meminfo").read_text(encoding="ascii").splitlines())
        kilobytes = {name: int(number) for name, number, *_ in lines}
        left = kilobytes["MemAvailable:"] + kilobytes["SwapFree:"]
        return MachineMemory(kilobytes["MemTotal:"] << 10, left << 10)
    return None


@lru_cache
def _groups(root: Path) -> tuple[Path, ...]:
    """Return the folders of the control groups that bound the memory of this process, of either version."""
    folders: dict[Path, None] = {}
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, name = line.split(":", 2)
            if controllers in ("", "memory"):
                base, path = root / "sys/fs/cgroup" / controllers, Path(name.lstrip("/"))
                folders.update(dict.fromkeys(base / above for above in (path, *path.parents)))
    return tuple(folder for folder in folders if _group(folder) is not None)


def _group(folder: Path) -> MachineMemory | None:
    """Return the memory that a control group may have; files that are cached count as left, as the system can drop them."""
    for most, used, prefix in (
        ("memory.max", "memory.current", ""),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
    ):
        with suppress(OSError, ValueError):  # without a bound, the first says "max", or more than any machine has
            size = int((folder / most).read_text(encoding="ascii"))
            if size < 1 << 60:
                cached = sum(_cached((folder / "memory.stat").read_text(encoding="ascii"), prefix))
                return MachineMemory(size, max(0, size - int((folder / used).read_text(encoding="ascii")) + cached))
    return None


def _cached(stat: str, prefix: str) -> Iterator[int]:
    for line in stat.splitlines():
        name, number = line.split()
        if name in (f"{prefix}inactive_file", f"{prefix}active_file"):
            yield int(number)
