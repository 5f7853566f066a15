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

import bigjoin as bj
from bigjoin import errors
from bigjoin.cli.main import cli
from bigjoin.languages import named, parse
from bigjoin.query.statistics import assumed_graph

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md")), ROOT / "benchmarks" / "README.md"]


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
        assert f"```text\n{help_of(name)}\n```" in text, f"run `python -m tests.test_docs` to update docs/cli.md ({name})"
    assert COMPLETION in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = page.read_text()
    links = [
        *re.findall(r"\]\((?!https?:)([^)\s]+)\)", text),
        *re.findall(r"<(?:img|source)[^>]* (?:src|srcset)=\"([^\"]+)\"", text),
    ]
    for target, _, anchor in (link.partition("#") for link in links):
        linked = (page.parent / target) if target else page
        assert linked.exists(), target
        titles = re.findall(r"^#+ (.*)$", linked.read_text(), re.MULTILINE) if anchor else []
        slugs = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
        slugs |= set(re.findall(r"^::: (.*)$", linked.read_text(), re.MULTILINE)) if anchor else set()
        assert not anchor or anchor in slugs, f"{target}#{anchor}"


def test_public_names_are_in_the_reference():
    pages = "".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.md"))
    documented = set(re.findall(r"^::: bigjoin\.(\w+)$", pages, re.MULTILINE))
    assert documented - {"graphframes"} == set(bj.__all__) - {"__version__"}
    tree = re.search(r"^BigjoinError\n(?:[│├└].*\n)+", errors.__doc__, re.MULTILINE)[0]
    assert re.sub(r" \(defined in .*", "", tree) in pages


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


def test_what_the_payments_example_finds_by_brute_force():
    payments = [*enumerate(program("payments").generated_payments().itertuples(index=False, name=None))]

    def live(day):
        """The payments of a day's window, as corrected by then."""
        known = {number: row for number, row in payments if day - 5 < row[3] <= day}
        if 253 in known and day >= 5:
            known[253] = (*known[253][:2], 49.5, known[253][3])
        return list(known.values())

    def rings(path, rows):
        if len(path) >= 3 and path[-1][1] == path[0][0]:
            yield path
        elif len(path) < 5 and len({row[0] for row in path} | {path[-1][1]}) == len(path) + 1:
            for row in rows:
                if row[0] == path[-1][1] and path[-1][3] < row[3]:
                    yield from rings([*path, row], rows)

    def found(day):
        """What there is at the end of a day: each ring as it is told, by length; what many pay; what is paid to suspects."""
        rows = live(day)
        large, small = [row for row in rows if row[2] >= 500], [row for row in rows if row[2] < 100]
        told = {3: set(), 4: set(), 5: set()}
        for path in (path for row in large for path in rings([row], large)):
            way = "".join(f" {src} -({paid:g})->" for src, _, paid, _ in path)
            told[len(path)].add(((*(row[0] for row in path), *(row[2] for row in path)), f"{way} {path[0][0]}"))
        many = {}
        for account in {row[1] for row in small}:
            paid = [row[2] for row in small if row[1] == account]
            if len(paid) >= 10:
                many[account] = f": {len(paid)} payments, {sum(paid):g} in all"
        suspects = {(src, dst, paid) for src, dst, paid, _ in large if dst == 203} if 4 <= day < 7 else set()
        return [*told.values(), many, suspects]

    lines, before = [], found(0)
    for day in range(1, 11):
        lines += ["-- stopped, and started again --"] if day == 6 else []
        after, start = found(day), f"epoch {day}: "
        for was, now in zip(before[:3], after[:3], strict=True):
            lines += [f"{start}-{told}" for _, told in sorted(was - now)] + [f"{start}+{told}" for _, told in sorted(now - was)]
        lines += [f"{start}{a} is no longer paid by many{told}" for a, told in sorted(before[3].items()) if a not in after[3]]
        lines += [f"{start}{a} is paid by many{told}" for a, told in sorted(after[3].items()) if a not in before[3]]
        for sign, rows in (("-", before[4] - after[4]), ("+", after[4] - before[4])):
            lines += [f"{start}{sign} {src} -({paid:g})-> suspect {dst}" for src, dst, paid in sorted(rows)]
        before = after
    said = (ROOT / "examples" / "payments.out").read_text().splitlines()
    assert said[: len(lines)] == lines
    counts = dict(zip(("ring3", "ring4", "ring5", "fanin", "suspects"), map(len, before), strict=True))
    assert said[len(lines)] == f"within the window after epoch 10: {counts}"
    assert len(said) == len(lines) + 3
    assert "column 'dst' is NULL" in said[-2]
    assert "column 'op' is '?'" in said[-1]


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


COMPLETION = """
## Completion

In bash, zsh and fish the Tab key completes commands and options, the values of an option such as `--strategy`, the names of
queries, and files. One line turns it on. It needs `bigjoin` on the `PATH`, as in an environment that is activated.

In bash 4.4 or newer, at the end of `~/.bashrc`:

```sh
eval "$(_BIGJOIN_COMPLETE=bash_source bigjoin)"
```

In zsh, at the end of `~/.zshrc`, after `compinit`:

```sh
eval "$(_BIGJOIN_COMPLETE=zsh_source bigjoin)"
```

In fish, in `~/.config/fish/completions/bigjoin.fish`:

```sh
env _BIGJOIN_COMPLETE=fish_source bigjoin | source
```

Each Tab starts Python for a moment. What you type between quotes, such as a rule, is not completed.
"""


def write_cli_reference():
    parts = ["# Command line\n\nGenerated from `--help` by `python -m tests.test_docs`; a test checks that it is up to date.\n"]
    parts += [f"\n## bigjoin {name}\n\n```text\n{help_of(name)}\n```\n" for name in commands()]
    (ROOT / "docs" / "cli.md").write_text("".join([*parts, COMPLETION]))


if __name__ == "__main__":
    write_cli_reference()
