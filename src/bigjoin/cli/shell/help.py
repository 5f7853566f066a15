"""The help of a shell."""

from __future__ import annotations

import shutil
from textwrap import wrap

import click

from bigjoin.cli.shell.commands import ALIASES, SHELL_COMMANDS, ShellCommand
from bigjoin.cli.shell.questions import command_for
from bigjoin.cli.shell.settings import SETTABLE, values_of

MAX_WIDTH = 100

_RULES = """\
A question is a name (triangle), a rule, a motif, Cypher or SQL. It ends
  SQL, Cypher   with a ; at the end of a line
  others        with the line that completes it: brackets are closed, and the line does not end with
                a comma, an operator, 'and', or the ; between two terms of a motif
  any           with an empty line, or with what was pasted, once Enter follows
A command is one line. Without QUERY it is about the last question. Ctrl-C cancels what runs."""

_KEYS = "Tab completes, Ctrl-R searches the history, Alt-Enter begins a line, Ctrl-X Ctrl-E opens an editor."


def overview() -> str:
    """Return all commands, with a sentence for each, and where a question ends."""
    formatter = click.HelpFormatter(width=width())
    rows = [(_usage(one).replace("[OPTIONS] ", "").replace(" [OPTIONS]", ""), _in_short(one)) for one in SHELL_COMMANDS]
    formatter.write_dl(rows, col_max=32)
    return f"{_RULES}\n{_KEYS}\n\n{formatter.getvalue()}\n\\help COMMAND says more, and lists its options."


def help_of(command: ShellCommand) -> str:
    """Return how a command is used, and its options."""
    formatter = click.HelpFormatter(width=width())
    short = [f"\\{alias}" for alias, name in ALIASES.items() if name == command.name]
    also = f" Also {', '.join(short)}." if short else ""
    lines = [_usage(command), "", *wrap(command.help + also, width())]
    if command.asks is not None:
        options = command_for(command.asks)
        options.format_options(click.Context(options), formatter)
    elif command.completes == "setting":
        rows = [
            (f"{name} {values_of(name).replace(', ', '|') or option.metavar or ''}".rstrip(), option.help or "")
            for name, option in SETTABLE.items()
        ]
        with formatter.section("Settings"):
            formatter.write_dl(rows, col_max=32)
    return "\n".join([*lines, "", formatter.getvalue()]).rstrip()


def _in_short(command: ShellCommand) -> str:
    """Return the beginning of a command's help."""
    return command.help.split("; ")[0].split(": ")[0].split(". ")[0].rstrip(".")


def _usage(command: ShellCommand) -> str:
    return f"\\{command.name} {command.usage}".rstrip()


def width() -> int:
    """Return how wide help is."""
    return min(MAX_WIDTH, shutil.get_terminal_size().columns)
