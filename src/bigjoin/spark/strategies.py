"""Find a strategy by its name: the table of all of them is `defaults.STRATEGIES`."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from bigjoin.defaults import STRATEGIES
from bigjoin.spark.strategy import Strategy


def strategy_named(name: str) -> type[Strategy]:
    """Return the class of a strategy."""
    entry = STRATEGIES[name]
    return cast("type[Strategy]", getattr(import_module(entry.module), entry.class_name))
