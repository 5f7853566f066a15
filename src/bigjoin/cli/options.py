"""The options that commands share: declared once, read into one `Options`; and how a command prints its answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, TypeAlias

import click

from bigjoin.cli.alone import spare_pandas
from bigjoin.defaults import BATCH_SIZE, EXCHANGE_BATCH_SIZE, STRATEGIES, Limits, RunOptions
from bigjoin.errors import BigjoinError, OptionError
from bigjoin.languages import Flags, parameter_value
from bigjoin.memory import size_in_bytes
from bigjoin.query.flags import FLAGS
from bigjoin.query.terms import ParameterValue
from bigjoin.reading import JUDGED, ReadingOptions

Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

Facts: TypeAlias = dict[str, Any]
"""What a command prints with --json."""

Answer: TypeAlias = tuple[Facts, Iterable[str]]
"""What a command prints: facts with --json, otherwise lines of text."""


@dataclass(frozen=True)
class Options:
    """The shared options of one command."""

    undirected: bool = False
    flags: Flags = field(default_factory=Flags)
    run: RunOptions = field(default_factory=lambda: RunOptions(strategy="auto", workers=None, batch_size=None))
    limits: Limits = field(default_factory=Limits)
    reading: ReadingOptions = JUDGED
    relations: Mapping[str, str] = field(default_factory=dict)
    drop_nulls: bool = False
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    no_cache: bool = False
    no_verify: bool = False
    as_json: bool = False
    quiet: bool = False


def answer(options: Options, facts: Facts, lines: Iterable[str]) -> None:
    """Print the answer of a command: an object with --json, otherwise lines."""
    click.echo(json.dumps(facts, default=str) if options.as_json else "\n".join(lines))


def with_options(*names: str) -> Decorator:
    """Declare shared options of a command, which receives the fields of `Options` as one argument, `options`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(**given: Any) -> None:
            def take(names: Iterable[str]) -> dict[str, Any]:
                return {name: given.pop(name) for name in names if name in given}

            for group, kind in (("flags", Flags), ("run", RunOptions), ("limits", Limits)):
                if members := take(kind.__annotations__):
                    given[group] = members
            if said := take(ReadingOptions.__dataclass_fields__):
                given["reading"] = ReadingOptions(**said)
            spare_pandas()
            function(options=Options(**take(Options.__dataclass_fields__)), **given)

        command: Callable[..., Any] = call
        for name in reversed(names):
            command = _SHARED[name](command)
        return command

    return decorate


def inspection(name: str, inspect: Callable[[Path, Options], Answer]) -> click.Command:
    """Return the command that prints what `inspect` says about the index DIR; its docstring is the help."""

    @click.command(name, help=inspect.__doc__)
    @with_options("directory", *_OUTPUT_OPTIONS)
    def command(directory: Path, options: Options) -> None:
        answer(options, *inspect(directory, options))

    return command


