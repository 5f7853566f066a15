"""Verbs within limits: their keywords, and the queries that run now, which closing what they query stops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, Protocol, TypeVar, cast

from bigjoin.defaults import Limits
from bigjoin.errors import BigjoinError
from bigjoin.languages import Flags
from bigjoin.quota import Quota, is_limited, within

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Keywords(Flags, Limits, total=False):
    """What every verb that runs a query takes besides its own arguments."""


class RunningQueries:
    """The quotas of the queries that run now, in any thread."""

    def __init__(self) -> None:
        self._quotas: set[Quota] = set()

    @contextmanager
    def including(self, quota: Quota) -> Iterator[None]:
        """Count a query as running within the block."""
        self._quotas.add(quota)
        try:
            yield
        finally:
            self._quotas.discard(quota)

    def stop(self, why: str) -> None:
        """Stop all of them."""
        for quota in list(self._quotas):
            quota.stop(BigjoinError(why))


class _Queried(Protocol):
    _running: RunningQueries


def within_limits(verb: Callable[_P, _R]) -> Callable[_P, _R]:
    """Have a verb, a method, take the keywords of `Limits`, and end when these are reached or what it queries is closed."""

    @wraps(verb)
    def call(*args: _P.args, **given: _P.kwargs) -> _R:
        limits = taken_limits(cast("Keywords", given))
        if is_limited() and not any(value is not None for value in limits.values()):  # a part of another query
            return verb(*args, **given)
        mine = Quota(**limits)
        with within(mine), cast("_Queried", args[0])._running.including(mine):
            return verb(*args, **given)

    return call


def taken_limits(given: Keywords) -> Limits:
    """Remove the limits from keywords, and return them."""
    return cast("Limits", {name: given.pop(name) for name in Limits.__annotations__ if name in given})  # type: ignore[misc]
