"""Arrays as bytes, and blocks as arrays: how prefixes, requests and answers travel between tasks and wait in files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bigjoin.joins.blocks import Block, Counts, Prefixes, Proposals

Arrays: TypeAlias = tuple[NDArray[Any], ...]

ALIGNMENT = 8
"""Bytes: arrays begin at multiples of this, so that they can be read without a copy."""


def packed(arrays: Arrays) -> Iterator[Any]:
    """Give the bytes of arrays piece by piece: their types and lengths, then one array after another."""
    header = json.dumps([(array.dtype.str, len(array)) for array in arrays]).encode()
    header += b" " * (-len(header) % ALIGNMENT)
    yield len(header).to_bytes(ALIGNMENT, "little") + header
    for array in arrays:
        yield np.ascontiguousarray(array).view(np.uint8).data
        yield bytes(-array.nbytes % ALIGNMENT)


def pack_arrays(arrays: Arrays) -> bytes:
    """Return arrays as bytes, whose number is a multiple of the alignment."""
    return b"".join(packed(arrays))


def unpack_arrays(data: Any) -> Arrays:
    """Return copies of the arrays in bytes: for read-only views, kernels would be compiled a second time."""
    return tuple(array.copy() for array in _views(data))


def pack(block: Block) -> bytes:
    """Return a block as bytes. Counts and places have the type of codes, since a list is never longer than its domain."""
    narrow, columns = block.prefixes.dtype, np.array([len(block.prefixes)], np.uint8)
    arrays: Arrays = ()
    if isinstance(block, Counts):
        starts = block.starts if block.starts.any() else block.starts[:0]
        arrays = (block.proposers, block.counts.astype(narrow), starts.astype(narrow))
    elif isinstance(block, Proposals):
        arrays = tuple(array.astype(narrow, copy=False) for array in (block.begins, block.lengths, block.codes))
    return pack_arrays((columns, block.prefixes.ravel(), *arrays))


def unpack(data: Any) -> Block:
    """Return the block in bytes, as views of them."""
    (columns,), prefixes, *rest = _views(data)
    prefixes = prefixes.reshape(columns, -1)
    if not rest:
        return Prefixes(prefixes)
    if rest[0].dtype == np.uint8:
        proposers, counts, starts = rest
        return Counts(prefixes, counts, proposers, starts if len(starts) else np.zeros(len(counts), np.int64))
    return Proposals(prefixes, *rest)


def _views(data: Any) -> Iterator[NDArray[Any]]:
    view = memoryview(data)
    at = ALIGNMENT + int.from_bytes(view[:ALIGNMENT], "little")
    for kind, length in json.loads(bytes(view[ALIGNMENT:at])):
        array = np.frombuffer(view, kind, length, at)
        yield array
        at += array.nbytes + -array.nbytes % ALIGNMENT
