"""Generated graphs, without Spark: what each family promises, held against brute force and published figures."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from itertools import combinations, permutations
from math import prod, sqrt

import numpy as np
import pytest

from bigjoin.errors import GeneratorError
from bigjoin.generators import Funnel, Hubs, Rmat, Theory, Uniform, family
from bigjoin.generators.draws import Permutation
from bigjoin.generators.pairs import ordered_pairs

LARGE = [
    Rmat(10, 2_300_000, seed=7),
    Uniform(5_000, 2_300_000, seed=7),
    Theory((2, 3, 4, 9, 16, 25)),
    Funnel(4_000, 2_300_000, seed=7),
    Hubs(3_000, 2_300_000, hubs=500, seed=7),
]
"""Each family with more than one chunk."""

PUBLISHED = {
    (3, 4, 5, 9, 16, 25): (530_400, 11_080_030, 35_882_427),
    (5, 9, 16, 25, 81): (2_174_640, 28_667_380, 66_758_995),
}
"""GraphChallenge's Theory graphs of kind B1k: vertices, undirected edges, triangles."""


def all_edges(graph):
    src, dst = zip(*(graph.edges(chunk) for chunk in range(graph.chunks)), strict=True)
    return np.concatenate(src), np.concatenate(dst)


def pairs(graph):
    src, dst = all_edges(graph)
    return list(zip(src.tolist(), dst.tolist(), strict=True))


def distinct(numbers):
    return 1 + np.count_nonzero(np.diff(np.sort(numbers)))  # np.unique takes ten times as long for millions


def triangles(edges, vertices):
    """The undirected triangles, by trying all."""
    near = {frozenset(edge) for edge in edges}
    return [
        three for three in combinations(range(vertices), 3) if all(frozenset(two) in near for two in combinations(three, 2))
    ]


def name(graph):
    return type(graph).__name__


@pytest.mark.parametrize("graph", LARGE, ids=name)
def test_a_chunk_is_the_same_whoever_makes_it_and_when(graph):
    assert graph.chunks == -(-graph.edge_count // 1_000_000) > 1
    forwards = [graph.edges(chunk) for chunk in range(graph.chunks)]
    twin = type(graph)(**vars(graph))
    for chunk in reversed(range(graph.chunks)):
        for ours, theirs in zip(forwards[chunk], twin.edges(chunk), strict=True):
            assert ours.dtype == np.int64
            assert len(ours) == graph.size(chunk) <= 1_000_000
            assert np.array_equal(ours, theirs)
            assert 0 <= ours.min() <= ours.max() < graph.vertices
    assert sum(len(src) for src, _ in forwards) == graph.edge_count
    assert not any(np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1]) for a, b in combinations(forwards, 2))


@pytest.mark.parametrize("graph", [graph for graph in LARGE if not isinstance(graph, Rmat)], ids=name)
@pytest.mark.parametrize("size", [999_999, 1 << 20])
def test_numbered_edges_do_not_depend_on_where_chunks_end(monkeypatch, graph, size):
    """An R-MAT edge does: it is drawn from its chunk's stream."""
    wanted = all_edges(graph)
    monkeypatch.setattr(family, "CHUNK_EDGES", size)
    assert all(np.array_equal(*ends) for ends in zip(wanted, all_edges(graph), strict=True))


@pytest.mark.parametrize("graph", [Rmat(8, 1000), Uniform(100, 1000), Funnel(100, 1000), Hubs(100, 1000)], ids=name)
def test_another_seed_is_another_graph(graph):
    assert len({frozenset(Counter(pairs(type(graph)(**{**vars(graph), "seed": seed}))).items()) for seed in range(5)}) == 5


@pytest.mark.parametrize("size", [1, 2, 3, 8, 13, 1000, 1 << 12, 54_321])
def test_permutations_reach_every_number_once(size):
    for seed in (0, 1, 2**63 - 1):
        assert sorted(Permutation(size, seed)(np.arange(size)).tolist()) == list(range(size))


def test_permutations_of_a_huge_size_stay_inside():
    size = 2**62 + 5
    images = Permutation(size, 3)(np.arange(100_000) + (size - 100_000))
    assert len(set(images.tolist())) == 100_000
    assert 0 <= images.min() <= images.max() < size
    assert abs(images.mean() / size - 0.5) < 5 / sqrt(12 * 100_000)


def test_ordered_pairs_are_all_pairs():
    src, dst = ordered_pairs(np.arange(7 * 6), 7)
    assert list(zip(src.tolist(), dst.tolist(), strict=True)) == list(permutations(range(7), 2))


def test_uniform_edges_are_distinct_and_without_loops():
    src, dst = all_edges(Uniform(1_000, 300_000, seed=3))
    assert distinct(src * 1_000 + dst) == 300_000
    assert not (src == dst).any()
    assert sorted(pairs(Uniform(9, 72))) == list(permutations(range(9), 2))


