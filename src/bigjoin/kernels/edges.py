"""Edges while an index is built: two columns become keys (both ends in one 64-bit integer), and sorted keys become lists."""

from __future__ import annotations

from numpy import int64, uint32, uint64

from bigjoin.kernels.jit import kernel

HALF_BITS = uint64(32)


@kernel
def distances(ids, least, most, out):
    """Set out[i] to how far ids[i] lies from the least, and tell whether all ids lie between the least and the most."""
    within = True
    for i in range(len(ids)):
        within &= (least <= ids[i]) & (ids[i] <= most)
        out[i] = ids[i] - least
    return within


@kernel
def pack_edges(src, dst, keys):
    """Write the keys of edges, and return how many there are."""
    for i in range(len(src)):
        keys[i] = uint64(src[i]) << HALF_BITS | uint64(dst[i])
    return len(src)


@kernel
def pack_undirected(src, dst, keys):
    """Write the keys of edges that are no loops, the smaller end first, and return how many there are."""
    kept = 0
    for i in range(len(src)):
        low, high = uint64(min(src[i], dst[i])), uint64(max(src[i], dst[i]))
        keys[kept] = low << HALF_BITS | high
        kept += low != high
    return kept


@kernel
def drop_repeated(keys):
    """Move the distinct ones of sorted keys to the front, and return how many there are."""
    kept = min(1, len(keys))
    for i in range(1, len(keys)):
        key = keys[i]
        fresh = key != keys[kept - 1]
        keys[kept if fresh else kept - 1] = key
        kept += fresh
    return kept


@kernel
def count_ends(keys, counts):
    """Add one to the counts of both ends of each edge, and return how many edges are loops."""
    loops = 0
    for i in range(len(keys)):
        src, dst = uint32(keys[i] >> HALF_BITS), uint32(keys[i])
        counts[src] += 1
        counts[dst] += 1
        loops += src == dst
    return loops


@kernel
def renumber(keys, majors, minors, renumbered):
    """Replace both halves of each key by what stands for them."""
    for i in range(len(keys)):
        key = keys[i]
        renumbered[i] = uint64(majors[uint32(key >> HALF_BITS)]) << HALF_BITS | uint64(minors[uint32(key)])


@kernel
def swap_halves(keys, swapped):
    """Exchange the halves of each key."""
    for i in range(len(keys)):
        swapped[i] = keys[i] << HALF_BITS | keys[i] >> HALF_BITS


@kernel
def write_lists(keys, first, last, offsets, values):
    """Write the minors of keys[first:last] to values, and where the list of each major that begins there does.

    Offsets of majors without keys are those of the next; behind the last key, `offsets` is filled up to its end.
    """
    node = int64(keys[first - 1] >> HALF_BITS) + 1 if first > 0 else 0
    for i in range(first, last):
        major = int64(keys[i] >> HALF_BITS)
        while node <= major:
            offsets[node] = i
            node += 1
        values[i - first] = uint32(keys[i])
    if last == len(keys):
        while node < len(offsets):
            offsets[node] = last
            node += 1
