"""Type expressions: find out what each function is given, refuse what it cannot take, and read constants as what is meant.

A text beside a time is a time, or a span of time if it is added to one; a number with a decimal point is exact, as in Spark
SQL. Operators that Cypher reads differently become other functions here, so that nothing behind this pass knows languages,
except for what NaN is (`Query.dialect`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Literal, NoReturn, TypeAlias
from zoneinfo import ZoneInfo

from bigjoin.errors import QueryError, Span
from bigjoin.planner.draft import Draft
from bigjoin.query.expressions import Call, Expression, mapped
from bigjoin.query.functions import decimal_digits
from bigjoin.query.operators import OPERATORS
from bigjoin.query.query import Comparison, Dialect, Predicate, QueryFilter, conditions
from bigjoin.query.terms import Constant, Interval, Property
from bigjoin.query.times import UNITS_OF_TIME, interval_of, time_of

ValueKind: TypeAlias = Literal[
    "boolean", "integer", "decimal", "double", "text", "date", "time", "interval", "bytes", "list", "null", "any"
]
"""What values an expression has. Nothing is known of `any`: there is no source yet. `null` is the literal."""

Typed: TypeAlias = tuple[Expression, ValueKind]
Types: TypeAlias = Callable[[str | Property], ValueKind]

_NAMES = {"integer": "a number", "decimal": "a number", "double": "a number", "boolean": "a truth value", "text": "text"}
_NAMES |= {"date": "a date", "time": "a time", "interval": "a span of time", "bytes": "bytes", "list": "a list"}
_NUMBERS: tuple[ValueKind, ...] = ("integer", "decimal", "double")
_MOMENTS: tuple[ValueKind, ...] = ("date", "time")
_ARROW: tuple[tuple[str, ValueKind], ...] = (
    (r"bool", "boolean"),
    (r"u?int\d+", "integer"),
    (r"halffloat|float|double", "double"),
    (r"decimal", "decimal"),
    (r"(large_)?string", "text"),
    (r"date", "date"),
    (r"timestamp", "time"),
    (r"duration", "interval"),
    (r"(large_|fixed_size_)?binary", "bytes"),
    (r"any|null", "any"),
)
_CASTS: dict[str, ValueKind] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "integer", "bigint", "long", "int64"), "integer"),
    **dict.fromkeys(("float", "real", "double"), "double"),
    **dict.fromkeys(("string", "text", "varchar", "char"), "text"),
    "boolean": "boolean",
    "bool": "boolean",
    "date": "date",
    "timestamp": "time",
    "datetime": "time",
    "timestamp_ntz": "time",
}

_OF_TEXT = ("lower", "upper", "trim", "ltrim", "rtrim", "reverse", "replace", "substring", "left", "right")
_PARTS_OF_TIME = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "dayofweek", "dayofyear")
_TEXT_TESTS = ("like", "ilike", "rlike", "matches", "starts with", "ends with", "contains")
_CONSTANT_PATTERNS = ("like", "ilike", "rlike", "matches")


def type_expressions(draft: Draft) -> Draft:
    """Type the predicates of a draft, and the expressions in its head."""
    query = draft.query

    def of(term: str | Property) -> ValueKind:
        return kind_of(_arrow_type(term, draft))

    def in_zone(expression: Expression) -> Expression:
        return mapped(expression, lambda part: _in_zone(part, draft))

    def condition(predicate: Predicate) -> QueryFilter:
        found, kind = typed(predicate.expression, of, query.dialect)
        found = in_zone(found)
        if kind not in ("boolean", "any", "null"):
            raise QueryError(f"'{predicate}' is {_NAMES[kind]}, and no condition", predicate.span, "compare it with something")
        assert isinstance(found, Call)
        match found:  # in Cypher, NaN is neither smaller nor not smaller: for other values, the opposite can be compared
            case Call("not", (Call(function, sides),)) if function in OPERATORS:
                if not {typed(side, of, query.dialect)[1] for side in sides} & {"double", "any"}:
                    (predicate_or_comparison,) = conditions(found, "sql", predicate.span)
                    return predicate_or_comparison
        return replace(predicate, expression=found)

    def compared(comparison: Comparison) -> QueryFilter:
        if not _needs_zone(comparison, draft):
            return _with_instant(comparison, draft)
        return Predicate(Call(comparison.op, (in_zone(comparison.left), in_zone(comparison.right))), comparison.span)

    filters = tuple(condition(f) if isinstance(f, Predicate) else compared(f) for f in draft.filters)
    if all(isinstance(term, str | Property) for term in query.head):
        return replace(draft, filters=filters)
    head = tuple(in_zone(typed(t, of, query.dialect)[0]) if isinstance(t, Call | Constant) else t for t in query.head)
    return replace(draft, query=replace(query, head=head, names=query.columns), filters=filters)


def _arrow_type(term: str | Property, draft: Draft) -> str:
    domain = draft.domain(term if isinstance(term, str) else term.attribute)
    known = draft.statistics.ids if isinstance(term, str) else draft.statistics.properties.get(domain, {})
    return known.get(domain if isinstance(term, str) else term.name, "any")


def _in_zone(part: Expression, draft: Draft) -> Expression:
    """Return a part of an expression, in the zone of the query if it is a time with a zone."""
    zone = draft.query.zone
    if isinstance(part, str | Property) and "tz=" in (arrow := _arrow_type(part, draft)) and f"tz={zone}]" not in arrow:
        return Call("in zone", (part, Constant(zone)))
    return part


def _needs_zone(comparison: Comparison, draft: Draft) -> bool:
    """Tell whether a time with a zone is compared with a date or a time without one, which means one in the query's zone."""
    if draft.query.zone == "UTC" or comparison.also or isinstance(comparison.left, Constant):
        return False
    if isinstance(comparison.right, Constant):
        return False
    types = [_arrow_type(side, draft) for side in (comparison.left, comparison.right)]
    return {kind_of(arrow) for arrow in types} <= {"date", "time"} and len({"tz=" in arrow for arrow in types}) == 2


