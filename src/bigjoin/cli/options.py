"""The options that commands share: declared once, read into one `Options`; and how a command prints its answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import click

from bigjoin.cli.alone import spare_pandas
from bigjoin.cli.completion import files, query_names
from bigjoin.defaults import BATCH_SIZE, EXCHANGE_BATCH_SIZE, STRATEGIES, Limits, RunOptions
from bigjoin.errors import BigjoinError, OptionError
from bigjoin.languages import Flags, parameter_value
from bigjoin.memory import size_in_bytes
from bigjoin.paths import is_remote
from bigjoin.query.flags import FLAGS
from bigjoin.query.terms import ParameterValue
from bigjoin.reading import JUDGED, ReadingOptions
from bigjoin.storage.place import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bigjoin.cli.progress import Reporter
    from bigjoin.graph import Graph
    from bigjoin.query.statement import Statement
    from bigjoin.relations import Relations

Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

Facts: TypeAlias = dict[str, Any]
"""What a command prints with --json."""

Answer: TypeAlias = tuple[Facts, Iterable[str]]
"""What a command prints: facts with --json, otherwise lines of text."""

Form: TypeAlias = Literal["table", "csv", "json"]
"""How rows are printed."""

PACKAGES = "spark.jars.packages"
"""The setting with the packages that Spark fetches when it starts."""

ROWS_SHOWN = 20
"""Rows shown on a terminal unless somebody asks for another number."""


class OpenSource(Protocol):
    """What stays open from one question to the next, as in a shell."""

    @property
    def paths(self) -> Sequence[str]:
        """The paths of what is open."""

    def asking(
        self, query: Statement, options: Options, *, doing: str, runs: bool
    ) -> AbstractContextManager[tuple[Graph | Relations, Reporter]]:
        """Give what a question is about, with a reporter of progress."""

    def session(self, *, quiet: bool = False) -> SparkSession:
        """Return the session, which may have to start."""


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
    epoch: int | None = None
    as_json: bool = False
    quiet: bool = False
    warm: OpenSource | None = None
    """What is asked instead of a source that the command opens."""
    form: Form | None = None
    """How rows are printed, if somebody has said so once for all commands."""
    rows_shown: int | None = ROWS_SHOWN
    more: str = "--limit N shows more, -o FILE writes all"
    """What to do if these are not enough."""

    @property
    def about_spark(self) -> str | None:
        """The option that says where Spark is, or how it starts, if one is given."""
        if self.master:
            return "--master"
        if self.conf:
            return "--packages" if set(self.conf) == {PACKAGES} else "--conf"
        return None

    def has_source(self, source: str | None) -> bool:
        """Tell whether there is anything to ask."""
        return source is not None or bool(self.relations) or self.warm is not None

    def paths(self, source: str | None) -> list[str]:
        """Return the paths of what is asked, over which nothing may be written."""
        named = [] if source is None else [source]
        return [*named, *self.relations.values(), *(() if self.warm is None else self.warm.paths)]


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
            if packages := given.pop("packages", None):
                known = given["conf"].get(PACKAGES)
                given["conf"][PACKAGES] = ",".join([*filter(None, [known]), *packages])
            spare_pandas()
            function(options=Options(**take(Options.__dataclass_fields__)), **given)

        command: Callable[..., Any] = call
        for name in reversed(names):
            command = _SHARED[name](command)
        return command

    return decorate


class PlaceType(click.Path):
    """A path of this machine, or a URL of a store."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from bigjoin.storage.place import place_of

        return place_of(value) if is_remote(str(value)) else Path(str(super().convert(value, param, ctx)))


PLACE = PlaceType()


def inspection(name: str, inspect: Callable[[Place, Options], Answer]) -> click.Command:
    """Return the command that prints what `inspect` says about the index DIR; its docstring is the help."""

    @click.command(name, help=inspect.__doc__)
    @with_options("directory", *_OUTPUT_OPTIONS)
    def command(directory: Place, options: Options) -> None:
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


