"""Kernels against the obvious Python, with the JIT, without it, and with bounds checking (in processes of their own)."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigjoin import kernels
from bigjoin.index.stage_runner import in_threads, in_turn
from bigjoin.index.trie import build_trie
from bigjoin.ingest import radix
from bigjoin.ingest.ids import sorted_unique
from bigjoin.kernels.compare import compare_extensions, count_differing
from bigjoin.kernels.edges import (
    count_ends,
    distances,
    drop_repeated,
    pack_edges,
    pack_undirected,
    renumber,
    swap_halves,
    write_lists,
)
from bigjoin.kernels.intersect import count_intersections, exclude_extensions, intersect_extensions
from bigjoin.kernels.lists import gallop, lower_bound
from bigjoin.kernels.patch import patch_lists
from bigjoin.kernels.sets import GALLOP_RATIO, common, without
from bigjoin.kernels.slots import CLASSES, free_slots, new_slots, take_slots

NONE = np.empty(0, np.uint32)


def lists(rng, sizes, domain):
    """Sorted lists without duplicates, as offsets and values."""
    parts = [np.sort(rng.choice(domain, size, replace=False)).astype(np.uint32) for size in sizes]
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), np.concatenate(parts)


@pytest.mark.parametrize("seed", range(20))
def test_searches_find_the_first_position_not_below(seed):
    rng = np.random.default_rng(seed)
    values = np.sort(rng.integers(0, 50, 40)).astype(np.uint32)
    for code in range(52):
        wanted = 5 + int(np.searchsorted(values[5:33], code))
        assert lower_bound(values, 5, 33, code) == gallop(values, 5, 33, code) == wanted


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("longest", [3, 3 * GALLOP_RATIO, 40 * GALLOP_RATIO])
def test_intersecting_and_excluding_are_set_operations(seed, longest):
    rng = np.random.default_rng(seed)
    domain, count = 1000, 12
    offsets, values = lists(rng, rng.integers(0, longest, 4), domain)
    nodes = np.sort(rng.integers(0, 4, count)).astype(np.uint32)
    sizes = rng.integers(0, 8, count)
    ends, candidates = lists(rng, sizes, domain)
    begins = ends[:-1]
    before = [set(candidates[b : b + n].tolist()) for b, n in zip(begins, sizes, strict=True)]
    held = [set(values[offsets[n] : offsets[n + 1]].tolist()) for n in nodes]
    marks = np.zeros(domain, np.uint8)

    kept, lengths = candidates.copy(), sizes.copy()
    intersect_extensions(offsets, values, nodes, NONE, NONE, marks, kept, begins, lengths)
    for i in range(count):
        assert kept[begins[i] : begins[i] + lengths[i]].tolist() == sorted(before[i] & held[i])
    assert not marks.any()

    counts = np.empty(count, np.int64)
    count_intersections(offsets, values, nodes, NONE, NONE, marks, candidates, begins, sizes, counts)
    assert counts.tolist() == [len(before[i] & held[i]) for i in range(count)]
    assert not marks.any()

    kept, lengths = candidates.copy(), sizes.copy()
    exclude_extensions(offsets, values, nodes, NONE, NONE, kept, begins, lengths)
    for i in range(count):
        assert kept[begins[i] : begins[i] + lengths[i]].tolist() == sorted(before[i] - held[i])


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("sizes", [(0, 9), (9, 0), (30, 40), (5, 400), (400, 5)])
@pytest.mark.parametrize("seed", range(5))
def test_what_two_sets_share_is_written_counted_or_kept_in_place(seed, sizes, marked):
    rng = np.random.default_rng(seed)
    (_, first, last), values = lists(rng, [7, sizes[0]], 500)
    others = lists(rng, [sizes[1]], 500)[1]
    marks = np.zeros(500, np.uint8)
    marks[values[first:last]] = marked
    wanted = np.intersect1d(values[first:last], others).tolist()
    operands = (values, first, last, marks, marked, others, 0, len(others))
    out = np.empty(500, np.uint32)
    assert common(*operands, None, 3) == common(*operands, out, 3) == 3 + len(wanted)
    assert out[3 : 3 + len(wanted)].tolist() == wanted
    end = common(*operands, values, first)
    assert values[first:end].tolist() == wanted


@pytest.mark.parametrize("many", [0, 1, 5, 60, 200])
@pytest.mark.parametrize("seed", range(10))
def test_differences_hold_what_the_other_set_does_not(seed, many):
    """Whether the other set is short or long, into another array or over the set itself."""
    rng = np.random.default_rng(seed)
    _, values = lists(rng, [rng.integers(20, 120)], 250)
    _, others = lists(rng, [many], 250)
    first, last = 7, int(rng.integers(7, len(values) + 1))
    wanted = np.setdiff1d(values[first:last], others).tolist()
    out = np.zeros(500, np.uint32)
    assert without(values, first, last, others, 0, len(others), out, 3) == 3 + len(wanted)
    assert out[3 : 3 + len(wanted)].tolist() == wanted
    assert not out[:3].any()
    end = without(values, first, last, others, 0, len(others), values, first)
    assert values[first:end].tolist() == wanted


@pytest.mark.parametrize("insert", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_patched_lists_have_codes_inserted_or_deleted(seed, insert):
    rng = np.random.default_rng(seed)
    domain, count = 40, 5
    offsets, values = lists(rng, rng.integers(1, 20, count), domain)
    held = [values[a:b] for a, b in pairwise(offsets)]
    pools = [np.setdiff1d(np.arange(domain), some) if insert else some for some in held]
    changes = [np.sort(rng.choice(pool, rng.integers(0, len(pool) + 1), replace=False)) for pool in pools]
    wanted = [(np.union1d if insert else np.setdiff1d)(*pair).tolist() for pair in zip(held, changes, strict=True)]
    assert patched(offsets, values, changes, wanted, insert) == wanted


@pytest.mark.parametrize(
    ("insert", "change"), [(True, [3]), (True, [2, 2]), (False, [2]), (False, [3, 3]), (False, [5, 6, 7, 8]), (True, [1, 9])]
)
def test_lists_are_not_patched_by_what_is_no_true_delta(insert, change):
    """Nothing is written where there is no room for it."""
    offsets, values = np.array([0, 5, 6], np.int64), np.array([1, 3, 5, 7, 9, 4], np.uint32)
    length = 5 + (len(change) if insert else -len(change))
    assert patched(offsets, values, [change, []], [[0] * length, [4]], insert) is None


def patched(offsets, values, changes, wanted, insert):
    """Return lists once they have changed, written behind the others with a gap between them, or None if they cannot."""
    lengths, (gap, nothing) = [len(some) for some in wanted], (3, 77)
    begins = len(values) + np.cumsum([0, *(length + gap for length in lengths[:-1])])
    slots = len(offsets) + 2 * np.arange(len(wanted), dtype=np.uint32)
    ends = np.stack([begins, begins + lengths], axis=1).ravel()
    room = np.full(int(ends[-1]) + gap, nothing, np.uint32)
    room[: len(values)] = values
    starts = np.cumsum([0, *map(len, changes)])
    changed, nodes = np.concatenate(changes).astype(np.uint32), np.arange(len(wanted), dtype=np.uint32)
    is_true = patch_lists(np.concatenate([offsets, ends]), room, nodes, starts, changed, insert, slots)
    outside = np.ones(len(room), np.bool_)
    for begin, length in zip(begins, lengths, strict=True):
        outside[begin : begin + length] = False
    assert room[outside].tolist() == values.tolist() + [nothing] * gap * len(wanted)
    return [room[begin : begin + length].tolist() for begin, length in zip(begins, lengths, strict=True)] if is_true else None


@pytest.mark.parametrize("seed", range(10))
def test_slots_are_never_two_lists_at_once(seed):
    """Lists come, change and go; a slot has room for its list, and nobody else writes there."""
    rng = np.random.default_rng(seed)
    offsets, values, free = np.array([0, 0], np.int64), np.zeros(0, np.uint32), np.zeros(CLASSES, np.uint32)
    keys = np.arange(12)
    old, new = np.zeros(len(keys), np.uint32), np.zeros(len(keys), np.uint32)
    held = {key: [] for key in keys.tolist()}
    for _ in range(60):
        insert = bool(rng.integers(0, 3))
        mine = np.sort(rng.choice(keys, 5, replace=False))
        pools = {k: np.setdiff1d(np.arange(90), held[k]) if insert else np.array(held[k], int) for k in mine.tolist()}
        changes = [np.sort(rng.choice(pool, min(len(pool), int(rng.integers(0, 9))), replace=False)) for pool in pools.values()]
        starts = np.cumsum([0, *map(len, changes)])
        slots, lengths = np.zeros(len(mine), np.uint32), np.zeros(len(mine), np.int64)
        needed = take_slots(offsets, values, old[mine], starts, insert, free, slots, lengths)
        first, begin = len(offsets), len(values)
        offsets = np.append(offsets, np.zeros(2 * np.count_nonzero(slots == 0), np.int64))
        values = np.append(values, np.zeros(needed, np.uint32))
        new_slots(offsets, first, begin, slots, lengths)
        changed = np.concatenate(changes).astype(np.uint32)
        assert patch_lists(offsets, values, old[mine], starts, changed, insert, slots)
        new[mine] = slots
        for key, change in zip(mine.tolist(), changes, strict=True):
            assert values[offsets[old[key]] : offsets[old[key] + 1]].tolist() == held[key]  # the old version stays
            held[key] = (np.union1d if insert else np.setdiff1d)(held[key], change).astype(int).tolist()
        free_slots(offsets, values, mine, new, (old, old.copy()), free, 2)
        assert old.tolist() == new.tolist()
        assert {key: values[offsets[n] : offsets[n + 1]].tolist() for key, n in enumerate(new)} == held
        used = new[new > 0]
        assert len(set(used.tolist())) == len(used)
    assert len(values) < 4 * 12 * 90, "slots are used again"


@pytest.mark.parametrize("operator", range(6))
def test_comparing_keeps_what_the_operator_allows(operator):
    rng = np.random.default_rng(operator)
    ends, candidates = lists(rng, np.array([5, 0, 7]), 50)
    begins = ends[:-1]
    ranks = rng.permutation(50).astype(np.uint32)
    others = np.array([20, 3, 30])
    lengths = np.array([5, 0, 7])
    allowed = [np.less, np.less_equal, np.greater, np.greater_equal, np.not_equal, np.equal][operator]
    wanted = [
        [c for c in candidates[b : b + n] if allowed(ranks[c], o)] for b, n, o in zip(begins, lengths, others, strict=True)
    ]
    compare_extensions(ranks, operator, others, candidates, begins, lengths)
    assert [candidates[b : b + n].tolist() for b, n in zip(begins, lengths, strict=True)] == wanted


def test_counting_differing_looks_each_code_up_once():
    candidates = np.array([1, 4, 9], np.uint32)
    prefixes = np.array([[4, 2], [4, 9], [7, 9]], np.uint32)  # the same three candidates for two prefixes
    shared = np.zeros(2, np.int64), np.full(2, 3)
    assert count_differing(prefixes, np.array([0, 1, 2]), candidates, *shared) == (3 - 1) + (3 - 1)


@pytest.mark.parametrize("arity", [2, 3, 4])
def test_a_trie_holds_the_set_of_its_tuples(arity):
    rng = np.random.default_rng(arity)
    columns = [rng.integers(0, 5, 60).astype(np.uint32) for _ in range(arity)]
    trie = build_trie(columns, 5)
    wanted = sorted(set(zip(*(c.tolist() for c in columns), strict=True)))
    assert list(zip(*(c.tolist() for c in trie.tuples(np.arange(len(trie)))), strict=True)) == wanted
    some = np.array([0, 3, len(trie) - 1])
    assert list(zip(*(c.tolist() for c in trie.tuples(some)), strict=True)) == [wanted[i] for i in some]
    probes = [rng.integers(0, 5, 100).astype(np.uint32) for _ in range(arity)]
    assert trie.contains(probes).tolist() == [t in set(wanted) for t in zip(*(p.tolist() for p in probes), strict=True)]
    assert trie.roots().values.tolist() == sorted({t[0] for t in wanted})


def key_arrays():
    """Keys of any kind: none, one, equal ones, extremes, and those that differ in few bits or in all."""
    extremes = [0, 1, 2**31 - 1, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1]
    bounds = st.sampled_from([0, 1, 2**10, 2**32 - 1, 2**64 - 1])
    keys = bounds.flatmap(lambda most: st.lists(st.one_of(st.integers(0, most), st.sampled_from(extremes)), max_size=60))
    return keys.map(lambda drawn: np.array(drawn, np.uint64))


@settings(deadline=None, max_examples=60)
@given(key_arrays(), st.sampled_from([0, 5, 32, 63]), st.integers(1, 4), st.sampled_from([in_turn, in_threads]))
def test_keys_are_sorted_by_their_digits(keys, first_bit, pieces, run):
    given_keys = keys.copy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(radix, "MIN_KEYS_BY_DIGIT", 1)
        patch.setattr(radix, "BLOCK_KEYS", 7)
        found = radix.sorted_keys(np.array_split(keys, pieces), run, first_bit=first_bit)
    order = np.argsort(keys >> np.uint64(first_bit), kind="stable")
    assert found.tolist() == keys[order].tolist()
    assert keys.tolist() == given_keys.tolist()
    assert radix.sorted_keys([keys], run, first_bit=first_bit).tolist() == found.tolist()  # by NumPy


@settings(deadline=None, max_examples=60)
@given(key_arrays())
def test_keys_are_ranked_by_their_digits(keys):
    distinct, ranks = radix.ranked_keys(keys)
    wanted, places = np.unique(keys, return_inverse=True)
    assert distinct.tolist() == wanted.tolist()
    assert ranks.tolist() == places.tolist()


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64])
def test_integers_have_the_order_of_their_values(kind, monkeypatch):
    monkeypatch.setattr(radix, "MIN_KEYS_BY_DIGIT", 1)
    monkeypatch.setattr(radix, "DISTINCT_PER_PASS", 0)
    limits = np.iinfo(kind)
    values = np.array([0, limits.max, -1, limits.min, 1, -1, limits.max - 1], kind)
    distinct, places = sorted_unique(pa.array(values))
    assert distinct.equals(pa.array(np.unique(values)))
    assert distinct.to_numpy()[places].tolist() == values.tolist()


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(*[st.one_of(st.integers(0, 9), st.sampled_from([2**32 - 1, 2**31]))] * 2), max_size=40))
def test_edges_become_keys_and_distinct(pairs):
    src, dst = np.array(pairs, np.uint32).reshape(-1, 2).T.copy()
    keys = np.empty(len(pairs), np.uint64)
    assert pack_edges(src, dst, keys) == len(pairs)
    assert keys.tolist() == [a << 32 | b for a, b in pairs]
    swapped = np.empty_like(keys)
    swap_halves(keys, swapped)
    assert swapped.tolist() == [b << 32 | a for a, b in pairs]
    keys.sort()
    assert keys[: drop_repeated(keys)].tolist() == sorted({a << 32 | b for a, b in pairs})
    proper = [(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]]
    assert keys[: pack_undirected(src, dst, keys)].tolist() == [a << 32 | b for a, b in proper]


@pytest.mark.parametrize("base", [0, -(2**63), 2**63 - 9, -4])
def test_distances_from_the_smallest_id(base):
    ids, found = np.arange(8, dtype=np.int64) + base, np.empty(8, np.uint32)
    assert distances(ids, base, base + 7, found)
    assert found.tolist() == list(range(8))
    assert not distances(ids, base, base + 6, found)
    assert not distances(ids, base + 1, base + 7, found)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("size", [0, 1, 40])
def test_sorted_edges_become_lists(seed, size):
    rng = np.random.default_rng(seed)
    nodes = 12
    src, dst = rng.integers(0, nodes, (2, size)).astype(np.uint64)
    keys = np.unique(src << np.uint64(32) | dst)
    pairs = [divmod(int(key), 2**32) for key in keys]
    counts = np.zeros(nodes, np.uint32)
    assert count_ends(keys, counts) == sum(a == b for a, b in pairs)
    assert counts.tolist() == [sum((a == v) + (b == v) for a, b in pairs) for v in range(nodes)]
    codes, renumbered = rng.permutation(nodes).astype(np.uint32), np.empty_like(keys)
    renumber(keys, codes[::-1].copy(), codes, renumbered)
    assert renumbered.tolist() == [int(codes[nodes - 1 - a]) << 32 | int(codes[b]) for a, b in pairs]
    offsets, values = np.full(nodes + 1, -1), np.empty(len(keys), np.uint32)
    for first in range(0, max(1, len(keys)), 7):
        last = min(first + 7, len(keys))
        write_lists(keys, first, last, offsets, values[first:last])
    assert values.tolist() == [b for _, b in pairs]
    assert offsets.tolist() == [sum(a < v for a, _ in pairs) for v in range(nodes + 1)]


EVERY_KERNEL = "test_kernels or batches-7 or nests or machine-code or heavy-light-7 or balanced-7"
"""The cases and treatments that, together, call every kernel."""


@pytest.mark.parametrize(
    ("setting", "tests"),
    [
        ("NUMBA_BOUNDSCHECK", "test_kernels"),
        pytest.param("NUMBA_BOUNDSCHECK", EVERY_KERNEL, marks=pytest.mark.slow),
        pytest.param("NUMBA_DISABLE_JIT", EVERY_KERNEL, marks=pytest.mark.slow),
    ],
)
def test_again_with_bounds_checked_and_without_the_jit(setting, tests, tmp_path):
    if os.environ.get("BIGJOIN_NESTED"):
        pytest.skip("this is that run")
    environment = {**os.environ, setting: "1", "NUMBA_CACHE_DIR": str(tmp_path), "BIGJOIN_NESTED": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        __file__,
        "tests/test_cases.py",
        "-m",
        "not spark",
        "-k",
        tests,
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


def test_no_kernel_hashes_as_python_does():
    """Machine code that does needs a symbol that only numba's tables define, and kept machine code is loaded without them."""
    for file in Path(kernels.__file__).parent.glob("*.py"):
        if file.name not in ("jit.py", "generated.py"):
            called = {
                node.func.id
                for node in ast.walk(ast.parse(file.read_text()))
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            }
            assert not called & {"hash", "set", "dict"}, file
