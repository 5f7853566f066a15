"""What functions of values share: columns, and how they read their arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bigjoin.query.expressions import Call
from bigjoin.query.query import Dialect
from bigjoin.query.terms import Constant

Values: TypeAlias = pa.Array
FunctionOfValues: TypeAlias = Callable[[Call, list[Values], Dialect], Values]


def missing_in(*arrays: Values) -> Any:
    """Tell where one of some columns is NULL."""
    found = np.zeros(len(arrays[0]), np.bool_)
    for array in arrays:
        found |= np.asarray(pc.is_null(array))
    return found


def as_text(array: Values) -> Values:
    """Return text; a column of nothing but NULL becomes text as well."""
    return array.cast(pa.string()) if pa.types.is_null(array.type) else array


def value_by_value(function: Callable[..., Any], kind: pa.DataType, arguments: Sequence[Values]) -> Values:
    """Compute what no function of Arrow can, as when the place in a text differs from row to row; NULLs stay NULL."""
    rows = zip(*(argument.to_pylist() for argument in arguments), strict=True)
    return pa.array([None if None in row else function(*row) for row in rows], kind)


def by_distinct_value(array: Values, function: Callable[[Any], Any], kind: pa.DataType) -> Values:
    """Compute a function of values once for each different one; NULLs stay NULL."""
    encoded = array.dictionary_encode()
    found = pa.array([None if value is None else function(value) for value in encoded.dictionary.to_pylist()], kind)
    return found.take(encoded.indices)


def is_text(kind: pa.DataType) -> bool:
    """Tell whether values of a type are text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def are_constants(call: Call, *places: int) -> bool:
    """Tell whether arguments are constants, and no NULLs."""
    given = [call.arguments[place] for place in places if place < len(call.arguments)]
    return all(isinstance(argument, Constant) and argument.value is not None for argument in given)


def constant_argument(call: Call, place: int) -> Any:
    """Return the value of an argument that has to be a constant."""
    argument = call.arguments[place] if place < len(call.arguments) else None
    if not isinstance(argument, Constant):
        raise pa.ArrowInvalid(f"argument {place + 1} has to be a constant")
    return argument.value


def number_argument(call: Call, place: int, otherwise: Any) -> Any:
    """Return the value of an argument, or another if it is left out."""
    return otherwise if place >= len(call.arguments) else constant_argument(call, place)
