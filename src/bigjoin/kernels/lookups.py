"""Lookups: which worker answers each, equal ones only once, and what it says.

A lookup names some codes, and with them a last one, or a place in a list. Those with the same codes are dealt in turn: of w
neighbours in the last number, from a multiple of w on, each lies with another worker, and a hash says where the first of them
does. So what is dense asks all workers alike, and there are no numbers that an adversary could know to lie with one worker.
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
def hashed(columns, i, count, salt):
    """Return the hash of the first codes of column i, so many of them."""
    h = uint64(salt)
    for c in range(count):
        h = (h ^ (h >> uint64(32)) ^ uint64(columns[c, i])) * uint64(0x9E3779B97F4A7C15)
    return mixed(h)


@helper
def worker_of(h, workers):
    """Return the worker that a hash falls to, by its upper half."""
    return int64(((h >> uint64(32)) * uint64(workers)) >> uint64(32))


@helper
def resolver(h, k, workers):
    """Return the worker for the last number of a lookup whose other codes have a hash."""
    turn = worker_of(mixed(h + uint64(k // workers) * uint64(0x9E3779B97F4A7C15)), workers)
    return (k + turn) % workers


@helper
def run_end(k, last, worker, workers):
    """Return where the run of extensions ends that begins at k, each with the worker after the one before."""
    return min(last, (k // workers + 1) * workers, k + workers - worker)


@helper
def answerer(columns, i, salt, workers):
    """Return the worker that answers what column i asks."""
    last = len(columns) - 1
    return resolver(hashed(columns, i, last, salt), int64(columns[last, i]), workers)


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
    """Add to `load` how many columns fall to each worker."""
    for i in range(columns.shape[1]):
        load[answerer(columns, i, salt, workers)] += 1


@kernel
def resolve_owners(hashes, firsts, lasts, workers, load):
    """Add to `load` how many extensions of the ranges each worker knows."""
    for r in range(len(firsts)):
        k = firsts[r]
        while k < lasts[r]:
            worker = resolver(hashes[r], k, workers)
            end = run_end(k, lasts[r], worker, workers)
            for i in range(end - k):
                load[worker + i] += 1
            k = end


@kernel
def resolve_tasks(hashes, firsts, lasts, workers, tasks, seen, starts, order):
    """Set order[starts[t] : starts[t + 1]] to the ranges of which task t knows something, in their order.

    `seen` has a place for each task. With an empty `order` only count: starts[t + 1] becomes how many there are for 0..t.
    """
    seen[:] = -1
    for r in range(len(firsts)):
        found = 0
        k = firsts[r]
        while k < lasts[r] and found < tasks:
            worker = resolver(hashes[r], k, workers)
            end = run_end(k, lasts[r], worker, workers)
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
            worker = resolver(hashes[r], k, workers)
            end = run_end(k, lasts[r], worker, workers)
            for mine in range(k + (task - worker) % tasks, end, tasks):
                codes[found] = values[offsets[nodes[r]] + mine]
                found += 1
            k = end
    return found


@kernel
def gather_resolved(hashes, firsts, lasts, workers, tasks, answers, cursors, codes):
    """Put what each task has answered for the ranges together; its answers begin at its cursor."""
    found = 0
    for r in range(len(firsts)):
        k = firsts[r]
        while k < lasts[r]:
            worker = resolver(hashes[r], k, workers)
            end = run_end(k, lasts[r], worker, workers)
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
    """Set where in its list the window of each key begins and ends."""
    for i in range(len(nodes)):
        start, stop = extension_list(offsets, values, nodes, lower, upper, i)
        head = offsets[nodes[i]] if nodes[i] >= 0 else 0
        starts[i] = start - head
        ends[i] = stop - head
