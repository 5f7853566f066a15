"""The inside of a contender's process (`python -m bigjoin_bench.worker NAME THREADS`): read a line, do it, answer with one."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from typing import Any

from bigjoin_bench.contenders import CONTENDERS, Adapter
from bigjoin_bench.question import Input, Question


def serve(adapter: Adapter, request: dict[str, Any]) -> dict[str, Any]:
    """Do what one line asks for, and return what to answer."""
    started = time.perf_counter()
    if "load" in request:
        adapter.load(Input(**request["load"]))
        return {"seconds": time.perf_counter() - started}
    answer = adapter.run(Question(**request["run"]))
    seconds = time.perf_counter() - started
    return {
        "count": None if answer.count is None else str(answer.count),
        "seconds": seconds if answer.seconds is None else answer.seconds,
        "figures": dict(answer.figures),
    }


def main(name: str, threads: int) -> None:
    """Serve requests from stdin until it ends; whatever libraries print goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    try:
        adapter = CONTENDERS[name].make(threads)
        say({"version": adapter.version()})
        for line in sys.stdin:
            say(serve(adapter, json.loads(line)))
    except Exception as error:
        traceback.print_exc()
        say({"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"})


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
