"""Which step runs next, and on what: prefixes wait in files, and a round takes as many as a budget of proposals allows.

The deepest step where some worker has B' proposals waiting goes next; if there is none, seeds are read, and when no seeds are
left the deepest step with anything waiting is flushed. A round takes at most its budget, and its prefixes go on through later
steps as long as each of them has a budget left, so each step keeps waiting what one round of the step before can give it, and
what a worker needs to be worth a round: memory and disk follow the budget and the workers' batches, not the output (lemma 3.1
of the paper).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field


@dataclass(slots=True)
class Waiting:
    """A file of counted prefixes, written by a task; where keys have owners, its workers will propose for them, at a stop."""

    file: str
    step: int
    stop: int
    task: int
    prefixes: int
    proposals: int
    bytes: int
    codes: int
    """Codes that travel when all is proposed: less than the proposals where prefixes share lists."""
    taken: int = 0


@dataclass(frozen=True, slots=True)
class Slice:
    """The proposals number first..last - 1 of a file, or without a file such seeds."""

    first: int
    last: int
    file: str = ""
    stop: int = 0


@dataclass(frozen=True, slots=True)
class Round:
    """What each task begins with: seeds (no step), or proposals of a step."""

    step: int | None
    work: tuple[tuple[Slice, ...], ...]
    allowance: int
    """Proposals of each later step that a task may make in the same round, in all its stages together."""
    spent: tuple[str, ...] = ()
    """Files that nothing will be left of."""


@dataclass
class Agenda:
    """Everything that waits, task by task."""

    seeds: list[int]
    """Seeds of each task."""
    steps: int
    workers: int
    batch_size: int
    budget: int
    """Proposals of one round, in all tasks together."""
    shares_last: bool = False
    """Whether the budget of the last step is in codes that travel: its candidates do so once only, as parts of lists."""
    deepest_first: bool = False
    """Whether a step runs as soon as anything waits there: for the first matches, not for all of them."""
    read: list[int] = field(init=False)
    queues: list[list[deque[Waiting]]] = field(init=False)
    proposed: int = 0
    """Proposals that were made, as tasks tell."""
    peak_bytes: int = 0
    peak_prefixes: int = 0

    def __post_init__(self) -> None:
        self.read = [0] * self.tasks
        self.queues = [[deque() for _ in self.seeds] for _ in range(self.steps)]

    @property
    def tasks(self) -> int:
        return len(self.seeds)

    @property
    def share(self) -> float:
        """How much is done, of what is known by now: of the seeds, and of the proposals that wait."""
        files = [file for step in self.queues for queue in step for file in queue]
        waiting = sum(file.proposals - file.taken for file in files)
        done = self.proposed / (self.proposed + waiting) if waiting else 1.0
        return sum(self.read) / max(1, sum(self.seeds)) * done

    @property
    def seeds_left(self) -> bool:
        return self.read != self.seeds

    def add(self, waiting: list[Waiting], proposed: int) -> None:
        """Note the files that a round has written, and how many proposals it has made."""
        self.proposed += proposed
        for file in waiting:
            self.queues[file.step][file.task].append(file)
        files = [file for step in self.queues for queue in step for file in queue]
        self.peak_bytes = max(self.peak_bytes, sum(file.bytes for file in files))
        self.peak_prefixes = max(self.peak_prefixes, sum(file.prefixes for file in files))

    def next_round(self) -> Round | None:
        """Return the next round, and forget what it takes; None when all is done."""
        step = self._next_step()
        each = max(1, self.budget // self.tasks)
        if step is not None:
            spent: list[str] = []
            shared = self.shares_last and step == self.steps - 1  # what the last step finds does not wait
            work = [_take(queue, each, spent, shared=shared) for queue in self.queues[step]]
            return Round(step, tuple(map(tuple, work)), each, tuple(spent))
        if not self.seeds_left:
            return None
        begun = list(self.read)
        self.read = [min(begin + each, size) for begin, size in zip(begun, self.seeds, strict=True)]
        return Round(None, tuple((Slice(a, b),) if a < b else () for a, b in zip(begun, self.read, strict=True)), each)

    def _next_step(self) -> int | None:
        """Return the deepest step where some worker surely has B' proposals, or, when no seeds are left, any."""
        thresholds = (False,) if self.deepest_first else (True,) if self.seeds_left else (True, False)
        for enough in thresholds:
            for step in reversed(range(self.steps)):
                for task, queue in enumerate(self.queues[step]):
                    hosted = len(range(task, self.workers, self.tasks))
                    if queue and (not enough or sum(f.proposals - f.taken for f in queue) >= self.batch_size * hosted):
                        return step
        return None


def _take(queue: deque[Waiting], budget: int, spent: list[str], *, shared: bool) -> list[Slice]:
    """Take proposals from the front of a queue: as many as a budget allows, of proposals or of codes that travel."""
    taken = []
    while queue and budget:
        file = queue[0]
        left = file.proposals - file.taken
        proposals = min(left, budget * file.proposals // max(1, file.codes) if shared else budget)
        proposals = max(1, proposals)
        taken.append(Slice(file.taken, file.taken + proposals, file.file, file.stop))
        budget -= min(budget, max(1, proposals * file.codes // file.proposals) if shared else proposals)
        file.taken += proposals
        if file.taken == file.proposals:
            spent.append(queue.popleft().file)
    return taken
