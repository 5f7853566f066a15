"""One session of a shell: what is open, what is set, which queries have names, and the last question."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import click

from bigjoin.cli.messages import message_and_code
from bigjoin.cli.options import Options
from bigjoin.cli.printing import form_of_rows, print_table
from bigjoin.cli.shell.arguments import Arguments, command_of
from bigjoin.cli.shell.cancelling import Cancelling
from bigjoin.cli.shell.questions import ask
from bigjoin.cli.shell.settings import Settings
from bigjoin.cli.shell.warm import WarmSource
from bigjoin.errors import OptionError, QueryError, did_you_mean
from bigjoin.languages import read
from bigjoin.languages.named import is_name, parse

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
"""Characters of a question that would move the cursor of a terminal."""


_CONTINUES = re.compile(r"(order\s+by|having|limit|and|or|not|where)\b|[,;:]", re.IGNORECASE)
"""What begins a line that goes on with a rule."""


class Quit(Exception):  # noqa: N818 - nothing went wrong
    """The user leaves."""


class ShellSession:
    """Runs commands and answers questions, one after the other."""

    def __init__(self, options: Options, settings: Settings, *, history: Callable[[], Sequence[str]] = list) -> None:
        self.sources, self.settings, self.history = WarmSource(options), settings, history
        self.cancelling = Cancelling()
        self.defined: dict[str, str] = {}
        """The texts of queries that have a name here."""
        self.last: str | None = None
        """The text of the last question."""
        self.including: list[str] = []
        """The files that are being read, one because of the other."""

    def run(self, text: str) -> None:
        """Run a command, or show the rows of a question; whatever goes wrong is raised."""
        from bigjoin.cli.shell.commands import WORDS, command_named

        found = command_of(text)
        if found is None and text.casefold() in WORDS:
            found = WORDS[text.casefold()], ""
        if found is None:
            self.ask("find", Arguments([], [], text, 0))
        elif found[1].strip() in ("--help", "-h"):
            command_named("help").run(self, found[0])
        else:
            command_named(found[0]).run(self, found[1])
        sys.stdout.flush()

    def ask(self, name: str, given: Arguments) -> None:
        """Ask a question, or the last one again, by a command of the command line."""
        text = given.question or self.last
        if text is None:
            raise click.UsageError("there is no question yet: write one, as in \\count triangle")
        self.last = text
        meant = self.defined.get(text, text)
        with self.cancelling.running() as cancel, self._timed():
            try:
                asked = replace(given, question=meant)
                ask(name, asked, sources=self.sources, settings=self.settings, cancel=cancel)
            except QueryError as error:
                raise self._hinted(error, text) from None

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """Say how long the block took, and how much longer Spark took to start, if that is wanted."""
        began, waited = time.perf_counter(), self.sources.spark.seconds
        yield
        sys.stdout.flush()
        if self.settings.is_on("timing"):
            waited = self.sources.spark.seconds - waited
            more = f", and {waited:.1f} s until Spark had started" if waited else ""
            click.echo(f"{time.perf_counter() - began - waited:.3f} s{more}", err=True)

    def define(self, name: str, text: str) -> None:
        """Give a question a name."""
        if not is_name(name) or not name[0].isalpha():
            raise OptionError(f"{name!r} is no name: begin with a letter, and use letters, digits, _ and -")
        try:
            parse(name)
        except QueryError:
            read(text)  # report a mistake now
            self.defined[name] = text
        else:
            raise OptionError(f"{name!r} is the name of a query that is known everywhere; choose another")

    def print_listing(self, table: object) -> None:
        """Print what a command lists."""
        print_table(table, form_of_rows(Options(form=self.settings.form)))

    def _hinted(self, error: QueryError, text: str) -> QueryError:
        """Return an error with a better hint, if a word of the shell was meant."""
        from bigjoin.cli.shell.commands import command_names

        word = re.match(r"[^\W\d][\w-]*", text)
        if word is not None and word[0].casefold() in command_names():
            return QueryError(error.message, error.span, f"did you mean the command \\{word[0].casefold()}?")
        if _CONTINUES.match(text):
            hint = "does it go on with the text before? Then put it in that line, or end that line with a backslash"
            return QueryError(error.message, error.span, hint)
        if is_name(text) and (meant := did_you_mean(text, self.defined)):
            return QueryError(error.message, error.span, meant)
        return error


def sentence_and_code(error: BaseException) -> tuple[str, int]:
    """Return what to say about an error, and the exit code of a script that it ends."""
    if isinstance(error, click.ClickException):
        message, code = error.format_message(), error.exit_code
    else:
        message, code = message_and_code(error)
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", message), code
