"""Read .case files: a graph, queries over it, and what they must answer. One format, every treatment.

# A comment.
graph undirected          or directed; then one edge a line
1 2

query triangle            a name or a rule; several `query` lines are spellings of the same query
where a1 < a2             optional
flags unique              optional: distinct unique induced cross_product
plan                      optional: the numbered rules, as they must be printed
1. p1(...) := ...
rows                      one match a line, in the order of the head, or
count 12                  only how many
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent / "cases"


@dataclass
class Question:
    """A query of a case, and its answer."""

    name: str
    directed: bool
    edges: list[tuple]
    spellings: list[str] = field(default_factory=list)
    where: str | None = None
    flags: dict[str, bool] = field(default_factory=dict)
    plan: str | None = None
    rows: list[tuple] | None = None
    count: int | None = None


def read_cases() -> list[Question]:
    return [question for file in sorted(FOLDER.glob("*.case")) for question in read_case(file)]


def read_case(file: Path) -> list[Question]:
    directed, edges, questions = True, [], []
    blocks = file.read_text(encoding="utf-8").split("\n\n")
    for block in blocks:
        lines = [line for line in block.splitlines() if line.strip() and not line.startswith("#")]
        if not lines:
            continue
        if lines[0].startswith("graph"):
            directed, edges = lines[0].split()[1] == "directed", [_row(line) for line in lines[1:]]
            continue
        question = Question(f"{file.stem}-{len(questions) + 1}", directed, edges)
        questions.append(question)
        section = None
        for line in lines:
            word, _, rest = line.partition(" ")
            if word == "query":
                question.spellings.append(rest)
            elif word == "where":
                question.where = rest
            elif word == "flags":
                question.flags = dict.fromkeys(rest.split(), True)
            elif word == "count":
                question.count = int(rest)
            elif line in ("plan", "rows"):
                section = line
                question.plan, question.rows = (
                    ("" if line == "plan" else question.plan),
                    ([] if line == "rows" else question.rows),
                )
            elif section == "plan":
                question.plan += line + "\n"
            elif section == "rows":
                question.rows.append(_row(line))
            else:
                raise ValueError(f"{file.name}: {line!r}")
    return questions


def _row(line: str) -> tuple:
    return tuple(int(part) if part.lstrip("-").isdigit() else part for part in line.split())
