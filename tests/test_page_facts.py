"""What pages list is what there is: environment variables, modules of the glossary, and messages that no page can provoke."""

from __future__ import annotations

import re
from pathlib import Path

from bigjoin.spark.failures import plain_error
from bigjoin_bench.report.beside import beside_the_paper
from bigjoin_bench.results import read
from bigjoin_bench.suites import SUITES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LIBRARY = ROOT / "src" / "bigjoin"


def test_every_variable_is_on_the_page():
    named = {name for file in LIBRARY.rglob("*.py") for name in re.findall(r"\bBIGJOIN_[A-Z_]+\b", file.read_text())}
    listed = set(re.findall(r"^\| `(BIGJOIN_[A-Z_]+)` \|", (DOCS / "operations.md").read_text(), re.MULTILINE))
    assert listed == named


def test_the_glossary_names_what_there_is():
    text = (DOCS / "glossary.md").read_text()
    files = {name for name in re.findall(r"`([\w/]+\.py)`", text) if not (LIBRARY / name).exists()}
    assert files == set()
    defined = {name for file in LIBRARY.rglob("*.py") for name in re.findall(r"^class (\w+)", file.read_text(), re.MULTILINE)}
    classes = set(re.findall(r"`(?:\w+\.)?([A-Z]\w+)(?:\.\w+)?`", text)) - {"INDEX"}
    assert classes <= defined


def test_a_word_is_explained_once():
    rows = re.findall(r"^\| ([^|]+) \|", (DOCS / "glossary.md").read_text(), re.MULTILINE)
    words = [word.strip() for row in rows for word in row.split(",") if row not in ("word", "---")]
    assert len(words) == len(set(words))


def test_the_message_of_a_lost_process():
    error = plain_error(RuntimeError("Python worker exited unexpectedly (crashed)"))
    assert f"{type(error).__name__}: {error}\n" in (DOCS / "errors.md").read_text()


def test_the_table_beside_the_paper_is_current():
    table = beside_the_paper(read(ROOT / "benchmarks" / "results.jsonl"))
    assert table in (DOCS / "paper.md").read_text(), "run `bigjoin bench --report`"
    measured = set(re.findall(r"`bigjoin bench ([\w-]+)`", table))
    assert measured <= SUITES.keys()
    text = (DOCS / "paper.md").read_text()
    for number in range(1, 9):
        assert re.search(rf"\bfigure {number}\w?\b", text, re.IGNORECASE)
    for number in range(1, 6):
        assert f"Table {number}" in text


def test_errors_are_explained():
    """Each heading of the page has a message below it."""
    sections = re.split(r"^### ", (DOCS / "errors.md").read_text(), flags=re.MULTILINE)[1:]
    assert 25 <= len(sections) <= 45
    for section in sections:
        assert re.search(r"^(bigjoin: |Error: |\w+Error: )", section, re.MULTILINE), section
