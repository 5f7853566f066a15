"""The entry point: the group of commands, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import warnings
from pathlib import Path

import click

from bigjoin import __version__
from bigjoin.cli.bench import bench
from bigjoin.cli.count import count
from bigjoin.cli.demo import demo
from bigjoin.cli.explain import explain
from bigjoin.cli.find import find
from bigjoin.cli.generate import generate
from bigjoin.cli.index import index
from bigjoin.cli.info import info
from bigjoin.cli.vacuum import vacuum
from bigjoin.cli.verify import verify
from bigjoin.cli.watch import watch
from bigjoin.errors import BigjoinError, LostError, bounded, shown

USER_ERROR, FAILURE, INTERRUPTED = 2, 1, 130


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="bigjoin")
def cli() -> None:
    """Find and count subgraphs in large graphs: worst-case optimal joins on Spark.

    QUERY is a name (triangle, 4-clique, diamond, house, 5-clique, ...) or a rule such as
    'tri(a,b,c) := edge(a,b), edge(b,c), edge(c,a), a < b'. SOURCE is an edge list (.txt .csv .tsv, also .gz), Parquet, or an
    index directory.
    """


for command in (demo, count, find, explain, index, info, verify, vacuum, watch, generate, bench):
    cli.add_command(command)


def main() -> None:
    """Run a command; a user's mistake is one message and exit code 2, and nothing is a traceback."""
    logging.disable()  # py4j would log the traceback of an error that is told anyway
    warnings.showwarning = _note  # type: ignore[assignment]
    signal.signal(signal.SIGTERM, _terminated)
    _complete_streams()
    if sys.stdout is None:
        _fail("the standard output is closed: redirect it to a file, or to /dev/null", USER_ERROR)
    if unreadable := next((argument for argument in sys.argv if not _is_utf8(argument)), None):
        _fail(f"the argument {shown(unreadable)!r} is not UTF-8", USER_ERROR)
    try:
        cli.main(standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as exit_:
        sys.exit(exit_.exit_code)
    except click.ClickException as error:
        error.message = bounded(error.message)  # type: ignore[misc]  # it repeats what was typed
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _interrupted()
    except BigjoinError as error:
        if isinstance(error, LostError) and _follows_interrupt(error):
            _interrupted()  # the JVM has seen the interrupt first
        _fail(str(error), _code(error))
    except Exception as error:
        if os.environ.get("BIGJOIN_DEBUG"):
            raise
        cancelled = re.search(r"cancelled as part of cancellation of all jobs|SparkContext was shut down", str(error))
        if cancelled or _follows_interrupt(error):
            _interrupted()  # Spark has seen the interrupt first
        _fail(*_unexpected(error))


def _complete_streams() -> None:
    """Take the numbers of standard streams that were closed: a file that got one of them would be written to by Spark's JVM."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    if sys.stderr is None:  # who closes it wants no messages, but an answer
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115


def _is_utf8(argument: str) -> bool:
    """Tell whether an argument is text: bytes that are not UTF-8 reach Python as surrogates."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


def _note(message: Warning | str, category: type[Warning], *_: object) -> None:
    """Show a warning of our own as a sentence; those of libraries are about their future, not about a user's data."""
    if category is UserWarning and "pandas" not in str(message):
        click.echo(f"bigjoin: note: {bounded(message)}", err=True)


def _terminated(*_: object) -> None:
    """End like an interrupt does, with everything that was begun removed."""
    raise KeyboardInterrupt


def _follows_interrupt(error: BaseException | None) -> bool:
    """Tell whether an error was raised while an interrupt was being handled, as Spark does when its result cannot be sent."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _interrupted() -> None:
    if "pyspark" in sys.modules:
        from bigjoin.spark.session import end_jvm

        end_jvm()
    _fail("interrupted", INTERRUPTED)


def _fail(message: str, code: int) -> None:
    click.echo(f"bigjoin: {bounded(message)}", err=True)
    sys.exit(code)


def _code(error: BigjoinError) -> int:
    return FAILURE if isinstance(error, LostError) else USER_ERROR


def _unexpected(error: Exception) -> tuple[str, int]:
    """Return a message and an exit code for an error that bigjoin did not raise itself, or that a Spark task raised."""
    if "pyspark" in sys.modules:
        from bigjoin.spark.failures import meaning

        if (meant := meaning(error)) is not None:
            return str(meant), _code(meant)
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        return f"{error.strerror}{where}", USER_ERROR
    text = str(error)
    if system := re.search(r"^(?:OSError|PermissionError|FileNotFoundError): (.+)$", text, re.MULTILINE):
        return system[1].strip(), USER_ERROR
    first = text.strip().splitlines()[0] if text.strip() else ""
    return f"{type(error).__name__}: {first}\nset BIGJOIN_DEBUG=1 to see where this comes from", FAILURE
