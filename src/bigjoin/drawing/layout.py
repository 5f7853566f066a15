"""Where the vertices of a small graph lie: the same places every time, no two on top of each other.

Several ways to lay a graph out are tried (a line, a ring, a ring around a hub, distances as in the graph), and the one is taken
that shows it best: few edges cross, edges are about as long as each other, no vertex lies on an edge of others. Then it is
turned and flipped until it stands straight and its edges lead to the right, and stretched until there is room for all texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import ceil, hypot, pi, sin, sqrt
from random import Random
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from bigjoin.drawing.straighten import aligned, straightened

Point: TypeAlias = tuple[float, float]
"""The middle of what lies there, in pixels."""

Extent: TypeAlias = tuple[float, float]
"""The width and the height of something."""

_Ends: TypeAlias = tuple[int, int]

Places: TypeAlias = NDArray[np.float64]
"""A row of two coordinates for each vertex."""

EDGE_LENGTH, SHORTEST_EDGE = 92.0, 50.0
"""The distance of neighbours in a graph of few vertices, and in one of many."""

GAP = 14.0
"""Pixels between two vertices, at least."""

MAX_STRETCH, MAX_LABEL_STRETCH = 4.0, 2.2
"""How much places are stretched at most for vertices, and for labels of edges."""

MAX_LINE = 8
"""Vertices of a path that lie in one row."""

MAX_COMPARED_EDGES = 400
"""Edges up to which crossings are counted."""

MAX_SWAPPED = 16
"""Vertices of a ring up to which it is tried to exchange them, and up to which symmetries are looked for."""

STRESS_ROUNDS = 120
RANDOM_STARTS = 3

COMPONENT_GAP = 40.0
MAX_ROW_WIDTH = 900.0


def placed(extents: Mapping[str, Extent], pairs: Mapping[tuple[str, str], float]) -> dict[str, Point]:
    """Return the places of vertices, given how large they are, which of them are joined, and how wide the label of that is."""
    found: dict[str, Point] = {}
    x = y = row = 0.0
    for names in _components(list(extents), list(pairs)):
        number = {name: i for i, name in enumerate(names)}
        labels = {(number[a], number[b]): label for (a, b), label in pairs.items() if a in number and a != b}
        sizes = np.array([extents[name] for name in names])
        places = _component(len(names), labels, sizes)
        low, high = (places - sizes / 2).min(axis=0), (places + sizes / 2).max(axis=0)
        if x and x + high[0] - low[0] > MAX_ROW_WIDTH:
            x, y, row = 0.0, y + row + COMPONENT_GAP, 0.0
        for name, place in zip(names, places - low + (x, y), strict=True):
            found[name] = (round(float(place[0]), 1), round(float(place[1]), 1))
        x, row = x + float(high[0] - low[0]) + COMPONENT_GAP, max(row, float(high[1] - low[1]))
    return found


def _components(names: list[str], pairs: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Return the vertices in sets that are joined, each in the order given."""
    first = {name: i for i, name in enumerate(names)}

    def root(name: str) -> str:
        while names[first[name]] != name:
            name = names[first[name]]
        return name

    for a, b in pairs:
        low, high = sorted((root(a), root(b)), key=names.index)
        first[high] = first[low]
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(root(name), []).append(name)
    return list(groups.values())


def _component(count: int, labels: Mapping[_Ends, float], sizes: Places) -> Places:
    """Return the places of joined vertices."""
    if count == 1:
        return np.zeros((1, 2))
    ends = list(labels)
    simple = list(dict.fromkeys((min(pair), max(pair)) for pair in ends))
    around = [[b if a == v else a for a, b in simple if v in (a, b)] for v in range(count)]
    places = min(_candidates(count, simple, around), key=lambda places: round(_ugliness(places, simple), 6))
    length = max(SHORTEST_EDGE, EDGE_LENGTH - 2.0 * max(0, count - 4))
    return _with_room(aligned(straightened(places, ends)) * length, labels, sizes)


def _candidates(count: int, ends: list[_Ends], around: list[list[int]]) -> list[Places]:
    """Return ways to lay out joined vertices, in which near ones have about the distance 1."""
    degrees = [len(others) for others in around]
    if len(ends) == count - 1 and max(degrees) <= 2:
        return [_line(_walk(around, degrees.index(1)))]
    order = _walk(around, 0)
    if max(degrees) == min(degrees) and max(degrees) in (2, count - 1):
        return [_ring(order)]
    hub = degrees.index(max(degrees))
    spokes = [v for v in _walk(around, hub) if v != hub]
    starts = [_ring(list(range(count))), _ring(_shorter(order, ends)), _ring_around(hub, _shorter(spokes, ends))]
    random = Random(count)
    scattered = [np.array([[random.random(), random.random()] for _ in range(count)]) * sqrt(count)] * RANDOM_STARTS
    distances = _distances(around)
    return [*starts, *(_stressed(start, distances) for start in (*starts, *scattered))]


