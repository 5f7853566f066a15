"""The functions of openCypher that expressions may call, each as functions of `query/functions.py`; and parts of times."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from functools import reduce
from typing import Any, NoReturn, Protocol

from bigjoin.errors import QueryError, Span, did_you_mean
from bigjoin.languages import cypher_tree as tree
from bigjoin.languages.cypher_scope import later
from bigjoin.query.expressions import Call, Expression
from bigjoin.query.terms import Constant, Interval
from bigjoin.query.times import interval_of, time_of

AGGREGATES: Mapping[str, str | None] = {
    **{name: name for name in ("count", "sum", "avg", "min", "max", "collect")},
    **dict.fromkeys(("stdev", "stdevp", "percentilecont", "percentiledisc")),
}
"""Aggregates by what a text calls them: their names in a `Grouping`, None if they are refused."""

_NAMES = {
    **{name: name for name in ("trim", "ltrim", "rtrim", "reverse", "replace", "left", "right", "abs", "floor", "sqrt")},
    **{name: name for name in ("exp", "log10", "sign", "round", "coalesce", "nullif", "lower", "upper")},
    **{name: name for name in ("toInteger", "toFloat", "toString", "toBoolean")},
    "toLower": "lower",
    "toUpper": "upper",
    "size": "length",
    "length": "length",
    "char_length": "length",
    "character_length": "length",
    "ceil": "ceil",
    "ceiling": "ceil",
    "log": "ln",
    "ln": "ln",
    "toInt": "toInteger",
}
"""Functions that are one function of ours, as people write them."""

_FUNCTIONS = {name.casefold(): function for name, function in _NAMES.items()}

_REFUSED = {
    "labels": "write a:Label to ask whether a node has a label",
    "split": "lists are not values here: use STARTS WITH, CONTAINS or =~",
    "keys": "name the properties, as in a.name IS NOT NULL",
    "properties": "name the properties, as in a.name",
    "nodes": "give it a path: p = (a)-[*1..3]->(b)",
    "relationships": "give it a path: p = (a)-[*1..3]->(b)",
    "startnode": "name the nodes of the pattern",
    "endnode": "name the nodes of the pattern",
    "range": "write the members of the list",
    "head": "give it a list of a path, as e in -[e*1..3]->",
    "last": "give it a list of a path, as e in -[e*1..3]->",
    "rand": "add a random column to the DataFrame",
    "randomuuid": "add a random column to the DataFrame",
    "duration.between": "write duration.inDays(a, b) or duration.inSeconds(a, b), which have one length each",
    "duration.inmonths": "write duration.inDays(a, b), or compare years and months",
}
"""What is named in a refusal, and what to do instead."""

_PARTS_OF_TIMES: Mapping[str, Callable[[Expression], Expression]] = {
    **{
        name: lambda value, name=name: Call(name, (value,))  # type: ignore[misc]
        for name in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
    },
    "ordinalday": lambda value: Call("dayofyear", (value,)),
    "weekday": lambda value: _weekday(value),
    "dayofweek": lambda value: _weekday(value),
    "millisecond": lambda value: _rest(Call("unix_millis", (value,)), 1000),
    "microsecond": lambda value: _rest(Call("unix_micros", (value,)), 10**6),
    "epochseconds": lambda value: Call("unix_seconds", (value,)),
    "epochmillis": lambda value: Call("unix_millis", (value,)),
}
_PARTS_OF_SPANS = {
    "weeks": 7 * 86_400 * 10**6,
    "days": 86_400 * 10**6,
    "hours": 3600 * 10**6,
    "minutes": 60 * 10**6,
    "seconds": 10**6,
    "milliseconds": 10**3,
    "microseconds": 1,
}
"""The whole numbers that a span of time has of each unit."""

_UNITS = ("years", "quarters", "months", *_PARTS_OF_SPANS)
_FIELDS = ("year", "month", "day", "hour", "minute", "second", "millisecond", "microsecond")


class ArgumentReader(Protocol):
    """What reads the arguments of a call."""

    def read(self, expression: tree.CypherExpression) -> Any: ...
    def value(self, expression: tree.CypherExpression) -> Any: ...


def call_of(call: tree.FunctionCall, reader: ArgumentReader) -> Expression:
    """Return what a call of a function means."""
    name = call.name.casefold()
    if call.distinct:
        raise QueryError(f"DISTINCT belongs to an aggregate, and {call.name}() is none", call.span, "leave DISTINCT out")
    if name in _REFUSED:
        later(f"the function {call.name}()", call.span, _REFUSED[name])
    if (special := _SPECIAL.get(name)) is not None:
        return special(call, reader)
    if name not in _FUNCTIONS:
        hint = did_you_mean(call.name, [*_NAMES, *_SPECIAL, *AGGREGATES]) or "docs/expressions.md lists the functions"
        later(f"the function {call.name}()", call.span, hint)
    made = Call(_FUNCTIONS[name], tuple(reader.value(argument) for argument in call.arguments), call.span)
    _check_number(call, made.entry.fewest, made.entry.most)
    if name in ("left", "right"):
        _check_not_negative(call, made.arguments[1])
    return made


def component_of(value: Expression, key: str, span: Span | None) -> Expression:
    """Return a part of a time, as `.year` is, or of a span of time, as `.days` is."""
    name = key.casefold()
    if (part := _PARTS_OF_TIMES.get(name)) is not None:
        found = part(value)
        return Call(found.function, found.arguments, span) if isinstance(found, Call) else found
    if name in _PARTS_OF_SPANS:
        return Call("spanUnits", (value, Constant(_PARTS_OF_SPANS[name])), span)
    if isinstance(value, Call | Constant):
        known = ", ".join([*_PARTS_OF_TIMES][:8])
        raise QueryError(f"{key!r} is no part of a time", span, did_you_mean(name, _PARTS_OF_TIMES) or f"there are {known}")
    later("a property of a property", span, "properties are flat: a.name; those of times are .year, .month, .day and so on")


def _weekday(value: Expression) -> Expression:
    """Return the day of the week from 1, Monday, given functions that count from Sunday."""
    sunday_first = Call("dayofweek", (value,))
    return Call("+", (Call("%", (Call("+", (sunday_first, Constant(5))), Constant(7))), Constant(1)))


def _rest(number: Expression, divisor: int) -> Expression:
    """Return what is left of a number, which may be negative, after a division."""
    rest = Call("%", (number, Constant(divisor)))
    return Call("%", (Call("+", (rest, Constant(divisor))), Constant(divisor)))


def _check_number(call: tree.FunctionCall, fewest: int, most: float) -> None:
    if not fewest <= len(call.arguments) <= most:
        number = f"{fewest}" if fewest == most else f"{fewest} or more" if most == math.inf else f"{fewest} to {most:g}"
        plural = "s" * (number != "1")
        raise QueryError(f"{call.name}() takes {number} argument{plural}, not {len(call.arguments)}", call.span, None)


def _check_not_negative(call: tree.FunctionCall, *numbers: Expression) -> None:
    for number in numbers:
        if isinstance(number, Constant) and isinstance(number.value, int) and number.value < 0:
            raise QueryError(f"{call.name}() takes no negative number", call.span, "places are counted from 0")


def _substring(call: tree.FunctionCall, reader: ArgumentReader) -> Expression:
    """Return a part of a text: places are counted from 0 in Cypher, and from 1 in ours."""
    _check_number(call, 2, 3)
    text, start, *length = (reader.value(argument) for argument in call.arguments)
    _check_not_negative(call, start, *length)
    if isinstance(start, Constant):
        first: Expression = Constant(start.value + 1) if isinstance(start.value, int) else start
    else:
        first = Call("+", (start, Constant(1)))
    return Call("substring", (text, first, *length), call.span)


def _constant(value: float) -> Callable[[tree.FunctionCall, ArgumentReader], Expression]:
    def found(call: tree.FunctionCall, _: ArgumentReader) -> Expression:
        _check_number(call, 0, 0)
        return Constant(value)

    return found


def _is_there(call: tree.FunctionCall, reader: ArgumentReader) -> Expression:
    _check_number(call, 1, 1)
    return Call("is not null", (reader.read(call.arguments[0]),), call.span)


def _is_nan(call: tree.FunctionCall, reader: ArgumentReader) -> Expression:
    _check_number(call, 1, 1)
    value = reader.value(call.arguments[0])
    return Call("!=", (value, value), call.span)


def _is_empty(call: tree.FunctionCall, reader: ArgumentReader) -> Expression:
    _check_number(call, 1, 1)
    return Call("=", (Call("length", (reader.value(call.arguments[0]),)), Constant(0)), call.span)


# Times


def _time(kind: str) -> Callable[[tree.FunctionCall, ArgumentReader], Expression]:
    """Return the function that makes a date or a time: of now, of a text, of its fields, or of another time."""

    def found(call: tree.FunctionCall, reader: ArgumentReader) -> Expression:
        _check_number(call, 0, 1)
        if not call.arguments:
            return Constant(_as(kind, datetime.now(UTC)))
        (argument,) = call.arguments
        if isinstance(argument, tree.MapLiteral):
            return _of_fields(kind, argument, call, reader)
        value = reader.value(argument)
        if isinstance(value, Constant) and isinstance(value.value, str):
            moment = time_of(value.value)
            if moment is None:
                hint = f"write {call.name}('2024-05-31')" if kind == "date" else f"write {call.name}('2024-05-31T12:30:00')"
                raise QueryError(f"{value} is no ISO date or time", call.span, hint)
            return Constant(_as(kind, moment))
        return Call("date" if kind == "date" else "timestamp", (value,), call.span)

    return found


def _as(kind: str, moment: date | datetime) -> date | datetime:
    if kind == "date":
        return moment.date() if isinstance(moment, datetime) else moment
    time = moment if isinstance(moment, datetime) else datetime(moment.year, moment.month, moment.day)
    return time.replace(tzinfo=None) if kind == "localdatetime" else time


def _of_fields(kind: str, fields: tree.MapLiteral, call: tree.FunctionCall, reader: ArgumentReader) -> Expression:
    given = {key.casefold(): reader.value(value) for key, value in fields.entries}
    for key, function in (("epochseconds", "timestamp_seconds"), ("epochmillis", "timestamp_millis")):
        if set(given) == {key} and kind != "date":
            return Call(function, (given[key],), call.span)
    values = [value.value if isinstance(value, Constant) else None for value in given.values()]
    numbers = {key: value for key, value in zip(given, values, strict=True) if isinstance(value, int)}
    if set(given) - set(_FIELDS) or "year" not in given or len(numbers) < len(given):
        raise QueryError(
            f"{call.name}() takes these fields: {', '.join(_FIELDS)}", call.span, "give numbers, the year at least"
        )
    micros = numbers.pop("millisecond", 0) * 1000 + numbers.pop("microsecond", 0)
    try:
        moment = datetime(**{"month": 1, "day": 1, **numbers}, microsecond=micros)  # type: ignore[arg-type]
    except ValueError as error:
        raise QueryError(f"there is no such time: {error}", call.span, None) from None
    return Constant(_as(kind, moment))


def _duration(call: tree.FunctionCall, reader: ArgumentReader) -> Expression:
    _check_number(call, 1, 1)
    (argument,) = call.arguments
    hint = "write duration('P1DT2H'), or duration({days: 1, hours: 2})"
    if not isinstance(argument, tree.MapLiteral):
        value = reader.value(argument)
        found = interval_of(value.value) if isinstance(value, Constant) and isinstance(value.value, str) else None
        if found is None:
            raise QueryError("this is no span of time", call.span, hint)
        return Constant(found)
    parts = [_part_of_duration(key.casefold(), reader.value(value), call, hint) for key, value in argument.entries]
    if not parts:
        raise QueryError("this is no span of time", call.span, hint)
    spans = [part.value for part in parts if isinstance(part, Constant) and isinstance(part.value, Interval)]
    if len(spans) == len(parts):
        return Constant(Interval(sum(s.months for s in spans), sum(s.microseconds for s in spans)))
    return reduce(lambda one, other: Call("+", (one, other), call.span), parts)


def _part_of_duration(unit: str, number: Expression, call: tree.FunctionCall, hint: str) -> Expression:
    if unit not in _UNITS:
        raise QueryError(f"a span of time has no {unit!r}", call.span, did_you_mean(unit, _UNITS) or hint)
    if isinstance(number, Constant):
        found = interval_of(f"{number.value} {unit}")
        if found is None:
            raise QueryError(f"'{number} {unit}' is no span of time", call.span, hint)
        return Constant(found)
    if unit not in _PARTS_OF_SPANS:
        later(f"a number of {unit} that is computed", call.span, "months differ in length: give a number")
    return Call("*", (Constant(Interval(0, _PARTS_OF_SPANS[unit])), number), call.span)


def _difference(unit: int) -> Callable[[tree.FunctionCall, ArgumentReader], Expression]:
    """Return the function that gives the span from one time to another, in whole units."""

    def found(call: tree.FunctionCall, reader: ArgumentReader) -> Expression:
        _check_number(call, 2, 2)
        start, end = (reader.value(argument) for argument in call.arguments)
        span = Call("-", (end, start), call.span)
        if unit == 1:
            return span
        return Call("*", (Constant(Interval(0, unit)), Call("spanUnits", (span, Constant(unit)))), call.span)

    return found


def _truncated(kind: str) -> Callable[[tree.FunctionCall, ArgumentReader], Expression]:
    def found(call: tree.FunctionCall, reader: ArgumentReader) -> Expression:
        _check_number(call, 2, 2)
        unit, value = (reader.value(argument) for argument in call.arguments)
        if not isinstance(unit, Constant) or str(unit.value).casefold() not in _TRUNCATED:
            raise QueryError(f"{call.name}() takes a unit in quotes", call.span, f"units are {', '.join(_TRUNCATED)}")
        moment = Call("date_trunc", (Constant(str(unit.value).casefold()), value), call.span)
        return Call("date", (moment,), call.span) if kind == "date" else moment

    return found


_TRUNCATED = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond")


def _now(call: tree.FunctionCall, _: ArgumentReader) -> Expression:
    _check_number(call, 0, 0)
    return Constant(int(datetime.now(UTC).timestamp() * 1000))


def _misused(call: tree.FunctionCall, _: ArgumentReader) -> NoReturn:
    raise QueryError(f"{call.name}() takes a variable of a pattern", call.span, f"write {call.name}(a)")


_SPECIAL: Mapping[str, Callable[[tree.FunctionCall, ArgumentReader], Expression]] = {
    "substring": _substring,
    "pi": _constant(math.pi),
    "e": _constant(math.e),
    "exists": _is_there,
    "isnan": _is_nan,
    "isempty": _is_empty,
    "date": _time("date"),
    "datetime": _time("datetime"),
    "localdatetime": _time("localdatetime"),
    "timestamp": _now,
    "duration": _duration,
    "duration.inseconds": _difference(1),
    "duration.indays": _difference(86_400 * 10**6),
    "date.truncate": _truncated("date"),
    "datetime.truncate": _truncated("datetime"),
    "localdatetime.truncate": _truncated("datetime"),
    "id": _misused,
    "elementid": _misused,
    "type": _misused,
}
