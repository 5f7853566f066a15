"""A trie that changes, at all of its moments, beside sets of tuples that change in the same way."""

from __future__ import annotations

import numpy as np
import pytest

from bigjoin.index import changing
from bigjoin.index.changing import ChangingTrie, Moment, UntrueDeltaError
from bigjoin.index.trie import build_trie

DOMAIN = 30


def columns_of(tuples, width):
    return [np.array([one[c] for one in sorted(tuples)], np.uint32) for c in range(width)]


def held(changing_trie, moment, width):
    """Return the tuples that the lists of a moment hold."""
    trie, found = changing_trie.trie(moment), set()
    for code in range(len(trie.places)):
        prefixes = [((code,), int(trie.places[code]))]
        for level in trie.levels:
            prefixes = [
                ((*prefix, int(level.values[at])), at)
                for prefix, node in prefixes
                for at in range(int(level.offsets[node]), int(level.offsets[node + 1]))
            ]
        assert [prefix for prefix, _ in prefixes] == sorted(prefix for prefix, _ in prefixes)
        found |= {prefix for prefix, _ in prefixes}
        assert all(len(prefix) == width for prefix, _ in prefixes)
    return found


@pytest.mark.parametrize("width", [2, 3])
@pytest.mark.parametrize("swept", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_versions_are_those_of_sets(width, swept, seed, monkeypatch):
    """Many epochs, of which some are united half way: slots are used again, and swept, and no version sees another's lists."""
    if swept:
        monkeypatch.setattr(changing, "MIN_SWEPT_TUPLES", 20)
    rng, sweeps, sweep = np.random.default_rng(seed), [], ChangingTrie._sweep
    monkeypatch.setattr(ChangingTrie, "_sweep", lambda trie: (sweeps.append(1), sweep(trie)))

    def drawn(many):
        return {tuple(row) for row in rng.integers(0, DOMAIN, (many, width)).tolist()}

    tuples = drawn(40)
    trie = ChangingTrie(build_trie(columns_of(tuples, width), DOMAIN), DOMAIN, DOMAIN)
    for _ in range(40):
        deleted = {one for one in tuples if rng.random() < rng.choice([0, 0.3])}
        inserted = drawn(int(rng.integers(0, 80))) - tuples
        trie.change(columns_of(deleted, width), insert=False)
        trie.change(columns_of(inserted, width), insert=True)
        after = (tuples - deleted) | inserted
        wanted = {Moment.BEFORE: tuples, Moment.BETWEEN: tuples - deleted, Moment.AFTER: after}
        if rng.integers(0, 2):
            wanted[Moment.UNITED] = tuples | inserted
        for moment, of_moment in wanted.items():
            assert held(trie, moment, width) == of_moment
        trie.commit()
        tuples = after
        assert held(trie, Moment.BEFORE, width) == tuples
        assert trie.live() == len(tuples)
    assert bool(sweeps) is swept


@pytest.mark.parametrize("width", [2, 3])
@pytest.mark.parametrize("insert", [True, False])
@pytest.mark.parametrize("fault", ["untrue", "twice", "more than there are"])
def test_a_delta_that_is_not_a_true_one_is_refused(width, insert, fault):
    known = {(1, 2, 3)[:width], (1, 4, 5)[:width], (7, 8, 9)[:width]}
    new = {(1, 3, 3)[:width], (2, 4, 5)[:width]}
    wrong = {
        "untrue": columns_of(known if insert else new, width),
        "twice": [np.repeat(column, 2) for column in columns_of(new if insert else known, width)],
        "more than there are": columns_of(known | new | {(7, n, 1)[:width] for n in range(10, 20)}, width),
    }[fault]
    trie = ChangingTrie(build_trie(columns_of(known, width), DOMAIN), DOMAIN, DOMAIN)
    with pytest.raises(UntrueDeltaError):
        trie.change(wrong, insert=insert)
