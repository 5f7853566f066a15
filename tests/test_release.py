"""What is said beside the code, for packagers, for those who cite bigjoin, and for machines of others, agrees with the code."""

from __future__ import annotations

import fnmatch
import re
import tomllib
from pathlib import Path

import pytest
import yaml

import bigjoin

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RELEASES = re.findall(r"^## (\S+) - (\d{4}-\d\d-\d\d)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
MAKE_TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
PYTHONS = [line.removeprefix("Programming Language :: Python :: ") for line in PROJECT["classifiers"] if "Python :: 3." in line]


def test_the_version_is_said_once_and_its_date_in_the_changelog():
    assert "version" not in PROJECT
    assert RELEASES[0][0] == bigjoin.__version__
    assert [version for version, _ in RELEASES] == ["0.2.0", "0.1.0"]
    headings = re.findall(r"^## .*", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert len([heading for heading in headings if heading != "## Unreleased"]) == len(RELEASES)


def test_every_heading_of_the_changelog_has_something_below_it():
    text = (ROOT / "CHANGELOG.md").read_text()
    assert not re.findall(r"^(###? .*)\n+(?=###? )", re.sub(r"^## .*\n+(?=###)", "", text, flags=re.MULTILINE), re.MULTILINE)


def test_the_citation_is_of_this_release_and_of_the_paper():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= cited.keys()
    assert (cited["version"], str(cited["date-released"])) == RELEASES[0]
    assert cited["license"] == PROJECT["license"]
    assert cited["keywords"] == PROJECT["keywords"]
    (paper,) = cited["references"]
    assert [author["family-names"] for author in paper["authors"]] == ["Ammar", "McSherry", "Salihoglu", "Joglekar"]
    assert (paper["doi"], paper["volume"], paper["issue"], paper["year"]) == ("10.14778/3184470.3184473", 11, 6, 2018)


def test_ci_runs_what_the_makefile_has_on_each_python_that_is_claimed():
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    jobs = yaml.safe_load(text)["jobs"]
    assert jobs["test"]["strategy"]["matrix"]["python"] == PYTHONS
    steps = [step for job in jobs.values() for step in job["steps"]]
    asked = {step["run"].removeprefix("make ") for step in steps if step.get("run", "").startswith("make ")}
    assert asked >= {"docs", "dist"}
    assert asked <= MAKE_TARGETS
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"]) for step in steps if "uses" in step)
    (tested,) = (step for step in jobs["test"]["steps"] if "run" in step)
    assert tested["run"] == ".ci/run"
    assert set(tested["env"]["BIGJOIN_TESTS_NEED"].split()) == {"chromium", "tmux"}  # no test is skipped in silence
    assert "make test" in (ROOT / ".ci" / "run").read_text()
    assert not re.search(r"secrets\.|https?:", text)


def test_commits_are_checked_as_make_checks():
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    tools = {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in local["hooks"]}
    check = re.search(r"^check:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    assert tools == set(re.findall(r"\$\(BIN\)/([\w-]+)", check))


def test_the_image_is_built_from_files_that_its_build_can_see():
    recipe, rules = (ROOT / "Dockerfile").read_text(), (ROOT / ".dockerignore").read_text().split("\n")
    allowed = [rule.removeprefix("!") for rule in rules if rule.startswith("!")]
    assert rules[1] == "*"
    assert all((ROOT / name).exists() for name in allowed)
    sdist = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {name.removeprefix("/") for name in sdist} <= set(allowed)  # what the build backend reads
    assert {"pyproject.toml", PROJECT["readme"], *PROJECT["license-files"]} <= set(allowed)
    used = {path.split("/")[0] for path in re.findall(r"/source/(\S+)", recipe)}
    assert used <= set(allowed)
    assert not any(fnmatch.fnmatch(".git", name) for name in allowed)


@pytest.mark.parametrize("python", PYTHONS)
def test_a_python_that_is_claimed_is_allowed(python):
    least = tuple(map(int, PROJECT["requires-python"].removeprefix(">=").split(".")))
    assert tuple(map(int, python.split("."))) >= least
