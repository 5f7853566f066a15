"""Read and write frozen dataclasses as JSON; a value that is not of the declared type is refused with the name of its field.

Fields may be str, int, float, bool, another dataclass, tuples of one type or of a fixed length, mappings from text or from
column orders (JSON spells those "0,1"), `X | None`, and `scalar | mapping`. `Annotated[kind, rule]` narrows a type. A field
whose default is None or empty is left out of the JSON while it has that default.
"""

from __future__ import annotations

import re
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, TypeVar, Union

from bigjoin.errors import BigjoinError, shown

_T = TypeVar("_T")
_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false", dict: "an object", list: "a list"}
_MAX_SHOWN = 60
"""Characters of a field's name or value that a message repeats."""


class WrongFieldError(BigjoinError):
    """A field that is missing, unknown, or not what it has to be."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a value must be beyond its type; it replaces the default rule of that type."""

    what: str
    holds: Callable[[Any], object]


def between(least: int, most: int) -> Rule:
    """Return the rule that a number lies in a closed interval."""
    return Rule(f"between {least} and {most}", lambda value: least <= value <= most)


def matching(pattern: str, what: str) -> Rule:
    """Return the rule that all of a text matches a regular expression."""
    return Rule(what, re.compile(pattern).fullmatch)


ANY_SIZE = Rule("a whole number", lambda _: True)
_DEFAULT_RULES = {
    int: between(-(2**62), 2**62),
    float: Rule("a finite number", lambda value: abs(value) <= sys.float_info.max),
}


def from_json(kind: type[_T], value: Any, where: str = "") -> _T:
    """Return a dataclass from its JSON; raise WrongFieldError that says which field is wrong, and how."""
    return typing.cast("_T", _read(kind, value, where))


def to_json(value: Any) -> Any:
    """Return the JSON of a dataclass, or of anything that one of its fields may hold."""
    if is_dataclass(value):
        items = ((field, getattr(value, field.name)) for field in fields(value))
        return {field.name: to_json(found) for field, found in items if not _is_left_out(field, found)}
    if isinstance(value, Mapping):
        return {",".join(map(str, k)) if isinstance(k, tuple) else k: to_json(found) for k, found in value.items()}
    return [to_json(found) for found in value] if isinstance(value, (tuple, list)) else value


def _is_left_out(field: Field[Any], value: Any) -> bool:
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return value is None if default is None else default in ((), {}) and not value


def _read(kind: Any, value: Any, where: str) -> Any:
    rule = _DEFAULT_RULES.get(kind)
    if typing.get_origin(kind) is Annotated:
        kind, rule = typing.get_args(kind)
    found = _convert(kind, value, where)
    if rule is not None and not rule.holds(found):
        raise WrongFieldError(f"{where} is {_shown(value)}, which is not {rule.what}")
    return found


def _convert(kind: Any, value: Any, where: str) -> Any:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        kinds = [k for k in inner if k is not types.NoneType]
        return _read(kinds[-1] if isinstance(value, dict) else kinds[0], value, where)
    if is_dataclass(kind):
        return _object(kind, _expect(dict, value, where), where)
    if origin is tuple:
        return _tuple(inner, _expect(list, value, where), where)
    if origin is not None:
        return _mapping(inner[0], inner[1], _expect(dict, value, where), where)
    is_number = kind in (int, float) and isinstance(value, (int, kind)) and not isinstance(value, bool)
    if not (is_number or (kind in (str, bool) and isinstance(value, kind))):
        raise WrongFieldError(f"{where} is {_shown(value)}, which is not {_NAMES[kind]}")
    return value


def _expect(kind: type[_T], value: Any, where: str) -> _T:
    if not isinstance(value, kind):
        raise WrongFieldError(f"{where or 'it'} is {_shown(value)}, which is not {_NAMES[kind]}")
    return value


def _object(kind: Any, value: dict[str, Any], where: str) -> Any:
    known = _kinds(kind)
    if unknown := value.keys() - known.keys():
        raise WrongFieldError(f"{_below(where, min(unknown))} is not a known field")
    found = {name: _read(known[name], given, _below(where, name)) for name, given in value.items()}
    for field in fields(kind):
        if field.name not in found and field.default is MISSING and field.default_factory is MISSING:
            raise WrongFieldError(f"{_below(where, field.name)} is missing")
    return kind(**found)


def _tuple(inner: tuple[Any, ...], value: list[Any], where: str) -> tuple[Any, ...]:
    kinds = (inner[0],) * len(value) if inner[-1] is Ellipsis else inner
    if len(kinds) != len(value):
        raise WrongFieldError(f"{where} has {len(value)} entries instead of {len(kinds)}")
    return tuple(_read(k, v, f"{where}[{i}]") for i, (k, v) in enumerate(zip(kinds, value, strict=True)))


def _mapping(key: Any, kind: Any, value: dict[str, Any], where: str) -> dict[Any, Any]:
    def read_key(name: str) -> Any:
        return _column_order(name, where) if typing.get_origin(key) is tuple else _read(key, name, f"a name in {where}")

    return {read_key(name): _read(kind, found, _below(where, name)) for name, found in value.items()}


def _column_order(text: str, where: str) -> tuple[int, ...]:
    parts = text.split(",")
    if sorted(parts) != sorted(map(str, range(len(parts)))):
        raise WrongFieldError(f"a name in {where} is {_shown(text)}, which is not a column order")
    return tuple(map(int, parts))


@cache
def _kinds(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


def _below(where: str, name: str) -> str:
    return f"{where}.{name[:_MAX_SHOWN]}" if where else name[:_MAX_SHOWN]


def _shown(value: Any) -> str:
    """Return a value's text, cut to a length that a message can hold; containers are only named."""
    return _NAMES[type(value)] if isinstance(value, (dict, list)) else shown(repr(value), _MAX_SHOWN)
