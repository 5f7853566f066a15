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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache, partial
from typing import Annotated, Any, TypeAlias, TypeVar, Union

from bigjoin.errors import BigjoinError, shown

_T = TypeVar("_T")
Reader: TypeAlias = Callable[[Any, str], Any]
_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
SHOWN_CHARACTERS = 60
"""How much of a field's name or value a message repeats."""


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
BigInt: TypeAlias = Annotated[int, ANY_SIZE]
"""A whole number that may be larger than 64 bits hold."""
_DEFAULT_RULES = {
    int: between(-(2**62), 2**62),
    float: Rule("a finite number", lambda value: abs(value) <= sys.float_info.max),
}


_SCALARS = frozenset((str, int, float, bool, types.NoneType))


def from_json(kind: type[_T], value: Any, where: str = "") -> _T:
    """Return a dataclass, or anything that a field of one may be, from its JSON; raise WrongFieldError if it is not that."""
    read: Reader = _reader(typing.cast("Any", kind))
    return typing.cast("_T", read(value, where))


def to_json(value: Any) -> Any:
    """Return the JSON of a dataclass, or of anything that one of its fields may hold."""
    kind = type(value)
    if kind in _SCALARS or isinstance(value, str | int | float):
        return value
    if kind is tuple or kind is list:
        return [to_json(found) for found in value]
    return {name: found if type(found) in _SCALARS else to_json(found) for name, found in _members(value)}


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    """Give the names and values of an object in JSON: a dataclass without the fields that are left out, or a mapping."""
    if type(value) is dict or isinstance(value, Mapping):
        yield from ((",".join(map(str, key)) if isinstance(key, tuple) else key, found) for key, found in value.items())
        return
    kind: Any = type(value)
    for name, may_be_none, may_be_empty in _left_out(kind):
        found = getattr(value, name)
        if not ((may_be_none and found is None) or (may_be_empty and not found)):
            yield name, found


@cache
def _left_out(kind: Any) -> list[tuple[str, bool, bool]]:
    """Return the name of each field of a dataclass, and whether it is left out if it is None, and if it is empty."""
    defaults = {f.name: f.default if f.default_factory is MISSING else f.default_factory() for f in fields(kind)}
    return [(name, default is None, default in ((), {})) for name, default in defaults.items()]


@cache
def _reader(kind: Any) -> Reader:
    """Return the function that reads a type: from JSON, and the name of the field for messages."""
    rule = _DEFAULT_RULES.get(kind)
    if typing.get_origin(kind) is Annotated:
        kind, rule = typing.get_args(kind)
    convert = _converter(kind)
    return convert if rule is None else partial(_obeying, rule, convert)


def _converter(kind: Any) -> Reader:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        readers = [_reader(member) for member in inner if member is not types.NoneType]
        may_be_none = types.NoneType in inner

        def read(value: Any, where: str) -> Any:
            return None if value is None and may_be_none else readers[-1 if isinstance(value, dict) else 0](value, where)

        return read
    if is_dataclass(kind):
        return partial(_object, kind)
    if kind in (Any, object, types.NoneType):
        return lambda value, _: value
    if origin is list:
        return lambda value, where: list(_tuple([_reader(inner[0])], True, value, where))
    if origin is tuple:
        return partial(_tuple, [_reader(member) for member in inner if member is not Ellipsis], Ellipsis in inner)
    if origin is not None:
        key = _column_order if typing.get_origin(inner[0]) is tuple else _reader(inner[0])
        return partial(_mapping, key, _reader(inner[1]))
    return partial(_expect, (int, float) if kind is float else kind, _NAMES[kind])


def _obeying(rule: Rule, convert: Reader, value: Any, where: str) -> Any:
    found = convert(value, where)
    if not rule.holds(found):
        raise WrongFieldError(f"{where} is {_shown(value)}, which is not {rule.what}")
    return found


def _expect(kind: Any, name: str, value: Any, where: str) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise WrongFieldError(f"{where or 'it'} is {_shown(value)}, which is not {name}")
    return value


def _object(kind: Any, value: Any, where: str) -> Any:
    readers = _field_readers(kind)
    if unknown := _expect(dict, "an object", value, where).keys() - readers.keys():
        raise WrongFieldError(f"{_below(where, min(unknown))} is not a known field")
    found = {name: readers[name](given, _below(where, name)) for name, given in value.items()}
    for field in fields(kind):
        if field.name not in found and field.default is MISSING and field.default_factory is MISSING:
            raise WrongFieldError(f"{_below(where, field.name)} is missing")
    return kind(**found)


@cache
def _field_readers(kind: Any) -> dict[str, Reader]:
    return {name: _reader(hint) for name, hint in typing.get_type_hints(kind, include_extras=True).items()}


def _tuple(readers: list[Reader], repeats: bool, value: Any, where: str) -> tuple[Any, ...]:
    count = len(_expect(list, "a list", value, where))
    if repeats:
        readers = readers * count
    if len(readers) != count:
        raise WrongFieldError(f"{where} has {count} entries instead of {len(readers)}")
    return tuple(read(found, f"{where}[{i}]") for i, (read, found) in enumerate(zip(readers, value, strict=True)))


def _mapping(key: Reader, read: Reader, value: Any, where: str) -> dict[Any, Any]:
    items = _expect(dict, "an object", value, where).items()
    return {key(name, f"a name in {where}"): read(found, _below(where, name)) for name, found in items}


def _column_order(text: str, where: str) -> tuple[int, ...]:
    parts = text.split(",")
    if sorted(parts) != sorted(map(str, range(len(parts)))):
        raise WrongFieldError(f"{where} is {_shown(text)}, which is not a column order")
    return tuple(map(int, parts))


def _below(where: str, name: str) -> str:
    return f"{where}.{name[:SHOWN_CHARACTERS]}" if where else name[:SHOWN_CHARACTERS]


def _shown(value: Any) -> str:
    """Return a value's text, cut to a length that a message can hold; containers are only named."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    return shown(repr(value), SHOWN_CHARACTERS)
