"""The degrees of vertices, and what the manifest says about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.manifest_entries import DegreesEntry, RelationEntry
from bigjoin.index.shards import Shards

LISTED_HUBS = 10
"""How many of the largest hubs the manifest names."""


def degree_files(relations: Mapping[str, RelationEntry]) -> list[str]:
    """Return the files of offsets whose list lengths add up to the degrees: both directions of every relation of pairs."""
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
    """Return the manifest's entry for degrees that are given by code."""
    bounds = np.concatenate([[0], 2 ** np.arange(63)])
    histogram = np.bincount(np.searchsorted(bounds, degrees, side="right") - 1)
    hubs = np.argsort(-degrees, kind="stable")[:LISTED_HUBS]
    return DegreesEntry(tuple(histogram.tolist()), tuple(zip(hubs.tolist(), degrees[hubs].tolist(), strict=True)))
