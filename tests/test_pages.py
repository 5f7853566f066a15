"""Every code block of every page runs: Python top to bottom, commands as typed, and what a page shows is what is printed."""

from __future__ import annotations

import gzip
import os
import re
import runpy
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import pytest

from tests.page_blocks import blocks_of, check_query, commands_of, run_command, run_python

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LANGUAGES = {"python", "text", "console", "sql", "cypher", "motif", "rule", "sh"}

NOT_RUN = {
    "aws": "needs an account",
    "bigjoin": "needs a cluster, or goes on until it is stopped",
    "cp": "takes the bundled graph out of a package that pip has installed",
    "docker": "builds and starts images",
    "env": "sets a shell up; tests/test_completion.py runs it there",
    "eval": "sets a shell up; tests/test_completion.py runs it there",
    "gcloud": "needs an account",
    "git": "changes a checkout",
    "make": "installs, measures, or runs these tests",
    "pip": "installs",
    "python": "starts a cluster",
    "spark-submit": "needs a cluster",
    "venv-pack": "packs an environment that pip has installed",
}
"""The first words of lines in sh blocks, which do not run in a test, and why."""


def name_of(page: Path) -> str:
    """The page as its fixtures call it: the path below docs, without the suffix."""
    return str(page.relative_to(ROOT).with_suffix("")).removeprefix("docs" + os.sep)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_have_a_language(page):
    for block in blocks_of(page):
        assert block.language in LANGUAGES, f"{block} is {block.language!r}; a diagram or an excerpt of a file is text"
        if block.language == "sh":
            first_words = {line.split()[0] for line in block.text.splitlines() if re.match(r"\w", line)}
            assert first_words <= NOT_RUN.keys(), f"{block}: what can run is a console block"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_queries_are_read(page):
    for block in blocks_of(page):
        if block.language in ("rule", "motif", "cypher", "sql"):
            check_query(block)


RUN = [page for page in PAGES if any(block.language in ("python", "console") for block in blocks_of(page))]


@pytest.mark.spark
@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_blocks_run(page, spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fixture = ROOT / "tests" / "pages" / f"{name_of(page)}.py"
    fixtures = runpy.run_path(str(fixture)) if fixture.exists() else {}
    blocks = blocks_of(page)
    with spark_in(tmp_path, spark):
        give_bundled_graph(tmp_path, {word for block in blocks for word in re.findall(r"[\w./-]+", block.text)})
        fixtures.get("prepare", lambda *_: None)(tmp_path, spark)
        names = {"spark": spark, "__name__": "__page__"}
        for block, after in zip(blocks, [*blocks[1:], None], strict=True):
            if block.language == "python":
                run_python(block, names, after if after is not None and after.is_output else None)
            elif block.language == "console":
                for command, told in commands_of(block):
                    run_command(str(block), command, told)
        fixtures.get("check", lambda *_: None)(tmp_path, names)


@contextmanager
def spark_in(folder: Path, spark):
    """Have Spark, whose process cannot change its folder, read relative paths there; end what is left running."""
    jvm = spark._jvm
    storage = jvm.org.apache.hadoop.fs.FileSystem.get(spark._jsc.hadoopConfiguration())
    before = storage.getWorkingDirectory()
    storage.setWorkingDirectory(jvm.org.apache.hadoop.fs.Path(str(folder)))
    try:
        yield
    finally:
        storage.setWorkingDirectory(before)
        for query in spark.streams.active:
            query.stop()
        for table in spark.catalog.listTables():
            if table.isTemporary:
                spark.catalog.dropTempView(table.name)


def give_bundled_graph(folder: Path, words: set[str]) -> None:
    """Put the graph that comes with bigjoin where a page expects it, as it is or unpacked."""
    packed = (files("bigjoin.data") / "soc-Epinions1.txt.gz").read_bytes()
    for name, content in (("soc-Epinions1.txt.gz", packed), ("soc-Epinions1.txt", gzip.decompress(packed))):
        if name in words:
            (folder / name).write_bytes(content)


def test_fixtures_have_pages():
    folder = ROOT / "tests" / "pages"
    assert {str(file.relative_to(folder).with_suffix("")) for file in folder.rglob("*.py")} <= set(map(name_of, RUN))
