"""The prefixes that wait at one step, handed out in batches of at most B' proposals."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bigjoin.joins.extend import Counted, concatenate


@dataclass(slots=True)
class Queue:
    """Prefixes and the proposals they will make; `by_run` where a run of prefixes proposes once, as nothing is flattened.

    What has arrived is joined into one `front` only when the old front cannot fill a batch, and a batch is a slice of the
    front: so handing out costs what it hands out.
    """

    by_run: bool
    arrived: list[Counted] = field(default_factory=list)
    front: Counted | None = None
    after: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    """Proposals of the front's prefixes, added up."""
    given: int = 0
    """Prefixes of the front that are handed out."""
    made: int = 0
    """Proposals of the front that are handed out: part of a prefix's, if its list was cut."""
    coming: int = 0
    """Proposals of what has arrived."""

    @property
    def proposals(self) -> int:
        return int(self.after[-1]) - self.made + self.coming

    def __len__(self) -> int:
        front = 0 if self.front is None else len(self.front) - self.given
        return front + sum(map(len, self.arrived))

    def has(self, work: int) -> bool:
        """Tell whether that many proposals, or that many prefixes, wait here."""
        return self.proposals >= work or len(self) >= work

    def put(self, counted: Counted) -> None:
        """Add prefixes."""
        if len(counted):
            self.arrived.append(counted)
            self.coming += int(counted.proposals(by_run=self.by_run).sum())

    def take(self, proposals: int) -> Counted:
        """Remove and return a batch with at most that many proposals; only a list longer than that is cut."""
        if self.arrived and int(self.after[-1]) - self.made < proposals:
            self._join()
        assert self.front is not None
        front, first = self.front, self.given
        last = int(np.searchsorted(self.after, self.made + proposals, side="right"))
        if last > first:
            self.given, self.made = last, int(self.after[last - 1])
            front.firsts[last : last + 1] = True
            return front.part(first, last)
        members = first + self._run_length(front, first) if self.by_run else first + 1
        batch = front.part(first, members)
        cut = int(front.starts[first]) + proposals
        batch.ends[:] = cut
        front.starts[first:members] = cut
        front.firsts[members : members + 1] = True
        self.made += proposals
        return batch

    def _join(self) -> None:
        rest = [] if self.front is None else [self.front.part(self.given, len(self.front))]
        self.front = concatenate([*rest, *self.arrived])
        self.after = np.cumsum(self.front.proposals(by_run=self.by_run))
        self.arrived, self.given, self.made, self.coming = [], 0, 0, 0

    @staticmethod
    def _run_length(front: Counted, first: int) -> int:
        beyond = np.flatnonzero(front.firsts[first + 1 :])
        return int(beyond[0]) + 1 if len(beyond) else len(front) - first
