"""Times in the text of a query: ISO dates and times, and spans of time such as '1 day' or 'P1DT2H'."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal

from bigjoin.query.terms import Interval

UNITS_OF_TIME = {
    **{unit: unit for unit in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")},
    **{"millisecond": "millisecond", "microsecond": "microsecond"},
    **{"yyyy": "year", "yy": "year", "mon": "month", "mm": "month", "dd": "day"},
}
"""The units that times are truncated to, by the names that Spark has for them."""

_MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 10**3,
    "second": 10**6,
    "minute": 60 * 10**6,
    "hour": 3600 * 10**6,
    "day": 86_400 * 10**6,
    "week": 7 * 86_400 * 10**6,
}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_SHORT = {"us": "microsecond", "ms": "millisecond", "sec": "second", "min": "minute", "s": "second", "h": "hour", "d": "day"}
_PART = r"([+-]?\d+(?:\.\d+)?)\s*([a-zA-Z]+)"
_ISO = r"P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?"
_ISO_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")


def interval_of(text: str) -> Interval | None:
    """Return a span of time, such as '1 day 2 hours' or 'P1DT2H', or None if the text is none."""
    text = text.strip()
    if re.fullmatch(f"{_PART}(?:(?:\\s*,)?\\s*{_PART})*", text):
        return _added([(Decimal(number), unit.lower()) for number, unit in re.findall(_PART, text)])
    iso = re.fullmatch(_ISO, text.upper())
    if iso is None or not any(iso.groups()):
        return None
    found = zip(iso.groups(), _ISO_UNITS, strict=True)
    return _added([(Decimal(number), unit) for number, unit in found if number is not None])


def _added(parts: list[tuple[Decimal, str]]) -> Interval | None:
    months, microseconds = Decimal(0), Decimal(0)
    for number, word in parts:
        unit = _SHORT.get(word, word if word in _MICROSECONDS or word in _MONTHS else word.removesuffix("s"))
        if unit in _MONTHS:
            months += number * _MONTHS[unit]
        elif unit in _MICROSECONDS:
            microseconds += number * _MICROSECONDS[unit]
        else:
            return None
    if months != int(months) or microseconds != int(microseconds) or abs(microseconds) >= 2**63:
        return None
    return Interval(int(months), int(microseconds))


def time_of(text: str) -> datetime | date | None:
    """Return an ISO date or time, or None if the text is neither; a time with a zone is in UTC."""
    text = text.strip()
    if re.search(r"[.,]\d{7}", text):  # finer than a microsecond: it would be truncated
        return None
    try:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            return date.fromisoformat(text)
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is None else moment.astimezone(UTC)
