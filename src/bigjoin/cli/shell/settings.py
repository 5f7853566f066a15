r"""What \set sets: options that commands get unless they are given others, and how the shell prints.

The options are those of the commands themselves, so their values mean the same, and are refused for the same reasons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import click

from bigjoin.cli.estimate import estimate
from bigjoin.cli.find import find
from bigjoin.cli.options import Form
from bigjoin.errors import OptionError, did_you_mean
from bigjoin.languages import parameter_value
from bigjoin.query.flags import FLAGS

FORMATS = ("table", "csv", "json")
ALL = "all"
"""The limit that stands for none, also on a terminal."""
ROWS_SHOWN_AT_ONCE = 100
"""Rows that a terminal shows of a result, unless a limit is set."""

_SHARED = ("strategy", "workers", "batch_size", "timeout", "memory", "limit", "max_rows", "seconds", "precision")
_OWN = (
    click.Option(["--format"], type=click.Choice(FORMATS), help="How rows are printed [default: a table, or CSV on a pipe]."),
    click.Option(["--timing"], is_flag=True, help="Say how long each answer took."),
    click.Option(["--quiet"], is_flag=True, help="Show neither progress nor notes on stderr."),
)


_CHANGING_DEFAULTS = {
    "workers": "by strategy",
    "batch_size": "by strategy",
    "limit": f"{ROWS_SHOWN_AT_ONCE} on a terminal",
    "format": "table, or csv on a pipe",
}
"""Defaults that depend on something else; the help of the options says more."""

_ABOUT = {
    "strategy": "Where a question runs, and how its work is divided",
    "seconds": "Roughly how long an estimate may take",
    "precision": "The half-width of an estimate's interval to aim for, as a share of the count",
}
"""What settings are about whose help is for one command, or explains each value."""


def _settable() -> dict[str, click.Option]:
    given = {option.name: option for command in (estimate, find) for option in command.params}
    wanted = (*_SHARED, *(flag.name for flag in FLAGS))
    shared = {name: option for name in wanted if isinstance(option := given.get(name), click.Option)}
    return {**shared, **{str(option.name): option for option in _OWN}}


SETTABLE = _settable()
"""What can be set, by name."""


@dataclass(frozen=True)
class GivenValue:
    """A value as it was written, and as it was read."""

    text: str
    value: object


class Settings:
    """The values that are set, by name; a name with a $ is that of a parameter of Cypher."""

    def __init__(self, *, timing: bool = False) -> None:
        self._given: dict[str, GivenValue] = {}
        self._without = {"timing": timing, "quiet": False}
        """Own settings that are not set."""

    def set(self, name: str, text: str | None) -> None:
        """Set a value; a flag without one is turned on."""
        if name.startswith("$"):
            if text is None or not name[1:].isidentifier():
                raise click.UsageError(f"{name} is a parameter of Cypher: write \\set $NAME VALUE")
            self._given[name] = GivenValue(text, parameter_value(name, text))
            return
        name = known_setting(name)
        option = SETTABLE[name]
        if text is None:
            if not option.is_flag:
                raise click.UsageError(f"\\set {name} needs a value: {values_of(name) or option.metavar or 'VALUE'}")
            text = "on"
        if name == "limit" and text.casefold() == ALL:
            self._given[name] = GivenValue(ALL, None)
            return
        try:
            value = option.process_value(click.Context(click.Command("set")), text)
        except click.BadParameter as error:
            raise OptionError(f"{name}: {error.message}") from None
        self._given[name] = GivenValue(text, value)

    def unset(self, name: str) -> None:
        """Have the default again."""
        self._given.pop(name if name.startswith("$") else known_setting(name), None)

    def give(self, name: str, value: object) -> None:
        """Set a value that was read already."""
        self._given[name] = GivenValue(("off", "on")[value] if isinstance(value, bool) else str(value), value)

    def text_of(self, name: str) -> str | None:
        """Return a value as it was written; None if it is not set."""
        return self._given[name].text if name in self._given else None

    def is_on(self, name: str) -> bool:
        """Tell whether something of the shell itself is on."""
        return bool(self._given[name].value) if name in self._given else self._without[name]

    @property
    def form(self) -> Form | None:
        """How rows are printed, if that is set."""
        found = self._given.get("format")
        return None if found is None else next(form for form in ("table", "csv", "json") if form == found.value)

    @property
    def rows_shown(self) -> int | None:
        """How many rows a terminal shows of a result."""
        return None if "limit" in self._given and self._given["limit"].value is None else ROWS_SHOWN_AT_ONCE

    def defaults_for(self, command: click.Command, question: str) -> dict[str, object]:
        """Return what options of a command are if they are not given; parameters only if the question has them."""
        names = {option.name for option in command.params}
        found: dict[str, object] = {
            name: given.value if isinstance(given.value, bool) else given.text
            for name, given in self._given.items()
            if name in names and not (name == "limit" and given.value is None)
        }
        parameters = [f"{name[1:]}={given.text}" for name, given in self._given.items() if name[0] == "$" and name in question]
        return {**found, "parameters": parameters} if parameters and "parameters" in names else found

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Give the name of each setting, its value, and what it is about."""
        for name, option in SETTABLE.items():
            about = _ABOUT.get(name) or (option.help or "").split(". ")[0].split(" [")[0].rstrip(".")
            choices = "" if option.is_flag else values_of(name)
            yield name, self._shown_value(name), f"{about}: {choices}" if choices else about
        for name, given in self._given.items():
            if name.startswith("$"):
                yield name, given.text, "A parameter of Cypher"

    def _shown_value(self, name: str) -> str:
        """Return a value as it was written; if it is not set, the default."""
        option = SETTABLE[name]
        if name in self._given:
            return self._given[name].text
        if name in _CHANGING_DEFAULTS:
            return _CHANGING_DEFAULTS[name]
        if option.is_flag:
            return ("off", "on")[self._without.get(name, False)]
        default = option.get_default(click.Context(click.Command("set")))
        return f"{default:g}" if isinstance(default, float) else default if isinstance(default, str) else "none"

    @property
    def shown(self) -> Mapping[str, str]:
        """What is set, as it was written."""
        return {name: given.text for name, given in self._given.items()}


def known_setting(name: str) -> str:
    """Return the name of a setting, which may be written with dashes; refuse any other."""
    known = name.casefold().replace("-", "_")
    if known not in SETTABLE:
        hint = did_you_mean(known, SETTABLE) or f"there are {', '.join(SETTABLE)}"
        raise OptionError(f"there is no setting {name!r}; {hint}")
    return known


def values_of(name: str) -> str:
    """Return the values that a setting can have, if these are few."""
    option = SETTABLE[name]
    choices = ("on", "off") if option.is_flag else option.type.choices if isinstance(option.type, click.Choice) else ()
    return ", ".join(map(str, choices))
