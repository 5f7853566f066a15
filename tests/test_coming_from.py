"""The pages for people who come from GraphFrames, Cypher and SQL, run: their Python line by line, their commands as typed."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import bigjoin as bj
from bigjoin.cli.main import cli

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ("coming-from-graphframes", "coming-from-cypher")


def run_block(code: str, names: dict) -> int:
    """Run statements; a literal in the comment behind an expression is what it comes to. Return how many there were."""
    checked = 0
    for statement in ast.parse(code).body:
        source = ast.get_source_segment(code, statement)
        comment = re.search(r"  # (.+)$", code.splitlines()[statement.end_lineno - 1])
        if isinstance(statement, ast.Expr) and comment is not None:
            assert eval(source, names) == ast.literal_eval(comment[1]), source
            checked += 1
        else:
            exec(source, names)
    return checked


@pytest.mark.spark
@pytest.mark.parametrize("page", [*PAGES, "coming-from-sql"])
def test_python_of_the_page(page, spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"spark": spark}
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(), re.DOTALL)
    assert sum(run_block(block, names) for block in blocks) >= 4


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_the_page(page, tmp_path, monkeypatch):
    """Those that say what they print, and need no Spark."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```console\n(.*?)```", (DOCS / f"{page}.md").read_text(), re.DOTALL)
    told = [part for block in blocks for part in re.findall(r"^\$ bigjoin (.*)\n((?:[^$].*\n)+)", block, re.MULTILINE)]
    assert told
    for command, printed in told:
        done = CliRunner().invoke(cli, shlex.split(command))
        assert done.output == printed, command


@pytest.mark.spark
def test_commands_with_an_index(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pays = [{"src": 1, "dst": 2, "amount": 500.0}, {"src": 2, "dst": 1, "amount": 5.0}, {"src": 1, "dst": 3, "amount": 70.0}]
    bj.build_index({"pays": spark.createDataFrame(pays)}, "bank.index")
    page = (DOCS / "coming-from-cypher.md").read_text()
    count, find = re.findall(r"^\$ bigjoin ((?:count|find) .*bank\.index.*)$", page, re.MULTILINE)
    assert CliRunner().invoke(cli, shlex.split(count)).stdout == "1\n"
    assert CliRunner().invoke(cli, shlex.split(find)).stdout == "a,b\n1,2\n"


@pytest.mark.spark
def test_commands_over_files(spark, tmp_path, monkeypatch):
    """Those of the page about SQL, on the tables of its Python."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "payments.csv").write_text("src,dst,amount\n1,2,100\n1,2,150\n2,3,90\n3,1,80\n3,4,20\n")
    (tmp_path / "accounts.csv").write_text("id,name\n1,ann\n2,bob\n3,cat\n4,dan\n")
    page = (DOCS / "coming-from-sql.md").read_text()
    told = re.findall(r"^\$ bigjoin (.*)\n((?:[^$`].*\n)+)", page, re.MULTILINE)
    assert len(told) == 2
    for command, printed in told:
        assert CliRunner().invoke(cli, shlex.split(command)).stdout == printed, command
