"""bigjoin's estimates beside its counts: how often the interval holds the count, how wide it is, and what an estimate takes."""

from __future__ import annotations

import time
from statistics import median

from bigjoin_bench.peers.bigjoin import Bigjoin
from bigjoin_bench.question import Answer, Question

RUNS = 100
"""Estimates of each count, each with a random state of its own."""
COUNTS = 3
"""Counts that run among them, in turn; the first, which compiles, is not timed."""


class Estimated(Bigjoin):
    """Counts, and estimates the same count again and again."""

    def run(self, question: Question) -> Answer:
        """Estimate with random states 0, 1, 2, ..., and say what became of the intervals."""
        assert self.graph is not None
        truth, counting, estimating, inside, widths, exact = 0, [], [], 0, [], 0
        for state in range(RUNS):
            if state % (RUNS // COUNTS) == 0:
                found = self.graph.count(question.query, **question.flags)  # type: ignore[call-overload]
                truth = int(found)
                counting.append(found.seconds)
            started = time.perf_counter()
            guess = self.graph.estimate(question.query, random_state=state, **question.flags)  # type: ignore[arg-type]
            estimating.append(time.perf_counter() - started)
            inside += guess.low <= truth <= guess.high
            exact += guess.exact
            widths.append((guess.high - guess.low) / 2 / max(1, truth))
        figures = {"inside": inside, "runs": RUNS, "exact": exact, "half_width": median(widths), "counting": min(counting[1:])}
        return Answer(truth, median(estimating), figures)