def _with_instant(comparison: Comparison, draft: Draft) -> Comparison:
    """Return a comparison of a time that has a zone with the instant that its text means in the zone of the query."""
    left, right = comparison.left, comparison.right
    if draft.query.zone == "UTC" or not isinstance(right, Constant) or not isinstance(right.value, str | date):
        return comparison
    moment = time_of(right.value) if isinstance(right.value, str) else right.value
    if isinstance(left, Constant) or moment is None or "tz=" not in _arrow_type(left, draft):
        return comparison
    moment = moment if isinstance(moment, datetime) else datetime(moment.year, moment.month, moment.day)
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=ZoneInfo(draft.query.zone))
    return replace(comparison, right=Constant(zoned.astimezone(UTC).isoformat(sep=" ")))


def kind_of(arrow: str) -> ValueKind:
    """Return the kind of an Arrow type, given as text."""
    return next((kind for pattern, kind in _ARROW if re.match(pattern, arrow)), "list")


def typed(expression: Expression, of: Types, dialect: Dialect) -> Typed:
    """Return an expression with its constants read as what is meant, and the kind of its values; refuse what has no meaning."""
    return _Typing(of, dialect).typed(expression)


class _Typing:
    def __init__(self, of: Types, dialect: Dialect) -> None:
        self.of, self.dialect = of, dialect

    def typed(self, expression: Expression) -> Typed:
        if isinstance(expression, str | Property):
            return expression, self.of(expression)
        if isinstance(expression, Constant):
            return self._constant(expression)
        assert isinstance(expression, Call)
        call = replace(expression, arguments=tuple(expression.arguments))
        rule = _RULES.get(call.function)
        if rule is not None:
            return rule(self, call)
        return self._simple(call)

    def _constant(self, constant: Constant) -> Typed:
        value = constant.value
        if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
            constant = Constant(value := Decimal(value))
        if isinstance(value, Decimal) and len(value.as_tuple().digits) > 38:
            raise QueryError(f"{constant} has more than 38 digits, which no number in an expression can have")
        kinds: tuple[tuple[type, ValueKind], ...] = (
            (bool, "boolean"),
            (int, "integer"),
            (float, "double"),
            (Decimal, "decimal"),
            (str, "text"),
            (datetime, "time"),
            (date, "date"),
            (Interval, "interval"),
        )
        return constant, next((kind for kind_of_value, kind in kinds if isinstance(value, kind_of_value)), "null")

    def all_of(self, call: Call) -> list[Typed]:
        return [self.typed(argument) for argument in call.arguments]

    def _simple(self, call: Call) -> Typed:
        """Type a function whose result does not depend on its arguments."""
        arguments = self.all_of(call)
        wanted, result = (_SIMPLE_IN_CYPHER if self.dialect == "cypher" else _SIMPLE).get(call.function, _SIMPLE[call.function])
        for (_, kind), kinds in zip(arguments, wanted * len(arguments) if len(wanted) == 1 else wanted, strict=False):
            if kind not in (*kinds, "null", "any"):
                words = " or ".join(dict.fromkeys(_NAMES[k] for k in kinds))
                self._refuse(call, arguments, f"{call.function} takes {words}")
        if any(kind == "null" for _, kind in arguments):
            return Constant(None), "null"
        return _rebuilt(call, arguments), _common_number(arguments) if result == "number" else result

    def _refuse(self, call: Call, arguments: Sequence[Typed], hint: str) -> NoReturn:
        kinds = " and ".join(
            f"{part} is {_NAMES.get(kind, kind)}" for part, kind in arguments if not isinstance(part, Constant)
        )
        literals = [f"{part} is {_NAMES.get(kind, kind)}" for part, kind in arguments if isinstance(part, Constant)]
        what = " and ".join([*([kinds] if kinds else []), *literals])
        raise QueryError(f"'{call}' has no meaning: {what}", call.span or _span(call), hint)

    # Conditions

    def logic(self, call: Call) -> Typed:
        arguments = self.all_of(call)
        for part, kind in arguments:
            if kind not in ("boolean", "null", "any"):
                hint = "compare it with something, as in a.age > 30"
                raise QueryError(f"{part} is {_NAMES[kind]}, and no condition", _span(part) or call.span, hint)
        return _rebuilt(call, arguments), "boolean"

    def comparison(self, call: Call) -> Typed:
        return _rebuilt(call, self.unified(call, self.all_of(call), "compares")[0]), "boolean"

    def is_in(self, call: Call) -> Typed:
        return _rebuilt(call, self.unified(call, self.all_of(call), "compares")[0]), "boolean"

    def nothing(self, call: Call) -> Typed:
        return _rebuilt(call, self.all_of(call)), "boolean"

    def text_test(self, call: Call) -> Typed:
        arguments = self.all_of(call)
        if any(kind not in ("text", "null", "any") for _, kind in arguments):
            self._refuse(call, arguments, f"'{call.function}' is about text")
        if call.function in _CONSTANT_PATTERNS and not isinstance(arguments[1][0], Constant):
            raise QueryError(f"the pattern of '{call}' is no constant", call.span or _span(call), "write the pattern in quotes")
        return _rebuilt(call, arguments), "boolean"

    def unified(self, call: Call, arguments: list[Typed], verb: str) -> tuple[list[Typed], ValueKind]:
        """Return arguments of one kind: texts beside times become times, and numbers of all types are numbers."""
        kinds = [kind for part, kind in arguments if not isinstance(part, Constant)] or [kind for _, kind in arguments]
        if moment := next((kind for kind in kinds if kind in _MOMENTS), None):
            arguments = [self._as_moment(one, call) for one in arguments]
            moment = "date" if {kind for _, kind in arguments} <= {"date", "null", "any"} else "time"
            if all(kind in (*_MOMENTS, "null", "any") for _, kind in arguments):
                return arguments, moment
        if "interval" in kinds:
            arguments = [self._as_interval(one) for one in arguments]
        known = {("number" if kind in _NUMBERS else kind) for _, kind in arguments} - {"null", "any"}
        if len(known) > 1:
            one, other = list(dict.fromkeys(_NAMES[kind] for _, kind in arguments if kind not in ("null", "any")))[:2]
            hint = "compare numbers with numbers, text with text, times with times"
            raise QueryError(f"'{call}' {verb} {one} with {other}", call.span or _span(call), hint)
        if known & {"list"}:
            raise QueryError(f"'{call}' {verb} lists", call.span or _span(call), "compare their members")
        common = next(iter(known), "any")
        return arguments, _common_number(arguments) if common == "number" else common  # type: ignore[return-value]

    def _as_moment(self, one: Typed, call: Call) -> Typed:
        part, kind = one
        if kind != "text" or not isinstance(part, Constant) or not isinstance(part.value, str):
            return one
        if (moment := time_of(part.value)) is None:
            hint = 'write "2024-05-31" or "2024-05-31 12:30:00"'
            raise QueryError(f"{part} is no ISO date or time", call.span or _span(call), hint)
        return Constant(moment), "time" if isinstance(moment, datetime) else "date"

    @staticmethod
    def _as_interval(one: Typed) -> Typed:
        part, kind = one
        found = (
            interval_of(part.value) if kind == "text" and isinstance(part, Constant) and isinstance(part.value, str) else None
        )
        return one if found is None else (Constant(found), "interval")

    # Arithmetic

    def arithmetic(self, call: Call) -> Typed:
        arguments = self.all_of(call)
        kinds = [kind for _, kind in arguments]
        if call.function in "+-" and any(kind in (*_MOMENTS, "interval") for kind in kinds):
            return self._times(call, arguments)
        if call.function == "+" and self.dialect == "cypher" and "text" in kinds:
            for kind in kinds:
                if kind not in (*_NUMBERS, "text", "null", "any"):
                    self._refuse(call, arguments, "+ joins texts, and numbers to texts; write toString(x) for others")
            texts = [one if one[1] in ("text", "null") else (Call("toString", (one[0],)), "text") for one in arguments]
            return _rebuilt(replace(call, function="||"), texts), "text"
        if call.function in "*/" and kinds[0] == "interval" and kinds[1] in (*_NUMBERS, "any"):
            return _rebuilt(call, arguments), "interval"
        if call.function == "*" and kinds[1] == "interval" and kinds[0] in _NUMBERS:
            return _rebuilt(call, arguments[::-1]), "interval"
        for kind in kinds:
            if kind not in (*_NUMBERS, "null", "any"):
                hint = (
                    "write a || b to join texts" if kind == "text" else "arithmetic takes numbers, and times with spans of time"
                )
                self._refuse(call, arguments, hint)
        result = _common_number(arguments)
        if call.function == "/" and result == "integer":
            if self.dialect == "cypher":
                return _rebuilt(replace(call, function="div"), arguments), "integer"
            result = "double"
        return _rebuilt(call, arguments), result

    def _times(self, call: Call, arguments: list[Typed]) -> Typed:
        """Type the sum or the difference of times, dates, spans of time, and texts that mean one of them."""
        (left, one), (right, other) = arguments
        if one in _MOMENTS and other == "integer":
            name = "date_add" if call.function == "+" else "date_sub"
            if one == "date":
                return Call(name, (left, right), call.span), "date"
        elif one in _MOMENTS and other in ("text", "interval"):
            given, kind = self._as_interval((right, other))
            if kind == "interval":
                whole = (
                    isinstance(given, Constant) and isinstance(given.value, Interval) and not given.value.microseconds % _DAY
                )
                return replace(call, arguments=(left, given)), "date" if one == "date" and whole else "time"
            if call.function == "-":
                return replace(call, arguments=(left, self._as_moment((right, other), call)[0])), "interval"
        elif call.function == "-" and one in _MOMENTS and other in (*_MOMENTS, "any"):
            return replace(call, arguments=(left, right)), "interval"
        elif call.function == "+" and other in _MOMENTS and one in ("text", "interval", "integer"):
            return self._times(replace(call, arguments=(right, left)), arguments[::-1])
        elif "interval" in (one, other):
            both = [self._as_interval(each) for each in arguments]
            if {kind for _, kind in both} <= {"interval", "any", "null"}:
                return _rebuilt(call, both), "interval"
            if other in _MOMENTS and call.function == "-" and one == "text":
                return replace(call, arguments=(self._as_moment(arguments[0], call)[0], right)), "interval"
        if {"null", "any"} & {one, other}:
            return replace(call, arguments=(left, right)), "any"
        self._refuse(call, arguments, "add a span of time to a time, as in e.time + '1 day'; a difference of times is a span")

    def division(self, call: Call) -> Typed:
        arguments = self.all_of(call)
        if any(kind not in ("integer", "null", "any") for _, kind in arguments):
            self._refuse(call, arguments, "div takes whole numbers")
        return _rebuilt(call, arguments), "integer"

    def negative(self, call: Call) -> Typed:
        part, kind = self.typed(call.arguments[0])
        if kind not in (*_NUMBERS, "interval", "null", "any"):
            self._refuse(call, [(part, kind)], "only numbers and spans of time have a negative")
        return replace(call, arguments=(part,)), kind

    def concatenation(self, call: Call) -> Typed:
        arguments = [self._as_text(one, call) for one in self.all_of(call)]
        return _rebuilt(call, arguments), "text"

    def _as_text(self, one: Typed, call: Call) -> Typed:
        part, kind = one
        if kind in ("integer", "boolean", "date", "decimal"):
            return Call("cast", (part, Constant("string"))), "text"
        if kind not in ("text", "null", "any"):
            self._refuse(call, [one], "|| joins texts")
        return one

    # Functions with rules of their own

    def case(self, call: Call) -> Typed:
        arguments = self.all_of(call)
        ends = len(arguments) - len(arguments) % 2
        for part, kind in arguments[:ends:2]:
            if kind not in ("boolean", "null", "any"):
                raise QueryError(f"{part} is {_NAMES[kind]}, and no condition", call.span, "write case when a > b then ... end")
        places = [*range(1, ends, 2), *([ends] if len(arguments) % 2 else [])]
        values, kind = self.unified(call, [arguments[place] for place in places], "gives")
        for place, value in zip(places, values, strict=True):
            arguments[place] = value
        return _rebuilt(call, arguments), kind

    def same_kind(self, call: Call) -> Typed:
        arguments, kind = self.unified(call, self.all_of(call), "takes")
        return _rebuilt(call, arguments), kind

    def array(self, call: Call) -> Typed:
        arguments = self.all_of(call)
        if not any(kind == "list" for _, kind in arguments):
            arguments = self.unified(call, arguments, "has")[0]
        return _rebuilt(call, arguments), "list"

    def cast(self, call: Call) -> Typed:
        part, kind = self.typed(call.arguments[0])
        target = call.arguments[1]
        assert isinstance(target, Constant)
        name = str(target.value).lower().strip()
        digits = decimal_digits(name)
        found = _CASTS.get(name) if digits is None else "decimal"
        if found is None:
            hint = "known are boolean, bigint, double, decimal(p, s), string, date and timestamp"
            raise QueryError(f"there is no type {name!r} to cast to", call.span, hint)
        if digits is not None and not (1 <= digits[0] <= 38 and digits[1] <= digits[0]):
            raise QueryError(
                f"there is no type {name!r}: a decimal has 1 to 38 digits, p, and s of them behind the point", call.span
            )
        if (kind, found) in _NO_CASTS or kind in ("list", "bytes", "interval"):
            raise QueryError(f"'{call}': {_NAMES.get(kind, kind)} cannot be cast to {name}", call.span, None)
        return replace(call, arguments=(part, Constant(name))), found

    def truncated(self, call: Call) -> Typed:
        unit = call.arguments[0]
        if isinstance(unit, Constant) and str(unit.value).lower() not in UNITS_OF_TIME:
            hint = "write date_trunc('month', e.time); units are year, quarter, month, week, day, hour, minute, second"
            raise QueryError(f"{unit} is no unit of time", call.span, hint)
        return self._simple(call)

    def moment(self, call: Call) -> Typed:
        part, kind = self._as_moment(self.typed(call.arguments[0]), call)
        if kind not in (*_MOMENTS, "text", "null", "any"):
            self._refuse(call, [(part, kind)], f"{call.function} takes a date, a time or text")
        return replace(call, arguments=(part,)), "date" if call.function == "date" else "time"

    def on_times(self, call: Call) -> Typed:
        """Type what takes times, perhaps written as text."""
        arguments = [self._as_moment(one, call) if _is_time_like(one[0]) else one for one in self.all_of(call)]
        return _Typed(self, arguments)._simple(call)


