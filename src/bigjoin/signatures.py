"""Signatures that say everything: keywords that a function passes on are shown, and a misspelt one gets a suggestion."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from bigjoin.errors import OptionError, did_you_mean

_P = ParamSpec("_P")
_R = TypeVar("_R")


def with_known_keywords(name: str = "", flags: type | None = None) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Refuse keywords that a function, called `name` in messages, does not have, with a sentence and a suggestion.

    If the function takes the keys of a typed dictionary as further keywords, `flags` is that dictionary: its keys then stand
    in the signature, so that `help` shows them.
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        signature = _spelled(inspect.signature(function), flags)
        positional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY)
        known = [key for key, one in signature.parameters.items() if key != "self" and one.kind not in positional]

        @wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            for given in kwargs:
                if given not in known:
                    hint = did_you_mean(given, known) or f"it has {', '.join(known)}"
                    raise OptionError(f"{name or function.__name__} has no argument {given!r}; {hint}")
            return function(*args, **kwargs)

        call.__signature__ = signature  # type: ignore[attr-defined]
        return call

    return decorate


def _spelled(signature: inspect.Signature, flags: type | None) -> inspect.Signature:
    """Return a signature with the keys of a typed dictionary in place of its last parameter, which takes them together."""
    if flags is None:
        return signature
    kept = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    for key, kind in flags.__annotations__.items():
        shown = getattr(kind, "__forward_arg__", kind)
        default = False if shown in (bool, "bool") else None
        kept.append(inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=shown))
    return signature.replace(parameters=kept)
