"""Spread: send the candidates of a prefix to many workers, each to its owner, except for candidates that are marked."""

from __future__ import annotations

from numpy import int64

from bigjoin.kernels.jit import kernel


@kernel
def deal_candidates(codes, begins, lengths, firsts, marks, workers, tasks, tasks_of, load, sizes):
    """Find the task that hosts the owner of each candidate: candidate e of prefix i is with worker (firsts[i] + e) % workers.

    Marked candidates stay where they are, and get the task number `tasks`. `load` gains one for each other candidate at its
    owner, and sizes[t, i] becomes how many candidates of prefix i go to task t.
    """
    n = 0
    for i in range(len(begins)):
        for k in range(begins[i], begins[i] + lengths[i]):
            code = int64(codes[k])
            tasks_of[n] = tasks
            if code >= len(marks) or not marks[code]:
                worker = (firsts[i] + code) % workers
                load[worker] += 1
                tasks_of[n] = worker % tasks
                sizes[tasks_of[n], i] += 1
            n += 1


@kernel
def copy_dealt(codes, begins, lengths, tasks_of, places, copied):
    """Copy each candidate to the next place of its prefix and task; `places` is overwritten."""
    n = 0
    for i in range(len(begins)):
        for k in range(begins[i], begins[i] + lengths[i]):
            task = tasks_of[n]
            if task < len(places):
                copied[places[task, i]] = codes[k]
                places[task, i] += 1
            n += 1


@kernel
def count_marked(codes, begins, lengths, marks, counts):
    """Count the marked codes of each segment, which is sorted."""
    for i in range(len(begins)):
        for k in range(begins[i], begins[i] + lengths[i]):
            if codes[k] >= len(marks):
                break
            counts[i] += marks[codes[k]]


@kernel
def copy_marked(codes, begins, counts, marks, placed, copied):
    """Copy the counts[i] marked codes of each segment to copied[placed[i]:]."""
    for i in range(len(begins)):
        k = begins[i]
        for at in range(placed[i], placed[i] + counts[i]):
            while not marks[codes[k]]:
                k += 1
            copied[at] = codes[k]
            k += 1


@kernel
def count_codes(codes, weights, counts):
    """Add the weight of each code, or one, to its count."""
    for i in range(len(codes)):
        counts[codes[i]] += weights[i] if len(weights) > 0 else 1
