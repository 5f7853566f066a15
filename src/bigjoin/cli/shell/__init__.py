"""bigjoin shell: one warm session for many questions, on a terminal or from a script."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from bigjoin.cli.completion import files
from bigjoin.cli.options import Options, shell_options
from bigjoin.cli.source import STDIN
from bigjoin.errors import QueryCancelledError

if TYPE_CHECKING:
    from bigjoin.cli.shell.session import ShellSession

_FILE = "Run the commands and questions in FILE (- is the standard input), and end."


@click.command()
@click.option("-f", "--file", metavar="FILE", shell_complete=files, help=_FILE)
@click.option("--keep-going", is_flag=True, help="In a script, go on after an error.")
@shell_options
@click.pass_context
def shell(context: click.Context, source: str | None, file: str | None, keep_going: bool, options: Options) -> None:
    r"""Answer questions about SOURCE, one after the other: it is opened once, and Spark starts when a question needs it.

    On a terminal, type a question in any language, or a command that begins with a backslash; \help explains. Without SOURCE,
    \open PATH opens one. A script (-f FILE, or what comes through a pipe) has the same commands, and prints rows as CSV. An
    error names the file and the line, and ends the script with exit code 2.
    """
    from bigjoin.cli.shell.session import ShellSession
    from bigjoin.cli.shell.settings import SETTABLE, Settings

    on_terminal = file is None and sys.stdin is not None and sys.stdin.isatty()
    script = None if on_terminal else file or STDIN
    if source is not None and options.relations:
        raise click.UsageError("give either SOURCE or --relation, not both")
    if script == STDIN and STDIN in (source, *options.relations.values()):
        raise click.UsageError("- is the standard input, which can be read once: give the questions with -f FILE")
    settings = Settings(timing=on_terminal)
    for name, value in context.params.items():
        if name in SETTABLE and context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            settings.give(name, value)
    if options.as_json:
        settings.give("format", "json")
    session = ShellSession(options, settings)
    with _own_stderr(), session.cancelling.installed():
        try:
            _open(session, source, options)
            if script is None:
                from bigjoin.cli.shell.terminal import Terminal

                Terminal(session).converse()
                code = 0
            else:
                from bigjoin.cli.shell.script import run_script

                code = run_script(session, script, keep_going=keep_going)
        finally:
            session.sources.close()
    if code:
        sys.exit(code)


def _open(session: ShellSession, source: str | None, options: Options) -> None:
    """Open what the command names."""
    try:
        with session.cancelling.running():
            if source is not None:
                session.sources.open(source, options)
            elif options.relations:
                session.sources.add_all(options)
    except QueryCancelledError:
        raise KeyboardInterrupt from None


@contextmanager
def _own_stderr() -> Iterator[None]:
    """Print messages also while Spark starts, which has file descriptor 2 for itself then."""
    before = sys.stderr
    try:
        number = os.dup(before.fileno())
    except (OSError, ValueError):  # it is no file
        yield
        return
    with open(number, "w", buffering=1, encoding=before.encoding, errors=before.errors) as sys.stderr:  # noqa: PTH123
        try:
            yield
        finally:
            sys.stderr = before