def _packages(_: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> list[str]:
    """Return the coordinates of packages."""
    names = [name.strip() for one in given for name in one.split(",")]
    for name in names:
        if not re.fullmatch(r"[^\s:]+:[^\s:]+:[^\s:]+", name):
            raise click.BadParameter(f"{name!r} is no package: write GROUP:ARTIFACT:VERSION", param=parameter)
    return names


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
    "The number of tasks, or of threads under local [default: the cores]. Under strategies that exchange prefixes, the number "
    "of owners of keys [default: the shards of the index, or 4 per core]."
)
_BATCH_SIZE = (
    f"How many matches a task holds at once [default: {BATCH_SIZE:,}]. Under strategies that exchange prefixes, B': how many "
    f"proposals a worker holds at once [default: {EXCHANGE_BATCH_SIZE:,}]. Larger batches take more memory, smaller ones more "
    "rounds, each of which is a Spark job."
)
_EPOCH = "Ask the graph as it was after epoch N, if the index SOURCE keeps that epoch (bigjoin watch --keep-epochs)."
_TIMEOUT = "Stop the query after this many seconds, not counting the start of Spark and the indexing of SOURCE."
_MEMORY = (
    "Stop the query when one of its processes, this one or a Spark task, has taken this much memory, such as 512MB or 2GB. The "
    "mapped files of an index do not count."
)
_CONF = "A Spark setting; may be repeated. KEY=@FILE reads the value from a file: for secrets, since others can see arguments."
_PACKAGES = (
    "A package for Spark from Maven, such as Delta's or Iceberg's, as GROUP:ARTIFACT:VERSION; may be repeated. The same as "
    f"--conf {PACKAGES}=..."
)
_PARAM = "A value for $NAME in Cypher; may be repeated. Numbers, true, false, null and lists ([1, 2]) are read as JSON."
_SEEDS = (
    "Keep only matches with the ids in FILE (.csv, .txt, .parquet, .json), and start the search from them. The columns of FILE "
    "are attributes, and each row restricts them together. ATTRIBUTE=FILE is a list of ids for one attribute. May be repeated."
)
_RELATION = "A relation with any number of columns, from a file or an index; may be repeated. Replaces SOURCE."

_COLUMNS = "Names for the columns of a file without a header; otherwise the columns to read."
_HEADER = "Whether the first line of a text file is a header [default: bigjoin judges, and says so in a note]."