def _walk(around: list[list[int]], start: int) -> list[int]:
    """Return the vertices in the order in which a walk finds them that goes on as long as it can."""
    found, left = dict[int, None](), [start]
    while left:
        vertex = left.pop()
        if vertex not in found:
            found[vertex] = None
            left += [other for other in reversed(around[vertex]) if other not in found]
    return list(found)


def _shorter(order: list[int], ends: list[_Ends]) -> list[int]:
    """Return vertices in an order around a circle in which edges are shorter; of many vertices, the order as it is."""
    size = len(order)
    if size > MAX_SWAPPED:
        return order
    reach = [sin(pi * d / size) for d in range(size)]

    def length(order: list[int]) -> float:
        place = {vertex: i for i, vertex in enumerate(order)}
        return round(sum(reach[abs(place[a] - place[b])] for a, b in ends if a in place and b in place), 6)

    best, found = length(order), list(order)
    is_better = True
    while is_better:
        is_better = False
        for i, j in combinations(range(size), 2):
            tried = list(found)
            tried[i], tried[j] = tried[j], tried[i]
            if (now := length(tried)) < best:
                best, found, is_better = now, tried, True
    return found


def _line(order: list[int]) -> Places:
    """Return vertices in a row, or in rows that lead to and fro."""
    places = np.zeros((len(order), 2))
    width = len(order) if len(order) <= MAX_LINE else ceil(len(order) / ceil(len(order) / MAX_LINE))
    for i, vertex in enumerate(order):
        row, column = divmod(i, width)
        places[vertex] = (column if row % 2 == 0 else width - 1 - column, row)
    return places


def _ring(order: list[int], first: float = -pi / 2) -> Places:
    """Return vertices in a circle, the first at the top."""
    places = np.zeros((len(order), 2))
    radius = 0.5 / np.sin(pi / max(2, len(order)))
    for i, vertex in enumerate(order):
        angle = first + 2 * pi * i / len(order)
        places[vertex] = (radius * np.cos(angle), radius * np.sin(angle))
    return places


def _ring_around(hub: int, order: list[int]) -> Places:
    """Return vertices in a circle around one of them."""
    number = {vertex: i for i, vertex in enumerate(order)}
    ring = _ring(list(range(len(order))))
    scale = max(1.0, 1.0 / max(0.1, float(np.hypot(*ring[0])))) if len(order) else 1.0
    places = np.zeros((len(order) + 1, 2))
    for vertex, i in number.items():
        places[vertex] = ring[i] * scale
    places[hub] = 0.0
    return places


def _distances(around: list[list[int]]) -> Places:
    """Return how many edges lie between each two vertices."""
    count = len(around)
    found = np.full((count, count), np.inf)
    for start in range(count):
        found[start, start], level, depth = 0.0, [start], 0
        while level:
            depth += 1
            level = list(dict.fromkeys(w for v in level for w in around[v] if np.isinf(found[start, w])))
            found[start, level] = depth
    return found


def _stressed(start: Places, distances: Places) -> Places:
    """Return places whose distances are as in the graph as nearly as possible (stress majorization)."""
    count = len(start)
    weights = 1.0 / np.maximum(distances, 1.0) ** 2
    np.fill_diagonal(weights, 0.0)
    laplacian = np.diag(weights.sum(axis=1)) - weights
    inverse = np.linalg.pinv(laplacian)
    places = start.astype(np.float64)
    for _ in range(STRESS_ROUNDS):
        apart = places[:, None] - places[None, :]
        lengths = np.maximum(np.hypot(apart[..., 0], apart[..., 1]), 1e-6)
        pull = -weights * distances / lengths
        np.fill_diagonal(pull, 0.0)
        np.fill_diagonal(pull, -pull.sum(axis=1))
        moved = inverse @ (pull @ places)
        if count == 0 or np.abs(moved - places).max() < 1e-5:
            break
        places = moved
    return places


def _ugliness(places: Places, ends: list[_Ends]) -> float:
    """Return how badly places show a graph."""
    first, last = places[[a for a, _ in ends]], places[[b for _, b in ends]]
    lengths = np.hypot(*(first - last).T)
    if lengths.min() < 1e-3:
        return float("inf")
    apart = places[:, None] - places[None, :]
    distances = np.hypot(apart[..., 0], apart[..., 1])
    nearest = np.median((distances + np.diag(np.full(len(places), np.inf))).min(axis=1))
    unit = min(np.median(lengths), 1.3 * nearest)  # edges around a hub are long if there are many of them
    crowded = np.maximum(0.0, 0.7 - distances[np.triu_indices(len(places), 1)] / unit).sum() * 4.0
    uneven = float(lengths.std() / lengths.mean()) * 2.0
    if len(ends) > MAX_COMPARED_EDGES:
        return float(crowded + uneven)
    on_edges = np.maximum(0.0, 0.3 - _from_edges(places, ends) / unit).sum() * 6.0
    axes = _axes(places, ends) if len(places) <= MAX_SWAPPED else 0
    symmetry = 0.4 * (axes > 0) + 0.15 * min(6, axes)
    return float(crowded + uneven + on_edges + 1.2 * _crossings(places, ends) / sqrt(len(ends)) - symmetry)


