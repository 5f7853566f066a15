"""The degrees of vertices: what the manifest says of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.entries import DegreesEntry, RelationEntry
from bigjoin.index.shards import Shards

LISTED_HUBS = 10
"""The largest hubs that the manifest names."""


def degree_files(relations: Mapping[str, RelationEntry]) -> list[str]:
    """Return the files of offsets whose lists add up to the degrees: of each relation of pairs, those of all directions."""
    pairs = [entry for entry in relations.values() if len(entry.domains) == 2 and not entry.is_stored_result]
    found = (order.levels[0].offsets for entry in pairs for order in entry.orders.values())
    return list(dict.fromkeys(file for file in found if file is not None))


def degrees_of(offsets: Iterable[NDArray[np.int64]], shards: Shards) -> NDArray[np.int64]:
    """Return the degree of each code, from the offsets of all lists."""
    degrees = np.zeros(shards.size, np.int64)
    nodes = shards.nodes(np.arange(shards.size))
    for bounds in offsets:
        degrees += np.diff(bounds)[nodes]
    return degrees


def degrees_entry(degrees: NDArray[np.int64]) -> DegreesEntry:
    """Return what the manifest says of degrees, given by code."""
    return DegreesEntry(_histogram(degrees), _hubs(degrees))


def _histogram(degrees: NDArray[np.int64]) -> tuple[int, ...]:
    """Return how many vertices have a degree of 0, 1, 2 to 3, 4 to 7, and so on."""
    bounds = np.concatenate([[0], 2 ** np.arange(63)])
    counts = np.bincount(np.searchsorted(bounds, degrees, side="right") - 1)
    return tuple(int(count) for count in counts)


def _hubs(degrees: NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
    """Return code and degree of the largest hubs."""
    codes = np.argsort(-degrees, kind="stable")[:LISTED_HUBS]
    return tuple((int(code), int(degrees[code])) for code in codes)
