"""The code blocks of a page in Markdown, and how each kind of block is run and compared with what the page says it prints."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from unittest import mock

import click
from click.testing import CliRunner

from bigjoin.cli.main import cli
from bigjoin.cli.messages import message_and_code
from bigjoin.errors import BigjoinError
from bigjoin.languages import read

FENCE = re.compile(
    r"^(?P<indent> *)(?P<ticks>`{3,})(?P<info>[^`\n]*)\n(?P<text>.*?)^(?P=indent)(?P=ticks) *$", re.MULTILINE | re.DOTALL
)
LITERAL = re.compile(r"  # (.+)$")
SHELL_SIGNS = set("|&;<>")
FRAMES = set("│┃┏╭")
"""Signs of a table that a command only draws on a terminal."""


NO_MASTER = ("SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME", "BIGJOIN_CONF")
"""What the session of the tests leaves in the environment. A reader's terminal has none of it."""


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the line of the page where the text begins."""

    page: Path
    line: int
    language: str
    text: str
    is_output: bool
    """Whether it directly follows a block of Python, and so holds what that prints."""

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of a page in their order."""
    text, found, end = page.read_text(), [], 0
    for fence in FENCE.finditer(text):
        between, end = text[end : fence.start()], fence.end()
        language = (fence["info"].split() or [""])[0]
        code = re.sub(rf"^{fence['indent']}", "", fence["text"], flags=re.MULTILINE)
        line = text.count("\n", 0, fence.start("text")) + 1
        follows = bool(found) and found[-1].language == "python" and not between.strip()
        found.append(Block(page, line, language, code, follows and language == "text"))
    return found


def check_printed(where: str, told: str, printed: str) -> None:
    """Compare what a page says with what was printed; `...` stands for anything, as a line for any lines."""
    wanted, got = ([line.rstrip() for line in text.strip("\n").splitlines()] for text in (told, printed))
    lines = (
        r"(?:.*\n)*?" if line.strip() == "..." else ".*?".join(map(re.escape, line.split("..."))) + r"\n" for line in wanted
    )
    pattern = "".join(lines)
    text = "".join(f"{line}\n" for line in got)
    assert re.fullmatch(pattern, text), f"{where} says\n{told}\nbut this is printed:\n{printed}"


def run_python(block: Block, names: dict, told: Block | None) -> None:
    """Run statements; a literal in the comment behind an expression is what it comes to, and `told` is what they print.

    An error of bigjoin's is part of what is printed, as the last line of a traceback would be.
    """
    out = StringIO()
    tree = ast.increment_lineno(ast.parse(block.text), block.line - 1)
    try:
        with redirect_stdout(out):
            for statement in tree.body:
                run_statement(block, statement, names)
    except BigjoinError as error:
        if told is None:
            raise
        out.write(f"{type(error).__name__}: {error}\n")
    if told is not None:
        check_printed(str(told), told.text, out.getvalue())


def run_statement(block: Block, statement: ast.stmt, names: dict) -> None:
    """Run one statement, and compare its value with the literal behind it, if there is one."""
    comment = LITERAL.search(block.text.splitlines()[statement.end_lineno - block.line])
    if not isinstance(statement, ast.Expr) or comment is None:
        exec(compile(ast.Module([statement], []), str(block.page), "exec"), names)
        return
    value = eval(compile(ast.Expression(statement.value), str(block.page), "eval"), names)
    try:
        wanted = ast.literal_eval(comment[1])
    except (ValueError, SyntaxError):  # a comment in words
        return
    assert value == wanted, f"{block.page.name}:{statement.lineno} says {wanted!r}, and it is {value!r}"


def commands_of(block: Block) -> list[tuple[str, str]]:
    """Return the commands of a console block, each with what it prints; quotes and a backslash carry on to the next line."""
    found: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
            continue
        assert found, f"{block}: a console block begins with a command behind '$ ', or is ```sh if it cannot run"
        command, printed = found[-1]
        if not printed and is_open(command):
            found[-1] = (f"{command}\n{line.removeprefix('> ')}", printed)
        else:
            printed.append(line)
    return [(command, "\n".join(printed)) for command, printed in found]


def is_open(command: str) -> bool:
    """Tell whether a command goes on in the next line."""
    try:
        shlex.split(command)
    except ValueError:
        return True
    return command.endswith("\\")


def run_command(where: str, command: str, told: str) -> None:
    """Run a command: bigjoin in this process, everything else in a shell; a failure has to be on the page."""
    signs = shlex.shlex(command, posix=True, punctuation_chars="".join(sorted(SHELL_SIGNS)))
    signs.whitespace_split = True
    words = list(signs)
    if words[0] == "bigjoin" and not any(set(word) <= SHELL_SIGNS for word in words if word):
        code, out, both = run_bigjoin(
            shlex.split(command.replace("\\\n", " "), comments=True)[1:], is_terminal=bool(FRAMES & set(told))
        )
    else:
        code, out, both = run_in_shell(command)
    if code:
        assert told.strip(), f"{where}: `{command}` fails:\n{both}"
        check_printed(where, told, both)
        return
    shows_notes = re.search("^bigjoin: ", told, re.MULTILINE)
    check_printed(where, told, both if shows_notes else out)


def run_bigjoin(arguments: list[str], *, is_terminal: bool) -> tuple[int, str, str]:
    """Run a command of bigjoin; return its exit code, its output, and its output with the messages among it."""
    runner = CliRunner(env={"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1", **dict.fromkeys(NO_MASTER)})
    with mock.patch("click.testing._NamedTextIOWrapper.isatty", lambda stream: is_terminal and stream.name == "<stdout>"):
        done = runner.invoke(cli, arguments, prog_name="bigjoin")
    if done.exception is None or isinstance(done.exception, SystemExit):
        return done.exit_code, done.stdout, done.output
    if not isinstance(done.exception, BigjoinError | click.Abort):
        raise done.exception
    message, code = message_and_code(done.exception)
    return code, done.stdout, f"{done.output}bigjoin: {message}\n"


def run_in_shell(command: str) -> tuple[int, str, str]:
    """Run what only a shell understands, with this environment's bigjoin."""
    kept = {name: value for name, value in os.environ.items() if name not in NO_MASTER}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        env={**kept, "PATH": path, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stdout + done.stderr


def check_query(block: Block) -> None:
    """Read each query of a block in its language: a rule or motif a paragraph, or a line where it is not indented."""
    wanted = {"rule": {"rule", "name"}, "motif": {"motif"}, "cypher": {"cypher"}, "sql": {"sql"}}[block.language]
    texts = [block.text] if block.language in ("cypher", "sql") else re.split(r"\n(?=\S)", block.text.strip("\n"))
    for text in (text for text in texts if text.strip() and not re.fullmatch(r"\s*#.*", text)):
        statement = read(text)
        assert statement.language in wanted, f"{block}: this is read as {statement.language}, not as {block.language}:\n{text}"
