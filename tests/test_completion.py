"""Completion in real shells, set up by the very lines that the documentation gives; they are asked without a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.shell_completion import get_completion_class

from bigjoin.cli.main import cli
from bigjoin.defaults import STRATEGIES
from bigjoin.languages.named import names, parse

ROOT = Path(__file__).parents[1]
SHELLS = ("bash", "zsh", "fish")
ASKED = {
    "bash": """
compopt() {{ COMPREPLY=(FILES); }}
{setup}
COMP_WORDS=({words}) COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_bigjoin_completion bigjoin
printf '%s\\n' "${{COMPREPLY[@]}}"
""",
    "zsh": """
compdef() {{ }}
compadd() {{ print -rl -- ${{(P)argv[-1]}} }}
_describe() {{ print -rl -- ${{${{(P)argv[3]}}%%:*}} }}
_path_files() {{ print FILES }}
{setup}
words=({words}) CURRENT=${{#words}}
_bigjoin_completion
""",
    "fish": """
{setup}
complete --do-complete "{line}"
""",
}
"""How each shell is asked what it would offer: the first two by calling what they call when somebody presses Tab."""

LOOK = """
import sys
sys.argv[0] = "bigjoin"
from bigjoin.__main__ import main
try:
    main()
finally:
    print(sorted({"pyspark", "numba", "pandas", "scipy", "sqlglot", "lark", "prompt_toolkit"} & sys.modules.keys()))
"""
"""Complete, and print which modules that take long to import were imported."""


def setup_line(shell):
    """Return the line that the page tells users to write."""
    page = (ROOT / "docs" / "cli.md").read_text()
    (line,) = re.findall(rf"^.*_BIGJOIN_COMPLETE={shell}_source.*$", page, re.MULTILINE)
    return line


def environment():
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "HOME": "/nonexistent"}


def offered(shell, line, folder):
    """Return what a shell offers for a line whose last word is incomplete."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed here")
    words = line if not line.endswith(" ") else f"{line}''"
    script = ASKED[shell].format(setup=setup_line(shell), words=words, line=line)
    flags = {"bash": ["--norc", "--noprofile"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    done = subprocess.run(
        [shell, *flags, "-c", script], cwd=folder, env=environment(), capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    return [line.split("\t")[0] for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes(shell, tmp_path):
    (tmp_path / "edges.csv").write_text("1,2\n")
    assert offered(shell, "bigjoin cou", tmp_path) == ["count"]
    assert {"count", "find", "info", "watch"} <= set(offered(shell, "bigjoin ", tmp_path))
    assert offered(shell, "bigjoin count tri", tmp_path) == ["triangle"]
    assert offered(shell, "bigjoin find 4-", tmp_path) == ["4-clique", "4-cycle", "4-path", "4-star", "4-wheel"]
    assert offered(shell, "bigjoin count 11-c", tmp_path) == ["11-clique", "11-cycle"]
    assert set(offered(shell, "bigjoin count triangle e --strategy ", tmp_path)) == {"auto", *STRATEGIES}
    assert offered(shell, "bigjoin count triangle e --strategy heavy", tmp_path) == ["heavy-light"]
    assert offered(shell, "bigjoin count triangle e --uni", tmp_path) == ["--unique"]
    assert offered(shell, "bigjoin count triangle ed", tmp_path) == (["edges.csv"] if shell == "fish" else ["FILES"])
    assert offered(shell, "bigjoin generate rm", tmp_path) == ["rmat"]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("words", "typed", "wanted"),
    [
        (["estimate"], "hou", ["plain house"]),
        (["watch"], "dia", ["plain diamond"]),
        (["watch", "diamond"], "my-in", ["file my-in"]),
        (["index"], "ed", ["file ed"]),
        (["count", "triangle", "e", "--seeds"], "s", ["file s"]),
        (["explain", "triangle", "--as"], "", ["plain rule", "plain motif", "plain cypher"]),
        (["info"], "g", ["file g"]),
        (["shell", "-f"], "q", ["file q"]),
        (["draw"], "bu", ["plain bull"]),
    ],
)
def test_what_is_offered(shell, words, typed, wanted):
    completer = get_completion_class(shell)(cli, {}, "bigjoin", "_BIGJOIN_COMPLETE")
    assert [f"{item.type} {item.value}" for item in completer.get_completions(words, typed)] == wanted


def test_every_name_that_is_offered_is_a_query():
    assert all(parse(name).name == name for name in names(12))


def test_tab_in_bash(tmp_path):
    """The real thing: keys on a terminal."""
    (tmp_path / "edges.csv").write_text("1,2\n")
    terminal, end = pty.openpty()
    bash = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        stdin=end,
        stdout=end,
        stderr=end,
        cwd=tmp_path,
        env={**environment(), "PS1": "$ ", "TERM": "dumb"},
        start_new_session=True,
    )
    os.close(end)
    try:
        os.write(terminal, f"{setup_line('bash')}; echo re''ady\n".encode())
        assert "ready" in shown(terminal, "ready\r\n")
        os.write(terminal, b"bigjoin coun\t")
        assert "count " in shown(terminal, "count ")
        os.write(terminal, b"tri\t")
        assert "triangle " in shown(terminal, "angle ")
        os.write(terminal, b"edg\t")
        assert "edges.csv " in shown(terminal, "es.csv ")
    finally:
        bash.kill()
        bash.wait()
        os.close(terminal)


def shown(terminal, wanted):
    """Return what a terminal shows, once it shows what is wanted or for thirty seconds."""
    text, deadline = "", time.monotonic() + 30
    while wanted not in text and select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
        text += os.read(terminal, 1 << 16).decode()
    return text


@pytest.mark.parametrize("words", ["bigjoin ", "bigjoin count tri", "bigjoin count triangle e --strategy "])
def test_nothing_heavy_is_imported_to_complete(words):
    asked = {"_BIGJOIN_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    done = subprocess.run(
        [sys.executable, "-c", LOOK],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    *offers, heavy = done.stdout.splitlines()
    assert offers
    assert heavy == "[]"
