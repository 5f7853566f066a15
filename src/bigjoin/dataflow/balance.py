"""Balance (section 3.4 of the paper): what waits is dealt by a global prefix sum, the same for all workers to within one.

All proposals that wait at a step stand in one row, file after file, and a batch takes the first B = w B' of them: worker q gets
those from q B' on. As the driver knows how many proposals each file has, a deal is arithmetic; workers then read their
stretches, and at most w - 1 prefixes are cut in two. Seeds are dealt in the same way, as ranges of positions.

The deepest step goes next where all workers have B' proposals, that is, where B wait; if there is none, seeds; and when no
seeds are left, the deepest step with anything. So a step has less than B proposals when the one before gives it at most B
prefixes: the bound of the proof on what waits, 4B, is kept with room to spare.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise

from bigjoin.dataflow.agenda import Slice, Waiting


@dataclass(frozen=True, slots=True)
class Batch:
    """What each worker begins with: seeds (no step), or ranges of a step; and how many candidates these are in all."""

    step: int | None
    work: tuple[tuple[Slice, ...], ...]
    size: int
    spent: tuple[str, ...] = ()
    """Files that nothing will be left of."""


@dataclass
class Balance:
    """Everything that waits, step by step."""

    seeds: tuple[int, int]
    """Positions of the first seed, and of the first that is none."""
    steps: int
    workers: int
    batch_size: int
    """B': what a worker gets in a batch."""
    deepest_first: bool = False
    """Whether a step runs as soon as anything waits there: for the first matches, not for all of them."""
    read: int = field(init=False)
    queues: list[deque[Waiting]] = field(init=False)
    turn: int = 0
    """Who gets one more than others, if a deal does not come out even: from batch to batch somebody else."""
    resolved: int = 0
    most_new: float = 0.0
    """Prefixes that a batch gave the next step at most, in units of B."""
    most_waiting: float = 0.0
    """Prefixes that waited at a step at most, in units of B."""
    peak_prefixes: int = 0

    def __post_init__(self) -> None:
        self.read = self.seeds[0]
        self.queues = [deque() for _ in range(self.steps)]

    @property
    def size(self) -> int:
        """B: what a batch has at most."""
        return self.workers * self.batch_size

    @property
    def share(self) -> float:
        """How much is done, of what is known by now: of the seeds, and of the proposals that wait."""
        first, last = self.seeds
        waiting = sum(map(_proposals, self.queues))
        done = self.resolved / (self.resolved + waiting) if waiting else 1.0
        return (self.read - first) / max(1, last - first) * done

    @property
    def bytes(self) -> int:
        """What waits, on disk."""
        return sum(file.bytes for queue in self.queues for file in queue)

    def add(self, waiting: list[Waiting]) -> None:
        """Note the files that a batch has written."""
        for file in waiting:
            self.queues[file.step].append(file)
        prefixes = [sum(file.prefixes for file in queue) for queue in self.queues]
        self.most_new = max(self.most_new, sum(file.prefixes for file in waiting) / self.size)
        self.most_waiting = max(self.most_waiting, max(prefixes, default=0) / self.size)
        self.peak_prefixes = max(self.peak_prefixes, sum(prefixes))

    def next_batch(self) -> Batch | None:
        """Return the next batch, and forget what it takes; None when all is done."""
        step = self._next_step()
        if step is not None:
            return self._deal(step)
        first, last = self.read, min(self.read + self.size, self.seeds[1])
        if first == last:
            return None
        self.read = last
        cuts = self._cuts(last - first)
        work = tuple((Slice(first + a, first + b),) if b > a else () for a, b in pairwise(cuts))
        return Batch(None, work, last - first)

    def _next_step(self) -> int | None:
        seeds_left = self.read < self.seeds[1]
        for least in (1,) if self.deepest_first else (self.size,) if seeds_left else (self.size, 1):
            for step in reversed(range(self.steps)):
                if _proposals(self.queues[step]) >= least:
                    return step
        return None

    def _deal(self, step: int) -> Batch:
        """Cut the first B proposals of a step into stretches of files, the same for all workers to within one."""
        queue = self.queues[step]
        size = min(self.size, _proposals(queue))
        cuts, spent, work = self._cuts(size), [], []
        for a, b in pairwise(cuts):
            mine, wanted = [], b - a
            while wanted:
                file = queue[0]
                last = min(file.proposals, file.taken + wanted)
                mine.append(Slice(file.taken, last, file.file))
                wanted -= last - file.taken
                file.taken = last
                if last == file.proposals:
                    spent.append(queue.popleft().file)
            work.append(tuple(mine))
        self.resolved += size
        return Batch(step, tuple(work), size, tuple(spent))

    def _cuts(self, size: int) -> list[int]:
        """Return where the part of each worker begins, and where the last one ends."""
        each, more = divmod(size, self.workers)
        cuts = [0]
        for worker in range(self.workers):
            cuts.append(cuts[-1] + each + ((worker - self.turn) % self.workers < more))
        self.turn = (self.turn + more) % self.workers
        return cuts


def _proposals(queue: deque[Waiting]) -> int:
    return sum(file.proposals - file.taken for file in queue)
