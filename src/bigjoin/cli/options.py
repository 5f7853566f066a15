"""The options that commands share, and the graph that they describe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bigjoin.defaults import BATCH_SIZE, EXCHANGE_BATCH_SIZE, STRATEGIES, RunOptions, StrategyName

if TYPE_CHECKING:
    from bigjoin.languages import Flags

_UNDIRECTED = click.option("--undirected", is_flag=True, help="Read edges in both directions, without loops.")
_MASTER = click.option("--master", metavar="URL", help="Spark master, or sc:// for Spark Connect [default: this machine].")


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


_CONF_HELP = "A setting of Spark; may be repeated. @FILE as VALUE is what a file says: other users see arguments."
conf_option = click.option("--conf", multiple=True, metavar="KEY=VALUE", callback=_settings, help=_CONF_HELP)
"""Settings of the session that a command may start."""
_KINDS_OF_ID = click.Choice(["int", "string"])
_IDS = click.option("--ids", type=_KINDS_OF_ID, default="int", show_default=True, help="Integers, or text such as v000123.")
_QUERY = [
    _UNDIRECTED,
    click.option("--distinct", is_flag=True, help="A match's vertices differ."),
    click.option("--unique", is_flag=True, help="Distinct, and one match for each subgraph (class under automorphisms)."),
    click.option("--induced", is_flag=True, help="Distinct, and no other edge among a match's vertices."),
    click.option("--where", metavar="EXPR", help="Comparisons, for example 'a < b and e.amount > 5'."),
    click.option("--select", metavar="LIST", help="Properties as further columns, for example 'a.name, e.amount'."),
    click.option("--cross-product", is_flag=True, help="Allow a query whose parts share no attribute."),
    click.option("--deduplicate", is_flag=True, help="Rows that differ, where the head leaves attributes out."),
]
_RELATIONS = [
    click.option(
        "--relation",
        "relation_paths",
        multiple=True,
        metavar="NAME=PATH",
        help="A relation of any arity, from a file or an index; may be repeated. Instead of SOURCE.",
    ),
    click.option("--drop-nulls", "relation_nulls", is_flag=True, help="Drop rows of these relations that have a NULL."),
]
_BATCH = (
    "Matches that a task holds at once; where the index is dealt out B', the proposals alive in a worker. Memory follows it "
    f"[default: {BATCH_SIZE:,}; B' {EXCHANGE_BATCH_SIZE:,}]."
)
_STRATEGY = (
    "shared: every task maps the whole index. partitioned: each worker owns a part, and prefixes travel. heavy-light: "
    "the same, but what hangs on hubs is dealt out to all. balanced: everything is, so that all workers get the same work "
    "under any skew."
)
_WORKERS = (
    "Tasks that share the seeds; under the other strategies, who owns keys or answers for them "
    "[default: cores; the index's shards, or 4 a core]."
)
_NO_CACHE = click.option("--no-cache", is_flag=True, help="Build the index anew, and do not keep it.")
_NO_VERIFY = click.option(
    "--no-verify", is_flag=True, help="Trust the files of an index: damaged ones may give wrong answers, or end the process."
)
_RUN = [
    click.option("--strategy", type=click.Choice(STRATEGIES), default="auto", show_default=True, help=_STRATEGY),
    click.option("--workers", type=click.IntRange(min=1), metavar="N", help=_WORKERS),
    click.option("--batch-size", type=click.IntRange(min=1), metavar="N", help=_BATCH),
    _MASTER,
    conf_option,
    _NO_CACHE,
    _NO_VERIFY,
]
_OUTPUT = [
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    click.option("--quiet", is_flag=True, help="No progress on stderr."),
]


@dataclass(frozen=True)
class Options:
    """The shared options of one call."""

    undirected: bool = False
    distinct: bool = False
    unique: bool = False
    induced: bool = False
    where: str | None = None
    select: str | None = None
    cross_product: bool = False
    deduplicate: bool = False
    relation_paths: tuple[str, ...] = ()
    relation_nulls: bool = False
    strategy: StrategyName = "auto"
    workers: int | None = None
    batch_size: int | None = None
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    no_cache: bool = False
    no_verify: bool = False
    as_json: bool = False
    quiet: bool = False

    @property
    def flags(self) -> Flags:
        return {
            "where": self.where,
            "select": self.select,
            "distinct": self.distinct,
            "unique": self.unique,
            "induced": self.induced,
            "cross_product": self.cross_product,
            "deduplicate": self.deduplicate,
        }

    @property
    def run(self) -> RunOptions:
        """What a verb of Graph takes to say how it runs."""
        return {"strategy": self.strategy, "workers": self.workers, "batch_size": self.batch_size}


def with_options(*groups: list[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add groups of options to a command, which receives them as one `options`."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def call(**arguments: Any) -> None:
            shared = {name: arguments.pop(name) for name in Options.__dataclass_fields__ if name in arguments}
            function(options=Options(**shared), **arguments)

        for option in reversed([option for group in groups for option in group]):
            call = option(call)
        return call

    return decorate


query_options = with_options(_QUERY, _RELATIONS, _RUN, _OUTPUT)
"""Everything that a query on a source takes."""

watch_options = with_options(_QUERY, [option for option in _RUN if option is not _NO_CACHE], _OUTPUT)
"""What watching queries takes."""

index_options = with_options([_UNDIRECTED, _MASTER, conf_option], _OUTPUT)
"""What building an index takes."""

generate_options = with_options([_IDS, _MASTER, conf_option], _OUTPUT)
"""What generating a graph takes, whatever the family."""
