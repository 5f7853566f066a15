"""Values of every type: comparisons over whole columns against Python's own, one by one, and dictionaries of any ids."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import inf, nan

import numpy as np
import pyarrow as pa
import pytest

from bigjoin.index.dictionary import Dictionary, RowNumbers, ranks_of
from bigjoin.index.values import constant, kind, take
from bigjoin.joins.properties import compared, joint_keys, presence, satisfying
from bigjoin.query.operators import OPERATORS as TABLE
from tests.oracles.naive import OPERATORS

NUMBERS = {
    pa.int8(): [-128, 0, 5, None],
    pa.uint32(): [0, 5, 2**32 - 1],
    pa.int64(): [-(2**63), -1, 0, 5, 2**53 + 1, 2**63 - 1, None],
    pa.uint64(): [0, 5, 2**63, 2**64 - 1],
    pa.float32(): [0.5, nan, None, 5.0, -inf],
    pa.float64(): [-0.0, 0.0, 5.0, 0.1, nan, None, 2.0**53, 2.0**63, inf, -inf, -7.25],
    pa.decimal128(5, 2): [Decimal("0.10"), Decimal("5.00"), Decimal("-1.25"), None],
    pa.decimal128(38, 0): [Decimal(10) ** 37, Decimal(5), None],
    pa.decimal128(38, 30): [Decimal("0.1"), Decimal("5")],
    pa.decimal256(50, 3): [Decimal("5.000"), Decimal("-0.001"), Decimal(10) ** 40],
}
TEXT = {pa.string(): ["", "x", "é", "z", None], pa.large_string(): ["x", "Z", "\U0001f600"]}
BYTES = {pa.binary(): [b"", b"\xff", None], pa.binary(2): [b"ab", b"\xff\x00"]}
TRUTH = {pa.bool_(): [True, False, None]}
DAY = datetime(2024, 5, 1)
TIMES = {
    pa.timestamp("s"): [DAY, DAY + timedelta(seconds=1), datetime(1, 1, 1), datetime(9999, 1, 1)],
    pa.timestamp("ms", tz="UTC"): [DAY, DAY + timedelta(milliseconds=1), None],
    pa.timestamp("us"): [DAY, DAY + timedelta(microseconds=1), datetime(1969, 12, 31, 23, 59)],
    pa.timestamp("ns"): [DAY, None],
    pa.date32(): [date(2024, 5, 1), date(2024, 5, 2), date(1, 1, 1), None],
    pa.date64(): [date(2024, 5, 1)],
}
CONSTANTS = {
    "a number": [5, 0, -1, 0.1, 5.0, 2.5, 2**53 + 1, 2**63, -(10**400), 1e300, inf, -inf],
    "text": ["", "x", "é", "zz"],
    "a truth value": [True, False],
    "a time": ["2024-05-01", "2024-05-01 00:00:00.000001", "2024-05-01T02:00:00+02:00", "0001-01-01", "1969-12-31"],
}


def pieces(values, arrow):
    array = pa.array(values, arrow)
    return pa.chunked_array([array[:1], array[1:1], array[1:]], arrow)


def exact(value, other=None):
    """A value that Python compares exactly with any other of its kind; a decimal beside a float is a float."""
    if isinstance(value, float) and value in (inf, -inf):
        return value
    if isinstance(value, Decimal):
        return Fraction(float(value)) if isinstance(other, float) else Fraction(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    return Fraction(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def moment(text):
    found = datetime.fromisoformat(text)
    return found.replace(tzinfo=None) - (found.utcoffset() or timedelta())


def missing(value):
    return value is None or value != value


def wide(group):
    return [pytest.param(arrow, values, id=str(arrow)) for arrow, values in group.items()]


@pytest.mark.parametrize(("arrow", "values"), wide(NUMBERS | TEXT | TRUTH | TIMES))
def test_columns_satisfy_constants_as_their_values_do(arrow, values):
    column = pieces(values, arrow)
    stored = [v.replace(tzinfo=None) if isinstance(v, datetime) else v for v in column.to_pylist()]
    for value, op in product(CONSTANTS[kind(arrow)], OPERATORS):
        other = moment(value) if kind(arrow) == "a time" else value
        if pa.types.is_decimal(arrow) and value not in (inf, -inf):
            other = Decimal(repr(value))
        wanted = [not missing(v) and OPERATORS[op](exact(v), exact(other)) for v in stored]
        assert satisfying(column, op, constant(value, arrow)).tolist() == wanted, (op, value)


@pytest.mark.parametrize("group", [NUMBERS, TEXT, BYTES, TRUTH, TIMES])
def test_keys_of_two_columns_compare_as_their_values_do(group):
    for (one, left), (two, right) in product(group.items(), repeat=2):
        mine, other = pieces(left, one), pieces(right, two)
        keys, others = joint_keys(mine, mine if left is right else other)
        here, there = presence(mine), presence(other)
        stored = [[v.replace(tzinfo=None) if isinstance(v, datetime) else v for v in c.to_pylist()] for c in (mine, other)]
        for (i, a), (j, b) in product(enumerate(stored[0]), enumerate(stored[1])):
            assert missing(a) == (not here[i])
            assert missing(b) == (not there[j])
            if not (missing(a) or missing(b)):
                for op in OPERATORS:
                    wanted = OPERATORS[op](exact(a, b), exact(b, a))
                    assert compared(TABLE[op], keys[i], others[j]) == wanted, (one, two, a, op, b)


@pytest.mark.parametrize(
    ("arrow", "ids", "constants", "nonsense"),
    [
        (pa.int8(), [3, -1, 100], [3, 2.5, 1000, -inf, 10**400], ["x", True]),
        (pa.int64(), [3, 2**63 - 1], [3, 2**63, 9.223372036854775e18], ["3", False]),
        (pa.string(), ["b", "", "é"], ["b", "c", ""], [1, 2.5, True]),
        (pa.decimal128(6, 2), [Decimal("0.10"), Decimal("5.00")], [0.1, 5, 4.999, inf], ["5", True]),
        (pa.date32(), [date(2024, 5, 1), date(2023, 1, 1)], ["2024-05-01", "2024-05-01 12:00"], ["May", 5, True]),
        (pa.timestamp("ms"), [DAY, datetime(1960, 1, 1)], ["2024-05-01", "2024-05-01T00:00:00.0001"], ["x", 1.5]),
        (pa.timestamp("ns", tz="UTC"), [DAY], ["2024-05-01T02:00+02:00", "2025-01-01"], ["2024-05-01T00:00:00.0000001"]),
        (pa.binary(2), [b"ab"], [], ["ab", 1]),
    ],
    ids=str,
)
def test_dictionaries_place_constants_among_ids_of_any_type(arrow, ids, constants, nonsense):
    for stored in (pa.array(ids, arrow), pieces(ids, arrow)):
        dictionary = Dictionary(stored, ranks_of(pa.array(ids, arrow)))
        assert dictionary.type == arrow
        assert dictionary.decode(np.array([0, 0], np.uint32)).to_pylist() == [stored[0].as_py()] * 2
        for value in constants:
            other = moment(value) if kind(arrow) == "a time" else value
            other = Decimal(repr(value)) if pa.types.is_decimal(arrow) and value != inf else other
            plain = [exact(v.replace(tzinfo=None) if isinstance(v, datetime) else v) for v in ids]
            other = exact(other)
            assert dictionary.comparable(value)
            assert dictionary.smaller(value) == sum(v < other for v in plain)
            assert dictionary.smaller(value, or_equal=True) == sum(v <= other for v in plain)
            assert dictionary.code(value) == (plain.index(other) if other in plain else None)
        for value in nonsense:
            assert not dictionary.comparable(value)


def test_row_numbers_are_a_dictionary_of_themselves():
    rows, same = RowNumbers(5), Dictionary(pa.array(range(5)), np.arange(5))
    codes = np.array([4, 0, 4], np.uint32)
    assert (len(rows), rows.type, rows.ids) == (len(same), same.type, same.ids)
    assert rows.decode(codes) == same.decode(codes)
    for value in (-1, 0, 2, 2.5, 4, 5, inf, -inf, 10**400, -(10**400), "x", True):
        assert rows.comparable(value) == same.comparable(value)
        if rows.comparable(value):
            for or_equal in (False, True):
                assert rows.smaller(value, or_equal=or_equal) == same.smaller(value, or_equal=or_equal)
            assert rows.code(value) == same.code(value)


def test_values_are_taken_from_the_pieces_they_lie_in():
    rng = np.random.default_rng(5)
    column = pa.chunked_array([["a", None], [], ["c"], ["d", "e"], []], pa.string())
    codes = rng.integers(0, len(column), 50).astype(np.uint32)
    assert take(column, codes).to_pylist() == [column[int(c)].as_py() for c in codes]
    assert take(column, codes[:0]).to_pylist() == []
    assert take(pa.chunked_array([], pa.string()), codes[:0]).to_pylist() == []