def test_uniform_degrees_spread_as_chance_says():
    """Degrees are hypergeometric: their variance is that of m draws from n (n - 1) pairs without putting back."""
    n, m = 2_000, 400_000
    share = (n - 1) / (n * (n - 1))
    variance = m * share * (1 - share) * (n * (n - 1) - m) / (n * (n - 1) - 1)
    for ends in all_edges(Uniform(n, m, seed=11)):
        degrees = np.bincount(ends, minlength=n)
        assert degrees.mean() == m / n
        assert abs(degrees.var() / variance - 1) < 6 * sqrt(2 / n)


def test_rmat_bits_fall_into_quadrants_as_often_as_asked():
    edges, probabilities = 200_000, (0.5, 0.3, 0.15, 0.05)
    src, dst = all_edges(Rmat(12, edges, 5, probabilities, scramble=False))
    for bit in range(12):
        found = np.bincount(2 * (src >> bit & 1) + (dst >> bit & 1), minlength=4)
        for count, p in zip(found, probabilities, strict=True):
            assert abs(count - edges * p) < 5 * sqrt(edges * p * (1 - p))


@pytest.mark.parametrize(
    ("probabilities", "edge"),
    [((1, 0, 0, 0), (0, 0)), ((0, 1, 0, 0), (0, 63)), ((0, 0, 1, 0), (63, 0)), ((0, 0, 0, 1), (63, 63))],
)
def test_rmat_with_one_quadrant_has_one_edge(probabilities, edge):
    assert set(pairs(Rmat(6, 101, 1, probabilities, scramble=False))) == {edge}


@pytest.mark.parametrize("scale", [1, 5, 16])
def test_rmat_scrambles_by_renaming(scale):
    plain, scrambled = (pairs(Rmat(scale, 5_001, 9, scramble=scramble)) for scramble in (False, True))
    names = dict(zip(np.ravel(plain).tolist(), np.ravel(scrambled).tolist(), strict=True))
    assert [(names[a], names[b]) for a, b in plain] == scrambled
    assert len(set(names.values())) == len(names)
    assert scale == 1 or any(old != new for old, new in names.items())


@pytest.mark.parametrize("stars", [(1,), (4,), (3, 4), (1, 1, 1), (2, 3, 4), (4, 1, 3)])
def test_theory_is_the_kronecker_product_of_stars(stars):
    def star(leaves):
        matrix = np.zeros((leaves + 1, leaves + 1), dtype=int)
        matrix[0, :] = matrix[:, 0] = 1  # with the loop of the centre
        return matrix

    product = reduce(np.kron, map(star, stars))
    graph = Theory(stars)
    edges = pairs(graph)
    assert sorted(edges) == list(zip(*np.nonzero(np.triu(product, 1)), strict=True))
    assert (graph.vertices, graph.edge_count) == (len(product), len(edges))
    assert len(triangles(edges, graph.vertices)) == known_triangles(stars)


def known_triangles(stars):
    """The formula of the docs."""
    return (prod(3 * m + 1 for m in stars) - 3 * prod(m + 1 for m in stars) + 2) // 6


@pytest.mark.parametrize(("stars", "figures"), PUBLISHED.items(), ids=str)
def test_theory_has_the_published_size(stars, figures):
    graph = Theory(stars)
    assert (graph.vertices, graph.edge_count, known_triangles(stars)) == figures
    assert Theory.parse("-".join(map(str, stars))) == graph


@pytest.mark.parametrize(
    ("stars", "figures"),
    [pytest.param(*known, marks=pytest.mark.slow if known[0][0] == 5 else ()) for known in PUBLISHED.items()],
)
def test_theory_really_makes_the_published_graph(stars, figures):
    vertices, edges, _ = figures
    src, dst = all_edges(Theory(stars))
    assert (src < dst).all()
    assert distinct(src * vertices + dst) == edges
    degrees = np.bincount(src, minlength=vertices) + np.bincount(dst, minlength=vertices)
    assert degrees.min() == 1
    assert degrees[0] == vertices - 1


