"""The options that commands share, how they are read, and how a command prints its answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import click

from bigjoin.defaults import BATCH_SIZE, EXCHANGE_BATCH_SIZE, STRATEGIES, RunOptions
from bigjoin.languages import Flags
from bigjoin.query.flags import FLAGS


@dataclass(frozen=True)
class Options:
    """The shared options of one call of a command."""

    undirected: bool = False
    flags: Flags = field(default_factory=Flags)
    run: RunOptions = field(default_factory=lambda: RunOptions(strategy="auto", workers=None, batch_size=None))
    relations: Mapping[str, str] = field(default_factory=dict)
    drop_nulls: bool = False
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    no_cache: bool = False
    no_verify: bool = False
    as_json: bool = False
    quiet: bool = False


def with_options(*groups: list[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add groups of options to a command, which receives them as one `options`."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def call(**arguments: Any) -> None:
            def taken(fields: Iterable[str]) -> dict[str, Any]:
                return {name: arguments.pop(name) for name in fields if name in arguments}

            for group, kind in (("flags", Flags), ("run", RunOptions)):
                if found := taken(kind.__annotations__):
                    arguments[group] = found
            function(options=Options(**taken(Options.__dataclass_fields__)), **arguments)

        for option in reversed([option for group in groups for option in group]):
            call = option(call)
        return call

    return decorate


def named_option(option: str, argument: str, what: str, *, text: str, example: str = "") -> Callable[[Any], Any]:
    """Return an option that takes NAME=`what`, for one name after another, and gives a mapping."""

    def read(_: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
        values: dict[str, str] = {}
        for one in given:
            name, equals, value = one.partition("=")
            if not equals or not value.strip():
                raise click.UsageError(f"{parameter.opts[0]} {one}: write NAME={what}{example}")
            if name in values:
                raise click.UsageError(f"{parameter.opts[0]} {one}: there are two relations {name!r}")
            values[name] = value
        return values

    return click.option(option, argument, multiple=True, metavar=f"NAME={what}", callback=read, help=text)


def _settings(_: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Return settings of Spark by their keys. Values may be secrets, so no message repeats one."""
    settings = {}
    for setting in given:
        key, equals, value = setting.partition("=")
        if not (key := key.strip()) or not equals:
            shown = f"{key}=" if equals else key
            raise click.BadParameter(
                f"{shown!r} is no setting: write KEY=VALUE, as in spark.executor.memory=4g", param=parameter
            )
        if value.startswith("@"):
            try:
                value = Path(value[1:]).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                why = (isinstance(error, OSError) and error.strerror) or "it is no text"
                raise click.BadParameter(f"{key}: cannot read {value[1:]}: {why}", param=parameter) from None
        settings[key] = value
    return settings


def answer(options: Options, facts: Mapping[str, Any], lines: Iterable[str]) -> None:
    """Print what a command has found: an object with --json, else lines."""
    click.echo(json.dumps(facts, default=str) if options.as_json else "\n".join(lines))


_CONF = "A setting of Spark; may be repeated. With @FILE as VALUE it is read from a file, as other users can see arguments."
_BATCH_SIZE = (
    "Matches that a task holds at once; under strategies that exchange prefixes B', the proposals alive in a worker. Memory "
    f"grows with it [default: {BATCH_SIZE:,}; B' {EXCHANGE_BATCH_SIZE:,}]."
)
_STRATEGY = (
    "shared: every task maps the whole index. partitioned: each worker owns a part, and prefixes travel. heavy-light: "
    "the same, but the work of hubs is dealt out to all workers. balanced: all work is, so that every worker gets the same "
    "share under any skew."
)
_RELATION = "A relation of any arity, from a file or an index; may be repeated. Instead of SOURCE."
_NO_VERIFY = "Trust the files of an index: damaged ones may give wrong answers or a crash."
_WORKERS = (
    "Tasks that share the seeds; under the other strategies, the owners of keys "
    "[default: cores; the index's shards, or 4 a core]."
)
_UNDIRECTED = click.option("--undirected", is_flag=True, help="Read edges in both directions, without loops.")
_MASTER = click.option("--master", metavar="URL", help="Spark master, or sc:// for Spark Connect [default: this machine].")
_NO_CACHE = click.option("--no-cache", is_flag=True, help="Build the index anew, and do not keep it.")
_QUIET = click.option("--quiet", is_flag=True, help="No progress on stderr.")
conf_option = click.option("--conf", multiple=True, metavar="KEY=VALUE", callback=_settings, help=_CONF)

_QUERY = [
    _UNDIRECTED,
    *(click.option(flag.option, is_flag=True, help=flag.help) for flag in FLAGS if flag.injective),
    click.option("--where", metavar="EXPR", help="Comparisons, for example 'a < b and e.amount > 5'."),
    click.option("--select", metavar="LIST", help="Properties as further columns, for example 'a.name, e.amount'."),
    *(click.option(flag.option, is_flag=True, help=flag.help) for flag in FLAGS if not flag.injective),
]
_RELATIONS = [
    named_option("--relation", "relations", "PATH", text=_RELATION),
    click.option("--drop-nulls", is_flag=True, help="Drop rows of these relations that have a NULL."),
]
_RUN = [
    click.option("--strategy", type=click.Choice(STRATEGIES), default="auto", show_default=True, help=_STRATEGY),
    click.option("--workers", type=click.IntRange(min=1), metavar="N", help=_WORKERS),
    click.option("--batch-size", type=click.IntRange(min=1), metavar="N", help=_BATCH_SIZE),
    _MASTER,
    conf_option,
    _NO_CACHE,
    click.option("--no-verify", is_flag=True, help=_NO_VERIFY),
]
_OUTPUT = [click.option("--json", "as_json", is_flag=True, help="Print JSON."), _QUIET]

query_options = with_options(_QUERY, _RELATIONS, _RUN, _OUTPUT)
watch_options = with_options(_QUERY, [option for option in _RUN if option is not _NO_CACHE], _OUTPUT)
index_options = with_options([_UNDIRECTED, _MASTER, conf_option], _OUTPUT)
generate_options = with_options([_MASTER, conf_option], _OUTPUT)
demo_options = with_options([conf_option, _QUIET])
output_options = with_options(_OUTPUT)
