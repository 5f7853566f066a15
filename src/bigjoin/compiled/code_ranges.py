"""Ranges of seeds by the codes of the root: where several nests, or several processes, have to agree on a part of the work."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bigjoin.compiled.count_source import CountSource
from bigjoin.compiled.loops import between
from bigjoin.joins.match_rows import Range


def code_cuts(generator: CountSource, parts: int) -> NDArray[np.int64]:
    """Return codes of the root, from 0 to their number, between which there is about equal work."""
    size, (trie, _) = generator.binder.size(generator.binder.order[generator.root.position]), generator.seeds
    if trie is None or trie.places is not None or not 0 < trie.nodes_stored <= size:
        return np.unique(np.linspace(0, size, parts + 1).astype(np.int64))
    codes = np.arange(trie.nodes_stored)
    work = np.cumsum(1 + np.diff(trie.levels[0].offsets)[trie.shards.nodes(codes)])
    cuts = np.searchsorted(work, work[-1:] * np.arange(1, parts) / parts)
    return np.unique(np.concatenate([[0], cuts, [size]]).astype(np.int64))


def ranges_of_codes(generator: CountSource, first: int, last: int) -> list[Range]:
    """Return the ranges of seeds whose code is at least `first` and below `last`."""
    root, (trie, _) = generator.root, generator.seeds
    if root.stages:
        tries = [generator.nest.tries[part.trie] for part in root.extensions.lists]
        values = min(tries, key=len).values
        return between(np.searchsorted(values, [first, last]))
    last = last if trie is None else min(last, trie.nodes_stored)
    if trie is None or trie.shards.count == 1:
        return between(np.array([first, max(first, last)]))
    nodes = np.sort(trie.shards.nodes(np.arange(first, last)))
    starts = np.flatnonzero(np.diff(nodes, prepend=-2) != 1)
    ends = np.append(starts[1:], len(nodes))
    return [found for a, b in zip(starts, ends, strict=True) for found in between(np.array([nodes[a], nodes[b - 1] + 1]))]
