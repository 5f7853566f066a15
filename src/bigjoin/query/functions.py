"""The functions that expressions are made of: how each is written, and how many arguments it takes.

An operator is a function with a spelling of its own. What a function means for values is in `joins/evaluate.py`; which values
it takes is decided by `planner/type_expressions.py`. Both are tables by these names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import inf
from typing import Literal

from bigjoin.query.operators import OPERATORS

Spelling = Literal["call", "infix", "prefix", "postfix", "words"]


@dataclass(frozen=True, slots=True)
class FunctionEntry:
    """A function of expressions."""

    name: str
    fewest: int = 1
    most: float = 1
    spelling: Spelling = "call"
    binding: int = 9
    """How tightly an operator binds; printed, an argument that binds less tightly is put into parentheses."""
    commutes: bool = False
    """Whether its arguments can change places."""
    is_condition: bool = False
    """Whether its value is true, false or unknown."""
    selectivity: float = 0.5
    """The share of bindings that it is assumed to keep, if it is a condition."""
    of_path: bool = False
    """Whether it is about a path, and is spelled out with it (`query/paths.py`)."""


def _entries(*names: str, fewest: int = 1, most: float | None = None) -> list[FunctionEntry]:
    return [FunctionEntry(name, fewest, fewest if most is None else most) for name in names]


FUNCTIONS: dict[str, FunctionEntry] = {
    entry.name: entry
    for entry in (
        FunctionEntry("or", 2, inf, "infix", 1, commutes=True, is_condition=True, selectivity=0.7),
        FunctionEntry("and", 2, inf, "infix", 2, commutes=True, is_condition=True, selectivity=0.25),
        FunctionEntry("xor", 2, inf, "infix", 1, commutes=True, is_condition=True),
        FunctionEntry("not", 1, 1, "prefix", 3, is_condition=True),
        FunctionEntry("is null", 1, 1, "postfix", 4, is_condition=True, selectivity=0.1),
        FunctionEntry("is not null", 1, 1, "postfix", 4, is_condition=True, selectivity=0.9),
        FunctionEntry("in", 2, inf, "words", 4, is_condition=True, selectivity=0.1),
        FunctionEntry("like", 2, 2, "infix", 4, is_condition=True, selectivity=0.2),
        FunctionEntry("ilike", 2, 2, "infix", 4, is_condition=True, selectivity=0.2),
        FunctionEntry("rlike", 2, 2, "infix", 4, is_condition=True, selectivity=0.2),
        FunctionEntry("matches", 2, 2, "infix", 4, is_condition=True, selectivity=0.2),
        FunctionEntry("starts with", 2, 2, "infix", 4, is_condition=True, selectivity=0.2),
        FunctionEntry("ends with", 2, 2, "infix", 4, is_condition=True, selectivity=0.2),
        FunctionEntry("contains", 2, 2, "infix", 4, is_condition=True, selectivity=0.2),
        FunctionEntry("||", 2, inf, "infix", 5),
        FunctionEntry("+", 2, 2, "infix", 6, commutes=True),
        FunctionEntry("-", 2, 2, "infix", 6),
        FunctionEntry("*", 2, 2, "infix", 7, commutes=True),
        FunctionEntry("/", 2, 2, "infix", 7),
        FunctionEntry("%", 2, 2, "infix", 7),
        FunctionEntry("div", 2, 2, "infix", 7),
        FunctionEntry("negative", 1, 1, "prefix", 8),
        FunctionEntry("case", 2, inf, "words"),
        FunctionEntry("cast", 2, 2, "words"),
        FunctionEntry("in zone", 2, 2, "words"),
        FunctionEntry("coalesce", 1, inf),
        FunctionEntry("greatest", 2, inf, commutes=True),
        FunctionEntry("least", 2, inf, commutes=True),
        FunctionEntry("nullif", 2, 2),
        *_entries("abs", "floor", "ceil", "sqrt", "exp", "ln", "log10", "sign"),
        *_entries("round", fewest=1, most=2),
        *_entries("power", fewest=2),
        *_entries("lower", "upper", "length", "trim", "ltrim", "rtrim", "reverse"),
        *_entries("substring", fewest=2, most=3),
        *_entries("replace", fewest=3),
        *_entries("left", "right", fewest=2),
        *_entries("year", "quarter", "month", "week", "day", "hour", "minute", "second", "dayofweek", "dayofyear"),
        *_entries("date", "timestamp"),
        *_entries("date_trunc", "datediff", "date_add", "date_sub", "add_months", fewest=2),
        *_entries("unix_seconds", "unix_millis", "unix_micros"),
        *_entries("timestamp_seconds", "timestamp_millis"),
        *_entries("toInteger", "toFloat", "toString", "toBoolean", "type", "relation"),
        *_entries("spanUnits", fewest=2),
        *_entries("array", most=inf),
        *_entries("empty array"),
        *(FunctionEntry(name, of_path=True) for name in ("first", "last", "next", "src", "dst", "nodes", "edges")),
        FunctionEntry(".", 2, 2, "words", of_path=True),
        FunctionEntry("every", 2, 2, is_condition=True, of_path=True),
        FunctionEntry("some", 2, 2, is_condition=True, of_path=True),
        FunctionEntry("list", 1, inf, of_path=True),
    )
}
"""All functions but comparisons, by the name that a `Call` has."""

SYNONYMS = {
    "ceiling": "ceil",
    "char_length": "length",
    "character_length": "length",
    "concat": "||",
    "dayofmonth": "day",
    "endswith": "ends with",
    "ifnull": "coalesce",
    "lcase": "lower",
    "log": "ln",
    "mod": "%",
    "nvl": "coalesce",
    "pow": "power",
    "regexp": "rlike",
    "regexp_like": "rlike",
    "signum": "sign",
    "startswith": "starts with",
    "substr": "substring",
    "to_date": "date",
    "to_timestamp": "timestamp",
    "ucase": "upper",
    "weekofyear": "week",
}
"""Other names of functions, as Spark SQL has them."""

AGGREGATE_FUNCTIONS = ("count", "count distinct", "sum", "min", "max", "avg")
"""What a column of groups may hold. `count` of nothing in particular counts matches."""


CYPHER_ONLY = frozenset(
    (
        *("toInteger", "toFloat", "toString", "toBoolean", "type", "relation", "spanUnits"),
        *("every", "some", "list"),
    )
)
"""Functions that rules do not have: SQL has others, or none, in their place."""


def decimal_digits(name: str) -> tuple[int, int] | None:
    """Return the digits of a decimal type, such as decimal(10, 2), and those behind the point; None for any other type."""
    found = re.fullmatch(r"(?:decimal|numeric|dec)(?:\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?", name)
    return None if found is None else (int(found[1] or 10), int(found[2] or 0))


def function_entry(name: str) -> FunctionEntry:
    """Return the function or comparison operator that a `Call` names."""
    if (operator := OPERATORS.get(name)) is None:
        return FUNCTIONS[name]
    commutes, selectivity = operator.symmetric, operator.selectivity
    return FunctionEntry(name, 2, 2, "infix", 4, commutes=commutes, is_condition=True, selectivity=selectivity)


def function_named(name: str) -> FunctionEntry | None:
    """Return the function that a text calls by name, in any case; None if there is none."""
    key = name.casefold()
    entry = FUNCTIONS.get(SYNONYMS.get(key, key))
    if entry is None or entry.name in CYPHER_ONLY:
        return None
    return None if (entry.spelling != "call" and key not in SYNONYMS and not key.isidentifier()) else entry
