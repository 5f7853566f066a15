"""The documentation is true: examples run, the options and the names that it lists are those that exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from bigjoin.cli.main import cli
from bigjoin.languages import named, parse
from bigjoin.query.statistics import assumed_graph

ROOT = Path(__file__).parents[1]


def commands(group=cli):
    """Every command, and every subcommand after its group, as they are typed."""
    for name, command in group.commands.items():
        yield name
        yield from (f"{name} {below}" for below in commands(command)) if isinstance(command, click.Group) else ()


def help_of(name):
    return CliRunner().invoke(cli, [*name.split(), "--help"], prog_name="bigjoin", terminal_width=100).output.strip()


def test_cli_reference_is_the_help():
    text = (ROOT / "docs" / "cli.md").read_text()
    for name in commands():
        assert f"```\n{help_of(name)}\n```" in text, f"run `python -m tests.test_docs` to write docs/cli.md again ({name})"


def test_named_queries_are_documented():
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (.*→.*) \|$", (ROOT / "docs" / "queries.md").read_text(), re.MULTILINE))
    for name, edges in rows.items():
        wanted = {tuple(edge.split("→")) for edge in edges.split(", ")}
        assert {tuple(a[1:] for a in atom.attributes) for atom in parse(name).atoms} == wanted
    assert rows.keys() >= named._EDGES.keys()


def test_readme_shows_the_plan_as_it_is():
    from bigjoin.planner import plan

    rules = str(plan(parse("triangle", unique=True), assumed_graph(symmetric=True)))
    assert rules in (ROOT / "README.md").read_text()


@pytest.mark.spark
@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda file: file.stem)
def test_examples_run(example, tmp_path):
    done = subprocess.run(
        [sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == example.with_suffix(".out").read_text()


def write_cli_reference():
    parts = ["# Command line\n\nWritten from `--help` by `python -m tests.test_docs`; a test keeps it so.\n"]
    parts += [f"\n## bigjoin {name}\n\n```\n{help_of(name)}\n```\n" for name in commands()]
    (ROOT / "docs" / "cli.md").write_text("".join(parts))


if __name__ == "__main__":
    write_cli_reference()
