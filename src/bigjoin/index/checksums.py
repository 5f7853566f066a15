"""Checksums of files, block by block: XXH3, which is faster than reading the bytes.

They tell damage, not malice: anyone who can change a file can change its checksum. `verification.py` protects kernels from
both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import xxhash
from numpy.typing import NDArray

from bigjoin.index.manifest_entries import SEAL_BLOCK_BYTES, FileEntry
from bigjoin.index.stage_runner import in_threads, in_turn


def file_entry(content: NDArray[np.uint8]) -> FileEntry:
    """Return the size and the checksums of a file's bytes."""
    size = FileEntry(len(content))
    return replace(size, blocks=tuple(_block(content, number) for number in range(size.block_count)))


def differs(content: NDArray[np.uint8], entry: FileEntry, first: int = 0, last: int | None = None) -> bool:
    """Tell whether the blocks that hold bytes [first, last) of a file are not what was written."""
    if len(content) != entry.bytes:
        return True
    if entry.sha256 is not None:
        return hashlib.sha256(content.data).hexdigest() != entry.sha256
    last = len(content) if last is None else last
    numbers = range(first // SEAL_BLOCK_BYTES, max(first // SEAL_BLOCK_BYTES + 1, -(-last // SEAL_BLOCK_BYTES)))
    return any(_block(content, number) != entry.blocks[number] for number in numbers)


def damaged_files(contents: Mapping[str, NDArray[np.uint8]], entries: Mapping[str, FileEntry]) -> list[str]:
    """Return the names of the files that are not what was written; blocks are read in threads."""
    work = []
    for name, content in contents.items():
        entry = entries[name]
        step = len(content) + 1 if entry.sha256 is not None else 4 * SEAL_BLOCK_BYTES
        work += [(name, first, min(first + step, len(content))) for first in range(0, max(1, len(content)), step)]

    run = in_turn if sum(map(len, contents.values())) < SEAL_BLOCK_BYTES else in_threads  # threads take longer to start
    found = run(lambda item: differs(contents[item[0]], entries[item[0]], *item[1:]), work)
    return sorted({name for (name, _, _), wrong in zip(work, found, strict=True) if wrong})


def _block(content: NDArray[np.uint8], number: int) -> str:
    return xxhash.xxh3_64_hexdigest(content[number * SEAL_BLOCK_BYTES : (number + 1) * SEAL_BLOCK_BYTES].data)
