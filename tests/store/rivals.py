"""A program that writes indices as it is told, line by line: several of them, told at once, are rivals."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

PROGRAM = """
import json, sys
import bigjoin as bj
from bigjoin.errors import BigjoinError

graph = None
for line in sys.stdin:
    asked = json.loads(line)
    try:
        if asked["do"] == "build":
            told = bj.build_index([tuple(edge) for edge in asked["edges"]], asked["url"]).epoch
        elif asked["do"] == "open":
            graph = bj.Graph.open(asked["url"])
            told = graph.index.epoch
        else:
            updates = [{"src": src, "dst": dst, "op": "+"} for src, dst in asked["edges"]]
            epoch = graph.apply(updates, "3-cycle")
            told = [epoch.number, epoch.count]
        print(json.dumps({"done": told}), flush=True)
    except BigjoinError as error:
        print(json.dumps({"refused": str(error)}), flush=True)
    except BaseException as error:
        print(json.dumps({"failed": repr(error)}), flush=True)
"""


class Rival:
    """A process that does one thing after another."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=dict(environment),
        )

    def begin(self, what: str, url: str, edges: object = ()) -> None:
        """Have the process begin something."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": what, "url": url, "edges": edges}) + "\n")
        self._process.stdin.flush()

    def told(self) -> dict[str, Any]:
        """Return what has come of it: `done`, or `refused` with a message, or `failed` with an error that is not ours."""
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
