"""A file of commands and questions, or what comes from a pipe: run one after the other, each as soon as it is complete."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

import click

from bigjoin.cli.printing import leave_reader
from bigjoin.cli.shell.commands import asking
from bigjoin.cli.shell.session import Quit, ShellSession, sentence_and_code
from bigjoin.cli.shell.texts import Entry, Lines
from bigjoin.cli.source import STDIN, STDIN_NAME
from bigjoin.errors import BigjoinError, QueryCancelledError, bounded


class AlreadyTold(Exception):  # noqa: N818 - what went wrong was said
    """A script has ended with an error, about which everything is said."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def run_script(session: ShellSession, path: str, *, keep_going: bool = False) -> int:
    """Run a script to its end, or to its first error, and return the exit code."""
    try:
        return run_file(session, path, keep_going=keep_going)
    except Quit:
        return 0
    except AlreadyTold as told:
        return told.code
    except BrokenPipeError:  # the reader has seen enough
        leave_reader()
        return 0


def run_file(session: ShellSession, path: str, *, keep_going: bool = False) -> int:
    """Run what a file holds; after an error, go on if that is wanted, and return the first exit code that was not 0."""
    if path in session.including:
        raise BigjoinError(f"{path} includes itself")
    name, first = STDIN_NAME if path == STDIN else path, 0
    with _opened(path) as file:
        session.including.append(path)
        try:
            for entry in script_entries(file, name):
                code = _run(session, entry, name)
                if code and not keep_going:
                    raise AlreadyTold(code)
                first = first or code
        finally:
            session.including.pop()
    return first


def _run(session: ShellSession, entry: Entry, name: str) -> int:
    """Run an entry of a script; say what goes wrong, and where; return the exit code."""
    try:
        session.run(entry.text)
    except (Quit, BrokenPipeError):
        raise
    except AlreadyTold as told:
        return told.code
    except QueryCancelledError:  # by Ctrl-C, which is about the whole script
        raise KeyboardInterrupt from None
    except Exception as error:
        message, code = sentence_and_code(error)
        sys.stdout.flush()
        click.echo(f"bigjoin: {name}:{entry.line}: {bounded(message)}", err=True)
        return code
    return 0


def script_entries(file: Iterable[bytes], name: str) -> Iterator[Entry]:
    """Give the entries of a script as its lines come."""
    lines = Lines(asking())
    for number, line in enumerate(file, 1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise BigjoinError(f"{name}:{number}: the line is not UTF-8") from None
        yield from lines.add(text.rstrip("\r\n"))
    yield from lines.end()


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    """Give the bytes of a file, or of standard input."""
    if path == STDIN and sys.stdin is None:
        raise BigjoinError(f"{STDIN_NAME} is closed")
    with nullcontext(sys.stdin.buffer) if path == STDIN else Path(path).open("rb") as file:
        yield file
