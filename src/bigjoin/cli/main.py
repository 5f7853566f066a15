"""The entry point: the group of commands, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from importlib import import_module
from pathlib import Path

import click

from bigjoin import __version__
from bigjoin.cli.alone import be_alone
from bigjoin.cli.messages import INTERRUPTED, USER_ERROR, message_and_code
from bigjoin.errors import BigjoinError, LostError, RowsWarning, bounded, shown

COMMANDS = (
    *("demo", "count", "find", "estimate", "explain", "draw", "shell"),
    *("index", "info", "verify", "vacuum", "watch", "status", "replay", "generate", "bench"),
)


class Commands(click.Group):
    """The commands, each of which is imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of --help."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a name."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = getattr(import_module(f"bigjoin.cli.{cmd_name}"), cmd_name)
        return found


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="bigjoin")
def cli() -> None:
    """Find, count and watch patterns in large graphs, with worst-case optimal joins.

    QUERY is a name (triangle, 4-clique, diamond, house, 5-clique, ...), a rule such as
    'tri(a,b,c) := edge(a,b), edge(b,c), edge(c,a), a < b', a motif such as '(a)-[]->(b); (b)-[]->(a)', Cypher such as
    'MATCH (a)-[]->(b) RETURN a, b', or SQL. SOURCE is an edge list (.txt .csv .tsv .json, also .gz), Parquet, an index
    directory, or - for standard input.
    """


def main() -> None:
    """Run a command; a user's mistake gives one message and exit code 2, and nothing gives a traceback."""
    be_alone()
    logging.disable()  # py4j would log the traceback of an error that is reported anyway
    warnings.showwarning = _note  # type: ignore[assignment]
    _complete_streams()
    if sys.stdout is None:
        _fail("the standard output is closed: redirect it to a file, or to /dev/null", USER_ERROR)
    for argument in sys.argv:
        if argument.encode(errors="replace").decode() != argument:  # bytes that are not UTF-8 reach Python as surrogates
            _fail(f"the argument {shown(argument)!r} is not UTF-8", USER_ERROR)
    try:
        cli.main(standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as exit_:
        sys.exit(exit_.exit_code)
    except click.ClickException as error:
        error.message = bounded(error.message)  # type: ignore[misc]  # it repeats the user's input
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt, Exception) as error:
        if not _was_interrupted(error):
            _fail(*message_and_code(error))
        if "pyspark" in sys.modules:
            from bigjoin.spark.session import end_jvm

            end_jvm()
        eval("None")  # if an interrupt came within an eval, Python would end by that signal and not with our exit code
        _fail("interrupted", INTERRUPTED)
    if "bigjoin.spark.class_archive" in sys.modules:
        from bigjoin.spark.class_archive import make_in_background

        make_in_background()


def _complete_streams() -> None:
    """Occupy the numbers of closed standard streams: Spark's JVM would write to any file that got one of them."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    if sys.stderr is None:  # a user who closes it wants the answer without messages
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115


def _note(message: Warning | str, category: type[Warning], *_: object) -> None:
    """Show a warning of bigjoin as a sentence; warnings of libraries are for developers, not for users."""
    if category is RowsWarning or (category is UserWarning and "pandas" not in str(message)):
        click.echo(f"bigjoin: note: {bounded(message)}", err=True)


def _was_interrupted(error: BaseException) -> bool:
    """Tell whether an error is an interrupt, or what Spark or its JVM made of one that reached them first."""
    if isinstance(error, BigjoinError) and not isinstance(error, LostError):
        return False
    if re.search(r"cancelled as part of cancellation of all jobs|SparkContext was shut down", str(error)):
        return True
    return isinstance(error, click.Abort) or _follows_interrupt(error)


def _follows_interrupt(error: BaseException | None) -> bool:
    """Tell whether an error was raised while an interrupt was being handled, as Spark does if it cannot send a result."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _fail(message: str, code: int) -> None:
    click.echo(f"bigjoin: {bounded(message)}", err=True)
    sys.exit(code)
