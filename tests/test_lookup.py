"""From ids to codes: integers of any size, in any order, as they arrive."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigjoin.index.dictionary import NO_CODE
from bigjoin.index.lookup import CodeLookup

INT64 = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(INT64, unique=True, max_size=60), st.lists(INT64, max_size=20), st.integers(1, 20))
def test_ids_have_the_codes_in_which_they_came(ids, others, portion):
    lookup = CodeLookup(pa.array(ids[:portion], pa.int64()))
    for start in range(portion, len(ids), portion):
        lookup.add(pa.array(ids[start : start + portion], pa.int64()))
    asked = [*ids, *others]
    wanted = [ids.index(value) if value in ids else NO_CODE for value in asked]
    assert lookup.codes(pa.array(asked, pa.int64())).tolist() == wanted
    assert lookup.codes(pa.chunked_array([pa.array(asked, pa.int64()), pa.array(asked, pa.int64())])).tolist() == wanted * 2
    assert lookup.size == len(ids)


@pytest.mark.parametrize("step", [1, 1 << 10, 1 << 32])
def test_a_table_grows_with_its_ids(step):
    ids = np.random.default_rng(step).permutation(50_000).astype(np.int64) * step
    lookup = CodeLookup(pa.array(ids[:1]))
    for start in range(1, len(ids), 7_000):
        lookup.add(pa.array(ids[start : start + 7_000]))
    assert (lookup.codes(pa.array(ids)) == np.arange(len(ids))).all()
    assert (lookup.codes(pa.array(ids + len(ids) * step)) == NO_CODE).all()


def test_unsigned_and_narrow_integers():
    ids = pa.array([2**64 - 1, 5], pa.uint64())
    assert CodeLookup(ids).codes(pa.array([5, 7, 2**64 - 1], pa.uint64())).tolist() == [1, NO_CODE, 0]
    assert CodeLookup(pa.array([3, -4], pa.int8())).codes(pa.array([-4, 4], pa.int8())).tolist() == [1, NO_CODE]


def test_text():
    lookup = CodeLookup(pa.array(["b", "a"]))
    lookup.add(pa.array(["c"]))
    assert lookup.codes(pa.array(["a", "c", "d"])).tolist() == [1, 2, NO_CODE]