class _Typed(_Typing):
    """Types a call whose arguments are typed already."""

    def __init__(self, typing: _Typing, arguments: list[Typed]) -> None:
        super().__init__(typing.of, typing.dialect)
        self.arguments = arguments

    def all_of(self, call: Call) -> list[Typed]:
        del call
        return self.arguments


_DAY = 86_400 * 10**6
_NO_CASTS = {
    *((kind, "text") for kind in ("double", "time")),  # texts would not be those of Spark
    *((kind, "date") for kind in ("boolean", *_NUMBERS)),
    *(("date", kind) for kind in ("boolean", *_NUMBERS)),
    *(("time", kind) for kind in ("boolean", "decimal")),
    ("boolean", "time"),
}
"""Casts that Spark does not have in ANSI mode, or that would not be those of Spark."""

_SIMPLE: dict[str, tuple[tuple[tuple[ValueKind, ...], ...], ValueKind | Literal["number"]]] = {
    **dict.fromkeys(("abs", "floor", "ceil"), ((_NUMBERS,), "number")),
    **dict.fromkeys(("sqrt", "exp", "ln", "log10", "sign", "power"), ((_NUMBERS,), "double")),
    "round": ((_NUMBERS, ("integer",)), "number"),
    **dict.fromkeys(_OF_TEXT, ((("text",),), "text")),
    "length": ((("text",),), "integer"),
    "substring": ((("text",), ("integer",), ("integer",)), "text"),
    "left": ((("text",), ("integer",)), "text"),
    "right": ((("text",), ("integer",)), "text"),
    **dict.fromkeys(_PARTS_OF_TIME, ((_MOMENTS,), "integer")),
    **dict.fromkeys(("unix_seconds", "unix_millis", "unix_micros"), ((_MOMENTS,), "integer")),
    "date_trunc": ((("text",), _MOMENTS), "time"),
    "datediff": ((_MOMENTS,), "integer"),
    "date_add": ((_MOMENTS, ("integer",)), "date"),
    "date_sub": ((_MOMENTS, ("integer",)), "date"),
    "add_months": ((_MOMENTS, ("integer",)), "date"),
    "timestamp_seconds": ((("integer",),), "time"),
    "timestamp_millis": ((("integer",),), "time"),
    "spanUnits": ((("interval",), ("integer",)), "integer"),
    "toInteger": (((*_NUMBERS, "text", "boolean"),), "integer"),
    "toFloat": (((*_NUMBERS, "text"),), "double"),
    "toString": (((*_NUMBERS, "text", "boolean", "date"),), "text"),
    "toBoolean": ((("text", "boolean", "integer"),), "boolean"),
}
"""What the arguments of functions may be (one entry: each of them), and what comes of them."""

