"""Questions in a shell: the commands of the command line, asked of what is open, with the settings as defaults."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from threading import Event

import click

from bigjoin.cli.shell.arguments import Arguments, Syntax
from bigjoin.cli.shell.settings import Settings
from bigjoin.cli.shell.warm import WarmSource

OF_SOURCES = frozenset(
    (
        *("source", "undirected", "relations", "drop_nulls", "src", "dst", "columns", "header", "delimiter", "encoding"),
        *("epoch", "no_cache", "no_verify", "master", "conf", "packages"),
    )
)
"""Options of commands that are about their source, or about where Spark is."""

_MORE = "\\set limit N shows more, \\output FILE writes all"


@cache
def command_for(name: str) -> click.Command:
    """Return a command of the command line, as the shell has it: without what is about the source."""
    command: click.Command = getattr(import_module(f"bigjoin.cli.{name}"), name)
    params = [one for one in command.params if one.name not in OF_SOURCES]
    return click.Command(name, params=params, callback=command.callback, add_help_option=False)


def syntax_of(name: str, *, words: int = 0) -> Syntax:
    """Return how a command's line is taken apart, with so many words before the question."""
    options = [one for one in command_for(name).params if isinstance(one, click.Option)]
    spelled = ((option, spelling) for option in options for spelling in (*option.opts, *option.secondary_opts))
    return Syntax({spelling: not (option.is_flag or option.count) for option, spelling in spelled}, words)


def ask(name: str, given: Arguments, *, sources: WarmSource, settings: Settings, cancel: Event) -> None:
    """Ask a question of what is open, and print the answer."""
    command = command_for(name)
    if given.without_value is not None:
        raise click.UsageError(f"{given.without_value} needs a value")
    defaults = settings.defaults_for(command, given.question)
    if settings.form == "json":
        defaults["as_json"] = True
    options = [str(Path(value).expanduser()) if value.startswith("~/") else value for value in given.options]
    with command.make_context(name, [*options, "--", given.question], default_map=defaults) as context:
        assert command.callback is not None
        command.callback(
            **context.params,
            source=None,
            warm=sources,
            cancel=cancel,
            form=settings.form,
            rows_shown=settings.rows_shown,
            more=_MORE,
        )