_SHARED: dict[str, Decorator] = {
    "query": click.argument("query", shell_complete=query_names),
    "source": click.argument("source", required=False, shell_complete=files),
    "directory": click.argument("directory", metavar="DIR", type=PLACE),
    "undirected": _flag("undirected", "Read edges in both directions and drop loops."),
    **{flag.name: _flag(flag.name, flag.help) for flag in FLAGS},
    "where": click.option("--where", metavar="EXPR", help="Conditions, such as 'a < b and (e.amount > 5 or e.note is null)'."),
    "select": click.option("--select", metavar="LIST", help="Further columns, such as 'a.name, e.amount * 2 as double'."),
    "parameters": click.option("--param", "parameters", multiple=True, metavar="NAME=VALUE", callback=_parameters, help=_PARAM),
    "seeds": click.option("--seeds", multiple=True, metavar="[ATTRIBUTE=]FILE", shell_complete=files, help=_SEEDS),
    "relations": named_option("--relation", "relations", "PATH", text=_RELATION),
    "src": click.option("--src", metavar="COLUMN", help="The column with the source of an edge: a name, or a position from 1."),
    "dst": click.option("--dst", metavar="COLUMN", help="The column with the target of an edge."),
    "id": click.option("--id", metavar="COLUMN", help="The column with the id of a vertex."),
    "columns": click.option("--columns", metavar="A,B,...", callback=_split, help=_COLUMNS),
    "header": click.option("--header/--no-header", default=None, help=_HEADER),
    "delimiter": click.option("--delimiter", metavar="C", help="What separates columns in a text file, such as ';' or '\\t'."),
    "encoding": click.option("--encoding", metavar="NAME", help="The encoding of text files, such as utf-16 [default: UTF-8]."),
    "drop_nulls": _flag("drop_nulls", "Drop rows with a NULL from the relations of --relation."),
    "strategy": click.option(
        "--strategy", type=click.Choice(["auto", *STRATEGIES]), default="auto", show_default=True, help=_STRATEGY
    ),
    "workers": click.option("--workers", type=click.IntRange(min=1), metavar="N", help=_WORKERS),
    "batch_size": click.option("--batch-size", type=click.IntRange(min=1), metavar="N", help=_BATCH_SIZE),
    "timeout": click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help=_TIMEOUT),
    "memory": click.option("--memory", metavar="SIZE", callback=_size, help=_MEMORY),
    "master": click.option("--master", metavar="URL", help="Spark master, or sc:// for Spark Connect [default: this machine]."),
    "conf": click.option("--conf", multiple=True, metavar="KEY=VALUE", callback=_settings, help=_CONF),
    "packages": click.option("--packages", multiple=True, metavar="G:A:VERSION", callback=_packages, help=_PACKAGES),
    "no_cache": _flag("no_cache", "Build a new index and do not keep it."),
    "no_verify": _flag("no_verify", "Do not check the files of an index; damaged files may then give wrong answers or crash."),
    "epoch": click.option("--epoch", type=click.IntRange(min=0), metavar="N", help=_EPOCH),
    "as_json": click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    "quiet": _flag("quiet", "Show neither progress nor notes on stderr."),
}
"""The arguments and options that several commands have, by the name of their value."""

_OUTPUT_OPTIONS = ("as_json", "quiet")
_READING_OPTIONS = ("src", "dst", "columns", "header", "delimiter", "encoding")
_QUERY_OPTIONS = ("undirected", *(flag.name for flag in FLAGS), "where", "select", "parameters")
_SPARK_OPTIONS = ("master", "conf", "packages")
_RUN_OPTIONS = ("strategy", "workers", "batch_size", *_SPARK_OPTIONS, "no_verify")

_QUESTION_OPTIONS = ("query", "source", *_QUERY_OPTIONS, "seeds", "relations", *_READING_OPTIONS, "drop_nulls")
_LIMIT_OPTIONS = ("timeout", "memory", "no_cache")

query_options = with_options(*_QUESTION_OPTIONS, "epoch", *_RUN_OPTIONS, *_LIMIT_OPTIONS, *_OUTPUT_OPTIONS)
estimate_options = with_options(*_QUESTION_OPTIONS, *_SPARK_OPTIONS, "no_verify", *_LIMIT_OPTIONS, *_OUTPUT_OPTIONS)
watch_options = with_options(*_QUERY_OPTIONS, *_RUN_OPTIONS, *_OUTPUT_OPTIONS)
index_options = with_options(*_READING_OPTIONS, "id", "undirected", *_SPARK_OPTIONS, *_OUTPUT_OPTIONS)
generate_options = with_options(*_SPARK_OPTIONS, *_OUTPUT_OPTIONS)
open_options = with_options("source", "undirected", *_READING_OPTIONS, "no_verify", "no_cache")
shell_options = with_options(
    "source",
    "undirected",
    *(flag.name for flag in FLAGS),
    "relations",
    *_READING_OPTIONS,
    "drop_nulls",
    *_RUN_OPTIONS,
    *_LIMIT_OPTIONS,
    *_OUTPUT_OPTIONS,
)
demo_options = with_options("conf", "packages", "quiet")
replay_options = with_options(*_QUERY_OPTIONS[1:], *_SPARK_OPTIONS, "no_verify", *_OUTPUT_OPTIONS)
inspection_options = with_options("directory", *_OUTPUT_OPTIONS)
conf_option = _SHARED["conf"]