_SIMPLE_IN_CYPHER: dict[str, tuple[tuple[tuple[ValueKind, ...], ...], ValueKind | Literal["number"]]] = {
    **dict.fromkeys(("floor", "ceil"), ((_NUMBERS,), "double")),
    "round": ((_NUMBERS, ("integer",)), "double"),
    "sign": ((_NUMBERS,), "integer"),
}
"""What is different in Cypher."""

_RULES: dict[str, Callable[[_Typing, Call], Typed]] = {
    **dict.fromkeys(("and", "or", "xor", "not"), _Typing.logic),
    **dict.fromkeys(OPERATORS, _Typing.comparison),
    "in": _Typing.is_in,
    "is null": _Typing.nothing,
    "is not null": _Typing.nothing,
    **dict.fromkeys(_TEXT_TESTS, _Typing.text_test),
    **dict.fromkeys(("+", "-", "*", "/", "%"), _Typing.arithmetic),
    "div": _Typing.division,
    "negative": _Typing.negative,
    "||": _Typing.concatenation,
    "case": _Typing.case,
    **dict.fromkeys(("coalesce", "greatest", "least", "nullif"), _Typing.same_kind),
    "cast": _Typing.cast,
    "date_trunc": _Typing.truncated,
    **dict.fromkeys(("array", "empty array"), _Typing.array),
    **dict.fromkeys(("date", "timestamp"), _Typing.moment),
    **dict.fromkeys(
        (*_PARTS_OF_TIME, "datediff", "date_add", "date_sub", "add_months", "unix_seconds", "unix_millis", "unix_micros"),
        _Typing.on_times,
    ),
}


def _is_time_like(part: Expression) -> bool:
    return isinstance(part, Constant) and isinstance(part.value, str)


def _rebuilt(call: Call, arguments: Sequence[Typed]) -> Call:
    return replace(call, arguments=tuple(part for part, _ in arguments))


def _common_number(arguments: Sequence[Typed]) -> ValueKind:
    """Return the kind that numbers become when they meet: doubles win over decimals, these over integers."""
    kinds = {kind for _, kind in arguments}
    if not kinds & set(_NUMBERS):
        return "any"
    return "double" if "double" in kinds else "decimal" if "decimal" in kinds else "integer"


def _span(expression: Expression) -> Span | None:
    """Return where an expression stands, if one of its parts knows."""
    if isinstance(expression, Call):
        return expression.span or next((s for s in map(_span, expression.arguments) if s is not None), None)
    return expression.span if isinstance(expression, Property) else None
