"""The first change that CONTRIBUTING.md leads through: made in a copy, it fails and works as the page says."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
BLOCKS = [
    [line.removeprefix("   ") for line in block.splitlines()]
    for block in re.findall(r"^ {3}```text\n(.*?)^ {3}```", PAGE, re.MULTILINE | re.DOTALL)
]
CASE, OPERATORS = "tests/cases/filters/ids.case", "src/bigjoin/query/operators.py"
CHANGES = dict(zip((CASE, OPERATORS), (block for block in BLOCKS if any(line.startswith("+ ") for line in block)), strict=True))
"""What is changed, and how: lines that stay (with a space before them), that go (-) and that come (+)."""


def lines(name, *signs):
    """Return the lines of a change that have one of these signs, without it."""
    return [line[2:] for line in CHANGES[name] if line.startswith(signs)]


def test_the_change_begins_where_the_project_is():
    assert all(f"`{name}`" in PAGE for name in CHANGES)
    assert "\n".join(lines(CASE, " ")) in (ROOT / CASE).read_text()
    assert "\n".join(lines(OPERATORS, "-")) in (ROOT / OPERATORS).read_text()


PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
OPEN_END = re.compile(r"[A-Z][A-Z _-]+|.*\b(TODO|TBD|FIXME|XXX)\b.*")
"""A line that somebody has left to be filled in: a word in capitals alone, or one of those that say so."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_nothing_is_left_to_be_filled_in(page):
    text = re.sub(r"^( *)```.*?^\1```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert [line for line in text.splitlines() if OPEN_END.fullmatch(line.strip())] == []


def test_commands_have_no_place_to_fill_in():
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert [line for block in blocks for line in block.splitlines() if re.search(r"\b[A-Z]{2,}\b(?!=)", line)] == []


def test_each_python_that_is_claimed_has_a_row():
    """Which says what was run there."""
    section = PAGE.split("### Pythons\n")[1].split("\n##")[0]
    rows = re.findall(r"^\| ([\d., ]+) \| (.+) \|$", section, re.MULTILINE)
    shown = {".".join(version.split(".")[:2]) for versions, _ in rows for version in versions.split(", ")}
    claimed = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    assert sorted(shown) == sorted(claimed)
    named = {f"{name}.py" for name in re.findall(r"\b(test_\w+)\.py", section)}
    assert named
    assert all((ROOT / "tests" / name).exists() for name in named)


@pytest.mark.slow
def test_the_change_fails_and_works_as_the_page_says(tmp_path):
    for name in ("src", "tests", "benchmarks/bigjoin_bench", "scripts"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    ((program, *arguments),) = map(shlex.split, re.findall(r"\$ (\.venv/bin/pytest .*)", PAGE))
    command = [sys.executable, "-m", Path(program).name, "-p", "no:cacheprovider", *arguments]

    def tried():
        environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300)

    change(tmp_path, CASE)
    failed = tried()
    (error,) = re.findall(r"^ *E   (bigjoin\.errors.*)$", PAGE, re.MULTILINE)
    assert failed.returncode == 1
    assert error in failed.stdout
    assert " passed" not in failed.stdout
    change(tmp_path, OPERATORS)
    worked = tried()
    assert worked.returncode == 0, worked.stdout[-2000:]


def change(folder, name):
    """Put the lines that stay and come in place of those that stay and go."""
    before, after = "\n".join(lines(name, " ", "-")), "\n".join(lines(name, " ", "+"))
    text = (folder / name).read_text()
    assert text.count(before) == 1
    (folder / name).write_text(text.replace(before, after))
