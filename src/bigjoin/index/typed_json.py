"""Frozen dataclasses as JSON, and back: whatever is not of the declared type is refused with the name of its field.

What types may say: str, int, float, bool, None beside another type, tuples of one type or of two, mappings from text (or from
column orders, which JSON spells "0,1") and dataclasses. A field that is None or empty by default is left out of the JSON.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union

from bigjoin.errors import BigjoinError, shown

_T = TypeVar("_T")
_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
_LONGEST = 60
INTEGER_LIMIT = 2**62
"""What no whole number of ours comes to."""


class WrongFieldError(BigjoinError):
    """A field that is missing, unknown, or not what it has to be."""


def from_json(kind: type[_T], value: Any, where: str = "") -> _T:
    """Return a dataclass from what JSON has for it; raise WrongFieldError that says which field is wrong, and how."""
    return typing.cast("_T", _read(kind, value, where))


def to_json(value: Any) -> Any:
    """Return what JSON is to say of a dataclass, or of anything that its fields may be."""
    if is_dataclass(value):
        items = ((field, getattr(value, field.name)) for field in fields(value))
        return {field.name: to_json(found) for field, found in items if not _is_left_out(field, found)}
    if isinstance(value, Mapping):
        return {",".join(map(str, k)) if isinstance(k, tuple) else k: to_json(found) for k, found in value.items()}
    return [to_json(found) for found in value] if isinstance(value, (tuple, list)) else value


def _is_left_out(field: Field[Any], value: Any) -> bool:
    """Tell whether a field says no more than its absence does."""
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return value is None if default is None else default in ((), {}) and not value


def _read(kind: Any, value: Any, where: str) -> Any:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return _read(next(k for k in inner if k is not types.NoneType), value, where)
    if is_dataclass(kind):
        return _object(kind, value, where)
    if origin is tuple:
        return _tuple(inner, value, where)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(inner, value, where)
    if kind is Any:
        return value
    is_number = kind in (int, float) and isinstance(value, (int, kind)) and not isinstance(value, bool)
    if not (is_number or (kind in (str, bool) and isinstance(value, kind))):
        raise WrongFieldError(f"{where} is {_shown(value)}, which is not {_NAMES[kind]}")
    if kind is int and abs(value) >= INTEGER_LIMIT:
        raise WrongFieldError(f"{where} is too large a number")
    if kind is float and not _is_finite(value):
        raise WrongFieldError(f"{where} is {_shown(value)}, which is not a number")
    return value


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float holds
        return False


def _object(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise WrongFieldError(f"{where or 'it'} is {_shown(value)}, which is no object")
    known = _kinds(kind)
    if unknown := value.keys() - known.keys():
        raise WrongFieldError(f"{_below(where, min(unknown))} is a field that is not known")
    found = {name: _read(known[name], given, _below(where, name)) for name, given in value.items()}
    for field in fields(kind):
        if field.name not in found and field.default is MISSING and field.default_factory is MISSING:
            raise WrongFieldError(f"{_below(where, field.name)} is missing")
    return kind(**found)


def _tuple(inner: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise WrongFieldError(f"{where} is {_shown(value)}, which is no list")
    kinds = (inner[0],) * len(value) if inner[-1] is Ellipsis else inner
    if len(kinds) != len(value):
        raise WrongFieldError(f"{where} has {len(value)} entries instead of {len(kinds)}")
    return tuple(_read(k, v, f"{where}[{i}]") for i, (k, v) in enumerate(zip(kinds, value, strict=True)))


def _mapping(inner: tuple[Any, ...], value: Any, where: str) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise WrongFieldError(f"{where} is {_shown(value)}, which is no object")
    by_columns = inner[0] is not str
    return {
        _columns(name, where) if by_columns else name: _read(inner[1], found, _below(where, name))
        for name, found in value.items()
    }


def _columns(text: str, where: str) -> tuple[int, ...]:
    """Return a column order: each of its columns once."""
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and str(int(part[:9])) == part for part in parts):
        raise WrongFieldError(f"{where} has {_shown(text)}, which is no column order")
    columns = tuple(map(int, parts))
    if sorted(columns) != list(range(len(columns))):
        raise WrongFieldError(f"{where} has {_shown(text)}, which is no column order")
    return columns


@cache
def _kinds(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _below(where: str, name: str) -> str:
    return f"{where}.{name[:_LONGEST]}" if where else name[:_LONGEST]


def _shown(value: Any) -> str:
    """Return a value's text, or what it is: it may be anything, and as long as it likes."""
    return "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else shown(repr(value), _LONGEST)
