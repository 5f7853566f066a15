"""Functions of dates, times and spans of time. A day is 24 hours; a time with a zone says by its type where days begin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bigjoin.joins.number_functions import CHECKED, as_double, refuse_zero
from bigjoin.joins.value_columns import (
    FunctionOfValues,
    Values,
    constant_argument,
    is_text,
    missing_in,
)
from bigjoin.query.expressions import Call
from bigjoin.query.query import Dialect
from bigjoin.query.terms import Constant, Interval
from bigjoin.query.times import UNITS_OF_TIME


def as_times(arrays: Sequence[Values]) -> list[Values]:
    """Return dates and times with one type: dates, or times in microseconds, in UTC if one of them has a zone."""
    kinds = [array.type for array in arrays if not pa.types.is_null(array.type)]
    if all(pa.types.is_date(kind) for kind in kinds):
        return [array.cast(pa.date32()) for array in arrays]
    return [_time(array, _zone_of(*arrays)) for array in arrays]


def _zone_of(*arrays: Values) -> str | None:
    """Return the zone of the first times that have one."""
    return next((a.type.tz for a in arrays if pa.types.is_timestamp(a.type) and a.type.tz is not None), None)


def _time(array: Values, zone: str | None = None) -> Values:
    """Return times in microseconds: in a zone, which those without one are read in, or as a clock there shows them."""
    own = _zone_of(array)
    if own is not None:
        array = array.cast(pa.timestamp("us", zone or own), safe=False)
        return array if zone is not None else _shown_by_clocks(array)
    return _in_zone(array.cast(pa.timestamp("us"), safe=False), zone)


def _shown_by_clocks(array: Values) -> Values:
    return array.cast(pa.timestamp("us")) if array.type.tz == "UTC" else pc.local_timestamp(array)


def _in_zone(array: Values, zone: str | None) -> Values:
    """Return what clocks in a zone show as times; of an hour that they show twice the first is meant."""
    if zone is None:
        return array
    return pc.assume_timezone(array, zone, ambiguous="earliest", nonexistent="latest")


def _moved_to_zone(call: Call, arguments: list[Values], _: Dialect) -> Values:
    return arguments[0].cast(pa.timestamp("us", str(constant_argument(call, 1))), safe=False)


def time_arithmetic(call: Call, left: Values, right: Values) -> Values:
    """Add a span to a time, or take it away; take a time from another; or add up spans."""
    if pa.types.is_duration(left.type):
        if call.function in "*/":
            number = as_double(right)
            if call.function == "/":
                refuse_zero(left, number)
            exact = (pc.multiply if call.function == "*" else pc.divide)(as_double(left.cast(pa.int64())), number)
            return pc.round(exact, round_mode="half_towards_infinity").cast(pa.int64()).cast(pa.duration("us"))
        return CHECKED[call.function](left.cast(pa.duration("us")).cast(pa.int64()), right.cast(pa.int64())).cast(
            pa.duration("us")
        )
    if not pa.types.is_duration(right.type):
        one, other = (array.cast(pa.int64()) for array in _as_moments(left, right))
        return pc.subtract_checked(one, other).cast(pa.duration("us"))
    span = call.arguments[1]
    interval = span.value if isinstance(span, Constant) and isinstance(span.value, Interval) else None
    sign = 1 if call.function == "+" else -1
    whole_days = interval is not None and not interval.microseconds % _DAY
    if interval is not None and interval.months:
        left = _with_months(left, sign * interval.months)
    if pa.types.is_date(left.type) and whole_days and interval is not None:
        days = sign * interval.microseconds // _DAY
        return pc.add_checked(left.cast(pa.date32()).cast(pa.int32()), pa.scalar(days, pa.int32())).cast(pa.date32())
    time = _time(left, _zone_of(left))
    return CHECKED[call.function](time, right.cast(pa.duration("us")))


def _as_moments(left: Values, right: Values) -> list[Values]:
    return [_time(array, _zone_of(left, right)) for array in (left, right)]


_DAY = 86_400 * 10**6


def _with_months(array: Values, months: Any) -> Values:
    """Return times some months later; a day that the month does not have becomes its last."""
    kind, missing = array.type, missing_in(array)
    moments = _time(array).cast(pa.int64()).fill_null(0).to_numpy().astype("datetime64[us]")
    month = moments.astype("datetime64[M]")
    later = month + months
    days = (moments.astype("datetime64[D]") - month.astype("datetime64[D]")).astype(np.int64)
    longest = ((later + 1).astype("datetime64[D]") - later.astype("datetime64[D]")).astype(np.int64)
    day = later.astype("datetime64[D]") + np.minimum(days, longest - 1)
    found = day.astype("datetime64[us]") + (moments - moments.astype("datetime64[D]"))
    times = pa.array(found.astype(np.int64), pa.int64(), mask=missing).cast(pa.timestamp("us"))
    if pa.types.is_date(kind):
        return times.cast(pa.date32(), safe=False)
    return _in_zone(times, kind.tz)


def _local(array: Values) -> Values:
    return array if pa.types.is_date(array.type) else _time(array)


def _part(function: Callable[[Values], Values]) -> FunctionOfValues:
    return lambda _, arguments, __: function(_local(arguments[0])).cast(pa.int64())


def _clock(function: Callable[[Values], Values]) -> FunctionOfValues:
    return lambda _, arguments, __: function(_time(arguments[0])).cast(pa.int64())


def _weekday(array: Values) -> Values:
    return pc.day_of_week(array, count_from_zero=False, week_start=7)


def date_of_values(_: Call, arguments: list[Values], __: Dialect) -> Values:
    """Return the dates of times or texts."""
    (array,) = arguments
    if is_text(array.type):
        return array.cast(pa.timestamp("us")).cast(pa.date32(), safe=False)
    return array.cast(pa.date32()) if pa.types.is_date(array.type) else _time(array).cast(pa.date32(), safe=False)


def timestamp_of_values(_: Call, arguments: list[Values], __: Dialect) -> Values:
    """Return dates or texts as times."""
    (array,) = arguments
    if pa.types.is_timestamp(array.type):
        return array
    return array.cast(pa.timestamp("us"))


def _truncated(call: Call, arguments: list[Values], _: Dialect) -> Values:
    array, unit = arguments[1], UNITS_OF_TIME[str(constant_argument(call, 0)).lower()]
    return _in_zone(pc.floor_temporal(_time(array), unit=unit), _zone_of(array))


def _days_between(call: Call, arguments: list[Values], dialect: Dialect) -> Values:
    later, earlier = (date_of_values(call, [array], dialect).cast(pa.int32()).cast(pa.int64()) for array in arguments)
    return pc.subtract(later, earlier)


def _moved(sign: int) -> FunctionOfValues:
    def found(call: Call, arguments: list[Values], dialect: Dialect) -> Values:
        days = date_of_values(call, arguments[:1], dialect).cast(pa.int32())
        more = arguments[1].cast(pa.int32())
        return (pc.add_checked if sign > 0 else pc.subtract_checked)(days, more).cast(pa.date32())

    return found


def _months_later(call: Call, arguments: list[Values], dialect: Dialect) -> Values:
    months = arguments[1].cast(pa.int64())
    missing = missing_in(months)
    moved = _with_months(date_of_values(call, arguments[:1], dialect), months.fill_null(0).to_numpy())
    return pc.if_else(pa.array(missing), pa.scalar(None, pa.date32()), moved)


def _unix(divisor: int) -> FunctionOfValues:
    def found(_: Call, arguments: list[Values], __: Dialect) -> Values:
        micros = _time(arguments[0], "UTC").cast(pa.int64())
        numbers = micros.fill_null(0).to_numpy() // divisor
        return pa.array(numbers, pa.int64(), mask=missing_in(micros))

    return found


def _of_unix(factor: int) -> FunctionOfValues:
    def found(_: Call, arguments: list[Values], __: Dialect) -> Values:
        micros = pc.multiply_checked(arguments[0].cast(pa.int64()), pa.scalar(factor, pa.int64()))
        return micros.cast(pa.timestamp("us", "UTC"))

    return found


def _units_of_span(call: Call, arguments: list[Values], _: Dialect) -> Values:
    """Return how many whole units a span of time has."""
    return pc.divide(arguments[0].cast(pa.duration("us")).cast(pa.int64()), pa.scalar(constant_argument(call, 1), pa.int64()))


TIME_FUNCTIONS: dict[str, FunctionOfValues] = {
    "year": _part(pc.year),
    "quarter": _part(pc.quarter),
    "month": _part(pc.month),
    "week": _part(pc.iso_week),
    "day": _part(pc.day),
    "dayofyear": _part(pc.day_of_year),
    "dayofweek": _part(_weekday),
    "hour": _clock(pc.hour),
    "minute": _clock(pc.minute),
    "second": _clock(pc.second),
    "date": date_of_values,
    "timestamp": timestamp_of_values,
    "date_trunc": _truncated,
    "datediff": _days_between,
    "date_add": _moved(1),
    "date_sub": _moved(-1),
    "add_months": _months_later,
    "unix_seconds": _unix(10**6),
    "unix_millis": _unix(10**3),
    "unix_micros": _unix(1),
    "in zone": _moved_to_zone,
    "timestamp_seconds": _of_unix(10**6),
    "timestamp_millis": _of_unix(10**3),
    "spanUnits": _units_of_span,
}
