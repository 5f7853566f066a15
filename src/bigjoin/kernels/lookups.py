"""Lookups: which worker answers each lookup, each of them asked only once, and the answers.

A lookup names some codes and a last number, which is a code or a place in a list. Lookups that differ only in the last number
are dealt in turn: of w consecutive numbers, from a multiple of the w workers on, each belongs to another worker, and a hash
decides to which one the first belongs. So a dense range of numbers asks all workers alike, and no adversary can know numbers
that all belong to one worker.
"""

from __future__ import annotations

from numpy import int64, uint64

from bigjoin.kernels.jit import helper, kernel
from bigjoin.kernels.lists import extension_list


@helper
def mixed(h):
    """Return a number each of whose bits depends on every bit of h (the last step of splitmix64)."""
    h = (h ^ (h >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> uint64(27))) * uint64(0x94D049BB133111EB)
    return h ^ (h >> uint64(31))


@helper
def hashed(columns, i, count, salt):
    """Return the hash of the first `count` codes of column i."""
    h = uint64(salt)
    for c in range(count):
        h = (h ^ (h >> uint64(32)) ^ uint64(columns[c, i])) * uint64(0x9E3779B97F4A7C15)
    return mixed(h)


@helper
def worker_of(h, workers):
    """Return the worker that a hash assigns, by its upper half."""
    return int64(((h >> uint64(32)) * uint64(workers)) >> uint64(32))


@helper
def resolver(h, k, workers):
    """Return the worker for the last number k of a lookup, given the hash of its other codes."""
    turn = worker_of(mixed(h + uint64(k // workers) * uint64(0x9E3779B97F4A7C15)), workers)
    return (k + turn) % workers


@helper
def turn_from(h, k, last, workers):
    """Return the worker of number k, and the end of the numbers from k on that belong to it, the next worker, and so on."""
    worker = resolver(h, k, workers)
    return worker, min(last, (k // workers + 1) * workers, k + workers - worker)


@helper
def answerer(columns, i, salt, workers):
    """Return the worker that answers the lookup in column i."""
    last = len(columns) - 1
    return resolver(hashed(columns, i, last, salt), int64(columns[last, i]), workers)


@kernel
def aggregate(columns, salt, workers, tasks, table, slots, firsts, destinations, load, starts):
    """Give each distinct column a number, in the order of first appearance, and return how many there are.

    slots[i] becomes the number of column i, firsts[n] the first column with number n, and destinations[n] the task that hosts
    its worker. `load` gains one for each number at its worker, and starts[t + 1] becomes how many numbers go to tasks 0..t.
    `table` is a hash table of numbers, with the upper half of the hash above each; it is filled with -1, and its length is a
    power of two above the number of columns.
    """
    mask = uint64(len(table) - 1)
    found = 0
    for i in range(len(slots)):
        h = hashed(columns, i, len(columns), salt)
        at, tag = h & mask, int64(h >> uint64(33))
        while True:
            entry = table[at]
            if entry < 0:
                table[at] = (tag << 32) | found
                slots[i] = found
                firsts[found] = i
                worker = answerer(columns, i, salt, workers)
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
    """Add to `load` how many columns each worker answers."""
    for i in range(columns.shape[1]):
        load[answerer(columns, i, salt, workers)] += 1


@kernel
def resolve_owners(hashes, firsts, lasts, workers, load):
    """Add to `load` how many extensions of the ranges each worker knows."""
    for r in range(len(firsts)):
        k = firsts[r]
        while k < lasts[r]:
            worker, end = turn_from(hashes[r], k, lasts[r], workers)
            for i in range(end - k):
                load[worker + i] += 1
            k = end


@kernel
def resolve_tasks(hashes, firsts, lasts, workers, tasks, seen, starts, order):
    """Set order[starts[t] : starts[t + 1]] to the ranges of which task t knows some extensions, in their order.

    `seen` has a place for each task. If `order` is empty, only count: starts[t + 1] becomes how many there are for tasks 0..t.
    """
    seen[:] = -1
    for r in range(len(firsts)):
        found = 0
        k = firsts[r]
        while k < lasts[r] and found < tasks:
            worker, end = turn_from(hashes[r], k, lasts[r], workers)
            for i in range(min(end - k, tasks)):
                task = (worker + i) % tasks
                if seen[task] != r:
                    seen[task] = r
                    found += 1
                    if len(order) > 0:
                        order[starts[task]] = r
                        starts[task] += 1
                    else:
                        starts[task + 1] += 1
            k = end
    if len(order) == 0:
        for task in range(tasks):
            starts[task + 1] += starts[task]


@kernel
def resolve(offsets, values, nodes, hashes, firsts, lasts, workers, tasks, task, codes):
    """Write the extensions of the ranges that a task's workers know, and return how many there are."""
    found = 0
    for r in range(len(firsts)):
        k = firsts[r]
        while k < lasts[r]:
            worker, end = turn_from(hashes[r], k, lasts[r], workers)
            for mine in range(k + (task - worker) % tasks, end, tasks):
                codes[found] = values[offsets[nodes[r]] + mine]
                found += 1
            k = end
    return found


@kernel
def gather_resolved(hashes, firsts, lasts, workers, tasks, answers, cursors, codes):
    """Assemble the extensions of the ranges from the answers of the tasks; those of a task begin at its cursor."""
    found = 0
    for r in range(len(firsts)):
        k = firsts[r]
        while k < lasts[r]:
            worker, end = turn_from(hashes[r], k, lasts[r], workers)
            for i in range(end - k):
                task = (worker + i) % tasks
                codes[found] = answers[cursors[task]]
                cursors[task] += 1
                found += 1
            k = end


@kernel
def hash_columns(columns, salt, hashes):
    """Set the hash of each column."""
    for i in range(columns.shape[1]):
        hashes[i] = hashed(columns, i, len(columns), salt)


@kernel
def list_ranges(offsets, values, nodes, lower, upper, starts, ends):
    """Set where in its list the bounds of each key begin and end."""
    for i in range(len(nodes)):
        start, stop = extension_list(offsets, values, nodes, lower, upper, i)
        head = offsets[nodes[i]] if nodes[i] >= 0 else 0
        starts[i] = start - head
        ends[i] = stop - head
