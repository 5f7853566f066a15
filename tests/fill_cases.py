"""Put answers where a case file says `?`: python -m tests.fill_cases [--golden] [FILE ...].

`rows ?`, `count ?`, `changes ?` and `fate ?` are answered by brute force, never by the library. `plan ?` (or another plan) and
`error ?` are golden texts: what the library says now. With --golden, all golden texts are written again. Read what it writes
before you commit it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from bigjoin.errors import BigjoinError
from tests import treatments
from tests.case_file import FOLDER, PLANS, Epoch, Question, message, read_case
from tests.oracle_input import cells

PLACEHOLDER = re.compile(rf"({'|'.join(PLANS)}|rows|count|changes|fate|error) \?")


def fill(file: Path, *, golden: bool = False) -> None:
    """Replace the placeholders of a file, or also its golden texts."""
    lines = file.read_text(encoding="utf-8").split("\n")
    if golden:
        asked = [
            f"{line.split()[0]} ?" if line.startswith("error ") else f"{line} ?" if line in PLANS else line for line in lines
        ]
        lines = [line for line in asked if not line.startswith("  ")]
    if not any(PLACEHOLDER.fullmatch(line) for line in lines):
        return
    neutral = file.with_suffix(".filling")
    neutral.write_text("\n".join(_without_answer(line) for line in lines), encoding="utf-8")
    try:
        questions = read_case(neutral)
    finally:
        neutral.unlink()
    filled = []
    for number, line in enumerate(lines, 1):
        asked = PLACEHOLDER.fullmatch(line)
        if asked is None:
            filled.append(line)
            continue
        question = max((q for q in questions if min(q.spellings) < number), key=lambda q: min(q.spellings))
        epochs = [epoch for epoch in question.epochs if epoch.line < number]
        filled += _answer(asked[1], question, epochs[-1] if epochs else None)
    file.write_text("\n".join(filled), encoding="utf-8")


def _without_answer(line: str) -> str:
    asked = PLACEHOLDER.fullmatch(line)
    return line if asked is None else {"count": "count 0", "error": "error BigjoinError"}.get(asked[1], asked[1])


def _answer(kind: str, question: Question, epoch: Epoch | None) -> Iterator[str]:
    spelling = next(iter(question.spellings.values()))
    if kind in PLANS:
        yield kind
        yield from (f"  {line}" for line in treatments.planned(question, spelling, kind).split("\n"))
    elif kind == "error":
        yield from _error(question, spelling, epoch)
    elif epoch is None:
        rows = treatments.by_naive(question, spelling)
        yield "rows" if kind == "rows" else f"count {len(rows)}"
        yield from _lines(rows if kind == "rows" else [])
    else:
        before = question.epochs.index(epoch)
        applied = next(islice(treatments.epochs_by_naive(question, spelling), before, None))
        if kind == "count":
            yield f"count {applied.count}"
        elif kind == "changes":
            yield "changes"
            yield from _lines(applied.changes or [])
        else:
            figures = [f"{name} {number}" for name, number in applied.fate.items() if name != "updates"]
            yield f"fate {' '.join(figures)}".strip()


def _lines(rows: list[tuple]) -> Iterator[str]:
    yield from (" ".join(row) for row in cells(sorted(rows, key=lambda row: [(type(cell).__name__, cell) for cell in row])))


def _error(question: Question, spelling: str, epoch: Epoch | None) -> Iterator[str]:
    try:
        if epoch is None:
            treatments.refuse(question, spelling)
        else:
            list(treatments.EPOCH_TREATMENTS["batches"].run(question, spelling))
    except BigjoinError as error:
        name, text = message(error)
        yield f"error {name}"
        yield from (f"  {line}" for line in text.split("\n"))
    else:
        yield "error ?"


if __name__ == "__main__":
    names = [name for name in sys.argv[1:] if name != "--golden"]
    for name in names or sorted(map(str, FOLDER.rglob("*.case"))):
        fill(Path(name), golden="--golden" in sys.argv)