def named_option(option: str, argument: str, what: str, *, text: str, example: str = "") -> Decorator:
    """Return an option that takes NAME=`what`, may be repeated, and gives a mapping."""

    def read(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
        values: dict[str, str] = {}
        for one in given:
            name, value = one.partition("=")[::2]
            if not value.strip():
                raise click.UsageError(f"{option} {one}: write NAME={what}{example}")
            if name in values:
                raise click.UsageError(f"{option} {one}: there are two relations {name!r}")
            values[name] = value
        return values

    return click.option(option, argument, multiple=True, metavar=f"NAME={what}", callback=read, help=text)


def _settings(_: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Return Spark's settings by key. A value may be a secret, so no message repeats one."""
    settings = {}
    for setting in given:
        key, equals, value = setting.partition("=")
        if not (key := key.strip()) or not equals:
            message = f"{key + equals!r} is not a setting: write KEY=VALUE, as in spark.executor.memory=4g"
            raise click.BadParameter(message, param=parameter)
        if value.startswith("@"):
            try:
                value = Path(value[1:]).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                why = (isinstance(error, OSError) and error.strerror) or "it is not text"
                raise click.BadParameter(f"{key}: cannot read {value[1:]}: {why}", param=parameter) from None
        settings[key] = value
    return settings


def _parameters(_: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, ParameterValue]:
    """Return parameters by name: numbers, true, false, null and lists as JSON has them, everything else as text."""
    values: dict[str, ParameterValue] = {}
    for one in given:
        name, equals, text = one.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{one!r} is no parameter: write NAME=VALUE, as in --param least=100", param=parameter)
        try:
            values[name.strip().removeprefix("$")] = parameter_value(name, text)
        except OptionError as error:
            raise click.BadParameter(str(error), param=parameter) from None
    return values


def _size(_: click.Context, parameter: click.Parameter, given: str | None) -> int | None:
    try:
        return None if given is None else size_in_bytes(given)
    except BigjoinError as error:
        raise click.BadParameter(str(error), param=parameter) from None


def _split(_: click.Context, __: click.Parameter, names: str | None) -> list[str] | None:
    return [name.strip() for name in names.split(",")] if names else None


def _flag(name: str, text: str) -> Decorator:
    return click.option(f"--{name.replace('_', '-')}", is_flag=True, help=text)


_STRATEGY = " ".join(f"{name}: {entry.help}." for name, entry in STRATEGIES.items())
_WORKERS = (
    "The number of tasks, or of threads under local [default: the cores]; under strategies that exchange prefixes, the number "
    "of owners of keys [default: the shards of the index, or 4 per core]."
)
_BATCH_SIZE = (
    f"Matches that a task holds at once [default: {BATCH_SIZE:,}]; under strategies that exchange prefixes, B', the proposals "
    f"alive in a worker [default: {EXCHANGE_BATCH_SIZE:,}]. Memory grows with it."
)
_TIMEOUT = "Stop the query after this many seconds, not counting the start of Spark and the indexing of SOURCE."
_MEMORY = (
    "Stop the query once a process that works for it, this one or a task of Spark, has taken this much memory, such as 512MB "
    "or 2GB; the mapped files of an index do not count."
)
_CONF = "A Spark setting; may be repeated. KEY=@FILE reads the value from a file, since other users can see arguments."
_PARAM = "The value of $NAME in a Cypher text; may be repeated. Numbers, true, false, null and lists ([1, 2]) are read as JSON."
_SEEDS = (
    "Keep only matches with the ids in FILE (.csv, .txt, .parquet, .json). Its columns are attributes, which each row "
    "restricts jointly; ATTRIBUTE=FILE is a list of one attribute's ids. May be repeated; the join starts from the seeds."
)
_RELATION = "A relation of any arity, from a file or an index; may be repeated. Replaces SOURCE."

_COLUMNS = "Names for the columns of a file without a header; otherwise the columns to read."
_HEADER = "Whether the first line of text is a header [default: judged, with a note]."

_SHARED: dict[str, Decorator] = {
    "query": click.argument("query"),
    "source": click.argument("source", required=False),
    "directory": click.argument("directory", metavar="DIR", type=click.Path(path_type=Path)),
    "undirected": _flag("undirected", "Read edges in both directions and drop loops."),
    **{flag.name: _flag(flag.name, flag.help) for flag in FLAGS},
    "where": click.option("--where", metavar="EXPR", help="Conditions, such as 'a < b and (e.amount > 5 or e.note is null)'."),
    "select": click.option("--select", metavar="LIST", help="Further columns, for example 'a.name, e.amount * 2 as double'."),
    "parameters": click.option("--param", "parameters", multiple=True, metavar="NAME=VALUE", callback=_parameters, help=_PARAM),
    "seeds": click.option("--seeds", multiple=True, metavar="[ATTRIBUTE=]FILE", help=_SEEDS),
    "relations": named_option("--relation", "relations", "PATH", text=_RELATION),
    "src": click.option("--src", metavar="COLUMN", help="The column of edges' sources: its name, or its position from 1."),
    "dst": click.option("--dst", metavar="COLUMN", help="The column of edges' targets."),
    "id": click.option("--id", metavar="COLUMN", help="The column of the vertices' ids."),
    "columns": click.option("--columns", metavar="A,B,...", callback=_split, help=_COLUMNS),
    "header": click.option("--header/--no-header", default=None, help=_HEADER),
    "delimiter": click.option("--delimiter", metavar="C", help="What separates the columns of text, such as ';' or '\\t'."),
    "encoding": click.option("--encoding", metavar="NAME", help="The encoding of text, such as utf-16 [default: UTF-8]."),
    "drop_nulls": _flag("drop_nulls", "Drop rows of these relations that contain a NULL."),
    "strategy": click.option(
        "--strategy", type=click.Choice(["auto", *STRATEGIES]), default="auto", show_default=True, help=_STRATEGY
    ),
    "workers": click.option("--workers", type=click.IntRange(min=1), metavar="N", help=_WORKERS),
    "batch_size": click.option("--batch-size", type=click.IntRange(min=1), metavar="N", help=_BATCH_SIZE),
    "timeout": click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help=_TIMEOUT),
    "memory": click.option("--memory", metavar="SIZE", callback=_size, help=_MEMORY),
    "master": click.option("--master", metavar="URL", help="Spark master, or sc:// for Spark Connect [default: this machine]."),
    "conf": click.option("--conf", multiple=True, metavar="KEY=VALUE", callback=_settings, help=_CONF),
    "no_cache": _flag("no_cache", "Build a new index, and do not keep it."),
    "no_verify": _flag("no_verify", "Trust the files of an index; damaged files may give wrong answers or a crash."),
    "as_json": click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    "quiet": _flag("quiet", "Show neither progress nor notes on stderr."),
}
"""The arguments and options that several commands have, by the name of their value."""

_OUTPUT_OPTIONS = ("as_json", "quiet")
_READING_OPTIONS = ("src", "dst", "columns", "header", "delimiter", "encoding")
_QUERY_OPTIONS = ("undirected", *(flag.name for flag in FLAGS), "where", "select", "parameters")
_RUN_OPTIONS = ("strategy", "workers", "batch_size", "master", "conf", "no_verify")

_QUESTION_OPTIONS = ("query", "source", *_QUERY_OPTIONS, "seeds", "relations", *_READING_OPTIONS, "drop_nulls")
_LIMIT_OPTIONS = ("timeout", "memory", "no_cache")

query_options = with_options(*_QUESTION_OPTIONS, *_RUN_OPTIONS, *_LIMIT_OPTIONS, *_OUTPUT_OPTIONS)
estimate_options = with_options(*_QUESTION_OPTIONS, "master", "conf", "no_verify", *_LIMIT_OPTIONS, *_OUTPUT_OPTIONS)
watch_options = with_options(*_QUERY_OPTIONS, *_RUN_OPTIONS, *_OUTPUT_OPTIONS)
index_options = with_options(*_READING_OPTIONS, "id", "undirected", "master", "conf", *_OUTPUT_OPTIONS)
generate_options = with_options("master", "conf", *_OUTPUT_OPTIONS)
demo_options = with_options("conf", "quiet")
conf_option = _SHARED["conf"]
