"""Which step goes next, and on what. Prefixes wait in files, and the driver knows how many proposals each file will make.

The deepest step with a full batch goes next. If no step has one, seeds are read; if no seeds are left, the deepest step with
anything waiting is flushed. So what waits at a step is at most one batch, plus what one round of the step before adds: memory
and disk depend on the batch size and the budget, not on the output (lemma 3.1 of the paper).

There are two schedules. Where keys have owners, each task takes from its own files (`OwnedSchedule`). Where nothing has an
owner, all that waits at a step is dealt evenly to all workers (`DealtSchedule`, the paper's Balance).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(slots=True)
class Waiting:
    """A file of counted prefixes that a task has written. Where keys have owners, the same task proposes for them."""

    file: str
    step: int
    stop: int
    task: int
    prefixes: int = 0
    proposals: int = 0
    bytes: int = 0
    codes: int = 0
    """Codes that travel when everything is proposed: fewer than the proposals if prefixes share lists."""
    taken: int = 0

    @property
    def left(self) -> int:
        """Proposals that no round has taken yet."""
        return self.proposals - self.taken

    def take(self, proposals: int) -> Slice:
        """Take the next proposals."""
        self.taken += proposals
        return Slice(self.taken - proposals, self.taken, self.file, self.stop)


@dataclass(frozen=True, slots=True)
class Slice:
    """Proposals first..last - 1 of a file or, without a file, seeds."""

    first: int
    last: int
    file: str = ""
    stop: int = 0


@dataclass(frozen=True, slots=True)
class Round:
    """What a round begins with, by task or worker: seeds (step None), or proposals of a step."""

    step: int | None
    work: tuple[tuple[Slice, ...], ...]
    spent: tuple[str, ...] = ()
    """Files that nothing needs after the round."""
    allowance: int = 0
    """Proposals of each later step that a task may make in the same round, over all its stages."""

    @property
    def size(self) -> int:
        """How many seeds or proposals it begins with."""
        return sum(part.last - part.first for mine in self.work for part in mine)


class Schedule(ABC):
    """Everything that waits: seeds, and files at each step, in separate queues."""

    def __init__(self, seeds: Sequence[int], steps: int, *, deepest_first: bool = False) -> None:
        self.seeds = list(seeds)
        """How many seeds each queue has."""
        self.read = [0] * len(seeds)
        self.queues: list[list[deque[Waiting]]] = [[deque() for _ in seeds] for _ in range(steps)]
        self.deepest_first = deepest_first
        """Whether a step goes next as soon as anything waits there: to find some matches early, not all of them."""
        self.proposed = self.peak_bytes = self.peak_prefixes = 0

    @abstractmethod
    def grow(self) -> None:
        """Double the size of the next round, up to the maximum."""

    @abstractmethod
    def _is_full(self, step: int) -> bool:
        """Tell whether a step has a full batch waiting."""

    @abstractmethod
    def _take(self, step: int) -> Round:
        """Take the next proposals of a step."""

    @abstractmethod
    def _take_seeds(self) -> Round:
        """Take the next seeds."""

    def next_round(self) -> Round | None:
        """Return the next round, and remove what it takes; None when everything is done."""
        step = self._next_step()
        if step is not None:
            return self._take(step)
        return self._take_seeds() if self.seeds_left else None

    def add(self, files: Iterable[Waiting], proposed: int) -> None:
        """Add the files that a round has written, and how many proposals it has made."""
        self.proposed += proposed
        for file in files:
            self.queues[file.step][file.task % len(self.seeds)].append(file)
        self.peak_bytes = max(self.peak_bytes, self.bytes)
        self.peak_prefixes = max(self.peak_prefixes, sum(file.prefixes for file in self._files()))

    @property
    def seeds_left(self) -> bool:
        return self.read != self.seeds

    @property
    def share(self) -> float:
        """The share of the work known so far that is done: of the seeds, times that of the proposals."""
        waiting = sum(file.left for file in self._files())
        done = self.proposed / (self.proposed + waiting) if waiting else 1.0
        return sum(self.read) / max(1, sum(self.seeds)) * done

    @property
    def bytes(self) -> int:
        """Bytes on disk of what waits."""
        return sum(file.bytes for file in self._files())

    def _files(self) -> Iterable[Waiting]:
        return (file for step in self.queues for queue in step for file in queue)

    def _next_step(self) -> int | None:
        """Return the deepest step with a full batch or, if no seeds are left, the deepest with anything waiting."""
        deepest = reversed(range(len(self.queues)))
        waiting = [step for step in deepest if any(self.queues[step])]
        if not self.deepest_first and (full := [step for step in waiting if self._is_full(step)]):
            return full[0]
        return waiting[0] if waiting and (self.deepest_first or not self.seeds_left) else None


class OwnedSchedule(Schedule):
    """Each task proposes for the prefixes that wait with its own workers: there is a queue for each task.

    A round takes at most `budget` proposals, and its prefixes continue through later steps as long as those have budget left. A
    step is full if some task has B' proposals for each of its workers.
    """

    def __init__(
        self,
        seeds: Sequence[int],
        steps: int,
        *,
        workers: int,
        batch_size: int,
        budget: int,
        max_budget: int | None = None,
        shares_last: bool = False,
        deepest_first: bool = False,
    ) -> None:
        super().__init__(seeds, steps, deepest_first=deepest_first)
        self.workers, self.batch_size, self.budget, self.max_budget = workers, batch_size, budget, max_budget or budget
        self.shares_last = shares_last
        """Whether the budget of the last step is in codes that travel: its candidates travel only once, as shared lists."""

    def grow(self) -> None:
        """Double the budget of the next round, up to the maximum."""
        self.budget = min(self.max_budget, 2 * self.budget)

    @property
    def _each(self) -> int:
        """The budget of each task."""
        return max(1, self.budget // len(self.seeds))

    def _is_full(self, step: int) -> bool:
        for task, queue in enumerate(self.queues[step]):
            hosted = len(range(task, self.workers, len(self.seeds)))
            if queue and sum(file.left for file in queue) >= self.batch_size * hosted:
                return True
        return False

    def _take_seeds(self) -> Round:
        begun = self.read
        self.read = [min(first + self._each, size) for first, size in zip(begun, self.seeds, strict=True)]
        work = tuple((Slice(a, b),) if a < b else () for a, b in zip(begun, self.read, strict=True))
        return Round(None, work, allowance=self._each)

    def _take(self, step: int) -> Round:
        spent: list[str] = []
        shared = self.shares_last and step == len(self.queues) - 1
        work = tuple(tuple(self._take_from(queue, spent, shared=shared)) for queue in self.queues[step])
        return Round(step, work, tuple(spent), allowance=self._each)

    def _take_from(self, queue: deque[Waiting], spent: list[str], *, shared: bool) -> list[Slice]:
        """Take from the front of a queue what the budget allows, in proposals or, if `shared`, in codes that travel."""
        taken, budget = [], self._each
        while queue and budget:
            file = queue[0]
            proposals = max(1, min(file.left, budget * file.proposals // max(1, file.codes) if shared else budget))
            taken.append(file.take(proposals))
            budget -= min(budget, max(1, proposals * file.codes // file.proposals) if shared else proposals)
            if not file.left:
                spent.append(queue.popleft().file)
        return taken


class DealtSchedule(Schedule):
    """Balance (section 3.4 of the paper): what waits is dealt by a global prefix sum, equally to within one.

    The proposals that wait at a step are numbered, file after file, and a batch takes the first B = w B' of them: worker q gets
    those from q B' on. Since the driver knows how many proposals each file has, a deal is arithmetic, and at most w - 1
    prefixes are cut in two. Seeds are dealt in the same way, as ranges of positions. A step is full if B proposals wait, so
    fewer wait when the step before adds at most B prefixes: what waits stays far below the 4B of the proof.
    """

    def __init__(
        self,
        seeds: tuple[int, int],
        steps: int,
        *,
        workers: int,
        batch_size: int,
        max_batch_size: int | None = None,
        deepest_first: bool = False,
    ) -> None:
        super().__init__([max(0, seeds[1] - seeds[0])], steps, deepest_first=deepest_first)
        self.first_seed, self.workers = seeds[0], workers
        self.batch_size, self.max_batch_size = batch_size, max_batch_size or batch_size
        self.turn = 0
        """The first worker that gets one more if a deal is uneven: a different one in each batch."""
        self.most_new = self.most_waiting = 0.0
        """The most prefixes that a batch gave the next step, and that waited at a step, in units of B."""

    def grow(self) -> None:
        """Double the next batch, up to the maximum."""
        self.batch_size = min(self.max_batch_size, 2 * self.batch_size)

    @property
    def batch(self) -> int:
        """B: the most proposals or seeds that a batch has."""
        return self.workers * self.batch_size

    def add(self, files: Iterable[Waiting], proposed: int) -> None:
        """Add the files that a batch has written, and how many proposals it has made."""
        files = list(files)
        super().add(files, proposed)
        waiting = [sum(file.prefixes for file in queue) for (queue,) in self.queues]
        self.most_new = max(self.most_new, sum(file.prefixes for file in files) / self.batch)
        self.most_waiting = max(self.most_waiting, max(waiting, default=0) / self.batch)

    def _is_full(self, step: int) -> bool:
        return sum(file.left for file in self.queues[step][0]) >= self.batch

    def _take_seeds(self) -> Round:
        first, last = self.read[0], min(self.read[0] + self.batch, self.seeds[0])
        self.read = [last]
        cuts = [self.first_seed + first + cut for cut in self._cuts(last - first)]
        return Round(None, tuple((Slice(a, b),) if b > a else () for a, b in pairwise(cuts)))

    def _take(self, step: int) -> Round:
        """Cut the first B proposals of a step into stretches of files."""
        (queue,) = self.queues[step]
        spent, work = [], []
        for a, b in pairwise(self._cuts(min(self.batch, sum(file.left for file in queue)))):
            mine, wanted = [], b - a
            while wanted:
                proposals = min(queue[0].left, wanted)
                mine.append(queue[0].take(proposals))
                wanted -= proposals
                if not queue[0].left:
                    spent.append(queue.popleft().file)
            work.append(tuple(mine))
        return Round(step, tuple(work), tuple(spent))

    def _cuts(self, size: int) -> list[int]:
        """Return where the part of each worker begins, and where the last part ends."""
        each, more = divmod(size, self.workers)
        cuts = [0]
        for worker in range(self.workers):
            cuts.append(cuts[-1] + each + ((worker - self.turn) % self.workers < more))
        self.turn = (self.turn + more) % self.workers
        return cuts
