"""The documentation is true: its examples run, and the options and names that it lists exist."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from collections import Counter
from importlib.resources import as_file, files
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from bigjoin.cli.main import cli
from bigjoin.languages import named, parse
from bigjoin.query.statistics import assumed_graph

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").glob("*.md")), ROOT / "benchmarks" / "README.md"]


def commands(group=cli):
    """Give every command, and every subcommand after its group, as a user types it."""
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        yield name
        yield from (f"{name} {below}" for below in commands(command)) if isinstance(command, click.Group) else ()


def help_of(name):
    return CliRunner().invoke(cli, [*name.split(), "--help"], prog_name="bigjoin", terminal_width=100).output.strip()


def test_cli_reference_is_the_help():
    text = (ROOT / "docs" / "cli.md").read_text()
    for name in commands():
        assert f"```\n{help_of(name)}\n```" in text, f"run `python -m tests.test_docs` to update docs/cli.md ({name})"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_on_a_page_is_python(page):
    for code in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        compile(code, str(page), "exec")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target, _, anchor in (link.partition("#") for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text())):
        linked = (page.parent / target) if target else page
        assert linked.exists(), target
        titles = re.findall(r"^#+ (.*)$", linked.read_text(), re.MULTILINE) if anchor else []
        slugs = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
        assert not anchor or anchor in slugs, f"{target}#{anchor}"


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
def test_examples_run(example, spark, tmp_path, monkeypatch, capfd):
    """Run in the session that tests share: a program that starts none uses the active one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(example)])
    monkeypatch.setattr(spark, "stop", lambda: None)
    runpy.run_path(str(example), run_name="__main__")
    assert capfd.readouterr().out == example.with_suffix(".out").read_text()


@pytest.mark.slow
@pytest.mark.spark
def test_an_example_is_a_program(tmp_path):
    example = ROOT / "examples" / "seeds.py"
    done = subprocess.run(
        [sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == example.with_suffix(".out").read_text()


def program(name):
    """Return an example as a module, without running it."""
    return SimpleNamespace(**runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name=name))


def test_rings_of_the_payments_example_by_brute_force():
    payments = [row for row in program("payments").generated_payments().itertuples(index=False, name=None) if row[2] >= 500]

    def rings(path):
        start, end, first, last = path[0][0], path[-1][1], path[0][3], path[-1][3]
        if len(path) >= 3 and end == start:
            yield path
        elif len(path) < 5 and len({row[0] for row in path} | {end}) == len(path) + 1:
            for row in payments:
                if row[0] == end and last < row[3] < first + 5:
                    yield from rings([*path, row])

    found = sorted((path for row in payments for path in rings([row])), key=lambda path: (path[-1][3], len(path), path))
    told = [f"day {p[-1][3]}:{''.join(f' {src} -({paid})->' for src, _, paid, _ in p)} {p[0][0]}" for p in found]
    threes = sum(len(path) == 3 for path in found)
    *lines, signed, after = (ROOT / "examples" / "payments.out").read_text().splitlines()
    assert lines == told
    gone = sum(len(path) == 3 and path[0][3] <= 10 - 5 for path in found)
    assert signed.endswith(f": {threes} {gone}")
    assert after.endswith(str({f"ring{n}": sum(len(p) == n and p[0][3] > 10 - 5 for p in found) for n in (3, 4, 5)}))


def test_rings_of_the_rings_example_by_brute_force():
    payments = list(program("rings").generated_payments().itertuples(index=False, name=None))

    def rings(path):
        if len(path) >= 3 and path[-1][1] == path[0][0]:
            yield path
        elif len(path) < 5 and path[-1][1] not in {row[0] for row in path}:
            for row in payments:
                if row[0] == path[-1][1] and path[-1][3] < row[3] < path[0][3] + 10:
                    yield from rings([*path, row])

    found = sorted((path for row in payments for path in rings([row])), key=lambda path: [row[0] for row in path])
    ways = ["".join(f"{src} -({paid})-> " for src, _, paid, _ in path) + f"{path[0][0]}" for path in found]
    told = [f"days {path[0][3]} to {path[-1][3]}: {way}" for path, way in zip(found, ways, strict=True)]
    lengths = {n: count for n in (3, 4, 5) if (count := sum(len(path) == n for path in found))}
    lines = (ROOT / "examples" / "rings.out").read_text().splitlines()
    assert lines[: len(told) + 2] == [f"rings: {len(found)}", *told, f"by length: {lengths}"]


def test_groups_of_the_social_example_by_brute_force():
    social = program("social")
    with as_file(files("bigjoin.data") / "soc-Epinions1.txt.gz") as path:
        friends = social.read_friends(path)
    graph = {person: set(others) for person, others in friends.items()}
    count, lines = 5_803_397, ["groups of four at the start: 5,803,397"]  # the published count

    def groups(a, b):
        return [{a, b, c, d} for c, d in combinations(sorted(graph[a] & graph[b]), 2) if d in graph[c]]

    for week in (1, 2, 3):
        updates = social.generated_week(friends, week)
        gone, came, members = [], [], Counter()
        ended = {frozenset(u[:2]) for u in updates if u[2] == "-"}
        begun = {frozenset(u[:2]) for u in updates if u[2] == "+" and u[0] != u[1]}
        ended, begun = {e for e in ended - begun if min(e) in graph[max(e)]}, {e for e in begun if min(e) not in graph[max(e)]}
        for a, b in ended:
            gone += groups(a, b)
            graph[a].remove(b), graph[b].remove(a)
        for a, b in begun:
            came += groups(a, b) if b not in graph[a] else []
            graph[a].add(b), graph[b].add(a)
        count += len(came) - len(gone)
        changes = f"groups: +{len(came):,} -{len(gone):,}, now {count:,}"
        lines.append(f"week {week}: {len(begun)} friendships begun, {len(ended)} ended; {changes}")
        members.update(person for group in came for person in group)
        most, person = max((n, person) for person, n in members.items())
        lines.append(f"  person {person} is in {most:,} of the new ones")
    lines.append(f"counted again from scratch: {count:,}")
    assert (ROOT / "examples" / "social.out").read_text().splitlines() == lines


def write_cli_reference():
    parts = ["# Command line\n\nGenerated from `--help` by `python -m tests.test_docs`; a test checks that it is up to date.\n"]
    parts += [f"\n## bigjoin {name}\n\n```\n{help_of(name)}\n```\n" for name in commands()]
    (ROOT / "docs" / "cli.md").write_text("".join(parts))


if __name__ == "__main__":
    write_cli_reference()
