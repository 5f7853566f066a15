"""The commands of a shell: a table, in the order of the help, and what each does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from bigjoin.cli.options import Options, open_options
from bigjoin.cli.shell.arguments import Arguments, Syntax, words_of
from bigjoin.cli.shell.listings import queries_listed, relations_listed, settings_listed
from bigjoin.cli.shell.questions import syntax_of
from bigjoin.cli.shell.session import Quit
from bigjoin.cli.source import STDIN, STDIN_NAME
from bigjoin.defaults import RunOptions, StrategyName
from bigjoin.errors import OptionError, did_you_mean

if TYPE_CHECKING:
    from bigjoin.cli.shell.session import ShellSession

PICTURES = (".svg", ".html")
HISTORY_SHOWN = 20
"""Entries that \\history shows."""


@dataclass(frozen=True)
class ShellCommand:
    """A command of the shell."""

    name: str
    usage: str
    """What follows its name."""
    help: str
    run: Callable[[ShellSession, str], None]
    asks: str | None = None
    """The command of the command line that answers the question behind it."""
    words: int = 0
    """How many words come before that question."""
    completes: str = ""
    """What its first word is: a file, a setting, or a command."""

    @property
    def syntax(self) -> Syntax:
        """How its line is taken apart."""
        if self.name == "define":
            return Syntax(words=1, equals=True)
        assert self.asks is not None
        return syntax_of(self.asks, words=self.words)


@click.command("open", add_help_option=False)
@open_options
def _open(source: str | None, session: ShellSession, options: Options) -> None:
    if source is None:
        raise click.UsageError("\\open needs a path: an edge list, Parquet, JSON, or an index")
    if source == STDIN and STDIN in session.including:
        raise click.UsageError(f"- is {STDIN_NAME}, from which the commands come")
    with session.cancelling.running():
        session.sources.open(_path(source), _as_set(session, options))


def _asking(name: str, *before: str) -> Callable[[ShellSession, str], None]:
    """Return what asks a question by a command of the command line, with options before those that are given."""

    def run(session: ShellSession, rest: str) -> None:
        given = syntax_of(name).split(rest)
        session.ask(name, replace(given, options=[*before, *given.options]))

    return run


def _with_word(name: str, option: str, missing: str) -> Callable[[ShellSession, str], None]:
    """Return what asks a question, and takes the first word as the value of an option."""

    def run(session: ShellSession, rest: str) -> None:
        given = syntax_of(name, words=1).split(rest)
        if not given.words:
            raise click.UsageError(missing)
        session.ask(name, replace(given, options=[option, *given.words, *given.options]))

    return run


def _draw(session: ShellSession, rest: str) -> None:
    given = syntax_of("draw").split(rest)
    question, _, file = given.question.rpartition(" ")
    if "--degrees" in given.options:
        question = question or "q(a) := vertex(a)"
    if not file.casefold().endswith(PICTURES):
        raise click.UsageError("\\draw needs a file at the end, which ends in .svg or .html: \\draw QUERY FILE.svg")
    session.ask("draw", Arguments([*given.options, "-o", file], [], question.strip(), given.start))


def _open_source(session: ShellSession, rest: str) -> None:
    with _open.make_context("open", words_of(rest)) as context:
        assert _open.callback is not None
        _open.callback(**context.params, session=session)


def _as_set(session: ShellSession, options: Options) -> Options:
    """Return options with the settings that matter when a source is opened."""
    strategy = cast("StrategyName", session.settings.text_of("strategy") or "auto")
    run = RunOptions(strategy=strategy, workers=None, batch_size=None)
    return replace(options, quiet=session.settings.is_on("quiet"), run=run)


def _relate(session: ShellSession, rest: str) -> None:
    words = words_of(rest)
    if len(words) != 2:
        raise click.UsageError("write \\relation NAME PATH")
    name, path = words
    options = _as_set(session, session.sources.options)
    before = session.sources.opened
    with session.cancelling.running():
        session.sources.relate(name, _path(path), options)
    if before is not None and before.source is not None and not options.quiet:
        click.echo(f"bigjoin: note: {before.name} is closed: questions are about relations now", err=True)


def _refresh(session: ShellSession, rest: str) -> None:
    _check_alone("refresh", rest)
    with session.cancelling.running():
        session.sources.refresh(_as_set(session, session.sources.options))


def _list_relations(session: ShellSession, rest: str) -> None:
    _check_alone("relations", rest)
    with session.cancelling.running():
        session.print_listing(relations_listed(session.sources.check_open()))


def _list_queries(session: ShellSession, rest: str) -> None:
    _check_alone("queries", rest)
    session.print_listing(queries_listed(session.defined))


def _define(session: ShellSession, rest: str) -> None:
    given = Syntax(words=1, equals=True).split(rest)
    if not given.words or not (given.question or session.last):
        raise click.UsageError("write \\define NAME = QUERY")
    session.define(given.words[0], given.question or session.last or "")


def _set(session: ShellSession, rest: str) -> None:
    words = words_of(rest)
    if not words:
        session.print_listing(settings_listed(session.settings))
    else:
        session.settings.set(words[0], " ".join(words[1:]) if len(words) > 1 else None)


def _unset(session: ShellSession, rest: str) -> None:
    words = words_of(rest)
    if not words:
        raise click.UsageError("write \\unset NAME")
    for name in words:
        session.settings.unset(name)


def _time(session: ShellSession, rest: str) -> None:
    words = words_of(rest)
    if len(words) > 1:
        raise click.UsageError("write \\timing on or \\timing off")
    session.settings.set("timing", words[0] if words else ("on", "off")[session.settings.is_on("timing")])


def _include(session: ShellSession, rest: str) -> None:
    from bigjoin.cli.shell.script import run_file

    words = words_of(rest)
    if len(words) != 1:
        raise click.UsageError("write \\include FILE")
    run_file(session, _path(words[0]))


def _path(given: str) -> str:
    """Return a path without a ~, which no other program has replaced."""
    return str(Path(given).expanduser()) if given.startswith("~") else given


def _list_history(session: ShellSession, rest: str) -> None:
    words = words_of(rest)
    if len(words) > 1 or not all(word.isdecimal() for word in words):
        raise click.UsageError("write \\history, or \\history N")
    known = session.history()
    for text in known[-int(words[0]) if words else -HISTORY_SHOWN :] if words != ["0"] else ():
        click.echo(text)


def _quit(_: ShellSession, rest: str) -> None:
    _check_alone("quit", rest)
    raise Quit


def _help(session: ShellSession, rest: str) -> None:
    from bigjoin.cli.shell.help import help_of, overview

    del session
    click.echo(help_of(command_named(rest.strip().removeprefix("\\"))) if rest.strip() else overview())


def _check_alone(name: str, rest: str) -> None:
    if rest.strip():
        raise click.UsageError(f"\\{name} stands alone")


_QUESTION = "[OPTIONS] [QUERY]"

SHELL_COMMANDS = (
    ShellCommand("find", _QUESTION, "Show the rows of QUERY, as QUERY alone does.", _asking("find"), "find"),
    ShellCommand("count", _QUESTION, "Count the matches of QUERY.", _asking("count"), "count"),
    ShellCommand("exists", _QUESTION, "Say whether QUERY has a match.", _asking("count", "--exists"), "count"),
    ShellCommand(
        "by",
        "LIST [QUERY]",
        "Count the matches of QUERY for each value of LIST, which is quoted if there are spaces in it: \\by 'a, b.city' QUERY.",
        _with_word("count", "--by", "write \\by LIST QUERY, as in \\by a1 triangle"),
        "count",
        1,
    ),
    ShellCommand("estimate", _QUESTION, "Estimate how many matches QUERY has.", _asking("estimate"), "estimate"),
    ShellCommand(
        "explain",
        _QUESTION,
        "Show the plan of QUERY; \\explain+ also runs it, and shows what each step did (as --analyze does).",
        _asking("explain"),
        "explain",
    ),
    ShellCommand(
        "output",
        "FILE [QUERY]",
        "Write the rows of QUERY to a .parquet, .csv or .json file, which appears when it is complete.",
        _with_word("find", "-o", "write \\output FILE QUERY; FILE ends in .parquet, .csv or .json"),
        "find",
        1,
        "file",
    ),
    ShellCommand("draw", "[OPTIONS] [QUERY] FILE", "Draw the pattern of QUERY to a .svg or .html file.", _draw, "draw"),
    ShellCommand(
        "open",
        "PATH [OPTIONS]",
        "Open a graph, in place of what is open: an edge list, Parquet, JSON, or an index.",
        _open_source,
        completes="file",
    ),
    ShellCommand(
        "relation",
        "NAME PATH",
        "Add a relation, for joins of any relations; a graph that is open is closed.",
        _relate,
        completes="relation",
    ),
    ShellCommand(
        "refresh",
        "",
        "Read what is open again. An index that has changed is opened again by itself, before the next question.",
        _refresh,
    ),
    ShellCommand("relations", "", "List the relations, their columns and sizes.", _list_relations),
    ShellCommand("queries", "", "List the queries that have names.", _list_queries),
    ShellCommand("define", "NAME = [QUERY]", "Give QUERY a name, for this session.", _define, words=1),
    ShellCommand(
        "set",
        "[NAME [VALUE]]",
        "Set an option for all questions that follow, or list all; $NAME is a parameter of Cypher.",
        _set,
        completes="setting",
    ),
    ShellCommand("unset", "NAME", "Have the default of an option again.", _unset, completes="setting"),
    ShellCommand("timing", "[on|off]", "Say how long each answer took.", _time, completes="switch"),
    ShellCommand("include", "FILE", "Run the commands and questions in a file.", _include, completes="file"),
    ShellCommand("history", "[N]", "Show the last entries.", _list_history),
    ShellCommand("help", "[COMMAND]", "Explain a command, or list all.", _help, completes="command"),
    ShellCommand("quit", "", "Leave, as Ctrl-D does.", _quit),
)

ALIASES = {"o": "output", "d": "relations", "i": "include", "s": "history", "h": "help", "?": "help", "q": "quit"}
"""Short names, which are those of other shells."""

WORDS = {"help": "help", "quit": "quit", "exit": "quit"}
"""What is a command also without its backslash."""


@cache
def command_names() -> frozenset[str]:
    """Return the names of all commands."""
    return frozenset(command.name for command in SHELL_COMMANDS)


def command_named(name: str) -> ShellCommand:
    """Return the command of a name; refuse any other, with the most similar one."""
    if name == "explain+":
        return replace(command_named("explain"), run=_asking("explain", "--analyze"))
    found = next((command for command in SHELL_COMMANDS if command.name == ALIASES.get(name, name)), None)
    if found is None:
        hint = did_you_mean(name, command_names())
        hint = "\\help lists them" if hint is None else hint.replace("'", "\\", 1).replace("'", "")
        raise OptionError(f"there is no command \\{name}; {hint}")
    return found


@cache
def asking() -> Mapping[str, Syntax]:
    """Return how the lines of commands are taken apart behind which a question stands, also by their short names."""
    found = {one.name: one.syntax for one in SHELL_COMMANDS if one.asks is not None or one.name == "define"}
    return found | {short: found[name] for short, name in ALIASES.items() if name in found}
