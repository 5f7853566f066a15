"""Route: find the task that each prefix is sent to, and pack the segments of lists that are sent along, each only once."""

from __future__ import annotations

from numpy import int64

from bigjoin.kernels.jit import kernel


@kernel
def owners(keys, weights, workers, tasks, destinations, load, starts):
    """Find the task that hosts the owner of each key: worker key % workers, hosted by task worker % tasks.

    `load` gains the weight of each key at its owner; starts[t + 1] becomes how many keys go to tasks 0..t.
    """
    for i in range(len(keys)):
        worker = int64(keys[i]) % workers
        load[worker] += weights[i] if len(weights) > 0 else 1
        task = worker % tasks
        destinations[i] = task
        starts[task + 1] += 1
    for task in range(tasks):
        starts[task + 1] += starts[task]


@kernel
def group(destinations, starts, order):
    """Set order[starts[t] : starts[t + 1]] to the numbers of what goes to task t, in their order; `starts` is overwritten."""
    for i in range(len(destinations)):
        task = destinations[i]
        order[starts[task]] = i
        starts[task] += 1


@kernel
def share_segments(begins, lengths, chosen, placed):
    """Find places for the chosen segments in one array, and return the length of that array.

    Neighbours that propose from one list have overlapping segments. Those share their places: the array holds the union.
    """
    filled = at = 0
    low = high = -1
    for k in range(len(chosen)):
        begin = begins[chosen[k]]
        end = begin + lengths[chosen[k]]
        if begin < low or begin > high:
            low = high = begin
            at = filled
        placed[k] = at + (begin - low)
        if end > high:
            filled += end - high
            high = end
    return filled


@kernel
def copy_segments(codes, begins, lengths, chosen, placed, copied):
    """Copy the chosen segments to their places, and what overlaps only once."""
    filled = 0
    for k in range(len(chosen)):
        begin = begins[chosen[k]]
        length = lengths[chosen[k]]
        at = placed[k]
        for j in range(max(0, filled - at), length):
            copied[at + j] = codes[begin + j]
        filled = max(filled, at + length)
