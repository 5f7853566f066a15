"""bigjoin bench: hand over to the benchmarks, which are not part of the library, if they can be found."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import click

from bigjoin.errors import BigjoinError

_CHECKOUT = Path(__file__).parents[3] / "benchmarks"
_PACKAGE = "bigjoin_bench"


@click.command(add_help_option=False, context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def bench(context: click.Context, arguments: tuple[str, ...]) -> None:
    """Measure bigjoin and other systems side by side."""
    command = _command()
    with command.make_context(context.info_name, list(arguments), parent=context.parent) as inner:
        command.invoke(inner)


def _command() -> click.Command:
    """Return the benchmarks' command: from the checkout of this library, otherwise from where Python can import it."""
    if (_CHECKOUT / _PACKAGE).is_dir() and str(_CHECKOUT) not in sys.path:
        sys.path.insert(0, str(_CHECKOUT))
    if find_spec(_PACKAGE) is None:
        raise BigjoinError(
            "the benchmarks are not part of the installed package: run `make bench` in a checkout of bigjoin, "
            "or put its folder `benchmarks` on PYTHONPATH"
        )
    command: click.Command = import_module(f"{_PACKAGE}.command").bench
    return command