def _axes(places: Places, ends: list[_Ends]) -> int:
    """Return in how many lines a drawing can be mirrored."""
    centred = places - places.mean(axis=0)
    size = float(np.abs(centred).max())
    middles = [(centred[a] + centred[b]) / 2 for a, b in combinations(range(len(places)), 2)]
    angles = {round(float(np.arctan2(y, x) % pi), 3) for x, y in (*centred, *middles) if hypot(x, y) > 0.05 * size}
    joined, found = set(ends) | {(b, a) for a, b in ends}, 0
    for angle in sorted(angles):
        mirror = np.array([[np.cos(2 * angle), np.sin(2 * angle)], [np.sin(2 * angle), -np.cos(2 * angle)]])
        apart = (centred @ mirror.T)[:, None] - centred[None, :]
        distances = np.hypot(apart[..., 0], apart[..., 1])
        image = distances.argmin(axis=1)
        found += bool(distances.min(axis=1).max() < 0.06 * size and all((image[a], image[b]) in joined for a, b in ends))
    return found


def _from_edges(places: Places, ends: list[_Ends]) -> Places:
    """Return how far each vertex is from each edge that it is no end of."""
    first, last = places[[a for a, _ in ends]], places[[b for _, b in ends]]
    along = last - first
    share = np.clip(((places[:, None] - first) * along).sum(axis=2) / (along**2).sum(axis=1), 0.0, 1.0)
    nearest = first + share[..., None] * along
    away = places[:, None] - nearest
    found = np.hypot(away[..., 0], away[..., 1])
    for e, pair in enumerate(ends):
        found[list(pair), e] = np.inf
    return np.asarray(found)


def _crossings(places: Places, ends: list[_Ends]) -> int:
    """Return how many pairs of edges cross."""
    a, b = (places[[pair[side] for pair in ends]] for side in (0, 1))

    def side(p: Places, q: Places, r: Places) -> Places:
        """Tell on which side of each line from p to q each r lies."""
        across = (q - p)[:, None, :]
        away = r[None, :, :] - p[:, None, :]
        return np.asarray(np.sign(np.round(across[..., 0] * away[..., 1] - across[..., 1] * away[..., 0], 9)))

    separated = side(a, b, a) * side(a, b, b) < 0
    return int(np.triu(separated & separated.T, 1).sum())


def _with_room(places: Places, labels: Mapping[_Ends, float], sizes: Places) -> Places:
    """Return places stretched until nothing overlaps: sideways first, where texts are wide."""
    count = len(places)
    need = (sizes[:, None] + sizes[None, :]) / 2 + GAP
    first, second = np.triu_indices(count, 1)
    is_wide = float(sizes[:, 0].mean()) > 1.4 * float(sizes[:, 1].mean())
    scale = np.ones(2)
    for _ in range(64):
        gaps = np.abs(places[first] - places[second]) * scale - need[first, second]
        is_free = bool((gaps.max(axis=1) >= 0).all())
        if is_free and (scale[0] > MAX_LABEL_STRETCH or _have_room(labels, places * scale, sizes)):
            return places * scale
        if scale[0] > MAX_STRETCH:
            break
        scale *= (1.08, 1.02) if is_wide else (1.06, 1.06)
    gaps = np.abs(places[first] - places[second]) * scale - need[first, second]
    return places * scale if (gaps.max(axis=1) >= 0).all() else _in_a_grid(places, sizes)


def _have_room(labels: Mapping[_Ends, float], places: Places, sizes: Places) -> bool:
    """Tell whether each label fits on its edge."""
    for (a, b), label in labels.items():
        dx, dy = np.abs(places[a] - places[b])
        slant = dx / max(1e-6, hypot(dx, dy))
        wanted = slant * (label + sizes[[a, b], 0].sum() / 2 + 22) + (1 - slant) * 64
        if label and hypot(dx, dy) < wanted:
            return False
    return True


def _in_a_grid(places: Places, sizes: Places) -> Places:
    """Return the cells of a grid, filled from above and from the left in the order of places."""
    count = len(places)
    width, height = sizes.max(axis=0) + GAP
    columns = max(1, round(sqrt(count * height / width)))
    rows = ceil(count / columns)
    found = np.zeros((count, 2))
    by_height = sorted(range(count), key=lambda v: (places[v][1], places[v][0], v))
    for row in range(rows):
        members = sorted(by_height[row * columns : (row + 1) * columns], key=lambda v: (places[v][0], v))
        for column, vertex in enumerate(members):
            found[vertex] = ((column + 0.35 * (row % 2)) * width, row * height * 1.4)
    return found


def overlapping(extents: Mapping[str, Extent], places: Mapping[str, Point]) -> list[tuple[str, str]]:
    """Return the pairs of vertices that overlap."""
    found = []
    for a, b in combinations(extents, 2):
        apart = [abs(places[a][axis] - places[b][axis]) >= (extents[a][axis] + extents[b][axis]) / 2 - 0.2 for axis in (0, 1)]
        if not any(apart):
            found.append((a, b))
    return found
