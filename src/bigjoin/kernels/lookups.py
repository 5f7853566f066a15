"""Lookups: which worker answers each, equal ones only once, and what it says.

Which worker answers for a key is a hash of all of it. The extensions of a key are dealt in turn instead: of any `workers`
neighbours each lies with another worker, and only where the first of them lies is hashed. So a stretch of a list asks every
worker the same to within two, and there is no stretch whose places an adversary could know.
"""

from __future__ import annotations

from numpy import int64, uint64

from bigjoin.kernels.jit import helper, kernel
from bigjoin.kernels.lists import extension_list


@helper
def mixed(h):
    """Return a number of which every bit depends on every bit of another (the finish of splitmix64)."""
    h = (h ^ (h >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> uint64(27))) * uint64(0x94D049BB133111EB)
    return h ^ (h >> uint64(31))


@helper
def hashed(columns, i, salt):
    """Return the hash of column i."""
    h = uint64(salt)
    for c in range(len(columns)):
        h = (h ^ (h >> uint64(32)) ^ uint64(columns[c, i])) * uint64(0x9E3779B97F4A7C15)
    return mixed(h)


@helper
def worker_of(h, workers):
    """Return the worker that a hash falls to, by its upper half."""
    return int64(((h >> uint64(32)) * uint64(workers)) >> uint64(32))


@helper
def resolver(position, salt, workers):
    """Return the worker that knows the extension at a position."""
    turn = worker_of(mixed(uint64(salt) + uint64(position // workers) * uint64(0x9E3779B97F4A7C15)), workers)
    return (position + turn) % workers


@kernel
def aggregate(columns, salt, workers, tasks, table, slots, firsts, destinations, load, starts):
    """Give equal columns one number, in the order of their first appearance, and return how many numbers there are.

    slots[i] becomes the number of column i; firsts[n] the first column with number n, and destinations[n] the task that hosts
    the worker it falls to. `load` gains one for each number at its worker, and starts[t + 1] becomes how many numbers go to
    tasks 0..t. `table` holds numbers, with the upper half of the hash above each; it is filled with -1, and its length is a
    power of two above the count of columns.
    """
    mask = uint64(len(table) - 1)
    found = 0
    for i in range(len(slots)):
        h = hashed(columns, i, salt)
        at, tag = h & mask, int64(h >> uint64(33))
        while True:
            entry = table[at]
            if entry < 0:
                table[at] = (tag << 32) | found
                slots[i] = found
                firsts[found] = i
                worker = worker_of(h, workers)
                load[worker] += 1
                destinations[found] = worker % tasks
                starts[worker % tasks + 1] += 1
                found += 1
                break
            same = entry >> 32 == tag
            if same:
                slot = entry & 0xFFFFFFFF
                for c in range(len(columns)):
                    if columns[c, firsts[slot]] != columns[c, i]:
                        same = False
                if same:
                    slots[i] = slot
                    break
            at = (at + uint64(1)) & mask
    for task in range(tasks):
        starts[task + 1] += starts[task]
    return found


@kernel
def hash_owners(columns, salt, workers, load):
    """Add to `load` how many columns fall to each worker."""
    for i in range(columns.shape[1]):
        load[worker_of(hashed(columns, i, salt), workers)] += 1


@kernel
def resolve_owners(firsts, lasts, salt, workers, load):
    """Add to `load` how many positions of the ranges each worker knows."""
    for r in range(len(firsts)):
        position = firsts[r]
        while position < lasts[r]:
            worker = resolver(position, salt, workers)
            end = min(lasts[r], (position // workers + 1) * workers)
            while position < end:
                load[worker] += 1
                position += 1
                worker += 1
                if worker == workers:
                    worker = 0


@kernel
def resolve(values, firsts, lasts, salt, workers, tasks, task, codes):
    """Write the codes at those positions of the ranges that a task's workers know, and return how many there are."""
    found = 0
    for r in range(len(firsts)):
        position = firsts[r]
        while position < lasts[r]:
            worker = resolver(position, salt, workers)
            end = min(lasts[r], (position // workers + 1) * workers)
            while position < end:
                if worker % tasks == task:
                    codes[found] = values[position]
                    found += 1
                position += 1
                worker += 1
                if worker == workers:
                    worker = 0
    return found


@kernel
def gather_resolved(firsts, lasts, salt, workers, tasks, answers, cursors, codes):
    """Put what each task has answered for the ranges together; its answers begin at its cursor."""
    found = 0
    for r in range(len(firsts)):
        position = firsts[r]
        while position < lasts[r]:
            worker = resolver(position, salt, workers)
            end = min(lasts[r], (position // workers + 1) * workers)
            while position < end:
                task = worker % tasks
                codes[found] = answers[cursors[task]]
                cursors[task] += 1
                found += 1
                position += 1
                worker += 1
                if worker == workers:
                    worker = 0


@kernel
def list_ranges(offsets, values, nodes, lower, upper, starts, ends):
    """Set where the list of each key begins and ends, cut to its window."""
    for i in range(len(nodes)):
        starts[i], ends[i] = extension_list(offsets, values, nodes, lower, upper, i)