@pytest.mark.parametrize(("vertices", "edges"), [(3, 2), (3, 3), (30, 29), (30, 100), (31, 30 + 15 * 15)])
def test_every_triangle_of_a_funnel_goes_through_its_vertex(vertices, edges):
    graph = pairs(Funnel(vertices, edges, seed=2))
    assert len(set(graph)) == edges
    assert {v for edge in graph for v in edge} == set(range(vertices))
    found = triangles(graph, vertices)
    assert all(three[0] == 0 for three in found)
    assert len(found) == edges - (vertices - 1)
    out = {v: {b for a, b in graph if a == v} for v in range(vertices)}
    directed = [(a, b, c) for a, b in graph for c in out[a] & out[b]]
    assert len(directed) == len(found)
    assert all(b == 0 for _, b, _ in directed)
    # What a join of two edges makes of it: every source with every sink, through one vertex.
    assert len([a for a, b in graph if b == 0]) * len(out[0]) >= ((vertices - 1) // 2) ** 2


@pytest.mark.parametrize(
    ("vertices", "hubs", "edges"), [(2, 1, 1), (30, 1, 29), (40, 3, 300), (12, 11, 121), (20, 4, 76 + 16 * 15)]
)
def test_hubs_reach_everything_and_two_of_them_propose_everything(vertices, hubs, edges):
    graph = pairs(Hubs(vertices, edges, hubs, seed=2))
    assert len(set(graph)) == edges
    assert all(a != b for a, b in graph)
    out = {v: {b for a, b in graph if a == v} for v in range(vertices)}
    for hub in range(hubs):
        assert out[hub] == set(range(vertices)) - {hub}
    assert all(b >= hubs for a, b in graph if a >= hubs)
    for first, second in permutations(range(hubs), 2):
        assert len(out[first] & out[second]) == vertices - 2


def test_the_rest_of_a_graph_with_hubs_is_sparse():
    graph = pairs(Hubs(1_000, 3 * 999 + 2_000, 3, seed=2))
    others = Counter(a for a, _ in graph if a >= 3)
    assert sum(others.values()) == 2_000
    assert max(others.values()) < 20  # two on average


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rmat(0, 10), "with a scale from 1 to 62, not 0"),
        (lambda: Rmat(63, 10), "with a scale from 1 to 62, not 63"),
        (lambda: Rmat(5, 0), "has from 1 to 4,611,686,018,427,387,904 edges, not 0"),
        (lambda: Rmat(5, 10, -1), "a seed is from 0 to 2^63 - 1, not -1"),
        (lambda: Rmat(5, 10, 1, (0.5, 0.5, 0.5, 0.5)), "add up to 1, as 0.57,0.19,0.19,0.05 do, not 0.5,0.5,0.5,0.5"),
        (lambda: Rmat(5, 10, 1, (1.5, -0.5, 0, 0)), "add up to 1"),
        (lambda: Rmat(5, 10, 1, (float("nan"), 0, 0, 1)), "add up to 1"),
        (lambda: Uniform(1, 1), "a uniform graph has from 2 to 3,037,000,500 vertices, not 1"),
        (lambda: Uniform(3, 7), "a uniform graph of 3 vertices has from 1 to 6 edges, not 7"),
        (lambda: Uniform(1 << 40, 7), "from 2 to 3,037,000,500 vertices"),
        (lambda: Uniform(3, 3, 1 << 63), "a seed is from 0 to 2^63 - 1"),
        (lambda: Theory(()), "at least one star, for example 3-4-5"),
        (lambda: Theory((3, 0)), "a star has at least one leaf, not 0"),
        (lambda: Theory((99,) * 9), "has more than 2^63 edges"),
        (lambda: Theory.parse("3-x"), "stars are numbers of leaves such as 3-4-5, not '3-x'"),
        (lambda: Theory.parse(""), "not ''"),
        (lambda: Theory.parse("3--4"), "not '3--4'"),
        (lambda: Funnel(2, 5), "a funnel has from 3 to"),
        (lambda: Funnel(10, 8), "a funnel of 10 vertices has from 9 to 29 edges, not 8"),
        (lambda: Funnel(10, 30), "from 9 to 29 edges, not 30"),
        (lambda: Hubs(10, 9, 0), "there are from 1 to 9 hubs, not 0"),
        (lambda: Hubs(10, 90, 10), "there are from 1 to 9 hubs, not 10"),
        (lambda: Hubs(10, 17, 2), "a graph of 10 vertices, 2 of them hubs, has from 18 to 74 edges, not 17"),
    ],
)
def test_parameters_that_no_graph_has_are_refused(make, message):
    with pytest.raises(GeneratorError) as refused:
        make()
    assert message in str(refused.value)


def test_descriptions_name_every_parameter():
    assert Rmat(5, 10).describe() == "rmat: scale 5, 10 edges, probabilities 0.57,0.19,0.19,0.05, scrambled ids, seed 1"
    assert Uniform(5, 10).describe() == "uniform: 5 vertices, 10 edges, seed 1"
    assert Theory((3, 4)).describe() == "theory: Theory-3-4-B1k"
    assert Funnel(5, 6).describe() == "skew: funnel, 5 vertices, 6 edges, seed 1"
    assert Hubs(5, 6, 1).describe() == "skew: 1 hubs, 5 vertices, 6 edges, seed 1"
