"""The paper's own program, dataflow-join: Delta-BiGJoin in timely dataflow, in memory and in one process."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from bigjoin.errors import BigjoinError
from bigjoin.languages import parse
from bigjoin_bench.contenders import DATAFLOW_JOIN
from bigjoin_bench.feeds import Feed
from bigjoin_bench.question import Answer, Input, Question


class DataflowJoin:
    """Its example `motif`, compiled: joins over a file of directed edges, of which all are updates."""

    def __init__(self, *, threads: int, **feed: Any) -> None:
        self.threads, self.feed = threads, Feed(**feed)
        self._folder = tempfile.TemporaryDirectory(prefix="bigjoin-bench-")

    def version(self) -> str:
        return ""

    def load(self, graph: Input) -> None:
        """Write the updates as text, which the program reads while it runs; that takes a fraction of its time."""
        first, later = self.feed.split(graph)
        assert not graph.undirected
        assert not len(first)
        self.file = Path(self._folder.name) / "edges.txt"
        np.savetxt(self.file, np.stack([later[end].to_numpy() for end in ("src", "dst")], axis=1), fmt="%d")

    def run(self, question: Question) -> Answer:
        """Run the program; what it counted is a figure, as workers that end early lose some of the last changes."""
        query = parse(question.query, **question.flags)  # type: ignore[arg-type]
        ends = chain.from_iterable(map(query.attributes.index, atom.attributes) for atom in query.atoms)
        options = ["0", str(self.feed.updates), "inspect", f"-w{self.threads}"]
        command = [os.environ[DATAFLOW_JOIN], str(len(query.atoms)), *map(str, ends), str(self.file), *options]
        seconds, counted = outcome(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        return Answer(None, seconds, {"updates": self.feed.updates, "counted": counted})


def outcome(said: str) -> tuple[float, int]:
    """Return the seconds that the program took, and what it counted, by its last line."""
    found = re.search(r"elapsed: ([\d.]+)(m?)s\s+total motifs at this process: (-?\d+)", said)
    if found is None:
        raise BigjoinError(f"the program did not say what it counted: {said[-200:]}")
    return float(found[1]) / (1000 if found[2] else 1), int(found[3])
